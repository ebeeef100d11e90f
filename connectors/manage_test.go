package connectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"toolsearch/subjects"
)

func TestTargetsInEveryForm(t *testing.T) {
	t.Parallel()
	mail := []ManageTarget{{Name: "mail"}}
	for arguments, want := range map[string]Manage{
		`{}`: {Action: ActionStatus}, `null`: {Action: ActionStatus}, `""`: {Action: ActionStatus},
		`{"action":null,"connectors":null,"force":null}`:                                                {Action: ActionStatus},
		`{"action":" CONNECT ","connectors":" Mail "}`:                                                  {Action: ActionConnect, Targets: mail},
		`{"action":"connect","connectors":{"name":"MAIL"}}`:                                             {Action: ActionConnect, Targets: mail},
		`{"action":"connect","connectors":["mail","MAIL",{"name":"mail"},{"name":"mail","mcp":false}]}`: {Action: ActionConnect, Targets: mail},
		`{"action":"connect","connectors":"[\"mail\"]"}`:                                                {Action: ActionConnect, Targets: mail},
		`{"action":"connect","connectors":"{\"name\":\"mail\"}"}`:                                       {Action: ActionConnect, Targets: mail},
		`"{\"action\":\"connect\",\"connectors\":\"mail\"}"`:                                            {Action: ActionConnect, Targets: mail},
		`{"action":"connect","connectors":["connectors__mail__SEND_EMAIL"]}`:                            {Action: ActionConnect, Targets: mail},
		`{"action":"status","connectors":["mail","chat"]}`:                                              {Action: ActionStatus, Targets: []ManageTarget{{Name: "mail"}, {Name: "chat"}}},
		`{"action":"reconnect","connectors":"mail","force":"yes"}`:                                      {Action: ActionReconnect, Targets: mail, Force: true},
		`{"action":"connect","connectors":[{"name":"mail","alias":"Work"},"mail"]}`:                     {Action: ActionConnect, Targets: []ManageTarget{{Name: "mail", Alias: "work"}, {Name: "mail"}}},
		`{"action":"rename","connectors":{"name":"mail","alias":"work","to":"office"}}`:                 {Action: ActionRename, Targets: []ManageTarget{{Name: "mail", Alias: "work", To: "office"}}},
		`{"action":"connect","connectors":["ΟΔΌΣ","Straße"]}`:                                           {Action: ActionConnect, Targets: []ManageTarget{{Name: "οδός"}, {Name: "straße"}}},
		`{"action":"install","connectors":[{"name":"git","mcp":true}]}`:                                 {Action: ActionInstall, Targets: []ManageTarget{{Name: "git", MCP: true}}},
	} {
		got, err := ParseManage(json.RawMessage(arguments))
		if err != nil || got.Action != want.Action || got.Force != want.Force || !slices.Equal(got.Targets, want.Targets) {
			t.Errorf("%s: %+v, %v", arguments, got, err)
		}
	}
}

// callsIn are the calls that a refusal proposes.
func callsIn(text string) []json.RawMessage {
	var out []json.RawMessage
	for {
		at := strings.Index(text, `{"action"`)
		if at < 0 {
			return out
		}
		var call json.RawMessage
		if json.NewDecoder(strings.NewReader(text[at:])).Decode(&call) == nil {
			out = append(out, call)
		}
		text = text[at+1:]
	}
}

