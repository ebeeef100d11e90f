package connectors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	"toolsearch/catalog"
	"toolsearch/catalog/catalogtest"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

// vectorGateway is given.gateway of a vector.
type vectorGateway struct {
	Answers   []gatewaytest.Answer `json:"answers"`
	Token     *string              `json:"token"`
	Available *bool                `json:"available"`
}

// vectorRequest is one of want.requests.
type vectorRequest struct {
	Method        string      `json:"method"`
	Path          string      `json:"path"`
	Query         string      `json:"query"`
	Body          any         `json:"body"`
	Authorization *string     `json:"authorization"`
	Key           string      `json:"idempotency_key"`
	TimeoutS      json.Number `json:"timeout_s"`
}

// bench is a client and a gateway against the scripted answers of a vector.
type bench struct {
	server  *gatewaytest.Gateway
	client  *Client
	gateway *Gateway
	bounds  *boundRecorder
}

// refusedTokens is a tenant that is signed in and whose token has run out.
type refusedTokens struct{}

func (refusedTokens) Token(context.Context, string) (string, error) { return "", ErrNoToken }

func noBackoff() backoff.BackOff { return &backoff.ZeroBackOff{} }

// promptClock ends every wait at once, also one that an answer of 429 asks for.
type promptClock struct{ machineClock }

func (promptClock) NewTimer(time.Duration) (<-chan time.Time, func()) {
	c := make(chan time.Time, 1)
	c <- time.Now()
	return c, func() {}
}

// vectorAttempts is how often the cases have an execute request sent at most: once, and once more.
const vectorAttempts = 2

// boundRecorder notes how much time each request was given.
type boundRecorder struct {
	next http.RoundTripper

	mu     sync.Mutex
	bounds []time.Duration
}

func (b *boundRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	deadline, _ := r.Context().Deadline()
	b.mu.Lock()
	b.bounds = append(b.bounds, time.Until(deadline))
	b.mu.Unlock()
	return b.next.RoundTrip(r)
}

