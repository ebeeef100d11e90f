package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolsearch/catalog"
	"toolsearch/connectors"
	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/telemetry"
	"toolsearch/worker"
	"toolsearch/worker/durable"
)

// key is one setting: where it stands, what it is for, how it is read into [Settings] and written again.
type key struct {
	path   string
	doc    string
	secret bool
	// located says that the value is an address, in which a secret may stand.
	located bool
	// needed says that nothing may stand in for a value that cannot be used: it is an error.
	needed bool
	// set parses v into s. Its error says what is wanted ("a whole number"); s is unchanged then.
	set func(s *Settings, v any) error
	// get returns the value as it is printed.
	get func(s *Settings) any
}

// keys is the table of every setting outside tools.tool_search, in the order in which they are printed.
var keys = []key{
	// A worker with another root than the one that was meant answers in another installation, or to nobody.
	needed(root("root", "First part of every subject; two installations on one bus take two roots.")),

	connectorsEnabled("tools.connectors.enabled", "false: connector routes are never touched."),
	origin("tools.connectors.origin", "Gateway, scheme://host[:port]; empty: connectors are invisible.",
		func(s *Settings) *string { return &s.Connectors.Origin }),
	origin("tools.connectors.accounts", "Account-management service, scheme://host[:port]; empty: nobody can list or end accounts.",
		func(s *Settings) *string { return &s.Connectors.Accounts }),
	secret(text("tools.connectors.token", "Bearer token for all tenants (better: token_env or token_dir).",
		func(s *Settings) *string { return &s.Connectors.Token })),
	text("tools.connectors.token_env", "Environment variable with the bearer token; <name>_<tenant> goes first.",
		func(s *Settings) *string { return &s.Connectors.TokenEnv }),
	text("tools.connectors.token_dir", "Folder with one token file per tenant, read again when it changes.",
		func(s *Settings) *string { return &s.Connectors.TokenDir }),
	address("tools.connectors.oauth.token_url", "Token endpoint; with it token_dir holds OAuth tokens as JSON.",
		func(s *Settings) *string { return &s.Connectors.OAuth.TokenURL }),
	text("tools.connectors.oauth.client_id", "Client id at the token endpoint.",
		func(s *Settings) *string { return &s.Connectors.OAuth.ClientID }),
	secret(text("tools.connectors.oauth.client_secret", "Client secret at the token endpoint.",
		func(s *Settings) *string { return &s.Connectors.OAuth.ClientSecret })),
	duration("tools.connectors.search_timeout", "Bound of one gateway search.", time.Millisecond,
		func(s *Settings) *time.Duration { return &s.Connectors.SearchTimeout }),
	duration("tools.connectors.schemas_timeout", "Bound of one gateway schema request.", time.Millisecond,
		func(s *Settings) *time.Duration { return &s.Connectors.SchemasTimeout }),
	duration("tools.connectors.execute_timeout", "Bound of one gateway execution.", time.Millisecond,
		func(s *Settings) *time.Duration { return &s.Connectors.ExecuteTimeout }),
	duration("tools.connectors.entry_timeout", "Bound of one entry with its retries.", time.Millisecond,
		func(s *Settings) *time.Duration { return &s.Connectors.EntryTimeout }),

	// A worker on another bus than the one that was meant looks well, and nobody reaches it.
	needed(servers("nats.url", "Bus, nats://host:port (several with commas); empty: a worker starts its own server.",
		func(s *Settings) *string { return &s.NATS.URL })),
	text("nats.creds", "File with a user's JWT and seed.", func(s *Settings) *string { return &s.NATS.Creds }),
	text("nats.nkey", "File with an nkey seed.", func(s *Settings) *string { return &s.NATS.NKey }),
	text("nats.tls.ca", "PEM file of the authorities to trust.", func(s *Settings) *string { return &s.NATS.TLS.CA }),
	text("nats.tls.cert", "PEM file of the client's certificate.", func(s *Settings) *string { return &s.NATS.TLS.Cert }),
	text("nats.tls.key", "PEM file of the client's key.", func(s *Settings) *string { return &s.NATS.TLS.Key }),

	text("embedded.dir", "Folder of the embedded server.", func(s *Settings) *string { return &s.Embedded.Dir }),
	text("embedded.host", "Address that the embedded server listens on.",
		func(s *Settings) *string { return &s.Embedded.Host }),
	number("embedded.port", "Port of the embedded server; 0: any free one.", 0, 65535,
		func(s *Settings) *int { return &s.Embedded.Port }),
	boolean("embedded.sync_always", "Write every message to the disk before it is acknowledged (power loss).",
		func(s *Settings) *bool { return &s.Embedded.SyncAlways }),

	// Fewer copies than were meant would be made of what a bus holds already.
	needed(number("store.replicas", "Copies of every stream and bucket, 1 to 5; 3 survive the loss of one server.", 1, 5,
		func(s *Settings) *int { return &s.Store.Replicas })),
	boolean("store.memory", "Keep streams and buckets in memory: nothing survives the server.",
		func(s *Settings) *bool { return &s.Store.Memory }),

	text("worker.name", "Tells this worker from others; empty: made from the machine's name.",
		func(s *Settings) *string { return &s.Worker.Name }),
	number("worker.concurrency", "Requests that run side by side; 0: the default.", 0, 1<<16,
		func(s *Settings) *int { return &s.Worker.Concurrency }),
	number("worker.queue", "Requests that wait for a place; 0: 16 for each that runs.", 0, 1<<20,
		func(s *Settings) *int { return &s.Worker.Queue }),
	fraction("worker.tenant_share", "Part of all places that one tenant may take, up to 1; 0: the default.",
		func(s *Settings) *float64 { return &s.Worker.TenantShare }),
	number("worker.calls", "Calls that wait for their results side by side; 0: the default.", 0, 1<<16,
		func(s *Settings) *int { return &s.Worker.Calls }),
	number("worker.runners", "Durable calls that this worker runs side by side; 0: the default.", 0, 1<<16,
		func(s *Settings) *int { return &s.Worker.Runners }),
	number("worker.tenant_calls", "Durable calls of one tenant under way, over all workers; 0: the default.", 0, 1<<16,
		func(s *Settings) *int { return &s.Worker.TenantCalls }),
	duration("worker.ack_wait", "After so long without a sign of life a call goes to another worker; the same for all workers.",
		100*time.Millisecond, func(s *Settings) *time.Duration { return &s.Worker.AckWait }),
	number("worker.max_takeovers", "Workers that may die of one call before it is given up.", 1, 1000,
		func(s *Settings) *int { return &s.Worker.Takeovers }),
	size("worker.cache", "Memory for indexes, scopes and assembled replies.", 1<<20,
		func(s *Settings) *int64 { return &s.Worker.Cache }),
	size("worker.catalog_bytes", "Largest catalog that is taken.", 1,
		func(s *Settings) *int64 { return &s.Worker.CatalogBytes }),
	number("worker.catalog_tools", "Most tools in one catalog.", 1, 1<<20,
		func(s *Settings) *int { return &s.Worker.CatalogTools }),
	duration("worker.request_timeout", "Bound of a request that names no deadline.", time.Millisecond,
		func(s *Settings) *time.Duration { return &s.Worker.Request }),
	duration("worker.call_timeout", "The same for a call, which waits for its results.", time.Millisecond,
		func(s *Settings) *time.Duration { return &s.Worker.Call }),
	duration("worker.drain_timeout", "How long a shutdown waits for what has begun.", time.Millisecond,
		func(s *Settings) *time.Duration { return &s.Worker.Drain }),
	number("worker.search_streak", "Searches in a row after which the model is told to use what it found; 0: never.", 0, 1<<20,
		func(s *Settings) *int { return &s.Worker.SearchStreak }),
	names("worker.core_tools", "Names that never defer by class; null keeps the built-in list.",
		func(s *Settings) *[]string { return &s.Worker.CoreTools }),

	choice("log.level", "debug, info, warn or error.", []string{"debug", "info", "warn", "error"},
		func(s *Settings) *string { return &s.Log.Level }),
	boolean("log.json", "Log lines as JSON.", func(s *Settings) *bool { return &s.Log.JSON }),

	listen("admin.addr", "Health, metrics and profiles, host:port (127.0.0.1:9464 keeps them on this machine); empty: off.",
		func(s *Settings) *string { return &s.Admin.Addr }),

	boolean("telemetry.capture", "Record arguments, results and query texts on spans, capped and redacted: they are users' content.",
		func(s *Settings) *bool { return &s.Telemetry.Capture }),
	size("telemetry.capture_bytes", "Most that is recorded of one text.", 16,
		func(s *Settings) *int64 { return &s.Telemetry.CaptureBytes }),
	names("telemetry.capture_fields", "Names of further fields whose values are never recorded.",
		func(s *Settings) *[]string { return &s.Telemetry.CaptureFields }),
}

