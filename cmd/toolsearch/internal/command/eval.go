package command

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"toolsearch/cmd/toolsearch/internal/eval"
	"toolsearch/cmd/toolsearch/internal/table"
)

// evaluating is what the eval verb's own flags say.
type evaluating struct {
	catalogs, queries, noise []string
	sets                     string
	ablate, json             bool
}

func (a *app) eval() *cobra.Command {
	var e evaluating
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure how well search answers labelled queries",
		Long: `Eval asks labelled queries of a catalog, in this process and without a bus, and prints how often a tool that answers
one is first (hit@1) or among the first five (hit@5), nDCG@10, and the shares of queries answered by matches, by near,
or not at all. A line of a file of queries is {"id", "query", "relevant": [tool names]}.

--noise asks the queries of another set in this catalog, where nothing fits them: any answer is noise. --sets takes a
folder of sets, each a folder with a catalog.json and files of queries, and measures the noise of each in each other.
--ablate measures search again without each part of near, at the same noise.

` + exitHelp,
		Example: `  toolsearch eval --catalog catalog.json --queries queries.jsonl
  toolsearch eval --catalog mine --queries mine --noise others/queries.jsonl --json
  toolsearch eval --sets retrieval --ablate`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			task, err := untilEnd(cmd.Context(), e.task)
			if err != nil {
				return err
			}
			return a.evaluate(cmd, &e, task)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&e.catalogs, "catalog", nil, "file or folder with tools (repeatable)")
	f.StringArrayVar(&e.queries, "queries", nil, "file or folder with labelled queries (repeatable)")
	f.StringArrayVar(&e.noise, "noise", nil, "file or folder with queries that nothing in the catalog fits (repeatable)")
	f.StringVar(&e.sets, "sets", "", "folder of sets, instead of --catalog, --queries and --noise")
	f.BoolVar(&e.ablate, "ablate", false, "measure what each part of near is worth")
	f.BoolVar(&e.json, "json", false, "print the figures as one JSON object")
	return cmd
}

// task reads what the flags name.
func (e *evaluating) task() (t eval.Task, err error) {
	switch named := len(e.catalogs) + len(e.queries) + len(e.noise); {
	case e.sets != "" && named > 0:
		return t, usagef("--sets says all; give it without --catalog, --queries and --noise")
	case e.sets != "":
		if t.Sets, err = eval.ReadSets(e.sets); err != nil {
			return t, usageError{err}
		}
		t.Across()
		return t, nil
	case len(e.catalogs) == 0 || len(e.queries) == 0:
		return t, usagef("give --catalog and --queries, or --sets")
	}
	set, err := eval.ReadSet(baseName(e.catalogs[0]), e.catalogs, e.queries)
	if err != nil {
		return t, usageError{err}
	}
	t.Sets = []*eval.Set{set}
	for _, path := range e.noise {
		files, err := eval.ReadQueries(path)
		if err != nil {
			return t, usageError{err}
		}
		for _, f := range files {
			t.Noise = append(t.Noise, eval.Noise{Set: set, File: f, From: baseName(path)})
		}
	}
	return t, nil
}

// baseName names a set by its folder, or by the folder that its file lies in.
func baseName(path string) string {
	if filepath.Ext(path) != "" {
		if folder := filepath.Base(filepath.Dir(path)); folder != "." && folder != string(filepath.Separator) {
			return folder
		}
	}
	return filepath.Base(path)
}

func (a *app) evaluate(cmd *cobra.Command, e *evaluating, task eval.Task) error {
	progress, end := a.progress("eval")
	defer end()
	tell := eval.Progress(func(part float64) {
		if progress != nil {
			progress(part, "asking")
		}
	})
	var results []*eval.Result
	var err error
	if e.ablate {
		results, err = eval.Ablate(cmd.Context(), task, tell)
	} else {
		var r *eval.Result
		if r, err = eval.Run(cmd.Context(), task, eval.Whole, tell); err == nil {
			results = []*eval.Result{r}
		}
	}
	if err != nil {
		return err
	}
	end()
	if e.json {
		text, err := json.MarshalIndent(map[string]any{"results": results}, "", "  ")
		if err != nil {
			return err
		}
		return a.exact(text)
	}
	if err := a.printFigures(results[0]); err != nil || !e.ablate {
		return err
	}
	return a.printAblation(results)
}

func (a *app) printFigures(r *eval.Result) error {
	t := table.New("SET", "QUERIES", "TOOLS", "ASKED", "HIT@1", "HIT@5", "NDCG@10", "MATCHES", "NEAR", "EMPTY")
	for _, f := range r.Sets {
		t.Row(f.Set, f.File, count(f.Tools), count(f.Queries), share(f.Hit1), share(f.Hit5), share(f.NDCG10),
			share(f.Matches), share(f.Near), share(f.Empty))
	}
	if err := a.out.Table(t); err != nil || len(r.Noise) == 0 {
		return err
	}
	a.out.Println()
	t = table.New("NOISE OF", "IN", "ASKED", "ANSWERED", "BY MATCHES")
	for _, n := range r.Noise {
		t.Row(n.Queries, n.Catalog, count(n.Count), share(n.Share), share(n.Matches))
	}
	if err := a.out.Table(t); err != nil {
		return err
	}
	a.out.Printf("\nmean noise over %d pairs: %s, near from a confidence of %.3f\n", len(r.Noise), share(r.MeanNoise), r.Confidence)
	return nil
}

// printAblation prints hit@5 of each variant. Without noise the variants are not comparable, which it says.
func (a *app) printAblation(results []*eval.Result) error {
	head := []string{"HIT@5", "NOISE"}
	for _, f := range results[0].Sets {
		head = append(head, shortName(&f))
	}
	t := table.New(head...)
	for _, r := range results {
		row := []string{r.Variant, share(r.MeanNoise)}
		for _, f := range r.Sets {
			row = append(row, share(f.Hit5))
		}
		t.Row(row...)
	}
	a.out.Println()
	if err := a.out.Table(t); err != nil {
		return err
	}
	if len(results[0].Noise) == 0 {
		a.out.Println("\nwithout --noise every variant is measured at one confidence, which means something else to each")
	}
	return nil
}

// shortName names a file of a set, in one word where it is the set's only or first.
func shortName(f *eval.Figures) string {
	if f.File == "queries" {
		return f.Set
	}
	return f.File
}

func share(x float64) string { return fmt.Sprintf("%.3f", x) }