func newBench(t *testing.T, g vectorGateway) *bench {
	t.Helper()
	if g.Answers == nil {
		g.Answers = []gatewaytest.Answer{}
	}
	server, err := gatewaytest.Start(gatewaytest.Options{Answers: g.Answers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	origin, err := ParseOrigin(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var tokens Tokens = Shared("tok")
	switch {
	case g.Available != nil && !*g.Available:
		tokens = Static(nil)
	case g.Token != nil && *g.Token == "":
		tokens = refusedTokens{}
	case g.Token != nil:
		tokens = Shared(*g.Token)
	}
	own := NewTransport()
	t.Cleanup(own.CloseIdleConnections)
	b := &bench{server: server, bounds: &boundRecorder{next: own}}
	b.client, err = NewClient(ClientOptions{Origin: origin, Tokens: tokens, Transport: b.bounds, Backoff: noBackoff,
		Clock: promptClock{}, ExecuteAttempts: vectorAttempts})
	if err != nil {
		t.Fatal(err)
	}
	b.gateway, err = NewGateway(b.client, GatewayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.gateway.Close)
	return b
}

// checkRequests compares what the gateway got. Keys are labels: equal labels are equal keys, different ones differ.
func (b *bench) checkRequests(t *testing.T, want []vectorRequest) {
	t.Helper()
	got := b.server.Requests()
	if len(got) != len(want) {
		t.Fatalf("%d requests were sent, want %d", len(got), len(want))
	}
	labels, keys := map[string]string{}, map[string]string{}
	for i, w := range want {
		g := got[i]
		authorization := ""
		if w.Authorization != nil {
			authorization = *w.Authorization
		}
		if g.Method != w.Method || g.Path != w.Path || g.Query != w.Query || g.Authorization != authorization {
			t.Errorf("request %d is %s %s ?%s %q, want %s %s ?%s %q", i, g.Method, g.Path, g.Query, g.Authorization, w.Method, w.Path, w.Query, authorization)
		}
		equal(t, fmt.Sprintf("request %d body", i), w.Body, decode(t, g.Body))
		if (g.Key == "") != (w.Key == "") || cmp.Or(labels[w.Key], g.Key) != g.Key || cmp.Or(keys[g.Key], w.Key) != w.Key {
			t.Errorf("request %d has the key %q under the label %q", i, g.Key, w.Key)
		}
		labels[w.Key], keys[g.Key] = g.Key, w.Key
		if w.TimeoutS == "" {
			continue
		}
		bound, err := w.TimeoutS.Float64()
		if err != nil {
			t.Fatal(err)
		}
		if d := b.bounds.bounds[i].Seconds(); d > bound || d < bound-5 {
			t.Errorf("request %d was given %.1f s, want %.1f", i, d, bound)
		}
	}
}

func decode(t *testing.T, raw json.RawMessage) (v any) {
	t.Helper()
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

// asJSON is what v looks like on the wire, decoded.
func asJSON(t *testing.T, v any) any {
	t.Helper()
	p, err := subjects.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, p)
}

// equal compares by the rules of the vectors: exact keys, exact numbers by value, texts by what they mention.
func equal(t *testing.T, at string, want, got any) {
	t.Helper()
	if id, mentions, ok := text(want); ok {
		s, isString := got.(string)
		if !isString || s == "" {
			t.Errorf("%s: want a text (%s), got %v", at, id, got)
		}
		for _, m := range mentions {
			if !strings.Contains(s, m) {
				t.Errorf("%s: %q does not mention %q", at, s, m)
			}
		}
		return
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			t.Errorf("%s: got %v, want %v", at, got, want)
			return
		}
		for k, v := range w {
			equal(t, at+"."+k, v, g[k])
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			t.Errorf("%s: got %v, want %v", at, got, want)
			return
		}
		for i, v := range w {
			equal(t, fmt.Sprintf("%s[%d]", at, i), v, g[i])
		}
	case json.Number:
		g, ok := got.(json.Number)
		if !ok || !sameNumber(w, g) {
			t.Errorf("%s: got %v, want %v", at, got, want)
		}
	default:
		if want != got {
			t.Errorf("%s: got %#v, want %#v", at, got, want)
		}
	}
}

func sameNumber(a, b json.Number) bool {
	x, ok := new(big.Rat).SetString(string(a))
	y, ok2 := new(big.Rat).SetString(string(b))
	return ok && ok2 && x.Cmp(y) == 0
}

func text(v any) (id string, mentions []string, ok bool) {
	m, isMap := v.(map[string]any)
	if id, ok = m["id"].(string); !isMap || !ok || len(id) < 2 || !strings.Contains("EHM", id[:1]) || id[1] != '-' {
		return "", nil, false
	}
	list, _ := m["mentions"].([]any)
	for _, s := range list {
		mentions = append(mentions, s.(string))
	}
	return id, mentions, len(m) == 1 || len(m) == 2 && m["mentions"] != nil
}

// stated compares the keys of got that want states.
func stated(t *testing.T, want map[string]any, got any) {
	t.Helper()
	g := got.(map[string]any)
	for k, w := range want {
		equal(t, k, w, g[k])
	}
}

func wantMap(t *testing.T, v catalogtest.Vector) map[string]any {
	t.Helper()
	return decode(t, v.Want).(map[string]any)
}

// run takes each case of a file, but for the ops that are tested elsewhere, as a parallel subtest.
func run(t *testing.T, file string, ops map[string]func(*testing.T, catalogtest.Vector), elsewhere ...string) {
	n := 0
	for v := range catalogtest.Vectors(t, file) {
		if slices.Contains(elsewhere, v.Op) {
			continue
		}
		n++
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			op := ops[v.Op]
			if op == nil {
				t.Fatalf("no test for op %q", v.Op)
			}
			op(t, v)
		})
	}
	if n == 0 {
		t.Fatalf("%s has no cases", file)
	}
}

