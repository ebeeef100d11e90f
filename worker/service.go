package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// queueGroup is the one queue group of all workers: any of them may answer any request.
const queueGroup = "toolsearch"

// What a subscription holds back at most before the client library drops messages. Handing a request to the pool never
// blocks, so this only fills while the process is starved of CPU.
const (
	pendingMessages = 64 << 10
	pendingBytes    = 256 << 20
)

// endpoint is one verb of the service.
type endpoint struct {
	worker   *Worker
	verb     subjects.Verb
	handler  handler
	pool     *pool
	timeout  time.Duration // of a request that names no earlier deadline
	process  *telemetry.Operation
	counters counters
}

// serve puts the service and its endpoints on the bus.
func (w *Worker) serve() (micro.Service, error) {
	svc, err := micro.AddService(w.nc, micro.Config{
		Name:         subjects.ServiceName,
		Version:      w.opts.Version,
		Description:  "Progressive tool disclosure: assemble, search, describe and call.",
		Metadata:     map[string]string{"worker": w.opts.Name, "root": string(w.opts.Layout.Root)},
		QueueGroup:   queueGroup,
		StatsHandler: w.endpointStats,
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			w.log.Error("the service had an error on its subscription", "subject", e.Subject, "error", e.Description)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("worker: add the service: %w", err)
	}
	for _, ep := range w.endpoints {
		err := svc.AddEndpoint(string(ep.verb), micro.HandlerFunc(ep.accept),
			micro.WithEndpointSubject(w.opts.Layout.Root.Requests(ep.verb)),
			micro.WithEndpointMetadata(schemas(ep.verb)),
			micro.WithEndpointPendingLimits(pendingMessages, pendingBytes))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("worker: add endpoint %s: %w", ep.verb, err), svc.Stop())
		}
	}
	return svc, nil
}

// schemas names the JSON Schemas of a verb's messages in its metadata.
func schemas(verb subjects.Verb) map[string]string {
	request, reply := subjects.SchemasOf(verb)
	return map[string]string{"request_schema": request, "response_schema": reply}
}

func (w *Worker) endpointStats(e *micro.Endpoint) any {
	for _, ep := range w.endpoints {
		if string(ep.verb) == e.Name {
			return ep.counters.snapshot()
		}
	}
	return nil
}

// Stats tells what each endpoint did since the worker was made.
func (w *Worker) Stats() map[subjects.Verb]EndpointStats {
	out := make(map[subjects.Verb]EndpointStats, len(w.endpoints))
	for _, ep := range w.endpoints {
		out[ep.verb] = ep.counters.snapshot()
	}
	return out
}

// accept takes a message from its subscription and hands it to the pool. It runs on the subscription's goroutine, one
// message at a time, so it does nothing that could block.
func (e *endpoint) accept(msg micro.Request) {
	e.counters.requests.Add(1)
	if msg.Reply() == "" {
		e.counters.unanswered.Add(1) // nobody waits, so there is nothing to do
		e.metrics().Unanswered(e.worker.base, string(e.verb))
		return
	}
	e.counters.inFlight.Add(1)
	r := &request{worker: e.worker, endpoint: e, msg: msg, arrived: time.Now()}
	if err := r.address(); err != nil {
		r.reject(err)
		return
	}
	if err := e.pool.submit(r.tenant, r); err != nil {
		r.refuse(err)
	}
}

func (e *endpoint) metrics() *telemetry.Metrics { return e.worker.opts.Telemetry.Metrics() }

// address reads what the subject and the headers say.
func (r *request) address() error {
	a, err := r.worker.opts.Layout.Root.Parse(r.msg.Subject())
	if err != nil {
		e := badField("subject", fmt.Sprintf(
			"the tenant and the session in the subject must be 1 to %d of A-Z a-z 0-9 _ -", subjects.MaxToken))
		e.Err = err
		return e
	}
	r.tenant, r.session = a.Tenant, a.Session
	if len(r.msg.Headers()) == 0 {
		return nil
	}
	r.deadline, err = subjects.ParseDeadline(nats.Header(r.msg.Headers()).Get(subjects.HeaderDeadline))
	return err
}
