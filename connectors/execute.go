package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"toolsearch/subjects"
)

// The messages of an execution.
const (
	messageUnavailable = "Unknown tool: connectors are not available here. " +
		"Nothing was done; use tool_search to find a tool that is."
	messageFailed     = "The request to the connector gateway failed: %s"
	messageBrokeOff   = messageFailed + ". It may have taken effect; check before you repeat it."
	messageUnexpected = "The call failed unexpectedly: the connector gateway's answer could not be used (%s). " +
		"It may have taken effect; check before you repeat it."
	messageUnknown = "The call was sent, and what became of it is not known (%s). " +
		"It may have taken effect; check before you repeat it."
	messageTooLate = "There was no time left to begin this call; nothing was sent."
)

// Execution is one entry of a batch, about to be sent.
type Execution struct {
	Tenant    string
	Index     int
	Name      string
	Parsed    Name
	Arguments json.RawMessage // an object; nil is {}
	Surface   subjects.Surface
	// Key is the idempotency key for a slug. It gives the same key for the same entry and slug to every runner.
	Key func(slug string) string
	// Repeat says that an earlier attempt, by any runner, may have reached the gateway.
	Repeat bool
	// Stop ends a wait between attempts when it is closed. Nothing is sent after that; a request that is under way is
	// waited for. May be nil.
	Stop <-chan struct{}
	// Bound is for the whole entry with its retries; 0 is 120 s.
	Bound time.Duration
}

// ExecutionResult is what became of an entry.
type ExecutionResult struct {
	// Result and Outcome are what the entry settles as, also where Cut is set and settling can wait.
	Result  subjects.EntryResult
	Outcome subjects.Outcome
	// Attempts is how many attempts were made under either slug, those included that could not be sent.
	Attempts int
	// Cut says that ctx was cancelled (not by a deadline) before the outcome was final. Nothing is settled: another
	// runner may go on under the same keys, with Repeat set.
	Cut bool
	// Unclear says that a request may have reached the gateway and that no answer tells what became of it.
	Unclear bool
}

// Execute sends one entry and returns what became of it; it returns no Go error.
//
// The entry is sent under its prefixed slug. If the gateway says TOOL_NOT_FOUND, and nothing else, it is sent once
// more under the literal slug, with that slug's key. Within a slug [Client.Execute] says what is repeated.
//
// What is told, in this order:
//
//  1. A row of the gateway is the outcome, whatever went before it: the key makes it speak for every attempt.
//  2. Where a request may have reached the gateway and no answer tells what became of it, OUTCOME_UNKNOWN. That is a
//     connection that broke or stayed silent after the request was given to it, a Repeat, and a 409 to anything but
//     the first attempt under a key. Later answers that are given before a gateway looks at keys (401, 403, 404, 429,
//     5xx) do not clear it.
//  3. Signed out, no gateway, or 404: TOOL_NOT_FOUND, connectors are not available.
//  4. A 2xx answer that cannot be used, which is not repeated, and every other error, once attempts, bound or a stop
//     leave no further one: PROVIDER_ERROR. A status of 500 and above is the gateway's word that the call failed; the
//     message says that it may have taken effect nevertheless.
//
// A cancelled ctx cuts a request under way; see [ExecutionResult.Cut]. A deadline of ctx is a bound like Bound: what
// it cuts is settled. An entry that had no attempt at all settles as INTERRUPTED or DEADLINE_EXCEEDED, unless Repeat
// is set.
func (g *Gateway) Execute(ctx context.Context, e Execution) ExecutionResult {
	if !g.Configured() {
		off := newError(KindUnavailable, CodeNoOrigin, nil, "connectors are switched off")
		return e.settle(&ExecuteAnswer{Unclear: e.Repeat}, off)
	}
	if isClosed(e.Stop) {
		return e.stopped()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, orDefault(e.Bound, DefaultEntryBound), errBound)
	defer cancel()
	slugs := e.Parsed.Slugs()
	first, missing := g.send(ctx, e, slugs[0])
	if !missing || isClosed(e.Stop) {
		return first
	}
	if ctx.Err() != nil {
		first.Cut = endedBy(ctx) == EndedCancelled
		return first
	}
	second, _ := g.send(ctx, e, slugs[1])
	second.Attempts += first.Attempts
	return second
}

// send sends the entry under one slug. missing says that the gateway answered that there is no such slug.
func (g *Gateway) send(ctx context.Context, e Execution, slug string) (r ExecutionResult, missing bool) {
	answer, err := g.client.Execute(ctx, e.Tenant, ExecuteRequest{
		Calls:  []ToolCall{{Connector: e.Parsed.Connector, Tool: slug, Arguments: e.Arguments}},
		Key:    e.Key(slug),
		Repeat: e.Repeat,
		Stop:   e.Stop,
	})
	var bad *Error
	if errors.As(err, &bad) && bad.Kind == KindBadAnswer {
		g.log.WarnContext(ctx, "unusable answer to an execute request", slog.String("tenant", e.Tenant),
			slog.String("name", e.Name), slog.String("reason", bad.Error()))
	}
	row := firstRow(answer.Rows)
	return e.settle(answer, err), err == nil && row != nil && row.Error != nil && row.Error.Code == subjects.EntryToolNotFound
}

// settle words what an execute request came to.
func (e *Execution) settle(a *ExecuteAnswer, err error) ExecutionResult {
	r := ExecutionResult{Outcome: subjects.OutcomeError, Attempts: a.Attempts,
		Unclear: a.Unclear, Cut: a.Ended == EndedCancelled}
	var f *Error
	switch {
	case err == nil:
		r.Result = splice(Plan{Position: e.Index, Name: e.Name, Parsed: e.Parsed}, firstRow(a.Rows), e.Surface)
		if r.Result.Error == nil {
			r.Outcome = subjects.OutcomeOK
		}
		return r
	case !errors.As(err, &f):
		f = newError(KindOther, CodeInvalidRequest, err, "%v", err)
	}
	switch {
	case a.Unclear:
		r.Outcome = subjects.OutcomeUnknown
		r.Result = e.failed(subjects.EntryOutcomeUnknown, fmt.Sprintf(messageUnknown, f.Message))
	case a.Attempts == 0 && a.Ended == EndedBound:
		r.Result = e.failed(subjects.EntryDeadlineExceeded, messageTooLate)
	case a.Failed:
		r.Result = e.failed(subjects.EntryProviderError, fmt.Sprintf(messageBrokeOff, strings.TrimRight(f.Message, ".")))
	case f.Kind == KindUnavailable || errors.Is(f, errSignedOut):
		r.Result = e.failed(subjects.EntryToolNotFound, messageUnavailable)
	case f.Kind == KindBadAnswer:
		r.Result = e.failed(subjects.EntryProviderError, fmt.Sprintf(messageUnexpected, f.Message))
	default:
		r.Result = e.failed(subjects.EntryProviderError, fmt.Sprintf(messageFailed, f.Message))
	}
	return r
}

// stopped is the result of an entry whose stop came before anything was sent here.
func (e *Execution) stopped() ExecutionResult {
	if e.Repeat {
		return ExecutionResult{Outcome: subjects.OutcomeUnknown, Unclear: true,
			Result: e.failed(subjects.EntryOutcomeUnknown, fmt.Sprintf(messageUnknown, "stopped"))}
	}
	return ExecutionResult{Outcome: subjects.OutcomeInterrupted, Result: Interrupted(e.Index, e.Name)}
}

func (e *Execution) failed(code subjects.EntryCode, message string) subjects.EntryResult {
	return failed(e.Index, e.Name, code, message)
}

func firstRow(rows []*Row) *Row {
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}
