package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"toolsearch/subjects"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestDeadlines(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 10), make(chan struct{})
	b := setup(t, Options{Concurrency: 1, RequestTimeout: time.Minute}, handling(subjects.VerbSearch, func(ctx context.Context, r *request) ([]byte, error) {
		begun <- struct{}{}
		if string(r.body) == `"wait for it"` {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		<-release
		return []byte("{}"), nil
	}))
	subject := subjects.DefaultRoot.Request("acme", "s1", subjects.VerbSearch)

	// One that runs holds the only place; the deadline of the next passes while it waits.
	first := make(chan *nats.Msg, 1)
	go func() {
		m, _ := b.nc.Request(subject, []byte("{}"), wait)
		first <- m
	}()
	await(t, begun, "the first to begin")
	second := make(chan *nats.Msg, 1)
	deadline := time.Now().Add(50 * time.Millisecond)
	go func() {
		m, _ := b.nc.RequestMsg(&nats.Msg{Subject: subject, Data: []byte("{}"),
			Header: nats.Header{subjects.HeaderDeadline: []string{subjects.FormatDeadline(deadline)}}}, wait)
		second <- m
	}()
	<-time.After(time.Until(deadline) + time.Millisecond) // the deadline itself is the event
	close(release)
	ok(t, await(t, first, "the first"))
	if e := fails(t, await(t, second, "the second")); e.Code != subjects.CodeDeadlineExceeded {
		t.Fatalf("a deadline that passed in the queue: %v", e)
	}
	if len(begun) != 0 {
		t.Fatal("work was begun after its deadline")
	}

	// One whose deadline passes while it runs.
	h := nats.Header{subjects.HeaderDeadline: []string{subjects.FormatDeadline(time.Now().Add(50 * time.Millisecond))}}
	if e := fails(t, b.send(subject, h, `"wait for it"`)); e.Code != subjects.CodeDeadlineExceeded {
		t.Fatalf("a deadline that passed in the handler: %v", e)
	}

	// One that is no instant.
	h = nats.Header{subjects.HeaderDeadline: []string{"soon"}}
	if e := fails(t, b.send(subject, h, "{}")); e.Code != subjects.CodeBadRequest || e.Details["field"] != subjects.HeaderDeadline {
		t.Fatalf("a malformed deadline: %v %v", e, e.Details)
	}
}

// A full worker says so at once and when to come back; another tenant still finds a place.
func TestOverload(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 100), make(chan struct{})
	b := setup(t, Options{Concurrency: 2, QueueDepth: 2, TenantShare: 0.5}, handling(subjects.VerbSearch, func(context.Context, *request) ([]byte, error) {
		begun <- struct{}{}
		<-release
		return []byte("{}"), nil
	}))
	a := b.floodAs("greedy", 10, "{}")
	for i := range 8 { // one runs, one waits
		m := await(t, a.replies, fmt.Sprintf("refusal %d", i))
		e := fails(t, m)
		if e.Code != subjects.CodeOverloaded || e.RetryAfter < 50*time.Millisecond || !e.Retryable() {
			t.Fatalf("a full worker says %v, come back in %v", e, e.RetryAfter)
		}
		a.n--
	}
	await(t, begun, "the greedy tenant's one")
	other := b.floodAs("modest", 1, "{}")
	await(t, begun, "another tenant's request to be begun while the greedy one's wait")
	close(release)
	if codes := a.all(t); codes[""] != 2 {
		t.Fatalf("the greedy tenant's accepted ones: %v", codes)
	}
	if codes := other.all(t); codes[""] != 1 {
		t.Fatalf("the other tenant's: %v", codes)
	}
	s := b.w.Stats()[subjects.VerbSearch]
	if s.Requests != 11 || s.Refused != 8 || s.Errors[subjects.CodeOverloaded] != 8 || s.Replies != 3 || s.InFlight != 0 {
		t.Fatalf("counted %+v", s)
	}
}

