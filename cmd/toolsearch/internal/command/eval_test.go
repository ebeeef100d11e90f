package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolsearch/cmd/toolsearch/internal/command"
)

// labelled makes a folder of two sets.
func labelled(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"garden/catalog.json":  `[{"name":"plant_tree","description":"Plants a tree."},{"name":"water_lawn","description":"Waters the lawn."}]`,
		"garden/queries.jsonl": `{"id":"1","query":"plant tree","relevant":["plant_tree"]}` + "\n" + `{"id":"2","query":"quokka","relevant":["water_lawn"]}`,
		"mail/catalog.json":    `[{"name":"send_mail","description":"Sends mail."}]`,
		"mail/queries.jsonl":   `{"id":"1","query":"send mail please","relevant":["send_mail"]}`,
	} {
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

func TestEval(t *testing.T) {
	t.Parallel()
	folder := labelled(t)
	garden, mail := filepath.Join(folder, "garden"), filepath.Join(folder, "mail")
	for name, test := range map[string]struct {
		args []string
		want []string // lines that must stand, with single spaces
	}{
		"one set": {[]string{"--catalog", garden, "--queries", garden},
			[]string{"garden queries 2 2 0.500 0.500 0.500 0.500 0.000 0.500"}},
		"noise": {[]string{"--catalog", filepath.Join(garden, "catalog.json"), "--queries", filepath.Join(garden, "queries.jsonl"), "--noise", mail},
			[]string{"garden queries 2 2 0.500 0.500 0.500 0.500 0.000 0.500", "mail garden 1 0.000 0.000", "mean noise over 1 pairs: 0.000"}},
		"sets": {[]string{"--sets", folder, "--ablate"},
			[]string{"mail queries 1 1 1.000 1.000 1.000 0.000 1.000 0.000", "whole 0.000 0.500 1.000", "near alone 0.000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append([]string{"eval"}, test.args...)...)
			if got.code != command.ExitFound || got.err != "" {
				t.Fatalf("%d: %s", got.code, got.err)
			}
			var lines []string
			for line := range strings.Lines(got.out) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			text := strings.Join(lines, "\n")
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, got.out)
				}
			}
		})
	}
}

func TestEvalJSON(t *testing.T) {
	t.Parallel()
	got := run(t, "", "eval", "--sets", labelled(t), "--json")
	var figures struct {
		Results []struct {
			Variant string
			Sets    []struct {
				Set  string
				Hit5 float64 `json:"hit_at_5"`
				Near float64
			}
			Noise     []struct{ Queries, Catalog string }
			MeanNoise *float64 `json:"mean_noise"`
		}
	}
	if err := json.Unmarshal([]byte(got.out), &figures); err != nil || got.code != command.ExitFound {
		t.Fatalf("%d, %v: %s", got.code, err, got.out)
	}
	if r := figures.Results; len(r) != 1 || len(r[0].Sets) != 2 || r[0].Sets[1].Near != 1 || r[0].Sets[1].Hit5 != 1 || len(r[0].Noise) != 2 || r[0].MeanNoise == nil {
		t.Errorf("%s", got.out)
	}
}

func TestEvalUsage(t *testing.T) {
	t.Parallel()
	folder := labelled(t)
	for name, args := range map[string][]string{
		"nothing":      {},
		"no queries":   {"--catalog", folder},
		"both":         {"--sets", folder, "--catalog", folder},
		"no such file": {"--catalog", filepath.Join(folder, "mail"), "--queries", filepath.Join(folder, "nowhere")},
		"no sets":      {"--sets", filepath.Join(folder, "mail")},
		"no catalog":   {"--catalog", filepath.Join(folder, "nowhere.json"), "--queries", folder},
		"bad noise":    {"--catalog", filepath.Join(folder, "mail"), "--queries", filepath.Join(folder, "mail"), "--noise", folder},
		"argument":     {"x"},
	} {
		if got := run(t, "", append([]string{"eval"}, args...)...); got.code != command.ExitUsage || got.err == "" || got.out != "" {
			t.Errorf("%s: %d, %s%s", name, got.code, got.out, got.err)
		}
	}
}
