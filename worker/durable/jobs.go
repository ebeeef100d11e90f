package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

const (
	// consumerIdle is after how long without a worker's question the server forgets a tenant's consumer. Its jobs stay
	// in the stream, and whoever sees them there makes it again.
	consumerIdle = 24 * time.Hour
	// consumerTrust is how long a worker believes that a consumer it made is still there.
	consumerTrust = time.Hour
	// errMaximumMessages is the server's code for a stream that holds as many messages as it may.
	errMaximumMessages = 10077
)

// jobs is the work queue with one durable consumer for each tenant, so that tenants take turns.
type jobs struct {
	*stream
	layout      storage.Layout
	api         string // the prefix of the JetStream API
	ackWait     time.Duration
	tenantSlots int
	log         *slog.Logger
	spans       *spans

	mu      sync.Mutex
	tenants map[string]*tenantJobs
	ring    []string      // the tenants, in the order in which they are asked
	turn    int           // who is asked next
	woken   chan struct{} // holds one token while a tenant may have jobs
}

// tenantJobs is what a worker knows of one tenant's jobs.
type tenantJobs struct {
	ready bool      // there may be jobs to take
	asked bool      // a question is under way
	looks int       // how often to look again, although there was nothing
	made  time.Time // when this worker last made sure of the consumer
	// hungry says that jobs may wait although none could be taken: the tenant has as many at work as it may, or another
	// worker was quicker. Room for it is then worth a question.
	hungry bool
	taken  uint64 // jobs that this worker took
}

var _ dispatch.Jobs = (*jobs)(nil)

func newJobs(s *stream, l storage.Layout, o Options, sp *spans) *jobs {
	return &jobs{stream: s, layout: l, api: storage.APIPrefix(s.js), ackWait: o.AckWait, tenantSlots: o.TenantSlots, log: o.Logger, spans: sp,
		tenants: map[string]*tenantJobs{}, woken: make(chan struct{}, 1)}
}

// Publish makes sure that the tenant has its consumer before it stores the job, so that nothing waits unseen.
func (j *jobs) Publish(ctx context.Context, k dispatch.CallKey, id string, job []byte, t dispatch.Trace) error {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	if err := j.ensure(ctx, k.Tenant); err != nil {
		return known(err)
	}
	m := &nats.Msg{Subject: j.layout.Root.Job(k.Tenant, k.Session), Header: traceHeader(t), Data: job}
	ctx, span := j.spans.send(ctx, j.spans.publishJob, k, m)
	before := j.taken(k.Tenant)
	_, err := j.js.PublishMsg(ctx, m, jetstream.WithMsgID(id), jetstream.WithExpectStream(j.name))
	sent(span, err)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == errMaximumMessages {
		return fmt.Errorf("%w: %w", dispatch.ErrQueueFull, err)
	}
	if err == nil && j.taken(k.Tenant) == before { // otherwise it was taken, or a job that told of it
		j.wake(k.Tenant)
	}
	return known(err)
}

func (j *jobs) Exists(ctx context.Context, seq uint64) (bool, error) {
	m, err := j.at(ctx, seq)
	return m != nil, err
}

// ensure makes the tenant's consumer if this worker has not done so lately. Its MaxAckPending is the bound of the
// tenant over all workers. Deliveries have no bound: a message that had used up its own would stay in the stream,
// invisible to all.
func (j *jobs) ensure(ctx context.Context, tenant string) error {
	j.mu.Lock()
	fresh := time.Since(j.tenant(tenant).made) < consumerTrust
	j.mu.Unlock()
	if fresh {
		return nil
	}
	_, err := j.js.CreateOrUpdateConsumer(ctx, j.name, jetstream.ConsumerConfig{
		Durable:           consumerName(tenant),
		FilterSubject:     j.layout.Root.TenantJobs(tenant),
		AckPolicy:         jetstream.AckExplicitPolicy,
		AckWait:           j.ackWait,
		MaxDeliver:        -1,
		MaxAckPending:     j.tenantSlots,
		InactiveThreshold: consumerIdle,
	})
	if err != nil {
		return fmt.Errorf("durable: consumer of tenant %s: %w", tenant, err)
	}
	j.mu.Lock()
	j.tenant(tenant).made = time.Now()
	j.mu.Unlock()
	return nil
}