func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{}, handling(subjects.VerbSearch, func(_ context.Context, r *request) ([]byte, error) {
		if string(r.body) == "{}" {
			panic("kaboom")
		}
		return nil, errors.New("a secret cause")
	}))
	h := nats.Header{"Traceparent": []string{traceParent}}
	for _, body := range []string{"{}", "[]"} {
		m := b.askAs("acme", "s1", subjects.VerbSearch, h, body)
		e := fails(t, m)
		if e.Code != subjects.CodeInternal || e.Details["trace_id"] != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Fatalf("%s: %v %v", body, e, e.Details)
		}
		if strings.Contains(string(m.Data), "secret") || strings.Contains(string(m.Data), "kaboom") {
			t.Fatalf("the cause crossed the bus: %s", m.Data)
		}
	}
	if !b.log.has("kaboom") || !b.log.has("a secret cause") {
		t.Fatal("the cause was not logged")
	}
	b.assemble(10)
}

// The trace context of a request, in whatever case it came, is on its reply in lower case.
func TestTraceContextIsCopied(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	scope := b.assemble(10).Scope
	for _, key := range []string{"traceparent", "Traceparent", "TRACEPARENT"} {
		h := nats.Header{key: []string{traceParent}, "Tracestate": []string{"a=b"}}
		for _, body := range []string{search(scope, "x"), "oops"} {
			m := b.askAs("acme", "s1", subjects.VerbSearch, h, body)
			if m.Header.Get("traceparent") != traceParent || m.Header.Get("tracestate") != "a=b" {
				t.Errorf("%s: reply headers %v", key, m.Header)
			}
		}
	}
	m := b.ask(subjects.VerbSearch, search(scope, "x"))
	if m.Header.Del(subjects.HeaderSearchStreak); len(m.Header) > 0 {
		t.Errorf("headers without any need: %v", m.Header)
	}
}

// A trace context of any size is the requester's mistake and nobody's burden: it is dropped, and the call is accepted.
func TestHugeTraceContextIsDropped(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	scope := b.assemble(10).Scope
	long := strings.Repeat("x", 100_000)
	h := nats.Header{subjects.HeaderTraceParent: []string{traceParent}, subjects.HeaderTraceState: []string{long}}
	m := b.askAs("acme", "s1", subjects.VerbSearch, h, search(scope, "x"))
	if m.Header.Get(subjects.HeaderTraceParent) != traceParent || m.Header.Get(subjects.HeaderTraceState) != "" {
		t.Errorf("reply headers of %d bytes", len(fmt.Sprint(m.Header)))
	}
	h = nats.Header{subjects.HeaderTraceParent: []string{long}}
	if m := b.askAs("acme", "s1", subjects.VerbSearch, h, search(scope, "x")); m.Header.Get(subjects.HeaderTraceParent) != "" {
		t.Error("a traceparent of 100,000 bytes came back")
	}
}

// A reply over max_payload comes by claim check.
func TestLargeReply(t *testing.T) {
	t.Parallel()
	large := []byte(`{"x":"` + strings.Repeat("y", 3<<20) + `"}`)
	b := setup(t, Options{}, handling(subjects.VerbSearch, func(context.Context, *request) ([]byte, error) { return large, nil }))
	m := b.ask(subjects.VerbSearch, "{}")
	ref, named := subjects.RefOf(m.Header)
	if !named || len(m.Data) != 0 {
		t.Fatalf("a reply of %d bytes with the headers %v", len(m.Data), m.Header)
	}
	got, err := b.w.bodies.Get(t.Context(), "acme", ref)
	if err != nil || string(got) != string(large) {
		t.Fatalf("%d bytes: %v", len(got), err)
	}
}

