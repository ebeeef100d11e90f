package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"toolsearch/connectors/gatewaytest"
)

func TestClientReusesItsConnection(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	for i := range 20 {
		e := mail()
		e.Key = keyOf(i)
		if r := s.gateway.Execute(t.Context(), e); r.Result.Error != nil {
			t.Fatal(r.Result.Error)
		}
		if _, err := s.client.List(t.Context(), "tenant"); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.server.Connections(); n != 1 {
		t.Errorf("%d connections were opened, want 1", n)
	}
}

// A read on a connection that is open already, and breaks, is sent as often as its route says: net/http would repeat it
// by itself.
func TestAReadIsSentAsOftenAsItsRouteSays(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	started, err := s.client.Connections(t.Context(), "tenant", ConnectionsRequest{Connectors: []string{"chat"}})
	if err != nil {
		t.Fatal(err)
	}
	for route, sent := range map[gatewaytest.Route]int{"account": 1, "list": 2} {
		if _, err := s.client.Search(t.Context(), "tenant", []Query{{UseCase: "mail"}}); err != nil { // opens a connection
			t.Fatal(err)
		}
		before := s.server.RequestCount()
		s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Drop, Route: route})
		if route == "list" {
			_, err = s.client.List(t.Context(), "tenant")
		} else {
			_, err = s.client.Account(t.Context(), "tenant", *started.Results[0].ConnectionID)
		}
		if n := s.server.RequestCount() - before; asError(t, err).Code != CodeTransport || n != sent {
			t.Errorf("%s: %d requests, want %d; %v", route, n, sent, err)
		}
	}
	for _, r := range s.server.Requests() {
		if r.Method == http.MethodGet && len(r.Body) > 0 {
			t.Errorf("a read has the body %q", r.Body)
		}
	}
}

func TestClientSpeaksEveryRoute(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	ctx := t.Context()
	found, err := s.client.Search(ctx, "tenant", []Query{{UseCase: "send an email"}})
	if err != nil || len(found.Results) != 1 || found.Results[0].Tools[0] != "MAIL_SEND_EMAIL" {
		t.Fatalf("search: %+v, %v", found, err)
	}
	schemas, err := s.client.Schemas(ctx, "tenant", []string{"MAIL_SEND_EMAIL", "NOPE"})
	if err != nil || len(schemas.Schemas) != 1 || schemas.NotFound[0] != "NOPE" {
		t.Fatalf("schemas: %+v, %v", schemas, err)
	}
	started, err := s.client.Connections(ctx, "tenant", ConnectionsRequest{Connectors: []string{"chat", "mail", "nope"}, ReturnTo: "portal", Op: "op-1"})
	if err != nil || started.Results[0].Status != "initiated" || started.Results[1].Status != "active" || started.Results[2].Status != "failed" {
		t.Fatalf("connections: %+v, %v", started, err)
	}
	account, err := s.client.Account(ctx, "tenant", *started.Results[0].ConnectionID)
	if err != nil || account.Status != "pending" || account.Connector != "chat" {
		t.Fatalf("account: %+v, %v", account, err)
	}
	if unknown, err := s.client.Account(ctx, "tenant", "ca_unknown/../x"); err != nil || unknown != nil {
		t.Fatalf("unknown account: %+v, %v", unknown, err)
	}
	list, err := s.client.List(ctx, "tenant")
	if err != nil || len(list) != len(gatewaytest.SampleApps()) {
		t.Fatalf("list: %+v, %v", list, err)
	}
}

func TestListFollowsCursorsWithinBounds(t *testing.T) {
	t.Parallel()
	page := func(next string) gatewaytest.Answer {
		return gatewaytest.Answer{Status: 200, Body: json.RawMessage(`{"items":[{"connector":"a"}],"nextCursor":` + next + `}`)}
	}
	answers := []gatewaytest.Answer{page(`"1"`), page(`null`)}
	s := newSetup(t, setupOptions{server: gatewaytest.Options{Answers: answers}})
	if list, err := s.client.List(t.Context(), "tenant"); err != nil || len(list) != 2 {
		t.Errorf("got %v, %v", list, err)
	}
	answers = nil
	for i := range 30 {
		answers = append(answers, page(fmt.Sprintf(`"%d"`, i)))
	}
	s = newSetup(t, setupOptions{server: gatewaytest.Options{Answers: answers}})
	_, err := s.client.List(t.Context(), "tenant")
	if e := asError(t, err); e.Kind != KindBadAnswer || e.Code != CodeInvalidResponse || s.server.RequestCount() != maxPages {
		t.Errorf("got %v after %d requests", err, s.server.RequestCount())
	}
}

