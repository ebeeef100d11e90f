package connectors

import (
	"encoding/json"
	"slices"
	"strconv"

	"toolsearch/subjects"
)

// SearchAnswer is the gateway's answer to a search.
type SearchAnswer struct {
	Results     []SearchResult    `json:"results"`
	Schemas     map[string]Schema `json:"schemas"` // by slug
	Connections []ConnectionState `json:"connections"`
	NextSteps   []string          `json:"next_steps"`
}

// SearchResult is what the gateway found for one query.
type SearchResult struct {
	Index        int             `json:"index"`
	UseCase      string          `json:"use_case"` // the query echoed, or ""
	Tools        []string        `json:"tools"`    // slugs, best first
	RelatedTools []string        `json:"related_tools"`
	Connectors   []string        `json:"connectors"`
	Guidance     json.RawMessage `json:"guidance"`
	PlanSteps    json.RawMessage `json:"plan_steps"`
	Pitfalls     json.RawMessage `json:"pitfalls"`
	Error        json.RawMessage `json:"error"`

	position int // among the results as they came: what decides which query it answers
}

// Schema is one connector tool as the gateway describes it.
type Schema struct {
	Connector   string          `json:"connector"`
	Tool        string          `json:"tool"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"` // an object, {} by default
}

// ConnectionState says whether a connector is linked.
type ConnectionState struct {
	Connector   string `json:"connector"`
	Connected   bool   `json:"connected"`
	Description string `json:"description"`
}

// SchemasAnswer is the gateway's answer to a request for schemas.
type SchemasAnswer struct {
	Schemas     map[string]Schema          `json:"schemas"` // by slug
	NotFound    []string                   `json:"not_found"`
	Suggestions map[string]json.RawMessage `json:"suggestions"`
}

// Row is what became of one call of an execute request.
type Row struct {
	Data    json.RawMessage `json:"data"`  // null where there is none
	Error   *RowError       `json:"error"` // nil: the call succeeded
	Account string          `json:"account,omitempty"`
}

// RowError is a call that the gateway or the provider refused, inside an answer of 200.
type RowError struct {
	Code         subjects.EntryCode `json:"code"`
	Message      string             `json:"message"`
	Connector    string             `json:"connector,omitempty"`
	ConnectURL   string             `json:"connect_url,omitempty"`
	ConnectionID string             `json:"connection_id,omitempty"`
	Hint         string             `json:"hint,omitempty"`
}

// ConnectionsAnswer is the gateway's answer to a connection start.
type ConnectionsAnswer struct {
	Results []ConnectionResult `json:"results"`
	Summary ConnectionsSummary `json:"summary"`
}

// ConnectionResult is one connector's connection: active, initiated (with a URL for the user to open) or failed.
type ConnectionResult struct {
	Connector    string  `json:"connector"`
	Status       string  `json:"status"`
	ConnectURL   *string `json:"connect_url"`
	ConnectionID *string `json:"connection_id"`
	Alias        *string `json:"alias"`
	Instruction  *string `json:"instruction"`
	StatusReason *string `json:"status_reason"`
	Reinitiated  bool    `json:"reinitiated"`
}

// ConnectionsSummary counts the results by status.
type ConnectionsSummary struct {
	Total     int `json:"total"`
	Active    int `json:"active"`
	Initiated int `json:"initiated"`
	Failed    int `json:"failed"`
}

// Connector is one app that the gateway offers to a tenant.
type Connector struct {
	Connector        string   `json:"connector"`
	Enabled          bool     `json:"enabled"`
	Connected        bool     `json:"connected"`
	ConnectionStatus *string  `json:"connection_status"` // one of accountStatuses, nil if never connected
	StatusReason     *string  `json:"status_reason"`
	DisabledTools    []string `json:"disabled_tools"`
}

// Account is one linked account.
type Account struct {
	ConnectionID string  `json:"connection_id"`
	Connector    string  `json:"connector"`
	Status       string  `json:"status"`
	StatusReason *string `json:"status_reason"`
	Label        string  `json:"label"`
	Alias        *string `json:"alias"`
	Active       bool    `json:"active"`
	Disabled     bool    `json:"disabled"`
	CreatedAt    string  `json:"created_at"`
	UpdatedAt    string  `json:"updated_at"`
}

var (
	accountStatuses    = []string{"pending", "active", "failed", "expired", "revoked", "inactive"}
	connectionStatuses = []string{"active", "initiated", "failed"}
	rowCodes           = []string{string(subjects.EntryToolNotAllowed), string(subjects.EntryConnectionRequired),
		string(subjects.EntryToolNotFound), string(subjects.EntryProviderError)}
)

