package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/subjects"
)

func (a *app) search() *cobra.Command {
	var c client
	var s scoping
	var limit int
	var arguments string
	cmd := &cobra.Command{
		Use:   "search [query]...",
		Short: "Find deferred tools, several queries at once",
		Long: `Search asks what a model asks with tool_search. Each argument is one query.

` + catalogHelp + "\n\n" + exitHelp,
		Example: `  toolsearch search --sample "create an issue" "send a message"
  toolsearch search --catalog catalogs --limit 3 "list pull requests"
  toolsearch search --scope sha256:... --json "refund a payment"
  toolsearch search --sample --arguments '{"queries": "refund"}'   # exactly what a model wrote`,
		RunE: func(cmd *cobra.Command, queries []string) error {
			args, err := searchArguments(queries, arguments, limit, cmd.Flags().Changed("limit"))
			if err != nil {
				return err
			}
			found, err := withScope(a, cmd, &c, &s, func(q *asking, scope subjects.Scope) (*subjects.Found, error) {
				return q.Search(cmd.Context(), scope, args)
			})
			if err != nil {
				return err
			}
			return a.printFound(&c, found)
		},
	}
	c.flags(cmd, answerTimeout)
	s.flags(cmd, true)
	cmd.Flags().IntVar(&limit, "limit", 0, "hits per query (default the worker's)")
	cmd.Flags().StringVar(&arguments, "arguments", "", "the model's arguments as they are, instead of queries")
	return cmd
}

// withScope opens the session and the scope of the flags, asks, and closes.
func withScope[T any](a *app, cmd *cobra.Command, c *client, s *scoping, do func(*asking, subjects.Scope) (T, error)) (T, error) {
	var none T
	r, err := a.scope(cmd, s)
	if err != nil {
		return none, err
	}
	q, err := a.ask(cmd, c)
	if err != nil {
		return none, err
	}
	defer q.Close()
	scope, err := q.open(cmd.Context(), s, r)
	if err != nil {
		return none, a.refused(c, err)
	}
	got, err := do(q, scope)
	if err != nil {
		return none, a.refused(c, err)
	}
	return got, nil
}

func searchArguments(queries []string, raw string, limit int, limited bool) (json.RawMessage, error) {
	switch {
	case raw != "" && (len(queries) > 0 || limited):
		return nil, usagef("--arguments says all; give it alone")
	case raw != "":
		return modelWrote(raw)
	case len(queries) == 0:
		return nil, usagef("no query: write for example \"create an issue\"")
	}
	args := struct {
		Queries []string `json:"queries"`
		Limit   *int     `json:"limit,omitempty"`
	}{Queries: queries}
	if limited {
		args.Limit = &limit
	}
	return subjects.Marshal(args)
}

func (a *app) printFound(c *client, f *subjects.Found) error {
	matched := 0
	for _, g := range f.Results {
		matched += len(g.Matches)
	}
	var err error
	switch {
	case c.json:
		err = a.exact(f.Raw)
	case f.Mistake != nil:
		a.out.Println(a.out.Bad("refused:"), f.Mistake.Message)
	default:
		err = a.printGroups(&f.SearchReply)
	}
	if err == nil && (matched == 0 || f.Mistake != nil) {
		err = errNothing
	}
	return err
}

func (a *app) printGroups(r *subjects.SearchReply) error {
	t := table.New("QUERY", "TOOL", "SOURCE", "REQUIRED", "DESCRIPTION")
	for _, g := range r.Results {
		query := g.Query
		for _, name := range g.Matches {
			record, _ := r.Tools.Get(name)
			t.Row(query, name, source(record), strings.Join(record.Required, " "), record.Description)
			query = ""
		}
	}
	if t.Len() > 0 {
		if err := a.out.Table(t); err != nil {
			return err
		}
	}
	for _, g := range r.Results {
		a.printGroupNotes(&g)
	}
	if r.Connectors != nil {
		a.out.Println(a.out.Warn("connectors:"), r.Connectors.Hint)
	}
	return nil
}

// printGroupNotes tells what a row cannot: a group that was cut, and one that is empty.
func (a *app) printGroupNotes(g *subjects.SearchGroup) {
	if g.Truncated {
		a.out.Println(a.out.Dim(fmt.Sprintf("%q: %d of %s matches shown", g.Query, len(g.Matches), count(g.TotalMatches))))
	}
	if len(g.Matches) > 0 {
		return
	}
	a.out.Println(a.out.Warn(fmt.Sprintf("%q: nothing found", g.Query)))
	if len(g.Near) > 0 {
		a.out.Println("  near:", strings.Join(g.Near, ", "))
	}
	for _, p := range g.DidYouMean {
		a.out.Printf("  did you mean %q for %q?\n", p.Value, p.Key)
	}
	if len(g.AvailableSources) > 0 {
		names := make([]string, len(g.AvailableSources))
		for i, s := range g.AvailableSources {
			names[i] = s.Name
		}
		a.out.Println("  sources:", strings.Join(names, ", "))
	}
	if g.Hint != "" {
		a.out.Println("  hint:", g.Hint)
	}
}

func source(r subjects.ToolRecord) string {
	if r.SourceName == "" {
		return r.Source
	}
	return r.SourceName
}

func asService(err error, e **subjects.Error) bool { return errors.As(err, e) }