func TestVectorsConnectorNames(t *testing.T) {
	t.Parallel()
	run(t, "connector_names.jsonl", map[string]func(*testing.T, catalogtest.Vector){
		"connector_name": func(t *testing.T, v catalogtest.Vector) {
			var given struct{ Name string }
			v.DecodeGiven(t, &given)
			got := map[string]any{"is_connector": IsName(given.Name), "parsed": nil, "slugs": nil}
			if n, ok := ParseName(given.Name); ok {
				got["parsed"] = map[string]any{"connector": n.Connector, "tool": n.Tool}
				got["slugs"] = n.Slugs()
			}
			stated(t, wantMap(t, v), asJSON(t, got))
		},
		"format_connector_name": func(t *testing.T, v catalogtest.Vector) {
			var given struct{ Connector, Tool string }
			v.DecodeGiven(t, &given)
			stated(t, wantMap(t, v), map[string]any{"name": FormatName(given.Connector, given.Tool)})
		},
	})
}

// errorMap is an error as the vectors write it.
func errorMap(t *testing.T, err error) map[string]any {
	t.Helper()
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("%v is no *Error", err)
	}
	var id any
	if e.RequestID != "" {
		id = e.RequestID
	}
	return asJSON(t, map[string]any{"kind": e.Kind, "status": e.Status, "code": e.Code, "message": e.Message, "request_id": id,
		"retryable": e.Retryable(), "retry_after_s": e.RetryAfter.Seconds()}).(map[string]any)
}

func TestVectorsGatewayError(t *testing.T) {
	t.Parallel()
	run(t, "gateway_error.jsonl", map[string]func(*testing.T, catalogtest.Vector){
		"gateway_error": func(t *testing.T, v catalogtest.Vector) {
			var given struct {
				Status  int
				Body    json.RawMessage
				Text    string
				Headers map[string]string
				Now     time.Time
			}
			v.DecodeGiven(t, &given)
			body := []byte(given.Body)
			if body == nil {
				body = []byte(given.Text)
			}
			header := http.Header{}
			for k, s := range given.Headers {
				header[k] = []string{s} // not in canonical spelling: the cases tell the two apart
			}
			stated(t, wantMap(t, v), errorMap(t, ParseError(given.Status, body, header, given.Now)))
		},
	})
}

func TestVectorsGatewayWire(t *testing.T) {
	t.Parallel()
	run(t, "gateway_wire.jsonl", map[string]func(*testing.T, catalogtest.Vector){"wire": checkWire})
}

type wireArguments struct {
	Calls        []Call
	Queries      []struct{ UseCase, KnownFields string }
	Tools        []string
	Connectors   []string
	Reinitiate   bool
	ConnectionID string
	ReturnTo, Op string
}

// UnmarshalJSON reads the snake_case names of the vectors.
func (w *wireArguments) UnmarshalJSON(p []byte) error {
	var raw struct {
		Calls   []Call `json:"calls"`
		Queries []struct {
			UseCase     string `json:"use_case"`
			KnownFields string `json:"known_fields"`
		} `json:"queries"`
		Tools        []string `json:"tools"`
		Connectors   []string `json:"connectors"`
		Reinitiate   bool     `json:"reinitiate"`
		ConnectionID string   `json:"connection_id"`
		ReturnTo     string   `json:"return_to"`
		Op           string   `json:"op"`
	}
	if err := json.Unmarshal(p, &raw); err != nil {
		return err
	}
	w.Calls, w.Tools, w.Connectors, w.Reinitiate, w.ConnectionID = raw.Calls, raw.Tools, raw.Connectors, raw.Reinitiate, raw.ConnectionID
	w.ReturnTo, w.Op = raw.ReturnTo, raw.Op
	for _, q := range raw.Queries {
		w.Queries = append(w.Queries, struct{ UseCase, KnownFields string }(q))
	}
	return nil
}

