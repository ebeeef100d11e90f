package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/dispatch"
	"toolsearch/subjects"
	"toolsearch/worker/durable"
	"toolsearch/worker/storage"
)

func (a *app) jobs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List, show and retry the durable calls of a bus (for operators)",
		Long: `Jobs reads the queue of calls and those that were given up, straight from the bus; no worker need live. It needs an
operator's rights on the bus, not a session's.

` + exitHelp,
		Example: `  toolsearch jobs list
  toolsearch jobs show --tenant acme --session desktop-1 turn-7-call-2
  toolsearch jobs retry --tenant acme --session desktop-1 turn-7-call-2`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.jobsList(), a.jobsShow(), a.jobsRetry())
	return cmd
}

// operating connects an operator to the durable calls; it runs none.
func (a *app) operating(cmd *cobra.Command, c *client, do func(context.Context, *durable.Calls) error) error {
	if err := c.validate(); err != nil {
		return err
	}
	s, err := a.load(cmd)
	if err != nil {
		return err
	}
	nc, err := a.connect(cmd.Context(), s.NATS, c.timeout)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	calls, err := durable.New(js, nc, durable.Options{
		Layout: storage.Layout{Root: subjects.Root(s.Root), Replicas: s.Store.Replicas},
		Slots:  -1, Logger: a.logger(config.Log{Level: "warn"}, nil),
	})
	if err != nil {
		return err
	}
	ctx, release := subjects.UntilRefused(cmd.Context(), nc)
	defer release()
	err = do(ctx, calls)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("there are no streams of calls on this bus; start a worker first: %w", err)
	case err != nil && subjects.AsPermissionError(context.Cause(ctx)) != nil:
		return context.Cause(ctx)
	}
	return err
}