// A request by claim check is answered like any other, and one whose claim is wrong is told so.
func TestLargeRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{LargeBodies: 1})
	body := []byte(`{"tools":` + string(madeUp(8000)) + `}`)
	ref, err := b.w.bodies.Put(t.Context(), "acme", body)
	if err != nil {
		t.Fatal(err)
	}
	h := nats.Header{}
	ref.Set(h)
	var reply subjects.AssembleReply
	for range 3 { // each gives its place among the large bodies back
		if err := json.Unmarshal(ok(t, b.askAs("acme", "s1", subjects.VerbAssemble, h, "")), &reply); err != nil || reply.DeferredCount != 8000 {
			t.Fatalf("%d tools: %v", reply.DeferredCount, err)
		}
	}
	ok(t, b.ask(subjects.VerbSearch, search(reply.Scope, "order_7777")))

	wrong := nats.Header{}
	subjects.Ref{Object: ref.Object, Digest: subjects.Digest([]byte("other"))}.Set(wrong)
	if e := fails(t, b.askAs("acme", "s1", subjects.VerbAssemble, wrong, "")); e.Code != subjects.CodeBadRequest {
		t.Fatalf("another digest: %v", e)
	}
	subjects.Ref{Object: "none", Digest: ref.Digest}.Set(wrong)
	if e := fails(t, b.askAs("acme", "s1", subjects.VerbAssemble, wrong, "")); e.Code != subjects.CodeBadRequest {
		t.Fatalf("no such object: %v", e)
	}
	// The body of another tenant is out of reach.
	if e := fails(t, b.askAs("other", "s1", subjects.VerbAssemble, h, "")); e.Code != subjects.CodeBadRequest {
		t.Fatalf("another tenant's body: %v", e)
	}
}

// What "nats micro" shows is true: the service, its endpoints with their schemas, and their figures.
func TestService(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{Name: "w1", Version: "1.2.3"})
	scope := b.assemble(10).Scope
	ok(t, b.ask(subjects.VerbSearch, search(scope, "x")))
	fails(t, b.ask(subjects.VerbSearch, "oops"))
	fails(t, b.ask(subjects.VerbSearch, "oops"))

	var info micro.Info
	if err := json.Unmarshal(b.send("$SRV.INFO.toolsearch", nil, "").Data, &info); err != nil {
		t.Fatal(err)
	}
	if info.Name != "toolsearch" || info.Version != "1.2.3" || info.Metadata["worker"] != "w1" {
		t.Fatalf("info %+v", info)
	}
	got := map[string]string{}
	for _, e := range info.Endpoints {
		got[e.Name] = e.Subject
		if e.QueueGroup != "toolsearch" {
			t.Errorf("%s is in the queue group %q", e.Name, e.QueueGroup)
		}
		for _, key := range []string{"request_schema", "response_schema"} {
			if _, known := subjects.Schema(e.Metadata[key]); !known {
				t.Errorf("%s: %s is %q, which is no schema", e.Name, key, e.Metadata[key])
			}
		}
	}
	for _, verb := range []subjects.Verb{subjects.VerbAssemble, subjects.VerbSearch, subjects.VerbDescribe} {
		if want := "toolsearch.v1.req.*.*." + string(verb); got[string(verb)] != want {
			t.Errorf("endpoint %s listens on %q, want %q", verb, got[string(verb)], want)
		}
	}

	var stats micro.Stats
	if err := json.Unmarshal(b.send("$SRV.STATS.toolsearch", nil, "").Data, &stats); err != nil {
		t.Fatal(err)
	}
	for _, e := range stats.Endpoints {
		if e.Name != "search" {
			continue
		}
		var s EndpointStats
		if err := json.Unmarshal(e.Data, &s); err != nil {
			t.Fatal(err)
		}
		if s.Requests != 3 || s.Replies != 1 || s.Errors[subjects.CodeBadRequest] != 2 || s.ProcessingTime <= 0 || s.InFlight != 0 {
			t.Errorf("the data of search: %+v", s)
		}
		return
	}
	t.Fatal("no figures of search")
}

// A message that asks for no reply costs nothing and is counted.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{}, handling(subjects.VerbSearch, func(context.Context, *request) ([]byte, error) {
		t.Error("the work was done")
		return nil, nil
	}))
	if err := b.nc.Publish(subjects.DefaultRoot.Request("acme", "s1", subjects.VerbSearch), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	b.assemble(5) // on another subscription, so:
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := b.w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	if err := b.w.nc.Barrier(func() { close(done) }); err != nil {
		t.Fatal(err)
	}
	await(t, done, "the subscription to be empty")
	if s := b.w.Stats()[subjects.VerbSearch]; s.Requests != 1 || s.Unanswered != 1 || s.InFlight != 0 {
		t.Fatalf("counted %+v", s)
	}
}
