package catalog

import (
	"encoding/json"
	"slices"
	"strings"

	"toolsearch/subjects"
)

// The clips of what a search tells of one tool, in characters and names.
const (
	maxRecordDescription = 500
	maxRecordRequired    = 32
	maxRequiredName      = 64
)

// SearchQuery is a tool_search that was read from what a model wrote.
type SearchQuery struct {
	// Queries are 1 to [MaxQueries] trimmed texts, repeats included, each at most [MaxListItem] characters.
	Queries []string
	// Limit is the most matches for each query, 1 to the configuration's bound.
	Limit int
}

// RemoteSearch is what the connectors' gateway found for the same queries.
type RemoteSearch struct {
	// Groups holds the tools found, group i for query i; it may be shorter than the queries.
	Groups [][]RemoteTool
	// Condition says why nothing could be asked, nil if it could. It becomes a part of the reply.
	Condition *subjects.ConnectorsCondition
}

// RemoteTool is one tool of a connector.
type RemoteTool struct {
	// Name is the composed name, connectors__<connector>__<tool>.
	Name string
	// Connector is the connector as the gateway spells it, Slug the tool as the gateway names it.
	Connector, Slug string
	Description     string
	Required        []string
	Parameters      json.RawMessage // nil is {}
}

// ParseSearch reads the arguments of a tool_search. What a model may have written wrong is a [*subjects.ToolError],
// worded for it; arguments that are neither an object nor a string are a [*subjects.Error].
func (s *Scope) ParseSearch(arguments json.RawMessage) (*SearchQuery, error) {
	fields, err := argumentFields(arguments)
	if err != nil {
		return nil, err
	}
	queries, err := stringList("queries", fields["queries"], MaxQueries, false)
	if err != nil {
		return nil, err
	}
	limit, ok := readInt(fields["limit"])
	if !ok {
		limit = s.config.SearchDefaultLimit
	}
	return &SearchQuery{Queries: queries, Limit: min(max(limit, 1), s.config.MaxSearchLimit)}, nil
}

// Search answers a query from the scope's deferred tools and from what the gateway found; remote is nil where it was
// not asked. The tools of both are ranked as one list, by the statistics of exactly these.
func (s *Scope) Search(q *SearchQuery, remote *RemoteSearch) *subjects.SearchReply {
	a := searchAnswer{scope: s, query: q, recorded: make(map[string]bool), reply: &subjects.SearchReply{
		Queries: q.Queries,
		Results: make([]subjects.SearchGroup, 0, len(q.Queries)),
		Tools:   make(subjects.Ordered[subjects.ToolRecord], 0, len(q.Queries)*q.Limit),
	}}
	for i, query := range q.Queries {
		var found []RemoteTool
		if remote != nil && i < len(remote.Groups) {
			found = remote.Groups[i]
		}
		a.group(query, found)
	}
	a.recordNear()
	a.reply.TotalAvailable = s.deferred.Len() + a.remoteTold
	if remote != nil {
		a.reply.Connectors = remote.Condition
	}
	return a.reply
}

// searchAnswer is one reply in the making.
type searchAnswer struct {
	scope      *Scope
	query      *SearchQuery
	reply      *subjects.SearchReply
	recorded   map[string]bool // the names that have a record
	nearTools  []nearTool
	remoteTold int
	sources    []subjects.AvailableSource // made once, for the first empty group
}

func (a *searchAnswer) group(query string, found []RemoteTool) {
	c := a.scope.catalog
	extra := remoteDocs(found)
	hits, total := rank(c, a.scope.deferred, query, a.query.Limit, extra)
	group := subjects.SearchGroup{Query: query, Matches: make([]string, len(hits))}
	for i, h := range hits {
		name, remote := a.told(h.doc, found)
		group.Matches[i] = name
		if a.record(h.doc, found) && remote {
			a.remoteTold++
		}
	}
	if total > len(hits) {
		group.TotalMatches, group.Truncated = total, true
	}
	if len(hits) == 0 {
		a.near(&group, found, extra)
	}
	a.reply.Results = append(a.reply.Results, group)
}

// near completes a group without matches: the closest tools, what is wrong with the query, and what there is instead.
func (a *searchAnswer) near(group *subjects.SearchGroup, found []RemoteTool, extra []extraDoc) {
	n := near(a.scope.catalog, a.scope.deferred, group.Query, a.query.Limit, extra, 0)
	group.UnknownWords, group.DidYouMean = n.unknown, n.suggestions
	if n.confident() {
		group.Near = make([]string, len(n.hits))
		for i, h := range n.hits {
			group.Near[i], _ = a.told(h.doc, found)
			a.nearTools = append(a.nearTools, nearTool{h.doc, found})
		}
	}
	group.AvailableSources = a.availableSources()
	switch {
	case len(group.Near) > 0:
		group.Hint = textNear(group.UnknownWords)
	case len(group.AvailableSources) > 0:
		group.Hint = textEmptyGroup
	}
}

