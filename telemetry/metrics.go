package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The bounds of the histograms. They are given explicitly everywhere: the SDK's own are meant for milliseconds and
// would put every sample of a duration in seconds into the first bucket.
var (
	// messageBounds are those that the messaging conventions ask for.
	messageBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	// toolBounds are those of the MCP conventions: a tool may run for minutes.
	toolBounds = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
	// fineBounds resolve what takes less than a millisecond in memory.
	fineBounds = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	// gatewayBounds end at the longest bound of one gateway request.
	gatewayBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	// stopBounds reach from a stop that is heeded at once to one that finds nobody at work.
	stopBounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	// patienceBounds reach from what a program does to what a user takes, up to the longest that is waited for one.
	patienceBounds = []float64{0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90, 120, 180, 240, 300}
	// countBounds are for hits of a query.
	countBounds = []float64{0, 1, 2, 3, 5, 10, 25, 50}
	// toolCountBounds are for the tools of a catalog.
	toolCountBounds = []float64{10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 50_000}
)

// Metrics are all instruments of the product, in one place. The table in the package's comment says what each is for
// and how it is called in Prometheus. None has a tenant or a session among its attributes.
type Metrics struct {
	process      metric.Float64Histogram
	requestWait  metric.Float64Histogram
	mistakes     metric.Int64Counter
	unanswered   metric.Int64Counter
	search       metric.Float64Histogram
	queries      metric.Int64Counter
	results      metric.Int64Histogram
	described    metric.Int64Counter
	tokensSaved  metric.Int64Counter
	tokensShown  metric.Int64Counter
	build        metric.Float64Histogram
	catalogTools metric.Int64Histogram
	lookups      metric.Int64Counter

	calls       metric.Int64Counter
	entries     metric.Int64Counter
	executeTool metric.Float64Histogram
	stopped     metric.Float64Histogram
	hook        metric.Float64Histogram
	runs        metric.Int64Counter
	takeovers   metric.Int64Counter
	abandoned   metric.Int64Counter
	deliveries  metric.Int64Counter

	retries     metric.Int64Counter
	attempt     metric.Float64Histogram
	rateLimited metric.Int64Counter
	breakers    metric.Int64UpDownCounter
	transitions metric.Int64Counter
	dropped     metric.Int64Counter

	opened         metric.Int64Counter
	settled        metric.Int64Counter
	targets        metric.Int64Counter
	operation      metric.Float64Histogram
	watchTakeovers metric.Int64Counter
	answers        metric.Int64Counter
	rounds         metric.Int64Counter
	parked         metric.Float64Histogram
	accounts       metric.Float64Histogram

	slowConsumers metric.Int64Counter
	disconnects   metric.Int64Counter
	busErrors     metric.Int64Counter
	exportErrors  metric.Int64Counter
	buildInfo     metric.Int64Gauge

	observed observed
	meter    metric.Meter

	requestSets sync.Map // of the hot paths: requestKey to metric.MeasurementOption
	connectors  known
}

// observed are the instruments that are read when somebody scrapes.
type observed struct {
	inFlight, tasks, limit                           metric.Int64ObservableGauge
	cacheBytes, cacheLimit, cacheEntries             metric.Int64ObservableGauge
	jobs, jobLimit, pending, ackPending, redelivered metric.Int64ObservableGauge
	oldest                                           metric.Float64ObservableGauge
	letters                                          metric.Int64ObservableGauge
	operations                                       metric.Int64ObservableGauge
	ready, connected                                 metric.Int64ObservableGauge
	reconnects, messages, bytes                      metric.Int64ObservableCounter
}

// maker makes instruments and gathers what goes wrong.
type maker struct {
	meter metric.Meter
	errs  []error
}

func made[T any](m *maker, v T, err error) T {
	m.errs = append(m.errs, err)
	return v
}

func (m *maker) counter(name, unit, about string) metric.Int64Counter {
	v, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
	return made(m, v, err)
}

func (m *maker) upDown(name, unit, about string) metric.Int64UpDownCounter {
	v, err := m.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
	return made(m, v, err)
}

func (m *maker) seconds(name, about string, bounds []float64) metric.Float64Histogram {
	v, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
		metric.WithExplicitBucketBoundaries(bounds...))
	return made(m, v, err)
}

