package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/subjects"
)

// answers sends n searches at once and collects what comes back.
type answers struct {
	replies chan *nats.Msg
	n       int
}

func (b *bundle) flood(n int, body string) *answers {
	b.t.Helper()
	return b.floodAs("", n, body)
}

// floodAs sends as one tenant, or as seven in turn.
func (b *bundle) floodAs(as string, n int, body string) *answers {
	b.t.Helper()
	a := &answers{replies: make(chan *nats.Msg, n), n: n}
	inbox := b.nc.NewInbox()
	sub, err := b.nc.Subscribe(inbox+".*", func(m *nats.Msg) { a.replies <- m })
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = sub.Unsubscribe() })
	for i := range n {
		tenant := as
		if tenant == "" {
			tenant = fmt.Sprintf("t%d", i%7)
		}
		m := &nats.Msg{Subject: subjects.DefaultRoot.Request(tenant, "s1", subjects.VerbSearch), Reply: fmt.Sprintf("%s.%d", inbox, i), Data: []byte(body)}
		if err := b.nc.PublishMsg(m); err != nil {
			b.t.Fatal(err)
		}
	}
	// The server has handed all of them on once it answers this.
	if err := b.nc.Flush(); err != nil {
		b.t.Fatal(err)
	}
	return a
}

// all waits for every answer and counts them by code, "" for none of the errors. An answer that comes twice is a
// failure.
func (a *answers) all(t *testing.T) map[subjects.Code]int {
	t.Helper()
	seen := map[string]bool{}
	codes := map[subjects.Code]int{}
	for range a.n {
		m := await(t, a.replies, fmt.Sprintf("answer %d of %d", len(seen)+1, a.n))
		if seen[m.Subject] {
			t.Fatalf("answered twice: %s", m.Subject)
		}
		seen[m.Subject] = true
		codes[subjects.Code(m.Header.Get(subjects.HeaderError))]++
	}
	return codes
}

// Everything that reached the worker before the drain is answered as if there were none: what runs, what waits in the
// queue, and what lies in the client library when the endpoints stop.
func TestDrainAnswersEveryone(t *testing.T) {
	t.Parallel()
	const n = 2000
	begun, release := make(chan struct{}, n), make(chan struct{})
	b := setup(t, Options{Concurrency: 8, QueueDepth: 2 * n, TenantShare: 1}, handling(subjects.VerbSearch, func(ctx context.Context, r *request) ([]byte, error) {
		begun <- struct{}{}
		<-release
		return []byte(`{}`), nil
	}))
	a := b.flood(n, `{}`)
	await(t, begun, "a request to be begun")
	drained := make(chan error, 1)
	go func() { drained <- b.w.Drain(context.Background()) }()
	await(t, b.log.seen("the worker is draining"), "the drain to begin")
	if b.w.Health().Ready {
		t.Error("ready while draining")
	}
	close(release)
	if codes := a.all(t); codes[""] != n {
		t.Fatalf("answers by code: %v, want %d good ones", codes, n)
	}
	if err := await(t, drained, "the drain"); err != nil {
		t.Fatal(err)
	}
	if !b.w.nc.IsClosed() {
		t.Error("the connection is still open")
	}
	// The next one finds nobody, at once.
	if _, err := b.nc.Request(subjects.DefaultRoot.Request("t", "s", subjects.VerbSearch), nil, wait); !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("after the drain: %v", err)
	}
}

// Requests that the server has sent and the client library still holds when the endpoints stop are answered like any
// other: the drain waits until they are with the pool before it lets in no more.
func TestDrainTakesWhatLiesInTheLibrary(t *testing.T) {
	t.Parallel()
	const n = 500
	b := setup(t, Options{QueueDepth: 2 * n, TenantShare: 1}, handling(subjects.VerbSearch, func(context.Context, *request) ([]byte, error) {
		return []byte(`{}`), nil
	}))
	b.w.queries.mu.Lock() // the subscription stands still at its first request
	a := b.flood(n, `{}`)
	drained := make(chan error, 1)
	go func() { drained <- b.w.Drain(context.Background()) }()
	await(t, b.log.seen("the worker is draining"), "the drain to begin")
	for !b.w.service.Stopped() {
		runtime.Gosched()
	}
	b.w.queries.mu.Unlock()
	if codes := a.all(t); codes[""] != n {
		t.Fatalf("answers by code: %v, want %d good ones", codes, n)
	}
	if err := await(t, drained, "the drain"); err != nil {
		t.Fatal(err)
	}
}

// What does not end in time is answered UNAVAILABLE, whether it waits, heeds its context or not.
func TestDrainOutOfTime(t *testing.T) {
	t.Parallel()
	const n = 60
	begun, release := make(chan struct{}, n), make(chan struct{})
	var heed sync.Once
	b := setup(t, Options{Concurrency: 4, TenantShare: 1, DrainTimeout: time.Second}, handling(subjects.VerbSearch, func(ctx context.Context, r *request) ([]byte, error) {
		begun <- struct{}{}
		deaf := true
		heed.Do(func() { deaf = false })
		if deaf {
			<-release
			return []byte(`{}`), nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	a := b.flood(n, `{}`)
	await(t, begun, "a request to be begun")
	err := b.w.Drain(context.Background())
	if err == nil || !strings.Contains(err.Error(), "before they were done") {
		t.Errorf("the drain says %v", err)
	}
	if codes := a.all(t); codes[subjects.CodeUnavailable] != n {
		t.Fatalf("answers by code: %v, want %d of UNAVAILABLE", codes, n)
	}
	close(release)
	if again := b.w.Drain(context.Background()); !errors.Is(again, err) {
		t.Fatalf("a second drain says %v", again)
	}
	b.w.drainErr = nil // the bundle drains once more
}

func TestDrainSideBySide(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	b.assemble(10)
	errs := make(chan error)
	for range 5 {
		go func() { errs <- b.w.Drain(context.Background()) }()
	}
	for range 5 {
		if err := await(t, errs, "a drain"); err != nil {
			t.Error(err)
		}
	}
}

// Under load from several clients and with another worker there, a drain costs no request its answer.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	scope := b.assemble(50).Scope
	b.worker(Options{})
	stop := make(chan struct{})
	failed := make(chan error, 100)
	var asked sync.WaitGroup
	answered := make(chan struct{}, 100_000)
	for range 4 {
		nc := b.dial()
		asked.Add(1)
		go func() {
			defer asked.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				m, err := nc.Request(subjects.DefaultRoot.Request("acme", "s1", subjects.VerbSearch), []byte(search(scope, "order_7")), wait)
				if err == nil {
					err = subjects.ReplyError(m.Header, m.Data)
				}
				if err != nil && !errors.Is(err, &subjects.Error{Code: subjects.CodeUnavailable}) {
					failed <- err
					return
				}
				answered <- struct{}{}
			}
		}()
	}
	for range 200 {
		await(t, answered, "the load to run")
	}
	if err := b.w.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	for range 200 {
		await(t, answered, "the other worker to go on")
	}
	close(stop)
	asked.Wait()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
}

// A worker that never got ready drains too, and one whose server has gone.
func TestDrainWithoutServer(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{})
	down := b.w.nc.StatusChanged(nats.RECONNECTING)
	b.bus.Shutdown()
	await(t, down, "the worker to see the server go")
	if err := b.w.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
}
