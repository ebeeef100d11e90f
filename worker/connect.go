package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"toolsearch/telemetry"
)

// ConnectOptions say how to reach NATS and as whom. At most one of CredsFile, NKeySeedFile, User and Token is set.
type ConnectOptions struct {
	// URLs are the servers to try, such as "nats://127.0.0.1:4222" or "tls://bus.example:4222". Empty: nats.DefaultURL.
	URLs []string
	// Name is the connection's name, as the server lists it. Empty: "toolsearch".
	Name string

	// CredsFile holds a user's JWT and seed.
	CredsFile string
	// NKeySeedFile holds an nkey's seed.
	NKeySeedFile string
	// User and Password log in by name.
	User, Password string
	// Token logs in by a token.
	Token string

	// CAFile holds the certificates that the server's is checked against. Empty: the system's.
	CAFile string
	// CertFile and KeyFile hold the client's own certificate; both or none.
	CertFile, KeyFile string

	// InboxPrefix stands before the subjects of replies to the worker's own requests. Empty: "_INBOX". A prefix of its
	// own keeps others from reading them.
	InboxPrefix string
	// Timeout bounds one attempt to connect. 0: 2 s.
	Timeout time.Duration
	// ReconnectWait is the pause between attempts; up to a quarter is added by chance. 0: 1 s.
	ReconnectWait time.Duration
	// PingInterval is how often the connection is tried. 0: 20 s.
	PingInterval time.Duration
	// Extra options come last, such as that of an embedded server.
	Extra []nats.Option
	// Telemetry counts what goes wrong with the connection. Nil: nothing is counted.
	Telemetry *telemetry.Recorder
	// Logger gets what happens to the connection. Nil: nothing is logged.
	Logger *slog.Logger
}

func (o ConnectOptions) withDefaults() ConnectOptions {
	if len(o.URLs) == 0 {
		o.URLs = []string{nats.DefaultURL}
	}
	if o.Name == "" {
		o.Name = "toolsearch"
	}
	defaultTo(&o.Timeout, 2*time.Second)
	defaultTo(&o.ReconnectWait, time.Second)
	defaultTo(&o.PingInterval, 20*time.Second)
	o.Telemetry = telemetry.OrNone(o.Telemetry)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o ConnectOptions) validate() error {
	var logins []string
	for _, l := range []struct{ name, value string }{
		{"CredsFile", o.CredsFile}, {"NKeySeedFile", o.NKeySeedFile}, {"User", o.User}, {"Token", o.Token},
	} {
		if l.value != "" {
			logins = append(logins, l.name)
		}
	}
	switch {
	case len(logins) > 1:
		return fmt.Errorf("worker: ConnectOptions.%s are all set; log in one way", strings.Join(logins, " and "))
	case o.Password != "" && o.User == "":
		return errors.New("worker: ConnectOptions.Password is set without User")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("worker: ConnectOptions.CertFile and KeyFile go together; one is missing")
	case o.Timeout < 0 || o.ReconnectWait < 0 || o.PingInterval < 0:
		return errors.New("worker: ConnectOptions.Timeout, ReconnectWait and PingInterval must not be negative")
	}
	for i, u := range o.URLs {
		if u == "" && len(o.Extra) > 0 {
			continue // a server in this process
		}
		if p, err := url.Parse(withScheme(u)); err != nil || p.Host == "" {
			return fmt.Errorf("worker: ConnectOptions.URLs[%d] is no address; write it as nats://host:4222", i)
		}
	}
	return nil
}

func withScheme(u string) string {
	if strings.Contains(u, "://") {
		return u
	}
	return "nats://" + u
}

// Connect makes a connection that is never given up: where no server is reachable yet it goes on trying behind the
// returned connection, and where one is lost it reconnects for ever, also after its credentials were refused, since they
// may be rotated. An error is one of the options, such as a file that cannot be read. No error and no log line holds
// a secret.
//
// While it is not connected, publishing fails at once: a message that is sent minutes late helps nobody. A [Worker] holds
// the replies of work that it has done for a few seconds itself, as long as somebody waits for them.
func Connect(ctx context.Context, o ConnectOptions) (*nats.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	secure, err := o.security()
	if err != nil {
		return nil, err
	}
	away := &outage{log: o.Logger, redact: o.redactError}
	opts := append(o.behaviour(away), secure...)
	nc, err := nats.Connect(strings.Join(o.URLs, ","), append(opts, o.Extra...)...)
	if err != nil {
		return nil, fmt.Errorf("worker: connect: %s", o.redact(err.Error()))
	}
	away.conn.Store(nc)
	return nc, nil
}

// outage tells why there is no connection: at once, and every minute while that lasts.
type outage struct {
	log    *slog.Logger
	redact func(error) string
	conn   atomic.Pointer[nats.Conn] // nil until there is one to ask

	mu   sync.Mutex
	last error // what the last attempt failed of, before the server could answer
	told time.Time
}