func (m *maker) counts(name, unit, about string, bounds []float64) metric.Int64Histogram {
	v, err := m.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about),
		metric.WithExplicitBucketBoundaries(bounds...))
	return made(m, v, err)
}

func (m *maker) gauge(name, unit, about string) metric.Int64ObservableGauge {
	v, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
	return made(m, v, err)
}

func (m *maker) total(name, unit, about string) metric.Int64ObservableCounter {
	v, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
	return made(m, v, err)
}

func newMetrics(meter metric.Meter) (*Metrics, error) {
	m := &maker{meter: meter}
	out := &Metrics{meter: meter,
		// messaging.process.duration is the conventions' (messaging-metrics.md), with their bounds.
		process:     m.seconds("messaging.process.duration", "Duration of processing a message: a request or a job.", messageBounds),
		requestWait: m.seconds("toolsearch.request.wait.duration", "How long a request waited for a place.", fineBounds),
		mistakes:    m.counter("toolsearch.model.mistakes", "{reply}", "Replies that tell a model of its mistake."),
		unanswered:  m.counter("toolsearch.replies.unsent", "{reply}", "Requests that named no reply subject, and replies that could not be sent."),

		search:       m.seconds("toolsearch.search.duration", "Duration of a search, with the gateway's part.", fineBounds),
		queries:      m.counter("toolsearch.search.queries", "{query}", "Queries, by whether anything was found."),
		results:      m.counts("toolsearch.search.results", "{tool}", "Tools found for a query.", countBounds),
		described:    m.counter("toolsearch.describe.tools", "{tool}", "Tools asked for by name, by whether they are there."),
		tokensSaved:  m.counter("toolsearch.assemble.tokens.saved", "{token}", "Tokens of definitions that assembling kept out of contexts, the bridge's own taken off."),
		tokensShown:  m.counter("toolsearch.assemble.tokens.deferred", "{token}", "Tokens of the definitions that were deferred."),
		build:        m.seconds("toolsearch.catalog.build.duration", "Duration of reading and indexing a catalog.", fineBounds),
		catalogTools: m.counts("toolsearch.catalog.tools", "{tool}", "Tools of a catalog that was indexed.", toolCountBounds),
		lookups:      m.counter("toolsearch.cache.lookups", "{lookup}", "Lookups in a cache, by whether it had the value."),

		calls:   m.counter("toolsearch.calls", "{call}", "Calls that passed the front, by who runs them."),
		entries: m.counter("toolsearch.entries", "{entry}", "Entries of calls that settled."),
		// gen_ai.execute_tool.duration is the GenAI conventions' (execute-tool.md), with the MCP bounds.
		executeTool: m.seconds("gen_ai.execute_tool.duration", "Duration of an entry that was sent, with its retries.", toolBounds),
		stopped:     m.seconds("toolsearch.stop.duration", "From a stop to an entry's settling as INTERRUPTED.", stopBounds),
		hook:        m.seconds("toolsearch.hook.duration", "How long a session's policy took to answer.", toolBounds),
		runs:        m.counter("toolsearch.runs", "{run}", "Runs of jobs, by how they ended."),
		takeovers:   m.counter("toolsearch.takeovers", "{run}", "Runs that took a call over from a runner that was gone."),
		abandoned:   m.counter("toolsearch.calls.abandoned", "{call}", "Calls that were given up and kept for an operator."),
		deliveries:  m.counter("toolsearch.job.deliveries", "{delivery}", "Jobs handed out, by whether they had been before."),

		retries:     m.counter("toolsearch.retries", "{retry}", "Attempts that follow another one, by what went wrong."),
		attempt:     m.seconds("toolsearch.gateway.attempt.duration", "Duration of one request to the gateway.", gatewayBounds),
		rateLimited: m.counter("toolsearch.gateway.rate_limited", "{answer}", "Answers of the gateway with status 429."),
		breakers:    m.upDown("toolsearch.gateway.breakers", "{breaker}", "Tenants whose breaker is not closed, by its state."),
		transitions: m.counter("toolsearch.gateway.breaker.transitions", "{transition}", "Changes of breakers, by the new state."),
		dropped:     m.counter("toolsearch.gateway.dropped", "{element}", "Malformed elements left out of the gateway's answers."),

		opened:         m.counter("toolsearch.operations.opened", "{operation}", "Operations that link accounts, as they are opened."),
		settled:        m.counter("toolsearch.operations.settled", "{operation}", "Operations that are over, by what ended them."),
		targets:        m.counter("toolsearch.operation.targets", "{target}", "Targets of operations that are over, by their state."),
		operation:      m.seconds("toolsearch.operation.duration", "From the opening of an operation to its end.", patienceBounds),
		watchTakeovers: m.counter("toolsearch.operation.takeovers", "{operation}", "Operations taken over from a worker that was gone."),
		answers:        m.counter("toolsearch.operation.answers", "{answer}", "Answers from a card's buttons."),
		rounds:         m.counter("toolsearch.watch.rounds", "{round}", "Rounds of reads of the targets that wait for their user."),
		parked:         m.seconds("toolsearch.watch.parked.duration", "How long a watch waits because the gateway asks for patience.", patienceBounds),
		accounts:       m.seconds("toolsearch.accounts.request.duration", "Duration of one request to the account service.", gatewayBounds),

		slowConsumers: m.counter("toolsearch.nats.slow_consumers", "{event}", "Times that a subscription fell behind and lost messages."),
		disconnects:   m.counter("toolsearch.nats.disconnects", "{event}", "Times that the connection was lost."),
		busErrors:     m.counter("toolsearch.nats.errors", "{event}", "Asynchronous errors of the connection."),
		exportErrors:  m.counter("toolsearch.telemetry.export.failures", "{export}", "Batches of telemetry that could not be exported."),
	}
	info, err := meter.Int64Gauge("toolsearch.build.info", metric.WithDescription("1, with the build as attributes."))
	out.buildInfo = made(m, info, err)
	out.observed = observed{
		inFlight:     m.gauge("toolsearch.requests.in_flight", "{request}", "Requests that wait or run."),
		tasks:        m.gauge("toolsearch.pool.tasks", "{task}", "Tasks of a pool that run or wait."),
		limit:        m.gauge("toolsearch.pool.limit", "{task}", "Most tasks of a pool that may run or wait."),
		cacheBytes:   m.gauge("toolsearch.cache.size", "By", "Bytes that a cache holds."),
		cacheLimit:   m.gauge("toolsearch.cache.limit", "By", "Most bytes that a cache may hold."),
		cacheEntries: m.gauge("toolsearch.cache.entries", "{entry}", "Entries that a cache holds."),
		jobs:         m.gauge("toolsearch.queue.jobs", "{job}", "Jobs in the queue, waiting or at work. The same on every worker."),
		jobLimit:     m.gauge("toolsearch.queue.limit", "{job}", "Most jobs that the queue takes; absent without a bound."),
		pending:      m.gauge("toolsearch.queue.pending", "{job}", "Jobs not handed out yet. The same on every worker."),
		ackPending:   m.gauge("toolsearch.queue.ack_pending", "{job}", "Jobs handed out and not done. The same on every worker."),
		redelivered:  m.gauge("toolsearch.queue.redelivered", "{job}", "Jobs at work that were handed out before. The same on every worker."),
		letters:      m.gauge("toolsearch.dead.letters", "{job}", "Jobs given up and kept for an operator. The same on every worker."),
		operations:   m.gauge("toolsearch.operations.open", "{operation}", "Operations that this worker watches."),
		ready:        m.gauge("toolsearch.worker.ready", "{worker}", "1 while the worker takes requests, else 0."),
		connected:    m.gauge("toolsearch.nats.connected", "{connection}", "1 while the connection is up, else 0."),
		reconnects:   m.total("toolsearch.nats.reconnects", "{event}", "Times that the connection came back."),
		messages:     m.total("toolsearch.nats.messages", "{message}", "Messages on the connection."),
		bytes:        m.total("toolsearch.nats.io", "By", "Bytes of payload on the connection."),
	}
	oldest, err := meter.Float64ObservableGauge("toolsearch.queue.oldest.age", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest job in the queue, 0 if it is empty: a job that is stuck. The same on every worker."))
	out.observed.oldest = made(m, oldest, err)
	err = errors.Join(m.errs...)
	if err == nil {
		out.begin()
	}
	return out, err
}

// begin counts nothing under each set of attributes that is known beforehand: a counter that appears with its first
// event has no increase that an alert could see.
func (m *Metrics) begin() {
	ctx := context.Background()
	add := func(c interface {
		Add(context.Context, int64, ...metric.AddOption)
	}, key attribute.Key, values ...string) {
		for _, v := range values {
			c.Add(ctx, 0, metric.WithAttributes(key.String(v)))
		}
	}
	for _, c := range []metric.Int64Counter{m.tokensSaved, m.tokensShown, m.takeovers, m.abandoned, m.watchTakeovers, m.slowConsumers,
		m.disconnects, m.busErrors} {
		c.Add(ctx, 0)
	}
	for _, hit := range hitOptions {
		m.queries.Add(ctx, 0, hit)
		m.described.Add(ctx, 0, hit)
	}
	for _, verb := range []string{"assemble", "search", "describe", "call", "connections"} {
		set := m.requestSet(verb, "", "")
		m.mistakes.Add(ctx, 0, set)
		m.unanswered.Add(ctx, 0, set)
	}
	for _, redelivered := range []bool{false, true} {
		m.deliveries.Add(ctx, 0, metric.WithAttributes(RedeliveredKey.Bool(redelivered)))
	}
	for outcome, code := range map[string]string{"ok": "", "interrupted": "INTERRUPTED", "unknown": "OUTCOME_UNKNOWN", "abandoned": "ABANDONED"} {
		m.entries.Add(ctx, 0, metric.WithAttributes(m.entryAttributes(outcome, code, "")...))
	}
	add(m.calls, CallKindKey, CallCaller, CallHosted, CallBatch, CallAttached)
	add(m.runs, VerdictKey, "done", "returned", "lost", "failed")
	add(m.rateLimited, RouteKey, "search", "execute", "connections", "account")
	add(m.dropped, RouteKey, "search", "schemas")
	add(m.breakers, StateKey, "open", "half_open")
	add(m.transitions, StateKey, "closed", "open", "half_open")
	add(m.exportErrors, SignalKey, "traces", "logs")
	m.retries.Add(ctx, 0, metric.WithAttributes(RouteKey.String("execute"), errorType("429")))
	m.beginLinking(ctx)
}

func (m *Metrics) beginLinking(ctx context.Context) {
	for _, surface := range []string{"link", "card"} {
		for _, action := range []string{"connect", "reconnect", "install", "enable", "authorize"} {
			m.opened.Add(ctx, 0, openedSet(action, surface))
		}
	}
	for _, by := range []string{"all_resolved", "continue", "deadline", "interrupt"} {
		m.settled.Add(ctx, 0, settledSet(by, "card"))
	}
	for _, by := range []string{"handed_over", "all_resolved", "deadline", "interrupt"} {
		m.settled.Add(ctx, 0, settledSet(by, "link"))
	}
	for _, kind := range []string{"connector", "mcp"} {
		for _, state := range []string{"connected", "initiated", "skipped", "failed", "expired", "not_connected"} {
			if kind != "mcp" || state != "expired" { // a local server has no link that runs out
				m.targets.Add(ctx, 0, targetSet(kind, state))
			}
		}
	}
	for _, answer := range []string{"skip", "continue", "retry"} {
		for _, accepted := range []bool{true, false} {
			m.answers.Add(ctx, 0, metric.WithAttributes(AnswerKey.String(answer), AcceptedKey.Bool(accepted)))
		}
	}
	for _, parked := range []bool{true, false} {
		m.rounds.Add(ctx, 0, metric.WithAttributes(ParkedKey.Bool(parked)))
	}
}

// requestKey names a set of attributes that is used again and again.
type requestKey struct{ verb, template, code string }

func (m *Metrics) requestSet(verb, template, code string) metric.MeasurementOption {
	key := requestKey{verb, template, code}
	if v, ok := m.requestSets.Load(key); ok {
		return v.(metric.MeasurementOption)
	}
	attrs := []attribute.KeyValue{VerbKey.String(verb)}
	if template != "" {
		attrs = append(attrs, semconv.MessagingSystemKey.String(System), semconv.MessagingOperationName("process"),
			semconv.MessagingDestinationTemplate(template))
	}
	if code != "" {
		attrs = append(attrs, errorType(code))
	}
	v, _ := m.requestSets.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(attrs...)))
	return v.(metric.MeasurementOption)
}

