package gatewaytest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Anyone is the tenant of every request where [Options.Tokens] is nil.
const Anyone = "anyone"

// maxBody is the largest request that is read, in bytes.
const maxBody = 64 << 20

// Options are the settings of [Start]. The zero value serves [SampleApps] to everyone on a free port of the loopback.
type Options struct {
	// Addr to listen on; "" is 127.0.0.1:0.
	Addr string
	// Apps that are served; nil is [SampleApps].
	Apps []App
	// Tokens are the tenants by bearer token. Nil accepts every token and takes all requests for one tenant, [Anyone].
	Tokens map[string]string
	// Answers, if not nil, are given one for each request to a route, in order, instead of what the apps would say.
	// Tokens are not checked then. A request beyond them is answered with 400 and the code BEYOND_SCRIPT.
	Answers []Answer
	// Seed is for the dice of the faults.
	Seed uint64
	// Keep is how many requests and how many effects are remembered; 0 is 100,000.
	Keep int
	// Admin serves /admin/requests, /admin/effects, /admin/faults and /admin/links, to everyone who can connect.
	Admin bool
	// Logger is told of each request; nil is silent. It is never given a token.
	Logger *slog.Logger
}

// Answer is one scripted answer: a status with a body of JSON or of text, or a fault.
type Answer struct {
	Status  int               `json:"status"`
	Body    json.RawMessage   `json:"body"`
	Text    string            `json:"text"`
	Headers map[string]string `json:"headers"`
	Fault   string            `json:"fault"` // not empty: the connection is broken
}

// Gateway is a running gateway.
type Gateway struct {
	options  Options
	apps     []App
	url      string
	server   *http.Server
	served   chan struct{}
	closing  chan struct{}
	once     sync.Once
	handlers sync.RWMutex // read-locked while a request is answered
	log      *slog.Logger

	script      *script
	store       store
	requests    history[Request]
	effects     history[Effect]
	connections atomic.Int64
	links       links

	answered atomic.Int64 // scripted answers used up
}

// Start listens and serves until Close.
func Start(o Options) (*Gateway, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Apps == nil {
		o.Apps = SampleApps()
	}
	if o.Keep == 0 {
		o.Keep = 100_000
	}
	if o.Keep < 0 {
		return nil, fmt.Errorf("gatewaytest: Keep %d: must be 0 or positive", o.Keep)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("gatewaytest: %w", err)
	}
	g := &Gateway{
		options: o, apps: o.Apps, log: o.Logger, script: newScript(o.Seed),
		url: "http://" + listener.Addr().String(), served: make(chan struct{}), closing: make(chan struct{}),
	}
	g.requests = history[Request]{keep: o.Keep, size: func(r Request) int { return len(r.Body) }}
	g.effects = history[Effect]{keep: o.Keep, size: func(e Effect) int { return len(e.Arguments) }}
	g.server = &http.Server{
		Handler:           g.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				g.connections.Add(1)
			}
		},
	}
	go func() {
		defer close(g.served)
		if err := g.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("gateway stopped serving", slog.String("reason", err.Error()))
		}
	}()
	return g, nil
}

// URL is the origin, without a trailing slash.
func (g *Gateway) URL() string { return g.url }

// Close breaks every connection, waits for the tools that are running and returns. It may be called again.
func (g *Gateway) Close() error {
	var err error
	g.once.Do(func() {
		close(g.closing)
		err = g.server.Close()
	})
	<-g.served
	g.handlers.Lock() // no handler is left; one that begins now finds its connection broken
	defer g.handlers.Unlock()
	return err
}

// Fault adds a line to the script. It panics on a fault that makes no sense, for that is a mistake of the test; check
// what a user wrote with [ParseFault].
func (g *Gateway) Fault(f Fault) {
	if err := f.validate(); err != nil {
		panic(err)
	}
	g.script.add(f)
}

// ClearFaults empties the script.
func (g *Gateway) ClearFaults() { g.script.clear() }

// Requests are the requests in order, the newest [Options.Keep].
func (g *Gateway) Requests() []Request { return g.requests.all() }

// RequestCount is how many requests there were in all.
func (g *Gateway) RequestCount() int { return g.requests.count() }

// Effects are the effects in order, the newest [Options.Keep].
func (g *Gateway) Effects() []Effect { return g.effects.all() }

// EffectCount is how many effects an idempotency key had: one at most, or something is wrong.
func (g *Gateway) EffectCount(key string) int {
	return g.EffectsByKey()[key]
}

