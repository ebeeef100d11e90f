package storage

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxJobs bounds the calls that wait, over all tenants. What comes beyond is refused, not dropped.
const maxJobs = 1_000_000

// CallsBucket is the key-value bucket of the call records. Its stream also holds the stops.
func (l Layout) CallsBucket() string { return l.Name("TOOLSEARCH_CALLS") }

// CallsStream is the stream under [Layout.CallsBucket].
func (l Layout) CallsStream() string { return "KV_" + l.CallsBucket() }

// JobsStream is the work queue of accepted calls.
func (l Layout) JobsStream() string { return l.Name("TOOLSEARCH_JOBS") }

// ResultsStream holds the events of calls.
func (l Layout) ResultsStream() string { return l.Name("TOOLSEARCH_RESULTS") }

// DeadStream holds the jobs that were given up.
func (l Layout) DeadStream() string { return l.Name("TOOLSEARCH_DEAD") }

// RecordSubject is where the record of a call lies: $KV.<bucket>.<key>.
func (l Layout) RecordSubject(key string) string { return "$KV." + l.CallsBucket() + "." + key }

// DeadSubject is where the job of a call is kept that was given up. It is of no family of the contract: only an
// operator reads it.
func (l Layout) DeadSubject(key string) string { return string(l.WithDefaults().Root) + ".dead." + key }

// CallStreams declares the streams of calls.
func CallStreams(l Layout) []jetstream.StreamConfig {
	l = l.WithDefaults()
	return []jetstream.StreamConfig{
		{
			// Records and stops in one stream, so that one sequence orders them. It binds as a key-value bucket, but is
			// not made as one: a bucket allows rollups, and one stop with a rollup header would then wipe the journal.
			Name:              l.CallsStream(),
			Description:       "Journal records of calls, and the stops that hold for them.",
			Subjects:          []string{l.RecordSubject(">"), l.Root.Stops()},
			MaxMsgsPerSubject: 1,
			// An open record is written with a TTL of its own, "never"; this bounds the stops.
			MaxAge:      max(l.StopAge, l.RecordAge),
			AllowMsgTTL: true,
			Storage:     l.Storage,
			Replicas:    l.Replicas,
			Discard:     jetstream.DiscardNew,
			// Records are not deduplicated. A stop may be, by whoever sends it; a long window would let one session's
			// ids swallow another's stops.
			Duplicates: min(10*time.Second, l.StopAge),
		},
		{
			// No age: an accepted call waits as long as it must.
			Name:        l.JobsStream(),
			Description: "Accepted calls, until their summary is recorded and published.",
			Subjects:    []string{l.Root.Jobs()},
			Retention:   jetstream.WorkQueuePolicy,
			MaxMsgs:     maxJobs,
			Storage:     l.Storage,
			Replicas:    l.Replicas,
			Discard:     jetstream.DiscardNew,
			Duplicates:  2 * time.Minute,
		},
		{
			// Within the window a repeated event is stored once. It is as long as the events are kept: a successor may
			// publish again whatever its predecessor did.
			Name:        l.ResultsStream(),
			Description: "Events of calls: one for each settled entry, then the summary.",
			Subjects:    []string{l.Root.Results()},
			MaxAge:      l.ResultAge,
			Duplicates:  l.ResultAge,
			Storage:     l.Storage,
			Replicas:    l.Replicas,
			Discard:     jetstream.DiscardOld,
		},
		{
			Name:              l.DeadStream(),
			Description:       "Jobs that were given up, for an operator to read and reopen.",
			Subjects:          []string{l.DeadSubject(">")},
			MaxMsgsPerSubject: 1,
			MaxAge:            l.DeadAge,
			Storage:           l.Storage,
			Replicas:          l.Replicas,
			Discard:           jetstream.DiscardOld,
		},
	}
}