// Each refusal says what was wrong, that nothing was done, and calls that work.
func TestBadTargetsOfEveryKind(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for arguments, says := range map[string]string{
		`{"action":"connect"}`:                                                                                         "needs to know what to work on",
		`{"action":"install"}`:                                                                                         "needs to know what to work on",
		`{"action":"connect","connectors":[]}`:                                                                         "needs to know",
		`{"action":"connect","connectors":"  "}`:                                                                       "needs to know",
		`{"action":"connect","connectors":7}`:                                                                          "must be a name, an object or a list",
		`{"action":"connect","connectors":true}`:                                                                       "must be a name, an object or a list",
		`{"action":"connect","connectors":[7]}`:                                                                        "neither a name nor an object",
		`{"action":"connect","connectors":[null]}`:                                                                     "neither a name nor an object",
		`{"action":"connect","connectors":[["mail"]]}`:                                                                 "neither a name nor an object",
		`{"action":"connect","connectors":[{}]}`:                                                                       "has no name",
		`{"action":"connect","connectors":[{"name":""}]}`:                                                              "has no name",
		`{"action":"connect","connectors":["my mail"]}`:                                                                "without spaces",
		`{"action":"connect","connectors":["` + long + `"]}`:                                                           "1 to 64 characters",
		`{"action":"connect","connectors":[{"name":7}]}`:                                                               "must be a text",
		`{"action":"connect","connectors":[{"name":"mail","mcp":7}]}`:                                                  "must be true or false",
		`{"action":"connect","connectors":[{"name":"mail","account":"x"}]}`:                                            `no field "account"`,
		`{"action":"connect","connectors":[{"name":"mail","alias":"my work"}]}`:                                        "is no alias",
		`{"action":"connect","connectors":[{"name":"mail","alias":"-a"}]}`:                                             "is no alias",
		`{"action":"connect","connectors":[{"name":"mail","alias":"a"},{"name":"mail","alias":"b"}]}`:                  "One target with an alias",
		`{"action":"connect","connectors":[{"name":"mail","to":"b"}]}`:                                                 `"to" is for rename`,
		`{"action":"status","connectors":[{"name":"mail","alias":"b"}]}`:                                               "takes no alias",
		`{"action":"connect","connectors":[{"name":"git","mcp":true}]}`:                                                "mcp: true",
		`{"action":"status","connectors":[{"name":"git","mcp":true}]}`:                                                 "mcp: true",
		`{"action":"install","connectors":["git"]}`:                                                                    "local MCP servers",
		`{"action":"install","connectors":[{"name":"git","mcp":true},"mail"]}`:                                         "local MCP servers",
		`{"action":"install","connectors":[{"name":"git","mcp":true,"alias":"x"}]}`:                                    "takes no alias",
		`{"action":"rename","connectors":["mail"]}`:                                                                    "rename takes one account",
		`{"action":"rename","connectors":[{"name":"mail","alias":"a"}]}`:                                               "rename takes one account",
		`{"action":"rename","connectors":[{"name":"mail","alias":"a","to":"b"},{"name":"x","alias":"a","to":"b"}]}`:    "rename takes one account",
		`{"action":"rename","connectors":[{"name":"mail","alias":"a","to":"b"},{"name":"mail","alias":"a","to":"c"}]}`: "rename takes one account",
		`{"action":"connect","connectors":["mail",{"name":"mail","to":"b"}]}`:                                          `"to" is for rename`,
		`{"action":"connect","connectors":["mail"],"force":true}`:                                                      "force",
		`{"action":"connect","connectors":["mail"],"force":"maybe"}`:                                                   "true or false",
		`{"action":"disconnect","connectors":["mail"]}`:                                                                "Only the user can disconnect",
		`{"action":"delete"}`:                "Only the user can disconnect",
		`{"action":"link"}`:                  `"link" is no action`,
		`{"action":7}`:                       "is no action",
		`{"action":"connect","name":"mail"}`: `no "name"`,
		`{"action":"connect","connectors":["a","b","c","d","e","f","g","h","i","j","k"]}`: "at most 10",
		`"mail"`: "", `"[1]"`: "",
	} {
		_, err := ParseManage(json.RawMessage(arguments))
		var mistake *subjects.ToolError
		if !errors.As(err, &mistake) || !strings.Contains(mistake.Message, says) {
			t.Errorf("%s: %v, want one that says %q", arguments, err, says)
			continue
		}
		if says != "" && !strings.Contains(mistake.Message, "Nothing was done") {
			t.Errorf("%s: %q does not say that nothing was done", arguments, mistake.Message)
		}
		for _, call := range callsIn(mistake.Message) {
			if _, err := ParseManage(call); err != nil {
				t.Errorf("%s: the call that it proposes, %s, is refused: %v", arguments, call, err)
			}
		}
	}
}

