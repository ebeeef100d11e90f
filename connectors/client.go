package connectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v4"

	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// Defaults of [ClientOptions].
const (
	DefaultMaxAnswer       = 16 << 20
	DefaultExecuteAttempts = 8
)

// ClientOptions are the settings of [NewClient]. The zero value is a client without a gateway.
type ClientOptions struct {
	// Origin is the gateway; the zero Origin is none.
	Origin Origin
	// Tokens are the tenants' tokens; nil means that every tenant is signed out.
	Tokens Tokens
	// Transport sends the requests. Nil is a [NewTransport] of the client's own, which Close closes. Instrumentation
	// wraps a NewTransport and is given here; the caller then closes the idle connections of what it wrapped.
	Transport http.RoundTripper
	// MaxAnswer is the largest answer read, in bytes; 0 is [DefaultMaxAnswer]. A larger one is an error, not memory.
	MaxAnswer int64
	// ExecuteAttempts is how often one execute request is sent at most; 0 is [DefaultExecuteAttempts].
	ExecuteAttempts int
	// Backoff makes the waits between attempts; nil is exponential from 100 ms to 5 s, with jitter.
	Backoff func() backoff.BackOff
	// Timeouts bound single requests; a zero field is the contract's.
	Timeouts Timeouts
	// Clock tells the time and waits; nil is the machine's.
	Clock Clock
	// Observer is told of attempts and waits; may be nil.
	Observer *Observer
	// Telemetry gets a span for each request, which then carries trace context, and the metrics; nil gets nothing.
	Telemetry *telemetry.Recorder
	// Logger is told of malformed elements; nil is silent.
	Logger *slog.Logger
}

// Timeouts bound one request of each route, from the connection to the last byte.
type Timeouts struct {
	Search, Schemas, Execute, Connections, List, Account time.Duration
}

func (o *ClientOptions) validate() error {
	switch {
	case o.MaxAnswer < 0:
		return fmt.Errorf("connectors: MaxAnswer %d: must be 0 or positive", o.MaxAnswer)
	case o.ExecuteAttempts < 0:
		return fmt.Errorf("connectors: ExecuteAttempts %d: must be 0 or positive", o.ExecuteAttempts)
	}
	t := o.Timeouts
	for _, f := range []struct {
		name  string
		bound time.Duration
	}{
		{"Search", t.Search}, {"Schemas", t.Schemas}, {"Execute", t.Execute},
		{"Connections", t.Connections}, {"List", t.List}, {"Account", t.Account},
	} {
		if f.bound < 0 {
			return fmt.Errorf("connectors: Timeouts.%s %v: must be 0 or positive", f.name, f.bound)
		}
	}
	return nil
}

// route is how a kind of request is sent.
type route struct {
	name     Route
	method   string
	timeout  time.Duration
	attempts int
	patient  bool // waits out a 429
}

// Client speaks the gateway's HTTP interface. It is safe for concurrent use and keeps connections open between
// requests. Each method answers either a value or an [*Error].
type Client struct {
	origin    Origin
	tokens    Tokens
	http      *http.Client
	own       *http.Transport // nil when the caller brought a transport
	maxAnswer int64
	backoff   func() backoff.BackOff
	clock     Clock
	observer  *Observer
	log       *slog.Logger
	routes    map[Route]route
}

