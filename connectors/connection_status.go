package connectors

import (
	"context"
	"slices"
	"strings"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// The states of an app that the gateway has no word of its own for.
const (
	stateConnected    = "connected"
	stateNotConnected = "not_connected"
	stateDisabled     = "disabled"
)

// maxSuggestions bounds what is proposed for one unknown name.
const maxSuggestions = 3

// Status answers status: how each app stands, or those that are named. Nothing is started. A sign-in that does not
// allow it is told in the reply.
func (g *Gateway) Status(ctx context.Context, tenant string, targets []ManageTarget) *subjects.ConnectionsStatus {
	in := g.SignIn(ctx, tenant)
	var apps []Connector
	if in == SignInOK {
		var err error
		apps, err = g.client.List(ctx, tenant)
		in = SignInOf(err)
	}
	out := &subjects.ConnectionsStatus{Connectors: []subjects.ConnectorStatus{}}
	if in != SignInOK {
		out.Status, out.Reason, out.Hint = in.status(), string(in), in.hint()
		return out
	}
	names := make([]string, len(apps))
	broken := ""
	for i, app := range apps {
		names[i] = lower(app.Connector)
		if !slices.ContainsFunc(targets, func(t ManageTarget) bool { return t.Name == names[i] }) && len(targets) > 0 {
			continue
		}
		s := statusOf(app)
		if broken == "" && !s.Connected && s.State != stateDisabled {
			broken = s.Name
		}
		out.Connectors = append(out.Connectors, s)
	}
	for _, t := range targets {
		if !slices.Contains(names, t.Name) {
			out.Unknown = append(out.Unknown, subjects.UnknownConnector{Name: t.Name, DidYouMean: nearest(t.Name, names)})
		}
	}
	out.Hint = statusHint(out, broken)
	return out
}

func statusOf(app Connector) subjects.ConnectorStatus {
	s := subjects.ConnectorStatus{Name: lower(app.Connector), Connected: app.Connected && app.Enabled, State: stateNotConnected}
	switch {
	case !app.Enabled:
		s.State = stateDisabled
	case app.Connected:
		s.State = stateConnected
	case app.ConnectionStatus != nil && *app.ConnectionStatus != "active":
		s.State = *app.ConnectionStatus
	}
	if app.StatusReason != nil {
		s.Detail = clip(*app.StatusReason, maxBareText)
	}
	return s
}

func statusHint(s *subjects.ConnectionsStatus, broken string) string {
	switch {
	case len(s.Unknown) > 0 && len(s.Connectors) == 0:
		return `No app has that name. Take one of did_you_mean, or list all with {"action": "status"}.`
	case len(s.Connectors) == 0:
		return "There are no remote apps."
	case broken == "":
		return "Tools of connected apps are found with tool_search."
	}
	return `To connect an app call manage_connections with {"action": "connect", "connectors": [` +
		string(subjects.AppendString(nil, broken)) + `]}.`
}

// nearest are the names closest to one that no app has: those that hold it or are held, then those a few letters away.
func nearest(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, n := range names {
		most := max(1, min(len(name), len(n))/3)
		d := catalog.SlipsBetween([]rune(name), []rune(n), most)
		if strings.Contains(n, name) || strings.Contains(name, n) {
			d = min(d, 1)
		}
		if d <= most {
			found = append(found, candidate{n, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, c := range found[:min(len(found), maxSuggestions)] {
		out = append(out, c.name)
	}
	return out
}