// Processed counts a message that was processed: verb is that of a request, or "job". code is a code from a closed set
// for one that failed, else empty. ctx should hold the message's span: it becomes the exemplar.
func (m *Metrics) Processed(ctx context.Context, verb, template, code string, took time.Duration) {
	m.process.Record(ctx, took.Seconds(), m.requestSet(verb, template, code))
}

// Waited tells how long a request waited for its place.
func (m *Metrics) Waited(ctx context.Context, verb string, d time.Duration) {
	m.requestWait.Record(ctx, d.Seconds(), m.requestSet(verb, "", ""))
}

// Mistake counts a reply that tells a model of its mistake.
func (m *Metrics) Mistake(ctx context.Context, verb string) {
	m.mistakes.Add(ctx, 1, m.requestSet(verb, "", ""))
}

// Unanswered counts a request that got no reply.
func (m *Metrics) Unanswered(ctx context.Context, verb string) {
	m.unanswered.Add(ctx, 1, m.requestSet(verb, "", ""))
}

// The gateway's part in a search.
const (
	RemoteNone   = "none"   // not asked, or invisible
	RemoteOK     = "ok"     // it answered
	RemoteFailed = "failed" // it did not, and the reply says so
)

// The measurement options of attributes with few values, made once.
var (
	hitOptions = map[bool]metric.MeasurementOption{
		true: metric.WithAttributeSet(attribute.NewSet(HitKey.Bool(true))), false: metric.WithAttributeSet(attribute.NewSet(HitKey.Bool(false))),
	}
	remoteOptions = map[string]metric.MeasurementOption{
		RemoteNone: remoteOption(RemoteNone), RemoteOK: remoteOption(RemoteOK), RemoteFailed: remoteOption(RemoteFailed),
	}
)

