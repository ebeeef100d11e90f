package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"toolsearch/subjects"
)

// LocalServers is the tool host that owns local MCP servers.
type LocalServers interface {
	// Ask runs one action on one server. Asking again under the same key runs nothing twice.
	Ask(ctx context.Context, r LocalRequest) (*LocalAnswer, error)
}

// LocalRequest is one action on one local MCP server.
type LocalRequest struct {
	Tenant, Host, Call string
	Action             string // install, enable, authorize; status while a link waits for the user
	Name               string
	Key                string
	Deadline           time.Time
	Trace              OperationTrace
}

// LocalAnswer is what a host says of a local server: connected, initiated (with a link for the user) or failed.
type LocalAnswer struct {
	State      subjects.ConnectionState `json:"state"`
	Detail     string                   `json:"detail,omitempty"`
	ConnectURL string                   `json:"connect_url,omitempty"`
	Tools      json.RawMessage          `json:"tools,omitempty"`
}

// askLocal has a local server worked on.
func (s *shift) askLocal(ctx context.Context, op *Operation, t Target, action, key string) {
	if s.w.Local == nil || t.Host == "" {
		s.failed(&t, textNoHost)
		return
	}
	deadline := op.Deadline
	wait := localWait
	if action == actionStatusW {
		wait = localTick
	}
	if soon := s.clock.Now().Add(wait); (!op.Card() || action == actionStatusW) && soon.Before(deadline) {
		deadline = soon
	}
	ctx, cancel := context.WithTimeout(ctx, deadline.Sub(s.clock.Now()))
	defer cancel()
	answer, err := s.w.Local.Ask(ctx, LocalRequest{Tenant: op.Tenant, Host: t.Host, Call: op.ID, Action: action, Name: t.Name,
		Key: key, Deadline: deadline, Trace: op.Trace})
	if err != nil {
		var said *subjects.ToolError
		detail := localUnsure
		if errors.As(err, &said) {
			detail = clip(said.Message, maxMessage)
		}
		if t.State == subjects.ConnectionStarting { // a status that fails is asked for again
			s.failed(&t, detail)
		}
		return
	}
	s.answered(&t, answer)
}

func (s *shift) answered(t *Target, a *LocalAnswer) {
	apply := func(t *Target) {
		t.Detail, t.ConnectURL, t.Tools = clip(a.Detail, maxMessage), a.ConnectURL, a.Tools
		if len(a.Tools) > maxTools {
			t.Detail, t.Tools = detailLongTools, nil
		}
	}
	if len(a.ConnectURL) > maxLink {
		s.failed(t, detailLongLink)
		return
	}
	starting := t.State == subjects.ConnectionStarting
	switch {
	case a.State == subjects.ConnectionConnected && starting:
		s.send(s.findingOf(t, CauseFind, apply))
	case a.State == subjects.ConnectionConnected:
		s.send(s.findingOf(t, CauseConnect, apply))
	case a.State == subjects.ConnectionInitiated && starting:
		s.send(s.findingOf(t, CauseBegin, apply))
	case a.State == subjects.ConnectionInitiated:
	default:
		s.send(s.findingOf(t, CauseFail, apply))
	}
}

// readLocal asks a host, at its own slower pace, whether the user is done.
func (s *shift) readLocal(ctx context.Context, op *Operation, t *Target) {
	round := int64(s.clock.Now().Sub(op.Deadline) / localTick) // the same key for all asks of one interval
	probe := *t
	probe.Attempt = int(round) - 1 // no start has it: they count from 1
	s.askLocal(ctx, op, *t, actionStatusW, op.key(&probe))
}
