package command

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"toolsearch/subjects"
)

func (a *app) watch() *cobra.Command {
	var c client
	var o subjects.WatchOptions
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print the results of a session as they settle",
		Long: `Watch prints each entry of the session's calls as it settles, then each call's summary, until it is interrupted; with
--call it ends with that call's summary. --json prints each event on a line of its own, exactly as it came.

` + exitHelp,
		Example: `  toolsearch watch --tenant acme --session desktop-1
  toolsearch watch --call turn-7-call-2 --replay --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := a.ask(cmd, &c)
			if err != nil {
				return err
			}
			defer q.Close()
			events, err := q.Watch(cmd.Context(), o)
			if err != nil {
				return a.refused(&c, err)
			}
			if !c.json {
				a.err.Println(a.err.Dim("watching session " + q.Tenant() + "." + q.ID() + "; interrupt to end"))
			}
			var last error
			for e, err := range events {
				if last = err; err != nil {
					if cmd.Context().Err() == nil && !errors.Is(err, nats.ErrConnectionClosed) {
						a.warn(message(err))
					}
					continue
				}
				if err := a.printEvent(&c, &e); err != nil {
					return err
				}
			}
			if cmd.Context().Err() != nil {
				return nil // whoever interrupts has seen enough
			}
			return q.lost(last)
		},
	}
	c.watchFlags(cmd)
	cmd.Flags().StringVar(&o.Call, "call", "", "only this call, and end with its summary")
	cmd.Flags().BoolVar(&o.Replay, "replay", false, "first print what is still kept, about an hour")
	return cmd
}

func (a *app) printEvent(c *client, e *subjects.Event) error {
	switch {
	case c.json:
		return a.exact(e.Raw)
	case e.Entry != nil:
		a.out.Printf("%s ", a.out.Dim(e.CallID))
		a.printEntry(e.Entry)
	case e.Summary != nil:
		a.out.Printf("%s %s\n", a.out.Dim(e.CallID), a.out.Bold(summaryText(e.Summary)))
	default:
		return errors.New("an event that is neither an entry nor a summary")
	}
	return nil
}

func summaryText(s *subjects.SummaryEvent) string {
	return "done: " + count(s.SuccessCount) + " of " + count(s.TotalCount) + " succeeded"
}
