package connectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v4"

	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// request is one logical request, sent once or more.
type request struct {
	route  route
	path   string
	query  string
	tenant string
	body   []byte // nil for a GET
	key    string // idempotency key, "" for none
	repeat bool
	stop   <-chan struct{}
}

// Ended says why a request was not sent (again).
type Ended int

// The reasons.
const (
	EndedAnswered  Ended = iota // by an answer, or by an error that is not repeated or no more
	EndedStopped                // Stop was closed
	EndedBound                  // the next attempt would not have fit before the deadline
	EndedCancelled              // the context was cancelled, not by a deadline
)

// tries tells how a request went over all its attempts.
type tries struct {
	attempts int
	unclear  bool
	failed   bool
	ended    Ended
}

// maxErrorBody is how much of an answer with an error status is read.
const maxErrorBody = 64 << 10

// exponential is the default wait: 100 ms, doubling to 5 s, each spread by half. It has no end of its own; attempts
// and the deadline are the bounds.
func exponential() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxInterval(5*time.Second),
		backoff.WithMaxElapsedTime(0),
	)
}

// try sends a request until it has an answer that stands, and returns the last error otherwise.
//
// unclear is kept over the attempts. It becomes true with an attempt that may have reached the gateway and has no
// answer, and with a 409 to anything but the first attempt: the key is in use by that earlier one. It becomes false
// again with an answer that tells what became of the key: a 2xx, or a refusal of the request as such, which would
// have met the earlier attempt, the same to the byte, as well. A 401, 403, 404, 408, 429 or a status of 500 and above
// is given before a gateway looks at the key, so it tells nothing of an earlier attempt, and of itself it says that
// nothing was done.
//
// failed is kept likewise: it becomes true with an answer of 408, 500 and above, whose sender may have broken off in the
// middle of the work, and false again with whatever ends unclear.
func (c *Client) try(ctx context.Context, r request) (json.RawMessage, tries, error) {
	t := tries{unclear: r.repeat}
	waits := c.backoff()
	for {
		if ctx.Err() != nil {
			t.ended = endedBy(ctx)
			return nil, t, c.notSent(ctx)
		}
		t.attempts++
		at := Attempt{Route: r.route.name, Tenant: r.tenant, Number: t.attempts}
		begun := c.clock.Now()
		c.observer.attemptStarted(ctx, at)
		body, sent, err := c.attempt(telemetry.WithAttempt(ctx, t.attempts), r)
		c.observer.attemptFinished(ctx, at, c.clock.Now().Sub(begun), err)
		if err == nil {
			t.unclear, t.failed = false, false
			return body, t, nil
		}
		t.judge(err, sent, r.repeat)
		if ctx.Err() != nil && err.Retryable() && err.Status == 0 {
			t.ended = endedBy(ctx)
			return nil, t, err
		}
		wait, again := c.next(r.route, err, waits)
		if !again || t.attempts >= r.route.attempts {
			return nil, t, err
		}
		if t.ended = c.pause(ctx, r, at, err, wait); t.ended != EndedAnswered {
			return nil, t, err
		}
	}
}

// judge keeps account of what is known.
func (t *tries) judge(err *Error, sent, repeat bool) {
	switch {
	case err.Code == CodeTransport && err.Status == 0:
		t.unclear = t.unclear || sent
	case err.Kind == KindConflict:
		t.unclear = t.unclear || repeat || t.attempts > 1
	case err.Kind == KindBadAnswer:
		t.unclear, t.failed = false, false
	case err.Kind == KindOther && (err.Status >= 500 || err.Status == http.StatusRequestTimeout):
		t.failed = true
	case err.Kind == KindOther && err.Status >= 400:
		t.unclear, t.failed = false, false
	}
}

// next says whether an error may be followed by another attempt, and after which wait.
func (c *Client) next(r route, err *Error, waits backoff.BackOff) (time.Duration, bool) {
	switch {
	case err.Kind == KindRateLimited && r.patient:
		// What it asks for, and not less than any other failure would wait: it may ask for nothing.
		return max(err.RetryAfter, waits.NextBackOff()), true
	case err.Retryable():
		d := waits.NextBackOff()
		return d, d != backoff.Stop
	}
	return 0, false
}

// pause waits before the next attempt and tells what ended the wait early. A wait that the deadline would cut is not
// begun: the last outcome is told now rather than later.
func (c *Client) pause(ctx context.Context, r request, at Attempt, err *Error, wait time.Duration) Ended {
	if isClosed(r.stop) {
		return EndedStopped
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return EndedBound
	}
	c.observer.retry(ctx, at, err, wait)
	if wait <= 0 {
		return EndedAnswered
	}
	timer, stop := c.clock.NewTimer(wait)
	defer stop()
	select {
	case <-timer:
		return EndedAnswered
	case <-r.stop:
		return EndedStopped
	case <-ctx.Done():
		return endedBy(ctx)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return c != nil
	default:
		return false
	}
}

// errBound is the cause of a context that a bound of ours has ended.
var errBound = errors.New("connectors: the bound of the entry has passed")

