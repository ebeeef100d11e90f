package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/connectors/portal"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
)

// linked is a worker with a gateway and an account service.
type linkedBundle struct {
	*bundle
	gateway *gatewaytest.Gateway
	portal  *gatewaytest.Portal
	session *subjects.Session
}

func linkedSetup(t *testing.T, o Options, p gatewaytest.PortalOptions) *linkedBundle {
	t.Helper()
	g, gw := gateway(t)
	service, err := gatewaytest.StartPortal(g, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { service.Close() })
	origin, err := connectors.ParseOrigin(service.URL())
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := portal.New(portal.Options{Origin: origin, Tokens: connectors.Static{"acme": "hush"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(accounts.Close)
	o.Connectors, o.Accounts = gw, accounts
	b := setup(t, o)
	client, err := subjects.NewClient(b.nc, subjects.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &linkedBundle{b, g, service, client.Session("acme", "s1")}
}

// scope assembles a session with connectors on a surface.
func (b *linkedBundle) scope(surface subjects.Surface) subjects.Scope {
	b.t.Helper()
	yes := true
	got, err := b.session.Assemble(b.t.Context(), &subjects.AssembleRequest{Tools: json.RawMessage(callTools), Connectors: &yes, Surface: surface})
	if err != nil {
		b.t.Fatal(err)
	}
	if shown := strings.Contains(string(got.Raw), "manage_connections\",\"description"); shown != (surface != subjects.SurfaceSide) {
		b.t.Errorf("surface %s: manage_connections shown is %v", surface, shown)
	}
	return subjects.Handle(got.Scope)
}

func (b *linkedBundle) manage(scope subjects.Scope, id, arguments string) *subjects.Linked {
	b.t.Helper()
	got, err := b.session.Connections(b.t.Context(), subjects.CallRequest{Scope: scope, CallID: id, Arguments: json.RawMessage(arguments)})
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// A batch needs an account; the error leads to a link in one step, the user consents, the batch goes through.
func TestFromAMissingConnectionToAWorkingCall(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	scope := b.scope(subjects.SurfaceLink)
	post := `{"calls":[{"name":"connectors__chat__POST_MESSAGE","arguments":{"channel":"c","text":"hello"}}]}`
	got, err := b.session.Call(t.Context(), subjects.CallRequest{Scope: scope, Arguments: json.RawMessage(post)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	missing := got.Batch.Results[0].Error
	if missing.Code != subjects.EntryConnectionRequired || missing.Connector != "chat" {
		t.Fatalf("%+v", missing)
	}
	linked := b.manage(scope, "link", fmt.Sprintf(`{"action":"connect","connectors":[%q]}`, missing.Connector))
	if linked.Outcome == nil || linked.Outcome.Status != "initiated" || linked.Outcome.Targets[0].ConnectURL == "" {
		t.Fatalf("%s", linked.Raw)
	}
	// Asked again under its id, the same link, and no second start.
	if again := b.manage(scope, "link", fmt.Sprintf(`{"action":"connect","connectors":[%q]}`, missing.Connector)); string(again.Raw) != string(linked.Raw) {
		t.Errorf("again:\n%s\n%s", again.Raw, linked.Raw)
	}
	if err := gatewaytest.Consent(t.Context(), linked.Outcome.Targets[0].ConnectURL, true); err != nil {
		t.Fatal(err)
	}
	status := b.manage(scope, "", `{"connectors":["chat","mial"]}`).Status
	if status == nil || len(status.Connectors) != 1 || !status.Connectors[0].Connected || status.Unknown[0].DidYouMean[0] != "mail" {
		t.Errorf("%+v", status)
	}
	got, err = b.session.Call(t.Context(), subjects.CallRequest{Scope: scope, Arguments: json.RawMessage(post)}, nil)
	if err != nil || got.Batch.SuccessCount != 1 {
		t.Errorf("%s, %v", got.Raw, err)
	}
}

// A card, from the call that waits to the buttons of the interface, over the client.
func TestACardOverTheBus(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	b.gateway.Link("acme", "mail", false)
	scope := b.scope(subjects.SurfaceCard)
	cards, err := b.session.Cards(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *subjects.Linked, 1)
	go func() {
		got, err := b.session.Connections(t.Context(), subjects.CallRequest{Scope: scope, CallID: "card", Arguments: json.RawMessage(`{"action":"connect","connectors":["chat","mail"]}`)})
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	drawn := false
	for e, err := range cards {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event == subjects.EventCardSettled {
			break
		}
		if drawn || e.Targets[0].ConnectURL == "" || e.Targets[1].ConnectURL == "" {
			continue
		}
		drawn = true
		busy := b.manage(scope, "other", `{"action":"connect","connectors":["chat"]}`)
		if busy.Mistake == nil || !strings.Contains(busy.Mistake.Message, "card") {
			t.Errorf("a second one: %s", busy.Raw)
		}
		if r, err := b.session.Answer(t.Context(), subjects.AnswerRequest{Operation: "card", Answer: subjects.AnswerSkip, Name: "mail"}); err != nil || !r.Accepted {
			t.Errorf("skip: %+v, %v", r, err)
		}
		if err := gatewaytest.Consent(t.Context(), e.Targets[0].ConnectURL, false); err != nil {
			t.Fatal(err)
		}
	}
	got := await(t, done, "the card's call")
	if got.Outcome == nil || got.Outcome.Targets[0].State != subjects.ConnectionFailed || got.Outcome.Targets[1].State != subjects.ConnectionSkipped ||
		got.Outcome.SettledBy != subjects.SettledAllResolved || strings.Contains(string(got.Raw), "/connect/") {
		t.Errorf("%s", got.Raw)
	}
	if now, err := b.session.Operation(t.Context()); err != nil || now.Card == nil || now.Card.Event != subjects.EventCardSettled {
		t.Errorf("%+v, %v", now, err)
	}
}

// A worker that drains while a card is open: the same call, at another worker, comes to the card's end.
func TestACardOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{OperationLease: time.Minute}, gatewaytest.PortalOptions{})
	scope := b.scope(subjects.SurfaceCard)
	cards, err := b.session.Cards(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan *subjects.Linked, 1)
	go func() {
		got, err := b.session.Connections(t.Context(), subjects.CallRequest{Scope: scope, CallID: "card", Arguments: json.RawMessage(`{"action":"connect","connectors":["chat"]}`)})
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	for e, err := range cards {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event == subjects.EventCardSettled {
			break
		}
		if e.Targets[0].ConnectURL == "" {
			continue
		}
		b.bundle.worker(Options{Connectors: b.w.opts.Connectors, OperationLease: time.Minute})
		if err := b.w.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := gatewaytest.Consent(t.Context(), e.Targets[0].ConnectURL, true); err != nil {
			t.Fatal(err)
		}
	}
	if got := await(t, done, "the card's call"); got.Outcome == nil || got.Outcome.Targets[0].State != subjects.ConnectionConnected {
		t.Errorf("%s", got.Raw)
	}
}

// Who may not connect is told what to do instead.
func TestWhoMayNotManageConnections(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	if got := b.manage(b.scope(subjects.SurfaceSide), "", `{}`); got.Mistake == nil || got.Mistake.Message != connectors.TextSide {
		t.Errorf("side: %s", got.Raw)
	}
	none, err := b.session.Assemble(t.Context(), &subjects.AssembleRequest{Tools: json.RawMessage(callTools)})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.manage(subjects.Handle(none.Scope), "", `{}`); got.Mistake == nil || got.Mistake.Message != connectors.TextNoConnectors {
		t.Errorf("not granted: %s", got.Raw)
	}
	link := b.scope(subjects.SurfaceLink)
	if got := b.manage(link, "", `{"action":"disconnect","connectors":["mail"]}`); got.Mistake == nil || !strings.Contains(got.Mistake.Message, "Only the user") {
		t.Errorf("disconnect: %s", got.Raw)
	}
	if got := b.manage(link, "", `{"action":"install","connectors":[{"name":"git","mcp":true}]}`); got.Mistake == nil || !strings.Contains(got.Mistake.Message, "No host") {
		t.Errorf("no host: %s", got.Raw)
	}
}

// Every state of the sign-in, and what each shows in status, connect, search and call.
func TestSignInStates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  *gatewaytest.Fault
		tokens connectors.Tokens
		off    bool
		search string // of the connectors condition
		call   subjects.EntryCode
	}{
		"disabled":    {off: true, call: subjects.EntryToolNotFound},
		"signed_out":  {tokens: connectors.Static{}, call: subjects.EntryToolNotFound},
		"dark":        {fault: &gatewaytest.Fault{Kind: gatewaytest.Status, Status: 404}, call: subjects.EntryToolNotFound},
		"not_enabled": {fault: &gatewaytest.Fault{Kind: gatewaytest.Status, Status: 403}, call: subjects.EntryProviderError},
		"expired":     {fault: &gatewaytest.Fault{Kind: gatewaytest.Status, Status: 401}, search: "sign_in_expired", call: subjects.EntryProviderError},
		"not_set_up":  {tokens: tokensFailing{connectors.ErrNotSetUp}, search: "not_set_up", call: subjects.EntryProviderError},
		"unreachable": {fault: &gatewaytest.Fault{Kind: gatewaytest.Status, Status: 418}, search: "unreachable", call: subjects.EntryProviderError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := gatewaytest.Start(gatewaytest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { g.Close() })
			if c.fault != nil {
				g.Fault(*c.fault)
			}
			if c.tokens == nil {
				c.tokens = connectors.Shared("token")
			}
			origin, _ := connectors.ParseOrigin(g.URL())
			client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: c.tokens})
			if err != nil {
				t.Fatal(err)
			}
			gw, err := connectors.NewGateway(client, connectors.GatewayOptions{Disabled: c.off})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(gw.Close)
			b := &linkedBundle{bundle: setup(t, Options{Connectors: gw})}
			cl, err := subjects.NewClient(b.nc, subjects.ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			b.session = cl.Session("acme", "s1")
			scope := b.scope(subjects.SurfaceLink)
			status := b.manage(scope, "", `{}`).Status
			if status == nil || status.Reason != name || status.Hint == "" || len(status.Connectors) != 0 {
				t.Errorf("status: %+v", status)
			}
			connect := b.manage(scope, "", `{"action":"connect","connectors":["chat"]}`)
			told := string(connect.Raw)
			if !strings.Contains(told, strings.SplitN(status.Hint, ".", 2)[0]) || connect.Outcome != nil && connect.Outcome.Targets[0].State != subjects.ConnectionFailed {
				t.Errorf("connect: %s", told)
			}
			found, err := b.session.Search(t.Context(), scope, json.RawMessage(`{"queries":["send mail"]}`))
			if err != nil {
				t.Fatal(err)
			}
			if cond := found.Connectors; (cond == nil) != (c.search == "") || cond != nil && cond.Reason != c.search && cond.Status != c.search {
				t.Errorf("search: %s", found.Raw)
			}
			got, err := b.session.Call(t.Context(), subjects.CallRequest{Scope: scope,
				Arguments: json.RawMessage(`{"calls":[{"name":"connectors__mail__FETCH_EMAILS","arguments":{}}]}`)}, nil)
			if err != nil || got.Batch == nil || got.Batch.Results[0].Error.Code != c.call {
				t.Errorf("call: %s, %v", got.Raw, err)
			}
		})
	}
}

// tokensFailing is a source that answers with an error.
type tokensFailing struct{ err error }

func (f tokensFailing) Token(context.Context, string) (string, error) { return "", f.err }

// The accounts are listed and ended at the account service alone, and what it refuses passes through.
func TestAccountsOfAnInterface(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	list, err := b.session.Accounts(t.Context(), "")
	if err != nil || len(list.Accounts) == 0 || list.ETag == "" {
		t.Fatalf("%+v, %v", list, err)
	}
	if same, err := b.session.Accounts(t.Context(), list.ETag); err != nil || !same.NotModified || same.Accounts != nil {
		t.Errorf("%+v, %v", same, err)
	}
	id := list.Accounts[0].ConnectionID
	ended, err := b.session.Disconnect(t.Context(), id)
	if err != nil || !ended.Disconnected || ended.AuditID != b.portal.Audits()[0].ID {
		t.Errorf("%+v, %v", ended, err)
	}
	if again, err := b.session.Disconnect(t.Context(), id); err != nil || again.Disconnected || again.Refusal.Code != "ACCOUNT_NOT_FOUND" {
		t.Errorf("%+v, %v", again, err)
	}
	if after, err := b.session.Accounts(t.Context(), list.ETag); err != nil || after.NotModified || len(after.Accounts) != len(list.Accounts)-1 {
		t.Errorf("%+v, %v", after, err)
	}
	for _, account := range list.Accounts[1:] {
		if _, err := b.session.Disconnect(t.Context(), account.ConnectionID); err != nil {
			t.Fatal(err)
		}
	}
	if none, err := b.session.Accounts(t.Context(), ""); err != nil || none.Accounts == nil || len(none.Accounts) != 0 || none.Refusal != nil {
		t.Errorf("of none: %+v, %v", none, err)
	}
	before := b.gateway.RequestCount()
	b.portal.Close()
	if gone, err := b.session.Accounts(t.Context(), ""); err != nil || gone.Refusal.Code != subjects.RefusalUnreachable {
		t.Errorf("%+v, %v", gone, err)
	}
	if gone, err := b.session.Disconnect(t.Context(), "ca_1"); err != nil || gone.Disconnected || gone.Refusal.Code != subjects.RefusalUnreachable {
		t.Errorf("%+v, %v", gone, err)
	}
	if n := b.gateway.RequestCount(); n != before {
		t.Errorf("%d requests fell back to the gateway", n-before)
	}
}

func TestAStrangerDisconnectsNothing(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{Strangers: []string{"acme"}})
	list, err := b.session.Accounts(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.session.Disconnect(t.Context(), list.Accounts[0].ConnectionID)
	if err != nil || got.Disconnected || got.Refusal.Code != "NOT_A_MEMBER" || got.AuditID == "" || got.AuditID != b.portal.Audits()[0].ID {
		t.Errorf("%+v, %v", got, err)
	}
	out := setup(t, Options{}) // a worker without an account service
	client, err := subjects.NewClient(out.nc, subjects.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Session("acme", "s1").Accounts(t.Context(), ""); err != nil || got.Refusal.Code != subjects.RefusalNotConfigured {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRename(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	scope := b.scope(subjects.SurfaceLink)
	b.gateway.SetAccount("acme", "mail", "work", "active", "")
	if got := b.manage(scope, "", `{"action":"rename","connectors":{"name":"mail","alias":"work","to":"office"}}`); string(got.Raw) != `{"renamed": true, "name": "mail", "alias": "office", "was": "work"}` {
		t.Errorf("%s", got.Raw)
	}
	if got := b.manage(scope, "", `{"action":"rename","connectors":{"name":"mail","alias":"work","to":"home"}}`); got.Mistake == nil || !strings.Contains(got.Mistake.Message, `"alias": "office"`) {
		t.Errorf("%s", got.Raw)
	}
	b.portal.Close()
	if got := b.manage(scope, "", `{"action":"rename","connectors":{"name":"mail","alias":"office","to":"home"}}`); got.Mistake == nil || !strings.Contains(got.Mistake.Message, "was not renamed") {
		t.Errorf("%s", got.Raw)
	}
}

// Local servers are worked on by the host that announces that it owns them.
func TestLocalServersOfAHost(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	host, err := toolhost.Serve(b.dial(), toolhost.Options{Tenant: "acme", Host: "desk",
		Servers: func(_ context.Context, action, server string, r toolhost.Request) (toolhost.ServerState, error) {
			if server == "sick" {
				return toolhost.ServerState{}, &toolhost.Error{Code: subjects.EntryToolError, Message: "sick cannot be installed"}
			}
			return toolhost.ServerState{State: subjects.ConnectionConnected, Detail: action, Tools: json.RawMessage(`["mcp__git__log"]`)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Stop(context.Background()) })
	for _, surface := range []subjects.Surface{subjects.SurfaceLink, subjects.SurfaceCard} {
		got := b.manage(b.scope(surface), "", `{"action":"install","connectors":[{"name":"git","mcp":true},{"name":"sick","mcp":true}]}`)
		if got.Outcome == nil || got.Outcome.Targets[0].State != subjects.ConnectionConnected || string(got.Outcome.Targets[0].Tools) != `["mcp__git__log"]` ||
			got.Outcome.Targets[1].State != subjects.ConnectionFailed || got.Outcome.Targets[1].Detail != "sick cannot be installed" {
			t.Errorf("%s: %s", surface, got.Raw)
		}
	}
	if n := b.gateway.RequestCount(); n != 0 {
		t.Errorf("the gateway was asked %d times", n)
	}
}

// What an interface sends wrongly is told by its field.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	for body, field := range map[string]string{`x`: "body", `[]`: "body", `{}`: "op_id", `{"op_id":"a","answer":"x"}`: "answer",
		`{"op_id":"a","answer":"skip"}`: "name", `{"op_id":7}`: "op_id"} {
		m := b.ask(subjects.VerbAnswer, body)
		if err := subjects.ReplyError(m.Header, m.Data); err == nil || !strings.Contains(string(m.Data), `"field":"`+field+`"`) {
			t.Errorf("%s: %s", body, m.Data)
		}
	}
	m := b.ask(subjects.VerbDisconnect, `{}`)
	if err := subjects.ReplyError(m.Header, m.Data); err == nil {
		t.Errorf("%s", m.Data)
	}
}

// What a host says of its servers is bounded, so that the record of the operation can always be kept.
func TestALocalServerWithMuchToSay(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	much := strings.Repeat("x", 400<<10)
	host, err := toolhost.Serve(b.dial(), toolhost.Options{Tenant: "acme", Host: "desk",
		Servers: func(_ context.Context, _, server string, _ toolhost.Request) (toolhost.ServerState, error) {
			switch server {
			case "tools":
				return toolhost.ServerState{State: subjects.ConnectionConnected, Tools: json.RawMessage(`["` + much + `"]`)}, nil
			case "detail":
				return toolhost.ServerState{State: subjects.ConnectionConnected, Detail: much}, nil
			case "link":
				return toolhost.ServerState{State: subjects.ConnectionInitiated, ConnectURL: "https://x.example/" + much}, nil
			}
			return toolhost.ServerState{}, &toolhost.Error{Code: subjects.EntryToolError, Message: much}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Stop(context.Background()) })
	for _, surface := range []subjects.Surface{subjects.SurfaceLink, subjects.SurfaceCard} {
		got := b.manage(b.scope(surface), "", `{"action":"install","connectors":[{"name":"tools","mcp":true},{"name":"detail","mcp":true},{"name":"link","mcp":true},{"name":"error","mcp":true}]}`)
		if got.Outcome == nil || len(got.Raw) > 64<<10 {
			t.Fatalf("%s: %d bytes: %.500s", surface, len(got.Raw), got.Raw)
		}
		for i, want := range []subjects.ConnectionState{subjects.ConnectionConnected, subjects.ConnectionConnected, subjects.ConnectionFailed, subjects.ConnectionFailed} {
			if got := got.Outcome.Targets[i]; got.State != want || i == 0 && (got.Tools != nil || got.Detail == "") {
				t.Errorf("%s: %s is %s: %.200s", surface, got.Name, got.State, got.Detail)
			}
		}
	}
}

// Whatever an interface sends, the answer is the contract's, and nothing of it reaches the account service.
func TestBadInputOfAnInterface(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	type wrong struct {
		verb        subjects.Verb
		body, field string
	}
	var cases []wrong
	for _, verb := range []subjects.Verb{subjects.VerbAnswer, subjects.VerbOperation, subjects.VerbAccounts, subjects.VerbDisconnect, subjects.VerbConnections} {
		for _, body := range []string{"hello", `{"a":`, "[]", "null", "7", `"x"`, "{} {}", "\xef\xbb\xbf{}", "{\"etag\":\"\xc3\x28\"}",
			strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)} {
			cases = append(cases, wrong{verb, body, "body"})
		}
	}
	long := strings.Repeat("x", 900_000)
	cases = append(cases,
		wrong{subjects.VerbAnswer, "", "body"}, wrong{subjects.VerbDisconnect, "", "body"}, wrong{subjects.VerbConnections, "", "body"},
		wrong{subjects.VerbConnections, `{"arguments":{}}`, "scope"},
		wrong{subjects.VerbConnections, `{"scope":{"tools":[]},"call_id":"a\u0000b","arguments":{}}`, "call_id"},
		wrong{subjects.VerbConnections, `{"scope":{"tools":[],"connectors":true},"arguments":[[[]]]}`, "arguments"},
		wrong{subjects.VerbConnections, `{"scope":{"tools":[],"connectors":true,"enabled_toolsets":[null]},"arguments":{}}`, "scope.enabled_toolsets[0]"},
		wrong{subjects.VerbAccounts, `{"etag":5}`, "etag"}, wrong{subjects.VerbAccounts, `{"etag":"a\r\nX: y"}`, "etag"},
		wrong{subjects.VerbAccounts, `{"etag":"a\u0000"}`, "etag"}, wrong{subjects.VerbAccounts, `{"etag":"` + long + `"}`, "etag"},
		wrong{subjects.VerbDisconnect, `{"connection_id":null}`, "connection_id"}, wrong{subjects.VerbDisconnect, `{"connection_id":[]}`, "connection_id"},
		wrong{subjects.VerbDisconnect, `{"connection_id":".."}`, "connection_id"}, wrong{subjects.VerbDisconnect, `{"connection_id":" "}`, "connection_id"},
		wrong{subjects.VerbDisconnect, `{"connection_id":"a\u0000b"}`, "connection_id"},
		wrong{subjects.VerbDisconnect, `{"connection_id":"` + long + `"}`, "connection_id"})
	for _, c := range cases {
		e := fails(t, b.ask(c.verb, c.body))
		if e.Code != subjects.CodeBadRequest || e.Details["field"] != c.field {
			t.Errorf("%s %.60q: %v, field %v, want %s", c.verb, c.body, e, e.Details["field"], c.field)
		}
	}
	if n := b.portal.Asked(); n != 0 {
		t.Errorf("the account service was asked %d times", n)
	}
	// What has the form of a request, and names nothing that there is. The last of two equal keys counts.
	for _, body := range []string{`{"op_id":"a\u0000b","answer":"skip","name":"chat"}`, `{"op_id":"` + long + `","answer":"continue"}`,
		`{"op_id":"a","answer":"continue","op_id":"b"}`, `{"op_id":"x","answer":"retry","name":"","name":"` + long[:1000] + `"}`} {
		var reply subjects.AnswerReply
		if err := json.Unmarshal(ok(t, b.ask(subjects.VerbAnswer, body)), &reply); err != nil || reply.Refusal == nil || reply.Refusal.Code != subjects.RefusalUnknownOperation {
			t.Errorf("%.60q: %+v, %v", body, reply, err)
		}
	}
	for _, id := range []string{"../../x", "?x=1#y", "%2e%2e", "ca_1/../ca_2", "é"} {
		if got, err := b.session.Disconnect(t.Context(), id); err != nil || got.Disconnected || got.Refusal.Code != "ACCOUNT_NOT_FOUND" {
			t.Errorf("%q: %+v, %v", id, got, err)
		}
	}
}

// Buttons for cards that are another session's, over, or none.
func TestAnswersThatCountForNothing(t *testing.T) {
	t.Parallel()
	b := linkedSetup(t, Options{}, gatewaytest.PortalOptions{})
	client, err := subjects.NewClient(b.nc, subjects.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := client.Session("acme", "s2")
	elsewhere := client.Session("globex", "s1")
	cards, err := b.session.Cards(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scope := b.scope(subjects.SurfaceCard)
	done := make(chan *subjects.Linked, 1)
	go func() {
		got, err := b.session.Connections(t.Context(), subjects.CallRequest{Scope: scope, CallID: "card", Arguments: json.RawMessage(`{"action":"connect","connectors":["chat"]}`)})
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	refused := func(s *subjects.Session, what string, a subjects.AnswerRequest, code string) {
		t.Helper()
		if got, err := s.Answer(t.Context(), a); err != nil || got.Accepted || got.Refusal.Code != code {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	skip := subjects.AnswerRequest{Operation: "card", Answer: subjects.AnswerSkip, Name: "chat"}
	for e, err := range cards {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event == subjects.EventCardSettled {
			break
		}
		if e.Targets[0].ConnectURL == "" {
			continue
		}
		refused(other, "another session", skip, subjects.RefusalUnknownOperation)
		refused(elsewhere, "another tenant", skip, subjects.RefusalUnknownOperation)
		refused(b.session, "another card", subjects.AnswerRequest{Operation: "drac", Answer: subjects.AnswerContinue}, subjects.RefusalUnknownOperation)
		refused(b.session, "another app", subjects.AnswerRequest{Operation: "card", Answer: subjects.AnswerSkip, Name: "mail"}, subjects.RefusalUnknownTarget)
		refused(b.session, "another account", subjects.AnswerRequest{Operation: "card", Answer: subjects.AnswerSkip, Name: "chat", Alias: "work"}, subjects.RefusalUnknownTarget)
		if now, err := other.Operation(t.Context()); err != nil || now.Card != nil {
			t.Errorf("another session sees %+v, %v", now, err)
		}
		if got, err := b.session.Answer(t.Context(), skip); err != nil || !got.Accepted {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got := await(t, done, "the card's call"); got.Outcome.Targets[0].State != subjects.ConnectionSkipped {
		t.Errorf("%s", got.Raw)
	}
	for _, answer := range []string{subjects.AnswerSkip, subjects.AnswerRetry, subjects.AnswerContinue} {
		refused(b.session, "a settled card, "+answer, subjects.AnswerRequest{Operation: "card", Answer: answer, Name: "chat"}, subjects.RefusalUnknownOperation)
	}
	// An operation without a card has no buttons.
	link := b.manage(b.scope(subjects.SurfaceLink), "link", `{"action":"connect","connectors":["chat"]}`)
	refused(b.session, "no card", subjects.AnswerRequest{Operation: link.CallID, Answer: subjects.AnswerContinue}, subjects.RefusalUnknownOperation)
}

// An account service or a gateway that does not answer is told as that before whoever asks gives up.
func TestServicesThatHang(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hang) })
	origin, err := connectors.ParseOrigin(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := portal.New(portal.Options{Origin: origin, Tokens: connectors.Static{"acme": "hush"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(accounts.Close)
	g, gw := gateway(t)
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Silent})
	b := &linkedBundle{bundle: setup(t, Options{Connectors: gw, Accounts: accounts})}
	client, err := subjects.NewClient(b.nc, subjects.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.session = client.Session("acme", "s1")
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	if got, err := b.session.Accounts(soon(), ""); err != nil || got.Refusal == nil || got.Refusal.Code != subjects.RefusalUnreachable {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := b.session.Disconnect(soon(), "ca_1"); err != nil || got.Refusal == nil || got.Refusal.Code != subjects.RefusalOutcomeUnknown {
		t.Errorf("%+v, %v", got, err)
	}
	got, err := b.session.Connections(soon(), subjects.CallRequest{Scope: b.scope(subjects.SurfaceLink),
		Arguments: json.RawMessage(`{"action":"rename","connectors":{"name":"mail","alias":"work","to":"home"}}`)})
	if err != nil || got.Mistake == nil || !strings.Contains(got.Mistake.Message, "was not renamed") {
		t.Errorf("%+v, %v", got, err)
	}
	// The gateway hangs as well.
	got, err = b.session.Connections(soon(), subjects.CallRequest{Scope: b.scope(subjects.SurfaceLink), Arguments: json.RawMessage(`{}`)})
	if err != nil || got.Status == nil || got.Status.Reason != "unreachable" {
		t.Errorf("%+v, %v", got, err)
	}
}
