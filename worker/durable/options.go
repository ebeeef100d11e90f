package durable

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/telemetry"
	"toolsearch/worker/storage"
)

// The bounds of a runner that names none.
const (
	DefaultSlots       = 64 // calls that run side by side
	DefaultTenantSlots = 32 // calls of one tenant that run at a time, over all workers
)

// Options configures [New]. The zero value of each field is its default.
type Options struct {
	// Layout names the streams; they must exist before [Calls.Start]. Use the one that was given to storage.Ensure.
	Layout storage.Layout
	// Connectors sends connector entries. nil: they settle as TOOL_NOT_FOUND, since connectors are not available here.
	Connectors dispatch.Sender
	// Bodies is the store of what is too big for a message. nil: one with its defaults.
	Bodies *subjects.Bodies
	// Slots is how many calls this worker runs side by side. 0: 64. A worker with -1 accepts calls and runs none.
	Slots int
	// TenantSlots bounds the calls of one tenant that run at a time, over all workers. 0: 32.
	TenantSlots int
	// AckWait is how long the queue waits for a sign of life of a runner before another takes over. 0: 30 s.
	AckWait time.Duration
	// EntryBound is for one entry with its retries, without the wait for a hook. 0: 120 s.
	EntryBound time.Duration
	// HostPatience is how long a tool host that nobody answers for is asked again before the entry fails; it may only
	// be restarting. 0: 15 s.
	HostPatience time.Duration
	// WatchWait is how long a started mark waits for the watch before it is taken back. 0: 5 s.
	WatchWait time.Duration
	// MaxTakeovers is how many runners may die of a call before it is given up. 0: 5.
	MaxTakeovers int
	// Sweep is how often the queue is looked at for jobs that no wake-up told of. 0: 1 s.
	Sweep time.Duration
	// Now is the clock of deadlines and times in events. nil: time.Now.
	Now func() time.Time
	// Telemetry gets spans and metrics. nil: nothing is recorded, and trace context is passed on as it came.
	Telemetry *telemetry.Recorder
	// Logger gets what an operator should know. nil: nothing is logged.
	Logger *slog.Logger

	// wrap lets a test stand between the runner and JetStream.
	wrap func(*dispatch.Runner)
	// verdict is told how each run ended.
	verdict func(dispatch.Verdict)
	// feed, if set, stands in front of the watch's own.
	feed func(feed) feed
}

func (o Options) withDefaults() Options {
	o.Layout = o.Layout.WithDefaults()
	if o.Connectors == nil {
		o.Connectors = noConnectors{}
	}
	if o.Slots == 0 {
		o.Slots = DefaultSlots
	}
	if o.TenantSlots == 0 {
		o.TenantSlots = DefaultTenantSlots
	}
	if o.AckWait == 0 {
		o.AckWait = 30 * time.Second
	}
	if o.HostPatience == 0 {
		o.HostPatience = 15 * time.Second
	}
	if o.EntryBound == 0 {
		o.EntryBound = dispatch.DefaultEntryBound
	}
	if o.WatchWait == 0 {
		o.WatchWait = dispatch.DefaultWatchWait
	}
	if o.MaxTakeovers == 0 {
		o.MaxTakeovers = dispatch.DefaultMaxTakeovers
	}
	if o.Sweep == 0 {
		o.Sweep = time.Second
	}
	o.Telemetry = telemetry.OrNone(o.Telemetry)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if err := o.Layout.Validate(); err != nil {
		return err
	}
	if o.Slots < -1 {
		return fmt.Errorf("durable: Options.Slots is %d; use 1 or more, or -1 to run no calls here", o.Slots)
	}
	if o.TenantSlots < 1 {
		return fmt.Errorf("durable: Options.TenantSlots is %d; use 1 or more", o.TenantSlots)
	}
	if o.MaxTakeovers < 1 {
		return fmt.Errorf("durable: Options.MaxTakeovers is %d; use 1 or more", o.MaxTakeovers)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"AckWait", o.AckWait}, {"EntryBound", o.EntryBound}, {"HostPatience", o.HostPatience}, {"WatchWait", o.WatchWait}, {"Sweep", o.Sweep}} {
		if d.value < time.Millisecond {
			return fmt.Errorf("durable: Options.%s is %s; use 1 ms or more", d.name, d.value)
		}
	}
	return nil
}

// noConnectors settles connector entries where there is no gateway.
type noConnectors struct{}

func (noConnectors) Send(_ context.Context, s dispatch.Sending) dispatch.Sent {
	if s.Repeat { // another worker, with a gateway, may have sent it
		return unknown("This call may have been sent by another worker and what became of it is not known.", 1)
	}
	return failed(subjects.EntryToolNotFound, "Unknown tool: connectors are not available here.", 1)
}
