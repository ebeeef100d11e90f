package command

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/log"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/screen"
	"toolsearch/telemetry"
)

// Surroundings is what a run has around it.
type Surroundings struct {
	In       io.Reader
	Out, Err io.Writer
	// Environ gives the environment as os.Environ does.
	Environ func() []string
	// Signals gives the signals that ask the process to end; nil: none are heard.
	Signals <-chan os.Signal
	// Exit ends the process at once, on a second signal.
	Exit func(code int)
}

// System is the process's own surroundings.
func System() Surroundings {
	return Surroundings{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ, Signals: endSignals(), Exit: os.Exit}
}

// app is one run of the binary.
type app struct {
	Surroundings
	out, err *screen.Screen
	started  bool
	config   string
}

// Main runs the command line and returns its exit code.
func Main(s Surroundings, args []string) int {
	ctx, stop := untilSignal(context.Background(), s.Signals, s.Exit)
	defer stop()
	a := &app{Surroundings: s, out: screen.New(s.Out, s.Environ), err: screen.New(s.Err, s.Environ)}
	root := a.root()
	root.SetArgs(args)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	ran, err := misspelt(root, args)
	if err == nil {
		ran, err = root.ExecuteContextC(ctx)
	}
	code := exitCode(ctx, err, a.started)
	if err != nil && !errors.Is(err, errNothing) {
		a.err.Println(a.err.Bad("toolsearch:"), message(err))
		if code == ExitUsage {
			a.err.Printf("see: %s --help\n", ran.CommandPath())
		}
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "toolsearch",
		Short: "Progressive tool disclosure for agents, over NATS",
		Long: `Toolsearch shows a model three bridge tools and a short listing instead of a thousand schemas; the model searches,
loads and calls the rest on demand. Workers answer over NATS.

` + exitHelp,
		Example: `  toolsearch demo                                    # one turn of an agent, everything in one process
  toolsearch worker                                  # a worker with its own NATS server
  toolsearch search --catalog catalogs "create issue"
  toolsearch worker --nats nats://bus:4222 --creds worker.creds`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { a.started = true },
		Args:              noArgs, // a word that is no command is misspelt
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetIn(a.In)
	root.PersistentFlags().StringVar(&a.config, "config", "", "configuration file (YAML); also "+config.EnvFile)
	root.AddGroup(
		&cobra.Group{ID: "try", Title: "Try it:"},
		&cobra.Group{ID: "serve", Title: "Serve:"},
		&cobra.Group{ID: "ask", Title: "Ask a worker:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("try", a.demo(), a.bench(), a.eval())
	add("serve", a.worker(), a.health(), a.gateway(), a.jobs(), a.init(), a.token())
	add("ask", a.assemble(), a.search(), a.describe(), a.call(), a.connections(), a.stop(), a.watch())
	root.AddCommand(a.version())
	return root
}

// load reads the settings of a verb and tells what was not understood.
func (a *app) load(cmd *cobra.Command) (config.Settings, error) {
	var warnings []config.Warning
	s, err := untilEnd(cmd.Context(), func() (s config.Settings, err error) {
		s, warnings, err = config.Load(config.Sources{File: a.config, Environ: a.Environ, Flags: cmd.Flags()})
		return s, err
	})
	if err != nil {
		return s, err
	}
	for _, w := range warnings {
		a.warn(w.String())
	}
	return s, nil
}

func (a *app) warn(text string) { a.err.Println(a.err.Warn("warning:"), text) }

// logger writes the log to standard error, and to whoever else takes it.
func (a *app) logger(l config.Log, exported log.LoggerProvider) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // the settings hold only levels that are known
	}
	return telemetry.NewLogger(telemetry.LogOptions{Writer: a.Err, JSON: l.JSON, Level: level, Provider: exported})
}
