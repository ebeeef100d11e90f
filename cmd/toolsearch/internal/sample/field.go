package sample

import (
	"encoding/json"
	"strings"

	"toolsearch/subjects"
)

// field is one parameter.
type field struct {
	name     string
	kind     byte // one of the marks of servers.go, 0 for a text
	required bool
	list     bool
	choices  []string
}

// fields reads the notation of servers.go.
func fields(s string) []field {
	var out []field
	for f := range strings.FieldsSeq(s) {
		out = append(out, readField(f))
	}
	return out
}

func readField(s string) field {
	var f field
	s, f.required = cut(s, "!")
	name, choices, ok := strings.Cut(s, "=")
	if ok {
		f.choices = strings.Split(choices, "|")
		s = name
	}
	s, required := cut(s, "!")
	f.required = f.required || required
	s, f.list = cut(s, "[]")
	if i := strings.IndexAny(s, "#?@"); i >= 0 {
		f.kind, s = s[i], s[:i]+s[i+1:]
	}
	f.name = s
	return f
}

func cut(s, mark string) (string, bool) {
	rest, ok := strings.CutSuffix(s, mark)
	return rest, ok
}

// schema is a parameter's JSON Schema.
type schema struct {
	Type        string   `json:"type"`
	Format      string   `json:"format,omitempty"`
	Items       *schema  `json:"items,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	Description string   `json:"description,omitempty"`
}

func (f field) schema(of string) schema {
	s := schema{Type: "string", Enum: f.choices, Description: f.describe(of)}
	switch f.kind {
	case '#':
		s.Type = "integer"
	case '?':
		s.Type = "boolean"
	case '@':
		s.Format = "date-time"
	}
	if f.list {
		s = schema{Type: "array", Items: &schema{Type: s.Type}, Description: s.Description}
	}
	return s
}

// describe words what a parameter is, from a glossary or from its name.
func (f field) describe(of string) string {
	if text, ok := glossary[f.name]; ok {
		return strings.ReplaceAll(text, "{one}", of)
	}
	text := "The " + words(f.name) + " of the " + of
	switch {
	case strings.HasSuffix(f.name, "_id"):
		text = "Id of the " + words(strings.TrimSuffix(f.name, "_id"))
	case strings.HasSuffix(f.name, "_cents"):
		text = "The " + words(strings.TrimSuffix(f.name, "_cents")) + " in cents, without a decimal point"
	case strings.HasSuffix(f.name, "_url"):
		text = "Web address of the " + words(strings.TrimSuffix(f.name, "_url"))
	case f.kind == '?':
		text = "Whether the " + of + " is " + words(f.name)
	case f.kind == '@':
		text += ", as an RFC 3339 instant"
	case f.list:
		text += ", any number of them"
	}
	return text + "."
}

// glossary words the parameters that many tools share.
var glossary = map[string]string{
	"id":       "Id of the {one}.",
	"limit":    "How many to return at most, 1 to 100.",
	"cursor":   "The cursor of the page before, to get the next one.",
	"query":    "Words to look for, or an expression of the service's own query language.",
	"expand":   "Names of related records to return in full.",
	"confirm":  "Must be true: says that this is meant.",
	"from":     "Where it begins: an instant, a place or a name.",
	"to":       "Where it ends: an instant, a place or a name.",
	"reason":   "Why, in a sentence that is kept with the {one}.",
	"note":     "A remark that is kept with the {one}.",
	"notify":   "Whether those concerned are told by email.",
	"dry_run":  "Only check, change nothing.",
	"assignee": "User name or email of who is responsible.",
	"labels":   "Names of labels, made where they do not exist.",
	"tags":     "Words to find the {one} again.",
	"format":   "The format of the file.",
	"group_by": "The field by which figures are added up.",
	"text":     "The text, as plain words or Markdown.",
	"body":     "The text, as Markdown.",
	"title":    "A short title.",
	"name":     "The name, unique where the {one} lives.",
	"people":   "User names or email addresses.",
	"force":    "Do it even if something is still under way.",
	"priority": "From 1, the most urgent, to 4.",
	"currency": "Three letters, such as EUR.",
	"region":   "Short name of the region, such as eu-central.",
	"channel":  "Name or id of the channel.",
}

// definition writes a tool in the OpenAI shape. Members are written in a fixed order, properties as they came.
func definition(name, text string, fs []field, of string) json.RawMessage {
	properties, required := subjects.Ordered[schema]{}, []string{}
	for _, f := range fs {
		properties = append(properties, subjects.Pair[schema]{Key: f.name, Value: f.schema(of)})
		if f.required {
			required = append(required, f.name)
		}
	}
	type parameters struct {
		Type       string                   `json:"type"`
		Properties subjects.Ordered[schema] `json:"properties"`
		Required   []string                 `json:"required,omitempty"`
	}
	type function struct {
		Name        string     `json:"name"`
		Description string     `json:"description"`
		Parameters  parameters `json:"parameters"`
	}
	p, err := subjects.Marshal(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function{name, text, parameters{"object", properties, required}}})
	if err != nil {
		panic("sample: " + err.Error()) // texts of our own always encode
	}
	return p
}
