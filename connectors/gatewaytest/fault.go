package gatewaytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is what a fault does.
type Kind string

// The kinds of fault.
const (
	Status    Kind = "status"     // answers with Fault.Status and Fault.Body
	RateLimit Kind = "rate_limit" // answers 429 with a Retry-After of Fault.RetryAfter
	Drop      Kind = "drop"       // breaks the connection
	HTML      Kind = "html"       // answers 200 with a page
	HalfBody  Kind = "half_body"  // breaks the connection in the middle of the answer
	Huge      Kind = "huge"       // answers 200 with Fault.Bytes of JSON
	Silent    Kind = "silent"     // never answers
	Slow      Kind = "slow"       // answers as always, after Fault.Delay
)

// Route names are the last part of a route's path, "list" for the list and "account" for one account.
type Route = string

// Fault is one line of the script. The first line that matches a request and is not used up decides; a request that
// no line matches is answered as always.
type Fault struct {
	Kind Kind `json:"kind"`

	// What it matches; an empty field matches everything.
	Route  Route  `json:"route,omitempty"`
	Slug   string `json:"slug,omitempty"` // one of the slugs that the request names
	Tenant string `json:"tenant,omitempty"`
	// Skip lets so many matching requests pass first.
	Skip int `json:"skip,omitempty"`
	// Times is for how many requests it holds after that; 0 is for ever.
	Times int `json:"times,omitempty"`
	// Probability of each matching request to be hit, 0 is always. The dice are those of [Options.Seed].
	Probability float64 `json:"probability,omitempty"`

	// AfterEffect lets the request take effect first; the answer is what goes wrong. Of use on execute only.
	AfterEffect bool          `json:"after_effect,omitempty"`
	Status      int           `json:"status,omitempty"`      // of Status; 0 is 503
	Body        string        `json:"body,omitempty"`        // of Status; "" is an error envelope
	Header      http.Header   `json:"header,omitempty"`      // of Status and RateLimit, added
	RetryAfter  time.Duration `json:"retry_after,omitempty"` // of RateLimit, in whole seconds
	RetryAtDate bool          `json:"retry_at,omitempty"`    // RateLimit tells it as a date
	Bytes       int64         `json:"bytes,omitempty"`       // of Huge; 0 is 50 MB
	// Delay comes before whatever else happens, and counts after the effect if AfterEffect is set.
	Delay time.Duration `json:"delay,omitempty"`
	// Gate holds the request where Delay would be, until the gate is opened.
	Gate *Gate `json:"-"`
}

// Gate holds requests until a test lets them go.
type Gate struct {
	reached chan struct{}
	open    chan struct{}
	once    sync.Once
}

// NewGate makes a closed gate.
func NewGate() *Gate {
	return &Gate{reached: make(chan struct{}, 1024), open: make(chan struct{})}
}

// Reached receives once for each request that stands at the gate, up to 1,024 that were not received.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets all go, now and later.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

func (g *Gate) arrive() {
	select {
	case g.reached <- struct{}{}:
	default:
	}
}

func (f *Fault) validate() error {
	switch f.Kind {
	case Status, RateLimit, Drop, HTML, HalfBody, Huge, Silent, Slow:
	default:
		return fmt.Errorf("gatewaytest: fault kind %q: want status, rate_limit, drop, html, half_body, huge, silent or slow",
			f.Kind)
	}
	switch {
	case f.Skip < 0 || f.Times < 0 || f.Bytes < 0 || f.Delay < 0 || f.RetryAfter < 0:
		return errors.New("gatewaytest: fault: skip, times, bytes, delay and retry_after must not be negative")
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("gatewaytest: fault probability %v: must be 0 to 1", f.Probability)
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return fmt.Errorf("gatewaytest: fault status %d: must be 200 to 599", f.Status)
	}
	return nil
}

// ParseFault reads a fault as a command line writes it: its kind, then key=value pairs separated by commas, such as
// "status,status=502,route=execute,probability=0.1" or "drop,after_effect=true,times=1". Durations are Go's, "250ms".
func ParseFault(s string) (Fault, error) {
	kind, rest, _ := strings.Cut(s, ",")
	f := Fault{Kind: Kind(strings.TrimSpace(kind))}
	if rest != "" {
		for pair := range strings.SplitSeq(rest, ",") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				return f, fmt.Errorf("gatewaytest: fault %q: %q is not key=value", s, pair)
			}
			if err := f.set(strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
				return f, fmt.Errorf("gatewaytest: fault %q: %s: %w", s, key, err)
			}
		}
	}
	return f, f.validate()
}

func (f *Fault) set(key, value string) (err error) {
	switch key {
	case "route":
		f.Route = value
	case "slug":
		f.Slug = value
	case "tenant":
		f.Tenant = value
	case "body":
		f.Body = value
	case "skip":
		f.Skip, err = strconv.Atoi(value)
	case "times":
		f.Times, err = strconv.Atoi(value)
	case "status":
		f.Status, err = strconv.Atoi(value)
	case "bytes":
		f.Bytes, err = strconv.ParseInt(value, 10, 64)
	case "probability":
		f.Probability, err = strconv.ParseFloat(value, 64)
	case "after_effect":
		f.AfterEffect, err = strconv.ParseBool(value)
	case "retry_at":
		f.RetryAtDate, err = strconv.ParseBool(value)
	case "retry_after":
		f.RetryAfter, err = time.ParseDuration(value)
	case "delay":
		f.Delay, err = time.ParseDuration(value)
	default:
		err = errors.New("no such key; there are route, slug, tenant, skip, times, probability, after_effect, " +
			"status, body, retry_after, retry_at, bytes and delay")
	}
	return err
}

// script is the faults in order, with what is left of each.
type script struct {
	mu    sync.Mutex
	dice  *rand.Rand
	lines []*line
}

type line struct {
	Fault
	skipped, used int
}

func newScript(seed uint64) *script { return &script{dice: rand.New(rand.NewPCG(seed, 0))} }

func (s *script) add(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, &line{Fault: f})
}

func (s *script) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = nil
}

// pick is the fault for a request, nil for none.
func (s *script) pick(route, tenant string, slugs []string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if l.matches(route, tenant, slugs) && s.hit(l) {
			f := l.Fault
			return &f
		}
	}
	return nil
}

func (s *script) hit(l *line) bool {
	if l.Times > 0 && l.used >= l.Times {
		return false
	}
	if l.skipped < l.Skip {
		l.skipped++
		return false
	}
	if l.Probability > 0 && s.dice.Float64() >= l.Probability {
		return false
	}
	l.used++
	return true
}

func (l *line) matches(route, tenant string, slugs []string) bool {
	if l.Route != "" && l.Route != route || l.Tenant != "" && l.Tenant != tenant {
		return false
	}
	if l.Slug == "" {
		return true
	}
	for _, s := range slugs {
		if s == l.Slug {
			return true
		}
	}
	return false
}
