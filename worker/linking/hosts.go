package linking

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"toolsearch/catalog"
	"toolsearch/connectors"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// The bounds of what is asked of hosts.
const (
	announceWait  = 2 * time.Second
	hostAttempts  = 3
	hostPause     = 200 * time.Millisecond
	maxCandidates = 32
)

// The texts of local servers, for a model.
const (
	textHostAway  = "The host of local MCP servers is not there. Nothing was done; tell the user to start it."
	textHostReply = "The host of local MCP servers answered with something that is no result; check there what became of it."
)

// hosts reaches the tool hosts that own local MCP servers.
type hosts struct {
	nc    *nats.Conn
	root  subjects.Root
	spans *spans
}

var _ connectors.LocalServers = (*hosts)(nil)

// owner asks the candidates side by side for their tools, and returns the first one, in their order, that announces
// that it owns local servers.
func (h *hosts) owner(ctx context.Context, tenant string, candidates []string) string {
	ctx, cancel := context.WithTimeout(ctx, announceWait)
	defer cancel()
	var names []string
	for _, c := range candidates {
		if subjects.ValidToken(c) && !slices.Contains(names, c) && len(names) < maxCandidates {
			names = append(names, c)
		}
	}
	owns := make([]chan bool, len(names))
	for i, name := range names {
		owns[i] = make(chan bool, 1)
		go func() { owns[i] <- h.announces(ctx, tenant, name) }()
	}
	found := ""
	for i, name := range names {
		if <-owns[i] && found == "" {
			found = name
			cancel()
		}
	}
	return found
}

func (h *hosts) announces(ctx context.Context, tenant, host string) bool {
	m, err := h.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: h.root.Host(tenant, host, subjects.HostList)})
	if err != nil {
		return false
	}
	var reply struct {
		LocalServers bool `json:"local_servers"`
	}
	return json.Unmarshal(m.Data, &reply) == nil && reply.LocalServers
}

// Ask has the host run manage_connections for one server. It is asked again only where nobody was there or the host was
// full; the key makes that safe.
func (h *hosts) Ask(ctx context.Context, r connectors.LocalRequest) (*connectors.LocalAnswer, error) {
	arguments, err := subjects.Marshal(subjects.ConnectionsArguments{Action: r.Action,
		Connectors: []subjects.ConnectionTarget{{Name: r.Name, MCP: true}}})
	if err != nil {
		return nil, err
	}
	body, err := subjects.Marshal(subjects.HostRequest{CallID: r.Call, Name: catalog.ManageConnections, Arguments: arguments,
		IdempotencyKey: r.Key, Deadline: r.Deadline.UTC()})
	if err != nil {
		return nil, err
	}
	header := traceHeader(r.Trace)
	header[subjects.HeaderCall] = []string{r.Call}
	m := &nats.Msg{Subject: h.root.Host(r.Tenant, r.Host, subjects.HostCall), Header: header, Data: body}
	for attempt := 1; ; attempt++ {
		answer, again, err := h.asked(ctx, m, r.Call)
		if !again || attempt == hostAttempts {
			return answer, err
		}
		t := time.NewTimer(hostPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

// asked is once inside its span, which gets a code and none of the host's words.
func (h *hosts) asked(ctx context.Context, m *nats.Msg, call string) (_ *connectors.LocalAnswer, again bool, err error) {
	ctx, span := h.spans.send(ctx, h.spans.requestHost, call, m)
	answer, code, err := h.once(ctx, m)
	ended(span, code)
	return answer, code == codeAway || code == string(subjects.CodeOverloaded), err
}

// The codes of what is no answer of a host.
const (
	codeAway      = "no_responders"
	codeBadAnswer = "bad_answer"
)

// once asks once. code names the error, "" for none.
func (h *hosts) once(ctx context.Context, m *nats.Msg) (_ *connectors.LocalAnswer, code string, err error) {
	reply, err := h.nc.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, codeAway, &subjects.ToolError{Message: textHostAway}
	case err != nil:
		return nil, telemetry.BusErrorCode(err), err
	}
	var said subjects.HostReply
	if subjects.CheckForeign(reply.Data) != nil || json.Unmarshal(reply.Data, &said) != nil || (said.Error == nil) == (said.Result == nil) {
		return nil, codeBadAnswer, &subjects.ToolError{Message: textHostReply}
	}
	if said.Error != nil {
		code = string(subjects.EntryToolError)
		if said.Error.Code == string(subjects.CodeOverloaded) {
			code = said.Error.Code
		}
		return nil, code, &subjects.ToolError{Message: said.Error.Message}
	}
	var answer connectors.LocalAnswer
	if json.Unmarshal(said.Result, &answer) != nil {
		return nil, codeBadAnswer, &subjects.ToolError{Message: textHostReply}
	}
	return &answer, "", nil
}
