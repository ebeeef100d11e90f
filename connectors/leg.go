package connectors

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// replyMargin is kept free of a caller's time for what comes after the leg: the join, the encoding, the reply. It is
// at most a tenth of the time that is left.
const replyMargin = 250 * time.Millisecond

// The bounds of a record's required names.
const (
	maxRequired     = 32 // names
	maxRequiredName = 64 // characters
)

// Search asks the gateway for tools that fit the queries, all in one request. Group i of the answer belongs to query
// i. It is nil where connectors are invisible: switched off, signed out, no gateway or a gateway that answers 404. A
// failure is in the Condition and comes without groups.
//
// The wait ends with the bound, with ctx, or at once while the tenant's breaker is open. Equal queries that a tenant
// asks at the same time share one request, and their answer: it is read only.
func (g *Gateway) Search(ctx context.Context, tenant string, queries []string) *catalog.RemoteSearch {
	if !g.Configured() || len(queries) == 0 {
		return nil
	}
	ctx, cancel := patience(ctx, g.searchBound)
	defer cancel()
	leg, ok := g.searches.do(ctx, flightKey(tenant, queries), func(ctx context.Context) (leg searchLeg) {
		leg.failure = FailureUnreachable
		defer g.recovered(ctx, RouteSearch)
		return g.search(ctx, tenant, queries)
	})
	switch {
	case !ok:
		return &catalog.RemoteSearch{Condition: Condition(FailureUnreachable, Searched, nil)}
	case leg.hidden:
		return nil
	}
	return &catalog.RemoteSearch{Groups: leg.groups, Condition: Condition(leg.failure, Searched, nil)}
}

func (g *Gateway) search(ctx context.Context, tenant string, queries []string) searchLeg {
	wire := make([]Query, len(queries))
	for i, q := range queries {
		wire[i] = Query{UseCase: q}
	}
	var answer *SearchAnswer
	failure, hidden := g.ask(ctx, tenant, g.searchBound, func(ctx context.Context) (err error) {
		answer, err = g.client.Search(ctx, tenant, wire)
		return err
	})
	if failure != FailureNone || hidden {
		return searchLeg{failure: failure, hidden: hidden}
	}
	return searchLeg{groups: g.groups(ctx, queries, answer)}
}

// ask sends a leg's request through the tenant's breaker.
func (g *Gateway) ask(
	ctx context.Context, tenant string, bound time.Duration, send func(context.Context) error,
) (f Failure, hidden bool) {
	if !g.breakers.allow(tenant) {
		return FailureUnreachable, false
	}
	v := unknown // also where send panics
	defer func() { g.breakers.done(tenant, v) }()
	begun := g.clock.Now()
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := send(bounded)
	v = judge(ctx, err, g.clock.Now().Sub(begun))
	f = FailureOf(err)
	return f, err != nil && f == FailureNone
}

// groups turns an answer into the entries that join the local ranking.
func (g *Gateway) groups(ctx context.Context, queries []string, a *SearchAnswer) [][]catalog.RemoteTool {
	out := make([][]catalog.RemoteTool, len(queries))
	for _, r := range a.Results {
		if r.position < len(queries) && (r.UseCase == "" || r.UseCase == queries[r.position]) {
			out[r.position] = g.entries(ctx, r.Tools, a.Schemas)
		}
	}
	return out
}

// entries are the tools of one group. A slug without a schema is dropped, for nothing could be told of it, and so is
// one whose name would not parse, for it could never be called. Of two slugs with one name the prefixed one stays: it
// is the one that a call of that name would reach.
func (g *Gateway) entries(ctx context.Context, slugs []string, schemas map[string]Schema) []catalog.RemoteTool {
	var out []catalog.RemoteTool
	at := make(map[string]int, len(slugs))
	for _, slug := range slugs {
		s, ok := schemas[slug]
		if !ok || s.Connector == "" {
			continue
		}
		connector := lower(s.Connector)
		name := FormatName(connector, slug)
		parsed, ok := ParseName(name)
		if !ok {
			continue
		}
		tool := catalog.RemoteTool{Name: name, Connector: s.Connector, Slug: slug, Description: s.Description,
			Required: requiredNames(s.InputSchema), Parameters: s.InputSchema}
		i, twin := at[name]
		switch {
		case !twin:
			at[name] = len(out)
			out = append(out, tool)
		case out[i].Slug != slug:
			if slug == parsed.Slugs()[0] {
				out[i] = tool
			}
			g.log.WarnContext(ctx, "two gateway slugs give one name", slog.String("name", name), slog.String("kept", out[i].Slug))
		}
	}
	return out
}

