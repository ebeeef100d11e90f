package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"
)

// AdminOptions configure [Serve].
type AdminOptions struct {
	// Address is where it listens, host:port; port 0 is any free one. It is required: whoever wants none does not call
	// [Serve]. Use the loopback address unless a probe or Prometheus comes from elsewhere; what it says is no secret, but
	// it is nobody else's business either.
	Address string
	// Metrics answers /metrics; nil: there are none.
	Metrics http.Handler
	// Healthy says what is wrong that only a restart would mend; nil or nothing said: all is well.
	Healthy func(context.Context) []string
	// Ready says what keeps the process from taking work; nil or nothing said: nothing does.
	Ready func(context.Context) []string
	// Build answers /buildinfo.
	Build Build
	// Logger gets what goes wrong; nil is silence.
	Logger *slog.Logger
}

// Admin is the server of an operator: /metrics, /healthz, /readyz, /buildinfo and /debug/pprof/.
type Admin struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
	close    sync.Once
	err      error
}

// The bounds of an admin request. A profile may take as long as its caller asked for.
const (
	adminRead   = 5 * time.Second
	adminHeader = 16 << 10
)

// Serve starts the admin server. An error is one of its address.
func Serve(o AdminOptions) (*Admin, error) {
	if o.Address == "" {
		return nil, errors.New("telemetry: AdminOptions.Address is missing; use 127.0.0.1:9464, or do not serve")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("telemetry: AdminOptions.Address: %w", err)
	}
	a := &Admin{listener: l, done: make(chan struct{}), server: &http.Server{
		Handler: o.handler(), ReadHeaderTimeout: adminRead, ReadTimeout: adminRead, IdleTimeout: time.Minute,
		MaxHeaderBytes: adminHeader, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}}
	go func() {
		defer close(a.done)
		if err := a.server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("the admin server ended", "error", err)
		}
	}()
	return a, nil
}

// Address is where it listens, host:port.
func (a *Admin) Address() string { return a.listener.Addr().String() }

// Close ends the server: requests on their way finish while ctx lasts. It may be called again.
func (a *Admin) Close(ctx context.Context) error {
	a.close.Do(func() {
		if err := a.server.Shutdown(ctx); err != nil {
			a.err = errors.Join(fmt.Errorf("telemetry: close the admin server: %w", err), a.server.Close())
		}
		<-a.done
	})
	return a.err
}

func (o AdminOptions) handler() http.Handler {
	mux := http.NewServeMux()
	metrics := o.Metrics
	if metrics == nil {
		metrics = http.NotFoundHandler()
	}
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /healthz", probe(o.Healthy))
	mux.Handle("GET /readyz", probe(o.Ready))
	mux.HandleFunc("GET /buildinfo", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, o.Build) })
	for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile,
		"symbol": pprof.Symbol, "trace": pprof.Trace} {
		mux.Handle("GET /debug/pprof/"+path, fromHere(h))
	}
	return mux
}

// status is what a probe is told.
type status struct {
	Status   string   `json:"status"`
	Problems []string `json:"problems,omitempty"`
}

// probe answers 200, or 503 with what is wrong.
func probe(problems func(context.Context) []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var found []string
		if problems != nil {
			found = problems(r.Context())
		}
		if len(found) == 0 {
			answer(w, http.StatusOK, status{Status: "ok"})
			return
		}
		told := make([]string, len(found)) // found stays as it is: another probe may be told the same
		for i := range found {
			told[i] = Redact(found[i])
		}
		answer(w, http.StatusServiceUnavailable, status{Status: "unavailable", Problems: told})
	})
}

func answer(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // whoever asked may have left
}

// fromHere lets callers on this machine through. A profile holds memory, and with it tokens and arguments; an operator
// of a container reaches it by a forwarded port, which comes from the loopback address.
func fromHere(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			http.Error(w, "profiles are for callers on the same machine; forward the port", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