const tellAgain = time.Minute

// saysNothing holds of what is no more than that every attempt has failed; the next one has a reason.
func saysNothing(err error) bool { return err == nil || errors.Is(err, nats.ErrNoServers) }

func (a *outage) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = err
}

func (a *outage) over() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last, a.told = nil, time.Time{}
}

// tell is called before each round of attempts. A login that a server refuses is told by no handler, only kept.
func (a *outage) tell() {
	nc := a.conn.Load()
	if nc == nil || nc.IsClosed() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := nc.LastError()
	if saysNothing(err) {
		err = a.last
	}
	if !saysNothing(err) && time.Since(a.told) >= tellAgain {
		a.told = time.Now()
		a.log.Warn("cannot connect to NATS and tries again", "error", a.redact(err))
	}
}

// behaviour is how the connection lives. The handlers are set here, before a service is added, which wraps them.
func (o ConnectOptions) behaviour(away *outage) []nats.Option {
	log, metrics := o.Logger, o.Telemetry.Metrics()
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(o.Timeout),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(func(int) time.Duration {
			away.tell()
			return o.ReconnectWait + rand.N(o.ReconnectWait/4+1)
		}),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(o.PingInterval),
		nats.PermissionErrOnSubscribe(true),
		nats.ConnectHandler(func(nc *nats.Conn) {
			away.over()
			log.Info("connected to NATS", "server", nc.ConnectedUrlRedacted())
		}),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				metrics.Disconnected(context.Background())
			}
			if err == nil && (nc.IsClosed() || nc.IsDraining()) {
				return // it was ended in order
			}
			log.Warn("lost the connection to NATS", "error", o.redactError(err))
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			away.over()
			log.Info("reconnected to NATS", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			away.failed(err)
			log.Debug("could not reconnect to NATS", "error", o.redactError(err))
		}),
		nats.ClosedHandler(func(*nats.Conn) { log.Info("the connection to NATS is closed") }),
		nats.LameDuckModeHandler(func(nc *nats.Conn) {
			log.Warn("the NATS server is about to shut down; the connection moves to another",
				"server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			metrics.BusError(context.Background(), errors.Is(err, nats.ErrSlowConsumer))
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Error("NATS reports an error", "subject", subject, "error", o.redactError(err))
		}),
	}
	if o.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(o.InboxPrefix))
	}
	return opts
}

// security is the login and the certificates. Files are read here once, so that a wrong path is told at once.
func (o ConnectOptions) security() ([]nats.Option, error) {
	var opts []nats.Option
	switch {
	case o.CredsFile != "":
		text, err := os.ReadFile(o.CredsFile)
		if err != nil {
			return nil, fmt.Errorf("worker: ConnectOptions.CredsFile: %w", err)
		}
		if _, err := nkeys.ParseDecoratedUserNKey(text); err != nil {
			return nil, fmt.Errorf("worker: ConnectOptions.CredsFile: %s holds no user's token and seed", o.CredsFile)
		}
		opts = append(opts, nats.UserCredentials(o.CredsFile))
	case o.NKeySeedFile != "":
		if err := readable("NKeySeedFile", o.NKeySeedFile); err != nil {
			return nil, err
		}
		opt, err := nats.NkeyOptionFromSeed(o.NKeySeedFile)
		if err != nil {
			return nil, fmt.Errorf("worker: ConnectOptions.NKeySeedFile: %s holds no nkey seed", o.NKeySeedFile)
		}
		opts = append(opts, opt)
	case o.User != "":
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	case o.Token != "":
		opts = append(opts, nats.Token(o.Token))
	}
	if o.CAFile != "" {
		if err := readable("CAFile", o.CAFile); err != nil {
			return nil, err
		}
		opts = append(opts, nats.RootCAs(o.CAFile))
	}
	if o.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("worker: ConnectOptions.CertFile and KeyFile: %w", err)
		}
		opts = append(opts, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	return opts, nil
}

func readable(field, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("worker: ConnectOptions.%s: %w", field, err)
	}
	return f.Close()
}

// redact takes the secrets of the options out of a text.
func (o ConnectOptions) redact(text string) string {
	secrets := []string{o.Password, o.Token}
	for _, u := range o.URLs {
		p, err := url.Parse(withScheme(u))
		if err != nil || p.User == nil {
			continue
		}
		if password, ok := p.User.Password(); ok {
			secrets = append(secrets, password)
		} else {
			secrets = append(secrets, p.User.Username()) // a token stands where a name would
		}
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "xxxxx")
		}
	}
	return text
}

func (o ConnectOptions) redactError(err error) string {
	if err == nil {
		return ""
	}
	return o.redact(err.Error())
}
