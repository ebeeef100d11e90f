package eval

import (
	"context"
	"math"
	"slices"

	"toolsearch/catalog"
)

// Noise is a file of queries that is asked of a catalog where nothing fits them.
type Noise struct {
	Set  *Set
	File File
	// From is the set that the file is of.
	From string
}

// Task is what is measured.
type Task struct {
	Sets  []*Set
	Noise []Noise
}

// Across adds the noise of every set's first file in every other set's catalog.
func (t *Task) Across() {
	for _, from := range t.Sets {
		for _, in := range t.Sets {
			if in != from && len(from.Files) > 0 {
				t.Noise = append(t.Noise, Noise{in, from.Files[0], from.Name})
			}
		}
	}
}

// queries is how many queries the task asks.
func (t *Task) queries() (n int) {
	for _, s := range t.Sets {
		for _, f := range s.Files {
			n += len(f.Queries)
		}
	}
	for _, x := range t.Noise {
		n += len(x.File.Queries)
	}
	return n
}

// Variant is a way to search.
type Variant struct {
	Name string
	// Without are parts of the near half that are switched off.
	Without catalog.NearPart
	// NearAlone leaves matches out.
	NearAlone bool
}

// Whole is search as it is.
var Whole = Variant{Name: "whole"}

// Figures are what a file of queries comes to in its own catalog. All but Queries are shares from 0 to 1.
type Figures struct {
	Set     string  `json:"set"`
	File    string  `json:"file"`
	Tools   int     `json:"tools"`
	Queries int     `json:"queries"`
	Hit1    float64 `json:"hit_at_1"`
	Hit5    float64 `json:"hit_at_5"`
	NDCG10  float64 `json:"ndcg_at_10"`
	// Matches, Near and Empty are how the queries were answered; together they are 1.
	Matches float64 `json:"matches"`
	Near    float64 `json:"near"`
	Empty   float64 `json:"empty"`
}

// NoiseFigures are what queries come to in a catalog where nothing fits: the share that got any answer, and the part of
// it that was matches.
type NoiseFigures struct {
	Queries string  `json:"queries"`
	Catalog string  `json:"catalog"`
	Count   int     `json:"count"`
	Share   float64 `json:"share"`
	Matches float64 `json:"matches"`
}

// Result is what a variant comes to.
type Result struct {
	Variant string `json:"variant"`
	// Confidence is the least at which near tools were taken.
	Confidence float64        `json:"confidence"`
	Sets       []Figures      `json:"sets"`
	Noise      []NoiseFigures `json:"noise,omitempty"`
	// MeanNoise is the mean of the shares of Noise.
	MeanNoise float64 `json:"mean_noise"`
}

// depth is how many names of an answer are looked at.
const depth = 10

// answer is what one query got.
type answer struct {
	confidence float64 // +Inf for matches
	gain       [depth]bool
	relevant   int
}

// answers are those to a whole task.
type answers struct {
	sets  [][][]answer // by set and file
	noise [][]answer
}

// Progress is told how far a run is, from 0 to 1.
type Progress func(part float64)

// Run measures one variant at [catalog.NearConfidence].
func Run(ctx context.Context, t Task, v Variant, tell Progress) (*Result, error) {
	a, err := ask(ctx, &t, v, tell)
	if err != nil {
		return nil, err
	}
	return a.result(&t, v, catalog.NearConfidence), nil
}

// ask asks all queries of a task.
func ask(ctx context.Context, t *Task, v Variant, tell Progress) (*answers, error) {
	all, done := t.queries(), 0
	file := func(s *Set, queries []Query) ([]answer, error) {
		list := make([]answer, len(queries))
		for i, q := range queries {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			list[i] = v.answer(s.Scope, &q)
			if done++; tell != nil {
				tell(float64(done) / float64(all))
			}
		}
		return list, nil
	}
	a := new(answers)
	for _, s := range t.Sets {
		var files [][]answer
		for _, f := range s.Files {
			list, err := file(s, f.Queries)
			if err != nil {
				return nil, err
			}
			files = append(files, list)
		}
		a.sets = append(a.sets, files)
	}
	for _, n := range t.Noise {
		list, err := file(n.Set, n.File.Queries)
		if err != nil {
			return nil, err
		}
		a.noise = append(a.noise, list)
	}
	return a, nil
}

// answer asks one query.
func (v *Variant) answer(s *catalog.Scope, q *Query) answer {
	a := answer{relevant: len(q.Relevant)}
	var names []string
	if !v.NearAlone {
		reply := s.Search(&catalog.SearchQuery{Queries: []string{q.Query}, Limit: depth}, nil)
		names, a.confidence = reply.Results[0].Matches, math.Inf(1)
	}
	if len(names) == 0 {
		c := s.Closest(q.Query, depth, v.Without)
		names, a.confidence = c.Names, c.Confidence
	}
	for i, name := range names {
		a.gain[i] = slices.Contains(q.Relevant, name)
	}
	return a
}

// result counts what was answered at a confidence.
func (a *answers) result(t *Task, v Variant, confidence float64) *Result {
	r := &Result{Variant: v.Name, Confidence: confidence}
	for i, s := range t.Sets {
		for k, f := range s.Files {
			figures := Figures{Set: s.Name, File: f.Name, Tools: s.Scope.Deferred().Len(), Queries: len(f.Queries)}
			figures.count(a.sets[i][k], confidence)
			r.Sets = append(r.Sets, figures)
		}
	}
	for i, n := range t.Noise {
		figures := NoiseFigures{Queries: n.From, Catalog: n.Set.Name, Count: len(n.File.Queries)}
		figures.Share, figures.Matches = answered(a.noise[i], confidence), answered(a.noise[i], math.Inf(1))
		r.Noise = append(r.Noise, figures)
	}
	r.MeanNoise = a.meanNoise(confidence)
	return r
}

// answered is the share of answers of at least a confidence.
func answered(list []answer, confidence float64) float64 {
	n := 0
	for i := range list {
		if list[i].confidence >= confidence {
			n++
		}
	}
	return float64(n) / float64(len(list))
}

func (a *answers) meanNoise(confidence float64) float64 {
	if len(a.noise) == 0 {
		return 0
	}
	sum := 0.0
	for _, list := range a.noise {
		sum += answered(list, confidence)
	}
	return sum / float64(len(a.noise))
}

func (f *Figures) count(list []answer, confidence float64) {
	share := 1 / float64(len(list))
	for i := range list {
		a := &list[i]
		switch {
		case math.IsInf(a.confidence, 1):
			f.Matches += share
		case a.confidence >= confidence:
			f.Near += share
		default:
			f.Empty += share
			continue
		}
		if a.gain[0] {
			f.Hit1 += share
		}
		if slices.Contains(a.gain[:5], true) {
			f.Hit5 += share
		}
		f.NDCG10 += share * a.ndcg()
	}
}

// ndcg is the normalised discounted cumulative gain of the first ten names: 1 if the relevant tools stand first.
func (a *answer) ndcg() float64 {
	got, best := 0.0, 0.0
	for i, hit := range a.gain {
		worth := 1 / math.Log2(float64(i+2))
		if hit {
			got += worth
		}
		if i < a.relevant {
			best += worth
		}
	}
	if best == 0 {
		return 0
	}
	return got / best
}