// Default is the configuration without any source.
func Default() Settings { return defaults().filled() }

// filled puts the default where 0 stands for it, also for one that follows another setting.
func (s Settings) filled() Settings {
	fill(&s.Worker.Concurrency, worker.DefaultConcurrency)
	fill(&s.Worker.Queue, worker.DefaultQueueFactor*s.Worker.Concurrency)
	fill(&s.Worker.TenantShare, worker.DefaultTenantShare)
	fill(&s.Worker.Calls, worker.DefaultCallConcurrency)
	fill(&s.Worker.Runners, durable.DefaultSlots)
	fill(&s.Worker.TenantCalls, durable.DefaultTenantSlots)
	return s
}

func fill[T int | float64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// defaults is what the sources are laid over.
func defaults() Settings {
	return Settings{
		Root:       string(subjects.DefaultRoot),
		ToolSearch: defaultToolSearch(),
		Connectors: Connectors{
			Enabled:        true,
			SearchTimeout:  30 * time.Second,
			SchemasTimeout: 10 * time.Second,
			ExecuteTimeout: 60 * time.Second,
			EntryTimeout:   120 * time.Second,
		},
		Embedded: Embedded{Dir: "toolsearch-data", Host: "127.0.0.1", Port: 4222},
		Store:    Store{Replicas: 1},
		Worker: Worker{
			AckWait:      30 * time.Second,
			Takeovers:    dispatch.DefaultMaxTakeovers,
			Cache:        1 << 30,
			CatalogBytes: 64 << 20,
			CatalogTools: 50_000,
			Request:      time.Minute,
			Call:         30 * time.Minute,
			Drain:        25 * time.Second,
			SearchStreak: catalog.DefaultSearchStreak,
		},
		Log:       Log{Level: "info"},
		Telemetry: Telemetry{CaptureBytes: telemetry.DefaultCaptureBytes},
	}
}

func find(path string) (key, bool) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.path == path })
	if i < 0 {
		return key{}, false
	}
	return keys[i], true
}

