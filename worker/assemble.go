package worker

import (
	"context"
	"crypto/sha256"
	"time"

	"toolsearch/catalog"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// assemble answers with the visible tools and the handle of a scope. Both blobs of the scope are stored when it
// answers. A request that was answered before, to the byte, is answered from memory while its blobs are known to stand.
func (w *Worker) assemble(ctx context.Context, r *request) ([]byte, error) {
	key := requestKey(r.tenant, r.session, r.body)
	a, ok := w.shelf.reply(key)
	w.shelf.lookups.replies.Lookup(ctx, ok)
	if ok {
		w.saved(ctx, r, a)
		return a.body, nil
	}
	owner, body := catalog.Owner{Tenant: r.tenant, Session: r.session}, r.body
	v, err := w.shelf.fill.do(ctx, "assemble "+key, func(ctx context.Context) (any, error) {
		if a, ok := w.shelf.reply(key); ok {
			return a, nil
		}
		return w.assembleNew(ctx, key, owner, body)
	})
	if err != nil {
		return nil, err
	}
	w.saved(ctx, r, v.(*assembled))
	return v.(*assembled).body, nil
}

// saved tells what an assemble kept out of a model's context.
func (w *Worker) saved(ctx context.Context, r *request, a *assembled) {
	w.opts.Telemetry.Metrics().Assembled(ctx, a.deferred, a.saved)
	telemetry.Saved(r.span, a.saved)
}

// bridgeTokens estimates what the bridge's own definitions, the last of the tools, take of a context: a quarter of their
// characters, as deferred tokens are counted.
func bridgeTokens(r *subjects.AssembleReply) int {
	if !r.Activated {
		return 0
	}
	chars := 0
	for _, tool := range r.Tools[max(0, len(r.Tools)-bridgeTools):] {
		chars += len(tool)
	}
	return (chars + 3) / 4
}

// bridgeTools is how many tools the bridge has.
const bridgeTools = 3

// requestKey names a request by all that its answer depends on.
func requestKey(tenant, session string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(tenant + "\x00" + session + "\x00"))
	h.Write(body)
	return string(h.Sum(nil))
}

func (w *Worker) assembleNew(ctx context.Context, key string, owner catalog.Owner, body []byte) (*assembled, error) {
	req, err := decodeAssemble(body)
	if err != nil {
		return nil, err
	}
	parent, err := w.parent(ctx, owner, req.ParentScope)
	if err != nil {
		return nil, err
	}
	x, err := w.catalogOf(ctx, req)
	if err != nil {
		return nil, err
	}
	sc, err := w.newScope(x.catalog, owner, req, parent.scope)
	if err != nil {
		return nil, err
	}
	catalogAt, err := w.shelf.assure(ctx, w.shelf.catalogBlob(x.catalog))
	if err != nil {
		return nil, err
	}
	scopeAt, err := w.shelf.assure(ctx, w.shelf.scopeBlob(sc))
	if err != nil {
		return nil, err
	}
	ends := w.shelf.ends(earlier(catalogAt, scopeAt))
	w.shelf.keepScope(sc.Handle(), opened{sc, ends})

	reply := sc.Assemble()
	reply.ExpiresAt = ends.UTC().Truncate(time.Second)
	a := &assembled{body: catalog.AppendAssembleReply(nil, reply), scope: sc.Handle(), catalog: x.catalog.Digest(),
		deferred: reply.DeferredTokens, saved: max(0, reply.DeferredTokens-bridgeTokens(reply))}
	if parent.scope != nil {
		ends = earlier(ends, parent.expires) // once the parent is gone, the request is refused by every worker
	}
	w.shelf.replies.add(key, a, int64(cap(a.body)), ends)
	return a, nil
}

// catalogOf is the catalog of a request: the one it brings, or the stored one that it names.
func (w *Worker) catalogOf(ctx context.Context, req *subjects.AssembleRequest) (index, error) {
	if req.Catalog != "" {
		return w.shelf.load(ctx, req.Catalog)
	}
	return w.shelf.build(ctx, subjects.Digest(req.Tools), req.Tools)
}