func checkWire(t *testing.T, v catalogtest.Vector) {
	var given struct {
		Method    string
		Arguments wireArguments
		Gateway   vectorGateway
	}
	var want struct {
		Requests []vectorRequest
		Result   any
		Error    map[string]any
	}
	v.DecodeGiven(t, &given)
	v.DecodeWant(t, &want)
	b := newBench(t, given.Gateway)
	result, err := b.call(t, given.Method, given.Arguments)
	b.checkRequests(t, want.Requests)
	switch {
	case want.Error != nil:
		if err == nil {
			t.Fatalf("got %v, want the error %v", result, want.Error)
		}
		got := errorMap(t, err)
		if status, ok := want.Error["status"]; ok && status == nil && err.(*Error).Status == 0 {
			got["status"] = nil // no answer, so none
		}
		stated(t, want.Error, got)
	case err != nil:
		t.Fatal(err)
	default:
		equal(t, "result", want.Result, likeWant(want.Result, asJSON(t, result)))
	}
}

func (b *bench) call(t *testing.T, method string, a wireArguments) (any, error) {
	t.Helper()
	ctx := t.Context()
	switch method {
	case "execute":
		r := ExecuteRequest{Key: "key-of-" + t.Name(), ReturnTo: a.ReturnTo, Op: a.Op}
		for _, p := range Partition(a.Calls).Remote {
			r.Calls = append(r.Calls, ToolCall{Connector: p.Parsed.Connector, Tool: p.Parsed.Slugs()[0], Arguments: p.Arguments})
		}
		answer, err := b.client.Execute(ctx, "tenant", r)
		return answer.Rows, err
	case "search":
		var queries []Query
		for _, q := range a.Queries {
			queries = append(queries, Query(q))
		}
		return b.client.Search(ctx, "tenant", queries)
	case "schemas":
		return b.client.Schemas(ctx, "tenant", a.Tools)
	case "connections":
		return b.client.Connections(ctx, "tenant", ConnectionsRequest{Connectors: a.Connectors, Reinitiate: a.Reinitiate, ReturnTo: a.ReturnTo, Op: a.Op})
	case "list":
		return b.client.List(ctx, "tenant")
	case "account":
		return b.client.Account(ctx, "tenant", a.ConnectionID)
	}
	t.Fatalf("no method %q", method)
	return nil, nil
}

// likeWant spells the keys of got in camelCase where want does: the list is written so.
func likeWant(want, got any) any {
	switch g := got.(type) {
	case []any:
		w, ok := want.([]any)
		for i := range g {
			if ok && i < len(w) {
				g[i] = likeWant(w[i], g[i])
			}
		}
	case map[string]any:
		w, ok := want.(map[string]any)
		for k := range w {
			if s := snake(k); ok && s != k {
				if v, has := g[s]; has {
					delete(g, s)
					g[k] = v
				}
			}
		}
	}
	return got
}

// keyOf makes a key for a slug of one entry.
func keyOf(index int) func(string) string {
	return func(slug string) string { return fmt.Sprintf("%d/%s", index, slug) }
}

func TestVectorsRunRemote(t *testing.T) {
	t.Parallel()
	run(t, "run_remote.jsonl", map[string]func(*testing.T, catalogtest.Vector){
		"run_remote": func(t *testing.T, v catalogtest.Vector) {
			var given struct {
				Calls   []Call
				Gateway vectorGateway
			}
			var want struct {
				Entries  any
				Requests []vectorRequest
			}
			v.DecodeGiven(t, &given)
			v.DecodeWant(t, &want)
			b := newBench(t, given.Gateway)
			entries := []subjects.EntryResult{}
			for _, p := range Partition(given.Calls).Remote {
				entries = append(entries, b.gateway.Execute(t.Context(), Execution{Tenant: "tenant", Index: p.Position, Name: p.Name,
					Parsed: p.Parsed, Arguments: p.Arguments, Key: keyOf(p.Position)}).Result)
			}
			equal(t, "entries", want.Entries, asJSON(t, entries))
			b.checkRequests(t, want.Requests)
		},
	})
}

