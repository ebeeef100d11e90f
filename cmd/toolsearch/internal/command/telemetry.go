package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/telemetry"
	"toolsearch/worker"
)

// flushTime is what the last spans, metrics and logs get to leave the process.
const flushTime = 5 * time.Second

// watched is a process that is watched: its log, its telemetry and its admin server.
type watched struct {
	log       *slog.Logger
	providers *telemetry.Providers
	recorder  *telemetry.Recorder
	admin     *telemetry.Admin              // nil: there is none
	worker    atomic.Pointer[worker.Worker] // nil until it is started
}

// watched sets up what the environment and the settings ask for. end must be called.
func (a *app) watched(ctx context.Context, s config.Settings) (*watched, error) {
	p, err := telemetry.Start(ctx, telemetry.Config{Version: worker.Version, Instance: s.Worker.Name, Scrape: s.Admin.Addr != ""})
	if err != nil {
		return nil, usagef("the OTEL_* variables: %w", err)
	}
	w := &watched{providers: p, log: a.logger(s.Log, p.Loggers)}
	w.recorder, err = telemetry.NewRecorder(telemetry.Options{TracerProvider: p.Tracers, MeterProvider: p.Meters,
		Propagator: p.Propagator, Capture: telemetry.Capture{Enabled: s.Telemetry.Capture,
			MaxBytes: int(s.Telemetry.CaptureBytes), Fields: s.Telemetry.CaptureFields}})
	if err != nil {
		w.end()
		return nil, err
	}
	if p.Exporting() {
		// The SDK has no other way to tell of a batch that was lost. Only a program may set this.
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
			w.log.Warn("telemetry could not be exported", "error", err)
		}))
	}
	return w, nil
}

// serve starts the admin server, if one is wanted. Until there is a worker it says that it is starting.
func (w *watched) serve(address string) (err error) {
	if address == "" {
		return nil
	}
	w.admin, err = telemetry.Serve(telemetry.AdminOptions{Address: address, Metrics: w.providers.Metrics, Logger: w.log,
		Healthy: func(context.Context) []string {
			if started := w.worker.Load(); started != nil {
				return started.Broken()
			}
			return nil
		},
		Ready: func(context.Context) []string {
			if started := w.worker.Load(); started != nil {
				return started.Health().Problems
			}
			return []string{"starting"}
		},
		Build: build()})
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("admin.addr: %s is taken; choose another address with --admin", address)
	case err != nil:
		return fmt.Errorf("admin.addr: %w", err)
	}
	w.log.Info("the admin server listens", "address", w.admin.Address())
	return nil
}

// end lets probes see the end of the drain, and then sends what telemetry still holds.
func (w *watched) end() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if w.admin != nil {
		if err := w.admin.Close(ctx); err != nil {
			w.log.Warn("the admin server did not close in time", "error", err)
		}
	}
	if err := w.providers.Shutdown(ctx); err != nil {
		w.log.Warn("the last telemetry could not be sent", "error", err)
	}
}

func build() telemetry.Build { return telemetry.ReadBuild(worker.Version) }