// entry is a key whose value lies at one place of the settings and is printed as it is.
func entry[T any](path, doc string, at func(*Settings) *T, parse func(any) (T, error)) key {
	return key{path: path, doc: doc,
		set: func(s *Settings, v any) error {
			x, err := parse(v)
			if err == nil {
				*at(s) = x
			}
			return err
		},
		get: func(s *Settings) any { return *at(s) },
	}
}

func secret(k key) key { k.secret = true; return k }

func text(path, doc string, at func(*Settings) *string) key { return entry(path, doc, at, parseText) }

func boolean(path, doc string, at func(*Settings) *bool) key { return entry(path, doc, at, parseBool) }

// connectorsEnabled follows the product's reading of the switch, which leaves connectors on for whatever does not say
// off; what is no clear yes or no is told.
func connectorsEnabled(path, doc string) key {
	return key{path: path, doc: doc,
		set: func(s *Settings, v any) error {
			raw, err := json.Marshal(map[string]any{"enabled": encodable(v)})
			if err == nil {
				s.Connectors.Enabled = catalog.ConnectorsEnabled(raw)
			}
			_, err = parseBool(v)
			return err
		},
		get: func(s *Settings) any { return s.Connectors.Enabled },
	}
}

func names(path, doc string, at func(*Settings) *[]string) key {
	return entry(path, doc, at, parseNames)
}

// address is a web address.
func address(path, doc string, at func(*Settings) *string) key {
	return located(path, doc, at, func(s string) error {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validPort(u) {
			return errors.New("an address such as https://host:port")
		}
		return nil
	})
}

// origin is a web address that tokens go to, with nothing in it that may be a secret.
func origin(path, doc string, at func(*Settings) *string) key {
	return located(path, doc, at, func(s string) error {
		if _, err := connectors.ParseOrigin(s); err != nil {
			return errors.New("an address such as https://host:port, without a user, a query or a fragment")
		}
		return nil
	})
}

func needed(k key) key {
	k.needed = true
	return k
}

// natsSchemes are those that the NATS client knows; whether they are websockets.
var natsSchemes = map[string]bool{"nats": false, "tls": false, "ws": true, "wss": true}

