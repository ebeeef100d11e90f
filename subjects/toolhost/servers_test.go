package toolhost_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
)

// A host that owns local servers says so in its list, and works on one of them under manage_connections.
func TestServersAreAnnouncedAndManaged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	nc := b.connect()
	asked := ""
	h, err := toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "laptop",
		Servers: func(_ context.Context, action, server string, _ toolhost.Request) (toolhost.ServerState, error) {
			asked += action + " " + server + ";"
			return toolhost.ServerState{State: subjects.ConnectionConnected, Tools: json.RawMessage(`["a"]`)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Stop(context.Background()) //nolint:errcheck // the test is over
	m, err := nc.Request(subjects.DefaultRoot.Host("acme", "laptop", subjects.HostList), nil, patience)
	if err != nil || string(m.Data) != `{"tools":[],"local_servers":true}` {
		t.Errorf("list: %v %s", err, m.Data)
	}
	ask := func(key, arguments string) string {
		body := `{"call_id":"c","index":0,"name":"manage_connections","idempotency_key":"` + key + `","arguments":` + arguments + `}`
		m, err := nc.Request(subjects.DefaultRoot.Host("acme", "laptop", subjects.HostCall), []byte(body), patience)
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Data)
	}
	one := `{"action":"install","connectors":[{"name":"git","mcp":true}]}`
	for range 2 {
		if got := ask("k1", one); got != `{"result":{"state":"connected","tools":["a"]}}` {
			t.Error(got)
		}
	}
	if asked != "install git;" {
		t.Errorf("the host was asked %q, want once", asked)
	}
	if got := ask("k2", `{"action":"install","connectors":["git","mail"]}`); !strings.Contains(got, "one local server at a time") {
		t.Error(got)
	}
}
