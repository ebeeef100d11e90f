package connectors_test

import (
	"context"
	"fmt"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
)

// A gateway in the same process stands for a real one.
func gateway(server *gatewaytest.Gateway) *connectors.Gateway {
	origin, err := connectors.ParseOrigin(server.URL())
	if err != nil {
		panic(err)
	}
	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: connectors.Shared("a-token")})
	if err != nil {
		panic(err)
	}
	g, err := connectors.NewGateway(client, connectors.GatewayOptions{})
	if err != nil {
		panic(err)
	}
	return g
}

func ExampleGateway_Search() {
	server, err := gatewaytest.Start(gatewaytest.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	g := gateway(server)
	defer g.Close()

	remote := g.Search(context.Background(), "acme", []string{"create calendar event"})
	fmt.Println(remote.Groups[0][0].Name, remote.Groups[0][0].Required)
	// Output: connectors__calendar__CREATE_EVENT [title start]
}

func ExampleGateway_Execute() {
	server, err := gatewaytest.Start(gatewaytest.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	g := gateway(server)
	defer g.Close()

	// The answer to the first attempt is lost after the mail was sent. The second asks under the same key.
	server.Fault(gatewaytest.Fault{Kind: gatewaytest.Drop, AfterEffect: true, Times: 1})
	name := "connectors__mail__SEND_EMAIL"
	parsed, _ := connectors.ParseName(name)
	r := g.Execute(context.Background(), connectors.Execution{
		Tenant: "acme", Name: name, Parsed: parsed,
		Arguments: []byte(`{"to":"ada@example.org","subject":"Hello"}`),
		Key:       func(slug string) string { return "nonce-0-" + slug },
	})
	fmt.Println(r.Outcome, r.Attempts, len(server.Effects()))
	// Output: ok 2 1
}

func ExampleParseName() {
	name, ok := connectors.ParseName("connectors__mail__SEND_EMAIL")
	fmt.Println(name.Connector, name.Tool, name.Slugs(), ok)
	// Output: mail SEND_EMAIL [MAIL_SEND_EMAIL SEND_EMAIL] true
}
