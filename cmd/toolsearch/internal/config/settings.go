package config

import (
	"time"

	"toolsearch/catalog"
)

// Settings is the whole configuration, every field filled.
type Settings struct {
	// Root is the first part of every subject, "toolsearch.v1" unless two installations share a bus.
	Root string
	// ToolSearch is tools.tool_search of the product page.
	ToolSearch catalog.Config
	// Connectors is tools.connectors.
	Connectors Connectors
	// NATS is the bus to connect to.
	NATS NATS
	// Embedded is the server that a worker starts where NATS.URL is empty.
	Embedded Embedded
	// Store says how streams and buckets are kept.
	Store Store
	// Worker bounds what one worker takes on.
	Worker Worker
	// Log is where and how much is logged.
	Log Log
	// Admin is the operator's port of a worker.
	Admin Admin
	// Telemetry says what traces may hold. Where they go is for the standard OTEL_* variables to say.
	Telemetry Telemetry
}

// Connectors is the gateway behind connectors__ names.
type Connectors struct {
	// Enabled false means that no connector route is ever touched.
	Enabled bool
	// Origin is scheme://host[:port] of the gateway; empty: connectors are invisible.
	Origin string
	// Accounts is scheme://host[:port] of the account-management service; empty: accounts are neither listed nor ended.
	Accounts string
	// Token is one bearer token for all tenants. TokenEnv names an environment variable that holds it; a tenant's own
	// is in <TokenEnv>_<tenant>. TokenDir is a folder with a file per tenant. OAuth renews tokens at an authorization
	// server. The first of OAuth, TokenDir, TokenEnv and Token that is set is used; with none, everybody is signed out.
	Token    string
	TokenEnv string
	TokenDir string
	OAuth    OAuth
	// SearchTimeout, SchemasTimeout, ExecuteTimeout bound one request; EntryTimeout one entry with its retries.
	SearchTimeout  time.Duration
	SchemasTimeout time.Duration
	ExecuteTimeout time.Duration
	EntryTimeout   time.Duration
}

// OAuth is a client of an authorization server. The tenants' tokens are in Connectors.TokenDir, a JSON file each.
type OAuth struct {
	TokenURL     string
	ClientID     string
	ClientSecret string
}

// NATS is how to reach the bus. An empty URL means an embedded server for a worker, and the address of an embedded
// server on this machine for everybody else.
type NATS struct {
	URL   string
	Creds string // file of a user's JWT and seed
	NKey  string // file of an nkey seed
	TLS   TLS
}

// TLS names PEM files.
type TLS struct {
	CA   string
	Cert string
	Key  string
}

// Embedded is the server inside a worker.
type Embedded struct {
	Dir        string
	Host       string
	Port       int
	SyncAlways bool
}

// Store is the layout of streams and buckets.
type Store struct {
	Replicas int
	Memory   bool
}

// Worker bounds one worker.
type Worker struct {
	Name         string        // tells this worker from others; empty: made from the machine's name
	Concurrency  int           // requests that run side by side
	Queue        int           // requests that wait for a place
	TenantShare  float64       // part of all places that one tenant may take
	Calls        int           // calls that wait for their results side by side
	Runners      int           // durable calls that this worker runs side by side
	TenantCalls  int           // durable calls of one tenant under way, over all workers
	AckWait      time.Duration // after how long without a sign of life a call goes to another worker
	Takeovers    int           // workers that may die of one call before it is given up
	Cache        int64         // bytes of indexes, scopes and assembled replies
	CatalogBytes int64         // largest catalog
	CatalogTools int           // most tools in one catalog
	Request      time.Duration // bound of a request that names no deadline
	Call         time.Duration // the same for calls
	Drain        time.Duration // how long a shutdown waits for what has begun
	SearchStreak int           // searches in a row after which the model is told; 0: never
	CoreTools    []string      // replaces the built-in list of names that never defer by class; nil keeps it
}

// Admin is the server of health, metrics, build information and profiles.
type Admin struct {
	Addr string // host:port; empty: there is none
}

// Telemetry is what is recorded of contents.
type Telemetry struct {
	Capture       bool     // arguments, results and the text of queries, capped and with secrets taken out
	CaptureBytes  int64    // most of one text
	CaptureFields []string // names of further fields that are taken out
}

// Log is the log on standard error.
type Log struct {
	Level string // debug, info, warn, error
	JSON  bool
}
