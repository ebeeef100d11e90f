package connectors

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"toolsearch/connectors/gatewaytest"
)

// setup is a gateway over real HTTP and a client of it, for one test.
type setup struct {
	server  *gatewaytest.Gateway
	client  *Client
	gateway *Gateway
	clock   *testClock
	logs    *logBuffer

	mu      sync.Mutex
	retries []time.Duration
	dropped int
	moves   []string
}

type setupOptions struct {
	server  gatewaytest.Options
	client  ClientOptions
	gateway GatewayOptions
}

func newSetup(t *testing.T, o setupOptions) *setup {
	t.Helper()
	s := &setup{clock: newTestClock(), logs: &logBuffer{}}
	var err error
	if s.server, err = gatewaytest.Start(o.server); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.server.Close() })
	observer := &Observer{
		Retry: func(_ context.Context, _ Attempt, _ *Error, wait time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.retries = append(s.retries, wait)
		},
		Dropped: func(context.Context, Route, string, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dropped++
		},
		Breaker: func(_ string, from, to BreakerState) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.moves = append(s.moves, fmt.Sprintf("%s>%s", from, to))
		},
	}
	log := slog.New(slog.NewJSONHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if o.client.Origin.IsZero() {
		o.client.Origin = mustOrigin(t, s.server.URL())
	}
	if o.client.Tokens == nil {
		o.client.Tokens = Shared("tok")
	}
	if o.client.Backoff == nil {
		o.client.Backoff = noBackoff
	}
	o.client.Clock, o.client.Observer, o.client.Logger = s.clock, observer, log
	o.gateway.Clock, o.gateway.Observer, o.gateway.Logger = s.clock, observer, log
	if s.client, err = NewClient(o.client); err != nil {
		t.Fatal(err)
	}
	if s.gateway, err = NewGateway(s.client, o.gateway); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.gateway.Close)
	return s
}

func mustOrigin(t *testing.T, url string) Origin {
	t.Helper()
	o, err := ParseOrigin(url)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// execution is an entry for one of the sample apps.
func execution(name, arguments string) Execution {
	parsed, ok := ParseName(name)
	if !ok {
		panic("bad name in a test: " + name)
	}
	return Execution{Tenant: "tenant", Name: name, Parsed: parsed, Arguments: []byte(arguments), Key: keyOf(0)}
}

const sendMail = "connectors__mail__SEND_EMAIL"

func mail() Execution { return execution(sendMail, `{"to":"a@example.org","subject":"hello"}`) }

// testClock is the machine's time with waits that a test controls. Without a gate a wait is over at once; what was
// asked for is noted. With hold, waits are handed to the test.
type testClock struct {
	mu      sync.Mutex
	skew    time.Duration
	waited  []time.Duration
	holding bool
	held    chan held
}

type held struct {
	wait time.Duration
	fire func()
}

func newTestClock() *testClock { return &testClock{held: make(chan held, 16)} }

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skew)
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += d
}

// hold makes every wait from now on last until the test fires it.
func (c *testClock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = true
}

func (c *testClock) NewTimer(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = append(c.waited, d)
	fired := make(chan time.Time, 1)
	fire := func() { fired <- time.Now() }
	if c.holding {
		c.held <- held{d, fire}
	} else {
		fire()
	}
	return fired, func() {}
}

func (c *testClock) waits() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var discard = slog.New(slog.DiscardHandler)
