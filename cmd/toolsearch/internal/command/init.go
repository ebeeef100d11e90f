package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/subjects"
	"toolsearch/worker/storage"
)

// layout is how the settings want the streams.
func layout(s config.Settings) storage.Layout {
	l := storage.Layout{Root: subjects.Root(s.Root), Replicas: s.Store.Replicas}
	if s.Store.Memory {
		l.Storage = jetstream.MemoryStorage
	}
	return l
}

func (a *app) init() *cobra.Command {
	var c client
	var tenants []string
	var check bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the streams and buckets of a bus, or check them (for operators)",
		Long: `Init brings the streams and buckets of a bus to what this version declares. It may be repeated, and changes nothing
that is right. What an operator set and this version does not declare (placement, limits on bytes) stays. Workers do the
same when they start, with their own store.replicas: give all of them the same.

--check changes nothing: it prints what differs and exits with 3 if anything does. --tenant also makes the bucket of
large bodies of a tenant whose sessions may use it but not make it.

It needs an operator's rights on the bus.

` + exitHelp,
		Example: `  toolsearch init --nats nats://bus:4222 --creds operator.creds --replicas 3
  toolsearch init --check --replicas 3 --json
  toolsearch init --replicas 3 --tenant acme --tenant globex`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			for _, t := range tenants {
				if t == "" {
					return usagef("--tenant is empty")
				}
			}
			s, err := a.load(cmd)
			if err != nil {
				return err
			}
			l := layout(s)
			if err := l.Validate(); err != nil {
				return usageError{err}
			}
			nc, err := a.connect(cmd.Context(), s.NATS, c.timeout)
			if err != nil {
				return err
			}
			defer nc.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
			defer cancel()
			ctx, release := subjects.UntilRefused(ctx, nc)
			defer release()
			return a.apply(ctx, nc, l, &c, tenants, check)
		},
	}
	f := cmd.Flags()
	natsFlags(f)
	f.Int("replicas", 1, "copies of every stream: 1, or 3 in a cluster")
	config.Bind(f, "replicas", "store.replicas")
	f.StringArrayVar(&tenants, "tenant", nil, "tenants whose bucket of large bodies is made too")
	f.BoolVar(&check, "check", false, "change nothing; exit with 3 if anything differs")
	f.DurationVar(&c.timeout, "timeout", answerTimeout, "how long to wait for the bus")
	f.BoolVar(&c.json, "json", false, "print what differed as JSON")
	return cmd
}

// layoutReport is what init prints with --json.
type layoutReport struct {
	// Applied says that the streams now are as declared; false only with --check.
	Applied bool               `json:"applied"`
	Drift   []layoutDifference `json:"drift"` // what differed before
	Streams []string           `json:"streams"`
	Bodies  []string           `json:"bodies,omitempty"` // buckets of large bodies that exist now
	diffs   []storage.Difference
}

type layoutDifference struct {
	Stream string `json:"stream"`
	Field  string `json:"field"` // "stream" where it is missing altogether
	Have   any    `json:"have,omitempty"`
	Want   any    `json:"want,omitempty"`
}

// errDrift is why a check fails.
var errDrift = errors.New("the bus is not as this version declares it; `toolsearch init` without --check brings it there")

func (a *app) apply(ctx context.Context, nc *nats.Conn, l storage.Layout, c *client, tenants []string, check bool) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	r := layoutReport{Drift: []layoutDifference{}, Streams: []string{}}
	for _, s := range l.Streams() {
		r.Streams = append(r.Streams, s.Name)
	}
	err = insist(ctx, nc, func(ctx context.Context) (err error) {
		r.diffs, err = storage.Drift(ctx, js, l)
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range r.diffs {
		r.Drift = append(r.Drift, layoutDifference(d))
	}
	if !check {
		err := insist(ctx, nc, func(ctx context.Context) (err error) {
			if err := storage.Ensure(ctx, js, l); err != nil {
				return err
			}
			r.Bodies, err = ensureBodies(ctx, js, l, tenants)
			return err
		})
		if err != nil {
			return err
		}
		r.Applied = true
	}
	if err := a.printLayout(c, &r); err != nil {
		return err
	}
	if check && len(r.diffs) > 0 {
		return errDrift
	}
	return nil
}

// firstAttempt bounds the first attempt, and each further one takes twice as long: a question that a cluster without a
// leader let fall is never answered.
const firstAttempt = 2 * time.Second

// errStandsAlone is the server's code for more than one copy where it is in no cluster.
const errStandsAlone jetstream.ErrorCode = 10074

// insist repeats what may fail because a cluster has only just come up.
func insist(ctx context.Context, nc *nats.Conn, attempt func(context.Context) error) error {
	pause := backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0)), ctx)
	var last error
	bound, began := firstAttempt, time.Now()
	err := backoff.Retry(func() error {
		bounded, cancel := context.WithTimeout(ctx, bound)
		bound *= 2
		defer cancel()
		err := attempt(bounded)
		if err != nil && (last == nil || bounded.Err() == nil) {
			last = err // the first, or one that says more than that the time was over
		}
		if err == nil || notYet(nc, err, time.Since(began)) {
			return err
		}
		return backoff.Permanent(err)
	}, pause)
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(last, &api) && api.ErrorCode == errStandsAlone:
		return fmt.Errorf("this server is in no cluster and keeps one copy of a stream; give --replicas 1: %w", last)
	case subjects.AsPermissionError(context.Cause(ctx)) != nil:
		return context.Cause(ctx)
	}
	return last
}

// notYet reports whether an error may pass by itself.
func notYet(nc *nats.Conn, err error, waited time.Duration) bool {
	var api *jetstream.APIError
	switch {
	case nc.IsClosed():
		return false
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return false
	case errors.As(err, &api):
		return api.Code == 503 // no leader yet, or too few servers for the copies
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) && waited < jetStreamStart
}

// jetStreamStart is how long a server that is there may take until it answers for JetStream, if it has it.
const jetStreamStart = 4 * time.Second

func ensureBodies(ctx context.Context, js jetstream.JetStream, l storage.Layout, tenants []string) ([]string, error) {
	l = l.WithDefaults()
	bodies, err := subjects.NewBodies(js, subjects.BodiesOptions{Replicas: l.Replicas, Storage: l.Storage})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range tenants {
		t = subjects.Token(t)
		if err := bodies.Ensure(ctx, t); err != nil {
			return nil, fmt.Errorf("the bucket of tenant %s: %w", t, err)
		}
		out = append(out, subjects.BodyBucket(t))
	}
	return out, nil
}

func (a *app) printLayout(c *client, r *layoutReport) error {
	if c.json {
		return a.object(r)
	}
	for _, d := range r.diffs {
		a.out.Println(d.String())
	}
	switch {
	case !r.Applied && len(r.diffs) > 0:
		a.out.Printf("%s, nothing was changed\n", plural(len(r.diffs), "difference"))
	case len(r.diffs) > 0:
		a.out.Printf("%d streams are as declared now\n", len(r.Streams))
	default:
		a.out.Printf("%d streams are as declared; nothing to do\n", len(r.Streams))
	}
	for _, b := range r.Bodies {
		a.out.Println("bucket", b, "is there")
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
