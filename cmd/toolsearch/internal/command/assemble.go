package command

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/table"
	"toolsearch/subjects"
)

func (a *app) assemble() *cobra.Command {
	var c client
	var s scoping
	cmd := &cobra.Command{
		Use:   "assemble",
		Short: "Turn tools into what a model should see, and a scope",
		Long: `Assemble sends tools to a worker and gets back what a model should see: the tools that stay in sight, and the three
bridge tools with the listing of the rest. The scope is the handle for search, describe and call.

` + catalogHelp + "\n\n" + exitHelp,
		Example: `  toolsearch assemble --sample
  toolsearch assemble --catalog catalogs --enabled github,linear --context-length 200000
  toolsearch assemble --catalog tools.json --json | jq .tools`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.request(cmd, &s)
			if err != nil {
				return err
			}
			q, err := a.ask(cmd, &c)
			if err != nil {
				return err
			}
			defer q.Close()
			got, err := q.assemble(cmd.Context(), r)
			if err != nil {
				return a.refused(&c, err)
			}
			if c.json {
				return a.exact(got.Raw)
			}
			return a.printAssembled(got)
		},
	}
	c.flags(cmd, answerTimeout)
	s.flags(cmd, false)
	return cmd
}

// exact prints a reply as it came.
func (a *app) exact(raw []byte) error {
	_, err := a.out.Write(append(raw[:len(raw):len(raw)], '\n'))
	return err
}

// refused prints a service error's own body where the exact reply was wanted, and passes it on.
func (a *app) refused(c *client, err error) error {
	var e *subjects.Error
	if c.json && asService(err, &e) {
		if body, merr := json.Marshal(e); merr == nil {
			_ = a.exact(body)
		}
	}
	return err
}

func (a *app) printAssembled(r *subjects.Assembled) error {
	shown := tokens(r.Tools)
	rows := [][2]string{
		{"scope", r.Scope}, {"catalog", r.Catalog}, {"expires", r.ExpiresAt.Format("2006-01-02 15:04 MST")},
		{"tier", tierText(&r.AssembleReply)},
		{"deferred", deferredText(&r.AssembleReply)},
		{"visible", fmt.Sprintf("%s tools, about %s tokens", count(len(r.Tools)), count(shown))},
		{"saving", saving(&r.AssembleReply, shown)},
	}
	if len(r.UnknownToolsets) > 0 {
		rows = append(rows, [2]string{"unknown toolsets", strings.Join(r.UnknownToolsets, ", ")})
	}
	for _, row := range rows {
		a.out.Printf("%s%s\n", a.out.Bold(fmt.Sprintf("%-18s", row[0])), row[1])
	}
	if len(r.RejectedTools) == 0 {
		return nil
	}
	a.out.Println()
	t := table.New("REJECTED TOOL", "TOOLSET", "REASON")
	for _, x := range r.RejectedTools {
		t.Row(x.Name, x.Toolset, x.Reason)
	}
	return a.out.Table(t)
}

func tierText(r *subjects.AssembleReply) string {
	if !r.Activated {
		return "0: nothing deferred, every tool in sight"
	}
	return fmt.Sprintf("%d: listing %s, budget %s tokens", r.Tier, r.ListingForm, count(r.ListingBudget))
}

func deferredText(r *subjects.AssembleReply) string {
	if !r.Activated {
		return "0 tools"
	}
	return fmt.Sprintf("%s tools, about %s tokens of schemas", count(r.DeferredCount), count(r.DeferredTokens))
}

// saving compares what the model sees with what it would see without the bridge.
func saving(r *subjects.AssembleReply, shown int) string {
	if !r.Activated || len(r.Tools) < 3 {
		return "none"
	}
	bridge := tokens(r.Tools[len(r.Tools)-3:])
	all := shown - bridge + r.DeferredTokens
	if all <= shown {
		return fmt.Sprintf("none: the bridge takes about %s tokens more than what is deferred", count(shown-all))
	}
	return fmt.Sprintf("%.1f %% (about %s of %s tokens)", 100*(1-float64(shown)/float64(all)), count(all-shown), count(all))
}

// tokens estimates the tokens of definitions, at four characters each, as the listing's budget does.
func tokens(defs []json.RawMessage) int {
	n := 0
	for _, d := range defs {
		n += utf8.RuneCount(d)
	}
	return (n + 3) / 4
}

// count writes a number with separators: 12,345.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
