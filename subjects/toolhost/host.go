package toolhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"toolsearch/subjects"
)

// Options configures a [Host]. Tenant and Host are required.
type Options struct {
	// Root is the root of the subjects; empty is [subjects.DefaultRoot].
	Root subjects.Root
	// Tenant and Host name the host; they must be tokens.
	Tenant, Host string
	// Concurrency is how many requests are handled side by side; 0 is 16.
	Concurrency int
	// Queue is how many requests more may wait; 0 is 256. What comes beyond is answered with OVERLOADED.
	Queue int
	// Servers, if not nil, announces that this host owns the MCP servers of its machine, and runs manage_connections for
	// one of them at a time: install, enable, authorize, and status while a link waits for the user. See [Servers].
	Servers Servers
	// Timeout bounds a request that has no deadline; 0 is 120 s.
	Timeout time.Duration
	// Keys keeps the answers across restarts and between the instances of a host; see [OpenKeys]. nil keeps them in
	// this process only.
	Keys jetstream.KeyValue
	// KeyAge is how long an idempotency key is honoured in memory; 0 is 24 hours. Keys has its own age.
	KeyAge time.Duration
	// MaxKeys and MaxBytes bound what is remembered in memory; 0 is 200,000 keys and 64 MiB of answers. Beyond
	// MaxBytes the oldest answers go and their keys stay; beyond MaxKeys the oldest keys go too.
	MaxKeys  int
	MaxBytes int64
	// BodyLimit is the largest request or reply by claim check; 0 is [subjects.DefaultBodyLimit].
	BodyLimit int64
	// Context may put the trace context of a request's headers into the context of its handler. nil leaves it.
	Context func(ctx context.Context, h nats.Header) context.Context
	// Start, if set, is called with each call, after Context, and may put a span into its context. template is the
	// subject with {tenant} and {host} in place of its own. end is told the code of the reply's error, "" for a result.
	Start func(ctx context.Context, template, subject string, h nats.Header) (_ context.Context, end func(code string))
	// Logger gets what no reply can tell; nil is silence.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = subjects.DefaultRoot
	}
	if o.Concurrency == 0 {
		o.Concurrency = 16
	}
	if o.Queue == 0 {
		o.Queue = 256
	}
	if o.Timeout == 0 {
		o.Timeout = 120 * time.Second
	}
	if o.KeyAge == 0 {
		o.KeyAge = 24 * time.Hour
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = 200_000
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Context == nil {
		o.Context = func(ctx context.Context, _ nats.Header) context.Context { return ctx }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Root.Validate() != nil:
		return fmt.Errorf("toolhost: Options.Root: %w", o.Root.Validate())
	case !subjects.ValidToken(o.Tenant):
		return fmt.Errorf("toolhost: Options.Tenant %q is no token; see subjects.Token", o.Tenant)
	case !subjects.ValidToken(o.Host):
		return fmt.Errorf("toolhost: Options.Host %q is no token; see subjects.Token", o.Host)
	case o.Concurrency < 0 || o.Queue < 0:
		return errors.New("toolhost: Options.Concurrency and Options.Queue must not be negative")
	case o.Timeout < 0 || o.KeyAge < 0 || o.MaxKeys < 0 || o.MaxBytes < 0:
		return errors.New("toolhost: Options.Timeout, Options.KeyAge, Options.MaxKeys and Options.MaxBytes must not be negative")
	}
	return nil
}

// Host answers the calls of its tools until it is stopped. Instances with the same tenant and name share the work.
type Host struct {
	opts   Options
	nc     *nats.Conn
	bodies *subjects.Bodies
	tools  map[string]*Tool
	listed []subjects.Tool
	keys   *keyTable
	store  *keyStore // nil without Options.Keys

	line    chan struct{} // holds the one place of the tools that are not parallel
	taking  sync.RWMutex  // guards closed, and queue against being closed under a sender
	closed  bool
	queue   chan *nats.Msg
	subs    []*nats.Subscription
	ctx     context.Context // of every handler
	cancel  context.CancelCauseFunc
	working sync.WaitGroup
	stop    sync.Once
	stopped chan struct{}
}

// drainWait bounds the wait for the server's last requests while a host stops.
const drainWait = 5 * time.Second

// ErrStopped is the cause of a handler's context that ended because its host was stopped hard.
var ErrStopped = errors.New("toolhost: the host was stopped")

