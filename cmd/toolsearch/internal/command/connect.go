package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/credential"
	"toolsearch/subjects"
)

// defaultURL is where the embedded server of a worker on this machine listens.
const defaultURL = "nats://127.0.0.1:4222"

// natsFlags are the flags of everything that connects.
func natsFlags(flags *pflag.FlagSet) {
	flags.String("nats", "", "NATS server, nats://host:port, several with commas (default "+defaultURL+")")
	flags.String("creds", "", "file with a NATS user's JWT and seed")
	flags.String("nkey", "", "file with an nkey seed")
	flags.String("tls-ca", "", "PEM file of the authorities to trust")
	flags.String("tls-cert", "", "PEM file of the client's certificate")
	flags.String("tls-key", "", "PEM file of the client's key")
	flags.String("root", string(subjects.DefaultRoot), "first part of every subject")
	for flag, path := range map[string]string{"nats": "nats.url", "creds": "nats.creds", "nkey": "nats.nkey",
		"tls-ca": "nats.tls.ca", "tls-cert": "nats.tls.cert", "tls-key": "nats.tls.key", "root": "root"} {
		config.Bind(flags, flag, path)
	}
}

// client is what every asking verb shares.
type client struct {
	tenant, session string
	timeout         time.Duration
	json            bool
}

// answerTimeout is how long a request that only computes is waited for.
const answerTimeout = 30 * time.Second

func (c *client) flags(cmd *cobra.Command, timeout time.Duration) {
	f := cmd.Flags()
	natsFlags(f)
	f.StringVar(&c.tenant, "tenant", "default", "tenant to ask for")
	f.StringVar(&c.session, "session", "cli", "session to ask for")
	f.DurationVar(&c.timeout, "timeout", timeout, "how long to wait for an answer")
	f.BoolVar(&c.json, "json", false, "print exactly the reply")
}

// watchFlags are those of a verb that listens until it is interrupted.
func (c *client) watchFlags(cmd *cobra.Command) {
	c.flags(cmd, answerTimeout)
	cmd.Flags().Lookup("timeout").Usage = "how long to wait for the server; watching itself has no end"
}

func (c *client) validate() error {
	if c.timeout <= 0 {
		return usagef("--timeout must be more than 0")
	}
	return nil
}

// named refuses a session without a name, which is likely a variable that is not set.
func (c *client) named() error {
	switch {
	case c.tenant == "":
		return usagef("--tenant is empty; leave it out for the tenant \"default\"")
	case c.session == "":
		return usagef("--session is empty; leave it out for the session \"cli\"")
	}
	return nil
}

// asking is an open session.
type asking struct {
	*subjects.Session
	client *subjects.Client
	nc     *nats.Conn
	login  config.NATS
}

// lost says why a connection is closed that nobody here has closed.
func (q *asking) lost(err error) error {
	if cause := q.nc.LastError(); errors.Is(err, nats.ErrConnectionClosed) && cause != nil {
		return notConnected(q.login, address(q.login), cause)
	}
	return err
}

// Close ends the connection.
func (q *asking) Close() { q.nc.Close() }

// ask connects and opens the session of the flags.
func (a *app) ask(cmd *cobra.Command, c *client) (*asking, error) {
	if err := errors.Join(c.validate(), c.named()); err != nil {
		return nil, err
	}
	settings, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	nc, err := a.connect(cmd.Context(), settings.NATS, c.timeout, subjects.ConnectOptions(c.tenant, c.session)...)
	if err != nil {
		return nil, err
	}
	cl, err := subjects.NewClient(nc, subjects.ClientOptions{
		Root: subjects.Root(settings.Root), Timeout: c.timeout, CallTimeout: c.timeout,
		// A person would rather be told than wait for a worker that nobody started.
		Retries: 4,
	})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &asking{Session: cl.Session(c.tenant, c.session), client: cl, nc: nc, login: settings.NATS}, nil
}

// startPatience is how long a server that is only just being started is waited for.
const startPatience = 2 * time.Second

// dial connects, and tries again for a moment where nobody listens yet.
func dial(ctx context.Context, url string, options []nats.Option) (*nats.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	again := time.NewTicker(startPatience / 10)
	defer again.Stop()
	for {
		nc, err := nats.Connect(url, options...)
		if !errors.Is(err, nats.ErrNoServers) { // which is what a refused connection is told as
			return nc, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// connect reaches the bus, or says why it cannot. What goes wrong on the connection later is a warning.
func (a *app) connect(ctx context.Context, s config.NATS, timeout time.Duration, more ...nats.Option) (*nats.Conn, error) {
	options, err := untilEnd(ctx, func() ([]nats.Option, error) { return natsOptions(s) })
	if err != nil {
		return nil, err
	}
	url := address(s)
	options = append(options, nats.Timeout(min(timeout, 5*time.Second)),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if subjects.AsPermissionError(err) == nil { // whoever asked is told
				a.warn(busError(sub, err))
			}
		}),
		nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
			if !nc.IsClosed() {
				a.warn("the connection to the NATS server is lost; trying again")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { a.warn("connected again, to " + nc.ConnectedUrlRedacted()) }))
	nc, err := dial(ctx, url, append(options, more...))
	switch {
	case err == nil:
		return nc, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		return nil, notConnected(s, url, err)
	}
}

// address is where to connect.
func address(s config.NATS) string {
	if s.URL == "" {
		return defaultURL
	}
	return s.URL
}

// notConnected says why there is no connection and what to do about it.
func notConnected(s config.NATS, url string, err error) error {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	at := config.Redact(url)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		return fmt.Errorf("the NATS server at %s refused this login; %s: %w", at, otherLogin(s, url), err)
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of the NATS server at %s is for another name; "+
			"connect by one that it holds: %w", at, err)
	case errors.As(err, &authority):
		return fmt.Errorf("the certificate of the NATS server at %s is not trusted; "+
			"name its authority with --tls-ca: %w", at, err)
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("the NATS server at %s speaks no TLS; "+
			"write nats:// and leave --tls-ca, --tls-cert and --tls-key out: %w", at, err)
	case strings.Contains(err.Error(), "tls: "), errors.Is(err, nats.ErrTLS): // the other side's words, or the library's
		return fmt.Errorf("the TLS handshake with the NATS server at %s failed; "+
			"check --tls-ca, --tls-cert and --tls-key: %w", at, err)
	case strings.Contains(err.Error(), "malformed HTTP"):
		return fmt.Errorf("the server at %s speaks no websocket; write nats:// or tls://", at)
	default:
		return fmt.Errorf("no NATS server answers at %s; "+
			"start one with `toolsearch worker`, or name yours with --nats: %w", at, err)
	}
}

