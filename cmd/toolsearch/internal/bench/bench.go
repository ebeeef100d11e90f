package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// Options configure [Run].
type Options struct {
	// Tools is the array of an assemble request.
	Tools json.RawMessage
	// Client connects to the bus for the load, Echo for the echo. A worker answers on that bus.
	Client, Echo *nats.Conn
	// Bus names the bus in the result.
	Bus string
	// Root is the root of the subjects; empty: the contract's.
	Root subjects.Root
	// Duration is how long is measured in all; 0: 15 s.
	Duration time.Duration
	// InFlight is how many requests are on their way at once when the rate is measured; 0: 32.
	InFlight int
	// Queries is how many different queries are made at most; 0: 20,000.
	Queries int
	// Progress is told the part that is done, 0 to 1, and what is measured now. It may be nil.
	Progress func(part float64, what string)
}

func (o Options) withDefaults() (Options, error) {
	if len(o.Tools) == 0 || o.Client == nil || o.Echo == nil {
		return o, errors.New("bench: Options needs Tools, Client and Echo")
	}
	if o.Root == "" {
		o.Root = subjects.DefaultRoot
	}
	if o.Duration <= 0 {
		o.Duration = 15 * time.Second
	}
	if o.InFlight <= 0 {
		o.InFlight = 32
	}
	if o.Queries <= 0 {
		o.Queries = 20_000
	}
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	return o, nil
}

const tenant, session = "bench", "bench"

// run is one run's state.
type run struct {
	Options
	load    *load
	scope   *catalog.Scope
	echo    *echo
	subject string // of a search
	result  Result
	done    time.Duration // of Duration
	next    atomic.Int64  // query
}

// The parts of Options.Duration.
const (
	cpuPart      = 0.10
	latencyPart  = 0.35
	ratePart     = 0.40
	assemblePart = 0.15
)

// warmUp: the first 1/warmUp of a part warms connections, caches and the scheduler up and does not count.
const warmUp = 20

// Run measures. It needs a worker on the bus, assembles the tools there and leaves them to expire.
func Run(ctx context.Context, o Options) (*Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	r := &run{Options: o, subject: o.Root.Request(tenant, session, subjects.VerbSearch)}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{r.measureCPU, r.latency, r.rate, r.measureCPU, r.assemble} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	r.finish(time.Since(began))
	return &r.result, nil
}

// prepare assembles over the bus, and makes the same scope here to know each reply beforehand.
func (r *run) prepare(ctx context.Context) error {
	r.Progress(0, "assembling")
	client, err := subjects.NewClient(r.Client, subjects.ClientOptions{Root: r.Root})
	if err != nil {
		return err
	}
	noConnectors := false
	request := &subjects.AssembleRequest{Tools: r.Tools, Connectors: &noConnectors}
	got, err := client.Session(tenant, session).Assemble(ctx, request)
	if err != nil {
		return err
	}
	c, err := catalog.Build(r.Tools, catalog.Limits{})
	if err != nil {
		return err
	}
	r.scope, err = catalog.NewScope(c, catalog.Owner{Tenant: tenant, Session: session}, request, catalog.DefaultConfig(), catalog.DefaultCoreTools(), nil)
	if err != nil {
		return err
	}
	if r.scope.Handle() != got.Scope {
		return errors.New("bench: the worker's configuration is not the default one, so its replies cannot be foreseen")
	}
	if r.load, err = newLoad(r.scope, r.Queries); err != nil {
		return err
	}
	if len(r.load.requests) == 0 {
		return errors.New("bench: no query can be made of these tools")
	}
	r.result.Tools, r.result.Queries, r.result.AssembleReplyBytes = c.Len(), len(r.load.requests), len(got.Raw)
	largest := len(got.Raw)
	for _, n := range r.load.replies {
		largest = max(largest, n)
	}
	r.echo, err = newEcho(r.Echo, r.subject, largest)
	return err
}

// progress tells how far the run is.
func (r *run) progress(spent time.Duration, what string) {
	r.done += spent
	r.Progress(min(1, float64(r.done)/float64(r.Duration)), what)
}

// measureCPU searches in this process, one after the other. It runs twice, so that a change of the machine's speed
// during the run shows in it too; the mean of both counts.
func (r *run) measureCPU(ctx context.Context) error {
	var dst []byte
	n := 0
	runtime.GC()
	began, cpu := time.Now(), cpuTime()
	for time.Since(began) < time.Duration(cpuPart/2*float64(r.Duration)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for range 64 {
			reply, err := search(r.scope, r.load.arguments[n%len(r.load.arguments)], dst[:0])
			if err != nil {
				return err
			}
			dst = reply
			n++
		}
	}
	r.result.SearchCPU += micros(cpuTime()-cpu) / float64(n) / 2
	r.progress(time.Since(began), "search's CPU")
	return nil
}

const anySize = -1

