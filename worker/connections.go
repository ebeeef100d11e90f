package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go"

	"toolsearch/catalog"
	"toolsearch/connectors"
	"toolsearch/connectors/portal"
	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/linking"
)

// connections answers manage_connections. status and rename are answered at once. What starts a connection becomes an
// operation under the call's id: without a card it ends with the links, with one when the user is done. The wait may
// end, by a deadline or a drain, without the operation ending: a repeat under the same call_id, at any worker, joins it.
func (w *Worker) connections(ctx context.Context, r *request) ([]byte, error) {
	req, err := decodeBridge(r.body)
	if err != nil {
		return nil, err
	}
	call := dispatch.CallKey{Tenant: r.tenant, Session: r.session, Call: req.CallID}
	if call.Call == "" {
		call.Call = subjects.NewCallID()
	}
	if err := call.Validate(); err != nil {
		return nil, err
	}
	r.header = nats.Header{subjects.HeaderCall: []string{call.Call}}
	sc, err := w.scopeOf(ctx, r, req)
	if err != nil {
		return nil, err
	}
	switch {
	case !sc.Connectors():
		return nil, &subjects.ToolError{Message: connectors.TextNoConnectors}
	case sc.Surface() == subjects.SurfaceSide:
		return nil, &subjects.ToolError{Message: connectors.TextSide}
	}
	m, err := connectors.ParseManage(req.Arguments)
	if err != nil {
		return nil, err
	}
	switch m.Action {
	case connectors.ActionStatus:
		ctx, cancel := leaveTime(ctx)
		defer cancel()
		return subjects.MarshalModel(w.opts.Connectors.Status(ctx, r.tenant, m.Targets))
	case connectors.ActionRename:
		return w.rename(ctx, r, &m.Targets[0])
	}
	return w.operate(ctx, r, sc, call, m)
}

// operate opens the operation, or joins it, and waits for its end.
func (w *Worker) operate(ctx context.Context, r *request, sc *catalog.Scope, call dispatch.CallKey, m *connectors.Manage) ([]byte, error) {
	op := connectors.NewOperation(call.Call, call.Tenant, call.Session, m, sc.Surface(), w.operationClock().Now())
	t := r.trace()
	op.Trace = connectors.OperationTrace{Parent: t.Parent, State: t.State}
	if m.Action.Local() {
		host := w.linking.LocalHost(ctx, r.tenant, r.session, hostsOf(sc))
		if host == "" {
			return nil, connectors.NoLocalHost()
		}
		for i := range op.Targets {
			op.Targets[i].Host = host
		}
	} else if err := w.opts.Connectors.SignIn(ctx, r.tenant).Refusal(); err != nil {
		return nil, err
	}
	settled, err := w.linking.Do(ctx, op)
	var busy *linking.BusyError
	if errors.As(err, &busy) {
		return nil, &subjects.ToolError{Message: connectors.TextBusy(busy.Open)}
	}
	if err != nil {
		return nil, err
	}
	return subjects.MarshalModel(settled.Outcome())
}

// hostsOf lists the tool hosts that a scope's tools name, each once.
func hostsOf(sc *catalog.Scope) []string {
	var names []string
	c := sc.Catalog()
	for i := range sc.Granted().All() {
		if h := c.Tool(i).Host; h != "" && !slices.Contains(names, h) {
			names = append(names, h)
		}
	}
	return names
}

func (w *Worker) operationClock() connectors.Clock {
	if w.opts.OperationClock != nil {
		return w.opts.OperationClock
	}
	return connectors.SystemClock()
}

// rename gives an account another alias, at the service that has the accounts.
func (w *Worker) rename(ctx context.Context, r *request, t *connectors.ManageTarget) ([]byte, error) {
	if !w.opts.Accounts.Configured() {
		return nil, connectors.NoAccounts()
	}
	ctx, cancel := leaveTime(ctx)
	defer cancel()
	list, err := w.opts.Accounts.List(ctx, r.tenant, "")
	if err != nil {
		return nil, renameFailed(err)
	}
	i := slices.IndexFunc(list.Items, t.Names)
	if i < 0 {
		return nil, connectors.NoSuchAccount(t, list.Items)
	}
	if err := w.opts.Accounts.Rename(ctx, r.tenant, list.Items[i].ConnectionID, t.To); err != nil {
		return nil, renameFailed(err)
	}
	return subjects.MarshalModel(struct {
		Renamed bool   `json:"renamed"`
		Name    string `json:"name"`
		Alias   string `json:"alias"`
		Was     string `json:"was"`
	}{true, t.Name, t.To, t.Alias})
}

func renameFailed(err error) error {
	var e *portal.Error
	if !errors.As(err, &e) {
		return err
	}
	text := "The account was not renamed: "
	if e.Kind == portal.KindUnclear {
		text = "It is not known whether the account was renamed: "
	}
	return &subjects.ToolError{Message: fmt.Sprintf("%s%s. Tell the user; the account settings show its name.", text, e.Message)}
}

