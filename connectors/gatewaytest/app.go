package gatewaytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// App is a connector: a service that a tenant links an account of.
type App struct {
	Connector   string // such as "mail"
	Description string
	Tools       []Tool
	// Unlinked apps answer CONNECTION_REQUIRED until a tenant has linked its account.
	Unlinked bool
	// Disabled apps are listed and refuse every call with TOOL_NOT_ALLOWED.
	Disabled bool
}

// Tool is one tool of an app.
type Tool struct {
	// Slug is the gateway's name of the tool: usually the connector in capitals and then the tool, MAIL_SEND, but a
	// gateway may leave the prefix out.
	Slug        string
	Description string
	InputSchema json.RawMessage // nil is {}
	// ReadOnly tools leave no effect.
	ReadOnly bool
	// Run does the work; nil answers {"ok": true} and the arguments. An error is a PROVIDER_ERROR with its text,
	// unless it is a [*RowError].
	Run func(ctx context.Context, c Call) (any, error)
}

// Call is one call of a tool.
type Call struct {
	Tenant    string
	Key       string // idempotency key, "" if the request had none
	Slug      string
	Arguments json.RawMessage
	// Number counts the effects of this gateway, from 1; 0 for a tool without effects.
	Number int
}

// RowError makes a tool answer with a code of its own choice.
type RowError struct{ Code, Message, Hint string }

func (e *RowError) Error() string { return e.Message }

// ErrNotFound is a convenient cause for a tool that is asked for something it does not have.
var ErrNotFound = errors.New("there is no such thing")

// SampleApps are invented apps to try things with: mail, calendar and tracker are linked, chat is not, files has a
// tool whose slug has no prefix, and vault is switched off. Their data is new with each call of SampleApps.
func SampleApps() []App {
	mail, events, issues, files := &shelf{prefix: "msg"}, &shelf{prefix: "evt"}, &shelf{prefix: "issue"}, &shelf{prefix: "file"}
	return []App{
		{Connector: "mail", Description: "Send and find mail messages", Tools: []Tool{
			{Slug: "MAIL_SEND_EMAIL", Description: "Send an email message to one or more recipients", InputSchema: schema(`to subject`, `to subject body`), Run: mail.add},
			{Slug: "MAIL_CREATE_DRAFT", Description: "Create a draft of an email message without sending it", InputSchema: schema(``, `to subject body`), Run: mail.add},
			{Slug: "MAIL_FETCH_EMAILS", Description: "Fetch email messages that contain a text", InputSchema: schema(``, `query`), ReadOnly: true, Run: mail.find},
			{Slug: "MAIL_DELETE_EMAIL", Description: "Delete one email message", InputSchema: schema(`id`, `id`), Run: mail.remove},
		}},
		{Connector: "calendar", Description: "Events in a calendar", Tools: []Tool{
			{Slug: "CALENDAR_CREATE_EVENT", Description: "Create a calendar event with a title and a time", InputSchema: schema(`title start`, `title start end`), Run: events.add},
			{Slug: "CALENDAR_FIND_EVENT", Description: "Find calendar events that contain a text", InputSchema: schema(``, `query`), ReadOnly: true, Run: events.find},
			{Slug: "CALENDAR_DELETE_EVENT", Description: "Delete a calendar event", InputSchema: schema(`id`, `id`), Run: events.remove},
		}},
		{Connector: "tracker", Description: "Issues of a project tracker", Tools: []Tool{
			{Slug: "TRACKER_CREATE_ISSUE", Description: "Create an issue with a title and a description", InputSchema: schema(`title`, `title description`), Run: issues.add},
			{Slug: "TRACKER_LIST_ISSUES", Description: "List the issues of the tracker", InputSchema: schema(``, `query`), ReadOnly: true, Run: issues.find},
			{Slug: "TRACKER_ADD_COMMENT", Description: "Add a comment to an issue", InputSchema: schema(`id text`, `id text`), Run: issues.amend},
			{Slug: "TRACKER_CLOSE_ISSUE", Description: "Close an issue", InputSchema: schema(`id`, `id`), Run: issues.remove},
		}},
		{Connector: "files", Description: "Files in a shared folder", Tools: []Tool{
			{Slug: "UPLOAD_FILE", Description: "Upload a file with a name and a text to the shared folder", InputSchema: schema(`name`, `name text`), Run: files.add},
			{Slug: "FILES_LIST_FOLDER", Description: "List the files of the shared folder", InputSchema: schema(``, `query`), ReadOnly: true, Run: files.find},
		}},
		{Connector: "chat", Description: "Messages in a chat", Unlinked: true, Tools: []Tool{
			{Slug: "CHAT_POST_MESSAGE", Description: "Post a message to a chat channel", InputSchema: schema(`channel text`, `channel text`)},
			{Slug: "CHAT_LIST_CHANNELS", Description: "List the chat channels", ReadOnly: true},
		}},
		{Connector: "vault", Description: "Secrets, switched off by an administrator", Disabled: true, Tools: []Tool{
			{Slug: "VAULT_READ_SECRET", Description: "Read a secret from the vault", InputSchema: schema(`name`, `name`), ReadOnly: true},
		}},
	}
}

