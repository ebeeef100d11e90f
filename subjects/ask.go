package subjects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
)

// answer is a reply with its body, wherever that travelled.
type answer struct {
	header nats.Header
	body   []byte
}

// question is one request, however often it is sent.
type question struct {
	tenant, subject string
	verb            Verb
	header          nats.Header
	body            []byte
	patience        time.Duration // how long to wait for one reply before asking again; 0 is as long as the context
	again           time.Duration // how long before asking once more beside the first; 0 is never
}

// errUnanswered ends an attempt whose patience is over. It is asked again at once: the wait is behind it.
var errUnanswered = errors.New("subjects: no reply yet")

// ask sends a request and repeats it as long as that may help. The body travels by claim check where it must, and is
// stored once for all attempts. The context has a deadline.
func (c *Client) ask(ctx context.Context, q *question) (a *answer, err error) {
	ctx, end := c.start(ctx, "request", func() string { return c.opts.Root.Template(q.verb.Family(), string(q.verb)) }, q.subject)
	defer func() { end(err) }()
	h := q.header
	if h == nil {
		h = nats.Header{}
	}
	if deadline, ok := ctx.Deadline(); ok {
		h.Set(HeaderDeadline, FormatDeadline(deadline))
	}
	c.inject(ctx, h)
	m := &nats.Msg{Subject: q.subject, Header: h}
	err = c.retry(ctx, func() (err error) {
		m.Data, err = c.bodies.Pack(ctx, q.tenant, h, q.body)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = c.retry(ctx, func() (err error) {
		a, err = c.insist(ctx, q, m)
		return err
	})
	return a, err
}

// insist sends one request, and sends it again while no reply comes; see [ClientOptions.AskAgain]. The first reply that
// is no error counts. Errors of later attempts do not: the first one may still be answered.
func (c *Client) insist(ctx context.Context, q *question, m *nats.Msg) (*answer, error) {
	if q.again == 0 {
		return c.once(ctx, q, m)
	}
	first, answered := context.WithCancel(ctx)
	later := &laterAttempts{}
	wait := min(q.again, askAgainMost)
	var ask func()
	ask = func() {
		if !later.begin() {
			return
		}
		defer later.done()
		wait = min(2*wait, askAgainMost)
		later.after(spread(wait), ask)
		if a, err := c.once(first, q, m); err == nil {
			later.settle(a)
			answered()
		}
	}
	later.after(spread(wait), ask)
	a, err := c.once(first, q, m)
	answered()
	if other := later.end(); err != nil && other != nil {
		return other, nil
	}
	return a, err
}

// askAgainMost is a wait that no question outlives. It keeps a longer one from overflowing as it is doubled and spread.
const askAgainMost = 30 * 24 * time.Hour

// spread makes a wait up to a quarter longer by chance, so that what was lost together is not asked again together.
func spread(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// laterAttempts are the attempts at a request beside its first one.
type laterAttempts struct {
	mu      sync.Mutex
	ended   bool
	timer   *time.Timer
	running sync.WaitGroup
	answer  *answer
}

// after plans an attempt.
func (l *laterAttempts) after(wait time.Duration, ask func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.timer = time.AfterFunc(wait, ask)
	}
}

// begin reports whether an attempt may start; one that does calls done.
func (l *laterAttempts) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.running.Add(1)
	}
	return !l.ended
}

func (l *laterAttempts) done() { l.running.Done() }

func (l *laterAttempts) settle(a *answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer == nil {
		l.answer = a
	}
}

// end lets no further attempt start, waits for those that run, whose context has ended, and gives what one of them was
// answered.
func (l *laterAttempts) end() *answer {
	l.mu.Lock()
	l.ended = true
	l.timer.Stop()
	l.mu.Unlock()
	l.running.Wait()
	return l.answer
}

