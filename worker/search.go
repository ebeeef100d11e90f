package worker

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/catalog"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// search answers tool_search.
func (w *Worker) search(ctx context.Context, r *request) ([]byte, error) {
	req, err := decodeBridge(r.body)
	if err != nil {
		return nil, err
	}
	before, err := subjects.ParseSearchStreak(req.SearchStreak)
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
	ctx, end := w.opts.Telemetry.Search(ctx, telemetry.Search{Queries: query.Queries, Session: r.session,
		CatalogTools: sc.Catalog().Len(), CatalogDigest: sc.Catalog().Digest()})
	var found []int
	part := "" // of the gateway; empty while the search has not ended
	defer func() { end(found, part) }()
	var remote *catalog.RemoteSearch
	if w.opts.Connectors != nil && sc.Connectors() {
		gctx, cancel := leaveTime(ctx)
		remote = w.opts.Connectors.Search(gctx, r.tenant, query.Queries)
		cancel()
	}
	reply := sc.Search(query, remote)
	streak := query.Follow(before, w.opts.SearchStreak, reply)
	r.header = nats.Header{subjects.HeaderSearchStreak: {streak.String()}}
	r.reply.b = reply.AppendModel(r.reply.b[:0])
	found, part = hits(reply), partOf(remote)
	return r.reply.b, nil
}

// hits is how many tools each query found.
func hits(reply *subjects.SearchReply) []int {
	out := make([]int, len(reply.Results))
	for i := range reply.Results {
		out[i] = len(reply.Results[i].Matches)
	}
	return out
}

// partOf words the gateway's part in a search for metrics.
func partOf(remote *catalog.RemoteSearch) string {
	switch {
	case remote == nil:
		return telemetry.RemoteNone
	case remote.Condition != nil:
		return telemetry.RemoteFailed
	}
	return telemetry.RemoteOK
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
	reply := sc.Describe(names, remote)
	w.opts.Telemetry.Metrics().Described(ctx, len(reply.Tools), len(reply.NotFound)+len(reply.Errors))
	r.reply.b = reply.AppendModel(r.reply.b[:0])
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
