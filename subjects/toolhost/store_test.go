package toolhost_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"toolsearch/subjects"
	"toolsearch/subjects/toolhost"
)

// counter is a tool that says how often it ran, with as much text as its arguments ask for.
func counter(ran *atomic.Int64) toolhost.Tool {
	return tool("count", func(_ context.Context, r toolhost.Request) (any, error) {
		var a struct{ Bytes int }
		if err := json.Unmarshal(r.Arguments, &a); err != nil {
			return nil, err
		}
		return map[string]any{"n": ran.Add(1), "text": strings.Repeat("x", a.Bytes)}, nil
	})
}

// The answers outlive the process: another one with the same store gives them, small and large, and runs nothing.
func TestKeysSurviveARestart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keys := b.keys()
	var ran atomic.Int64
	ask := func() (small, large *subjects.HostReply) {
		h, err := toolhost.Serve(b.connect(), toolhost.Options{Tenant: "acme", Host: "mcp-1", Keys: keys}, counter(&ran))
		if err != nil {
			t.Fatal(err)
		}
		defer h.Stop(inTime(t))
		return b.call("small", "count", `{}`), b.call("large", "count", `{"bytes": 300000}`)
	}
	small, large := ask()
	smallAgain, largeAgain := ask()
	if ran.Load() != 2 {
		t.Errorf("ran %d times, want 2", ran.Load())
	}
	if code(small) != "" || string(small.Result) != string(smallAgain.Result) {
		t.Errorf("%s %v, then %s %v", small.Result, small.Error, smallAgain.Result, smallAgain.Error)
	}
	if len(large.Result) < 300_000 || string(large.Result) != string(largeAgain.Result) {
		t.Errorf("%d bytes %v, then %d bytes %v", len(large.Result), large.Error, len(largeAgain.Result), largeAgain.Error)
	}
	h := b.serve(toolhost.Options{Keys: keys}, counter(&ran))
	defer h.Stop(inTime(t))
	if got := b.call("small", "count", `{"bytes": 1}`); code(got) != "CALL_CONFLICT" {
		t.Errorf("other arguments after a restart: %s %v", got.Result, got.Error)
	}
}

// Many instances and many askers under one key: one runs, all get its answer.
func TestInstancesShareKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keys := b.keys()
	var ran atomic.Int64
	for range 3 {
		b.serve(toolhost.Options{Keys: keys}, counter(&ran))
	}
	answers := make([]string, 24)
	var all sync.WaitGroup
	for i := range answers {
		all.Add(1)
		go func() { defer all.Done(); answers[i] = string(b.call("k", "count", `{}`).Result) }()
	}
	all.Wait()
	for _, a := range answers {
		if a != answers[0] || a == "" {
			t.Errorf("answers %q and %q", answers[0], a)
		}
	}
	if ran.Load() != 1 {
		t.Errorf("ran %d times", ran.Load())
	}
}

// The instance that ran a key died with it: whoever asks again is told that nothing is known, and nothing runs.
func TestKeyOfADeadInstance(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keys := b.keys()
	begun, dead := make(chan struct{}, 1), make(chan struct{})
	nc := b.connect()
	first, err := toolhost.Serve(nc, toolhost.Options{Tenant: "acme", Host: "mcp-1", Keys: keys}, tool("count", func(context.Context, toolhost.Request) (any, error) {
		begun <- struct{}{}
		<-dead
		return nil, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	err = b.caller.Publish(subjects.DefaultRoot.Host("acme", "mcp-1", subjects.HostCall),
		[]byte(`{"name":"count","arguments":{},"idempotency_key":"k","deadline":"`+subjects.FormatDeadline(time.Now().Add(time.Hour))+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	nc.Close() // to the rest of the world, it is gone now
	expire(t, keys)

	var ran atomic.Int64
	b.serve(toolhost.Options{Keys: keys}, counter(&ran))
	if got := b.call("k", "count", `{}`); code(got) != "OUTCOME_UNKNOWN" {
		t.Errorf("got %s %v", got.Result, got.Error)
	}
	if ran.Load() != 0 {
		t.Error("it ran again")
	}
	close(dead)
	if err := first.Stop(inTime(t)); err != nil {
		t.Error(err)
	}
}

// expire puts the deadline of the one key of a bucket into the past.
func expire(t *testing.T, keys jetstream.KeyValue) {
	t.Helper()
	names, err := keys.Keys(inTime(t))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	e, err := keys.Get(inTime(t), names[0])
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(e.Value(), &record); err != nil {
		t.Fatal(err)
	}
	record["until"] = time.Now().Add(-time.Hour)
	p, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Put(inTime(t), names[0], p); err != nil {
		t.Fatal(err)
	}
}

// Without its store a host runs nothing: it could not keep its promise.
func TestStoreOutOfReach(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keys := b.keys()
	var ran atomic.Int64
	b.serve(toolhost.Options{Keys: keys}, counter(&ran))
	js, err := jetstream.New(b.caller)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(inTime(t), toolhost.KeysBucket("acme")); err != nil {
		t.Fatal(err)
	}
	if got := b.call("k", "count", `{}`); code(got) != "UNAVAILABLE" || ran.Load() != 0 {
		t.Errorf("got %s %v, ran %d times", got.Result, got.Error, ran.Load())
	}
	if _, err := toolhost.OpenKeys(inTime(t), js, "acme", 1); err != nil {
		t.Fatal(err)
	}
	if got := b.call("k", "count", `{}`); code(got) != "" || ran.Load() != 1 {
		t.Errorf("when it came back: %s %v, ran %d times", got.Result, got.Error, ran.Load())
	}
	if _, err := toolhost.OpenKeys(inTime(t), js, "a.b", 1); err == nil {
		t.Error("a tenant that is no token has a bucket")
	}
}