// NewClient makes a client. It opens nothing before the first request.
func NewClient(o ClientOptions) (*Client, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Client{origin: o.Origin, tokens: o.Tokens, maxAnswer: o.MaxAnswer, backoff: o.Backoff, clock: o.Clock,
		observer: recording(o.Telemetry, o.Observer), log: o.Logger}
	if c.tokens == nil {
		c.tokens = Static(nil)
	}
	if c.maxAnswer == 0 {
		c.maxAnswer = DefaultMaxAnswer
	}
	if c.backoff == nil {
		c.backoff = exponential
	}
	if c.clock == nil {
		c.clock = machineClock{}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if o.Transport == nil {
		c.own = NewTransport()
		o.Transport = c.own
	}
	if o.Telemetry != nil {
		o.Transport = o.Telemetry.Transport(o.Transport)
	}
	// No Timeout here: each request brings its own bound.
	c.http = &http.Client{Transport: o.Transport, CheckRedirect: refuseRedirect}
	attempts := o.ExecuteAttempts
	if attempts == 0 {
		attempts = DefaultExecuteAttempts
	}
	t := o.Timeouts
	c.routes = map[Route]route{
		RouteSearch:      {RouteSearch, http.MethodPost, orDefault(t.Search, 30*time.Second), 1, false},
		RouteSchemas:     {RouteSchemas, http.MethodPost, orDefault(t.Schemas, 10*time.Second), 2, false},
		RouteExecute:     {RouteExecute, http.MethodPost, orDefault(t.Execute, 60*time.Second), attempts, true},
		RouteConnections: {RouteConnections, http.MethodPost, orDefault(t.Connections, 30*time.Second), 1, false},
		RouteList:        {RouteList, http.MethodGet, orDefault(t.List, 30*time.Second), 2, false},
		RouteAccount:     {RouteAccount, http.MethodGet, orDefault(t.Account, 30*time.Second), 1, false},
	}
	return c, nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// NewTransport is the transport of a client: connections are reused, as many as there are requests at a time.
//
// It uses the environment's proxy for https only. Over plain http a proxy would read the token.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme != "https" {
				return nil, nil
			}
			return http.ProxyFromEnvironment(r)
		},
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          512,
		MaxIdleConnsPerHost:   512, // all go to one host
		// Shorter than what servers usually keep a connection: a search is not repeated, so it should not meet one
		// that the server is just closing.
		IdleConnTimeout: 30 * time.Second,
	}
}

// refuseRedirect returns a redirect as the answer that it is: following it could carry a token to another origin.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close closes the idle connections of the client's own transport. Requests under way are not touched.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Origin is where the client sends its requests, zero if there is no gateway.
func (c *Client) Origin() Origin { return c.origin }

// Query is one query of a search.
type Query struct {
	UseCase     string `json:"useCase"`
	KnownFields string `json:"knownFields,omitempty"`
}

// Search asks for the tools that fit some queries, all in one request that is never repeated.
func (c *Client) Search(ctx context.Context, tenant string, queries []Query) (*SearchAnswer, error) {
	body, err := c.post(ctx, RouteSearch, "v1/connectors/search", tenant, struct {
		Queries []Query `json:"queries"`
	}{queries})
	if err != nil {
		return nil, err
	}
	d := drops{c: c, ctx: ctx, route: RouteSearch, tenant: tenant}
	defer d.log()
	a, perr := parseSearch(body, d.add)
	return a, badAnswer(perr)
}

// Schemas asks for the schemas of some slugs, at most twice.
func (c *Client) Schemas(ctx context.Context, tenant string, slugs []string) (*SchemasAnswer, error) {
	body, err := c.post(ctx, RouteSchemas, "v1/connectors/schemas", tenant, struct {
		Tools []string `json:"tools"`
	}{slugs})
	if err != nil {
		return nil, err
	}
	d := drops{c: c, ctx: ctx, route: RouteSchemas, tenant: tenant}
	defer d.log()
	a, perr := parseSchemas(body, d.add)
	return a, badAnswer(perr)
}

