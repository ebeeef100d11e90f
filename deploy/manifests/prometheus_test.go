package manifests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// promtool runs the tool, or skips the test.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: apt-get install prometheus), so rules and expressions are not checked")
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusConfiguration(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", filepath.Join(deploy, "prometheus", "prometheus.yml"))
}

func TestRules(t *testing.T) {
	t.Parallel()
	promtool(t, append([]string{"test", "rules"}, glob(t, "prometheus", "tests", "*.yml")...)...)
}

// rules are the parts of a rule file that are looked at here.
type rules struct {
	Groups []struct {
		Name     string `json:"name"`
		Interval string `json:"interval"`
		Rules    []struct {
			Alert       string            `json:"alert"`
			Record      string            `json:"record"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// TestAlertsAreTestedAndExplained wants for each alert a case in which it fires, one in which it does not, a severity,
// and the heading in the runbook that its annotation links to.
func TestAlertsAreTestedAndExplained(t *testing.T) {
	t.Parallel()
	fires, silent := alertCases(t)
	runbook := read(t, "RUNBOOK.md")
	var known rules
	readYAML(t, &known, "prometheus", "rules", "alerts.yml")
	alerts := map[string]bool{}
	for _, g := range known.Groups {
		for _, r := range g.Rules {
			alerts[r.Alert] = true
			if !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: a case in which it fires: %v; one in which it does not: %v", r.Alert, fires[r.Alert], silent[r.Alert])
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s says too little", r.Alert)
			}
			if want := "deploy/RUNBOOK.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
				t.Errorf("%s links to %q, want %q", r.Alert, r.Annotations["runbook"], want)
			}
			if !strings.Contains(runbook, "\n### "+r.Alert+"\n") {
				t.Errorf("%s has no heading in the runbook", r.Alert)
			}
		}
	}
	if len(alerts) < 10 {
		t.Errorf("only %d alerts were found", len(alerts))
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (Toolsearch\w+)$`).FindAllStringSubmatch(runbook, -1) {
		if !alerts[heading[1]] {
			t.Errorf("the runbook explains %s, which is no alert", heading[1])
		}
	}
}

func alertCases(t *testing.T) (fires, silent map[string]bool) {
	t.Helper()
	fires, silent = map[string]bool{}, map[string]bool{}
	for _, f := range glob(t, "prometheus", "tests", "*.yml") {
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name string           `json:"alertname"`
					Want []map[string]any `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			} `json:"tests"`
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				if len(a.Want) > 0 {
					fires[a.Name] = true
				} else {
					silent[a.Name] = true
				}
			}
		}
	}
	return fires, silent
}

// dashboard is what of a dashboard is looked at here.
type dashboard struct {
	UID        string   `json:"uid"`
	Title      string   `json:"title"`
	Tags       []string `json:"tags"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct {
			H int `json:"h"`
			W int `json:"w"`
			X int `json:"x"`
			Y int `json:"y"`
		} `json:"gridPos"`
		Targets []struct {
			Expr       string `json:"expr"`
			Datasource struct {
				UID string `json:"uid"`
			} `json:"datasource"`
		} `json:"targets"`
	} `json:"panels"`
}

var variable = regexp.MustCompile(`\$\{?(\w+)\}?`)

// TestDashboards checks each dashboard's build, and gathers its expressions into a rule file for promtool to parse.
func TestDashboards(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	var exprs []string
	for _, f := range glob(t, "grafana", "dashboards", "*.json") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if d.UID == "" || uids[d.UID] || d.Title == "" || !slices.Contains(d.Tags, "toolsearch") {
			t.Errorf("%s: uid %q (each its own), title %q, tags %v", f, d.UID, d.Title, d.Tags)
		}
		uids[d.UID] = true
		exprs = append(exprs, checkPanels(t, f, d)...)
	}
	for _, name := range []string{"overview", "calls", "search", "bus"} {
		if !uids["toolsearch-"+name] {
			t.Errorf("there is no dashboard %s", name)
		}
	}
	if len(exprs) < 60 {
		t.Errorf("only %d expressions were found", len(exprs))
	}
	promtool(t, "check", "rules", ruleFile(t, exprs))
}

func checkPanels(t *testing.T, file string, d dashboard) (exprs []string) {
	t.Helper()
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	ids := map[int]bool{}
	for i, p := range d.Panels {
		name := fmt.Sprintf("%s: %q", file, p.Title)
		if ids[p.ID] && p.Type != "row" {
			t.Errorf("%s: the id %d is another panel's", name, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
			t.Errorf("%s stands outside the grid: %+v", name, p.GridPos)
		}
		for _, q := range d.Panels[:i] {
			a, b := p.GridPos, q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies on %q", name, q.Title)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", name)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: data source %q, want the variable", name, target.Datasource.UID)
			}
			for _, v := range variable.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[v[1]] {
					t.Errorf("%s: no variable %s", name, v[1])
				}
			}
			exprs = append(exprs, variable.ReplaceAllStringFunc(strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"),
				func(string) string { return ".*" }))
		}
	}
	return exprs
}

func ruleFile(t *testing.T, exprs []string) string {
	t.Helper()
	var file struct {
		Groups []map[string]any `json:"groups"`
	}
	var list []map[string]string
	for i, e := range exprs {
		list = append(list, map[string]string{"record": fmt.Sprintf("dashboard:expression:%d", i), "expr": e})
	}
	file.Groups = []map[string]any{{"name": "dashboards", "rules": list}}
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboards.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGrafanaProvisioning checks that what the dashboards and Prometheus' exemplars refer to is provisioned.
func TestGrafanaProvisioning(t *testing.T) {
	t.Parallel()
	var sources struct {
		Datasources []struct {
			UID      string         `json:"uid"`
			Type     string         `json:"type"`
			URL      string         `json:"url"`
			JSONData map[string]any `json:"jsonData"`
		} `json:"datasources"`
	}
	text := read(t, "grafana", "provisioning", "datasources", "datasources.yaml")
	if err := yaml.Unmarshal([]byte(text), &sources); err != nil {
		t.Fatal(err)
	}
	p := compose(t)
	uids := map[string]bool{}
	for _, s := range sources.Datasources {
		uids[s.UID] = true
		host, _, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
		if _, err := p.GetService(host); err != nil {
			t.Errorf("data source %s is at %s: %v", s.UID, s.URL, err)
		}
	}
	for _, used := range regexp.MustCompile(`datasourceUid: (\w+)`).FindAllStringSubmatch(text, -1) {
		if !uids[used[1]] {
			t.Errorf("exemplars lead to data source %s, which is not provisioned", used[1])
		}
	}
	var providers struct {
		Providers []struct {
			Options struct {
				Path string `json:"path"`
			} `json:"options"`
		} `json:"providers"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "grafana", "provisioning", "dashboards", "dashboards.yaml")), &providers); err != nil {
		t.Fatal(err)
	}
	grafana, err := p.GetService("grafana")
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range providers.Providers {
		mounted := false
		for _, v := range grafana.Volumes {
			mounted = mounted || v.Target == provider.Options.Path
		}
		if !mounted {
			t.Errorf("dashboards are looked for in %s, where nothing is mounted", provider.Options.Path)
		}
	}
}