func TestVectorsLegs(t *testing.T) {
	t.Parallel()
	run(t, "legs.jsonl", map[string]func(*testing.T, catalogtest.Vector){
		"leg": func(t *testing.T, v catalogtest.Vector) {
			var given struct {
				Verb    Verb
				Gateway vectorGateway
			}
			var want struct {
				Failure    *Failure
				Connectors any
				Requests   int
			}
			v.DecodeGiven(t, &given)
			v.DecodeWant(t, &want)
			b := newBench(t, given.Gateway)
			var condition *subjects.ConnectorsCondition
			if given.Verb == Searched {
				if r := b.gateway.Search(t.Context(), "tenant", []string{"send an email"}); r != nil {
					condition = r.Condition
				}
			} else if r := b.gateway.Describe(t.Context(), "tenant", []string{"connectors__gmail__SEND_EMAIL"}); r != nil {
				condition = r.Condition
			}
			equal(t, "connectors", want.Connectors, asJSON(t, condition))
			if want.Failure != nil && (condition == nil || cmp.Or(condition.Reason, condition.Status) != string(*want.Failure)) {
				t.Errorf("the condition %v does not tell %s", condition, *want.Failure)
			}
			if n := len(b.server.Requests()); n != want.Requests {
				t.Errorf("%d requests were sent, want %d", n, want.Requests)
			}
		},
		"connectors_field": func(t *testing.T, v catalogtest.Vector) {
			var given struct {
				Failure Failure
				Verb    Verb
				Names   []string
			}
			v.DecodeGiven(t, &given)
			stated(t, wantMap(t, v), map[string]any{"connectors": asJSON(t, Condition(given.Failure, given.Verb, given.Names))})
		},
	})
}

// looseCalls reads given.calls, which may be no list.
func looseCalls(raw json.RawMessage) []Call {
	var calls []Call
	if json.Unmarshal(raw, &calls) != nil {
		return nil
	}
	return calls
}

// looseRows reads given.results of a splice, which may hold anything.
func looseRows(raw json.RawMessage) []*Row {
	var elements []json.RawMessage
	if json.Unmarshal(raw, &elements) != nil {
		return nil
	}
	rows := make([]*Row, len(elements))
	for i, e := range elements {
		r := readRecord("", e)
		if r.err != nil {
			continue
		}
		loose := func(from *record, name string) string { s, _ := readText(from.get(name, nullable)); return s }
		rows[i] = &Row{Data: r.get("data", nullable), Account: loose(r, "account")}
		if in := r.get("error", nullable); isObject(in) {
			n := readRecord("", in)
			rows[i].Error = &RowError{Code: subjects.EntryCode(loose(n, "code")), Message: loose(n, "message"), Connector: loose(n, "connector"),
				ConnectURL: loose(n, "connectUrl"), ConnectionID: loose(n, "connectionId"), Hint: loose(n, "hint")}
		}
	}
	return rows
}

// looseTotal reads given.total, in which fractions count for their whole part and what is no number for 0.
func looseTotal(raw json.RawMessage) int {
	if n, ok := readInteger(raw); ok {
		return n
	}
	var f float64
	if json.Unmarshal(raw, &f) != nil {
		return 0
	}
	return int(f)
}

// looseEntries reads given.groups, whose entries may hold anything; one without a whole index claims no slot. Each is
// known by its name among the raw entries afterwards.
func looseEntries(groups [][]json.RawMessage) (out [][]subjects.EntryResult, raw map[string]json.RawMessage) {
	out, raw = make([][]subjects.EntryResult, len(groups)), map[string]json.RawMessage{}
	for i, group := range groups {
		for j, entry := range group {
			r := readRecord("", entry)
			e := subjects.EntryResult{Name: fmt.Sprintf("%d.%d", i, j)}
			if at := r.get("index", nullable); at == nil || json.Unmarshal(at, &e.Index) != nil {
				continue
			}
			if _, failed := r.fields["error"]; failed {
				e.Error = &subjects.EntryError{}
			}
			out[i], raw[e.Name] = append(out[i], e), entry
		}
	}
	return out, raw
}

// assembled is a reply as the cases write it, each entry as it was given.
func assembled(t *testing.T, r *subjects.BatchReply, raw map[string]json.RawMessage) any {
	t.Helper()
	got := asJSON(t, r).(map[string]any)
	for i, e := range r.Results {
		if given, ok := raw[e.Name]; ok {
			got["results"].([]any)[i] = decode(t, given)
		}
	}
	return got
}

