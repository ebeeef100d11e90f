package command

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"toolsearch/subjects"
)

func (a *app) stop() *cobra.Command {
	var c client
	var reason string
	cmd := &cobra.Command{
		Use:   "stop [call]",
		Short: "Stop a call, or all calls of a session",
		Long: `Stop leaves unsent what has not been sent yet; its entries settle as INTERRUPTED. It is stored by the server itself and
holds also while no worker lives. Without a call it stops every call of the session that has begun by now.

` + exitHelp,
		Example: `  toolsearch stop --tenant acme --session desktop-1
  toolsearch stop turn-7-call-2 --reason "user pressed stop"`,
		Args: takes(0, 1, "the id of one call, or none to stop all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !subjects.ValidToken(args[0]) {
				return usagef("%q is no call id: 1 to %d of A-Z a-z 0-9 _ -", args[0], subjects.MaxToken)
			}
			q, err := a.ask(cmd, &c)
			if err != nil {
				return err
			}
			defer q.Close()
			var ack *subjects.StopAck
			what := "session " + q.Tenant() + "." + q.ID()
			if len(args) == 1 {
				what = "call " + args[0] + " of " + what
				ack, err = q.StopCall(cmd.Context(), args[0], reason)
			} else {
				ack, err = q.Stop(cmd.Context(), reason)
			}
			if err != nil {
				return a.refused(&c, err)
			}
			if c.json {
				body, err := json.Marshal(ack)
				if err != nil {
					return err
				}
				return a.exact(body)
			}
			a.out.Printf("stopped: %s (message %d of %s)\n", what, ack.Seq, ack.Stream)
			return nil
		},
	}
	c.flags(cmd, answerTimeout)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever reads it later")
	return cmd
}