func asError(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	return e
}

func TestAnswersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body string }{
		{"nothing", ``}, {"a page", `<html>`}, {"a number", `5`}, {"null", `null`}, {"a list", `[]`}, {"two values", `{} {}`},
		{"cut off", `{"results":[{"data"`}, {"results is an object", `{"results":{}}`}, {"results is null", `{"results":null}`},
		{"a row is no object", `{"results":[5]}`}, {"an error without a message", `{"results":[{"error":{"code":"PROVIDER_ERROR"}}]}`},
		{"an unknown code", `{"results":[{"error":{"code":"OOPS","message":"m"}}]}`}, {"a code that is a number", `{"results":[{"error":{"code":5,"message":"m"}}]}`},
		{"an account that is a number", `{"results":[{"data":1,"account":5}]}`}, {"an index that is a word", `{"results":[{"data":1,"index":"one"}]}`},
		{"nested without end", `{"results":[{"data":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}]}`},
		{"one bad row of two", `{"results":[{"data":1},{"error":"x"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, setupOptions{server: gatewaytest.Options{Answers: []gatewaytest.Answer{{Status: 200, Text: c.body}}}})
			a, err := s.client.Execute(t.Context(), "tenant", ExecuteRequest{Key: "k", Calls: []ToolCall{{Connector: "a", Tool: "B"}}})
			if e := asError(t, err); e.Kind != KindBadAnswer || e.Retryable() {
				t.Errorf("got %+v", e)
			}
			if a.Attempts != 1 || a.Unclear || s.server.RequestCount() != 1 {
				t.Errorf("got %+v after %d requests", a, s.server.RequestCount())
			}
		})
	}
}

func TestBytesThatAreNoTextAreReplaced(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{server: gatewaytest.Options{Answers: []gatewaytest.Answer{{Status: 200, Text: "{\"results\":[{\"data\":\"a\xff\"}]}"}}}})
	if r := s.gateway.Execute(t.Context(), mail()); string(r.Result.Response) != "\"a\uFFFD\"" {
		t.Errorf("got %q %+v", r.Result.Response, r.Result.Error)
	}
}

func TestLenientReading(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{server: gatewaytest.Options{Answers: []gatewaytest.Answer{{Status: 200, Body: json.RawMessage(`{
		"results": [{"index": "0", "use_case": "q", "useCase": "Q", "tools": ["A_B"], "related_tools": []}, {"index": 1.0}, {"index": true}],
		"schemas": {"A_B": {"connector": "a", "tool": "A_B", "input_schema": {"type": "object"}}},
		"connections": [{"connector": "a", "connected": "Yes"}, {"connector": "b", "connected": 0}]}`)}}}})
	a, err := s.client.Search(t.Context(), "tenant", []Query{{UseCase: "Q"}})
	if err != nil || s.dropped != 0 {
		t.Fatalf("got %v with %d dropped", err, s.dropped)
	}
	if len(a.Results) != 3 || a.Results[0].UseCase != "Q" || a.Results[1].Index != 1 || a.Results[2].Index != 1 {
		t.Errorf("got %+v", a.Results)
	}
	if string(a.Schemas["A_B"].InputSchema) != `{"type": "object"}` || !a.Connections[0].Connected || a.Connections[1].Connected {
		t.Errorf("got %+v %+v", a.Schemas, a.Connections)
	}
}

func TestMalformedElementsAreDroppedAlone(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{server: gatewaytest.Options{Answers: []gatewaytest.Answer{{Status: 200, Body: json.RawMessage(`{
		"results": [7, {"useCase": "second"}, {"index": 2, "tools": ["A_B", 5, "A_C"]}],
		"schemas": {"A_B": {"connector": "a", "tool": "A_B"}, "A_C": {"connector": 5, "tool": "A_C"}, "A_D": null, "A_E": {"connector":"a","tool":"A_E","description":null}},
		"connections": [{"connected": true}], "nextSteps": "none"}`)}}}})
	r := s.gateway.Search(t.Context(), "tenant", []string{"first", "second", "third"})
	if r == nil || r.Condition != nil || len(r.Groups) != 3 {
		t.Fatalf("got %+v", r)
	}
	// The third group stays the third query's, although the first two were dropped.
	if len(r.Groups[0]) != 0 || len(r.Groups[1]) != 0 || len(r.Groups[2]) != 1 || r.Groups[2][0].Slug != "A_B" {
		t.Errorf("got %+v", r.Groups)
	}
	if s.dropped != 8 {
		t.Errorf("%d were counted, want 8", s.dropped)
	}
	if n := strings.Count(s.logs.String(), "malformed elements"); n != 1 {
		t.Errorf("%d lines in the log, want 1: %s", n, s.logs)
	}
}

func TestAnAnswerOverTheBoundIsAnErrorAndNotMemory(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{client: ClientOptions{MaxAnswer: 1 << 20}})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Huge, Bytes: 50 << 20, Times: 1})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := s.gateway.Execute(t.Context(), mail())
	runtime.ReadMemStats(&after)
	if r.Result.Error == nil || r.Result.Error.Code != "PROVIDER_ERROR" || r.Attempts != 1 || !strings.Contains(r.Result.Error.Message, "1048576") {
		t.Errorf("got %+v", r.Result.Error)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 40<<20 {
		t.Errorf("%d bytes were allocated for it", grown)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	other := newSetup(t, setupOptions{})
	s := newSetup(t, setupOptions{})
	for _, status := range []int{301, 302, 307, 308} {
		s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: status, Times: 1, Header: http.Header{"Location": {other.server.URL() + "/v1/connectors/search"}}})
		_, err := s.client.Search(t.Context(), "tenant", []Query{{UseCase: "q"}})
		if e := asError(t, err); e.Status != status || e.Kind != KindOther || e.Retryable() {
			t.Errorf("%d: got %+v", status, e)
		}
	}
	if n := other.server.RequestCount(); n != 0 {
		t.Errorf("%d requests went to another origin", n)
	}
}

func TestRequestsThatAreRefusedBeforeTheyAreSent(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{})
	ctx := t.Context()
	for name, send := range map[string]func() error{
		"no key": func() error { _, err := s.client.Execute(ctx, "tenant", ExecuteRequest{}); return err },
		"arguments no JSON": func() error {
			_, err := s.client.Execute(ctx, "tenant", ExecuteRequest{Key: "k", Calls: []ToolCall{{Arguments: json.RawMessage("{")}}})
			return err
		},
		"return to a URL": func() error {
			_, err := s.client.Connections(ctx, "tenant", ConnectionsRequest{ReturnTo: "https://evil.example"})
			return err
		},
		"op too long": func() error {
			_, err := s.client.Connections(ctx, "tenant", ConnectionsRequest{Op: strings.Repeat("ö", 129)})
			return err
		},
		"no account": func() error { _, err := s.client.Account(ctx, "tenant", ".."); return err },
	} {
		if e := asError(t, send()); e.Code != CodeInvalidRequest || e.Retryable() {
			t.Errorf("%s: got %+v", name, e)
		}
	}
	if s.server.RequestCount() != 0 {
		t.Errorf("%d requests were sent", s.server.RequestCount())
	}
}

func TestOptionsNameTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]ClientOptions{"MaxAnswer": {MaxAnswer: -1}, "ExecuteAttempts": {ExecuteAttempts: -1}, "Timeouts.List": {Timeouts: Timeouts{List: -1}}} {
		if _, err := NewClient(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	for want, o := range map[string]GatewayOptions{"SearchBound": {SearchBound: -1}, "DescribeBound": {DescribeBound: -1},
		"BreakerFailures": {BreakerFailures: -1}, "BreakerCooldown": {BreakerCooldown: -1}} {
		if _, err := NewGateway(nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestATimeoutBoundsASilentGateway(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{client: ClientOptions{Timeouts: Timeouts{Search: 50 * time.Millisecond}}})
	s.server.Fault(gatewaytest.Fault{Kind: gatewaytest.Silent})
	_, err := s.client.Search(context.Background(), "tenant", []Query{{UseCase: "q"}})
	if e := asError(t, err); e.Code != CodeTransport || !strings.Contains(e.Message, "in time") {
		t.Errorf("got %+v", e)
	}
}