func TestVectorsResults(t *testing.T) {
	t.Parallel()
	run(t, "results.jsonl", map[string]func(*testing.T, catalogtest.Vector){
		"partition": func(t *testing.T, v catalogtest.Vector) {
			var given struct{ Calls json.RawMessage }
			v.DecodeGiven(t, &given)
			p := Partition(looseCalls(given.Calls))
			remote := []any{}
			for _, r := range p.Remote {
				remote = append(remote, map[string]any{"position": r.Position, "name": r.Name, "connector": r.Parsed.Connector,
					"tool": r.Parsed.Tool, "arguments": r.Arguments})
			}
			stated(t, wantMap(t, v), asJSON(t, map[string]any{"local": p.Local, "remote": remote, "errors": p.Errors}))
		},
		"splice": func(t *testing.T, v catalogtest.Vector) {
			var given struct {
				Calls   json.RawMessage
				Results json.RawMessage
				Surface subjects.Surface
			}
			v.DecodeGiven(t, &given)
			entries := Splice(Partition(looseCalls(given.Calls)).Remote, looseRows(given.Results), given.Surface)
			stated(t, wantMap(t, v), asJSON(t, map[string]any{"entries": entries}))
		},
		"assemble_results": func(t *testing.T, v catalogtest.Vector) {
			var given struct {
				Total  json.RawMessage
				Groups [][]json.RawMessage
			}
			v.DecodeGiven(t, &given)
			entries, raw := looseEntries(given.Groups)
			stated(t, wantMap(t, v), assembled(t, AssembleResults(looseTotal(given.Total), entries...), raw))
		},
	}, "batch") // with the door before them: the tests of package dispatch
}

func TestVectorsConnectorSearch(t *testing.T) {
	t.Parallel()
	run(t, "connector_search.jsonl", map[string]func(*testing.T, catalogtest.Vector){"search": checkSearch})
}

func TestVectorsDescribeWithGateway(t *testing.T) {
	t.Parallel()
	for v := range catalogtest.Vectors(t, "describe.jsonl") {
		if !bytes.Contains(v.Given, []byte(`"gateway"`)) {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			checkDescribe(t, v)
		})
	}
}

