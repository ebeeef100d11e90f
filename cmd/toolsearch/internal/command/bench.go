package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/bench"
	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/node"
	"toolsearch/cmd/toolsearch/internal/sample"
	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/subjects"
)

// benching is what the bench verb's own flags say.
type benching struct {
	scoping
	tools, inFlight int
	duration        time.Duration
	json            bool
}

func (a *app) bench() *cobra.Command {
	var b benching
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure search over the bus beside a bare echo",
		Long: `Bench starts a NATS server and a worker in this process and puts load on them over TCP: search, and in turn with it a
bare NATS echo whose requests and replies have the same sizes. It prints rate, p50 and p99 of both and their ratio,
and the CPU of a search without the bus. All queries are different and no answer is cached.

With --nats it measures the workers that answer there; the echo answers from this process.

` + exitHelp,
		Example: `  toolsearch bench
  toolsearch bench --catalog catalogs --json
  toolsearch bench --tools 30000 --duration 60s`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tools, err := untilEnd(cmd.Context(), func() (json.RawMessage, error) { return a.benchTools(&b) })
			if err != nil {
				return err
			}
			s, err := a.load(cmd)
			if err != nil {
				return err
			}
			result, err := a.measure(cmd.Context(), s, &b, tools)
			if err != nil {
				return err
			}
			if b.json {
				text, err := json.MarshalIndent(result, "", "  ")
				if err != nil {
					return err
				}
				return a.exact(text)
			}
			return a.printBench(result)
		},
	}
	f := cmd.Flags()
	natsFlags(f)
	f.StringArrayVar(&b.catalogs, "catalog", nil, "file or folder with tools (repeatable) instead of the sample")
	f.IntVar(&b.tools, "tools", 1000, "tools of the sample catalog")
	f.IntVar(&b.inFlight, "in-flight", 32, "requests on their way at once when the rate is measured")
	f.DurationVar(&b.duration, "duration", 15*time.Second, "how long to measure")
	f.BoolVar(&b.json, "json", false, "print the figures as one JSON object")
	return cmd
}

func (a *app) benchTools(b *benching) (json.RawMessage, error) {
	switch {
	case b.duration <= 0:
		return nil, usagef("--duration must be more than 0")
	case b.inFlight < 1 || b.inFlight > 10_000:
		return nil, usagef("--in-flight must be 1 to 10000")
	case len(b.catalogs) > 0:
		return a.tools(&b.scoping)
	case b.tools < 1 || b.tools > 50_000:
		return nil, usagef("--tools must be 1 to 50000")
	}
	return sample.JSON(sample.Sized(b.tools)), nil
}

// measure brings the bus and a worker where none is named, and runs the bench with a connection each for the worker,
// the client and the echo.
func (a *app) measure(ctx context.Context, s config.Settings, b *benching, tools json.RawMessage) (*bench.Result, error) {
	bus := config.Redact(s.NATS.URL)
	if s.NATS.URL == "" {
		stop, url, err := a.benchBus(ctx, s)
		if err != nil {
			return nil, err
		}
		defer stop()
		s.NATS.URL, bus = url, "embedded, over TCP loopback"
	}
	client, err := a.connect(ctx, s.NATS, 5*time.Second, nats.Name("toolsearch bench client"))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	echo, err := a.connect(ctx, s.NATS, 5*time.Second, nats.Name("toolsearch bench echo"))
	if err != nil {
		return nil, err
	}
	defer echo.Close()
	progress, end := a.progress("bench")
	defer end()
	return bench.Run(ctx, bench.Options{
		Tools: tools, Client: client, Echo: echo, Bus: bus, Root: subjects.Root(s.Root),
		Duration: b.duration, InFlight: b.inFlight, Progress: progress,
	})
}

// benchBus starts a server in a folder of its own and a worker that reaches it over TCP as any other would.
func (a *app) benchBus(ctx context.Context, s config.Settings) (stop func(), url string, err error) {
	log := a.logger(config.Log{Level: "error"}, nil)
	bus, err := node.StartBus(config.Embedded{}, log)
	if err != nil {
		return nil, "", err
	}
	settings := config.Default()
	settings.Root, settings.NATS.URL = s.Root, bus.ClientURL()
	n, err := node.Start(ctx, settings, log)
	if err != nil {
		bus.Shutdown()
		return nil, "", err
	}
	stop = func() {
		_ = n.Drain(context.WithoutCancel(ctx)) // nothing of it is kept
		bus.Shutdown()
	}
	select {
	case <-n.Ready():
		return stop, bus.ClientURL(), nil
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		err = fmt.Errorf("the worker did not become ready within 10 s: %v", n.Worker().Health().Problems)
	}
	stop()
	if err == nil {
		err = context.Cause(ctx)
	}
	return nil, "", err
}

// progress is a bar on standard error, where people see it.
func (a *app) progress(name string) (tell func(part float64, what string), end func()) {
	if !a.err.Terminal() {
		return nil, func() {}
	}
	const steps = 1000
	bar := progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(name),
		progressbar.OptionSetWidth(30), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())
	return func(part float64, what string) {
		bar.Describe(fmt.Sprintf("%s: %-14s", name, what))
		_ = bar.Set(int(part * steps)) // a bar that cannot be drawn is no failure
	}, func() { _ = bar.Finish() }
}

func (a *app) printBench(r *bench.Result) error {
	a.out.Printf("%s tools, %s different queries, no cache of answers, %d cores, bus: %s\n",
		count(r.Tools), count(r.Queries), r.Cores, r.Bus)
	a.out.Printf("a search asks with %.0f bytes and is answered with %.0f; the echo moves the same\n\n", r.RequestBytes, r.ReplyBytes)
	t := table.New("", "SEARCH", "ECHO", "RATIO")
	t.Row("p50, one in flight", micros(r.Search.P50), micros(r.Echo.P50), fmt.Sprintf("%.2f", r.P50Ratio))
	t.Row("p99, one in flight", micros(r.Search.P99), micros(r.Echo.P99), ratioText(r.Search.P99, r.Echo.P99))
	t.Row(fmt.Sprintf("rate, %d in flight", r.InFlight), perSecond(r.Search.Rate), perSecond(r.Echo.Rate), ratioText(r.Search.Rate, r.Echo.Rate))
	t.Row("CPU of one request, all in all", micros(r.Search.CPU), micros(r.Echo.CPU), ratioText(r.Search.CPU, r.Echo.CPU))
	t.Row("assemble p50, catalog stored", micros(r.Assemble.P50), micros(r.AssembleEcho.P50), fmt.Sprintf("%.2f", r.AssembleRatio))
	if err := a.out.Table(t); err != nil {
		return err
	}
	a.out.Printf("\nsearch CPU without the bus: %s\n", micros(r.SearchCPU))
	a.out.Printf("possible rate, 1/(1/echo + cpu/cores): %s; search reaches %.0f %% of it\n", perSecond(r.PossibleRate), 100*r.RateRatio)
	return nil
}

func micros(us float64) string { return fmt.Sprintf("%.1f µs", us) }

func perSecond(rate float64) string { return count(int(rate)) + "/s" }

func ratioText(a, b float64) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", a/b)
}
