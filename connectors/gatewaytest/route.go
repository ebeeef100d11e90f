package gatewaytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The shapes on the wire.
type (
	wireSchema struct {
		Connector   string          `json:"connector"`
		Tool        string          `json:"tool"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	wireError struct {
		Code         string `json:"code"`
		Message      string `json:"message"`
		Connector    string `json:"connector,omitempty"`
		ConnectURL   string `json:"connectUrl,omitempty"`
		ConnectionID string `json:"connectionId,omitempty"`
		Hint         string `json:"hint,omitempty"`
	}
	wireRow struct {
		Index     int        `json:"index"`
		Connector string     `json:"connector"`
		Tool      string     `json:"tool"`
		Data      any        `json:"data"`
		Error     *wireError `json:"error"`
		Account   string     `json:"account,omitempty"`
	}
)

// maxFound is how many tools a search finds for one query.
const maxFound = 5

func badBody() reply {
	return refuse(http.StatusBadRequest, "BAD_REQUEST", "the body is not what this route takes")
}

func (t *Tool) schema(connector string) wireSchema {
	s := wireSchema{Connector: connector, Tool: t.Slug, Description: t.Description, InputSchema: t.InputSchema}
	if len(s.InputSchema) == 0 {
		s.InputSchema = json.RawMessage("{}")
	}
	return s
}

// search finds the tools that share most words with each query.
func (g *Gateway) search(in *incoming) reply {
	var q struct {
		Queries []struct {
			UseCase string `json:"useCase"`
		} `json:"queries"`
	}
	if json.Unmarshal(in.body, &q) != nil || len(q.Queries) == 0 {
		return badBody()
	}
	type result struct {
		Index        int      `json:"index"`
		UseCase      string   `json:"useCase"`
		Tools        []string `json:"tools"`
		RelatedTools []string `json:"relatedTools"`
		Connectors   []string `json:"connectors"`
	}
	results, schemas, connections := []result{}, map[string]wireSchema{}, []any{}
	for i, query := range q.Queries {
		r := result{Index: i, UseCase: query.UseCase, Tools: []string{}, RelatedTools: []string{}, Connectors: []string{}}
		for _, hit := range g.find(query.UseCase) {
			r.Tools = append(r.Tools, hit.tool.Slug)
			schemas[hit.tool.Slug] = hit.tool.schema(hit.app.Connector)
			if !slices.Contains(r.Connectors, hit.app.Connector) {
				r.Connectors = append(r.Connectors, hit.app.Connector)
			}
		}
		results = append(results, r)
	}
	for i := range g.apps {
		app := &g.apps[i]
		connections = append(connections, map[string]any{"connector": app.Connector, "description": app.Description,
			"connected": g.links.linked(in.tenant, app)})
	}
	return answer(map[string]any{"results": results, "schemas": schemas, "connections": connections, "nextSteps": []string{}})
}

type hit struct {
	app   *App
	tool  *Tool
	score int
}

func (g *Gateway) find(query string) []hit {
	wanted := words(query)
	var hits []hit
	for i := range g.apps {
		app := &g.apps[i]
		for j := range app.Tools {
			tool := &app.Tools[j]
			has, score := words(app.Connector+" "+tool.Slug+" "+tool.Description), 0
			for w := range wanted {
				if has[w] {
					score++
				}
			}
			if score > 0 && !app.Disabled {
				hits = append(hits, hit{app, tool, score})
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return b.score - a.score })
	return hits[:min(len(hits), maxFound)]
}

func words(s string) map[string]bool {
	out := make(map[string]bool)
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, w := range strings.FieldsFunc(strings.ToLower(s), separates) {
		out[w] = true
	}
	return out
}

func (g *Gateway) schemas(in *incoming) reply {
	var q struct {
		Tools []string `json:"tools"`
	}
	if json.Unmarshal(in.body, &q) != nil {
		return badBody()
	}
	schemas, missing := map[string]wireSchema{}, []string{}
	for _, slug := range q.Tools {
		if app, tool := g.tool("", slug); tool != nil {
			schemas[slug] = tool.schema(app.Connector)
		} else {
			missing = append(missing, slug)
		}
	}
	return answer(map[string]any{"schemas": schemas, "notFound": missing, "suggestions": map[string]any{}})
}

// tool finds a tool by its slug, in one app or, for "", in all.
func (g *Gateway) tool(connector, slug string) (*App, *Tool) {
	for i := range g.apps {
		app := &g.apps[i]
		if connector != "" && !strings.EqualFold(connector, app.Connector) {
			continue
		}
		for j := range app.Tools {
			if app.Tools[j].Slug == slug {
				return app, &app.Tools[j]
			}
		}
	}
	return nil, nil
}

type wireCall struct {
	Connector string          `json:"connector"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// execute runs the calls of a request once for its key. What has begun is finished, whether the client waits or not.
func (g *Gateway) execute(in *incoming) reply {
	var q struct {
		Tools []wireCall `json:"tools"`
	}
	if json.Unmarshal(in.body, &q) != nil || len(q.Tools) == 0 {
		return badBody()
	}
	if in.key == "" {
		return g.run(in, q.Tools)
	}
	switch claimed, stored := g.store.claim(in.tenant, in.key, in.body); claimed {
	case finished:
		return reply{status: http.StatusOK, body: stored}
	case running:
		return refuse(http.StatusConflict, "IDEMPOTENCY_IN_PROGRESS",
			"the first request with this idempotency key is still running")
	case another:
		return refuse(http.StatusConflict, "IDEMPOTENCY_CONFLICT", "this idempotency key was used with another body")
	}
	r := g.run(in, q.Tools)
	g.store.finish(in.tenant, in.key, r.body)
	return r
}

func (g *Gateway) run(in *incoming, calls []wireCall) reply {
	ctx := context.WithoutCancel(in.Context())
	rows, ok := make([]wireRow, len(calls)), 0
	for i, c := range calls {
		rows[i] = g.row(ctx, in, c)
		rows[i].Index, rows[i].Connector, rows[i].Tool = i, c.Connector, c.Tool
		if rows[i].Error == nil {
			ok++
		}
	}
	return answer(map[string]any{"results": rows, "successCount": ok, "errorCount": len(rows) - ok, "totalCount": len(rows)})
}

func (g *Gateway) row(ctx context.Context, in *incoming, c wireCall) wireRow {
	app, tool := g.tool(c.Connector, c.Tool)
	switch {
	case tool == nil:
		return wireRow{Error: &wireError{Code: "TOOL_NOT_FOUND", Message: fmt.Sprintf("%s has no tool %s", c.Connector, c.Tool)}}
	case app.Disabled:
		return wireRow{Error: &wireError{Code: "TOOL_NOT_ALLOWED", Connector: app.Connector,
			Message: app.Connector + " is switched off by an administrator"}}
	case !g.links.linked(in.tenant, app):
		id := g.links.pending(in.tenant, app, "").id
		return wireRow{Error: &wireError{Code: "CONNECTION_REQUIRED", Connector: app.Connector,
			Message: app.Connector + " is not connected", ConnectURL: g.url + "/connect/" + id, ConnectionID: id,
			Hint: "Open the link, then call again."}}
	}
	if lacking := tool.lacking(c.Arguments); len(lacking) > 0 {
		return wireRow{Error: &wireError{Code: "PROVIDER_ERROR", Message: "missing arguments: " + strings.Join(lacking, ", ")}}
	}
	call := Call{Tenant: in.tenant, Key: in.key, Slug: c.Tool, Arguments: c.Arguments}
	if !tool.ReadOnly {
		call.Number = g.effects.add(func(n int) Effect {
			return Effect{Number: n, At: time.Now(), Tenant: in.tenant, Key: in.key, Slug: c.Tool, Arguments: c.Arguments}
		}).Number
	}
	return g.outcome(ctx, tool, call)
}

func (g *Gateway) outcome(ctx context.Context, tool *Tool, c Call) (row wireRow) {
	if tool.Run == nil {
		return wireRow{Data: map[string]any{"ok": true, "arguments": c.Arguments}}
	}
	defer func() {
		if r := recover(); r != nil {
			row = wireRow{Error: &wireError{Code: "PROVIDER_ERROR", Message: fmt.Sprintf("%s failed: %v", c.Slug, r)}}
		}
	}()
	data, err := tool.Run(ctx, c)
	var own *RowError
	switch {
	case errors.As(err, &own):
		return wireRow{Error: &wireError{Code: own.Code, Message: own.Message, Hint: own.Hint}}
	case err != nil:
		return wireRow{Error: &wireError{Code: "PROVIDER_ERROR", Message: err.Error()}}
	}
	return wireRow{Data: data}
}

// lacking are the required arguments that a call does not have.
func (t *Tool) lacking(arguments json.RawMessage) []string {
	var s struct {
		Required []string `json:"required"`
	}
	var has map[string]json.RawMessage
	if json.Unmarshal(t.InputSchema, &s) != nil || json.Unmarshal(arguments, &has) != nil {
		return nil
	}
	return slices.DeleteFunc(s.Required, func(name string) bool { _, ok := has[name]; return ok })
}

func (g *Gateway) app(connector string) *App {
	for i := range g.apps {
		if strings.EqualFold(g.apps[i].Connector, connector) {
			return &g.apps[i]
		}
	}
	return nil
}

func (g *Gateway) list(in *incoming) reply {
	limit, err := strconv.Atoi(in.URL.Query().Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		limit = 50
	}
	from, _ := strconv.Atoi(in.URL.Query().Get("cursor")) // no cursor is the beginning
	from = min(max(from, 0), len(g.apps))
	to := min(from+limit, len(g.apps))
	items := []map[string]any{}
	for i := from; i < to; i++ {
		app := &g.apps[i]
		item := map[string]any{"connector": app.Connector, "enabled": !app.Disabled,
			"connected": g.links.linked(in.tenant, app), "disabledTools": []string{}}
		if status, reason := g.links.stands(in.tenant, app); status != "" {
			item["connectionStatus"] = status
			if reason != "" {
				item["statusReason"] = reason
			}
		}
		items = append(items, item)
	}
	out := map[string]any{"items": items}
	if to < len(g.apps) {
		out["nextCursor"] = strconv.Itoa(to)
	}
	return answer(out)
}

// admin serves what a test in another process needs: what happened, and the script.
func (g *Gateway) admin(mux *http.ServeMux) {
	mux.HandleFunc("GET /admin/requests", func(w http.ResponseWriter, _ *http.Request) { send(w, answer(g.Requests())) })
	mux.HandleFunc("GET /admin/effects", func(w http.ResponseWriter, _ *http.Request) { send(w, answer(g.Effects())) })
	mux.HandleFunc("DELETE /admin/faults", func(w http.ResponseWriter, _ *http.Request) {
		g.ClearFaults()
		send(w, answer(map[string]bool{"ok": true}))
	})
	mux.HandleFunc("POST /admin/faults", func(w http.ResponseWriter, r *http.Request) {
		var f Fault
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&f)
		if err == nil {
			err = f.validate()
		}
		if err != nil {
			send(w, refuse(http.StatusBadRequest, "BAD_REQUEST", err.Error()))
			return
		}
		g.script.add(f)
		send(w, answer(map[string]bool{"ok": true}))
	})
	mux.HandleFunc("POST /admin/links", func(w http.ResponseWriter, r *http.Request) {
		var l struct {
			Tenant    string `json:"tenant"`
			Connector string `json:"connector"`
			Linked    bool   `json:"linked"`
		}
		if json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&l) != nil {
			send(w, badBody())
			return
		}
		g.Link(l.Tenant, l.Connector, l.Linked)
		send(w, answer(map[string]bool{"ok": true}))
	})
}