func endedBy(ctx context.Context) Ended {
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, errBound) {
		return EndedBound
	}
	return EndedCancelled
}

// notSent is the error of a request whose context had ended before it was sent.
func (c *Client) notSent(ctx context.Context) *Error {
	return newError(KindOther, CodeTransport, context.Cause(ctx), "the request was not sent: there was no time left for it")
}

// attempt sends the request once. sent says that it may have reached the gateway; it is false only when that is
// certain.
func (c *Client) attempt(ctx context.Context, r request) (body json.RawMessage, sent bool, failed *Error) {
	if c.origin.IsZero() {
		return nil, false, newError(KindUnavailable, CodeNoOrigin, nil, "no connector gateway is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, r.route.timeout)
	defer cancel()
	token, err := c.tokens.Token(ctx, r.tenant)
	if err != nil {
		c.log.WarnContext(ctx, "no gateway token", slog.String("tenant", r.tenant), slog.String("reason", err.Error()))
		return nil, false, tokenError(err)
	}
	if token == "" {
		return nil, false, tokenError(errSignedOut)
	}
	var wire wireTrace
	req, err := c.newRequest(httptrace.WithClientTrace(ctx, wire.hooks()), r, token)
	if err != nil {
		return nil, false, newError(KindOther, CodeInvalidRequest, nil, "the request cannot be made: %v", scrubText(err, token))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, wire.maybeSent(), c.transportError(ctx, r.route, err, token)
	}
	defer resp.Body.Close()
	body, failed = c.readAnswer(ctx, r.route, resp, token)
	return body, true, failed
}

func (c *Client) newRequest(ctx context.Context, r request, token string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.route.method, c.origin.resolve(r.path, r.query), Payload(r.body))
	if err != nil {
		return nil, err
	}
	if !c.origin.covers(req.URL) {
		return nil, errors.New("its URL is not below the gateway's origin")
	}
	if err := bearer(token); err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "toolsearch")
	if r.key != "" {
		// Lower case on purpose: under the canonical spelling net/http would repeat a request by itself on a broken
		// connection, uncounted and with a token that was not read again.
		req.Header["x-idempotency-key"] = []string{r.key}
	}
	return req, nil
}

// Payload reads the body of a request, nil for none. It is never nil itself: a GET without any body net/http would repeat
// by itself on a broken connection, as it does with idempotency keys.
func Payload(body []byte) io.Reader {
	if body == nil {
		return unrepeatable{}
	}
	return bytes.NewReader(body)
}

type unrepeatable struct{}

func (unrepeatable) Read([]byte) (int, error) { return 0, io.EOF }

// wireTrace finds out whether a request was given a connection, without which no byte of it has left.
type wireTrace struct{ asked, got atomic.Bool }

func (w *wireTrace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { w.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { w.got.Store(true) },
	}
}

// maybeSent is true unless the transport is known to have asked for a connection in vain. A transport that does not
// tell is taken to have sent.
func (w *wireTrace) maybeSent() bool { return !w.asked.Load() || w.got.Load() }

func (c *Client) transportError(ctx context.Context, r route, err error, token string) *Error {
	err = cleanURLError(err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return newError(KindOther, CodeTransport, err,
			"the connector gateway gave no answer in time (%s, at most %v)", r.name, r.timeout)
	}
	return newError(KindOther, CodeTransport, err, "the connector gateway could not be reached: %s", scrubText(withoutAddress(err), token))
}

// readAnswer reads an answer's body. A 2xx body must be one whole JSON value of at most MaxAnswer bytes.
func (c *Client) readAnswer(ctx context.Context, r route, resp *http.Response, token string) (json.RawMessage, *Error) {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// The status counts even where its body breaks off.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		return nil, ParseError(resp.StatusCode, scrub(body, token), resp.Header, c.clock.Now())
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.transportError(ctx, r, err, token)
	case int64(len(body)) > c.maxAnswer:
		return nil, newError(KindBadAnswer, CodeInvalidResponse, nil, "the gateway's answer is over %d bytes", c.maxAnswer)
	}
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	if body = scrub(body, token); !json.Valid(body) {
		return nil, newError(KindBadAnswer, CodeInvalidResponse, nil, "the gateway's answer is not JSON (%s)", contentType(resp))
	}
	if err := subjects.CheckForeign(body); err != nil {
		return nil, newError(KindBadAnswer, CodeInvalidResponse, err, "the gateway's answer cannot be read: %v", err)
	}
	return body, nil
}

// contentType names what came instead of JSON, without its parameters.
func contentType(resp *http.Response) string {
	t, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if t = strings.TrimSpace(t); t == "" {
		return "no content type"
	}
	return clip(t, 64)
}

// withoutAddress is an error of the network without the addresses in it, which are no model's business.
func withoutAddress(err error) error {
	var name *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("lookup: %s", name.Err)
	case errors.As(err, &op) && op.Err != nil:
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// scrubText is an error's text without the token.
func scrubText(err error, token string) string { return string(scrub([]byte(err.Error()), token)) }