// emptyObject is the schema of a tool that names none.
var emptyObject = json.RawMessage("{}")

// dropped is called for each element of an answer that was left out because it is malformed.
type dropped func(err error)

// parseSearch reads a search answer. A malformed element is dropped alone; only an answer whose results or schemas
// are no list and object as a whole is refused.
func parseSearch(body json.RawMessage, drop dropped) (*SearchAnswer, error) {
	r := readRecord("", body)
	results, schemas := r.list("results", defaulted), r.members("schemas", defaulted)
	if r.err != nil {
		return nil, r.err
	}
	a := &SearchAnswer{Results: []SearchResult{}, Schemas: readSchemas(schemas, drop), Connections: []ConnectionState{}}
	for i, raw := range results {
		if s, err := readSearchResult(join("results", strconv.Itoa(i)), raw, drop); err != nil {
			drop(err)
		} else {
			s.position = i
			a.Results = append(a.Results, s)
		}
	}
	for i, raw := range softList(r, "connections", drop) {
		c := readRecord(join("connections", strconv.Itoa(i)), raw)
		state := ConnectionState{Connector: c.text("connector", required),
			Connected: c.boolean("connected", defaulted, false), Description: c.text("description", defaulted)}
		if c.err != nil {
			drop(c.err)
			continue
		}
		a.Connections = append(a.Connections, state)
	}
	a.NextSteps = softTexts(r, "nextSteps", drop)
	return a, nil
}

func readSearchResult(at string, raw json.RawMessage, drop dropped) (SearchResult, error) {
	r := readRecord(at, raw)
	s := SearchResult{
		Index:   r.integer("index", required),
		UseCase: r.text("useCase", defaulted),
	}
	if r.err != nil {
		return s, r.err
	}
	s.Tools, s.RelatedTools = softTexts(r, "tools", drop), softTexts(r, "relatedTools", drop)
	s.Connectors = softTexts(r, "connectors", drop)
	s.Guidance, s.PlanSteps = r.get("guidance", nullable), r.get("planSteps", nullable)
	s.Pitfalls, s.Error = r.get("pitfalls", nullable), r.get("error", nullable)
	return s, nil
}

// readSchemas reads the schemas by slug, in the order of the slugs so that drops are told in a stable order.
func readSchemas(members map[string]json.RawMessage, drop dropped) map[string]Schema {
	out := make(map[string]Schema, len(members))
	slugs := make([]string, 0, len(members))
	for slug := range members {
		slugs = append(slugs, slug)
	}
	slices.Sort(slugs)
	for _, slug := range slugs {
		r := readRecord(join("schemas", slug), members[slug])
		s := Schema{Connector: r.text("connector", required), Tool: r.text("tool", required),
			Description: r.text("description", defaulted), InputSchema: r.object("inputSchema", defaulted)}
		if r.err != nil {
			drop(r.err)
			continue
		}
		if s.InputSchema == nil {
			s.InputSchema = emptyObject
		}
		out[slug] = s
	}
	return out
}

// softList is a list that is left out as a whole when it is none.
func softList(r *record, name string, drop dropped) []json.RawMessage {
	field := &record{at: r.at, fields: r.fields}
	l := field.list(name, defaulted)
	if field.err != nil {
		drop(field.err)
	}
	return l
}

// softTexts is a list of strings without the elements that are none.
func softTexts(r *record, name string, drop dropped) []string {
	out := []string{}
	for i, raw := range softList(r, name, drop) {
		if s, ok := readText(raw); ok {
			out = append(out, s)
		} else {
			drop(&shapeError{join(r.at, join(name, strconv.Itoa(i))), "a string"})
		}
	}
	return out
}

// parseSchemas reads a schemas answer, with the same leniency as [parseSearch].
func parseSchemas(body json.RawMessage, drop dropped) (*SchemasAnswer, error) {
	r := readRecord("", body)
	schemas := r.members("schemas", defaulted)
	if r.err != nil {
		return nil, r.err
	}
	a := &SchemasAnswer{Schemas: readSchemas(schemas, drop), NotFound: softTexts(r, "notFound", drop)}
	soft := &record{fields: r.fields}
	if a.Suggestions = soft.members("suggestions", defaulted); a.Suggestions == nil {
		a.Suggestions = map[string]json.RawMessage{}
	}
	if soft.err != nil {
		drop(soft.err)
	}
	return a, nil
}