// ToolCall is one call of an execute request. Tool is the slug; Arguments an object, nil for an empty one.
type ToolCall struct {
	Connector string          `json:"connector"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// ExecuteRequest is one execute request, sent under one idempotency key however often it is repeated.
type ExecuteRequest struct {
	Calls []ToolCall
	// Key is the idempotency key; it is required.
	Key string
	// ReturnTo names where a user comes back to after linking an account, such as portal: a word that the gateway
	// knows, of a-z 0-9 and -, at most 64 characters.
	ReturnTo string
	// Op is the caller's id of the operation, 1 to 128 characters.
	Op string
	// Repeat says that the request may have been sent before, under this very key.
	Repeat bool
	// Stop ends a wait between two attempts when it is closed; a request that is under way is not cut.
	Stop <-chan struct{}
}

// ExecuteAnswer is what an execute request came to. With an error it holds no rows and still tells the rest.
type ExecuteAnswer struct {
	// Rows belong to the calls by position; there may be fewer or more of them.
	Rows []*Row
	// Attempts is how many attempts were made, those included that could not be sent: no token, connection refused.
	Attempts int
	// Unclear says that a request may have reached the gateway and that no answer tells what became of it.
	Unclear bool
	// Failed says that an answer told of a failure of the gateway's own, and no later one what became of the request: it may
	// have taken effect.
	Failed bool
	// Ended says why no further attempt was made.
	Ended Ended
}

// Execute runs some calls. What may be repeated is repeated, with the same key: a request without an answer, a status
// of 500 and above, and a 429 after the wait that it asks for. Nothing else is.
//
// The answer is never nil.
func (c *Client) Execute(ctx context.Context, tenant string, r ExecuteRequest) (*ExecuteAnswer, error) {
	body, err := r.body()
	if err != nil {
		return &ExecuteAnswer{Unclear: r.Repeat}, err
	}
	raw, tries, err := c.try(ctx, request{
		route: c.routes[RouteExecute], path: "v1/connectors/execute", tenant: tenant,
		body: body, key: r.Key, repeat: r.Repeat, stop: r.Stop,
	})
	a := &ExecuteAnswer{Attempts: tries.attempts, Unclear: tries.unclear, Failed: tries.failed, Ended: tries.ended}
	if err != nil {
		return a, err
	}
	rows, perr := parseExecute(raw)
	a.Rows = rows
	return a, badAnswer(perr)
}

func (r *ExecuteRequest) body() ([]byte, error) {
	if r.Key == "" {
		return nil, newError(KindOther, CodeInvalidRequest, nil, "an execute request needs an idempotency key")
	}
	if err := checkReturn(r.ReturnTo, r.Op); err != nil {
		return nil, err
	}
	calls := make([]ToolCall, len(r.Calls))
	for i, call := range r.Calls {
		if len(call.Arguments) == 0 {
			call.Arguments = emptyObject
		}
		calls[i] = call
	}
	return marshal(struct {
		Tools    []ToolCall `json:"tools"`
		ReturnTo string     `json:"returnTo,omitempty"`
		Op       string     `json:"op,omitempty"`
	}{calls, r.ReturnTo, r.Op})
}

// ConnectionsRequest starts connections, or reads how they stand.
type ConnectionsRequest struct {
	Connectors []string `json:"connectors"`
	// Reinitiate starts over where a connection exists already.
	Reinitiate bool `json:"reinitiate"`
	// Alias names the account of the one connector that is asked for; ConnectionID is a connection to start over.
	Alias        string `json:"alias,omitempty"`
	ConnectionID string `json:"connectionId,omitempty"`
	ReturnTo     string `json:"returnTo,omitempty"` // as in [ExecuteRequest]
	Op           string `json:"op,omitempty"`       // as in [ExecuteRequest]
}

// Connections starts connections. It is never repeated: each start makes a new link for the user. [Error.Unclear] tells
// whether one that failed may have taken effect.
func (c *Client) Connections(ctx context.Context, tenant string, r ConnectionsRequest) (*ConnectionsAnswer, error) {
	if err := checkReturn(r.ReturnTo, r.Op); err != nil {
		return nil, err
	}
	if r.Connectors == nil {
		r.Connectors = []string{}
	}
	body, err := marshal(r)
	if err != nil {
		return nil, err
	}
	raw, tries, err := c.try(ctx, request{route: c.routes[RouteConnections], path: "v1/connectors/connections", tenant: tenant, body: body})
	var a *ConnectionsAnswer
	if err == nil {
		var perr error
		a, perr = parseConnections(raw)
		err = badAnswer(perr)
	}
	var failed *Error
	if errors.As(err, &failed) {
		failed.Unclear = tries.unclear || tries.failed || failed.Kind == KindBadAnswer
	}
	return a, err
}

// maxPages bounds how far [Client.List] follows the gateway's cursors.
const maxPages = 20

// List reads the connectors of a tenant, at most 20 pages of 50.
func (c *Client) List(ctx context.Context, tenant string) ([]Connector, error) {
	all, cursor := []Connector{}, ""
	for range maxPages {
		query := "limit=50"
		if cursor != "" {
			query += "&cursor=" + url.QueryEscape(cursor)
		}
		body, _, err := c.try(ctx, request{route: c.routes[RouteList], path: "v1/connectors", query: query, tenant: tenant})
		if err != nil {
			return nil, err
		}
		page, next, perr := parseList(body)
		if perr != nil {
			return nil, badAnswer(perr)
		}
		if all = append(all, page...); next == "" {
			return all, nil
		}
		cursor = next
	}
	return nil, newError(KindBadAnswer, CodeInvalidResponse, nil,
		"the list of connectors did not end within %d pages", maxPages)
}

// Account reads one linked account; nil and no error if the gateway does not know it.
func (c *Client) Account(ctx context.Context, tenant, connectionID string) (*Account, error) {
	if connectionID == "" || connectionID == "." || connectionID == ".." {
		return nil, newError(KindOther, CodeInvalidRequest, nil, "%q is no connection id", connectionID)
	}
	path := "v1/connectors/accounts/" + url.PathEscape(connectionID)
	body, _, err := c.try(ctx, request{route: c.routes[RouteAccount], path: path, tenant: tenant})
	var refused *Error
	if errors.As(err, &refused) && refused.Kind == KindUnavailable && refused.Code == "connection_not_found" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a, perr := parseAccount(body)
	return a, badAnswer(perr)
}

func (c *Client) post(ctx context.Context, name Route, path, tenant string, v any) (json.RawMessage, error) {
	body, err := marshal(v)
	if err != nil {
		return nil, err
	}
	raw, _, err := c.try(ctx, request{route: c.routes[name], path: path, tenant: tenant, body: body})
	return raw, err
}

// marshal writes a request body; its error is an [*Error].
func marshal(v any) ([]byte, error) {
	body, err := subjects.Marshal(v)
	if err != nil {
		return nil, newError(KindOther, CodeInvalidRequest, err, "the request cannot be written as JSON: %v", err)
	}
	return body, nil
}

func checkReturn(returnTo, op string) error {
	if len(returnTo) > 64 || strings.Trim(returnTo, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return newError(KindOther, CodeInvalidRequest, nil, "return_to %q: must be at most 64 of a-z 0-9 -", clip(returnTo, 64))
	}
	if n := utf8.RuneCountInString(op); n > 128 {
		return newError(KindOther, CodeInvalidRequest, nil, "op has %d characters: must have 1 to 128", n)
	}
	return nil
}

// drops collects the malformed elements of one answer: each is counted, and all make one line of the log.
type drops struct {
	c      *Client
	ctx    context.Context
	route  Route
	tenant string
	count  int
	first  error
}

func (d *drops) add(err error) {
	if d.count++; d.count == 1 {
		d.first = err
	}
	d.c.observer.dropped(d.ctx, d.route, d.tenant, err)
}

func (d *drops) log() {
	if d.count > 0 {
		d.c.log.WarnContext(d.ctx, "malformed elements of a gateway answer dropped", slog.String("route", string(d.route)),
			slog.String("tenant", d.tenant), slog.Int("count", d.count), slog.String("first", d.first.Error()))
	}
}

// badAnswer turns a problem of an answer's shape into an [*Error]; nil stays nil.
func badAnswer(err error) error {
	if err == nil {
		return nil
	}
	return newError(KindBadAnswer, CodeInvalidResponse, err, "the gateway's answer cannot be used: %v", err)
}

// scrub takes the token out of an answer that repeats it, so that it ends up in no error, log or result. A token too
// short to be one is left alone.
func scrub(body []byte, token string) []byte {
	if len(token) < 8 || !bytes.Contains(body, []byte(token)) {
		return body
	}
	return bytes.ReplaceAll(body, []byte(token), []byte("[redacted]"))
}

// cleanURLError drops the URL that net/http puts into its errors; the origin is known, the rest is noise.
func cleanURLError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
