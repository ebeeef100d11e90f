package subjects

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// PermissionError says that the NATS server refuses a subject to the connection's login. Asking again does not help;
// another login may.
type PermissionError struct {
	// Subject is what the login may not publish to, or not subscribe to.
	Subject string
	// Subscribe says that it may not be subscribed to; otherwise it may not be published to.
	Subscribe bool
	// Err is what the connection reported; errors.Is finds nats.ErrPermissionViolation in it.
	Err error
}

func (e *PermissionError) Error() string {
	what, next := "publish", "use one that may"
	if e.Subscribe {
		what = "subscribe"
	}
	if strings.HasPrefix(e.Subject, "_INBOX") {
		next = "replies come there: connect with the inbox prefix that the login is for, as ConnectOptions sets it"
	}
	return fmt.Sprintf("subjects: the NATS server does not let this login %s to %s; %s", what, e.Subject, next)
}

// Unwrap returns what the connection reported.
func (e *PermissionError) Unwrap() error { return e.Err }

// violation reads the subject out of the server's words, of which there are three.
var violation = regexp.MustCompile(`(Publish to|Publish with Reply of|Subscription to) "([^"]*)"`)

// AsPermissionError types what a connection reports as nats.ErrPermissionViolation; nil for every other error.
func AsPermissionError(err error) *PermissionError {
	var typed *PermissionError
	if errors.As(err, &typed) {
		return typed
	}
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	m := violation.FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	return &PermissionError{Subject: m[2], Subscribe: m[1] == "Subscription to", Err: err}
}

// UntilRefused gives a context for one question on nc. It ends when the server refuses a subject to nc's login, with the
// [PermissionError] as its cause. Such a refusal is no reply: without this the question waits until its time is over.
// release ends the watching and must be called.
//
// It reads nc.LastError now and then, since a connection has one error handler and that is its owner's. So a refusal is
// told within twice the time that it took to come, 20 ms at least; it is missed where the connection reports another
// error right after it, and the question then ends by its time; and a question that was permitted ends with one that was
// refused on the same connection at that moment. [Client] looks at the subject, and is free of the last.
func UntilRefused(ctx context.Context, nc *nats.Conn) (_ context.Context, release context.CancelFunc) {
	return untilRefused(ctx, nc, func(*PermissionError) bool { return true })
}

// firstLook is when a question looks for the first time whether it was refused.
const firstLook = 20 * time.Millisecond

// untilRefused is UntilRefused for the refusals that concern the question.
func untilRefused(
	ctx context.Context, nc *nats.Conn, concerns func(*PermissionError) bool,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &lookout{nc: nc, before: nc.LastError(), concerns: concerns, cancel: cancel, wait: firstLook}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(l.wait, l.look)
	return ctx, l.release
}

// lookout looks for the refusal of one question.
type lookout struct {
	nc       *nats.Conn
	before   error // what the connection had reported already
	concerns func(*PermissionError) bool
	cancel   context.CancelCauseFunc

	mu    sync.Mutex
	over  bool
	wait  time.Duration
	timer *time.Timer
}

func (l *lookout) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	if refused := l.refused(); refused != nil {
		l.cancel(refused)
		return
	}
	l.wait *= 2 // what has not come by now is far away, or will not come
	l.timer.Reset(l.wait)
}

// refused is the refusal that the connection reported last. A place for replies is subscribed to once for a connection,
// so its refusal counts also where an earlier question met it.
func (l *lookout) refused() *PermissionError {
	err := l.nc.LastError()
	refused := AsPermissionError(err)
	switch {
	case refused == nil:
		return nil
	case isInbox(l.nc, refused.Subject):
		return refused
	case err != l.before && l.concerns(refused):
		return refused
	}
	return nil
}

func (l *lookout) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.timer.Stop()
	l.cancel(nil)
}

// isInbox reports whether a subject is a place for replies to nc.
func isInbox(nc *nats.Conn, subject string) bool {
	prefix := nc.Opts.InboxPrefix
	if prefix == "" {
		prefix = strings.TrimSuffix(nats.InboxPrefix, ".")
	}
	return strings.HasPrefix(subject, prefix+".")
}

// ofStream says that a refusal concerns what one of the names stands for in a subject of JetStream: a stream, a bucket.
func ofStream(names ...string) func(*PermissionError) bool {
	return func(e *PermissionError) bool {
		return !e.Subscribe && slices.ContainsFunc(strings.Split(e.Subject, "."), func(token string) bool {
			return slices.Contains(names, token)
		})
	}
}

// causeRefused is the refusal that ended a context; nil where it goes on, or ended otherwise.
func causeRefused(ctx context.Context) *PermissionError {
	var refused *PermissionError
	if errors.As(context.Cause(ctx), &refused) {
		return refused
	}
	return nil
}

// request sends one message and gives its reply, or fails as soon as the server refuses it.
func (c *Client) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	ctx, release := untilRefused(ctx, c.nc, func(e *PermissionError) bool { return !e.Subscribe && e.Subject == m.Subject })
	defer release()
	reply, err := c.nc.RequestMsgWithContext(ctx, m)
	if err == nil {
		return reply, nil
	}
	if refused := causeRefused(ctx); refused != nil {
		return nil, refused
	}
	if refused := AsPermissionError(err); refused != nil { // a connection that makes a subscription for each reply
		return nil, refused
	}
	return nil, err
}

// subscribed waits until the server has heard of a subscription, and fails where it refused it.
func (c *Client) subscribed(ctx context.Context, sub *nats.Subscription) error {
	ctx, cancel := within(ctx, c.opts.Timeout)
	defer cancel()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return err
	}
	refused := AsPermissionError(c.nc.LastError())
	if refused != nil && refused.Subscribe && refused.Subject == sub.Subject {
		return refused
	}
	return nil
}