// parseExecute reads an execute answer. Here one malformed row refuses the whole answer: rows belong to calls by
// position, and a guess about an effect is worse than none.
func parseExecute(body json.RawMessage) ([]*Row, error) {
	r := readRecord("", body)
	rows := r.list("results", defaulted)
	if r.err != nil {
		return nil, r.err
	}
	out := make([]*Row, 0, len(rows))
	for i, raw := range rows {
		row, err := readRow(join("results", strconv.Itoa(i)), raw)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

func readRow(at string, raw json.RawMessage) (*Row, error) {
	r := readRecord(at, raw)
	row := &Row{Data: r.get("data", nullable), Account: r.text("account", nullable)}
	r.integer("index", defaulted) // told by position; checked all the same, for a wrong type means another protocol
	r.text("connector", defaulted)
	r.text("tool", defaulted)
	if row.Data == nil {
		row.Data = json.RawMessage("null")
	}
	if e := r.object("error", nullable); e != nil {
		n := readRecord(join(at, "error"), e)
		row.Error = &RowError{
			Code: subjects.EntryCode(n.word("code", required, rowCodes...)), Message: n.text("message", required),
			Connector: n.text("connector", nullable), ConnectURL: n.text("connectUrl", nullable),
			ConnectionID: n.text("connectionId", nullable), Hint: n.text("hint", nullable),
		}
		if r.err == nil {
			r.err = n.err
		}
	}
	return row, r.err
}

func parseConnections(body json.RawMessage) (*ConnectionsAnswer, error) {
	r := readRecord("", body)
	results := r.list("results", defaulted)
	a := &ConnectionsAnswer{Results: []ConnectionResult{}}
	if raw := r.object("summary", defaulted); raw != nil {
		s := readRecord("summary", raw)
		a.Summary = ConnectionsSummary{s.integer("total", defaulted), s.integer("active", defaulted),
			s.integer("initiated", defaulted), s.integer("failed", defaulted)}
		if r.err == nil {
			r.err = s.err
		}
	}
	for i, raw := range results {
		c := readRecord(join("results", strconv.Itoa(i)), raw)
		a.Results = append(a.Results, ConnectionResult{
			Connector: c.text("connector", required), Status: c.word("status", required, connectionStatuses...),
			ConnectURL: c.optionalText("connectUrl"), ConnectionID: c.optionalText("connectionId"),
			Alias: c.optionalText("alias"), Instruction: c.optionalText("instruction"),
			StatusReason: c.optionalText("statusReason"), Reinitiated: c.boolean("reinitiated", defaulted, false),
		})
		if r.err == nil {
			r.err = c.err
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return a, nil
}

// parseList reads one page of the connectors and the cursor of the next, "" on the last.
func parseList(body json.RawMessage) (page []Connector, next string, err error) {
	r := readRecord("", body)
	refuseErrorKey(r)
	for i, raw := range r.list("items", defaulted) {
		c := readRecord(join("items", strconv.Itoa(i)), raw)
		item := Connector{Connector: c.text("connector", required), Enabled: c.boolean("enabled", defaulted, true),
			Connected: c.boolean("connected", defaulted, false), StatusReason: c.optionalText("statusReason"),
			DisabledTools: c.texts("disabledTools", defaulted)}
		if c.get("connectionStatus", nullable) != nil {
			s := c.word("connectionStatus", nullable, accountStatuses...)
			item.ConnectionStatus = &s
		}
		if r.err == nil {
			r.err = c.err
		}
		page = append(page, item)
	}
	next = r.text("nextCursor", nullable)
	return page, next, r.err
}

func parseAccount(body json.RawMessage) (*Account, error) {
	r := readRecord("", body)
	refuseErrorKey(r)
	a := &Account{
		ConnectionID: r.text("connectionId", required), Connector: r.text("connector", required),
		Status: r.word("status", required, accountStatuses...), StatusReason: r.optionalText("statusReason"),
		Label: r.text("label", required), Alias: r.optionalText("alias"), Active: r.boolean("active", required, false),
		Disabled:  r.boolean("disabled", defaulted, false),
		CreatedAt: r.text("createdAt", required), UpdatedAt: r.text("updatedAt", required),
	}
	if r.err == nil && a.Label == "" {
		r.fail("label", "at least one character")
	}
	if r.err != nil {
		return nil, r.err
	}
	return a, nil
}

// refuseErrorKey refuses a 2xx answer that carries an error all the same.
func refuseErrorKey(r *record) {
	if _, ok := r.fields["error"]; ok {
		r.fail("error", "no error in an answer of 200")
	}
}
