package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	runtimemetrics "go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/attribute"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Config configures [Start]. Where to export to, how to sample and how to propagate are the standard OTEL_* variables'
// to say, and the attributes of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME go before those given here.
type Config struct {
	// Service is the service's name; empty is "toolsearch".
	Service string
	// Version is the service's version.
	Version string
	// Instance tells this process from others; empty: none is given.
	Instance string
	// Environment is where it runs, such as "production"; empty: none is given.
	Environment string
	// Scrape makes metrics for a Prometheus that comes and asks; see [Providers.Metrics].
	Scrape bool
}

// Providers are the SDK of a process, set up once. A part that nothing was asked for is nil, and costs nothing.
type Providers struct {
	// Tracers, Meters and Loggers are for [Options] and [LogOptions]; nil where there is nothing to export.
	Tracers trace.TracerProvider
	Meters  metric.MeterProvider
	Loggers log.LoggerProvider
	// Propagator is that of OTEL_PROPAGATORS, else W3C trace context.
	Propagator propagation.TextMapPropagator
	// Metrics answers Prometheus, in OpenMetrics with exemplars where it asks for that; nil without [Config.Scrape].
	Metrics http.Handler

	shutdown []func(context.Context) error // in order
	failed   *failures

	exporting bool
}

// The variables that say of a signal where it is exported to.
const (
	envDisabled = "OTEL_SDK_DISABLED"
	envEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
)

// wanted reports whether the environment asks for the export of a signal: TRACES, METRICS or LOGS.
func wanted(signal string) bool {
	if v := os.Getenv("OTEL_" + signal + "_EXPORTER"); v != "" {
		return v != "none"
	}
	return os.Getenv(envEndpoint) != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// Start sets the SDK up as the environment says. It sets none of OpenTelemetry's globals. Without OTEL_* variables and
// without [Config.Scrape] nothing is made and nothing is sent anywhere.
func Start(ctx context.Context, c Config) (*Providers, error) {
	p := &Providers{failed: &failures{}}
	p.Propagator = autoprop.NewTextMapPropagator(propagation.TraceContext{})
	if disabled := strings.EqualFold(os.Getenv(envDisabled), "true"); disabled {
		return p, nil
	}
	res, err := describe(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("telemetry: describe this process: %w", err)
	}
	for _, part := range []func(context.Context, Config, *resource.Resource) error{p.startTraces, p.startMetrics, p.startLogs} {
		if err := part(ctx, c, res); err != nil {
			return nil, errors.Join(err, p.Shutdown(ctx))
		}
	}
	return p, nil
}

// describe says what this process is. Its command line is left out, and its user: they may hold what is not to be told.
func describe(ctx context.Context, c Config) (*resource.Resource, error) {
	if c.Service == "" {
		c.Service = Scope
	}
	attrs := []attribute.KeyValue{semconv.ServiceName(c.Service)}
	for _, a := range []struct {
		value string
		make  func(string) attribute.KeyValue
	}{
		{c.Version, semconv.ServiceVersion}, {c.Instance, semconv.ServiceInstanceID},
		{c.Environment, func(s string) attribute.KeyValue { return semconv.DeploymentEnvironmentNameKey.String(s) }},
	} {
		if a.value != "" {
			attrs = append(attrs, a.make(a.value))
		}
	}
	res, err := resource.New(ctx, resource.WithSchemaURL(SchemaURL), resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithContainerID(), resource.WithProcessPID(), resource.WithProcessExecutableName(),
		resource.WithProcessRuntimeName(), resource.WithProcessRuntimeVersion(),
		resource.WithAttributes(attrs...), resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) || errors.Is(err, resource.ErrSchemaURLConflict) {
		err = nil // what could be found out is enough
	}
	return res, err
}

// Exporting reports whether something is sent out, as opposed to waiting for a scrape.
func (p *Providers) Exporting() bool { return p.exporting }

func (p *Providers) startTraces(ctx context.Context, _ Config, res *resource.Resource) error {
	if !wanted("TRACES") {
		return nil
	}
	p.exporting = true
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("telemetry: traces: %w", err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spanExporter{exporter, p.failed}))
	p.Tracers = tp
	p.shutdown = append(p.shutdown, tp.Shutdown)
	return nil
}

func (p *Providers) startMetrics(ctx context.Context, c Config, res *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(res)}
	if wanted("METRICS") {
		p.exporting = true
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return fmt.Errorf("telemetry: metrics: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	if c.Scrape {
		registry := prometheus.NewRegistry()
		reader, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo(),
			promexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
		if err != nil {
			return fmt.Errorf("telemetry: metrics for Prometheus: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
		p.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError})
	}
	if len(options) == 1 {
		return nil
	}
	mp := sdkmetric.NewMeterProvider(options...)
	p.Meters = mp
	p.shutdown = append(p.shutdown, mp.Shutdown)
	if err := runtimemetrics.Start(runtimemetrics.WithMeterProvider(mp)); err != nil {
		return fmt.Errorf("telemetry: metrics of the runtime: %w", err)
	}
	m, err := newMetrics(mp.Meter(Scope, metric.WithSchemaURL(SchemaURL)))
	if err != nil {
		return fmt.Errorf("telemetry: make the instruments: %w", err)
	}
	p.failed.report(m)
	m.Built(ctx, ReadBuild(c.Version))
	return nil
}

func (p *Providers) startLogs(ctx context.Context, _ Config, res *resource.Resource) error {
	if !wanted("LOGS") {
		return nil
	}
	p.exporting = true
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return fmt.Errorf("telemetry: logs: %w", err)
	}
	lp := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(logExporter{exporter, p.failed})))
	p.Loggers = lp
	p.shutdown = append(p.shutdown, lp.Shutdown)
	return nil
}

// Shutdown sends what is still held, traces first and logs last, and ends the SDK. Call it when everything that records
// has ended, with a context that is still good. It may be called again.
func (p *Providers) Shutdown(ctx context.Context) error {
	var errs []error
	for _, f := range p.shutdown {
		errs = append(errs, f(ctx))
	}
	p.shutdown = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("telemetry: shut down: %w", err)
	}
	return nil
}
