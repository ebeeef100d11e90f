package subjects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ResultsStream is the JetStream stream that keeps the events of calls for an hour.
const ResultsStream = "TOOLSEARCH_RESULTS"

// ClientOptions configures a [Client]. The zero value is ready for use.
type ClientOptions struct {
	// Root is the root of every subject; empty is [DefaultRoot].
	Root Root
	// Timeout bounds one Assemble, Search, Describe or Stop with all its retries where the context has no deadline;
	// 0 is 30 s.
	Timeout time.Duration
	// CallTimeout bounds one Call where the context has no deadline; 0 is 30 minutes, enough for a batch of ten
	// entries that each use their own bound and a wait for the session's policy.
	CallTimeout time.Duration
	// Reattach is how long a Call waits for its reply before it asks again under the same call_id, in case the worker
	// that held the question is gone; 0 is 30 s.
	Reattach time.Duration
	// AskAgain is how long an Assemble, a Search, a Describe or another question that changes nothing waits for its
	// reply before it is asked once more, in case the reply died with a server or a worker; the next waits are twice as
	// long each, and all are up to a quarter longer by chance. Earlier questions stay open, and the first reply counts.
	// 0 is 5 s. Where the client's own connection is lost, every question is asked again as soon as it is back.
	AskAgain time.Duration
	// Retries is how often one request is repeated at most; 0 is 8, negative is never.
	Retries int
	// MinBackoff and MaxBackoff bound the wait between two attempts, before jitter; 0 is 50 ms and 2 s.
	MinBackoff, MaxBackoff time.Duration
	// BodyLimit is the largest body in bytes that is sent or read by claim check; 0 is [DefaultBodyLimit].
	BodyLimit int64
	// ResultsStream is the stream that Watch replays from; empty is [ResultsStream].
	ResultsStream string
	// Inject adds headers to every message that is sent, such as the trace context of ctx. Whatever case it writes
	// them in, traceparent and tracestate leave in lower case.
	Inject func(ctx context.Context, h nats.Header)
	// Start is called before each operation and may put a span into its context: "request" for a question, with all its
	// attempts, "publish" for a stop. template is the subject with {tenant}, {session} and {call} in place of theirs.
	// end is told the code of a service error, "_OTHER" for another one, "" for none. nil: nothing is called.
	Start func(ctx context.Context, operation, template, subject string) (_ context.Context, end func(code string))
}

func (o ClientOptions) withDefaults() ClientOptions {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.Root == "" {
		o.Root = DefaultRoot
	}
	def(&o.Timeout, 30*time.Second)
	def(&o.CallTimeout, 30*time.Minute)
	def(&o.Reattach, 30*time.Second)
	def(&o.AskAgain, 5*time.Second)
	def(&o.MinBackoff, 50*time.Millisecond)
	def(&o.MaxBackoff, 2*time.Second)
	if o.Retries == 0 {
		o.Retries = 8
	}
	if o.ResultsStream == "" {
		o.ResultsStream = ResultsStream
	}
	return o
}

func (o ClientOptions) validate() error {
	if err := o.Root.Validate(); err != nil {
		return fmt.Errorf("subjects: ClientOptions.Root: %w", err)
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"Timeout", o.Timeout}, {"CallTimeout", o.CallTimeout}, {"Reattach", o.Reattach}, {"AskAgain", o.AskAgain},
		{"MinBackoff", o.MinBackoff}, {"MaxBackoff", o.MaxBackoff},
	} {
		if f.d < 0 {
			return fmt.Errorf("subjects: ClientOptions.%s must not be negative", f.name)
		}
	}
	if o.MaxBackoff < o.MinBackoff {
		return errors.New("subjects: ClientOptions.MaxBackoff must be at least MinBackoff")
	}
	return nil
}

// Client speaks the wire contract over one NATS connection, which stays the caller's: the client never closes it and
// leaves its handlers alone. It is safe for concurrent use and starts no goroutine that outlives a method call.
//
// What fails is an [Error] of the service, or a [PermissionError] where the server lets the connection's login not ask;
// [UntilRefused] tells how soon that is known, and what may hide it.
type Client struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bodies *Bodies
	opts   ClientOptions
}

// NewClient makes a client. The connection should be made with [ConnectOptions], so that replies come to an inbox
// that no other session may read.
func NewClient(nc *nats.Conn, o ClientOptions) (*Client, error) {
	if nc == nil {
		return nil, errors.New("subjects: NewClient needs a NATS connection")
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	bodies, err := NewBodies(js, BodiesOptions{Limit: o.BodyLimit})
	if err != nil {
		return nil, err
	}
	return &Client{nc: nc, js: js, bodies: bodies, opts: o}, nil
}

// Bodies is the claim check that the client uses.
func (c *Client) Bodies() *Bodies { return c.bodies }

// Root is the root of the client's subjects.
func (c *Client) Root() Root { return c.opts.Root }

// Session is the client of one session. Ids that are no tokens are encoded by [Token].
func (c *Client) Session(tenant, session string) *Session {
	return &Session{c: c, tenant: Token(tenant), session: Token(session)}
}

// InboxPrefix is the private inbox prefix of a session, _INBOX_<tenant>.<session>. A server that lets a session
// subscribe only below it (_INBOX_<tenant>.<session>.>) keeps every other session from reading its replies. The dot
// between the two tokens keeps the prefixes of different sessions apart; both tokens may hold an underscore.
func InboxPrefix(tenant, session string) string {
	return "_INBOX_" + Token(tenant) + "." + Token(session)
}

// ConnectOptions are the NATS options that a session's connection should have: its private inbox, reconnecting for
// ever, and a permission that is missing told at once instead of by a timeout. Give credentials beside them.
func ConnectOptions(tenant, session string) []nats.Option {
	return []nats.Option{
		nats.Name("toolsearch session " + Token(tenant) + "." + Token(session)),
		nats.CustomInboxPrefix(InboxPrefix(tenant, session)),
		nats.PermissionErrOnSubscribe(true),
		nats.MaxReconnects(-1),
	}
}

// within gives ctx a deadline where it has none.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// start opens the caller's span of an operation; end takes the operation's error.
func (c *Client) start(ctx context.Context, operation string, template func() string, subject string) (_ context.Context, end func(error)) {
	if c.opts.Start == nil {
		return ctx, func(error) {}
	}
	ctx, finish := c.opts.Start(ctx, operation, template(), subject)
	return ctx, func(err error) {
		var e *Error
		switch {
		case err == nil:
			finish("")
		case errors.As(err, &e):
			finish(string(e.Code))
		default:
			finish("_OTHER")
		}
	}
}

// inject lets the caller add its headers and puts the trace headers into lower case, as the contract writes them.
func (c *Client) inject(ctx context.Context, h nats.Header) {
	if c.opts.Inject == nil {
		return
	}
	c.opts.Inject(ctx, h)
	for key, values := range h {
		for _, want := range [...]string{HeaderTraceParent, HeaderTraceState} {
			if key != want && strings.EqualFold(key, want) {
				delete(h, key)
				h[want] = values
			}
		}
	}
}