// requiredNames are the names of a schema's required parameters, within the bounds of a record.
func requiredNames(schema json.RawMessage) []string {
	r := readRecord("", schema)
	out := []string{}
	for _, raw := range r.list("required", nullable) {
		if s, ok := readText(raw); ok && len(out) < maxRequired {
			out = append(out, clip(s, maxRequiredName))
		}
	}
	return out
}

// Describe asks the gateway for the schemas of the connector names among names, in one request that is sent at most
// twice. It is nil where connectors are invisible, as in [Gateway.Search], and where no name is a connector's. The
// schemas are by name as it was given; a name that the gateway does not know is not among them. The rules of Search
// on waiting and sharing hold here too.
func (g *Gateway) Describe(ctx context.Context, tenant string, names []string) *catalog.RemoteDescribe {
	if !g.Configured() {
		return nil
	}
	asked, slugs := describeSlugs(names)
	if len(asked) == 0 {
		return nil
	}
	out := &catalog.RemoteDescribe{Schemas: map[string]subjects.ToolSchema{}}
	if len(slugs) == 0 {
		return out
	}
	ctx, cancel := patience(ctx, g.describeBound)
	defer cancel()
	leg, ok := g.describes.do(ctx, flightKey(tenant, slugs), func(ctx context.Context) (leg describeLeg) {
		leg.failure = FailureUnreachable
		defer g.recovered(ctx, RouteSchemas)
		return g.describe(ctx, tenant, slugs)
	})
	switch {
	case !ok:
		leg.failure = FailureUnreachable
	case leg.hidden:
		return nil
	}
	if leg.failure != FailureNone {
		out.Failed, out.Condition = true, Condition(leg.failure, Described, asked)
		return out
	}
	for _, name := range asked {
		if s, ok := schemaOf(name, leg.schemas); ok {
			out.Schemas[name] = subjects.ToolSchema{Description: s.Description, Parameters: s.InputSchema}
		}
	}
	return out
}

// describeSlugs picks the connector names, each once, and the slugs that they may stand for, each once and in the
// order in which they were first seen.
func describeSlugs(names []string) (asked, slugs []string) {
	seenName, seenSlug := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		if !IsName(name) || seenName[name] {
			continue
		}
		seenName[name] = true
		asked = append(asked, name)
		parsed, ok := ParseName(name)
		if !ok {
			continue
		}
		for _, slug := range parsed.Slugs() {
			if !seenSlug[slug] {
				seenSlug[slug] = true
				slugs = append(slugs, slug)
			}
		}
	}
	return asked, slugs
}

// schemaOf is the schema of the first of a name's slugs that the gateway knows.
func schemaOf(name string, schemas map[string]Schema) (Schema, bool) {
	parsed, ok := ParseName(name)
	if !ok {
		return Schema{}, false
	}
	for _, slug := range parsed.Slugs() {
		if s, ok := schemas[slug]; ok {
			return s, true
		}
	}
	return Schema{}, false
}

func (g *Gateway) describe(ctx context.Context, tenant string, slugs []string) describeLeg {
	var answer *SchemasAnswer
	failure, hidden := g.ask(ctx, tenant, g.describeBound, func(ctx context.Context) (err error) {
		answer, err = g.client.Schemas(ctx, tenant, slugs)
		return err
	})
	if failure != FailureNone || hidden {
		return describeLeg{failure: failure, hidden: hidden}
	}
	return describeLeg{schemas: answer.Schemas}
}

// recovered keeps a bug in reading an answer from ending the process: the leg counts as failed.
func (g *Gateway) recovered(ctx context.Context, route Route) {
	if r := recover(); r != nil {
		g.log.ErrorContext(ctx, "gateway leg panicked", slog.String("route", string(route)), slog.String("panic", fmt.Sprint(r)))
	}
}

// patience bounds a leg's wait and leaves the caller time to answer.
func patience(ctx context.Context, bound time.Duration) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		bound = min(bound, left-min(replyMargin, left/10))
	}
	return context.WithTimeout(ctx, bound)
}

// flightKey tells apart what may share a request: the tenant and the words, each with its length before it.
func flightKey(tenant string, words []string) string {
	var b strings.Builder
	b.WriteString(tenant)
	for _, w := range words {
		b.WriteByte('\n')
		b.WriteString(strconv.Itoa(len(w)))
		b.WriteByte(':')
		b.WriteString(w)
	}
	return b.String()
}
