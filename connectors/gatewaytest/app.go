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
	mail, events := &shelf{prefix: "msg"}, &shelf{prefix: "evt"}
	issues, files := &shelf{prefix: "issue"}, &shelf{prefix: "file"}
	return []App{
		{Connector: "mail", Description: "Send and find mail messages", Tools: []Tool{
			changes("MAIL_SEND_EMAIL", "Send an email message to one or more recipients", "to subject", "to subject body", mail.add),
			changes("MAIL_CREATE_DRAFT", "Create a draft of an email message without sending it", "", "to subject body", mail.add),
			reads("MAIL_FETCH_EMAILS", "Fetch email messages that contain a text", "", "query", mail.find),
			changes("MAIL_DELETE_EMAIL", "Delete one email message", "id", "id", mail.remove),
		}},
		{Connector: "calendar", Description: "Events in a calendar", Tools: []Tool{
			changes("CALENDAR_CREATE_EVENT", "Create a calendar event with a title and a time", "title start", "title start end", events.add),
			reads("CALENDAR_FIND_EVENT", "Find calendar events that contain a text", "", "query", events.find),
			changes("CALENDAR_DELETE_EVENT", "Delete a calendar event", "id", "id", events.remove),
		}},
		{Connector: "tracker", Description: "Issues of a project tracker", Tools: []Tool{
			changes("TRACKER_CREATE_ISSUE", "Create an issue with a title and a description", "title", "title description", issues.add),
			reads("TRACKER_LIST_ISSUES", "List the issues of the tracker", "", "query", issues.find),
			changes("TRACKER_ADD_COMMENT", "Add a comment to an issue", "id text", "id text", issues.amend),
			changes("TRACKER_CLOSE_ISSUE", "Close an issue", "id", "id", issues.remove),
		}},
		{Connector: "files", Description: "Files in a shared folder", Tools: []Tool{
			changes("UPLOAD_FILE", "Upload a file with a name and a text to the shared folder", "name", "name text", files.add),
			reads("FILES_LIST_FOLDER", "List the files of the shared folder", "", "query", files.find),
		}},
		{Connector: "chat", Description: "Messages in a chat", Unlinked: true, Tools: []Tool{
			changes("CHAT_POST_MESSAGE", "Post a message to a chat channel", "channel text", "channel text", nil),
			reads("CHAT_LIST_CHANNELS", "List the chat channels", "", "", nil),
		}},
		{Connector: "vault", Description: "Secrets, switched off by an administrator", Disabled: true, Tools: []Tool{
			reads("VAULT_READ_SECRET", "Read a secret from the vault", "name", "name", nil),
		}},
	}
}

// changes is a tool with an effect; required and properties are names of string parameters.
func changes(slug, description, required, properties string, run func(context.Context, Call) (any, error)) Tool {
	return Tool{Slug: slug, Description: description, InputSchema: schema(required, properties), Run: run}
}

// reads is a tool without one.
func reads(slug, description, required, properties string, run func(context.Context, Call) (any, error)) Tool {
	t := changes(slug, description, required, properties, run)
	t.ReadOnly = true
	return t
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
