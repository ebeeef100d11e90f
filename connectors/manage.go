package connectors

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"toolsearch/catalog"
	"toolsearch/subjects"
)

// Action is what manage_connections is asked to do.
type Action string

// The actions: the first four on the apps behind the gateway, the last three on local MCP servers. There is none that
// disconnects: that is the user's alone.
const (
	ActionStatus    Action = "status"
	ActionConnect   Action = "connect"
	ActionReconnect Action = "reconnect"
	ActionRename    Action = "rename"
	ActionInstall   Action = "install"
	ActionEnable    Action = "enable"
	ActionAuthorize Action = "authorize"
)

var (
	hostedActions = []Action{ActionStatus, ActionConnect, ActionReconnect, ActionRename}
	localActions  = []Action{ActionInstall, ActionEnable, ActionAuthorize}
	// endings are the words with which models try to disconnect an account.
	endings = []string{"disconnect", "delete", "remove", "revoke", "unlink", "logout", "uninstall"}
)

// Local reports an action on local MCP servers.
func (a Action) Local() bool { return slices.Contains(localActions, a) }

// Manage is a manage_connections that can be carried out.
type Manage struct {
	Action  Action
	Targets []ManageTarget
	Force   bool
}

// ManageTarget is one app, or one local MCP server.
type ManageTarget struct {
	Name  string `json:"name"`
	MCP   bool   `json:"mcp,omitempty"`
	Alias string `json:"alias,omitempty"`
	To    string `json:"to,omitempty"`
}

// Names reports whether the target names this account. Names of apps and aliases are compared in lower case, as targets
// are read.
func (t *ManageTarget) Names(a subjects.LinkedAccount) bool {
	return t.ofApp(a) && lower(a.Alias) == t.Alias
}

func (t *ManageTarget) ofApp(a subjects.LinkedAccount) bool { return lower(a.Connector) == t.Name }

func (m *Manage) digest() string {
	p, err := subjects.Marshal(struct {
		Action  Action
		Targets []ManageTarget
		Force   bool
	}{m.Action, m.Targets, m.Force})
	if err != nil {
		return "" // texts and booleans only
	}
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// The bounds of a target's names.
const maxTargetName = 64

var aliasForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// ParseManage reads what a model wrote to manage_connections: an object, or a string that holds one. connectors may be
// one name, one object or a list of either; names are put into lower case, and what stands twice counts once. The error
// is a *[subjects.ToolError] that says which call works.
func ParseManage(arguments json.RawMessage) (*Manage, error) {
	raw, err := catalog.UnmarshalArguments(arguments)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil, refuse(textNotAnObject)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains([]string{"action", "connectors", "force"}, name) {
			return nil, refuse(textUnknownField(name))
		}
	}
	m := &Manage{Action: ActionStatus}
	if err := m.readAction(fields["action"]); err != nil {
		return nil, err
	}
	if f := fields["force"]; !absent(f) {
		var ok bool
		if m.Force, ok = readBoolean(f); !ok {
			return nil, refuse(textForce)
		}
	}
	if err := m.readTargets(fields["connectors"]); err != nil {
		return nil, err
	}
	return m, m.check()
}

func refuse(text string) error { return &subjects.ToolError{Message: text} }

func absent(raw json.RawMessage) bool { return len(raw) == 0 || isNull(raw) }

func (m *Manage) readAction(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	text, ok := readText(raw)
	a := Action(strings.ToLower(strings.TrimSpace(text)))
	switch {
	case !ok:
		return refuse(textAction(clip(string(raw), maxTargetName)))
	case a == "":
		return nil
	case slices.Contains(hostedActions, a) || slices.Contains(localActions, a):
		m.Action = a
		return nil
	case slices.Contains(endings, string(a)):
		return refuse(textNoDisconnect)
	}
	return refuse(textAction(clip(text, maxTargetName)))
}