// EffectsByKey is how many effects each idempotency key had.
func (g *Gateway) EffectsByKey() map[string]int {
	out := make(map[string]int)
	for _, e := range g.effects.all() {
		out[e.Key]++
	}
	return out
}

// Connections is how many connections were accepted in all.
func (g *Gateway) Connections() int { return int(g.connections.Load()) }

// WaitRequests returns once there were n requests in all.
func (g *Gateway) WaitRequests(ctx context.Context, n int) error {
	return wait(ctx, n, g.requests.reached)
}

// WaitEffects returns once there were n effects in all.
func (g *Gateway) WaitEffects(ctx context.Context, n int) error {
	return wait(ctx, n, g.effects.reached)
}

func wait(ctx context.Context, n int, reached func(int) <-chan struct{}) error {
	for {
		more := reached(n)
		if more == nil {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Handler is the gateway as a handler, for a server of one's own. Dropped connections need HTTP/1.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range []struct {
		pattern string
		route   Route
		answer  func(*incoming) reply
	}{
		{"POST /v1/connectors/search", "search", g.search},
		{"POST /v1/connectors/schemas", "schemas", g.schemas},
		{"POST /v1/connectors/execute", "execute", g.execute},
		{"POST /v1/connectors/connections", "connections", g.connect},
		{"GET /v1/connectors", "list", g.list},
		{"GET /v1/connectors/accounts/{id}", "account", g.account},
	} {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { g.serve(w, req, r.route, r.answer) })
	}
	mux.HandleFunc("GET /connect/{id}", g.consentPage)
	mux.HandleFunc("POST /connect/{id}", g.decide)
	if g.options.Admin {
		g.admin(mux)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		g.serve(w, req, "", func(*incoming) reply { return refuse(http.StatusNotFound, "NOT_FOUND", "there is no such route") })
	})
	return mux
}

// incoming is a request that is being answered.
type incoming struct {
	*http.Request
	route  Route
	tenant string
	key    string
	body   []byte
}

// reply is an answer that was not sent yet.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func answer(v any) reply {
	body, err := json.Marshal(v)
	if err != nil {
		return refuse(http.StatusInternalServerError, "INTERNAL", "the answer cannot be written")
	}
	return reply{status: http.StatusOK, body: body}
}

func refuse(status int, code, message string) reply {
	r := answer(map[string]any{"error": map[string]string{"code": code, "message": message}, "requestId": "req_" + randomID()})
	r.status = status
	return r
}

func randomID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails; it ends the program instead
	return hex.EncodeToString(b[:])
}

// serve answers one request: it is read and recorded, a fault of the script is looked up, and the route answers.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, route Route, f func(*incoming) reply) {
	g.handlers.RLock()
	defer g.handlers.RUnlock()
	in := &incoming{Request: r, route: route, key: r.Header.Get("X-Idempotency-Key")}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		send(w, refuse(http.StatusRequestEntityTooLarge, "TOO_LARGE", "the request is too large or broke off"))
		return
	}
	in.body = body
	known := g.identify(in)
	slugs := slugsOf(body)
	var fault *Fault
	if g.options.Answers == nil {
		fault = g.script.pick(route, in.tenant, slugs)
	}
	g.record(in, slugs, fault)
	switch {
	case g.options.Answers != nil:
		g.scripted(w)
	case fault != nil && !fault.AfterEffect:
		g.misbehave(w, in, fault, func() reply { return g.respond(in, known, f) })
	case fault != nil:
		done := g.respond(in, known, f)
		g.misbehave(w, in, fault, func() reply { return done })
	default:
		send(w, g.respond(in, known, f))
	}
}

func (g *Gateway) respond(in *incoming, known bool, f func(*incoming) reply) reply {
	if !known {
		return refuse(http.StatusUnauthorized, "UNAUTHORIZED", "the token is missing or not known")
	}
	return f(in)
}

// identify finds the tenant of a request's token.
func (g *Gateway) identify(in *incoming) bool {
	token, ok := strings.CutPrefix(in.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return false
	}
	if g.options.Tokens == nil {
		in.tenant = Anyone
		return true
	}
	in.tenant, ok = g.options.Tokens[token]
	return ok
}

// slugsOf are the slugs that a search, schemas or execute request names, for the faults.
func slugsOf(body []byte) []string {
	var b struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(body, &b) != nil {
		return nil
	}
	var out []string
	for _, raw := range b.Tools {
		var slug string
		var call struct {
			Tool string `json:"tool"`
		}
		if json.Unmarshal(raw, &slug) != nil && json.Unmarshal(raw, &call) == nil {
			slug = call.Tool
		}
		out = append(out, slug)
	}
	return out
}