func consumerName(tenant string) string { return "tenant-" + tenant }

// tenant is what is known of a tenant. j.mu is held.
func (j *jobs) tenant(name string) *tenantJobs {
	t := j.tenants[name]
	if t == nil {
		t = &tenantJobs{}
		j.tenants[name] = t
		j.ring = append(j.ring, name)
	}
	return t
}

// wake says that a tenant may have jobs to take.
func (j *jobs) wake(tenant string) { j.wakeFor(tenant, 0) }

// looksAgain are the pauses after which a tenant is asked again whose job was announced and is not there yet: a plain
// subscription hears of a job before the stream has stored it, and a busy server may let a question lapse.
var looksAgain = [...]time.Duration{50 * time.Millisecond, 10 * time.Millisecond, 2 * time.Millisecond}

// announced says that a tenant's job is about to be stored.
func (j *jobs) announced(tenant string) { j.wakeFor(tenant, len(looksAgain)) }

func (j *jobs) wakeFor(tenant string, looks int) {
	j.mu.Lock()
	t := j.tenant(tenant)
	t.ready, t.looks = true, max(t.looks, looks)
	j.mu.Unlock()
	signal(j.woken)
}

func (j *jobs) taken(tenant string) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tenant(tenant).taken
}

// freed says that a tenant has room for another job at work.
func (j *jobs) freed(tenant string) {
	j.mu.Lock()
	hungry := j.tenant(tenant).hungry
	j.mu.Unlock()
	if hungry {
		j.wake(tenant)
	}
}