// answerCard takes a button of a card.
func (w *Worker) answerCard(ctx context.Context, r *request) ([]byte, error) {
	var a subjects.AnswerRequest
	if err := decodeObject(r.body, &a); err != nil {
		return nil, err
	}
	switch {
	case a.Operation == "":
		return nil, badField("op_id", "op_id is missing; it is the card's")
	case !slices.Contains([]string{subjects.AnswerSkip, subjects.AnswerRetry, subjects.AnswerContinue}, a.Answer):
		return nil, badField("answer", "answer must be skip, retry or continue")
	case a.Answer != subjects.AnswerContinue && a.Name == "":
		return nil, badField("name", "name is missing; skip and retry are about one target of the card")
	}
	reply, err := w.linking.Answer(ctx, r.tenant, r.session, a)
	if err != nil {
		return nil, err
	}
	return subjects.Marshal(reply)
}

// operation shows the session's operation, for an interface that has missed its card.
func (w *Worker) operation(ctx context.Context, r *request) ([]byte, error) {
	if len(r.body) > 0 {
		if err := decodeObject(r.body, new(subjects.OperationRequest)); err != nil {
			return nil, err
		}
	}
	reply, err := w.linking.Current(ctx, r.tenant, r.session)
	if err != nil {
		return nil, err
	}
	return subjects.Marshal(reply)
}

// accounts lists the user's accounts, from the account service and from nowhere else.
func (w *Worker) accounts(ctx context.Context, r *request) ([]byte, error) {
	var q subjects.AccountsRequest
	if len(r.body) > 0 {
		if err := decodeObject(r.body, &q); err != nil {
			return nil, err
		}
	}
	if len(q.ETag) > maxTag || strings.ContainsFunc(q.ETag, unicode.IsControl) {
		return nil, badField("etag", "etag must be that of a list, as accounts returned it")
	}
	ctx, cancel := leaveTime(ctx)
	defer cancel()
	list, err := w.opts.Accounts.List(ctx, r.tenant, q.ETag)
	var e *portal.Error
	switch {
	case errors.As(err, &e):
		return subjects.Marshal(subjects.AccountsReply{Refusal: e.Refusal()})
	case err != nil:
		return nil, err
	}
	return subjects.Marshal(subjects.AccountsReply{Accounts: list.Items, ETag: list.ETag, NotModified: list.NotModified})
}

// maxTag is the longest entity tag and id of an account that is passed on, in bytes.
const maxTag = 1024

// notInID reports what no id of an account holds.
func notInID(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) }

// disconnect ends one of the user's accounts, at the account service and nowhere else.
func (w *Worker) disconnect(ctx context.Context, r *request) ([]byte, error) {
	var q subjects.DisconnectRequest
	if err := decodeObject(r.body, &q); err != nil {
		return nil, err
	}
	if q.ConnectionID == "" {
		return nil, badField("connection_id", "connection_id is missing; the list of the accounts has it")
	}
	if len(q.ConnectionID) > maxTag || strings.Trim(q.ConnectionID, ".") == "" || strings.ContainsFunc(q.ConnectionID, notInID) {
		return nil, badField("connection_id", "connection_id must be that of an account, as the list of the accounts has it")
	}
	ctx, cancel := leaveTime(ctx)
	defer cancel()
	ended, err := w.opts.Accounts.Disconnect(ctx, r.tenant, q.ConnectionID)
	var e *portal.Error
	switch {
	case errors.As(err, &e):
		w.log.InfoContext(ctx, "an account was not disconnected", "tenant", r.tenant, "session", r.session, "code", e.Code, "audit_id", e.AuditID)
		return subjects.Marshal(subjects.DisconnectReply{AuditID: e.AuditID, Refusal: e.Refusal()})
	case err != nil:
		return nil, err
	}
	w.log.InfoContext(ctx, "an account was disconnected", "tenant", r.tenant, "session", r.session, "audit_id", ended.AuditID)
	return subjects.Marshal(subjects.DisconnectReply{Disconnected: true, AuditID: ended.AuditID})
}

// newLinking makes the part that keeps operations.
func (w *Worker) newLinking() (*linking.Operations, error) {
	return linking.New(w.js, w.nc, linking.Options{Layout: w.opts.Layout, Gateway: w.opts.Connectors, Lease: w.opts.OperationLease,
		Clock: w.opts.OperationClock, Telemetry: w.opts.Telemetry, Observer: w.opts.OperationObserver, Logger: w.log})
}

// startLinking starts it, once, and waits until it has its watch.
func (w *Worker) startLinking(ctx context.Context) (err error) {
	w.linkOnce.Do(func() { err = w.linking.Start(w.base) })
	if err != nil {
		return err
	}
	select {
	case <-w.linking.Ready():
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("worker: the watch over operations does not open"), ctx.Err())
	}
}