// Serve starts a host. It answers when it returns.
func Serve(nc *nats.Conn, o Options, tools ...Tool) (*Host, error) {
	if nc == nil {
		return nil, errors.New("toolhost: Serve needs a NATS connection")
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	bodies, err := subjects.NewBodies(js, subjects.BodiesOptions{Limit: o.BodyLimit})
	if err != nil {
		return nil, err
	}
	h := &Host{
		opts: o, nc: nc, bodies: bodies, tools: make(map[string]*Tool, len(tools)),
		keys: newKeyTable(o.KeyAge, o.MaxKeys, o.MaxBytes), line: make(chan struct{}, 1),
		queue: make(chan *nats.Msg, o.Queue), stopped: make(chan struct{}),
	}
	if o.Keys != nil {
		h.store = newKeyStore(o.Keys, bodies, o.Tenant, o.Host)
	}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	if err := h.register(tools); err != nil {
		return nil, err
	}
	if o.Servers != nil {
		if h.tools[manageConnections] != nil {
			return nil, fmt.Errorf("toolhost: tool %q is given beside Options.Servers", manageConnections)
		}
		h.tools[manageConnections] = &Tool{Parallel: true, Run: o.Servers.run}
	}
	if err := h.subscribe(); err != nil {
		h.Stop(context.Background()) //nolint:errcheck // the first error is the one that tells
		return nil, err
	}
	return h, nil
}

func (h *Host) register(tools []Tool) error {
	for i := range tools {
		t := tools[i]
		name, err := nameOf(t.Definition)
		if err != nil {
			return fmt.Errorf("toolhost: tool %d: %w", i, err)
		}
		if t.Run == nil {
			return fmt.Errorf("toolhost: tool %q has no Run", name)
		}
		if h.tools[name] != nil {
			return fmt.Errorf("toolhost: tool %q is given twice", name)
		}
		h.tools[name] = &t
		h.listed = append(h.listed, subjects.Tool{Toolset: t.Toolset, Tool: t.Definition, Host: h.opts.Host, Parallel: t.Parallel})
	}
	return nil
}

func (h *Host) subscribe() error {
	for range h.opts.Concurrency {
		h.working.Add(1)
		go h.work()
	}
	for op, answer := range map[string]nats.MsgHandler{subjects.HostCall: h.accept, subjects.HostList: h.list} {
		sub, err := h.nc.QueueSubscribe(h.opts.Root.Host(h.opts.Tenant, h.opts.Host, op), "toolhost", answer)
		if err != nil {
			return fmt.Errorf("toolhost: subscribe %s: %w", op, err)
		}
		h.subs = append(h.subs, sub)
	}
	if h.nc.IsConnected() { // otherwise the subscriptions are made when the connection comes
		if err := h.nc.FlushTimeout(5 * time.Second); err != nil {
			return err
		}
		return h.refused()
	}
	return nil
}

// refused is the server's refusal of one of the subscriptions, without which a host would wait for ever in silence.
func (h *Host) refused() error {
	refused := subjects.AsPermissionError(h.nc.LastError())
	for _, sub := range h.subs {
		if refused != nil && refused.Subscribe && refused.Subject == sub.Subject {
			return refused
		}
	}
	return nil
}

// Definitions are the host's tools, ready to be put among the tools of an assemble request.
func (h *Host) Definitions() []subjects.Tool { return append([]subjects.Tool(nil), h.listed...) }

// Stopped is closed when the host has stopped.
func (h *Host) Stopped() <-chan struct{} { return h.stopped }

// Stop takes no more requests, answers those that were accepted and returns. When ctx ends first, running tools are
// told by their context (its cause is [ErrStopped]), and Stop still waits for them to return. It may be called more
// than once.
func (h *Host) Stop(ctx context.Context) error {
	h.stop.Do(func() {
		go func() {
			defer close(h.stopped)
			for _, sub := range h.subs {
				drain(sub)
			}
			h.taking.Lock()
			h.closed = true
			close(h.queue)
			h.taking.Unlock()
			h.working.Wait()
			h.cancel(ErrStopped)
		}()
	})
	select {
	case <-h.stopped:
		return nil
	case <-ctx.Done():
		h.cancel(ErrStopped)
		<-h.stopped
		return context.Cause(ctx)
	}
}

// drain lets sub deliver what the server has sent already. A connection that is gone has nothing more to deliver.
func drain(sub *nats.Subscription) {
	closed := sub.StatusChanged(nats.SubscriptionClosed)
	if sub.Drain() != nil {
		return
	}
	t := time.NewTimer(drainWait)
	defer t.Stop()
	select {
	case <-closed:
	case <-t.C:
	}
}

// accept puts a request in line; it runs in the subscription's own goroutine and never waits.
func (h *Host) accept(m *nats.Msg) {
	h.taking.RLock()
	defer h.taking.RUnlock()
	if h.closed {
		return // the connection broke while the host stopped; whoever asked gets no answer from it
	}
	select {
	case h.queue <- m:
	default:
		h.answer(m, failure(codeOverloaded, "the host's queue is full; nothing was run, try again"))
	}
}

// work answers requests one after the other. A tool that outlives its request's deadline keeps its worker until it
// returns, so that no more than Concurrency run.
func (h *Host) work() {
	defer h.working.Done()
	for m := range h.queue {
		reply, running := h.handle(m)
		h.answer(m, reply)
		if running != nil {
			<-running
		}
	}
}

func (h *Host) list(m *nats.Msg) {
	body, err := subjects.Marshal(subjects.HostListReply{Tools: append([]subjects.Tool{}, h.listed...), LocalServers: h.opts.Servers != nil})
	if err != nil {
		h.opts.Logger.Error("tool list cannot be encoded", "error", err)
		return
	}
	h.respond(m, body)
}

// handle turns one request into its reply. running is closed when the tool that this request began has returned.
func (h *Host) handle(m *nats.Msg) (reply *subjects.HostReply, running <-chan struct{}) {
	ctx := h.opts.Context(h.ctx, m.Header)
	if h.opts.Start != nil {
		var end func(string)
		ctx, end = h.opts.Start(ctx, h.opts.Root.Template(subjects.FamilyHost, subjects.HostCall), m.Subject, m.Header)
		defer func() { end(errorCode(reply)) }()
	}
	r, reply := h.read(ctx, m)
	if reply != nil {
		return reply, nil
	}
	ctx, cancel := context.WithDeadline(ctx, r.Deadline)
	defer cancel()
	for print := fingerprint(r); ; {
		e, mine := h.keys.claim(r.IdempotencyKey, print)
		switch {
		case e == nil:
			return conflict(), nil
		case mine:
			go h.begin(ctx, r, m.Header, e)
			return e.waitOwn(ctx), e.done
		}
		if reply := e.wait(ctx); reply != nil {
			return reply, nil
		}
	}
}

func errorCode(r *subjects.HostReply) string {
	if r == nil || r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// read decodes and checks a request, or says what is wrong with it.
func (h *Host) read(ctx context.Context, m *nats.Msg) (*subjects.HostRequest, *subjects.HostReply) {
	body, err := h.bodies.Unpack(ctx, h.opts.Tenant, m.Header, m.Data)
	if err != nil {
		return nil, serviceFailure(err)
	}
	r := new(subjects.HostRequest)
	if err := json.Unmarshal(body, r); err != nil {
		return nil, failure(codeBadRequest, "the request is not a JSON object of the contract; nothing was run: "+err.Error())
	}
	if r.Deadline.IsZero() {
		r.Deadline = time.Now().Add(h.opts.Timeout)
	}
	if len(r.Arguments) == 0 || string(r.Arguments) == "null" {
		r.Arguments = json.RawMessage("{}")
	}
	switch {
	case r.IdempotencyKey == "":
		return nil, failure(codeBadRequest, "idempotency_key is missing; nothing was run")
	case h.tools[r.Name] == nil:
		return nil, failure(string(subjects.EntryToolNotFound), fmt.Sprintf("host %s has no tool %q", h.opts.Host, r.Name))
	case r.Arguments[0] != '{':
		return nil, failure(codeBadRequest, "arguments must be a JSON object; nothing was run")
	case !time.Now().Before(r.Deadline):
		return nil, notBegun()
	}
	return r, nil
}

// begin runs the tool unless the store knows the key, and settles the entry.
func (h *Host) begin(ctx context.Context, r *subjects.HostRequest, header nats.Header, e *keyEntry) {
	tool := h.tools[r.Name]
	if !tool.Parallel {
		select {
		case h.line <- struct{}{}:
			defer func() { <-h.line }()
		case <-ctx.Done():
			h.keys.drop(e, notBegun())
			return
		}
	}
	if h.store == nil {
		if !e.begin() {
			h.keys.drop(e, notBegun())
			return
		}
		h.keys.settle(e, h.run(ctx, tool, r, header))
		return
	}
	claimed, known, err := h.store.claim(ctx, r)
	switch {
	case err != nil:
		h.keys.drop(e, serviceFailure(err)) // nothing ran, and nothing was learnt of the key
	case known != nil:
		h.keys.settle(e, known)
	case !e.begin():
		h.store.release(claimed)
		h.keys.drop(e, notBegun())
	default:
		reply := h.run(ctx, tool, r, header)
		if err := h.store.settle(claimed, reply); err != nil {
			h.opts.Logger.Warn("answer not stored, it is kept in this process only",
				"call_id", r.CallID, "index", r.Index, "error", err)
		}
		h.keys.settle(e, reply)
	}
}

// run calls the handler and words what became of it.
func (h *Host) run(ctx context.Context, tool *Tool, r *subjects.HostRequest, header nats.Header) (reply *subjects.HostReply) {
	defer func() {
		if p := recover(); p != nil {
			h.opts.Logger.Error("tool panicked", "tool", r.Name, "call_id", r.CallID, "index", r.Index, "panic", fmt.Sprint(p))
			reply = failure(string(subjects.EntryToolError), "the tool crashed; what it had done by then stays done")
		}
	}()
	v, err := tool.Run(ctx, Request{CallID: r.CallID, Index: r.Index, Name: r.Name, Arguments: r.Arguments,
		Key: r.IdempotencyKey, Deadline: r.Deadline, Header: header})
	var coded *Error
	switch {
	case errors.As(err, &coded):
		return failure(string(coded.Code), coded.Message)
	case err != nil && ctx.Err() != nil:
		return unknown("the tool was cut off before it finished; what it did is not known")
	case err != nil:
		return failure(string(subjects.EntryToolError), err.Error())
	}
	p, err := result(v)
	if err != nil {
		h.opts.Logger.Error("tool result cannot be encoded",
			"tool", r.Name, "call_id", r.CallID, "index", r.Index, "error", err)
		return failure(string(subjects.EntryToolError), "the tool ran, but its result cannot be written as JSON")
	}
	return &subjects.HostReply{Result: p}
}

func (h *Host) answer(m *nats.Msg, reply *subjects.HostReply) {
	body, err := subjects.Marshal(reply)
	if err != nil {
		h.opts.Logger.Error("reply cannot be encoded", "error", err)
		return
	}
	h.respond(m, body)
}

// respond sends a reply with the trace context of its request, by claim check where it is large.
func (h *Host) respond(m *nats.Msg, body []byte) {
	if m.Reply == "" {
		return
	}
	parent, state := subjects.TraceContext(m.Header)
	header := subjects.SetTraceContext(nats.Header{}, parent, state)
	data, err := h.bodies.Pack(context.WithoutCancel(h.ctx), h.opts.Tenant, header, body)
	if err != nil {
		h.opts.Logger.Warn("reply is too large for this connection", "bytes", len(body), "error", err)
		if data, err = subjects.Marshal(serviceFailure(err)); err != nil {
			return
		}
	}
	if err := m.RespondMsg(&nats.Msg{Header: header, Data: data}); err != nil {
		h.opts.Logger.Warn("reply not sent", "error", err)
	}
}

func failure(code, message string) *subjects.HostReply {
	return &subjects.HostReply{Error: &subjects.HostError{Code: code, Message: message}}
}

// unknown is the answer where a tool ran or may have run, and what it did cannot be told.
func unknown(message string) *subjects.HostReply {
	return failure(string(subjects.EntryOutcomeUnknown), message)
}

func serviceFailure(err error) *subjects.HostReply {
	var e *subjects.Error
	if errors.As(err, &e) {
		return failure(string(e.Code), e.Message)
	}
	return failure(string(subjects.CodeInternal), "the host failed")
}

func notBegun() *subjects.HostReply {
	return failure(string(subjects.EntryDeadlineExceeded), "the deadline passed before the tool was begun; nothing was run")
}

func conflict() *subjects.HostReply {
	return failure(codeConflict, "this idempotency_key was used with another tool or other arguments; nothing was run")
}
