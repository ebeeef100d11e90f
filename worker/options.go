package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"toolsearch/catalog"
	"toolsearch/connectors"
	"toolsearch/connectors/portal"
	"toolsearch/telemetry"
	"toolsearch/worker/durable"
	"toolsearch/worker/storage"
)

// Version is the version of the service, semantic, as it stands in "nats micro info" unless [Options.Version] says
// otherwise.
const Version = "0.1.0"

// The bounds of a worker that names none.
const (
	DefaultConcurrency     = 64   // requests that run side by side
	DefaultQueueFactor     = 16   // requests that wait for each that may run
	DefaultCallConcurrency = 1024 // calls that wait for their results, and as many before them
	DefaultTenantShare     = 0.75 // part of the places that one tenant may take
)

// Options configure [New]. The zero value is a worker of the contract's defaults.
type Options struct {
	// Layout says under which root the worker answers and where it keeps things. All workers of an installation must
	// have the same.
	Layout storage.Layout
	// Name tells this worker from others, in the service's metadata and in logs. Empty: the connection's name.
	Name string
	// Version is the service's semantic version. Empty: [Version].
	Version string

	// ToolSearch is the worker's own configuration of tool search; a request's config is laid over it. Nil:
	// [catalog.DefaultConfig].
	ToolSearch *catalog.Config
	// CoreTools names the tools that never defer by class. Nil: the catalog package's own list.
	CoreTools []string
	// SearchStreak is after how many searches in a row, without a describe or a call, the model is told to make use of
	// what it found. 0: [catalog.DefaultSearchStreak]. Negative: never.
	SearchStreak int
	// Connectors is the gateway behind connectors__ names, asked side by side with the local search where the scope
	// grants connectors, and sent their calls. Nil: connectors are invisible. Close it after [Worker.Drain].
	Connectors *connectors.Gateway
	// Accounts is the account-management service, asked for a user's interface alone: the list of the accounts and the
	// end of one. Nil: those are refused. Close it after [Worker.Drain].
	Accounts *portal.Client
	// OperationLease is how long an operation of manage_connections may go without a sign of life before another worker
	// takes it over. 0: 15 s.
	OperationLease time.Duration
	// OperationClock is the time of those operations; nil is the machine's.
	OperationClock connectors.Clock
	// OperationObserver is told what becomes of them, after Telemetry; may be nil.
	OperationObserver *connectors.OperationObserver

	// Concurrency is how many requests run at once, calls apart. 0: 64. Most of them compute; some wait for storage or
	// the gateway.
	Concurrency int
	// QueueDepth is how many requests wait for a place; further ones get OVERLOADED. 0: 16 times Concurrency.
	QueueDepth int
	// CallConcurrency is how many calls wait for their result at once. 0: 1024.
	// CallQueueDepth is how many calls wait for a place among them. 0: as many as CallConcurrency.
	CallConcurrency int
	CallQueueDepth  int
	// Calls configures how calls are kept and run: slots, bounds, takeovers. Its Layout, Connectors, Bodies and Logger
	// are set from this worker's.
	Calls durable.Options
	// TenantShare is the part of the running and of the waiting places that one tenant may take, above 0 and at most
	// 1. One place of several is always left for others. 0: 0.75.
	TenantShare float64
	// LargeBodies is how many requests whose body came by claim check are held in memory at once. 0: 4.
	LargeBodies int

	// CacheBytes bounds what is kept in memory: 5/8 for catalogs and their indexes, 1/8 for scopes, 2/8 for assembled
	// replies. A catalog that does not fit its part is read again for each request. 0: 1 GiB.
	CacheBytes int64
	// Limits bound one catalog.
	Limits catalog.Limits
	// RequestTimeout bounds a request that names no deadline, and one that names a later one. 0: 60 s.
	RequestTimeout time.Duration
	// CallTimeout is the same for calls, which wait for their results. 0: 30 minutes.
	CallTimeout time.Duration
	// DrainTimeout is how long [Worker.Drain] lets running requests finish, if its context does not end before. 0: 25 s.
	DrainTimeout time.Duration
	// Recheck is the age from which what is known to be stored is looked up again, in the background of a request that
	// relies on it. 0: 10 s.
	Recheck time.Duration

	// Telemetry gets spans and metrics. Nil: nothing is recorded, and trace context is passed on as it came.
	Telemetry *telemetry.Recorder
	// Logger gets what happens. Nil: nothing is logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Layout = o.Layout.WithDefaults()
	if o.Version == "" {
		o.Version = Version
	}
	if o.ToolSearch == nil {
		c := catalog.DefaultConfig()
		o.ToolSearch = &c
	}
	defaultTo(&o.SearchStreak, catalog.DefaultSearchStreak)
	defaultTo(&o.Concurrency, DefaultConcurrency)
	defaultTo(&o.QueueDepth, DefaultQueueFactor*o.Concurrency)
	defaultTo(&o.CallConcurrency, DefaultCallConcurrency)
	defaultTo(&o.CallQueueDepth, o.CallConcurrency)
	defaultTo(&o.TenantShare, DefaultTenantShare)
	defaultTo(&o.LargeBodies, 4)
	defaultTo(&o.CacheBytes, 1<<30)
	defaultTo(&o.RequestTimeout, time.Minute)
	defaultTo(&o.CallTimeout, 30*time.Minute)
	defaultTo(&o.DrainTimeout, 25*time.Second)
	defaultTo(&o.Recheck, 10*time.Second)
	o.Telemetry = telemetry.OrNone(o.Telemetry)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// semver is the form that NATS services ask of a version.
var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func (o Options) validate() error {
	if err := o.Layout.Validate(); err != nil {
		return fmt.Errorf("worker: Options.Layout: %w", err)
	}
	if !semver.MatchString(o.Version) {
		return fmt.Errorf("worker: Options.Version is %q; it must be a semantic version such as 1.2.3", o.Version)
	}
	if o.TenantShare < 0 || o.TenantShare > 1 {
		return errors.New("worker: Options.TenantShare must be above 0 and at most 1")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Concurrency", int64(o.Concurrency)},
		{"QueueDepth", int64(o.QueueDepth)},
		{"CallConcurrency", int64(o.CallConcurrency)},
		{"CallQueueDepth", int64(o.CallQueueDepth)},
		{"LargeBodies", int64(o.LargeBodies)},
		{"CacheBytes", o.CacheBytes},
		{"RequestTimeout", int64(o.RequestTimeout)},
		{"CallTimeout", int64(o.CallTimeout)},
		{"DrainTimeout", int64(o.DrainTimeout)},
		{"Recheck", int64(o.Recheck)},
		{"OperationLease", int64(o.OperationLease)},
	} {
		if f.value < 0 {
			return fmt.Errorf("worker: Options.%s must not be negative", f.name)
		}
	}
	return nil
}

func (o Options) queryPool() poolOptions {
	return poolOptions{
		places: o.Concurrency, tenantPlaces: share(o.Concurrency, o.TenantShare),
		depth: o.QueueDepth, tenantDepth: share(o.QueueDepth, o.TenantShare),
	}
}

func (o Options) callPool() poolOptions {
	return poolOptions{
		places: o.CallConcurrency, tenantPlaces: share(o.CallConcurrency, o.TenantShare),
		depth: o.CallQueueDepth, tenantDepth: share(o.CallQueueDepth, o.TenantShare),
	}
}
