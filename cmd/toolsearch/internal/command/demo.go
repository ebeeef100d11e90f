package command

import (
	"bufio"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/demo"
)

func (a *app) demo() *cobra.Command {
	var pause bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole thing working, on this machine",
		Long: `Demo plays one turn of an agent: assemble with its saving, two searches, a describe, a call that is repaired and one
that is refused, a batch that is stopped and a batch whose worker is killed. It brings its own NATS server, workers,
gateway and catalog, needs nothing else, leaves nothing behind and ends by itself within seconds.

` + exitHelp,
		Example: `  toolsearch demo
  toolsearch demo --pause    # wait for Enter between the scenes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return fmt.Errorf("the demo starts this binary as workers and cannot find it: %w", err)
			}
			o := demo.Options{Out: a.out, Worker: []string{exe, "worker"}, Environ: a.Environ()}
			if pause {
				in := bufio.NewReader(a.In)
				o.Pause = func() {
					a.out.Printf("%s", a.out.Dim("(Enter to go on) "))
					_, _ = in.ReadString('\n') // at the end of the input it just goes on
				}
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&pause, "pause", false, "wait for Enter between the scenes")
	return cmd
}