// took takes note of a job; it tells how many of its tenant still wait.
func (j *jobs) took(tenant string, m *nats.Msg) {
	more := true
	if meta, err := m.Metadata(); err == nil {
		more = meta.NumPending > 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.tenant(tenant)
	t.taken++
	t.hungry, t.ready = more, t.ready || more
	if t.ready {
		signal(j.woken)
	}
}

// empty takes note that a tenant had no job to take.
func (j *jobs) empty(tenant string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.tenant(tenant)
	t.hungry = true
	if t.ready {
		signal(j.woken) // woken while it was asked
	}
	if t.looks > 0 {
		t.looks--
		time.AfterFunc(looksAgain[t.looks], func() { j.wake(tenant) })
	}
}

// choose is the next tenant in turn that may have jobs and is not being asked. It counts as having none until that is
// seen otherwise, so that a wake-up that comes during the question is not lost.
func (j *jobs) choose() (string, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for range j.ring {
		name := j.ring[j.turn%len(j.ring)]
		j.turn = (j.turn + 1) % len(j.ring)
		if t := j.tenants[name]; t.ready && !t.asked {
			t.ready, t.asked = false, true
			return name, true
		}
	}
	return "", false
}

// next waits for a tenant that may have jobs and is to be asked. Whoever calls it has a place to run a job. It ends
// with ctx.
func (j *jobs) next(ctx context.Context) (tenant string, err error) {
	for {
		if tenant, ok := j.choose(); ok {
			return tenant, nil
		}
		select {
		case <-j.woken:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// ask asks a tenant chosen by next for a job; nil if there is none to take.
func (j *jobs) ask(ctx context.Context, tenant string) *nats.Msg {
	m, err := j.fetch(ctx, tenant)
	j.mu.Lock()
	j.tenant(tenant).asked = false
	j.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		if m != nil {
			_ = receipt{j.js.Conn(), m.Reply}.Return(0)
		}
		return nil
	case err != nil:
		j.log.DebugContext(ctx, "a tenant's jobs cannot be taken now", "tenant", tenant, "error", err)
		j.empty(tenant)
	case m == nil:
		j.empty(tenant)
	default:
		j.took(tenant, m)
	}
	return m
}

// oneNow asks for one job that is there now, or comes within some milliseconds. A request without an age would hang
// where jobs wait and the tenant has as many at work as it may: the server neither refuses it nor answers it.
var oneNow = []byte(`{"batch":1,"no_wait":true,"expires":` + strconv.FormatInt(int64(10*time.Millisecond), 10) + `}`)

// fetch asks for one job of a tenant; nil if there is none to take.
func (j *jobs) fetch(ctx context.Context, tenant string) (*nats.Msg, error) {
	// Not cut short: a job that comes after nobody listens any more would lie still for AckWait.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiWait)
	defer cancel()
	if err := j.ensure(ctx, tenant); err != nil {
		return nil, err
	}
	// An inbox of its own: a job comes under its own subject, by which the connection's shared inbox cannot tell
	// whose it is.
	nc, answers := j.js.Conn(), make(chan *nats.Msg, 1)
	inbox, err := nc.ChanSubscribe(nc.NewInbox(), answers)
	if err != nil {
		return nil, err
	}
	defer inbox.Unsubscribe() //nolint:errcheck // it ends with the connection in any case
	if err := nc.PublishRequest(j.api+"CONSUMER.MSG.NEXT."+j.name+"."+consumerName(tenant), inbox.Subject, oneNow); err != nil {
		return nil, err
	}
	select {
	case m := <-answers:
		return j.taking(tenant, m)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// taking tells a job from an answer that there is none.
func (j *jobs) taking(tenant string, m *nats.Msg) (*nats.Msg, error) {
	if m == nil {
		return nil, nats.ErrConnectionClosed
	}
	switch m.Header.Get("Status") {
	case "":
		return m, nil
	case "503":
		// The consumer is gone, or nobody leads it; the next round makes sure of it.
		j.mu.Lock()
		j.tenant(tenant).made = time.Time{}
		j.mu.Unlock()
		return nil, nats.ErrNoResponders
	}
	return nil, nil // no messages, none within the bound, or more asked than there are
}

// sweep looks once for jobs of which no wake-up told: published while this worker was away, handed back, left by a
// dead one, or of a tenant whose consumer is gone.
func (j *jobs) sweep(ctx context.Context) error {
	info, err := j.info(ctx)
	if err != nil {
		return err
	}
	waiting := map[string]struct{}{}
	if info.State.Msgs > 0 {
		info, err := j.info(ctx, jetstream.WithSubjectFilter(j.layout.Root.Jobs()))
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			if a, err := j.layout.Root.Parse(subject); err == nil && a.Family == subjects.FamilyJob {
				waiting[a.Tenant] = struct{}{}
			}
		}
	}
	j.forget(waiting)
	for tenant := range waiting {
		j.announced(tenant)
	}
	return nil
}

// forget drops the tenants of which nothing waits and that were not served lately, so that what is kept is bounded.
func (j *jobs) forget(waiting map[string]struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.ring[:0]
	for _, name := range j.ring {
		_, wanted := waiting[name]
		t := j.tenants[name]
		t.hungry = t.hungry && wanted
		if wanted || t.ready || t.asked || time.Since(t.made) < consumerTrust {
			kept = append(kept, name)
			continue
		}
		delete(j.tenants, name)
	}
	clear(j.ring[len(kept):])
	j.ring = kept
	if j.turn >= len(kept) {
		j.turn = 0
	}
}

// receipt is the queue's side of a delivery: what is sent to its reply subject.
type receipt struct {
	nc    *nats.Conn
	reply string
}

var _ dispatch.Receipt = receipt{}

func (r receipt) Working() error { return r.nc.Publish(r.reply, []byte("+WPI")) }

func (r receipt) Done(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	_, err := r.nc.RequestWithContext(ctx, r.reply, []byte("+ACK"))
	return known(err)
}

func (r receipt) Return(delay time.Duration) error {
	body := "-NAK"
	if delay > 0 {
		body += fmt.Sprintf(` {"delay": %d}`, delay.Nanoseconds())
	}
	return r.nc.Publish(r.reply, []byte(body))
}

// delivery is a message of the queue as a runner takes it.
func delivery(nc *nats.Conn, m *nats.Msg) (dispatch.Delivery, error) {
	meta, err := m.Metadata()
	if err != nil {
		return dispatch.Delivery{}, fmt.Errorf("durable: no message of the queue: %w", err)
	}
	return dispatch.Delivery{Data: m.Data, Sequence: meta.Sequence.Stream, First: meta.NumDelivered == 1,
		Trace: traceOf(m.Header), Receipt: receipt{nc, m.Reply}}, nil
}

func traceHeader(t dispatch.Trace) nats.Header {
	return subjects.SetTraceContext(nats.Header{}, t.Parent, t.State)
}

func traceOf(h nats.Header) dispatch.Trace {
	parent, state := subjects.TraceContext(h)
	return dispatch.Trace{Parent: parent, State: state}
}
