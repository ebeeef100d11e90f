package connectors

import (
	"errors"
	"slices"
)

// mint asks the gateway for links: once for all targets without an alias, and once for each with one. reconnect first
// lists what is connected and leaves that alone, unless it is forced.
func (s *shift) mint(op *Operation, targets []Target) {
	g := s.w.Gateway
	if in := g.SignIn(s.work, op.Tenant); in != SignInOK {
		for i := range targets {
			s.failed(&targets[i], in.hint())
		}
		return
	}
	if op.Action == ActionReconnect && !op.Force {
		targets = s.unconnected(op, targets)
	}
	again := func(t Target) bool { return op.Action == ActionReconnect || t.Attempt > 1 }
	var groups [][]Target
	for _, t := range targets {
		i := slices.IndexFunc(groups, func(have []Target) bool {
			return t.Alias == "" && have[0].Alias == "" && again(have[0]) == again(t)
		})
		if i < 0 {
			groups = append(groups, []Target{t})
		} else {
			groups[i] = append(groups[i], t)
		}
	}
	for _, group := range groups {
		s.mintGroup(op, group, again(group[0]))
	}
}

// unconnected tells of the targets that need no repair, and returns the others.
func (s *shift) unconnected(op *Operation, targets []Target) []Target {
	apps, err := s.w.Gateway.client.List(s.work, op.Tenant)
	if err != nil {
		for i := range targets {
			s.failed(&targets[i], SignInOf(err).hint())
		}
		return nil
	}
	return slices.DeleteFunc(targets, func(t Target) bool {
		whole := t.Alias == "" && slices.ContainsFunc(apps, func(a Connector) bool {
			return lower(a.Connector) == t.Name && a.Connected && a.Enabled
		})
		if whole {
			s.send(s.findingOf(&t, CauseFind, func(t *Target) { t.Detail = "It was connected already." }))
		}
		return whole
	})
}

func (s *shift) mintGroup(op *Operation, group []Target, again bool) {
	r := ConnectionsRequest{Reinitiate: again, Alias: group[0].Alias, Op: op.ID}
	for _, t := range group {
		r.Connectors = append(r.Connectors, t.Name)
	}
	answer, err := s.w.Gateway.client.Connections(s.work, op.Tenant, r)
	for i := range group {
		t := &group[i]
		if err != nil {
			s.failed(t, startFailure(err))
			continue
		}
		at := slices.IndexFunc(answer.Results, func(c ConnectionResult) bool { return lower(c.Connector) == t.Name })
		if at < 0 {
			s.failed(t, detailNoResult)
			continue
		}
		s.minted(t, &answer.Results[at])
	}
}

// startFailure words why a start failed: the sign-in where that is it. One that may have taken effect is not told as if
// nothing had happened: how the app stands is asked for before anything is started again.
func startFailure(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Unclear {
		return detailUnclear
	}
	if in := SignInOf(err); in != SignInUnreachable || !errors.As(err, &e) || e.Kind != KindRateLimited {
		return in.hint()
	}
	return "The gateway has had too many requests; try again later."
}

func (s *shift) minted(t *Target, c *ConnectionResult) {
	switch {
	case c.Status == "active":
		s.send(s.findingOf(t, CauseFind, nil))
	case c.Status == "failed":
		s.failed(t, textOf(c.StatusReason, "The gateway refused it."))
	case textOf(c.ConnectURL, "") == "":
		s.failed(t, detailNoLink)
	case len(*c.ConnectURL) > maxLink:
		s.failed(t, detailLongLink)
	default:
		s.send(s.findingOf(t, CauseBegin, func(t *Target) {
			t.ConnectURL, t.Instruction, t.ConnectionID = *c.ConnectURL, textOf(c.Instruction, ""), textOf(c.ConnectionID, "")
		}))
	}
}

func textOf(p *string, fallback string) string {
	if p == nil || *p == "" {
		return fallback
	}
	return clip(*p, maxMessage)
}
