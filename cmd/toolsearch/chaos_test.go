package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
	"toolsearch/worker/embedded"
)

// storm is a crash test: sessions send batches while something is killed again and again.
type storm struct {
	sessions, batches int
	kills             int           // at the least; batches go on until then
	most              int           // kills at the most; 0: until all batches are done
	every             time.Duration // from one kill to the next
}

const entriesPerBatch = 5

// form takes the long form where TOOLSEARCH_CHAOS=long asks for it, and the short one everywhere else.
func form(short, long storm) storm {
	if os.Getenv("TOOLSEARCH_CHAOS") == "long" {
		return long
	}
	return short
}

// TestChaosWorkers kills three workers again and again while batches run through a gateway that fails.
func TestChaosWorkers(t *testing.T) {
	s := form(storm{sessions: 3, batches: 12, kills: 6, every: 300 * time.Millisecond},
		storm{sessions: 20, batches: 300, kills: 100, every: 300 * time.Millisecond})
	bus, err := embedded.Start(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Shutdown)
	g := stormGateway(t)
	crew := newCrew(t, 3, func(i int) (*process, error) {
		return start(t, stormEnv, "worker", "--nats", bus.ClientURL(), "--gateway", g.URL(), "--name", fmt.Sprint("worker-", i), "--log-level", "error")
	})
	s.run(t, bus.ClientURL(), g, func(ctx context.Context) (kills int) {
		return crew.harass(ctx, s, func(int) {})
	}, crew)
}

// stormEnv makes workers that take over quickly and never give a call up: its runners die through no fault of its own.
var stormEnv = append([]string{"TOOLSEARCH_WORKER_ACK_WAIT=1s", "TOOLSEARCH_WORKER_MAX_TAKEOVERS=1000"}, tokenEnv...)

// stormGateway serves one app whose tool takes a while, and fails in every way that may be retried.
func stormGateway(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	g, err := gatewaytest.Start(gatewaytest.Options{Seed: 1, Keep: 1_000_000, Apps: []gatewaytest.App{{
		Connector: "mail", Tools: []gatewaytest.Tool{{Slug: "MAIL_SEND_EMAIL", Run: func(_ context.Context, c gatewaytest.Call) (any, error) {
			<-time.After(20 * time.Millisecond)
			return map[string]int{"effect": c.Number}, nil
		}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503, Route: "execute", Probability: 0.10})
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Drop, AfterEffect: true, Route: "execute", Probability: 0.05})
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.RateLimit, Route: "execute", Probability: 0.03})
	return g
}

// crew is processes that are killed and started again.
type crew struct {
	t       *testing.T
	begin   func(i int) (*process, error)
	mu      sync.Mutex
	members []*process
}

func newCrew(t *testing.T, n int, begin func(i int) (*process, error)) *crew {
	t.Helper()
	c := &crew{t: t, begin: begin, members: make([]*process, n)}
	t.Cleanup(func() {
		for _, p := range c.members {
			if p != nil {
				p.kill()
			}
		}
	})
	for i := range c.members {
		if err := c.replace(i); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// replace starts member i, anew if it was killed.
func (c *crew) replace(i int) error {
	p, err := c.begin(i)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[i] = p
	return err
}

// harass kills a member now and then, starts it again and waits with healed, until ctx ends. It tells how many it killed.
func (c *crew) harass(ctx context.Context, s storm, healed func(i int)) int {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for kills := 0; ; {
		if s.most > 0 && kills == s.most {
			<-ctx.Done()
			return kills
		}
		select {
		case <-ctx.Done():
			return kills
		case <-tick.C:
		}
		i := rand.IntN(len(c.members))
		c.members[i].kill()
		kills++
		if err := c.replace(i); err != nil {
			c.t.Errorf("start again: %v", err)
			return kills
		}
		healed(i)
	}
}

// said is the log of all members, for a failed test.
func (c *crew) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, p := range c.members {
		if p != nil {
			fmt.Fprintf(&b, "--- %s\n%s", p.name, p.err)
		}
	}
	return b.String()
}

// sent is a batch as its session sent it, and what came back.
type sent struct {
	tenant, session, call string
	reply                 *subjects.BatchReply
	told                  []int // indexes in the order in which they were told as they settled
	asked                 int   // how often the session asked
}

// run sends the batches while harass runs, and checks everything afterwards.
func (s storm) run(t *testing.T, urls string, g *gatewaytest.Gateway, harass func(context.Context) int, crew *crew) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	agents := make([]*agent, s.sessions)
	for i := range agents {
		var err error
		if agents[i], err = newAgent(ctx, urls, fmt.Sprintf("tenant-%d", i%3), fmt.Sprintf("session-%d", i)); err != nil {
			t.Fatalf("%v\n%s", err, crew.said())
		}
		defer agents[i].nc.Close()
	}

	began := time.Now()
	stopHarassing, ended := context.WithCancel(ctx)
	var kills atomic.Int64
	var trouble sync.WaitGroup
	trouble.Go(func() { kills.Store(int64(harass(stopHarassing))) })
	defer func() { ended(); trouble.Wait() }()

	// The number of kills is known only at the end, so the time that they take bounds the batches.
	least := began.Add(time.Duration(s.kills) * s.every)
	var mu sync.Mutex
	var all []*sent
	var next atomic.Int64
	var sessions sync.WaitGroup
	for _, a := range agents {
		sessions.Go(func() {
			for n := next.Add(1); n <= int64(s.batches) || time.Now().Before(least); n = next.Add(1) {
				b := a.send(ctx, t, fmt.Sprintf("batch-%d", n))
				mu.Lock()
				all = append(all, b)
				mu.Unlock()
				if b.reply == nil {
					return
				}
			}
		})
	}
	sessions.Wait()
	ended()
	trouble.Wait()
	took := time.Since(began)

	for _, b := range all {
		checkReply(t, b)
	}
	checkEffects(t, all, g.Effects())
	checkStreams(ctx, t, urls, all)
	t.Log(figures(all, g, int(kills.Load()), took))
	if t.Failed() {
		t.Log(crew.said())
	}
}

