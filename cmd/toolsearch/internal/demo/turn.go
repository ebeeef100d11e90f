package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"toolsearch/cmd/toolsearch/internal/sample"
	"toolsearch/subjects"
)

// contextLength is the model's context, in tokens.
var contextLength int64 = 200_000

// errUnexpected ends the demo where the product did not do what the scene says.
var errUnexpected = errors.New("demo: this is not what should have happened")

func unexpected(what string, got any) error {
	return fmt.Errorf("%w: %s: %v", errUnexpected, what, got)
}

// assemble hands the tools over and shows what the model is left with.
func (s *stage) assemble(ctx context.Context) error {
	s.say.scene("Assemble: what the model sees")
	s.say.text("The agent hands over all its tools. What defers goes behind three bridge tools; core tools stay in sight. The description of " +
		"tool_search lists what is behind it, within a budget.")
	tools := sample.JSON(sample.Tools())
	got, err := s.agent.Assemble(ctx, &subjects.AssembleRequest{Tools: tools, ContextLength: &contextLength})
	if err != nil {
		return err
	}
	s.scope = subjects.Handle(got.Scope)
	if !got.Activated || len(got.Tools) < 3 || len(got.RejectedTools) > 0 {
		return unexpected("assemble", string(got.Raw))
	}
	bridge := got.Tools[len(got.Tools)-3:]
	after, bridged := tokens(got.Tools), tokens(bridge)
	before := after - bridged + got.DeferredTokens
	s.say.line(fmt.Sprintf("  without  %6s tools  %8s tokens", number(len(got.Tools)-3+got.DeferredCount), number(before)))
	s.say.line(fmt.Sprintf("  with     %6s tools  %8s tokens   (%s in sight, 3 bridge tools with a listing of %s tools)",
		number(len(got.Tools)), number(after), number(len(got.Tools)-3), number(got.DeferredCount)))
	s.say.line(s.Out.Good(fmt.Sprintf("  saved    %.1f %% of the context that tools take, at every turn", 100*(1-float64(after)/float64(before)))))
	s.say.text(fmt.Sprintf("The listing (form %q, budget %s tokens) begins:", got.ListingForm, number(got.ListingBudget)))
	for _, l := range listing(bridge[0], 6) {
		s.say.line(s.Out.Dim("  | ") + l)
	}
	return nil
}

// listing is some lines of the listing inside the description of tool_search.
func listing(def json.RawMessage, n int) []string {
	var d struct {
		Function struct{ Description string } `json:"function"`
	}
	if json.Unmarshal(def, &d) != nil {
		return nil
	}
	lines := strings.Split(d.Function.Description, "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, " tools (") })
	lines = lines[max(0, at):]
	out := make([]string, 0, n)
	for _, l := range lines[:min(n, len(lines))] {
		if utf8.RuneCountInString(l) > width-6 {
			l = string([]rune(l)[:width-9]) + "..."
		}
		out = append(out, l)
	}
	return out
}

func tokens(defs []json.RawMessage) int {
	n := 0
	for _, d := range defs {
		n += utf8.RuneCount(d)
	}
	return (n + 3) / 4
}

func (s *stage) search(ctx context.Context) error {
	s.say.scene("Search: the right tool by a few words")
	s.say.text("Two queries at once. Connectors are searched side by side with the agent's own tools and ranked with them.")
	const args = `{"queries": ["create an issue", "send an email"], "limit": 4}`
	s.say.model("tool_search", args)
	got, err := s.agent.Search(ctx, s.scope, json.RawMessage(args))
	if err != nil {
		return err
	}
	if len(got.Results) != 2 || !slices.Contains(got.Results[0].Matches, issueTool) || !slices.Contains(got.Results[1].Matches, mailTool) {
		return unexpected("search", string(got.Raw))
	}
	for _, g := range got.Results {
		s.say.result(fmt.Sprintf("%q:", g.Query), 1)
		for _, name := range g.Matches {
			r, _ := got.Tools.Get(name)
			s.say.line(fmt.Sprintf("           %-38s %s", name, r.Description))
		}
	}
	return nil
}

// The tools that the scenes call.
const (
	issueTool = "mcp__gitnest__create_issue"
	mailTool  = "connectors__mail__SEND_EMAIL"
)

func (s *stage) searchInVain(ctx context.Context) error {
	s.say.scene("Search: nothing, said clearly")
	s.say.text("A tool must hold the query's rarest word. Where none does, the model gets nothing instead of something similar, and learns " +
		"what is connected.")
	const args = `{"queries": ["order a pizza"]}`
	s.say.model("tool_search", args)
	got, err := s.agent.Search(ctx, s.scope, json.RawMessage(args))
	if err != nil {
		return err
	}
	if len(got.Results) != 1 || len(got.Results[0].Matches) > 0 {
		return unexpected("search", string(got.Raw))
	}
	g := got.Results[0]
	names := make([]string, len(g.AvailableSources))
	for i, src := range g.AvailableSources {
		names[i] = src.Name
	}
	s.say.result("matches: []", 1)
	s.say.result("available_sources: "+strings.Join(names, ", "), 2)
	s.say.result("hint: "+g.Hint, 3)
	return nil
}

func (s *stage) describe(ctx context.Context) error {
	s.say.scene("Describe: one schema, when it is needed")
	args := fmt.Sprintf(`{"names": [%q]}`, issueTool)
	s.say.model("tool_describe", args)
	got, err := s.agent.Describe(ctx, s.scope, json.RawMessage(args))
	if err != nil {
		return err
	}
	schema, ok := got.DescribeReply.Tools.Get(issueTool)
	if !ok {
		return unexpected("describe", string(got.Raw))
	}
	s.say.result(fmt.Sprintf("%s: %s %s", issueTool, schema.Description, schema.Parameters), 6)
	return nil
}

func (s *stage) repaired(ctx context.Context) error {
	s.say.scene("Call: repaired before anything is sent")
	s.say.text("The model writes a number as text and one label where a list belongs. The tool is the agent's own, so it gets the call back, " +
		"checked and repaired, under the tool's real name: hooks and approvals see what really runs.")
	args := fmt.Sprintf(`{"calls": [{"name": %q, "arguments": {"repository": "site", "title": "Broken link", "priority": "2", "labels": "bug"}}]}`, issueTool)
	s.say.model("tool_call", args)
	got, err := s.agent.Call(ctx, subjects.CallRequest{Scope: s.scope, Arguments: json.RawMessage(args)}, nil)
	if err != nil {
		return err
	}
	if got.Caller == nil || got.Caller.Name != issueTool || !strings.Contains(string(got.Caller.Arguments), `["bug"]`) {
		return unexpected("call", string(got.Raw))
	}
	s.say.result(string(got.Raw), 4)
	return nil
}

func (s *stage) refused(ctx context.Context) error {
	s.say.scene("Call: refused with its schema")
	s.say.text("What cannot be repaired is refused at the door: nothing ran, and the model is told how to do better.")
	args := fmt.Sprintf(`{"calls": [{"name": %q, "arguments": {"repository": "site", "priority": "soon"}}]}`, issueTool)
	s.say.model("tool_call", args)
	got, err := s.agent.Call(ctx, subjects.CallRequest{Scope: s.scope, Arguments: json.RawMessage(args)}, nil)
	if err != nil {
		return err
	}
	if got.Mistake == nil || !strings.Contains(string(got.Raw), `"properties"`) {
		return unexpected("call", string(got.Raw))
	}
	s.say.result(indented(got.Raw), 7)
	return nil
}