// schema is an object schema of string properties, both lists separated by spaces.
func schema(required, properties string) json.RawMessage {
	members := make(map[string]any)
	for p := range strings.FieldsSeq(properties) {
		members[p] = map[string]string{"type": "string"}
	}
	s := map[string]any{"type": "object", "properties": members}
	if r := strings.Fields(required); len(r) > 0 {
		s["required"] = r
	}
	p, err := json.Marshal(s)
	if err != nil {
		panic(err) // cannot be: maps, slices and strings
	}
	return p
}

// shelf is the data of a sample app: the arguments of what was added, by id and by tenant.
type shelf struct {
	prefix string

	mu    sync.Mutex
	count int
	items map[string][]item
}

type item struct {
	ID     string          `json:"id"`
	Fields json.RawMessage `json:"fields"`
	Notes  []string        `json:"notes,omitempty"`
}

func (s *shelf) add(_ context.Context, c Call) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items == nil {
		s.items = make(map[string][]item)
	}
	s.count++
	it := item{ID: fmt.Sprintf("%s_%d", s.prefix, s.count), Fields: c.Arguments}
	s.items[c.Tenant] = append(s.items[c.Tenant], it)
	return it, nil
}

func (s *shelf) find(_ context.Context, c Call) (any, error) {
	var q struct {
		Query string `json:"query"`
	}
	_ = json.Unmarshal(c.Arguments, &q) // no query finds all
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []item{}
	for _, it := range s.items[c.Tenant] {
		if strings.Contains(strings.ToLower(string(it.Fields)), strings.ToLower(q.Query)) {
			found = append(found, it)
		}
	}
	return map[string]any{"items": found, "count": len(found)}, nil
}

func (s *shelf) remove(_ context.Context, c Call) (any, error) {
	return s.change(c, func(items []item, i int) []item { return append(items[:i:i], items[i+1:]...) })
}

func (s *shelf) amend(_ context.Context, c Call) (any, error) {
	var note struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(c.Arguments, &note)
	return s.change(c, func(items []item, i int) []item {
		items[i].Notes = append(items[i].Notes, note.Text)
		return items
	})
}

func (s *shelf) change(c Call, f func([]item, int) []item) (any, error) {
	var q struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(c.Arguments, &q) // no id is no such thing
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, it := range s.items[c.Tenant] {
		if it.ID == q.ID {
			s.items[c.Tenant] = f(s.items[c.Tenant], i)
			return map[string]any{"id": q.ID, "done": true}, nil
		}
	}
	return nil, fmt.Errorf("%q: %w", q.ID, ErrNotFound)
}
