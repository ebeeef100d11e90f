package worker

import (
	"context"

	"toolsearch/telemetry"
)

// Broken says what only a restart would mend, in words for an operator; nothing while all is well or may become so.
func (w *Worker) Broken() []string {
	if w.is() < stateDraining && w.nc.IsClosed() {
		return []string{"the connection to NATS is closed for good"}
	}
	return nil
}

// figures is what the worker shows to whoever reads its metrics. It asks no server.
func (w *Worker) figures(context.Context) telemetry.Figures {
	f := telemetry.Figures{Ready: w.Health().Ready, InFlight: make(map[string]int64, len(w.endpoints))}
	for _, ep := range w.endpoints {
		f.InFlight[string(ep.verb)] = ep.counters.inFlight.Load()
	}
	for _, p := range [...]struct {
		name string
		pool *pool
	}{{"queries", w.queries}, {"calls", w.calls}} {
		running, waiting := p.pool.load()
		f.Pools = append(f.Pools, telemetry.PoolFigures{Name: p.name, Running: running, Waiting: waiting,
			Places: p.pool.opts.places, Depth: p.pool.opts.depth})
	}
	f.Caches = []telemetry.CacheFigures{
		w.shelf.indexes.figures("indexes"), w.shelf.scopes.figures("scopes"), w.shelf.replies.figures("replies"),
	}
	if calls := w.seen.Load(); calls != nil {
		busy, slots := calls.Runners()
		// What waits for a runner waits in the queue.
		f.Pools = append(f.Pools, telemetry.PoolFigures{Name: "runners", Running: busy, Places: slots, Depth: -1})
		f.Queue = calls.Queue()
	}
	f.Operations = w.linking.Watching()
	s := w.nc.Stats()
	f.Bus = telemetry.BusFigures{Connected: w.nc.IsConnected(), Reconnects: s.Reconnects,
		MessagesIn: s.InMsgs, MessagesOut: s.OutMsgs, BytesIn: s.InBytes, BytesOut: s.OutBytes}
	return f
}

func (c *cache[V]) figures(name string) telemetry.CacheFigures {
	entries, bytes := c.usage()
	return telemetry.CacheFigures{Name: name, Bytes: bytes, Limit: c.budget, Entries: entries}
}