func (a *app) jobsList() *cobra.Command {
	var c client
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the jobs that wait or run, and those that were given up",
		Long: `List prints the jobs that were given up first, then those that wait or run. --tenant "" lists all tenants.

` + exitHelp,
		Example: `  toolsearch jobs list
  toolsearch jobs list --tenant acme --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit must be at least 1")
			}
			return a.operating(cmd, &c, func(ctx context.Context, calls *durable.Calls) error {
				tenant := c.tenant
				if tenant != "" {
					tenant = subjects.Token(tenant)
				}
				got, err := calls.Jobs(ctx, tenant, limit)
				if err != nil {
					return err
				}
				return a.printJobs(&c, got)
			})
		},
	}
	c.flags(cmd, answerTimeout)
	cmd.Flags().Lookup("tenant").DefValue = ""
	c.tenant = ""
	_ = cmd.Flags().MarkHidden("session")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most so many of each kind")
	return cmd
}

func (a *app) printJobs(c *client, l *durable.JobList) error {
	if c.json {
		return a.object(l)
	}
	if len(l.Jobs) == 0 {
		a.out.Println("no jobs")
		return errNothing
	}
	t := table.New("PLACE", "CALL", "SINCE", "GENERATION", "ENTRIES")
	for _, j := range l.Jobs {
		names := strings.Join(j.Names, " ")
		if j.Unreadable {
			names = "(not readable by this version)"
		}
		t.Row(string(j.Place), j.Key.String(), j.At.Format("2006-01-02 15:04:05 MST"), count(j.Generation), names)
	}
	if err := a.out.Table(t); err != nil {
		return err
	}
	if l.More {
		a.out.Println(a.out.Dim("there are more; raise --limit"))
	}
	return nil
}

// object prints a value of ours as JSON.
func (a *app) object(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return a.exact(text)
}

func (c *client) key(call string) (dispatch.CallKey, error) {
	k := dispatch.CallKey{Tenant: subjects.Token(c.tenant), Session: subjects.Token(c.session), Call: call}
	if err := c.named(); err != nil {
		return k, err
	}
	if err := k.Validate(); err != nil {
		return k, usageError{err}
	}
	return k, nil
}

func (a *app) jobsShow() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:     "show <call>",
		Short:   "Show the record of a call, and its job if it was given up",
		Long:    "Show prints what is known of each entry of a call.\n\n" + exitHelp,
		Example: `  toolsearch jobs show --tenant acme --session desktop-1 turn-7-call-2`,
		Args:    takes(1, 1, "the id of one call, the last part of what \"jobs list\" prints"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := c.key(args[0])
			if err != nil {
				return err
			}
			return a.operating(cmd, &c, func(ctx context.Context, calls *durable.Calls) error {
				got, err := calls.Show(ctx, k)
				if errors.Is(err, dispatch.ErrNotFound) {
					a.out.Println("nothing is known of call", k.String())
					return errNothing
				}
				if err != nil {
					return err
				}
				if c.json {
					return a.object(got)
				}
				return a.printCall(got)
			})
		},
	}
	c.flags(cmd, answerTimeout)
	return cmd
}

func (a *app) printCall(i *durable.CallInfo) error {
	a.out.Println(a.out.Bold(i.Key.String()), callState(i))
	if i.RecordError != "" {
		a.out.Println(a.out.Bad("record:"), i.RecordError)
	}
	if i.Record == nil {
		return nil
	}
	t := table.New("INDEX", "STATE", "RUNS", "ATTEMPTS", "NAME", "RESULT")
	for n, e := range i.Record.Entries {
		result := ""
		switch {
		case e.Outcome != nil && e.Outcome.Error != nil:
			result = string(e.Outcome.Error.Code) + ": " + e.Outcome.Error.Message
		case e.Outcome != nil:
			result = table.Cut(string(e.Outcome.Response), 200)
		case e.OutcomeBody != nil:
			result = "(in the body store: " + e.OutcomeBody.Object + ")"
		}
		t.Row(count(n), string(e.State), count(e.Runs), count(e.Attempts), e.Name, result)
	}
	return a.out.Table(t)
}

// callState words where a call stands.
func callState(i *durable.CallInfo) string {
	switch r := i.Record; {
	case r == nil:
		return "(no record is left)"
	case i.Dead != nil:
		return fmt.Sprintf("given up after %d takeovers; toolsearch jobs retry tries its ABANDONED entries again", r.Takeovers)
	case r.Published:
		return "done"
	case r.Runner == "":
		return "waits for a worker"
	case r.Returned:
		return "was handed back and waits for a worker"
	default:
		return "runs on " + r.Runner
	}
}

func (a *app) jobsRetry() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "retry <call>",
		Short: "Try the abandoned entries of a call again",
		Long: `Retry reopens a call that was given up. Only its ABANDONED entries run again, under the same idempotency keys; what
may have taken effect keeps its outcome. Its events carry a new generation.

` + exitHelp,
		Example: `  toolsearch jobs retry --tenant acme --session desktop-1 turn-7-call-2`,
		Args:    takes(1, 1, "the id of one call, the last part of what \"jobs list\" prints"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := c.key(args[0])
			if err != nil {
				return err
			}
			return a.operating(cmd, &c, func(ctx context.Context, calls *durable.Calls) error {
				generation, err := calls.Retry(ctx, k)
				switch {
				case errors.Is(err, dispatch.ErrNotFound):
					a.out.Println("call", k.String(), "was not given up, or is no longer kept")
					return errNothing
				case errors.Is(err, dispatch.ErrNothingToReopen):
					a.out.Println("call", k.String(), "has no ABANDONED entry; nothing of it may be tried again")
					return errNothing
				case err != nil:
					return err
				}
				if c.json {
					return a.object(map[string]any{"key": k, "generation": generation})
				}
				a.out.Printf("call %s runs again, generation %d\n", k.String(), generation)
				return nil
			})
		},
	}
	c.flags(cmd, answerTimeout)
	return cmd
}
