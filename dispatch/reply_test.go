package dispatch

import (
	"encoding/json"
	"strings"
	"testing"

	"toolsearch/subjects"
)

// A reply that its carrier would refuse gives up its largest results, as few as need be, and never becomes an error.
func TestMarshalWithin(t *testing.T) {
	t.Parallel()
	result := func(i, size int) subjects.EntryResult {
		return subjects.EntryResult{Index: i, Name: "n", Response: json.RawMessage(`"` + strings.Repeat("x", size) + `"`)}
	}
	r := &Reply{Batch: &subjects.BatchReply{SuccessCount: 3, ErrorCount: 1, TotalCount: 4, Results: []subjects.EntryResult{
		result(0, 3000), result(1, 10_000), result(2, 2000), {Index: 3, Name: "n", Error: &subjects.EntryError{Code: "X", Message: "m"}},
	}}}
	whole, err := r.MarshalModel()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit int
		gone  []int // whose results are elsewhere
	}{
		{len(whole), nil}, {len(whole) - 1, []int{1}}, {7000, []int{1}}, {4000, []int{0, 1}}, {10, []int{0, 1, 2}},
	} {
		body, err := r.MarshalWithin(c.limit)
		if err != nil || len(body) > max(c.limit, 1000) {
			t.Fatalf("limit %d: %d bytes, %v", c.limit, len(body), err)
		}
		var got subjects.BatchReply
		if err := json.Unmarshal(body, &got); err != nil || got.SuccessCount != 3 || got.TotalCount != 4 || got.Results[3].Error == nil {
			t.Fatalf("limit %d: %s, %v", c.limit, body, err)
		}
		var gone []int
		for i, line := range got.Results[:3] {
			if strings.Contains(string(line.Response), "event") {
				gone = append(gone, i)
			} else if string(line.Response) != string(r.Batch.Results[i].Response) {
				t.Errorf("limit %d: line %d is %.40s", c.limit, i, line.Response)
			}
		}
		if len(gone) != len(c.gone) || len(gone) > 0 && gone[0] != c.gone[0] {
			t.Errorf("limit %d: the results of %v are elsewhere, want those of %v", c.limit, gone, c.gone)
		}
	}
	if again, err := r.MarshalModel(); err != nil || string(again) != string(whole) {
		t.Error("the reply itself was changed")
	}
	hosted := &Reply{Hosted: true, Batch: &subjects.BatchReply{Results: []subjects.EntryResult{result(0, 500)}}}
	if body, err := hosted.MarshalWithin(10); err != nil || len(body) != 502 {
		t.Errorf("a hosted tool's own result: %d bytes, %v", len(body), err)
	}
}
