package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// Figures are what a worker shows when somebody scrapes.
type Figures struct {
	Ready bool
	// InFlight are the requests of each verb that wait or run.
	InFlight map[string]int64
	Pools    []PoolFigures
	Caches   []CacheFigures
	// Operations are those that the worker watches.
	Operations int
	Bus        BusFigures
	Queue      *QueueFigures // nil while nothing is known
}

// PoolFigures are those of one pool. A negative bound is left out.
type PoolFigures struct {
	Name                            string
	Running, Waiting, Places, Depth int
}

// CacheFigures are those of one cache.
type CacheFigures struct {
	Name         string
	Bytes, Limit int64
	Entries      int
}

// BusFigures are those of the connection.
type BusFigures struct {
	Connected                                              bool
	Reconnects, MessagesIn, MessagesOut, BytesIn, BytesOut uint64
}

// QueueFigures are those of the queue of calls, over all workers.
type QueueFigures struct {
	Jobs, Limit                      int64 // Limit -1: no bound
	Pending, AckPending, Redelivered int64
	Letters                          int64
	Oldest                           time.Duration
}

// Observe registers where a worker's figures come from until stop is called. read must not block for long.
func (m *Metrics) Observe(read func(context.Context) Figures) (stop func(), err error) {
	o := m.observed
	r, err := m.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		m.observe(to, read(ctx))
		return nil
	}, o.inFlight, o.tasks, o.limit, o.cacheBytes, o.cacheLimit, o.cacheEntries, o.jobs, o.jobLimit, o.pending, o.ackPending, o.redelivered,
		o.oldest, o.letters, o.operations, o.ready, o.connected, o.reconnects, o.messages, o.bytes)
	if err != nil {
		return func() {}, err
	}
	return func() { _ = r.Unregister() }, nil
}

func (m *Metrics) observe(to metric.Observer, f Figures) {
	o := m.observed
	to.ObserveInt64(o.ready, truth(f.Ready))
	for verb, n := range f.InFlight {
		to.ObserveInt64(o.inFlight, n, m.requestSet(verb, "", ""))
	}
	for _, p := range f.Pools {
		for _, s := range [...]struct {
			state        string
			tasks, limit int
		}{{"running", p.Running, p.Places}, {"waiting", p.Waiting, p.Depth}} {
			if s.limit < 0 {
				continue
			}
			with := metric.WithAttributes(PoolKey.String(p.Name), StateKey.String(s.state))
			to.ObserveInt64(o.tasks, int64(s.tasks), with)
			to.ObserveInt64(o.limit, int64(s.limit), with)
		}
	}
	for _, c := range f.Caches {
		with := metric.WithAttributes(CacheKey.String(c.Name))
		to.ObserveInt64(o.cacheBytes, c.Bytes, with)
		to.ObserveInt64(o.cacheLimit, c.Limit, with)
		to.ObserveInt64(o.cacheEntries, int64(c.Entries), with)
	}
	to.ObserveInt64(o.operations, int64(f.Operations))
	b := f.Bus
	to.ObserveInt64(o.connected, truth(b.Connected))
	to.ObserveInt64(o.reconnects, int64(b.Reconnects))
	in, out := metric.WithAttributes(DirectionKey.String("in")), metric.WithAttributes(DirectionKey.String("out"))
	to.ObserveInt64(o.messages, int64(b.MessagesIn), in)
	to.ObserveInt64(o.messages, int64(b.MessagesOut), out)
	to.ObserveInt64(o.bytes, int64(b.BytesIn), in)
	to.ObserveInt64(o.bytes, int64(b.BytesOut), out)
	if q := f.Queue; q != nil {
		to.ObserveInt64(o.jobs, q.Jobs)
		if q.Limit >= 0 {
			to.ObserveInt64(o.jobLimit, q.Limit)
		}
		to.ObserveInt64(o.pending, q.Pending)
		to.ObserveInt64(o.ackPending, q.AckPending)
		to.ObserveInt64(o.redelivered, q.Redelivered)
		to.ObserveInt64(o.letters, q.Letters)
		to.ObserveFloat64(o.oldest, q.Oldest.Seconds())
	}
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