// vectorScope is the scope of a vector, made as a worker makes it.
func vectorScope(t *testing.T, v catalogtest.Vector, tools, withheld, config json.RawMessage) *catalog.Scope {
	t.Helper()
	granted, others := v.Tools(t, tools), v.Tools(t, withheld)
	raw := catalogtest.Array(append(slices.Clone(granted), others...))
	req := &subjects.AssembleRequest{Tools: raw}
	if len(others) > 0 { // each in a toolset that none of the granted ones is of
		var enabled []string
		for _, e := range granted {
			enabled = append(enabled, e.Toolset)
		}
		req.EnabledToolsets = &enabled
	}
	c, err := catalog.Build(raw, catalog.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	base, _ := catalog.DefaultConfig().Overlay(config)
	s, err := catalog.NewScope(c, catalog.Owner{Tenant: "tenant", Session: "session"}, req, base, coreNames, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// matchedRecords are the records of a reply without those of tools that only stand in near, which come after them.
func matchedRecords(r *subjects.SearchReply) subjects.Ordered[subjects.ToolRecord] {
	near := map[string]bool{}
	for _, g := range r.Results {
		for _, name := range g.Near {
			near[name] = true
		}
	}
	for _, g := range r.Results {
		for _, name := range g.Matches {
			delete(near, name)
		}
	}
	out := subjects.Ordered[subjects.ToolRecord]{}
	for _, p := range r.Tools {
		if !near[p.Key] {
			out = append(out, p)
		}
	}
	return out
}

// refused checks that err is a mistake of the model in the words of want.
func refused(t *testing.T, want any, err error) {
	t.Helper()
	var mistake *subjects.ToolError
	if !errors.As(err, &mistake) {
		t.Fatalf("error %v, want %v", err, want)
	}
	equal(t, "error", want, mistake.Message)
}

func checkSearch(t *testing.T, v catalogtest.Vector) {
	var given struct {
		Tools, Withheld, Config, Arguments json.RawMessage
		Gateway                            vectorGateway
	}
	v.DecodeGiven(t, &given)
	var want struct {
		Error    any
		Requests []vectorRequest
	}
	v.DecodeWant(t, &want)
	s, b := vectorScope(t, v, given.Tools, given.Withheld, given.Config), newBench(t, given.Gateway)
	q, err := s.ParseSearch(given.Arguments)
	if want.Error != nil {
		refused(t, want.Error, err)
		b.checkRequests(t, want.Requests)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var remote *catalog.RemoteSearch
	if s.Connectors() {
		remote = b.gateway.Search(t.Context(), "tenant", q.Queries)
	}
	reply := s.Search(q, remote)
	got := asJSON(t, reply).(map[string]any)
	for _, g := range got["results"].([]any) { // of the product's own
		for _, k := range []string{"total_matches", "truncated", "near", "unknown_words", "did_you_mean"} {
			delete(g.(map[string]any), k)
		}
	}
	matched := matchedRecords(reply)
	got["tool_names"] = asJSON(t, matched.Keys())
	records := []any{}
	for _, p := range matched {
		r := asJSON(t, p.Value).(map[string]any)
		r["name"] = p.Key
		records = append(records, r)
	}
	got["tools"] = records
	expect := wantMap(t, v)
	delete(expect, "requests")
	stated(t, expect, got)
	b.checkRequests(t, want.Requests)
}

func checkDescribe(t *testing.T, v catalogtest.Vector) {
	var given struct {
		Tools, Withheld, Config, Arguments json.RawMessage
		Gateway                            vectorGateway
	}
	v.DecodeGiven(t, &given)
	var want struct {
		Error    any
		Requests []vectorRequest
	}
	v.DecodeWant(t, &want)
	s, b := vectorScope(t, v, given.Tools, given.Withheld, given.Config), newBench(t, given.Gateway)
	names, err := s.ParseDescribe(given.Arguments)
	if want.Error != nil {
		refused(t, want.Error, err)
		b.checkRequests(t, want.Requests)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var remote *catalog.RemoteDescribe
	if s.Connectors() {
		remote = b.gateway.Describe(t.Context(), "tenant", names)
	}
	reply := s.Describe(names, remote)
	got := asJSON(t, reply).(map[string]any)
	got["described"] = asJSON(t, reply.Tools.Keys())
	expect := wantMap(t, v)
	delete(expect, "requests")
	if schemas, ok := expect["schemas"].(map[string]any); ok {
		for name, w := range schemas {
			equal(t, name, w, got["tools"].(map[string]any)[name])
		}
		delete(expect, "schemas")
	}
	for _, k := range []string{"not_found", "errors"} {
		if expect[k] == nil && got[k] != nil {
			t.Errorf("%s: got %v, want none", k, got[k])
		}
	}
	stated(t, expect, got)
	b.checkRequests(t, want.Requests)
}

// coreNames are the names that never defer by class, as the vectors take them.
var coreNames = strings.Fields(`web_search web_extract terminal process_manage read_file write_file patch search_files vision_analyze
	image_generate skills_list skill_view skill_manage browser_navigate browser_snapshot browser_click browser_type browser_scroll browser_back
	browser_press browser_get_images browser_vision browser_console browser_cdp browser_dialog browser_vault_list browser_vault_unlock
	browser_vault_fill browser_vault_save_login browser_vault_enter_code browser_exec text_to_speech todo_list memory session_search clarify
	execute_code delegate_task cronjob_manage kanban_show kanban_list kanban_complete kanban_block kanban_request_review kanban_request_changes
	kanban_heartbeat kanban_comment kanban_create kanban_link kanban_unblock kanban_attach kanban_attach_url kanban_attachments computer_use
	manage_connections`)