func remoteOption(v string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(RemoteKey.String(v)))
}

// Searched tells of a search: how long it took, what the gateway's part was, and how many tools each query found.
func (m *Metrics) Searched(ctx context.Context, took time.Duration, remote string, found []int) {
	m.search.Record(ctx, took.Seconds(), remoteOptions[remote])
	for _, n := range found {
		m.queries.Add(ctx, 1, hitOptions[n > 0])
		m.results.Record(ctx, int64(n))
	}
}

// Described counts the names of a describe, those that are there and those that are not.
func (m *Metrics) Described(ctx context.Context, found, missing int) {
	m.described.Add(ctx, int64(found), hitOptions[true])
	m.described.Add(ctx, int64(missing), hitOptions[false])
}

// Assembled counts what an assemble kept out of a model's context: deferred tokens in all, and what is left of them
// once the bridge's own definitions are taken off. An assemble that deferred nothing saves nothing.
func (m *Metrics) Assembled(ctx context.Context, deferred, saved int) {
	m.tokensShown.Add(ctx, int64(deferred))
	m.tokensSaved.Add(ctx, int64(max(saved, 0)))
}

// Indexed tells of a catalog that was read and indexed.
func (m *Metrics) Indexed(ctx context.Context, took time.Duration, tools int) {
	m.build.Record(ctx, took.Seconds())
	m.catalogTools.Record(ctx, int64(tools))
}