// once sends one request and reads its reply.
func (c *Client) once(ctx context.Context, q *question, m *nats.Msg) (*answer, error) {
	wait := ctx
	if q.patience > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, q.patience)
		defer cancel()
	}
	reply, err := c.request(wait, m)
	switch {
	case AsPermissionError(err) != nil:
		return nil, err
	case err != nil && wait.Err() != nil && ctx.Err() == nil:
		return nil, errUnanswered
	case err != nil:
		return nil, c.transportError(ctx, err)
	}
	if err := ReplyError(reply.Header, reply.Data); err != nil {
		return nil, err
	}
	body, err := c.bodies.Unpack(ctx, q.tenant, reply.Header, reply.Data)
	if err != nil {
		// What is wrong with a reply is no fault of the request.
		var e *Error
		if errors.As(err, &e) && e.Code == CodeBadRequest {
			err = &Error{Code: CodeUnavailable, Err: e,
				Message: "the reply's body could not be read from the object store; ask again"}
		}
		return nil, err
	}
	return &answer{header: reply.Header, body: body}, nil
}

// ReplyError reads the service error out of a reply, nil where it is none. An error of a NATS service that is not of
// the contract's set becomes the code of its number, else INTERNAL.
func ReplyError(h nats.Header, data []byte) error {
	number := h.Get(HeaderErrorCode)
	if number == "" && h.Get(HeaderError) == "" {
		return nil
	}
	e := new(Error)
	if json.Unmarshal(data, e) != nil || !e.Code.known() {
		*e = Error{Code: Code(h.Get(HeaderError)), Message: "the service answered with an error and no text"}
	}
	if !e.Code.known() {
		e.Message = fmt.Sprintf("the service answered with error %s %s", number, h.Get(HeaderError))
		e.Code = codeOf(number)
	}
	e.RetryAfter = ParseRetryAfter(h.Get(HeaderRetryAfter))
	return e
}

// transportError types what NATS says. Its text names no subject: the caller knows what it asked.
func (c *Client) transportError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return &Error{Code: CodeUnavailable, Err: err,
			Message: "no worker answers on this bus; start one, or check the root of the subjects"}
	case ctx.Err() != nil:
		return c.ended(ctx, nil)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrTimeout):
		return &Error{Code: CodeUnavailable, Message: "the connection to NATS is interrupted; try again", Err: err}
	case errors.Is(err, nats.ErrMaxPayload):
		return &Error{Code: CodeTooLarge, Message: "the message is over the server's max_payload; send less", Err: err}
	}
	return fmt.Errorf("subjects: request failed: %w", err)
}

// ended is the error of a context that ended: last, where an attempt had failed before, and why it ended.
func (c *Client) ended(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if last != nil {
		return fmt.Errorf("%w; gave up: %w", last, cause)
	}
	if !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("subjects: gave up: %w", cause)
	}
	message := "no reply came in time; a worker may be busy or gone"
	if errors.Is(c.nc.LastError(), nats.ErrPermissionViolation) {
		message = "no reply came in time, and the server refused a subject to this connection; check its permissions"
	}
	return &Error{Code: CodeDeadlineExceeded, Message: message, Err: cause}
}

// retry runs attempt until it succeeds, fails for good, has been repeated often enough, or ctx ends.
func (c *Client) retry(ctx context.Context, attempt func() error) error {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(c.opts.MinBackoff),
		backoff.WithMaxInterval(c.opts.MaxBackoff), backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0))
	for n := 0; ; n++ {
		err := attempt()
		if err == nil {
			return nil
		}
		if errors.Is(err, errUnanswered) {
			n = -1
			pause.Reset()
			continue
		}
		wait, again := repeatable(err)
		if !again || n >= c.opts.Retries {
			return err
		}
		wait = max(wait, pause.NextBackOff())
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return fmt.Errorf("%w; gave up: the next attempt would come after the deadline: %w", err, context.DeadlineExceeded)
		}
		if sleep(ctx, wait) != nil {
			return c.ended(ctx, err)
		}
	}
}

// repeatable reports whether the same request may be sent again, and how long the worker asked to wait. A scope or a
// catalog that is gone is retryable too, but by another request: see [Session].
func repeatable(err error) (time.Duration, bool) {
	var e *Error
	if !errors.As(err, &e) {
		return 0, false
	}
	switch e.Code {
	case CodeOverloaded, CodeUnavailable:
		return e.RetryAfter, true
	default:
		return 0, false
	}
}
