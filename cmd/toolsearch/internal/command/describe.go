package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/subjects"
)

func (a *app) describe() *cobra.Command {
	var c client
	var s scoping
	var arguments string
	cmd := &cobra.Command{
		Use:   "describe [name]...",
		Short: "Load the full schemas of tools",
		Long: `Describe asks what a model asks with tool_describe. Each argument is the exact name of a tool.

` + catalogHelp + "\n\n" + exitHelp,
		Example: `  toolsearch describe --sample mcp__gitnest__create_issue
  toolsearch describe --catalog catalogs --json mcp__github__create_issue | jq .tools`,
		RunE: func(cmd *cobra.Command, names []string) error {
			args, err := describeArguments(names, arguments)
			if err != nil {
				return err
			}
			got, err := withScope(a, cmd, &c, &s, func(q *asking, scope subjects.Scope) (*subjects.Described, error) {
				return q.Describe(cmd.Context(), scope, args)
			})
			if err != nil {
				return err
			}
			return a.printDescribed(&c, got)
		},
	}
	c.flags(cmd, answerTimeout)
	s.flags(cmd, true)
	cmd.Flags().StringVar(&arguments, "arguments", "", "the model's arguments as they are, instead of names")
	return cmd
}

func describeArguments(names []string, raw string) (json.RawMessage, error) {
	switch {
	case raw != "" && len(names) > 0:
		return nil, usagef("--arguments says all; give it alone")
	case raw != "":
		return modelWrote(raw)
	case len(names) == 0:
		return nil, usagef("no name: write for example mcp__gitnest__create_issue")
	}
	return subjects.Marshal(struct {
		Names []string `json:"names"`
	}{names})
}

func (a *app) printDescribed(c *client, d *subjects.Described) error {
	var err error
	switch {
	case c.json:
		err = a.exact(d.Raw)
	case d.Mistake != nil:
		a.out.Println(a.out.Bad("refused:"), d.Mistake.Message)
	default:
		err = a.printSchemas(&d.DescribeReply)
	}
	if err == nil && (len(d.Tools) == 0 || d.Mistake != nil) {
		err = errNothing
	}
	return err
}

func (a *app) printSchemas(d *subjects.DescribeReply) error {
	for i, p := range d.Tools {
		if i > 0 {
			a.out.Println()
		}
		a.out.Println(a.out.Bold(p.Key))
		if p.Value.Description != "" {
			a.out.Println(p.Value.Description)
		}
		if err := a.printParameters(p.Value.Parameters); err != nil {
			return err
		}
	}
	for _, name := range d.NotFound {
		a.out.Println(a.out.Warn("not found:"), name)
	}
	for _, p := range d.Errors {
		a.out.Println(a.out.Bad(p.Key+":"), p.Value)
	}
	if d.Hint != "" {
		a.out.Println(a.out.Dim(d.Hint))
	}
	if d.Connectors != nil {
		a.out.Println(a.out.Warn("connectors:"), d.Connectors.Hint)
	}
	return nil
}

// printParameters shows a schema's top level. Whoever needs it whole uses --json.
func (a *app) printParameters(raw json.RawMessage) error {
	var schema struct {
		Properties subjects.Ordered[json.RawMessage] `json:"properties"`
		Required   []string                          `json:"required"`
	}
	if json.Unmarshal(raw, &schema) != nil || len(schema.Properties) == 0 {
		a.out.Println(a.out.Dim("(no parameters)"))
		return nil
	}
	t := table.New("PARAMETER", "TYPE", "REQUIRED", "DESCRIPTION")
	for _, p := range schema.Properties {
		required := ""
		if slices.Contains(schema.Required, p.Key) {
			required = "yes"
		}
		kind, text := parameter(p.Value)
		t.Row(p.Key, kind, required, text)
	}
	return a.out.Table(t)
}

// parameter words the type of one property; a schema that is more than that is named by what it holds.
func parameter(raw json.RawMessage) (kind, text string) {
	var p struct {
		Type        any             `json:"type"`
		Description string          `json:"description"`
		Enum        []any           `json:"enum"`
		Items       json.RawMessage `json:"items"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return "any", ""
	}
	switch t := p.Type.(type) {
	case string:
		kind = t
	case []any:
		parts := make([]string, len(t))
		for i, e := range t {
			parts[i] = fmt.Sprint(e)
		}
		kind = strings.Join(parts, " or ")
	default:
		kind = "any"
	}
	if kind == "array" && len(p.Items) > 0 {
		item, _ := parameter(p.Items)
		kind = item + " list"
	}
	if len(p.Enum) > 0 {
		parts := make([]string, len(p.Enum))
		for i, e := range p.Enum {
			parts[i] = fmt.Sprint(e)
		}
		kind = strings.Join(parts, "|")
	}
	return kind, p.Description
}