// Cache counts the lookups of one cache.
type Cache struct {
	lookups  metric.Int64Counter
	hit, not metric.MeasurementOption
}

// Cache returns the counters of a cache: indexes, scopes or replies.
func (m *Metrics) Cache(name string) Cache {
	option := func(hit bool) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(CacheKey.String(name), HitKey.Bool(hit)))
	}
	return Cache{m.lookups, option(true), option(false)}
}

// Lookup counts one lookup. The zero Cache counts nothing.
func (c Cache) Lookup(ctx context.Context, hit bool) {
	switch {
	case c.lookups == nil:
	case hit:
		c.lookups.Add(ctx, 1, c.hit)
	default:
		c.lookups.Add(ctx, 1, c.not)
	}
}

// The kinds of a call.
const (
	CallCaller   = "caller"   // handed back to the runtime that owns the tool
	CallHosted   = "hosted"   // a tool host runs it
	CallBatch    = "batch"    // connectors run it
	CallAttached = "attached" // known already; nothing runs anew
)

// Called counts a call that passed the front.
func (m *Metrics) Called(ctx context.Context, kind string) {
	m.calls.Add(ctx, 1, metric.WithAttributes(CallKindKey.String(kind)))
}

// Settled counts an entry that settled: its outcome, its error code if it has one, and what ran it: a connector's name
// or "hosted". A model chooses names freely, so a connector counts under its own name only once it has answered.
func (m *Metrics) Settled(ctx context.Context, outcome, code, connector string) {
	m.entries.Add(ctx, 1, metric.WithAttributes(m.entryAttributes(outcome, code, connector)...))
}