// Whatever a model writes, it is read or refused with a text that proposes calls which are not refused, and what was read
// is read again from its own call.
func TestParseManageNeverFails(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"mail", "CHAT", " x ", "", "a b", "connectors__mail__SEND"})
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.Custom(func(t *rapid.T) any {
			o := map[string]any{"name": word.Draw(t, "name")}
			for _, k := range []string{"mcp", "alias", "to"} {
				if rapid.Bool().Draw(t, k) {
					o[k] = rapid.SampledFrom([]any{true, false, "work", "A", 1, nil}).Draw(t, "value")
				}
			}
			return rapid.SampledFrom([]any{o, o["name"], nil, 7}).Draw(t, "form")
		})
		p, err := json.Marshal(map[string]any{
			"action":     rapid.SampledFrom([]any{"status", "connect", "reconnect", "rename", "install", "x", nil}).Draw(t, "action"),
			"connectors": rapid.SliceOfN(target, 0, 4).Draw(t, "connectors"),
			"force":      rapid.SampledFrom([]any{true, false, nil, "x"}).Draw(t, "force"),
		})
		if err != nil {
			t.Fatal(err)
		}
		m, err := ParseManage(p)
		if err != nil {
			var mistake *subjects.ToolError
			if !errors.As(err, &mistake) || !strings.Contains(mistake.Message, "Nothing was done") {
				t.Fatalf("%s: %v", p, err)
			}
			for _, call := range callsIn(mistake.Message) {
				if _, err := ParseManage(call); err != nil {
					t.Fatalf("%s: the call that it proposes, %s, is refused: %v", p, call, err)
				}
			}
			return
		}
		again, err := ParseManage(json.RawMessage(m.call()))
		if err != nil || again.digest() != m.digest() {
			t.Fatalf("%s gives %s, which is read as %+v, %v", p, m.call(), again, err)
		}
	})
}

func FuzzParseManage(f *testing.F) {
	for _, s := range []string{`{}`, `{"action":"connect","connectors":["mail"]}`, `{"connectors":{"name":"a","mcp":true}}`, `"{}"`, `{"connectors":" [ "}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := ParseManage(p)
		if (m == nil) == (err == nil) && err == nil {
			t.Error("neither read nor refused")
		}
	})
}

// An account is found however its app and alias are spelled, and one that is not there leads to those that are.
func TestAnAccountIsNamedInLowerCase(t *testing.T) {
	t.Parallel()
	have := []subjects.LinkedAccount{{Connector: "Mail", Alias: "Work"}, {Connector: "MAIL"}, {Connector: "chat", Alias: "work"}}
	target := &ManageTarget{Name: "mail", Alias: "work", To: "office"}
	for i, want := range []bool{true, false, false} {
		if got := target.Names(have[i]); got != want {
			t.Errorf("%+v: %v", have[i], got)
		}
	}
	target.Alias = "home"
	err := NoSuchAccount(target, have)
	calls := callsIn(err.Error())
	if len(calls) != 1 {
		t.Fatalf("%v", err)
	}
	if m, err := ParseManage(calls[0]); err != nil || !m.Targets[0].Names(have[0]) {
		t.Errorf("%s: %v", calls[0], err)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"mail", "calendar", "tracker", "files", "chat"}
	for name, want := range map[string]string{"mial": "[mail]", "gmail": "[mail]", "cal": "[calendar]", "chatt": "[chat]", "zzz": "[]"} {
		if got := fmt.Sprint(nearest(name, names)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