// servers is one NATS server or several with commas between them; the scheme may be left out.
func servers(path, doc string, at func(*Settings) *string) key {
	return located(path, doc, at, func(s string) error {
		var kinds [2]bool
		for one := range strings.SplitSeq(s, ",") {
			if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
				one = "nats://" + one
			}
			u, err := url.Parse(one)
			if err != nil || u.Hostname() == "" || !validPort(u) {
				return errors.New("an address such as nats://host:4222")
			}
			web, known := natsSchemes[u.Scheme]
			if !known {
				return errors.New("an address that begins with nats://, tls://, ws:// or wss://")
			}
			if web {
				kinds[1] = true
			} else {
				kinds[0] = true
			}
		}
		if kinds[0] && kinds[1] {
			return errors.New("addresses that are all of websockets, ws:// or wss://, or all of none")
		}
		return nil
	})
}

// validPort reports whether an address names a port that there can be, or none.
func validPort(u *url.URL) bool {
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && n > 0
}

// listen is an address to listen on, or nothing.
func listen(path, doc string, at func(*Settings) *string) key {
	return entry(path, doc, at, func(v any) (string, error) {
		s, err := parseText(v)
		if err != nil || s == "" {
			return s, err
		}
		return s, CheckListen(s)
	})
}

// CheckListen reports an address that nothing can listen on, in words for what was wanted.
func CheckListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return errors.New("an address such as 127.0.0.1:9464 or :9464")
	}
	return nil
}

// located is an address, or nothing; what may be a secret in it is never printed.
func located(path, doc string, at func(*Settings) *string, check func(string) error) key {
	k := entry(path, doc, at, func(v any) (string, error) {
		s, err := parseText(v)
		if err == nil && s != "" {
			err = check(s)
		}
		return s, err
	})
	k.located, k.get = true, func(s *Settings) any { return redactURL(*at(s)) }
	return k
}

func number(path, doc string, low, high int, at func(*Settings) *int) key {
	return entry(path, doc, at, func(v any) (int, error) {
		n, err := parseInt(v)
		if err == nil && (n < low || n > high) {
			err = fmt.Errorf("a whole number from %d to %d", low, high)
		}
		return n, err
	})
}

func fraction(path, doc string, at func(*Settings) *float64) key {
	return entry(path, doc, at, func(v any) (float64, error) {
		f, err := strconv.ParseFloat(strings.TrimSpace(fmt.Sprint(v)), 64)
		if err != nil || !(f >= 0 && f <= 1) {
			return 0, errors.New("a number from 0 to 1")
		}
		return f, nil
	})
}

func duration(path, doc string, low time.Duration, at func(*Settings) *time.Duration) key {
	k := entry(path, doc, at, func(v any) (time.Duration, error) {
		d, err := ParseDuration(v)
		if err == nil && d < low {
			err = fmt.Errorf("a duration of at least %s", low)
		}
		return d, err
	})
	k.get = func(s *Settings) any { return at(s).String() }
	return k
}

func size(path, doc string, low int64, at func(*Settings) *int64) key {
	k := entry(path, doc, at, func(v any) (int64, error) {
		n, err := ParseSize(v)
		if err == nil && n < low {
			err = fmt.Errorf("a size of at least %s", FormatSize(low))
		}
		return n, err
	})
	k.get = func(s *Settings) any { return FormatSize(*at(s)) }
	return k
}

func choice(path, doc string, of []string, at func(*Settings) *string) key {
	return entry(path, doc, at, func(v any) (string, error) {
		s, err := parseText(v)
		if s = strings.ToLower(s); err == nil && !slices.Contains(of, s) {
			err = fmt.Errorf("one of %s", strings.Join(of, ", "))
		}
		return s, err
	})
}

func root(path, doc string) key {
	return entry(path, doc, func(s *Settings) *string { return &s.Root }, func(v any) (string, error) {
		s, err := parseText(v)
		if err == nil && subjects.Root(s).Validate() != nil {
			err = fmt.Errorf("subject tokens joined by dots, such as toolsearch.v1")
		}
		return s, err
	})
}

// redactURL hides what may be a secret in each address of s: the whole user part, for a token may stand in it, and a
// query or fragment.
func redactURL(s string) string {
	rest := ""
	if q := strings.IndexAny(s, "?#"); q >= 0 {
		s, rest = s[:q], s[q:q+1]+redacted
	}
	parts := strings.Split(s, ",")
	for i, p := range parts {
		at := strings.LastIndex(p, "@")
		if at < 0 {
			continue
		}
		scheme := ""
		if i := strings.Index(p, "://"); i >= 0 && i < at {
			scheme = p[:i+len("://")]
		}
		parts[i] = scheme + redacted + p[at:]
	}
	return strings.Join(parts, ",") + rest
}

// redacted stands where a secret was.
const redacted = "[redacted]"
