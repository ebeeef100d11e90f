package main

import (
	"encoding/json"
	"strings"
	"testing"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

// From the command line: how the apps stand, a link, the consent, and the end of an account.
func TestConnectionsVerbs(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	accounts, err := gatewaytest.StartPortal(g, gatewaytest.PortalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accounts.Close() })
	env := append([]string{"TOOLSEARCH_TOOLS_CONNECTORS_ACCOUNTS=" + accounts.URL()}, tokenEnv...)
	_, url := serving(t, env, "--gateway", g.URL())
	verb := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := runs(t, nil, append([]string{"connections"}, append(args, "--nats", url)...)...)
		if code != want {
			t.Fatalf("%v: exit code %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out
	}
	if out := verb(0, "status"); !strings.Contains(out, "not_connected") || !strings.Contains(out, "disabled") {
		t.Error(out)
	}
	var got subjects.ConnectionsOutcome
	if err := json.Unmarshal([]byte(verb(0, "connect", "chat", "--json")), &got); err != nil || got.Targets[0].ConnectURL == "" {
		t.Fatal(err, got)
	}
	if err := gatewaytest.Consent(t.Context(), got.Targets[0].ConnectURL, true); err != nil {
		t.Fatal(err)
	}
	if out := verb(0, "connect", "chat"); !strings.Contains(out, "connected") {
		t.Error(out)
	}
	var list subjects.AccountsReply
	if err := json.Unmarshal([]byte(verb(0, "accounts", "--json")), &list); err != nil || len(list.Accounts) == 0 {
		t.Fatal(err, list)
	}
	if out := verb(0, "disconnect", list.Accounts[0].ConnectionID); !strings.Contains(out, accounts.Audits()[0].ID) {
		t.Error(out)
	}
	for _, args := range [][]string{{"disconnect", "ca_none"}, {"connect", "nothing"}, {"install", "git"}, {"answer", "continue"}} {
		verb(1, args...)
	}
	verb(2, "rename", "mail", "chat", "--alias", "x")
}
