package connectors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"toolsearch/subjects"
)

// Every text of manage_connections that a model reads. Each says what was wrong, that nothing was done, and the call
// that works.

const nothingDone = " Nothing was done. "

// call writes a call of manage_connections as the model would.
func (m *Manage) call() string {
	var targets []string
	for _, t := range m.Targets {
		if t.MCP || t.Alias != "" || t.To != "" {
			p, err := subjects.MarshalModel(t)
			if err != nil {
				continue // texts and booleans only
			}
			targets = append(targets, string(p))
			continue
		}
		targets = append(targets, string(subjects.AppendString(nil, t.Name)))
	}
	text := fmt.Sprintf(`{"action": %q`, m.Action)
	if len(targets) > 0 {
		text += `, "connectors": [` + strings.Join(targets, ", ") + "]"
	}
	if m.Force {
		text += `, "force": true`
	}
	return text + "}"
}

// like is a call of the same targets with this action that works: what the action does not take is left out, and what it
// needs stands in from an example. Of several targets with an alias the first is left, for they go one in a call.
func (m *Manage) like(action Action) string {
	c := Manage{Action: action, Force: m.Force && action == ActionReconnect}
	if action == ActionRename {
		c.Targets = []ManageTarget{renaming(m.Targets)}
		return c.call()
	}
	aliased := false
	for _, t := range m.Targets {
		t.MCP, t.To = action.Local(), ""
		if action.Local() || action == ActionStatus {
			t.Alias = ""
		}
		if t.Alias != "" && aliased || slices.Contains(c.Targets, t) {
			continue
		}
		aliased = aliased || t.Alias != ""
		c.Targets = append(c.Targets, t)
	}
	if len(c.Targets) == 0 && action != ActionStatus {
		c.Targets = exampleTargets(action)
	}
	return c.call()
}

// renaming is a target that can be renamed: that of targets which says most, the rest of it from an example.
func renaming(targets []ManageTarget) ManageTarget {
	t := ManageTarget{Name: "mail"}
	for i, have := range targets {
		if i == 0 || t.Alias+t.To == "" && have.Alias+have.To != "" {
			t = have
		}
	}
	return ManageTarget{Name: t.Name, Alias: cmp.Or(t.Alias, "work"), To: cmp.Or(t.To, "office")}
}

func exampleTargets(a Action) []ManageTarget {
	if a.Local() {
		return []ManageTarget{{Name: "github", MCP: true}}
	}
	return []ManageTarget{{Name: "mail"}}
}

const (
	textNotAnObject = "The arguments are no object." + nothingDone + `Call manage_connections with {"action": "status"}.`
	textForce       = `"force" must be true or false.` + nothingDone +
		`Call manage_connections with {"action": "reconnect", "connectors": ["mail"], "force": true}.`
	textTargets = `"connectors" must be a name, an object or a list of those.` + nothingDone +
		`Call manage_connections with {"action": "connect", "connectors": ["mail"]}.`
	textNoDisconnect = "Only the user can disconnect or remove an account, in the account settings." + nothingDone +
		`Tell the user so; {"action": "status"} shows what is connected.`
	textRename = "rename takes one account, with its alias and the new one." + nothingDone +
		`Call manage_connections with {"action": "rename", "connectors": [{"name": "mail", "alias": "work", "to": "office"}]}.`
)

func textUnknownField(name string) string {
	return fmt.Sprintf("manage_connections has no %q; it has action, connectors and force.", clip(name, maxTargetName)) + nothingDone +
		`Call it with {"action": "connect", "connectors": ["mail"]}.`
}

func textAction(action string) string {
	return fmt.Sprintf("%q is no action; there are status, connect, reconnect and rename for apps, and install, enable and authorize "+
		"for local MCP servers.", action) + nothingDone + `Call manage_connections with {"action": "status"}.`
}

func textTooMany(n int) string {
	return fmt.Sprintf("%d targets are too many, at most 10 go in one call.", n) + nothingDone + "Send fewer, and the rest in another call."
}

func textTarget(i int) string {
	return fmt.Sprintf("connectors[%d] is neither a name nor an object.", i) + nothingDone +
		`Write each target as "mail" or as {"name": "mail", "alias": "work"}.`
}

func textTargetField(i int, field string) string {
	return fmt.Sprintf("connectors[%d] has no field %q; it has name, mcp, alias and to.", i, clip(field, maxTargetName)) + nothingDone +
		`Write the target as {"name": "mail"}.`
}

func textTargetValue(i int, field string) string {
	want := "a text"
	if field == "mcp" {
		want = "true or false"
	}
	return fmt.Sprintf("connectors[%d].%s must be %s.", i, field, want) + nothingDone + `Write the target as {"name": "mail"}.`
}

func textName(i int, name string) string {
	return fmt.Sprintf("connectors[%d] has no name that an app can have (%q): 1 to %d characters without spaces.", i, name, maxTargetName) +
		nothingDone + `{"action": "status"} lists the names.`
}

func textAlias(alias string) string {
	return fmt.Sprintf("%q is no alias: 1 to 32 of a-z, 0-9 and -, not beginning with -.", alias) + nothingDone +
		`Write the target as {"name": "mail", "alias": "work"}.`
}

