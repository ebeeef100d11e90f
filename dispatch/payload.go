package dispatch

import (
	"time"

	"toolsearch/catalog"
	"toolsearch/connectors"
)

// NewPayload is what a Host or Connectors plan is to do, as the session's scope says how. A name that no connector can
// have is refused here, as one entry of its batch, and its siblings go on. A zero deadline is none.
func NewPayload(p *Plan, s *catalog.Scope, deadline time.Time) Payload {
	out := Payload{Surface: s.Surface(), Deadline: deadline, Entries: make([]CallEntry, len(p.Entries))}
	if h := s.Hooks(); h != nil {
		out.Hooks = *h
	}
	if p.Kind == Host {
		out.Host, out.Toolset, out.Parallel, out.Parameters = p.Tool.Host, p.Tool.Toolset, p.Tool.Parallel, p.Tool.Parameters
	}
	for i, e := range p.Entries {
		out.Entries[i] = CallEntry{Name: e.Name, Arguments: e.Arguments}
		if p.Kind != Connectors {
			continue
		}
		if _, ok := connectors.ParseName(e.Name); !ok {
			out.Entries[i].Refused = connectors.Malformed(i, e.Name).Error
		}
	}
	return out
}
