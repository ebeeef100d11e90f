package eval_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"toolsearch/catalog"
	"toolsearch/catalog/catalogtest"
	"toolsearch/cmd/toolsearch/internal/eval"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write puts files into a new folder and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

const (
	mailTools = `{"toolset":"mcp-mail","tools":[
		{"name":"mcp__mail__send_message","description":"Sends a message to somebody."},
		{"name":"mcp__mail__find_messages","description":"Finds messages that hold a text."},
		{"name":"mcp__mail__delete_folder","description":"Deletes a folder."}]}`
	mailQueries = `{"id":"1","query":"send message","relevant":["mcp__mail__send_message"]}
{"id":"2","query":"please find messages","relevant":["mcp__mail__send_message","mcp__mail__find_messages"]}

{"id":"3","query":"folder","relevant":["mcp__mail__send_message"]}
{"id":"4","query":"book a flight","relevant":["mcp__mail__send_message"]}
`
	treeTools   = `[{"name":"plant_tree","description":"Plants a tree."},{"name":"water_tree","description":"Waters a tree."}]`
	treeQueries = `{"query":"plant a tree","relevant":["plant_tree"]}` + "\n" + `{"query":"find a folder","relevant":[]}`
)

func sets(t *testing.T) string {
	t.Helper()
	return write(t, map[string]string{
		"mail/catalog.json": mailTools, "mail/queries.jsonl": mailQueries, "mail/notes.txt": "not read",
		"trees/catalog.json": treeTools, "trees/queries.jsonl": "\xef\xbb\xbf" + treeQueries, "empty/x": "",
	})
}

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

