package telemetry_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// deploy holds the dashboards and rules.
var deploy = filepath.Join("..", "deploy")

// foreign are the series that Prometheus itself makes.
var foreign = []string{"up", "ALERTS"}

// TestEveryMetricNamedIsShown takes the metrics from the expressions of dashboards, rules and the scaler, and wants each
// in a scrape of a worker that has been driven, or recorded by a rule.
func TestEveryMetricNamedIsShown(t *testing.T) {
	t.Parallel()
	shown, recorded := scraped(t), map[string]bool{}
	rules := expressionsOfRules(t, recorded)
	named := 0
	check := func(file, expr string) {
		for _, m := range metricsOf(expr) {
			named++
			if !recorded[m] && !shown[m] && !slices.Contains(foreign, m) {
				t.Errorf("%s: no worker shows %s, which stands in %s", file, m, expr)
			}
		}
	}
	for file, exprs := range rules {
		for _, e := range exprs {
			check(file, e)
		}
	}
	for file, exprs := range expressionsOfDashboards(t) {
		for _, e := range exprs {
			check(file, e)
		}
	}
	check("scaledobject.yaml", scalerQuery(t))
	if named < 100 {
		t.Errorf("only %d names were found in all expressions", named)
	}
}

// scraped lists the names of testdata/metrics.txt, one a line, with those of the series of a histogram.
func scraped(t *testing.T) map[string]bool {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "metrics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		out[fields[0]] = true
		if len(fields) > 1 && fields[1] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				out[fields[0]+suffix] = true
			}
		}
	}
	if len(out) < 40 {
		t.Fatalf("only %d metrics are listed", len(out))
	}
	return out
}

func expressionsOfRules(t *testing.T, recorded map[string]bool) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, path := range files(t, "prometheus", "rules", "*.yml") {
		var file struct {
			Groups []struct {
				Rules []struct {
					Record, Expr string
				}
			}
		}
		if err := yaml.Unmarshal(text(t, path), &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				out[path] = append(out[path], r.Expr)
				if r.Record != "" {
					recorded[r.Record] = true
				}
			}
		}
	}
	return out
}

func expressionsOfDashboards(t *testing.T) map[string][]string {
	t.Helper()
	variable := regexp.MustCompile(`^label_values\((\w+),`)
	out := map[string][]string{}
	for _, path := range files(t, "grafana", "dashboards", "*.json") {
		var file struct {
			Templating struct{ List []struct{ Definition string } }
			Panels     []struct {
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text(t, path), &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, v := range file.Templating.List {
			if m := variable.FindStringSubmatch(v.Definition); m != nil {
				out[path] = append(out[path], m[1])
			}
		}
		for _, p := range file.Panels {
			for _, q := range p.Targets {
				out[path] = append(out[path], q.Expr)
			}
		}
	}
	return out
}

func scalerQuery(t *testing.T) string {
	t.Helper()
	path := filepath.Join(deploy, "kubernetes", "autoscaling", "keda", "scaledobject.yaml")
	m := regexp.MustCompile(`(?m)^ +query: (.+)$`).FindSubmatch(text(t, path))
	if m == nil {
		t.Fatalf("%s: no query", path)
	}
	return string(m[1])
}

func files(t *testing.T, elem ...string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(append([]string{deploy}, elem...)...))
	if err != nil || len(out) == 0 {
		t.Fatalf("no files %v: %v", elem, err)
	}
	return out
}

func text(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	matchers = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|"[^"]*"`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	word     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
	duration = regexp.MustCompile(`\boffset\s+\w+`)
	keywords = []string{"and", "or", "unless", "bool", "by", "on"}
)

// metricsOf lists the metrics of an expression: the words that are no function, no keyword and no label.
func metricsOf(expr string) []string {
	expr = matchers.ReplaceAllString(expr, " ")
	expr = grouping.ReplaceAllString(expr, " ")
	expr = duration.ReplaceAllString(expr, " ")
	var out []string
	for _, w := range word.FindAllString(expr, -1) {
		if !strings.HasSuffix(w, "(") && !slices.Contains(keywords, w) {
			out = append(out, w)
		}
	}
	return out
}

func TestMetricsOf(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`sum by (a_label, le) (rate(one_total{x="y z",q=~"$v"}[5m])) / on (b) two:three_rate5m > 0.5`: "one_total two:three_rate5m",
		`one unless one offset 15m or (vector(0) and bool_like)`:                                      "one one bool_like",
		`histogram_quantile(0.99, sum by (le) (rate(h_bucket[$__rate_interval])))`:                    "h_bucket",
	} {
		if got := strings.Join(metricsOf(expr), " "); got != want {
			t.Errorf("%s names %q, want %q", expr, got, want)
		}
	}
}
