package worker

import (
	"context"
	"time"

	"toolsearch/catalog"
)

// search answers tool_search.
func (w *Worker) search(ctx context.Context, r *request) ([]byte, error) {
	req, err := decodeBridge(r.body)
	if err != nil {
		return nil, err
	}
	sc, err := w.scopeOf(ctx, r, req)
	if err != nil {
		return nil, err
	}
	query, err := sc.ParseSearch(req.Arguments)
	if err != nil {
		return nil, err
	}
	var remote *catalog.RemoteSearch
	if w.opts.Connectors != nil && sc.Connectors() {
		gctx, cancel := leaveTime(ctx)
		remote = w.opts.Connectors.Search(gctx, r.tenant, query.Queries)
		cancel()
	}
	r.reply.b = sc.Search(query, remote).AppendModel(r.reply.b[:0])
	return r.reply.b, nil
}

// describe answers tool_describe.
func (w *Worker) describe(ctx context.Context, r *request) ([]byte, error) {
	req, err := decodeBridge(r.body)
	if err != nil {
		return nil, err
	}
	sc, err := w.scopeOf(ctx, r, req)
	if err != nil {
		return nil, err
	}
	names, err := sc.ParseDescribe(req.Arguments)
	if err != nil {
		return nil, err
	}
	var remote *catalog.RemoteDescribe
	if w.opts.Connectors != nil && sc.Connectors() {
		gctx, cancel := leaveTime(ctx)
		remote = w.opts.Connectors.Describe(gctx, r.tenant, names)
		cancel()
	}
	r.reply.b = sc.Describe(names, remote).AppendModel(r.reply.b[:0])
	return r.reply.b, nil
}

// leaveTime gives the gateway less than the request's time, so that a gateway that does not answer costs the local
// results nothing: they still go out before the deadline.
func leaveTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	return context.WithDeadline(ctx, deadline.Add(-min(left/4, 250*time.Millisecond)))
}