// Executed tells how long an entry took that was sent.
func (m *Metrics) Executed(ctx context.Context, took time.Duration, outcome, code, connector string) {
	attrs := append(m.entryAttributes(outcome, code, connector), GenAIOperationNameKey.String(operationExecuteTool))
	m.executeTool.Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
}

func (m *Metrics) entryAttributes(outcome, code, connector string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{OutcomeKey.String(outcome), ConnectorKey.String(m.connectors.label(connector, outcome == "ok"))}
	if code != "" {
		attrs = append(attrs, errorType(code))
	}
	return attrs
}

// Interrupted tells how long it took from a stop to an entry that it kept from being sent.
func (m *Metrics) Interrupted(ctx context.Context, after time.Duration) {
	m.stopped.Record(ctx, max(after, 0).Seconds()) // two machines' clocks may differ
}

// Asked tells how long a session's policy took, and what it said; "none" for no answer.
func (m *Metrics) Asked(ctx context.Context, took time.Duration, decision string) {
	m.hook.Record(ctx, took.Seconds(), metric.WithAttributes(DecisionKey.String(decision)))
}

// Delivered counts a job that the queue handed out.
func (m *Metrics) Delivered(ctx context.Context, redelivered bool) {
	m.deliveries.Add(ctx, 1, metric.WithAttributes(RedeliveredKey.Bool(redelivered)))
}

// Ran counts a run by its verdict.
func (m *Metrics) Ran(ctx context.Context, verdict string) {
	m.runs.Add(ctx, 1, metric.WithAttributes(VerdictKey.String(verdict)))
}

// TookOver counts a run that found its predecessor gone.
func (m *Metrics) TookOver(ctx context.Context) { m.takeovers.Add(ctx, 1) }

// Abandoned counts a call that was given up.
func (m *Metrics) Abandoned(ctx context.Context) { m.abandoned.Add(ctx, 1) }

// Retried counts an attempt that is about to follow another one; route is the gateway's, or "host".
func (m *Metrics) Retried(ctx context.Context, route, code string) {
	m.retries.Add(ctx, 1, metric.WithAttributes(RouteKey.String(route), errorType(code)))
}

// Attempted tells of one request to the gateway; status is that of its answer, 0 for none.
func (m *Metrics) Attempted(ctx context.Context, route, code string, status int, took time.Duration) {
	attrs := []attribute.KeyValue{RouteKey.String(route)}
	if status == 429 {
		m.rateLimited.Add(ctx, 1, metric.WithAttributes(attrs...))
	}
	if code != "" {
		attrs = append(attrs, errorType(code))
	}
	m.attempt.Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
}

// BreakerMoved tells of a breaker that changed its state: closed, open or half_open.
func (m *Metrics) BreakerMoved(ctx context.Context, from, to string) {
	const closed = "closed"
	if from != closed {
		m.breakers.Add(ctx, -1, metric.WithAttributes(StateKey.String(from)))
	}
	if to != closed {
		m.breakers.Add(ctx, 1, metric.WithAttributes(StateKey.String(to)))
	}
	m.transitions.Add(ctx, 1, metric.WithAttributes(StateKey.String(to)))
}

// Dropped counts a malformed element of a gateway's answer.
func (m *Metrics) Dropped(ctx context.Context, route string) {
	m.dropped.Add(ctx, 1, metric.WithAttributes(RouteKey.String(route)))
}