func (m *Manage) readTargets(raw json.RawMessage) error {
	list, err := targetList(raw)
	if err != nil {
		return err
	}
	for i, item := range list {
		t, err := readTarget(i, item)
		if err != nil {
			return err
		}
		same := func(have ManageTarget) bool {
			return have == *t
		}
		if !slices.ContainsFunc(m.Targets, same) {
			m.Targets = append(m.Targets, *t)
		}
	}
	if len(m.Targets) > catalog.MaxConnectors {
		return refuse(textTooMany(len(m.Targets)))
	}
	return nil
}

// targetList is the targets one by one, whatever they came in.
func targetList(raw json.RawMessage) ([]json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if absent(raw) {
		return nil, nil
	}
	if text, ok := readText(raw); ok {
		inner := bytes.TrimSpace([]byte(text))
		if len(inner) > 0 && (inner[0] == '[' || inner[0] == '{') && json.Valid(inner) {
			raw = inner
		} else if len(inner) == 0 {
			return nil, nil
		}
	}
	switch {
	case raw[0] == '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return nil, refuse(textTargets)
		}
		return list, nil
	case raw[0] == '"' || raw[0] == '{':
		return []json.RawMessage{raw}, nil
	}
	return nil, refuse(textTargets)
}

// readTarget reads a name or an object.
func readTarget(i int, raw json.RawMessage) (*ManageTarget, error) {
	t := &ManageTarget{}
	raw = bytes.TrimSpace(raw)
	if text, ok := readText(raw); ok {
		t.Name = text
	} else if !isObject(raw) {
		return nil, refuse(textTarget(i))
	} else if err := t.readFields(i, raw); err != nil {
		return nil, err
	}
	t.Name = lower(strings.TrimSpace(t.Name))
	if n, ok := ParseName(t.Name); ok { // a tool's name stands for its app
		t.Name = n.Connector
	}
	if t.Name == "" || utf8.RuneCountInString(t.Name) > maxTargetName || strings.ContainsFunc(t.Name, unfit) {
		return nil, refuse(textName(i, clip(t.Name, maxTargetName)))
	}
	for _, alias := range []*string{&t.Alias, &t.To} {
		if *alias = strings.ToLower(strings.TrimSpace(*alias)); *alias != "" && !aliasForm.MatchString(*alias) {
			return nil, refuse(textAlias(clip(*alias, maxTargetName)))
		}
	}
	return t, nil
}

// unfit reports what no app's name holds.
func unfit(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }

func (t *ManageTarget) readFields(i int, raw json.RawMessage) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return refuse(textTarget(i))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		v := fields[name]
		ok := true
		switch name {
		case "name":
			t.Name, ok = readText(v)
		case "alias", "to":
			if absent(v) {
				continue
			}
			into := &t.Alias
			if name == "to" {
				into = &t.To
			}
			*into, ok = readText(v)
		case "mcp":
			if absent(v) {
				continue
			}
			t.MCP, ok = readBoolean(v)
		default:
			return refuse(textTargetField(i, name))
		}
		if !ok {
			return refuse(textTargetValue(i, name))
		}
	}
	return nil
}

// check holds the rules between the action and its targets.
func (m *Manage) check() error {
	local := m.Action.Local()
	aliased := 0
	for i := range m.Targets {
		t := &m.Targets[i]
		switch {
		case local && !t.MCP:
			return refuse(textNeedsMCP(m))
		case !local && t.MCP:
			return refuse(textNotMCP(m))
		case t.To != "" && m.Action != ActionRename:
			return refuse(textToOnlyRename(t))
		case t.Alias != "" && (local || m.Action == ActionStatus):
			return refuse(textNoAlias(m))
		}
		if t.Alias != "" {
			aliased++
		}
	}
	switch {
	case m.Force && m.Action != ActionReconnect:
		return refuse(textForceOnlyReconnect(m))
	case m.Action == ActionRename && (len(m.Targets) != 1 || m.Targets[0].Alias == "" || m.Targets[0].To == ""):
		return refuse(textRename)
	case aliased > 1:
		return refuse(textOneAlias(m))
	case len(m.Targets) == 0 && m.Action != ActionStatus:
		return refuse(textNoTargets(m.Action))
	}
	return nil
}
