package linking

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"toolsearch/connectors"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// recording is an observer that tells a recorder, and then next. All its functions are set. The context that a watch
// gives it holds the watch's span.
func recording(r *telemetry.Recorder, next *connectors.OperationObserver) *connectors.OperationObserver {
	if next == nil {
		next = &connectors.OperationObserver{}
	}
	m := r.Metrics()
	return &connectors.OperationObserver{
		Opened: func(ctx context.Context, o *connectors.Operation) {
			m.OperationOpened(ctx, string(o.Action), string(o.Surface))
			if next.Opened != nil {
				next.Opened(ctx, o)
			}
		},
		TakenOver: func(ctx context.Context, o *connectors.Operation) {
			m.OperationTakenOver(ctx)
			if next.TakenOver != nil {
				next.TakenOver(ctx, o)
			}
		},
		Moved: func(ctx context.Context, o *connectors.Operation, t connectors.TargetMove) {
			telemetry.LinkingOf(ctx).Moved(t.Name, t.Kind, string(t.From), string(t.To))
			if next.Moved != nil {
				next.Moved(ctx, o, t)
			}
		},
		Round: func(ctx context.Context, o *connectors.Operation, round connectors.Round) {
			m.WatchRound(ctx, round.Parked)
			telemetry.LinkingOf(ctx).Round(round.Reads, round.Failed, round.Parked)
			if next.Round != nil {
				next.Round(ctx, o, round)
			}
		},
		Answered: func(ctx context.Context, o *connectors.Operation, answer, refusal string) {
			m.Answered(ctx, answer, refusal == "")
			if next.Answered != nil {
				next.Answered(ctx, o, answer, refusal)
			}
		},
		Settled: func(ctx context.Context, o *connectors.Operation, took time.Duration) {
			record(ctx, m, o, took)
			if next.Settled != nil {
				next.Settled(ctx, o, took)
			}
		},
	}
}

// record counts an operation that is over.
func record(ctx context.Context, m *telemetry.Metrics, o *connectors.Operation, took time.Duration) {
	m.OperationSettled(ctx, string(o.SettledBy), string(o.Surface), took)
	failed, open := 0, 0
	for _, t := range o.Targets {
		m.TargetSettled(ctx, t.Kind, string(t.State))
		switch t.State {
		case subjects.ConnectionFailed:
			failed++
		case subjects.ConnectionConnected, subjects.ConnectionSkipped:
		default:
			open++
		}
	}
	telemetry.LinkingOf(ctx).Settled(string(o.SettledBy), failed, open)
}

// spans opens the spans of what this package does and sends.
type spans struct {
	rec                      *telemetry.Recorder
	publishCard, requestHost *telemetry.Operation
}

func newSpans(rec *telemetry.Recorder, root subjects.Root) *spans {
	return &spans{rec: rec,
		publishCard: telemetry.PublishOf(root.Template(subjects.FamilyCard, "{operation}")),
		requestHost: telemetry.RequestOf(root.Template(subjects.FamilyHost, subjects.HostCall)),
	}
}

// watch opens the span of a watch.
func (s *spans) watch(ctx context.Context, o *connectors.Operation, takenOver bool) (context.Context, *telemetry.LinkingSpan) {
	return s.rec.Linking(ctx, telemetry.Linking{ID: o.ID, Session: o.Session, Action: string(o.Action), Surface: string(o.Surface),
		Targets: len(o.Targets), TakenOver: takenOver, Opened: o.Trace.Parent})
}

// send opens the span of a message about an operation that is about to be sent.
func (s *spans) send(ctx context.Context, o *telemetry.Operation, call string, m *nats.Msg) (context.Context, trace.Span) {
	return s.rec.Send(ctx, o, telemetry.Message{Subject: m.Subject, Conversation: call, Size: len(m.Data)}, m.Header)
}

// ended ends the span of a message, with the code of what kept it from being sent or answered.
func ended(span trace.Span, code string) {
	telemetry.Fail(span, code, true)
	span.End()
}
