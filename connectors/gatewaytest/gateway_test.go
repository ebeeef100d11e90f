package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct {
	*Gateway
	client *http.Client
}

func start(t *testing.T, o Options) *bench {
	t.Helper()
	g, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		g.Close()
	})
	return &bench{g, &http.Client{Transport: transport, Timeout: 20 * time.Second}}
}

// ask sends a request and returns the status and the body; a broken connection is status 0.
func (b *bench) ask(t *testing.T, method, path, key, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequest(method, b.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token-a")
	if key != "" {
		r.Header["x-idempotency-key"] = []string{key} // as the client spells it: nothing repeats the request by itself
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	p, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	var v map[string]any
	_ = json.Unmarshal(p, &v) // some answers are no JSON
	return resp.StatusCode, v
}

func (b *bench) execute(t *testing.T, key, slug, arguments string) (int, map[string]any) {
	t.Helper()
	connector := strings.ToLower(slug[:strings.IndexByte(slug+"_", '_')])
	if slug == "UPLOAD_FILE" {
		connector = "files"
	}
	return b.ask(t, "POST", "/v1/connectors/execute", key, `{"tools":[{"connector":"`+connector+`","tool":"`+slug+`","arguments":`+arguments+`}]}`)
}

func row(t *testing.T, v map[string]any) map[string]any {
	t.Helper()
	rows, _ := v["results"].([]any)
	if len(rows) != 1 {
		t.Fatalf("want one row in %v", v)
	}
	return rows[0].(map[string]any)
}

func errorCode(v map[string]any) any {
	e, _ := v["error"].(map[string]any)
	return e["code"]
}

const mail = `{"to":"a","subject":"s"}`

func TestIdempotency(t *testing.T) {
	t.Parallel()
	release, begun := make(chan struct{}), make(chan struct{})
	apps := append(SampleApps(), App{Connector: "slow", Tools: []Tool{{Slug: "SLOW_RUN", Run: func(context.Context, Call) (any, error) {
		close(begun)
		<-release
		return "done", nil
	}}}})
	b := start(t, Options{Apps: apps})
	_, first := b.execute(t, "k1", "MAIL_SEND_EMAIL", mail)
	_, again := b.execute(t, "k1", "MAIL_SEND_EMAIL", mail)
	if a, b := asText(first), asText(again); a != b || row(t, first)["error"] != nil {
		t.Errorf("the same key got %s, then %s", a, b)
	}
	if status, v := b.execute(t, "k1", "MAIL_SEND_EMAIL", `{"to":"b","subject":"s"}`); status != 409 || errorCode(v) != "IDEMPOTENCY_CONFLICT" {
		t.Errorf("another body: got %d %v", status, v)
	}
	var wg sync.WaitGroup
	wg.Go(func() { b.execute(t, "k2", "SLOW_RUN", `{}`) })
	<-begun
	if status, v := b.execute(t, "k2", "SLOW_RUN", `{}`); status != 409 || errorCode(v) != "IDEMPOTENCY_IN_PROGRESS" {
		t.Errorf("still running: got %d %v", status, v)
	}
	close(release)
	wg.Wait()
	if _, v := b.execute(t, "k2", "SLOW_RUN", `{}`); row(t, v)["data"] != "done" {
		t.Errorf("finished: got %v", v)
	}
	if b.EffectCount("k1") != 1 || b.EffectCount("k2") != 1 || len(b.Effects()) != 2 {
		t.Errorf("the effects are %+v", b.Effects())
	}
}

func asText(v any) string {
	p, _ := json.Marshal(v)
	return string(p)
}

func TestAnEffectGoesOnWithoutItsClient(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	b := start(t, Options{Apps: []App{{Connector: "slow", Tools: []Tool{{Slug: "SLOW_RUN", Run: func(ctx context.Context, _ Call) (any, error) {
		close(begun)
		<-release
		return "done", ctx.Err()
	}}}}}})
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", b.URL()+"/v1/connectors/execute", strings.NewReader(`{"tools":[{"connector":"slow","tool":"SLOW_RUN","arguments":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer t")
	r.Header["x-idempotency-key"] = []string{"k"}
	failed := make(chan error)
	go func() {
		_, err := b.client.Do(r) //nolint:bodyclose // it fails
		failed <- err
	}()
	<-begun
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(release)
	for status := 409; status == 409; { // until the first run has ended
		var v map[string]any
		if status, v = b.execute(t, "k", "SLOW_RUN", `{}`); status == 200 && row(t, v)["data"] != "done" {
			t.Errorf("got %v", v)
		}
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	apps := append(SampleApps(), App{Connector: "odd", Tools: []Tool{
		{Slug: "ODD_FAIL", Run: func(context.Context, Call) (any, error) { return nil, errors.New("no luck") }},
		{Slug: "ODD_OWN", Run: func(context.Context, Call) (any, error) {
			return nil, &RowError{Code: "TOOL_NOT_ALLOWED", Message: "own", Hint: "h"}
		}},
		{Slug: "ODD_PANIC", Run: func(context.Context, Call) (any, error) { panic("a bug") }},
		{Slug: "ODD_ECHO", ReadOnly: true},
	}})
	b := start(t, Options{Apps: apps})
	for _, c := range []struct{ slug, arguments, want string }{
		{"MAIL_NOPE", `{}`, "TOOL_NOT_FOUND"}, {"NOPE_X", `{}`, "TOOL_NOT_FOUND"}, {"CHAT_POST_MESSAGE", `{}`, "CONNECTION_REQUIRED"},
		{"VAULT_READ_SECRET", `{}`, "TOOL_NOT_ALLOWED"}, {"MAIL_SEND_EMAIL", `{}`, "PROVIDER_ERROR"}, {"ODD_FAIL", `{}`, "PROVIDER_ERROR"},
		{"ODD_OWN", `{}`, "TOOL_NOT_ALLOWED"}, {"ODD_PANIC", `{}`, "PROVIDER_ERROR"}, {"TRACKER_CLOSE_ISSUE", `{"id":"x"}`, "PROVIDER_ERROR"},
	} {
		if _, v := b.execute(t, "", c.slug, c.arguments); errorCode(row(t, v)) != c.want {
			t.Errorf("%s: got %v", c.slug, v)
		}
	}
	for _, c := range []struct{ slug, arguments string }{
		{"ODD_ECHO", `{"n":1}`}, {"TRACKER_CREATE_ISSUE", `{"title":"t"}`}, {"TRACKER_ADD_COMMENT", `{"id":"issue_1","text":"x"}`},
		{"TRACKER_LIST_ISSUES", `{"query":"T"}`}, {"TRACKER_CLOSE_ISSUE", `{"id":"issue_1"}`}, {"UPLOAD_FILE", `{"name":"n"}`},
	} {
		if _, v := b.execute(t, "", c.slug, c.arguments); row(t, v)["error"] != nil {
			t.Errorf("%s: got %v", c.slug, v)
		}
	}
}

func TestTokensAndRoutes(t *testing.T) {
	t.Parallel()
	b := start(t, Options{Tokens: map[string]string{"another": "tenant"}})
	if status, v := b.ask(t, "GET", "/v1/connectors", "", ""); status != 401 || errorCode(v) != "UNAUTHORIZED" {
		t.Errorf("an unknown token: got %d %v", status, v)
	}
	b = start(t, Options{})
	for path, want := range map[string]int{"/": 404, "/v1/connectors/nope": 404, "/v1/connectors/accounts/ca_x": 404, "/admin/effects": 404, "/v1/connectors": 200} {
		if status, _ := b.ask(t, "GET", path, "", ""); status != want {
			t.Errorf("%s: got %d, want %d", path, status, want)
		}
	}
	for _, path := range []string{"search", "schemas", "execute", "connections"} {
		if status, v := b.ask(t, "POST", "/v1/connectors/"+path, "", "no json"); status != 400 || errorCode(v) != "BAD_REQUEST" {
			t.Errorf("%s: got %d %v", path, status, v)
		}
	}
	var items int
	cursor := ""
	for range 10 {
		_, v := b.ask(t, "GET", "/v1/connectors?limit=4"+cursor, "", "")
		items += len(v["items"].([]any))
		next, ok := v["nextCursor"].(string)
		if !ok {
			break
		}
		cursor = "&cursor=" + next
	}
	if items != len(SampleApps()) {
		t.Errorf("the pages hold %d apps", items)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	_, v := b.ask(t, "POST", "/v1/connectors/connections", "", `{"connectors":["chat"],"reinitiate":false}`)
	link := row(t, v)
	if link["status"] != "initiated" {
		t.Fatalf("got %v", v)
	}
	id := link["connectionId"].(string)
	if _, v := b.ask(t, "GET", "/v1/connectors/accounts/"+id, "", ""); v["status"] != "pending" {
		t.Errorf("before: got %v", v)
	}
	if err := Consent(t.Context(), link["connectUrl"].(string), true); err != nil {
		t.Errorf("the link: %v", err)
	}
	if _, v := b.ask(t, "GET", "/v1/connectors/accounts/"+id, "", ""); v["status"] != "active" {
		t.Errorf("after: got %v", v)
	}
	b.Link(Anyone, "chat", false)
	if _, v := b.execute(t, "", "CHAT_LIST_CHANNELS", `{}`); errorCode(row(t, v)) != "CONNECTION_REQUIRED" {
		t.Errorf("unlinked: got %v", v)
	}
	if status, _ := b.ask(t, "GET", "/connect/ca_nope", "", ""); status != 404 {
		t.Errorf("a link that is none: got %d", status)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault   Fault
		status  int
		effects int
	}{
		{Fault{Kind: Status}, 503, 0}, {Fault{Kind: Status, Status: 418, AfterEffect: true}, 418, 1},
		{Fault{Kind: RateLimit, RetryAfter: time.Second}, 429, 0}, {Fault{Kind: Drop}, 0, 0}, {Fault{Kind: Drop, AfterEffect: true}, 0, 1},
		{Fault{Kind: HTML}, 200, 0}, {Fault{Kind: HalfBody, AfterEffect: true}, 0, 1}, {Fault{Kind: Huge, Bytes: 1 << 20}, 200, 0},
		{Fault{Kind: Slow, Delay: time.Millisecond}, 200, 1},
	} {
		b := start(t, Options{})
		c.fault.Times = 1
		b.Fault(c.fault)
		if status, _ := b.execute(t, "k", "MAIL_SEND_EMAIL", mail); status != c.status || len(b.Effects()) != c.effects {
			t.Errorf("%+v: got %d with %d effects", c.fault, status, len(b.Effects()))
		}
		if status, _ := b.execute(t, "k", "MAIL_SEND_EMAIL", mail); status != 200 || b.EffectCount("k") != 1 {
			t.Errorf("%+v, again: got %d with %d effects", c.fault, status, b.EffectCount("k"))
		}
		if b.Requests()[0].Fault != c.fault.Kind || b.Requests()[1].Fault != "" {
			t.Errorf("%+v: the record is %+v", c.fault, b.Requests())
		}
	}
}

func TestFaultsMatchSkipAndRepeat(t *testing.T) {
	t.Parallel()
	s := newScript(1)
	s.add(Fault{Kind: Drop, Route: "execute", Slug: "B", Tenant: "t", Skip: 1, Times: 2})
	hits := func(route, tenant string, slugs ...string) string {
		out := ""
		for range 5 {
			if s.pick(route, tenant, slugs) != nil {
				out += "x"
			} else {
				out += "."
			}
		}
		return out
	}
	for _, got := range []string{hits("search", "t", "B"), hits("execute", "u", "B"), hits("execute", "t", "A"), hits("execute", "t")} {
		if got != "....." {
			t.Errorf("a request that does not match was hit: %s", got)
		}
	}
	if got := hits("execute", "t", "A", "B"); got != ".xx.." {
		t.Errorf("got %s", got)
	}
	count := func(seed uint64) (n int) {
		dice := newScript(seed)
		dice.add(Fault{Kind: Drop, Probability: 0.1})
		for range 10_000 {
			if dice.pick("", "", nil) != nil {
				n++
			}
		}
		return n
	}
	if n := count(7); n < 850 || n > 1150 || n != count(7) {
		t.Errorf("a tenth of 10,000 is %d and %d", n, count(7))
	}
}

func TestParseFault(t *testing.T) {
	t.Parallel()
	f, err := ParseFault("status, status=502,route=execute,slug=A_B,tenant=t,skip=1,times=2,probability=0.5,after_effect=true,body=x,delay=5ms")
	want := Fault{Kind: Status, Status: 502, Route: "execute", Slug: "A_B", Tenant: "t", Skip: 1, Times: 2, Probability: 0.5, AfterEffect: true, Body: "x", Delay: 5 * time.Millisecond}
	if err != nil || asText(f) != asText(want) {
		t.Errorf("got %+v, %v", f, err)
	}
	if f, err := ParseFault("rate_limit,retry_after=2s,retry_at=true"); err != nil || f.RetryAfter != 2*time.Second || !f.RetryAtDate {
		t.Errorf("got %+v, %v", f, err)
	}
	if f, err := ParseFault("huge,bytes=5"); err != nil || f.Bytes != 5 {
		t.Errorf("got %+v, %v", f, err)
	}
	for _, s := range []string{"", "explode", "drop,times", "drop,times=x", "drop,nope=1", "drop,probability=2", "status,status=42", "slow,delay=-1s"} {
		if _, err := ParseFault(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestASilentGatewayCloses(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	b.Fault(Fault{Kind: Silent})
	done := make(chan int)
	go func() {
		status, _ := b.execute(t, "k", "MAIL_SEND_EMAIL", mail)
		done <- status
	}()
	if err := b.WaitRequests(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if status := <-done; status != 0 {
		t.Errorf("got %d", status)
	}
}

func TestScriptedAnswers(t *testing.T) {
	t.Parallel()
	b := start(t, Options{Answers: []Answer{{Status: 201, Body: json.RawMessage(`{"a":1}`), Headers: map[string]string{"Retry-After": "5"}}, {Status: 200, Text: "<html>"}, {Fault: "reset"}}})
	for i, want := range []int{201, 200, 0, 400} {
		if status, _ := b.ask(t, "POST", "/v1/connectors/search", "", `{}`); status != want {
			t.Errorf("answer %d: got %d, want %d", i, status, want)
		}
	}
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	b := start(t, Options{Admin: true, Keep: 3})
	if status, _ := b.ask(t, "POST", "/admin/faults", "", `{"kind":"status","status":500,"times":1}`); status != 200 {
		t.Errorf("got %d", status)
	}
	if status, _ := b.ask(t, "POST", "/admin/faults", "", `{"kind":"nope"}`); status != 400 {
		t.Errorf("got %d", status)
	}
	for _, want := range []int{500, 200, 200, 200, 200} {
		if status, _ := b.execute(t, "", "MAIL_SEND_EMAIL", mail); status != want {
			t.Errorf("got %d, want %d", status, want)
		}
	}
	b.ask(t, "POST", "/admin/faults", "", `{"kind":"drop"}`)
	b.ask(t, "DELETE", "/admin/faults", "", "")
	if status, _ := b.ask(t, "POST", "/admin/links", "", `{"tenant":"anyone","connector":"mail","linked":false}`); status != 200 {
		t.Errorf("got %d", status)
	}
	if _, v := b.execute(t, "", "MAIL_SEND_EMAIL", mail); errorCode(row(t, v)) != "CONNECTION_REQUIRED" {
		t.Errorf("got %v", v)
	}
	for path, want := range map[string]int{"/admin/requests": 3, "/admin/effects": 3} {
		resp, err := b.client.Get(b.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		var list []json.RawMessage
		if err := json.Unmarshal(p, &list); err != nil || len(list) != want || bytes.Contains(p, []byte("token-a")) {
			t.Errorf("%s: got %s", path, p)
		}
	}
	if b.RequestCount() != 6 {
		t.Errorf("%d requests were counted", b.RequestCount())
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	b := start(t, Options{})
	done := make(chan error)
	go func() { done <- b.WaitEffects(context.Background(), 2) }()
	b.execute(t, "1", "MAIL_SEND_EMAIL", mail)
	b.execute(t, "2", "MAIL_SEND_EMAIL", mail)
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.WaitRequests(ctx, 3); err == nil {
		t.Error("a wait that had ended found requests")
	}
}

func TestStartTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	if _, err := Start(Options{Keep: -1}); err == nil {
		t.Error("a negative Keep was accepted")
	}
	if _, err := Start(Options{Addr: "256.0.0.1:0"}); err == nil {
		t.Error("an address that is none was accepted")
	}
}