// otherLogin says what to do about a login that was refused.
func otherLogin(s config.NATS, url string) string {
	if end, over := credential.ExpiredAt(s.Creds); over {
		return fmt.Sprintf("%s has expired at %s: make a new one with `toolsearch token`",
			s.Creds, end.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	switch {
	case s.Creds != "":
		return s.Creds + " is of another fleet, or its role's key was replaced: make a new one with `toolsearch token`"
	case s.NKey != "":
		return "check --nkey"
	case s.TLS.Cert != "":
		return "check --tls-cert"
	case strings.Contains(url, "@"):
		return "check the user and the password in its address"
	default:
		return "it wants one: give --creds or --nkey, or a user in its address, nats://user:password@host:4222"
	}
}

// busError words what a server, or the client itself, tells of a connection.
func busError(sub *nats.Subscription, err error) string {
	text := "NATS reports: " + err.Error()
	if sub != nil && !strings.Contains(text, sub.Subject) {
		text += " (subscription to " + sub.Subject + ")"
	}
	return text
}

// natsOptions are the credentials and certificates of the settings. Every file is read here, so that a wrong one is told
// as that and not as a server that does not answer.
func natsOptions(s config.NATS) ([]nats.Option, error) {
	var out []nats.Option
	if s.Creds != "" {
		if err := credential.CheckUser(s.Creds); err != nil {
			return nil, usagef("--creds: %w", err)
		}
		out = append(out, nats.UserCredentials(s.Creds))
	}
	if s.NKey != "" {
		if _, err := os.ReadFile(s.NKey); err != nil {
			return nil, usagef("--nkey: %w", err)
		}
		o, err := nats.NkeyOptionFromSeed(s.NKey)
		if err != nil {
			return nil, usagef("--nkey %s holds no seed of an nkey", s.NKey)
		}
		out = append(out, o)
	}
	if s.TLS.CA != "" {
		text, err := os.ReadFile(s.TLS.CA)
		if err != nil {
			return nil, usagef("--tls-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return nil, usagef("--tls-ca %s holds no certificate in PEM form", s.TLS.CA)
		}
		out = append(out, nats.RootCAs(s.TLS.CA))
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		return nil, usagef("--tls-cert and --tls-key go together")
	}
	if s.TLS.Cert != "" {
		if _, err := tls.LoadX509KeyPair(s.TLS.Cert, s.TLS.Key); err != nil {
			return nil, usagef("--tls-cert and --tls-key: %w", err)
		}
		out = append(out, nats.ClientCert(s.TLS.Cert, s.TLS.Key))
	}
	if s.Creds != "" && s.NKey != "" {
		return nil, usagef("--creds and --nkey are both set; log in one way")
	}
	return out, nil
}

// message is an error as people read it.
func message(err error) string {
	var e *subjects.Error
	if errors.As(err, &e) {
		return string(e.Code) + ": " + e.Message
	}
	if refused := subjects.AsPermissionError(err); refused != nil {
		return notAllowed(refused)
	}
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
		return "nothing answers for JetStream on this bus; start its servers with it (nats-server -js, or a block jetstream {})"
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code == 503 {
		return "JetStream is out of reach on this bus, as it is where most of its servers are away; try again: " + err.Error()
	}
	return err.Error()
}

// notAllowed words what the server refuses to a login that it has let in.
func notAllowed(e *subjects.PermissionError) string {
	what, next := "publish to", "ask for the --tenant and --session that the credentials are for, or give others"
	if e.Subscribe {
		what = "subscribe to"
	}
	words := strings.Split(e.Subject, ".")
	switch {
	case slices.Contains(words, "CONSUMER") && slices.Contains(words, subjects.ResultsStream):
		next = "past events are for nobody but who may use JetStream; leave --replay out"
	case words[0] == "$JS", words[0] == "$KV", words[0] == "$O", words[0] == "_INBOX":
		next = "use an operator's credentials"
	case slices.Contains(words, string(subjects.FamilyUI)), slices.Contains(words, string(subjects.FamilyCard)):
		next = "use the credentials of that session's interface, which `toolsearch token interface` makes"
	}
	return fmt.Sprintf("the NATS server does not let this login %s %s; %s", what, e.Subject, next)
}