// nearTool is a tool whose record is still to be told.
type nearTool struct {
	doc   int
	found []RemoteTool
}

// recordNear adds the records of the near tools, after those of all matches: these stand where they would without any.
// The number of tools that are available does not count them.
func (a *searchAnswer) recordNear() {
	for _, t := range a.nearTools {
		a.record(t.doc, t.found)
	}
}

// told is the name of a document, and whether it is a tool of a connector.
func (a *searchAnswer) told(doc int, found []RemoteTool) (name string, remote bool) {
	if local := a.scope.catalog.Len(); doc >= local {
		return found[doc-local].Name, true
	}
	return a.scope.catalog.tools[doc].Name, false
}

// record adds the record of a document whose name has none yet, and reports whether it did.
func (a *searchAnswer) record(doc int, found []RemoteTool) bool {
	name, remote := a.told(doc, found)
	if a.recorded[name] {
		return false
	}
	a.recorded[name] = true
	record := subjects.Pair[subjects.ToolRecord]{Key: name}
	if remote {
		record.Value = remoteRecord(&found[doc-a.scope.catalog.Len()])
	} else {
		record.Value = localRecord(&a.scope.catalog.tools[doc])
	}
	a.reply.Tools = append(a.reply.Tools, record)
	return true
}

func (a *searchAnswer) availableSources() []subjects.AvailableSource {
	if a.sources == nil {
		a.sources = a.scope.availableSources()
	}
	return a.sources
}

// availableSources lists the labels of the deferred tools with their counts and the sources that are unavailable,
// sorted by name. A label that has tools wins over an unavailable source of its name.
func (s *Scope) availableSources() []subjects.AvailableSource {
	counts := map[string]*int{}
	var sources []subjects.AvailableSource
	labels := s.catalog.labels
	for r := range s.deferred.allRuns() {
		for start := r.start; start < r.end; {
			for labels[0].end <= start {
				labels = labels[1:]
			}
			end, count := min(r.end, labels[0].end), counts[labels[0].label]
			if count == nil {
				count = new(int)
				counts[labels[0].label] = count
				sources = append(sources, subjects.AvailableSource{Name: labels[0].label, ToolCount: count})
			}
			*count += int(end - start)
			start = end
		}
	}
	for _, u := range s.unavailable {
		if counts[u.Name] == nil {
			sources = append(sources, subjects.AvailableSource{Name: u.Name, ToolCount: u.ToolCount, Unavailable: u.Reason})
		}
	}
	slices.SortStableFunc(sources, func(a, b subjects.AvailableSource) int { return strings.Compare(a.Name, b.Name) })
	return sources
}

// remoteDocs is what is indexed of the gateway's tools: the connector, the words of the slug, the description. Their
// parameters are not.
func remoteDocs(found []RemoteTool) []extraDoc {
	if len(found) == 0 {
		return nil
	}
	docs := make([]extraDoc, len(found))
	for i := range found {
		t := &found[i]
		docs[i] = extraDoc{
			name: t.Name, text: t.Connector + " " + strings.ReplaceAll(t.Slug, "_", " ") + " " + t.Description,
			source: t.Connector, title: remoteTitle(t), about: t.Description,
		}
	}
	return docs
}

// remoteTitle is the slug without the connector that it mostly begins with, which is the source.
func remoteTitle(t *RemoteTool) string {
	if rest := len(t.Connector); len(t.Slug) > rest+1 && t.Slug[rest] == '_' && strings.EqualFold(t.Slug[:rest], t.Connector) {
		return t.Slug[rest+1:]
	}
	return t.Slug
}

func localRecord(t *Tool) subjects.ToolRecord {
	kind, name := t.Source()
	return subjects.ToolRecord{
		Source: kind, SourceName: name, Description: clip(t.Description, maxRecordDescription),
		Required: requiredNames(t.required),
	}
}

func remoteRecord(t *RemoteTool) subjects.ToolRecord {
	required := make([]string, 0, min(len(t.Required), maxRecordRequired))
	for _, name := range t.Required[:min(len(t.Required), maxRecordRequired)] {
		required = append(required, cutRunes(name, maxRequiredName))
	}
	return subjects.ToolRecord{
		Source: "connectors", SourceName: t.Connector, Description: clip(t.Description, maxRecordDescription),
		Required: required,
	}
}

// requiredNames reads the "required" of a schema: the strings of a list, each cut short, and not too many of them.
// Anything else is an empty list.
func requiredNames(raw []byte) []string {
	names := []string{}
	c := cursor{data: raw}
	if c.peek() != '[' {
		return names
	}
	_ = c.array(func() error { // the text was read before, so it has no error of syntax
		if c.peek() != '"' {
			return c.skip()
		}
		text, err := c.text()
		if err == nil && len(names) < maxRecordRequired {
			name, _ := unquote(text)
			names = append(names, cutRunes(name, maxRequiredName))
		}
		return err
	})
	return names
}
