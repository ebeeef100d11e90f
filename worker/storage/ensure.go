package storage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Difference is one setting of a stream that is not what the layout declares.
type Difference struct {
	Stream string
	Field  string // as the server spells it; "stream" where the stream itself is missing
	Have   any
	Want   any
}

func (d Difference) String() string {
	if d.Field == "stream" {
		return "stream " + d.Stream + " is missing"
	}
	return fmt.Sprintf("stream %s: %s is %v, want %v", d.Stream, d.Field, d.Have, d.Want)
}

// DriftError is returned by [Ensure] for streams that it could not bring to the layout.
type DriftError struct {
	Differences []Difference
	Err         error // what the server said
}

func (e *DriftError) Error() string {
	parts := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		parts[i] = d.String()
	}
	return "storage: " + strings.Join(parts, "; ") +
		"; the server does not allow that change: move the stream away, or set the layout to what it has: " + e.Err.Error()
}

// Unwrap returns what the server said.
func (e *DriftError) Unwrap() error { return e.Err }

// Ensure makes the streams that are missing and brings those that differ to the layout. It may be repeated, also by
// several workers at once. Settings that the layout does not declare (placement, metadata, limits on bytes) stay as an
// operator set them. What the server refuses to change is a *[DriftError]; any other error is storage out of reach.
func Ensure(ctx context.Context, js jetstream.JetStream, l Layout) error {
	l = l.WithDefaults()
	if err := l.Validate(); err != nil {
		return err
	}
	for _, want := range l.Streams() {
		if err := ensureStream(ctx, js, want); err != nil {
			return err
		}
	}
	return nil
}

// streamTimeout bounds what is asked about one stream: a request that dies with a server, or finds a cluster without a
// leader, is never answered, and the caller's patience is for all streams and tries again.
const streamTimeout = 10 * time.Second

func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	_, err := js.CreateStream(ctx, want)
	if err == nil {
		return nil
	}
	if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("storage: make stream %s: %w", want.Name, err)
	}
	have, err := streamConfig(ctx, js, want.Name)
	if err != nil {
		return err
	}
	diffs := compare(*have, want)
	if len(diffs) == 0 {
		return nil
	}
	if _, err := js.UpdateStream(ctx, overlay(*have, want)); err != nil {
		var api *jetstream.APIError
		if errors.As(err, &api) {
			return &DriftError{Differences: diffs, Err: err}
		}
		return fmt.Errorf("storage: update stream %s: %w", want.Name, err)
	}
	return nil
}

// Drift tells how the streams differ from the layout, without changing anything.
func Drift(ctx context.Context, js jetstream.JetStream, l Layout) ([]Difference, error) {
	var out []Difference
	for _, want := range l.WithDefaults().Streams() {
		have, err := streamConfig(ctx, js, want.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			out = append(out, Difference{Stream: want.Name, Field: "stream"})
		case err != nil:
			return nil, err
		default:
			out = append(out, compare(*have, want)...)
		}
	}
	return out, nil
}

func streamConfig(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("storage: look at stream %s: %w", name, err)
	}
	return &s.CachedInfo().Config, nil
}

// declared are the settings that a layout decides, with the value that stands for "not set".
var declared = []struct {
	name  string
	field func(*jetstream.StreamConfig) any // a pointer into the configuration
	unset any                               // a declared value equal to this is left to the server or the operator
}{
	{"subjects", func(c *jetstream.StreamConfig) any { return &c.Subjects }, nil},
	{"retention", func(c *jetstream.StreamConfig) any { return &c.Retention }, nil},
	{"storage", func(c *jetstream.StreamConfig) any { return &c.Storage }, nil},
	{"num_replicas", func(c *jetstream.StreamConfig) any { return &c.Replicas }, 0},
	{"max_age", func(c *jetstream.StreamConfig) any { return &c.MaxAge }, nil},
	{"max_msgs", func(c *jetstream.StreamConfig) any { return &c.MaxMsgs }, int64(0)},
	{"max_msgs_per_subject", func(c *jetstream.StreamConfig) any { return &c.MaxMsgsPerSubject }, int64(0)},
	{"duplicate_window", func(c *jetstream.StreamConfig) any { return &c.Duplicates }, time.Duration(0)},
	{"discard", func(c *jetstream.StreamConfig) any { return &c.Discard }, nil},
	{"compression", func(c *jetstream.StreamConfig) any { return &c.Compression }, nil},
	{"allow_rollup_hdrs", func(c *jetstream.StreamConfig) any { return &c.AllowRollup }, nil},
	{"allow_direct", func(c *jetstream.StreamConfig) any { return &c.AllowDirect }, nil},
	{"allow_msg_ttl", func(c *jetstream.StreamConfig) any { return &c.AllowMsgTTL }, nil},
	{"deny_delete", func(c *jetstream.StreamConfig) any { return &c.DenyDelete }, nil},
	{"deny_purge", func(c *jetstream.StreamConfig) any { return &c.DenyPurge }, nil},
}

func compare(have, want jetstream.StreamConfig) []Difference {
	var out []Difference
	for _, d := range declared {
		h, w := reflect.ValueOf(d.field(&have)).Elem(), reflect.ValueOf(d.field(&want)).Elem()
		if d.unset != nil && w.Interface() == d.unset {
			continue
		}
		if !sameSetting(h.Interface(), w.Interface()) {
			out = append(out, Difference{Stream: want.Name, Field: d.name, Have: h.Interface(), Want: w.Interface()})
		}
	}
	return out
}

// sameSetting compares two settings; the order of subjects means nothing.
func sameSetting(a, b any) bool {
	if as, ok := a.([]string); ok {
		bs, ok := b.([]string)
		return ok && slices.Equal(slices.Sorted(slices.Values(as)), slices.Sorted(slices.Values(bs)))
	}
	return reflect.DeepEqual(a, b)
}

// overlay is have with the declared settings of want.
func overlay(have, want jetstream.StreamConfig) jetstream.StreamConfig {
	for _, d := range declared {
		h, w := reflect.ValueOf(d.field(&have)).Elem(), reflect.ValueOf(d.field(&want)).Elem()
		if d.unset != nil && w.Interface() == d.unset {
			continue
		}
		h.Set(w)
	}
	have.Description = want.Description
	return have
}