// agent is a session with a connection of its own.
type agent struct {
	*subjects.Session
	nc    *nats.Conn
	scope subjects.Scope
}

func newAgent(ctx context.Context, urls, tenant, session string, more ...nats.Option) (*agent, error) {
	options := append(subjects.ConnectOptions(tenant, session), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	nc, err := nats.Connect(urls, append(options, more...)...)
	if err != nil {
		return nil, err
	}
	client, err := subjects.NewClient(nc, subjects.ClientOptions{Reattach: 2 * time.Second, MaxBackoff: 500 * time.Millisecond, Retries: 50})
	if err != nil {
		return nil, err
	}
	a := &agent{Session: client.Session(tenant, session), nc: nc}
	tools := json.RawMessage(`[{"toolset": "connectors", "tool": {"name": "manage_connections", "parameters": {"type": "object"}}}]`)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		got, err := a.Assemble(ctx, &subjects.AssembleRequest{Tools: tools})
		if err == nil {
			a.scope = subjects.Handle(got.Scope)
			return a, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("assemble: %w", err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// send calls a batch and asks again, under the same id, until it is answered.
func (a *agent) send(ctx context.Context, t *testing.T, call string) *sent {
	b := &sent{tenant: a.Tenant(), session: a.ID(), call: call}
	type entry struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	var calls []entry
	for i := range entriesPerBatch {
		calls = append(calls, entry{"connectors__mail__SEND_EMAIL", map[string]string{"to": fmt.Sprintf("%s/%d", call, i)}})
	}
	args, err := json.Marshal(map[string]any{"calls": calls})
	if err != nil {
		t.Error(err)
		return b
	}
	var last error
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; {
		b.asked++
		b.told = nil
		got, err := a.Call(ctx, subjects.CallRequest{Scope: a.scope, CallID: call, Arguments: args}, func(e subjects.EntryEvent) {
			b.told = append(b.told, e.Index)
		})
		if err == nil {
			b.reply = got.Batch
			if got.Batch == nil {
				t.Errorf("%s: the reply is %s", call, got.Raw)
			}
			return b
		}
		last = err
		<-time.After(100 * time.Millisecond)
	}
	t.Errorf("%s was never answered: %v", call, last)
	return b
}

// checkReply: one result for each entry, in order, and each told once as it settled.
func checkReply(t *testing.T, b *sent) {
	t.Helper()
	if b.reply == nil {
		return // told already
	}
	if len(b.reply.Results) != entriesPerBatch || b.reply.TotalCount != entriesPerBatch {
		t.Errorf("%s: the reply has %d results", b.call, len(b.reply.Results))
		return
	}
	for i, r := range b.reply.Results {
		// What a killed worker sent and nobody heard the answer of may be unknown; that is the truth and no failure.
		if o := r.Outcome(); r.Index != i || o != subjects.OutcomeOK && o != subjects.OutcomeUnknown {
			t.Errorf("%s: entry %d settled as %s: %+v", b.call, i, o, r.Error)
		}
	}
	told := slices.Clone(b.told)
	slices.Sort(told)
	if !slices.Equal(told, []int{0, 1, 2, 3, 4}) {
		t.Errorf("%s: the session was told of the entries %v", b.call, b.told)
	}
}

// checkEffects: each entry took effect exactly once, in order within its batch.
func checkEffects(t *testing.T, all []*sent, effects []gatewaytest.Effect) {
	t.Helper()
	order := map[string][]string{}
	for _, e := range effects {
		var args struct{ To string }
		if err := json.Unmarshal(e.Arguments, &args); err != nil {
			t.Errorf("effect %d: %v", e.Number, err)
			continue
		}
		call, index, _ := strings.Cut(args.To, "/")
		order[call] = append(order[call], index)
	}
	for _, b := range all {
		if got := strings.Join(order[b.call], " "); got != "0 1 2 3 4" {
			t.Errorf("%s took effect as %q, want each entry once and in order", b.call, got)
		}
	}
	if len(order) != len(all) {
		t.Errorf("%d batches took effect, %d were sent", len(order), len(all))
	}
}

// checkStreams: each event is stored once, in order, one summary ends each call, and no job is left or was given up.
func checkStreams(ctx context.Context, t *testing.T, urls string, all []*sent) {
	t.Helper()
	nc, err := nats.Connect(urls, nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	events := map[string][]string{}
	for _, m := range messages(ctx, t, js, subjects.ResultsStream) {
		var e struct {
			Event  string
			CallID string `json:"call_id"`
			Index  int
		}
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Errorf("event %d: %v", m.Sequence, err)
			continue
		}
		word := fmt.Sprint(e.Index)
		if e.Event == subjects.EventSummary {
			word = "summary"
		}
		events[e.CallID] = append(events[e.CallID], word)
	}
	for _, b := range all {
		if got := strings.Join(events[b.call], " "); got != "0 1 2 3 4 summary" {
			t.Errorf("%s: the stream holds the events %q", b.call, got)
		}
	}
	for _, stream := range []string{"TOOLSEARCH_JOBS", "TOOLSEARCH_DEAD"} {
		left := messages(ctx, t, js, stream)
		// A call is answered before its job is off the queue, and one whose acknowledgement a dying server lost comes
		// back to be taken off after AckWait.
		for patience := time.Now().Add(time.Minute); len(left) > 0 && time.Now().Before(patience); left = messages(ctx, t, js, stream) {
			<-time.After(100 * time.Millisecond)
		}
		if len(left) > 0 {
			t.Errorf("%s holds %d messages, the first on %s", stream, len(left), left[0].Subject)
		}
	}
}

// messages reads a whole stream.
func messages(ctx context.Context, t *testing.T, js jetstream.JetStream, name string) []*jetstream.RawStreamMsg {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	stream, err := insist(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, name) })
	if err != nil {
		t.Fatalf("stream %s: %v", name, err)
	}
	state := stream.CachedInfo().State
	var out []*jetstream.RawStreamMsg
	for seq := state.FirstSeq; state.Msgs > 0 && seq <= state.LastSeq; seq++ {
		m, err := insist(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return stream.GetMsg(ctx, seq) })
		if err == nil {
			out = append(out, m)
		} else if !strings.Contains(err.Error(), "not found") {
			t.Fatalf("stream %s, message %d: %v", name, seq, err)
		}
	}
	return out
}

// insist asks again what is not answered: a request that meets servers which are about to agree on a leader never is.
func insist[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for {
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		v, err := ask(bounded)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return v, err
		}
	}
}

// figures is what the run was, for whoever reads it.
func figures(all []*sent, g *gatewaytest.Gateway, kills int, took time.Duration) string {
	outcomes, asked := map[subjects.Outcome]int{}, 0
	for _, b := range all {
		asked += b.asked
		if b.reply == nil {
			continue
		}
		for _, r := range b.reply.Results {
			outcomes[r.Outcome()]++
		}
	}
	faults := map[gatewaytest.Kind]int{}
	requests := g.Requests()
	for _, r := range requests {
		faults[r.Fault]++
	}
	return fmt.Sprintf("%d batches of %d entries, %d kills, %.1f s; the gateway had %d requests (%d answered 503, %d 429, %d dropped after "+
		"the effect) and %d effects; %d entries ok, %d of unknown outcome; sessions asked %d times",
		len(all), entriesPerBatch, kills, took.Seconds(), len(requests), faults[gatewaytest.Status], faults[gatewaytest.RateLimit],
		faults[gatewaytest.Drop], len(g.Effects()), outcomes[subjects.OutcomeOK], outcomes[subjects.OutcomeUnknown], asked)
}
