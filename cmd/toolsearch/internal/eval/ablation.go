package eval

import (
	"context"
	"math"
	"slices"

	"toolsearch/catalog"
)

// Variants are the whole of search, search without each part of its near half, and the near half alone.
func Variants() []Variant {
	return []Variant{
		Whole,
		{Name: "no stop words", Without: catalog.NearStopWords},
		{Name: "no weak words", Without: catalog.NearWeak},
		{Name: "no field weights", Without: catalog.NearFields},
		{Name: "no parameter texts", Without: catalog.NearDetails},
		{Name: "no word pairs", Without: catalog.NearPairs},
		{Name: "no covered names", Without: catalog.NearName},
		{Name: "no coverage", Without: catalog.NearCoverage},
		{Name: "no tool count", Without: catalog.NearSize},
		{Name: "no query length", Without: catalog.NearLength},
		{Name: "no spelling", Without: catalog.NearSpelling},
		{Name: "near alone", NearAlone: true},
	}
}

// Ablate measures all variants. Where the task has noise, each is measured at the confidence at which its noise is that
// of the whole; without, all are at [catalog.NearConfidence].
func Ablate(ctx context.Context, t Task, tell Progress) ([]*Result, error) {
	variants := Variants()
	results := make([]*Result, 0, len(variants))
	for i, v := range variants {
		part := func(p float64) {
			if tell != nil {
				tell((float64(i) + p) / float64(len(variants)))
			}
		}
		a, err := ask(ctx, &t, v, part)
		if err != nil {
			return nil, err
		}
		confidence := catalog.NearConfidence
		if i > 0 && len(a.noise) > 0 {
			confidence = a.confidenceAt(results[0].MeanNoise)
		}
		results = append(results, a.result(&t, v, confidence))
	}
	return results, nil
}

// confidenceAt is the least confidence at which the noise is at most this.
func (a *answers) confidenceAt(noise float64) float64 {
	var all []float64
	for _, list := range a.noise {
		for i := range list {
			all = append(all, list[i].confidence)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	// The noise falls as the confidence grows.
	at, _ := slices.BinarySearchFunc(all, noise, func(confidence, noise float64) int {
		if a.meanNoise(confidence) > noise {
			return -1
		}
		return 1
	})
	if at == len(all) { // only above all of them
		return math.Nextafter(all[at-1], math.Inf(1))
	}
	return all[at]
}
