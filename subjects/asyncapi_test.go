package subjects_test

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"toolsearch/subjects"
)

// asyncAPI is the document, as far as this test reads it.
type asyncAPI struct {
	AsyncAPI string
	Channels map[string]struct {
		Address    *string
		Parameters map[string]reference
		Messages   map[string]reference
	}
	Operations map[string]struct {
		Action   string
		Channel  reference
		Messages []reference
		Reply    *struct {
			Channel  reference
			Messages []reference
		}
	}
	Components struct {
		Parameters map[string]any
		Messages   map[string]struct {
			Headers reference
			Payload *struct {
				SchemaFormat string `yaml:"schemaFormat"`
				Schema       reference
			}
		}
		Schemas map[string]struct {
			Properties map[string]struct{ Type, Description string }
		}
	}
}

type reference struct {
	Ref string `yaml:"$ref"`
}

// name is the last part of a reference below prefix; anything else fails the test.
func (r reference) name(t *testing.T, prefix string) string {
	t.Helper()
	name, ok := strings.CutPrefix(r.Ref, prefix)
	if !ok || name == "" {
		t.Fatalf("reference %q, want one below %q", r.Ref, prefix)
	}
	return name
}

func readAsyncAPI(t *testing.T) *asyncAPI {
	t.Helper()
	p, err := os.ReadFile("../deploy/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc := new(asyncAPI)
	if err := yaml.Unmarshal(p, doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

var verbs = []subjects.Verb{subjects.VerbAssemble, subjects.VerbSearch, subjects.VerbDescribe, subjects.VerbCall, subjects.VerbConnections,
	subjects.VerbAnswer, subjects.VerbOperation, subjects.VerbAccounts, subjects.VerbDisconnect}

// The document's channels are the subjects that this package builds, no more and no fewer.
func TestAsyncAPIChannels(t *testing.T) {
	t.Parallel()
	const root = subjects.DefaultRoot
	tenant, session, call, host := "{tenant}", "{session}", "{call}", "{host}"
	want := map[string]string{
		"stopSession": root.StopSession(tenant, session),
		"stopCall":    root.StopCall(tenant, session, call),
		"result":      root.Result(tenant, session, call),
		"card":        root.Card(tenant, session, "{operation}"),
		"hookPre":     root.Hook(tenant, session, subjects.HookPre),
		"hookPost":    root.Hook(tenant, session, subjects.HookPost),
		"hostCall":    root.Host(tenant, host, subjects.HostCall),
		"hostList":    root.Host(tenant, host, subjects.HostList),
		"job":         root.Job(tenant, session),
	}
	for _, v := range verbs {
		want[string(v)] = root.Request(tenant, session, v)
	}
	doc := readAsyncAPI(t)
	if !strings.HasPrefix(doc.AsyncAPI, "3.") {
		t.Errorf("AsyncAPI %s, want 3", doc.AsyncAPI)
	}
	got := map[string]string{}
	for key, c := range doc.Channels {
		if c.Address == nil { // the reply subject of a request has no fixed address
			if key != "inbox" {
				t.Errorf("channel %s has no address", key)
			}
			continue
		}
		got[key] = *c.Address
		if _, err := root.Parse(regexp.MustCompile(`[{}]`).ReplaceAllString(*c.Address, "")); err != nil {
			t.Errorf("channel %s: %v", key, err)
		}
		var params []string
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(*c.Address, -1) {
			params = append(params, m[1])
		}
		slices.Sort(params)
		if declared := slices.Sorted(maps.Keys(c.Parameters)); !slices.Equal(params, declared) {
			t.Errorf("channel %s: parameters %v, in its address %v", key, declared, params)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("channels\n got %v\nwant %v", got, want)
	}
}

// Every reference leads somewhere, every message has the schema of its own name, and every schema of a whole message
// is used.
func TestAsyncAPIMessages(t *testing.T) {
	t.Parallel()
	doc := readAsyncAPI(t)
	used := map[string]bool{}
	for name, m := range doc.Components.Messages {
		if _, ok := doc.Components.Schemas[m.Headers.name(t, "#/components/schemas/")]; !ok {
			t.Errorf("message %s: no headers %s", name, m.Headers.Ref)
		}
		if m.Payload == nil {
			if name != "Job" {
				t.Errorf("message %s has no payload", name)
			}
			continue
		}
		file := strings.TrimSuffix(m.Payload.Schema.name(t, "../subjects/schema/"), ".json")
		if _, ok := subjects.Schema(file); !ok {
			t.Errorf("message %s: no schema %s", name, file)
		}
		if want := snake(name); file != want {
			t.Errorf("message %s has the schema %s, want %s", name, file, want)
		}
		used[file] = true
	}
	parts := []string{"tool", "connectors_condition", "entry_error", "entry_result", "batch_reply", "caller_dispatch", "accepted",
		"connections_outcome", "connection_result", "connections_status", "connector_status", "unknown_connector",
		"card_target", "refusal", "linked_account"}
	for _, name := range subjects.SchemaNames() {
		if used[name] == slices.Contains(parts, name) {
			t.Errorf("schema %s: a message of its own is %v", name, used[name])
		}
	}
	for key, c := range doc.Channels {
		for name, r := range c.Messages {
			if _, ok := doc.Components.Messages[r.name(t, "#/components/messages/")]; !ok || path.Base(r.Ref) != name {
				t.Errorf("channel %s: message %s is %s", key, name, r.Ref)
			}
		}
		for name, r := range c.Parameters {
			if _, ok := doc.Components.Parameters[r.name(t, "#/components/parameters/")]; !ok || path.Base(r.Ref) != name {
				t.Errorf("channel %s: parameter %s is %s", key, name, r.Ref)
			}
		}
	}
}

func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_${2}"))
}

// Each verb is an operation whose request and reply have the schemas that its endpoint names, and every channel but
// the inbox has an operation.
func TestAsyncAPIOperations(t *testing.T) {
	t.Parallel()
	doc := readAsyncAPI(t)
	served := map[string]bool{"inbox": true}
	for key, op := range doc.Operations {
		channel := op.Channel.name(t, "#/channels/")
		served[channel] = true
		for _, m := range op.Messages {
			if _, ok := doc.Channels[channel].Messages[m.name(t, "#/channels/"+channel+"/messages/")]; !ok {
				t.Errorf("operation %s: no message %s", key, m.Ref)
			}
		}
		if op.Reply != nil {
			if op.Reply.Channel.Ref != "#/channels/inbox" || len(op.Reply.Messages) == 0 {
				t.Errorf("operation %s: reply on %s", key, op.Reply.Channel.Ref)
			}
			for _, m := range op.Reply.Messages {
				if _, ok := doc.Channels["inbox"].Messages[m.name(t, "#/channels/inbox/messages/")]; !ok {
					t.Errorf("operation %s: no reply %s", key, m.Ref)
				}
			}
		}
	}
	for key := range doc.Channels {
		if !served[key] {
			t.Errorf("channel %s has no operation", key)
		}
	}
	for _, v := range verbs {
		op, ok := doc.Operations[string(v)]
		if !ok || op.Action != "receive" || op.Reply == nil || len(op.Messages) != 1 {
			t.Errorf("verb %s is no operation with a reply", v)
			continue
		}
		request, reply := subjects.SchemasOf(v)
		replies := []string{}
		for _, m := range op.Reply.Messages {
			replies = append(replies, subjects.SchemaID(snake(path.Base(m.Ref))))
		}
		if got := subjects.SchemaID(snake(path.Base(op.Messages[0].Ref))); got != request {
			t.Errorf("verb %s: request %s, want %s", v, got, request)
		}
		if !slices.Contains(replies, reply) || !slices.Contains(replies, subjects.SchemaID("service_error")) {
			t.Errorf("verb %s: replies %v, want %s and the service error", v, replies, reply)
		}
	}
}

// The headers of the document are those of this package.
func TestAsyncAPIHeaders(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for _, s := range readAsyncAPI(t).Components.Schemas {
		for name := range s.Properties {
			got[name] = true
		}
	}
	want := []string{
		subjects.HeaderTraceParent, subjects.HeaderTraceState, subjects.HeaderDeadline, subjects.HeaderAsync, subjects.HeaderObject,
		subjects.HeaderDigest, subjects.HeaderCall, subjects.HeaderRetryAfter, subjects.HeaderErrorCode, subjects.HeaderError, "Nats-Msg-Id",
		subjects.HeaderSearchStreak,
	}
	slices.Sort(want)
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("headers %v, want %v", names, want)
	}
}