func TestRun(t *testing.T) {
	t.Parallel()
	read, err := eval.ReadSets(sets(t))
	if err != nil {
		t.Fatal(err)
	}
	task := eval.Task{Sets: read}
	task.Across()
	told := 0.0
	r, err := eval.Run(context.Background(), task, eval.Whole, func(part float64) {
		if part < told {
			t.Errorf("progress fell from %v to %v", told, part)
		}
		told = part
	})
	if err != nil || told != 1 {
		t.Fatal(err, told)
	}
	mail := r.Sets[0]
	// The first query has its tool first, the second by near, the third has another's, the fourth none.
	second := (1 + 1/math.Log2(3)) / (1 + 1/math.Log2(3))
	if mail.Set != "mail" || mail.File != "queries" || mail.Tools != 3 || mail.Queries != 4 || !near(mail.Hit1, 0.5) || !near(mail.Hit5, 0.5) ||
		!near(mail.NDCG10, (1+second)/4) || !near(mail.Matches, 0.5) || !near(mail.Near, 0.25) || !near(mail.Empty, 0.25) {
		t.Errorf("%+v", mail)
	}
	if len(r.Noise) != 2 || r.Noise[0].Queries != "mail" || r.Noise[0].Catalog != "trees" || r.Noise[0].Share != 0 ||
		r.Noise[1].Catalog != "mail" || !near(r.Noise[1].Share, 0.5) || !near(r.MeanNoise, 0.25) || r.Confidence != catalog.NearConfidence {
		t.Errorf("%+v", r)
	}
	again, err := eval.Run(context.Background(), task, eval.Whole, nil)
	if err != nil || again.MeanNoise != r.MeanNoise || again.Sets[0] != mail {
		t.Errorf("another time: %+v, %v", again, err)
	}
	alone, err := eval.Run(context.Background(), task, eval.Variant{NearAlone: true}, nil)
	if err != nil || alone.Sets[0].Matches != 0 || alone.Sets[0].Near < 0.5 {
		t.Errorf("near alone: %+v, %v", alone, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	read, err := eval.ReadSets(sets(t))
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	asked := 0
	_, err = eval.Run(ctx, eval.Task{Sets: read}, eval.Whole, func(float64) {
		if asked++; asked == 2 {
			cancel(why)
		}
	})
	if !errors.Is(err, why) || asked != 2 {
		t.Errorf("%v after %d queries", err, asked)
	}
}

func TestAblate(t *testing.T) {
	t.Parallel()
	read, err := eval.ReadSets(sets(t))
	if err != nil {
		t.Fatal(err)
	}
	task := eval.Task{Sets: read}
	task.Across()
	results, err := eval.Ablate(context.Background(), task, nil)
	if err != nil || len(results) != len(eval.Variants()) {
		t.Fatal(len(results), err)
	}
	for _, r := range results[1:] {
		if r.MeanNoise > results[0].MeanNoise {
			t.Errorf("%s has more noise than the whole: %v", r.Variant, r.MeanNoise)
		}
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	folder := write(t, map[string]string{
		"good.json": treeTools, "good.jsonl": treeQueries, "blank.jsonl": "\n \n", "broken.jsonl": treeQueries + "\n{\"query\":",
		"text.jsonl": `"plant"`, "nothing.jsonl": `{"id":"1","query":" "}`, "long.jsonl": `{"query":"` + strings.Repeat("q", 2<<20) + `"}`, "none/x": "",
		"wrong.jsonl": `{"query":7}`,
	})
	at := func(name string) []string { return []string{filepath.Join(folder, name)} }
	for name, test := range map[string]struct {
		catalogs, queries []string
		want              string
	}{
		"no catalog":    {at("nowhere.json"), at("good.jsonl"), "nowhere.json"},
		"no queries":    {at("good.json"), at("nowhere.jsonl"), "neither a file nor a folder"},
		"empty folder":  {at("good.json"), at("none"), "neither a file nor a folder"},
		"blank":         {at("good.json"), at("blank.jsonl"), "holds no query"},
		"broken":        {at("good.json"), at("broken.jsonl"), "line 3"},
		"text":          {at("good.json"), at("text.jsonl"), "line 1 is no JSON object"},
		"wrong type":    {at("good.json"), at("wrong.jsonl"), "line 1 is no JSON object"},
		"without query": {at("good.json"), at("nothing.jsonl"), "line 1 has no query"},
		"long line":     {at("good.json"), at("long.jsonl"), "line 1 is longer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := eval.ReadSet("x", test.catalogs, test.queries); err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 500 {
				t.Errorf("%v; want it to say %q", err, test.want)
			}
		})
	}
	if _, err := eval.ReadSets(folder); err == nil || !strings.Contains(err.Error(), "no folder with a catalog.json") {
		t.Errorf("a folder without sets: %v", err)
	}
}

// TestQuality holds what search is worth over the labelled sets, with a little margin below what was measured.
func TestQuality(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(catalogtest.ModuleRoot(t), "..", "shared", "retrieval")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("the labelled sets are not at ../shared/retrieval beside the module")
	}
	read, err := eval.ReadSets(folder)
	if err != nil {
		t.Fatal(err)
	}
	task := eval.Task{Sets: read}
	task.Across()
	measure := func(v eval.Variant) *eval.Result {
		r, err := eval.Run(context.Background(), task, v, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	check := func(r *eval.Result, least map[string]float64) {
		t.Helper()
		for _, f := range r.Sets {
			if want, ok := least[f.Set+"/"+f.File]; ok && f.Hit5 < want {
				t.Errorf("%s: %s/%s has hit@5 %.3f, want at least %.2f", r.Variant, f.Set, f.File, f.Hit5, want)
			}
		}
	}
	whole := measure(eval.Whole)
	check(whole, map[string]float64{
		"azure_mcp_2025_11/queries": .85, "bfcl/queries": .57, "metatool_toole/queries": .30, "livemcpbench/queries": .37,
		"livemcpbench/queries_model_written": .52, "livemcpbench/queries_model_written_verified": .60,
	})
	if len(whole.Noise) < 6 || whole.MeanNoise > .12 {
		t.Errorf("the mean noise over %d pairs is %.3f", len(whole.Noise), whole.MeanNoise)
	}
	// Where matches answer, they come first, and a wrong match stays one. Near alone shows what the formula finds.
	check(measure(eval.Variant{Name: "near alone", NearAlone: true}), map[string]float64{
		"azure_mcp_2025_11/queries": .91, "livemcpbench/queries_model_written": .57, "livemcpbench/queries_model_written_verified": .62,
	})
}