// OperationOpened counts an operation that was opened.
func (m *Metrics) OperationOpened(ctx context.Context, action, surface string) {
	m.opened.Add(ctx, 1, openedSet(action, surface))
}

func openedSet(action, surface string) metric.MeasurementOption {
	return metric.WithAttributes(ActionKey.String(action), SurfaceKey.String(surface))
}

// OperationSettled tells of an operation that is over: what ended it, and how long after its opening that was.
func (m *Metrics) OperationSettled(ctx context.Context, by, surface string, took time.Duration) {
	set := settledSet(by, surface)
	m.settled.Add(ctx, 1, set)
	m.operation.Record(ctx, max(took, 0).Seconds(), set) // two machines' clocks may differ
}

func settledSet(by, surface string) metric.MeasurementOption {
	return metric.WithAttributes(SettledByKey.String(by), SurfaceKey.String(surface))
}

// TargetSettled counts a target of an operation that is over.
func (m *Metrics) TargetSettled(ctx context.Context, kind, state string) {
	m.targets.Add(ctx, 1, targetSet(kind, state))
}

func targetSet(kind, state string) metric.MeasurementOption {
	return metric.WithAttributes(TargetKindKey.String(kind), StateKey.String(state))
}

// OperationTakenOver counts an operation whose watcher was gone.
func (m *Metrics) OperationTakenOver(ctx context.Context) { m.watchTakeovers.Add(ctx, 1) }

// Answered counts an answer from a card: skip, continue or retry, and whether it changed anything.
func (m *Metrics) Answered(ctx context.Context, answer string, accepted bool) {
	m.answers.Add(ctx, 1, metric.WithAttributes(AnswerKey.String(answer), AcceptedKey.Bool(accepted)))
}

// WatchRound counts a round of reads; parked is how long the next one has to wait because the gateway asked for that.
func (m *Metrics) WatchRound(ctx context.Context, parked time.Duration) {
	m.rounds.Add(ctx, 1, metric.WithAttributes(ParkedKey.Bool(parked > 0)))
	if parked > 0 {
		m.parked.Record(ctx, parked.Seconds())
	}
}

// AccountsAsked tells of one request to the account service: list, disconnect or rename, and what went wrong with it.
func (m *Metrics) AccountsAsked(ctx context.Context, route, code string, took time.Duration) {
	attrs := []attribute.KeyValue{RouteKey.String(route)}
	if code != "" {
		attrs = append(attrs, errorType(code))
	}
	m.accounts.Record(ctx, took.Seconds(), metric.WithAttributes(attrs...))
}

// Disconnected counts a lost connection.
func (m *Metrics) Disconnected(ctx context.Context) { m.disconnects.Add(ctx, 1) }

// BusError counts an asynchronous error of the connection; slow says that a subscription lost messages.
func (m *Metrics) BusError(ctx context.Context, slow bool) {
	if slow {
		m.slowConsumers.Add(ctx, 1)
		return
	}
	m.busErrors.Add(ctx, 1)
}

// Built tells of the build that runs.
func (m *Metrics) Built(ctx context.Context, b Build) {
	m.buildInfo.Record(ctx, 1, metric.WithAttributes(attribute.String("version", b.Version),
		attribute.String("revision", b.Revision), attribute.String("go_version", b.Go)))
}

func (m *Metrics) exportFailed(ctx context.Context, signal string) {
	m.exportErrors.Add(ctx, 1, metric.WithAttributes(SignalKey.String(signal)))
}

// known bounds a label whose values come from outside.
type known struct {
	mu    sync.RWMutex
	names map[string]struct{}
}

// mostKnown is how many values get a series of their own.
const mostKnown = 100

// label is name once it has proved real, else "other".
func (k *known) label(name string, real bool) string {
	if name == Hosted {
		return name
	}
	k.mu.RLock()
	_, ok := k.names[name]
	full := len(k.names) >= mostKnown
	k.mu.RUnlock()
	switch {
	case ok:
		return name
	case !real || full || name == "":
		return "other"
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names == nil {
		k.names = map[string]struct{}{}
	}
	if len(k.names) >= mostKnown {
		return "other"
	}
	k.names[name] = struct{}{}
	return name
}

// Hosted stands for the connector where a tool host runs the tool.
const Hosted = "hosted"