func (g *Gateway) record(in *incoming, slugs []string, fault *Fault) {
	rec := Request{At: time.Now(), Method: in.Method, Path: in.URL.EscapedPath(), Query: in.URL.RawQuery,
		Route: in.route, Tenant: in.tenant, Authorization: in.Header.Get("Authorization"),
		Header: in.Header.Clone(), Key: in.key, Slugs: slugs}
	if json.Valid(in.body) {
		rec.Body = in.body
	}
	if fault != nil {
		rec.Fault = fault.Kind
	}
	rec = g.requests.add(func(n int) Request { rec.Number = n; return rec })
	g.log.Info("request", slog.Int("number", rec.Number), slog.String("method", rec.Method), slog.String("path", rec.Path),
		slog.String("tenant", rec.Tenant), slog.Any("slugs", slugs), slog.String("fault", string(rec.Fault)))
}

func send(w http.ResponseWriter, r reply) {
	for k, v := range r.header {
		w.Header()[http.CanonicalHeaderKey(k)] = v
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // a client that has gone is none of our business
}

// scripted gives the next of [Options.Answers].
func (g *Gateway) scripted(w http.ResponseWriter) {
	n := int(g.answered.Add(1))
	if n > len(g.options.Answers) {
		send(w, refuse(http.StatusBadRequest, "BEYOND_SCRIPT", "the script has no answer left"))
		return
	}
	a := g.options.Answers[n-1]
	if a.Fault != "" {
		drop(w)
		return
	}
	r := reply{status: a.Status, header: make(http.Header), body: a.Body}
	for k, v := range a.Headers {
		r.header.Set(k, v)
	}
	if a.Body == nil {
		r.body = []byte(a.Text)
		r.header.Set("Content-Type", "text/html; charset=utf-8")
	}
	send(w, r)
}

// misbehave does what a fault says. proper is the answer that would have been given; it is asked for at most once.
func (g *Gateway) misbehave(w http.ResponseWriter, in *incoming, f *Fault, proper func() reply) {
	if !g.hold(in, f) {
		drop(w)
		return
	}
	switch f.Kind {
	case Slow:
		send(w, proper())
	case Status:
		send(w, f.statusReply())
	case RateLimit:
		send(w, f.rateLimitReply())
	case HTML:
		send(w, reply{status: http.StatusOK, header: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
			body: []byte("<!doctype html><title>Sign in</title><p>This is not the gateway.</p>")})
	case HalfBody:
		halfBody(w, proper())
	case Huge:
		huge(w, f.Bytes)
	case Silent:
		select {
		case <-in.Context().Done():
		case <-g.closing:
		}
		drop(w)
	default:
		drop(w)
	}
}

// hold waits for the fault's delay and gate; false means that the gateway is closing.
func (g *Gateway) hold(in *incoming, f *Fault) bool {
	if f.Gate != nil {
		f.Gate.arrive()
		select {
		case <-f.Gate.open:
		case <-g.closing:
			return false
		}
	}
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-g.closing:
			return false
		}
	}
	return true
}

func (f *Fault) statusReply() reply {
	status := f.Status
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	r := refuse(status, fmt.Sprintf("SCRIPTED_%d", status), "scripted fault")
	if f.Body != "" {
		r.body = []byte(f.Body)
	}
	r.header = f.Header
	return r
}

func (f *Fault) rateLimitReply() reply {
	r := refuse(http.StatusTooManyRequests, "RATE_LIMITED", "too many requests, slow down")
	r.header = f.Header.Clone()
	if r.header == nil {
		r.header = make(http.Header)
	}
	after := fmt.Sprint(int(f.RetryAfter / time.Second))
	if f.RetryAtDate {
		after = time.Now().Add(f.RetryAfter).UTC().Format(http.TimeFormat)
	}
	r.header.Set("Retry-After", after)
	return r
}

// drop breaks the connection, as a reset where the system allows.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 has only this
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// halfBody promises the whole answer and breaks off in its middle.
func halfBody(w http.ResponseWriter, r reply) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(r.body)))
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body[:len(r.body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// huge answers with a row of that many bytes.
func huge(w http.ResponseWriter, n int64) {
	if n == 0 {
		n = 50 << 20
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(w, `{"results":[{"data":"`)
	chunk := []byte(strings.Repeat("x", 64<<10))
	for ; n > 0 && err == nil; n -= int64(len(chunk)) {
		_, err = w.Write(chunk[:min(n, int64(len(chunk)))])
	}
	_, _ = io.WriteString(w, `"}]}`)
}
