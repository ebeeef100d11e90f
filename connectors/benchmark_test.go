package connectors

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"toolsearch/connectors/gatewaytest"
)

// What an execution adds to the HTTP request itself: BenchmarkExecute against BenchmarkPlainClient in the same run.
func BenchmarkExecute(b *testing.B) {
	server := benchServer(b)
	origin, err := ParseOrigin(server.URL())
	if err != nil {
		b.Fatal(err)
	}
	client, err := NewClient(ClientOptions{Origin: origin, Tokens: Shared("tok")})
	if err != nil {
		b.Fatal(err)
	}
	g, err := NewGateway(client, GatewayOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	e := execution("connectors__echo__READ", `{"to":"a@example.org","subject":"hello"}`)
	for b.Loop() {
		if r := g.Execute(b.Context(), e); r.Result.Error != nil {
			b.Fatal(r.Result.Error)
		}
	}
}

func BenchmarkPlainClient(b *testing.B) {
	server := benchServer(b)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	body := []byte(`{"tools":[{"connector":"echo","tool":"ECHO_READ","arguments":{"to":"a@example.org","subject":"hello"}}]}`)
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL()+"/v1/connectors/execute", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer tok")
		resp, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}

func benchServer(b *testing.B) *gatewaytest.Gateway {
	server, err := gatewaytest.Start(gatewaytest.Options{Keep: 1, Apps: []gatewaytest.App{
		{Connector: "echo", Tools: []gatewaytest.Tool{{Slug: "ECHO_READ", ReadOnly: true}}}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	return server
}