// ask sends one request and checks that the reply is one.
func (r *run) ask(ctx context.Context, subject string, body []byte, size int) (time.Duration, error) {
	began := time.Now()
	reply, err := r.Client.RequestWithContext(ctx, subject, body)
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("bench: request on %s: %w", subject, err)
	}
	if err := subjects.ReplyError(reply.Header, reply.Data); err != nil {
		return 0, err
	}
	if size != anySize && len(reply.Data) != size {
		return 0, fmt.Errorf("bench: a reply on %s has %d bytes, want %d", subject, len(reply.Data), size)
	}
	return took, nil
}

// asking takes the next query, whichever goroutine asks.
func (r *run) asking() (body []byte, size int) {
	i := int(r.next.Add(1)-1) % len(r.load.requests)
	return r.load.requests[i], r.load.replies[i]
}

// latency has one request in flight: a search and an echo of its size in turn.
func (r *run) latency(ctx context.Context) error {
	var searches, echoes times
	span := time.Duration(latencyPart * float64(r.Duration))
	began, told := time.Now(), time.Now()
	for i := 0; time.Since(began) < span; i++ {
		body, size := r.asking()
		s, err := r.ask(ctx, r.subject, body, size)
		if err != nil {
			return err
		}
		e, err := r.ask(ctx, r.echo.subject(size), body, size)
		if err != nil {
			return err
		}
		if time.Since(began) > span/warmUp {
			searches, echoes = append(searches, s), append(echoes, e)
		}
		if i%500 == 0 {
			r.progress(time.Since(told), "one in flight")
			told = time.Now()
		}
	}
	r.progress(time.Since(told), "one in flight")
	r.result.Search, r.result.Echo = searches.measured(), echoes.measured()
	return nil
}

// rate has many requests in flight, in slices of searches and of echoes in turn.
func (r *run) rate(ctx context.Context) error {
	const slices = 10 // of each kind
	slice := time.Duration(ratePart * float64(r.Duration) / (2 * slices))
	var counts [2]int
	var spent, cpu [2]time.Duration
	for i := range 2 * slices {
		kind := i % 2
		used := cpuTime()
		n, took, err := r.slice(ctx, slice, kind == 1)
		cpu[kind] += cpuTime() - used
		if err != nil {
			return err
		}
		counts[kind] += n
		spent[kind] += took
		r.progress(took, fmt.Sprintf("%d in flight", r.InFlight))
	}
	r.result.Search.Rate = float64(counts[0]) / spent[0].Seconds()
	r.result.Echo.Rate = float64(counts[1]) / spent[1].Seconds()
	r.result.Search.CPU = micros(cpu[0]) / float64(max(1, counts[0]))
	r.result.Echo.CPU = micros(cpu[1]) / float64(max(1, counts[1]))
	return nil
}

// slice keeps InFlight requests on their way for d and tells how many were answered.
func (r *run) slice(ctx context.Context, d time.Duration, echo bool) (int, time.Duration, error) {
	var n atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for range r.InFlight {
		g.Go(func() error {
			for time.Since(began) < d {
				body, size := r.asking()
				subject := r.subject
				if echo {
					subject = r.echo.subject(size)
				}
				if _, err := r.ask(ctx, subject, body, size); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	return int(n.Load()), time.Since(began), err
}

// assemble names the stored catalog, as a runtime does at each turn: one in flight, in turn with an echo. The reply
// carries an instant, so its size may differ by a few bytes.
func (r *run) assemble(ctx context.Context) error {
	subject := r.Root.Request(tenant, session, subjects.VerbAssemble)
	var asked, echoes times
	span := time.Duration(assemblePart * float64(r.Duration))
	began, told := time.Now(), time.Now()
	for i := 0; time.Since(began) < span; i++ {
		body, err := subjects.AppendAssembleRequest(nil, &subjects.AssembleRequest{Catalog: r.scope.Catalog().Digest(), Connectors: new(bool)})
		if err != nil {
			return err
		}
		a, err := r.ask(ctx, subject, body, anySize)
		if err != nil {
			return err
		}
		e, err := r.ask(ctx, r.echo.subject(r.result.AssembleReplyBytes), body, r.result.AssembleReplyBytes)
		if err != nil {
			return err
		}
		if time.Since(began) > span/warmUp {
			asked, echoes = append(asked, a), append(echoes, e)
		}
		if i%200 == 0 {
			r.progress(time.Since(told), "assembling")
			told = time.Now()
		}
	}
	r.progress(time.Since(told), "assembling")
	r.result.Assemble, r.result.AssembleEcho = asked.measured(), echoes.measured()
	return nil
}

func (r *run) finish(took time.Duration) {
	res := &r.result
	res.Bus, res.InFlight, res.Cores = r.Bus, r.InFlight, runtime.GOMAXPROCS(0)
	res.RequestBytes, res.ReplyBytes = r.load.averages()
	if res.Echo.Rate > 0 {
		res.PossibleRate = 1 / (1/res.Echo.Rate + res.SearchCPU/1e6/float64(res.Cores))
	}
	res.P50Ratio = ratio(res.Search.P50, res.Echo.P50)
	res.RateRatio = ratio(res.Search.Rate, res.PossibleRate)
	res.AssembleRatio = ratio(res.Assemble.P50, res.AssembleEcho.P50)
	res.Seconds = took.Seconds()
	r.Progress(1, "done")
}