func textNeedsMCP(m *Manage) string {
	return fmt.Sprintf("%s is for local MCP servers, and not every target says so.", m.Action) + nothingDone +
		"For a local server call manage_connections with " + m.like(m.Action) + ", for a remote app with " + m.like(ActionConnect) + "."
}

func textNotMCP(m *Manage) string {
	return fmt.Sprintf("%s is for remote apps, and a target says mcp: true.", m.Action) + nothingDone +
		"For a local server call manage_connections with " + m.like(ActionInstall) + ", for a remote app with " + m.like(m.Action) + "."
}

func textToOnlyRename(t *ManageTarget) string {
	fixed := Manage{Action: ActionRename, Targets: []ManageTarget{renaming([]ManageTarget{*t})}}
	return `"to" is for rename alone.` + nothingDone + "To rename, call manage_connections with " + fixed.call() + "."
}

func textNoAlias(m *Manage) string {
	return fmt.Sprintf("%s takes no alias.", m.Action) + nothingDone + "Call manage_connections with " + m.like(m.Action) + "."
}

func textForceOnlyReconnect(m *Manage) string {
	return `"force" is for reconnect alone.` + nothingDone + "Call manage_connections with " +
		m.like(m.Action) + "."
}

func textOneAlias(m *Manage) string {
	first := Manage{Action: m.Action, Force: m.Force, Targets: []ManageTarget{firstAliased(m.Targets)}}
	return "One target with an alias goes in a call." + nothingDone + "Call manage_connections with " + first.call() +
		" and then with each of the others."
}

func firstAliased(targets []ManageTarget) ManageTarget {
	for _, t := range targets {
		if t.Alias != "" {
			return t
		}
	}
	return targets[0]
}

func textNoTargets(a Action) string {
	example := Manage{Action: a, Targets: exampleTargets(a)}
	return fmt.Sprintf("%s needs to know what to work on.", a) + nothingDone + "Call manage_connections with " + example.call() +
		`; {"action": "status"} lists the apps.`
}

// The refusals of a session or a worker that cannot do what was asked.
const (
	TextNoConnectors = "Connectors are not available in this session, and nothing was done. Go on without them."
	TextSide         = "Only the main agent can connect accounts, and nothing was done. Report back what must be connected."
	textNoHost       = "No host of this session owns local MCP servers." + nothingDone +
		"Tell the user to install the server on the machine that the agent runs on."
	textNoAccounts = "Accounts cannot be renamed from here, for no account service is set up." + nothingDone +
		"Tell the user to rename the account in the account settings."
)

// TextBusy tells of the operation that is open already.
func TextBusy(open *Operation) string {
	var names []string
	for _, t := range open.Targets {
		names = append(names, t.Name)
	}
	return fmt.Sprintf("This session has an open operation already, %s (%s %s)."+nothingDone+
		"Wait until it is settled; the user can finish or close it.", open.ID, open.Action, strings.Join(names, ", "))
}

// The details of targets, and the notes that end an outcome.
const (
	detailTooLate   = "The user did not connect it in time."
	detailUnclear   = `It is not known what became of the start, which may have taken effect: a link may exist, or a connection. ` + detailAsk
	detailLost      = "The worker was lost while it asked for the link, and the start may have taken effect. " + detailAsk
	detailNoResult  = "The gateway did not say what became of the start, which may have taken effect. " + detailAsk
	detailAsk       = `Check with {"action": "status"} before you start it again.`
	detailNoLink    = "The gateway gave no link; ask again."
	detailLongLink  = "The link that came is too long to be one; tell the user."
	detailLongTools = "Its list of tools is too long to be shown; find them with tool_search."

	noteLinks = `Show each connect_url to the user as it is. Do not wait; when the user says it is done, check with {"action": "status"}.`

	noteStopped   = "The user stopped this. Do not connect anything unless the user asks for it."
	noteConnected = "All is connected. Go on with what needed it."
	noteOpen      = "What is not connected was left open. Go on without it, or ask the user before you connect it again."
	noteFailed    = `What failed says why. Check the names with {"action": "status"} before you try again.`
	noteSkipped   = "The user skipped what is not connected. Go on without it and do not ask again."
)

// NoLocalHost refuses an action on local servers where no host owns any.
func NoLocalHost() error { return refuse(textNoHost) }

// NoAccounts refuses a rename where there is no account service.
func NoAccounts() error { return refuse(textNoAccounts) }

// NoSuchAccount refuses the rename of an account that there is not, and names those that there are.
func NoSuchAccount(t *ManageTarget, have []subjects.LinkedAccount) error {
	var calls []string
	for _, a := range have {
		if t.ofApp(a) && a.Alias != "" && len(calls) < maxSuggestions {
			m := Manage{Action: ActionRename, Targets: []ManageTarget{{Name: a.Connector, Alias: a.Alias, To: t.To}}}
			calls = append(calls, m.call())
		}
	}
	text := fmt.Sprintf("There is no account %q of %s."+nothingDone, t.Alias, t.Name)
	if len(calls) == 0 {
		m := Manage{Action: ActionConnect, Targets: []ManageTarget{{Name: t.Name, Alias: t.To}}}
		return refuse(text + "To link one under the new name, call manage_connections with " + m.call() + ".")
	}
	return refuse(text + "Call manage_connections with " + strings.Join(calls, " or "))
}