// parent opens the scope that a request intersects with, an empty one for none. Subagents of another session may name
// it, but nobody of another tenant.
func (w *Worker) parent(ctx context.Context, owner catalog.Owner, handle string) (opened, error) {
	if handle == "" {
		return opened{}, nil
	}
	o, err := w.shelf.scope(ctx, handle)
	if err != nil {
		return opened{}, err
	}
	if o.scope.Owner().Tenant != owner.Tenant {
		return opened{}, subjects.Errorf(subjects.CodeScopeForbidden, "parent_scope was made for another tenant")
	}
	return o, nil
}

func (w *Worker) newScope(
	c *catalog.Catalog, owner catalog.Owner, req *subjects.AssembleRequest, parent *catalog.Scope,
) (*catalog.Scope, error) {
	sc, err := catalog.NewScope(c, owner, req, *w.opts.ToolSearch, w.opts.CoreTools, parent)
	if err != nil {
		return nil, err
	}
	for _, warning := range sc.Warnings() {
		w.log.Warn("a request's configuration could not be used as it is", "tenant", owner.Tenant, "session", owner.Session,
			"key", warning.Key, "value", warning.Value, "used", warning.Used)
	}
	return sc, nil
}

// scopeOf is the scope that a search, describe or call names, if it was made for this session; or the one that it
// brings, which is used for this request and stored nowhere.
func (w *Worker) scopeOf(ctx context.Context, r *request, b *bridgeRequest) (*catalog.Scope, error) {
	owner := catalog.Owner{Tenant: r.tenant, Session: r.session}
	handle, err := b.handle()
	if err != nil {
		return nil, err
	}
	if handle == "" {
		return w.inlineScope(ctx, owner, b.Scope)
	}
	o, err := w.shelf.scope(ctx, handle)
	if err != nil {
		return nil, err
	}
	switch made := o.scope.Owner(); {
	case made.Tenant != owner.Tenant:
		return nil, subjects.Errorf(subjects.CodeScopeForbidden, "this scope was made for another tenant")
	case made.Session != owner.Session:
		return nil, subjects.Errorf(subjects.CodeScopeForbidden,
			"this scope was made for another session; assemble one for this session")
	}
	return o.scope, nil
}

func (w *Worker) inlineScope(ctx context.Context, owner catalog.Owner, body []byte) (*catalog.Scope, error) {
	key := inline + requestKey(owner.Tenant, owner.Session, body)
	if sc, _, ok := w.shelf.scopes.get(key); ok {
		return sc, nil
	}
	v, err := w.shelf.fill.do(ctx, key, func(ctx context.Context) (any, error) {
		return w.newInlineScope(ctx, key, owner, body)
	})
	if err != nil {
		return nil, below("scope", err)
	}
	return v.(*catalog.Scope), nil
}

func (w *Worker) newInlineScope(
	ctx context.Context, key string, owner catalog.Owner, body []byte,
) (*catalog.Scope, error) {
	req, err := decodeAssemble(body)
	if err != nil {
		return nil, err
	}
	parent, err := w.parent(ctx, owner, req.ParentScope)
	if err != nil {
		return nil, err
	}
	var x index
	if req.Catalog != "" {
		x, err = w.shelf.load(ctx, req.Catalog)
	} else {
		// Under a key of its own: what was never stored must not answer for a request that names a stored catalog.
		x, err = w.shelf.build(ctx, inline+subjects.Digest(req.Tools), req.Tools)
	}
	if err != nil {
		return nil, err
	}
	sc, err := w.newScope(x.catalog, owner, req, parent.scope)
	if err != nil {
		return nil, err
	}
	ends := x.expires
	if parent.scope != nil {
		ends = earlier(ends, parent.expires)
	}
	w.shelf.keepScope(key, opened{sc, ends})
	return sc, nil
}
