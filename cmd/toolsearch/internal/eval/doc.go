// Package eval measures how well search answers: it asks labelled queries of a catalog and counts how often a tool that
// answers a query is among the first, how many queries are left without an answer, and how many get one in a catalog
// where nothing fits.
//
//	set, err := eval.ReadSet("bfcl", []string{"bfcl"}, []string{"bfcl"})      // a catalog, and files of queries
//	task := eval.Task{Sets: []*eval.Set{set}, Noise: []eval.Noise{{Set: set, File: other}}}
//	result, err := eval.Run(ctx, task, eval.Whole, progress)
//
// A line of a file of queries is {"id", "query", "relevant": [tool names]}. A query is a hit at k if one of its relevant
// tools is among the first k names: of matches, or of near where nothing matches. nDCG@10 counts them all, by their ranks.
//
// It asks package catalog directly, in one process and without a bus: the same inputs give the same figures.
//
// [Ablate] measures what each part of the near half of a search is worth. Without a part, confidence is on another scale,
// so that each variant is measured at the confidence at which its noise is that of the whole formula.
package eval
