package catalog

import (
	"encoding/json"
	"strconv"
	"time"

	"toolsearch/subjects"
)

// Assemble answers an assemble request: the definitions that the model sees, byte for byte and in the order in which
// they came, then manage_connections where connectors are granted and the caller brought none of its own, then the bridge
// tools where there is anything to reach through them. A side surface sees no manage_connections at all.
// ExpiresAt is left to the caller, who has a clock. The definitions are parts of [Catalog.Raw] and must not be changed.
//
// The order in which the deferred tools came changes nothing in Tools.
func (s *Scope) Assemble() *subjects.AssembleReply {
	reply := &subjects.AssembleReply{
		Scope: s.handle, Catalog: s.catalog.digest, ListingForm: FormNone,
		UnknownToolsets: append([]string{}, s.unknown...),
		RejectedTools:   append([]subjects.RejectedTool{}, s.catalog.rejected...),
	}
	switch deferred := s.deferred.Len(); {
	case deferred == 0 && (s.config.Enabled == Off || !s.connectors):
		s.passThrough(reply)
	case deferred == 0:
		s.bridge(reply, listing{form: FormNone})
	case s.config.Enabled == Off:
		reply.DeferredCount, reply.DeferredTokens = deferred, s.deferredTokens()
		reply.ListingBudget = s.config.contextShare(s.context)
		s.passThrough(reply)
	default:
		reply.DeferredCount, reply.DeferredTokens = deferred, s.deferredTokens()
		reply.ListingBudget = s.config.Budget(&s.context)
		s.bridge(reply, s.listing(reply.ListingBudget))
	}
	return reply
}

// passThrough shows every granted tool and no bridge, tier 0.
func (s *Scope) passThrough(reply *subjects.AssembleReply) {
	reply.Tools = s.withConnections(s.definitions(s.Granted(), 1))
}

// bridge shows the tools in view and the bridge, tier 1 where the listing names tools and 2 where it does not.
func (s *Scope) bridge(reply *subjects.AssembleReply, l listing) {
	b := bridge{deferred: reply.DeferredCount, connectors: s.connectors, side: s.surface == subjects.SurfaceSide,
		listing: l, format: s.format}
	reply.Activated, reply.ListingForm, reply.Tier = true, l.form, 1
	if l.form == FormGroups || l.form == FormNone {
		reply.Tier = 2
	}
	const more = 4 // the bridge and manage_connections
	reply.Tools = append(s.withConnections(s.definitions(s.visible, more)), b.schemas()...)
}

// definitions collects the definitions of a set, with room for more.
func (s *Scope) definitions(set *Set, more int) []json.RawMessage {
	list := make([]json.RawMessage, 0, set.Len()+more)
	for i := range set.All() {
		if t := &s.catalog.tools[i]; !s.hidden(t.Name) {
			list = append(list, t.Definition)
		}
	}
	return list
}

// withConnections adds manage_connections behind the tools in view, where the caller brought none.
func (s *Scope) withConnections(list []json.RawMessage) []json.RawMessage {
	if s.suppliesConnections() {
		list = append(list, connectionsDefinition(s.format))
	}
	return list
}

// deferredTokens is what the deferred definitions would cost a model: a quarter of their characters, rounded up once.
func (s *Scope) deferredTokens() int {
	chars := 0
	for i := range s.deferred.All() {
		chars += int(s.catalog.tools[i].chars)
	}
	return (chars + charsPerToken - 1) / charsPerToken
}

// listing is the listing of the deferred tools within a budget of tokens, as the configuration wants it.
func (s *Scope) listing(budget int) listing {
	if s.config.Listing == Off {
		return listing{form: FormNone}
	}
	return newListing(s.groups(), s.unavailable, budget, s.config.Listing == On)
}

// groups sorts the deferred tools by label.
func (s *Scope) groups() []*listedGroup {
	byLabel := map[string]*listedGroup{}
	var groups []*listedGroup
	var last *listedGroup
	for i := range s.deferred.All() {
		t := &s.catalog.tools[i]
		label := t.Label()
		if last == nil || last.label != label {
			last = byLabel[label]
		}
		if last == nil {
			last = &listedGroup{label: label}
			byLabel[label] = last
			groups = append(groups, last)
		}
		last.tools = append(last.tools, listedTool{t.Name, ShortDescription(t.Description)})
	}
	return groups
}

// AppendAssembleReply appends the reply as JSON, with every definition byte for byte as it is. encoding/json would
// compact them.
func AppendAssembleReply(dst []byte, r *subjects.AssembleReply) []byte {
	text := func(key, value string) {
		dst = append(dst, key...)
		dst = subjects.AppendString(dst, value)
	}
	number := func(key string, value int) {
		dst = append(dst, key...)
		dst = strconv.AppendInt(dst, int64(value), 10)
	}
	text(`{"scope":`, r.Scope)
	text(`,"catalog":`, r.Catalog)
	text(`,"expires_at":`, r.ExpiresAt.Format(time.RFC3339Nano))
	dst = append(dst, `,"activated":`...)
	dst = strconv.AppendBool(dst, r.Activated)
	number(`,"tier":`, r.Tier)
	text(`,"listing_form":`, r.ListingForm)
	number(`,"deferred_count":`, r.DeferredCount)
	number(`,"deferred_tokens":`, r.DeferredTokens)
	number(`,"listing_budget":`, r.ListingBudget)
	dst = append(dst, `,"unknown_toolsets":[`...)
	for i, name := range r.UnknownToolsets {
		text(comma(i), name)
	}
	dst = append(dst, `],"rejected_tools":[`...)
	for i, t := range r.RejectedTools {
		text(comma(i)+`{"name":`, t.Name)
		text(`,"toolset":`, t.Toolset)
		text(`,"reason":`, t.Reason)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"tools":[`...)
	for i, definition := range r.Tools {
		dst = append(dst, comma(i)...)
		dst = append(dst, definition...)
	}
	return append(dst, "]}"...)
}

// comma separates element i of a list from the one before it.
func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}
