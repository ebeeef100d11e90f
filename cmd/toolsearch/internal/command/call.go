package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/subjects"
)

// calling is what the call verb's own flags say.
type calling struct {
	arguments, id string
	async         bool
}

func (a *app) call() *cobra.Command {
	var c client
	var s scoping
	var k calling
	cmd := &cobra.Command{
		Use:   "call [name [arguments]]",
		Short: "Call a tool, or a batch of connector tools",
		Long: `Call asks what a model asks with tool_call. A tool of the caller's own comes back checked and repaired, to be run by
the caller; a connector batch and a hosted tool run on the bus, and each entry is printed as it settles. The same
--call-id again joins the call that runs or has run, and runs nothing twice.

` + catalogHelp + "\n\n" + exitHelp,
		Example: `  toolsearch call --sample mcp__gitnest__create_issue '{"repository": "site", "title": "Broken link", "priority": "2"}'
  toolsearch call --sample --arguments '{"calls": [{"name": "connectors__mail__SEND_EMAIL", "arguments": {}}]}'
  toolsearch call --sample --arguments - --async < calls.json`,
		Args: takes(0, 2, "a name and its arguments as one piece of JSON, in quotes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := a.callArguments(cmd.Context(), args, k.arguments)
			if err != nil {
				return err
			}
			if k.id != "" && !subjects.ValidToken(k.id) {
				return usagef("--call-id must be 1 to %d of A-Z a-z 0-9 _ -", subjects.MaxToken)
			}
			got, err := withScope(a, cmd, &c, &s, func(q *asking, scope subjects.Scope) (*subjects.Called, error) {
				r := subjects.CallRequest{Scope: scope, CallID: k.id, Arguments: raw}
				if k.async {
					return q.CallAsync(cmd.Context(), r)
				}
				var each func(subjects.EntryEvent)
				if !c.json {
					each = func(e subjects.EntryEvent) { a.printEntry(&e) }
				}
				return q.Call(cmd.Context(), r, each)
			})
			if err != nil {
				return err
			}
			return a.printCalled(&c, got)
		},
	}
	c.flags(cmd, 10*time.Minute)
	s.flags(cmd, true)
	cmd.Flags().StringVar(&k.arguments, "arguments", "", "the model's arguments as they are; - reads them from standard input")
	cmd.Flags().StringVar(&k.id, "call-id", "", "the call's id (default a new one)")
	cmd.Flags().BoolVar(&k.async, "async", false, "return as soon as the call is durable")
	return cmd
}

// callArguments takes the model's arguments whole, or makes them of a name and its arguments.
func (a *app) callArguments(ctx context.Context, args []string, raw string) (json.RawMessage, error) {
	switch {
	case raw != "" && len(args) > 0:
		return nil, usagef("--arguments says all; give it alone")
	case raw == "-":
		text, err := untilEnd(ctx, func() ([]byte, error) { return io.ReadAll(a.In) })
		switch {
		case errors.Is(err, errInterrupted):
			return nil, err
		case err != nil:
			return nil, usagef("read the arguments from standard input: %w", err)
		case !json.Valid(text):
			return nil, usagef("standard input holds no JSON; write for example '{\"calls\": [...]}'")
		}
		return text, nil
	case raw != "":
		return modelWrote(raw)
	case len(args) == 0:
		return nil, usagef("no tool: write its name, and its arguments as JSON")
	}
	entry := struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{args[0], json.RawMessage("{}")}
	if len(args) == 2 {
		if entry.Arguments = json.RawMessage(args[1]); !json.Valid(entry.Arguments) {
			return nil, usagef("the arguments are not JSON: %s", table.Cut(args[1], 80))
		}
	}
	return subjects.Marshal(map[string]any{"calls": []any{entry}})
}

// modelWrote takes arguments as a model wrote them, wrong ones too, as long as they can be sent.
func modelWrote(raw string) (json.RawMessage, error) {
	if !json.Valid([]byte(raw)) {
		return nil, usagef("--arguments is not JSON: %s", table.Cut(raw, 80))
	}
	return json.RawMessage(raw), nil
}

// printEntry tells of one entry that has settled.
func (a *app) printEntry(e *subjects.EntryEvent) {
	word := string(e.Outcome)
	switch e.Outcome {
	case subjects.OutcomeOK:
		word = a.out.Good(word)
	case subjects.OutcomeInterrupted:
		word = a.out.Warn(word)
	default:
		word = a.out.Bad(word)
	}
	pad := strings.Repeat(" ", max(0, len("interrupted")-len(e.Outcome)))
	a.out.Printf("%2d  %s%s  %s  %s%s\n", e.Index, word, pad, e.Name, entryText(&e.EntryResult), again(e.Attempts))
	if e.Error != nil && e.Error.ConnectURL != "" {
		a.out.Println("    open", a.out.Bold(e.Error.ConnectURL))
	}
}

func again(attempts int) string {
	if attempts > 1 {
		return fmt.Sprintf(" (%d attempts)", attempts)
	}
	return ""
}

// entryText is an entry's result on one line.
func entryText(r *subjects.EntryResult) string {
	if r.Error != nil {
		return string(r.Error.Code) + ": " + r.Error.Message
	}
	return table.Cut(string(r.Response), 200)
}

func (a *app) printCalled(c *client, got *subjects.Called) error {
	var err error
	switch {
	case c.json:
		err = a.exact(got.Raw)
	case got.Mistake != nil:
		a.out.Println(a.out.Bad("refused:"), got.Mistake.Message)
		if rest := beyondError(got.Raw); rest != "" {
			a.out.Println(a.out.Dim(rest))
		}
	case got.Caller != nil:
		a.out.Println(a.out.Bold("run it yourself:"), got.Caller.Name, string(got.Caller.Arguments))
		if got.Caller.Parallel {
			a.out.Println(a.out.Dim("it may run side by side with others"))
		}
	case got.Accepted != nil:
		a.out.Println("accepted:", got.Accepted.CallID)
		a.out.Println(a.out.Dim("its events come on " + got.Accepted.Results))
	case got.Batch != nil:
		a.out.Printf("%s %d of %d succeeded\n", a.out.Bold("call "+got.CallID+":"), got.Batch.SuccessCount, got.Batch.TotalCount)
	default:
		err = a.exact(got.Raw)
	}
	if err == nil && (got.Mistake != nil || got.Batch != nil && got.Batch.ErrorCount > 0) {
		err = errNothing
	}
	return err
}

// beyondError is what a refusal carries besides its text, such as the schema, on one line.
func beyondError(raw []byte) string {
	var members subjects.Ordered[json.RawMessage]
	if json.Unmarshal(raw, &members) != nil {
		return ""
	}
	var parts []string
	for _, m := range members {
		if m.Key != "error" {
			parts = append(parts, m.Key+": "+string(m.Value))
		}
	}
	return strings.Join(parts, "\n")
}
