package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"toolsearch/catalog"
	"toolsearch/cmd/toolsearch/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flags is a set as the worker has it, parsed.
func flags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.String("nats", "", "")
	fs.String("unbound", "x", "")
	config.Bind(fs, "nats", "nats.url")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toolsearch.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, yaml string, environ []string, args ...string) (config.Settings, []config.Warning) {
	t.Helper()
	src := config.Sources{Environ: func() []string { return environ }, Flags: flags(t, args...)}
	if yaml != "" {
		src.File = file(t, yaml)
	}
	s, w, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return s, w
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const yaml = "nats: {url: 'nats://file:1'}\nworker: {queue: 7}\n"
	env := []string{"TOOLSEARCH_NATS_URL=nats://env:1", "PATH=/bin"}
	for name, test := range map[string]struct {
		yaml string
		env  []string
		args []string
		want string
	}{
		"default":     {"", nil, nil, ""},
		"file":        {yaml, nil, nil, "nats://file:1"},
		"environment": {yaml, env, nil, "nats://env:1"},
		"flag":        {yaml, env, []string{"--nats", "nats://flag:1"}, "nats://flag:1"},
		"bare host":   {yaml, nil, []string{"--nats", "bus:4222"}, "bus:4222"},
		"flag empty":  {yaml, env, []string{"--nats", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, warnings := load(t, test.yaml, test.env, test.args...)
			if s.NATS.URL != test.want {
				t.Errorf("nats.url = %q, want %q", s.NATS.URL, test.want)
			}
			if test.yaml != "" && s.Worker.Queue != 7 {
				t.Errorf("worker.queue = %d, want 7 of the file", s.Worker.Queue)
			}
			if len(warnings) > 0 {
				t.Errorf("warnings %v", warnings)
			}
		})
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	s, warnings := load(t, `
root: my.tools
tools:
  tool_search: {enabled: off, threshold_pct: 2.5, max_search_limit: 40, defer: [a, " b "]}
  connectors: {origin: "https://gateway.example:8443", search_timeout: 1500ms, token_env: MY_TOKEN}
nats:
  url: nats://a:1,nats://b:2
  tls: {ca: ca.pem}
embedded: {port: 0, sync_always: yes}
store: {replicas: 3, memory: true}
worker: {cache: 1.5 GB, tenant_share: 0.5, drain_timeout: 1m30s, core_tools: [terminal]}
log: {level: WARN, json: "true"}
`, []string{"TOOLSEARCH_WORKER_CATALOG_BYTES=1048576", "TOOLSEARCH_TOOLS_TOOL_SEARCH_LISTING=off",
		"TOOLSEARCH_TOOLS_TOOL_SEARCH_DEFER=x, y"})
	if len(warnings) > 0 {
		t.Errorf("warnings %v", warnings)
	}
	want := config.Default()
	want.Root = "my.tools"
	want.ToolSearch = catalog.Config{Enabled: catalog.Off, ThresholdPct: 2.5, SearchDefaultLimit: 5, MaxSearchLimit: 40,
		Listing: catalog.Off, ListingMaxTokens: 4000, Defer: []string{"x", "y"}}
	want.Connectors.Origin = "https://gateway.example:8443"
	want.Connectors.SearchTimeout = 1500 * time.Millisecond
	want.Connectors.TokenEnv = "MY_TOKEN"
	want.NATS = config.NATS{URL: "nats://a:1,nats://b:2", TLS: config.TLS{CA: "ca.pem"}}
	want.Embedded.Port, want.Embedded.SyncAlways = 0, true
	want.Store = config.Store{Replicas: 3, Memory: true}
	want.Worker.Cache, want.Worker.TenantShare = 1_500_000_000, 0.5
	want.Worker.CatalogBytes, want.Worker.Drain = 1<<20, 90*time.Second
	want.Worker.CoreTools = []string{"terminal"}
	want.Log = config.Log{Level: "warn", JSON: true}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

func TestToolSearchShapes(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]catalog.Switch{
		"tools: {tool_search: true}":            catalog.Auto,
		"tools: {tool_search: false}":           catalog.Off,
		"tools: {tool_search: 'off'}":           catalog.Off,
		"tools: {tool_search: }":                catalog.Auto,
		"tools: {tool_search: {enabled: 'on'}}": catalog.On,
		"tools:":                                catalog.Auto,
	} {
		s, warnings := load(t, yaml, nil)
		if s.ToolSearch.Enabled != want || len(warnings) > 0 {
			t.Errorf("%s: enabled %s, warnings %v; want %s", yaml, s.ToolSearch.Enabled, warnings, want)
		}
	}
}

func TestConnectorsShapes(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]struct {
		enabled  bool
		warnings int
	}{
		"tools: {connectors: false}":               {false, 0},
		"tools: {connectors: true}":                {true, 0},
		"tools: {connectors: {}}":                  {true, 0},
		"tools: {connectors: {enabled: 'No'}}":     {false, 0},
		"tools: {connectors: {enabled: 2}}":        {true, 1},
		"tools: {connectors: {enabled: whatever}}": {true, 1},
		"tools: {connectors: {enabled: }}":         {true, 0},
	} {
		s, warnings := load(t, yaml, nil)
		if s.Connectors.Enabled != want.enabled || len(warnings) != want.warnings {
			t.Errorf("%s: enabled %v, warnings %v; want %v", yaml, s.Connectors.Enabled, warnings, want)
		}
	}
}

// TestWrongValues checks that each wrong value is told with key, value and what stands in its place, and that it is
// the next lower source's value that does.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		yaml string
		env  []string
		want []string // what the one warning must hold
		ok   func(config.Settings) bool
	}{
		{"worker: {queue: many}", nil, []string{"worker.queue", `"many"`, "a whole number", "using 1024"},
			func(s config.Settings) bool { return s.Worker.Queue == 1024 }},
		{"worker: {queue: 9}", []string{"TOOLSEARCH_WORKER_QUEUE=-1"},
			[]string{"TOOLSEARCH_WORKER_QUEUE", `"-1"`, "from 0 to", "using 9"},
			func(s config.Settings) bool { return s.Worker.Queue == 9 }},
		{"worker: {drain_timeout: 30}", nil, []string{"worker.drain_timeout", "30", "a duration such as", `using "25s"`},
			func(s config.Settings) bool { return s.Worker.Drain == 25*time.Second }},
		{"worker: {cache: big}", nil, []string{"worker.cache", `"big"`, "a size such as", `using "1GiB"`},
			func(s config.Settings) bool { return s.Worker.Cache == 1<<30 }},
		{"worker: {core_tools: 7}", nil, []string{"worker.core_tools", "7", "a list of names"},
			func(s config.Settings) bool { return s.Worker.CoreTools == nil }},
		{"worker: {tenant_share: 3}", nil, []string{"worker.tenant_share", "3", "from 0 to 1", "using 0.75"}, nil},
		{"log: {level: loud}", nil, []string{"log.level", `"loud"`, "one of debug, info", `using "info"`},
			func(s config.Settings) bool { return s.Log.Level == "info" }},
		{"tools: {connectors: {origin: here}}", nil, []string{"tools.connectors.origin", `"here"`, "https://host"},
			func(s config.Settings) bool { return s.Connectors.Origin == "" }},
		{"tools: {connectors: {origin: 'ftp://x'}}", nil, []string{"tools.connectors.origin", `"ftp://x"`, "https://host"},
			func(s config.Settings) bool { return s.Connectors.Origin == "" }},
		{"tools: {connectors: {origin: 'https://x?k=s3cret,s3cret'}}", nil, []string{"tools.connectors.origin", "[redacted]"}, nil},
		{"tools: {connectors: {origin: 'https://x:0'}}", nil, []string{"tools.connectors.origin", "https://host"}, nil},
		{"tools: {connectors: {accounts: 'https://u:s3cret@x'}}", nil, []string{"tools.connectors.accounts", "without a user"},
			func(s config.Settings) bool { return s.Connectors.Accounts == "" }},
		{"tools: {connectors: {oauth: {token_url: 'file:///etc'}}}", nil, []string{"tools.connectors.oauth.token_url", "https://host"},
			func(s config.Settings) bool { return s.Connectors.OAuth.TokenURL == "" }},
		{"tools: {tool_search: {max_search_limit: 900}}", nil,
			[]string{"tools.tool_search.max_search_limit", "900", "using 50"},
			func(s config.Settings) bool { return s.ToolSearch.MaxSearchLimit == 50 }},
		{"tools: {tool_search: {defer: x}}", nil, []string{"tools.tool_search.defer", `"x"`, "curated list"},
			func(s config.Settings) bool { return s.ToolSearch.Defer == nil }},
		{"tools: {tool_search: {threshold_pct: .inf}}", nil, []string{"tools.tool_search.threshold_pct"}, nil},
		{"tools: {tool_search: {lsting: on}}", nil, []string{"tools.tool_search.lsting", "not a setting"}, nil},
		{"nats: {tokn: s3cret}", nil, []string{"nats.tokn", "not a setting", "ignored"}, nil},
		{"nats: nats://x:1", nil, []string{"nats", "not a setting"}, nil},
		{"", []string{"TOOLSEARCH_NATS_ULR=x"}, []string{"TOOLSEARCH_NATS_ULR", "not a setting"}, nil},
	} {
		s, warnings := load(t, test.yaml, test.env)
		if len(warnings) != 1 {
			t.Errorf("%s %v: warnings %v, want one", test.yaml, test.env, warnings)
			continue
		}
		text := warnings[0].String()
		if strings.Contains(text, "s3cret") {
			t.Errorf("%s: a secret is told: %s", test.yaml, text)
		}
		for _, w := range test.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q does not say %q", test.yaml, text, w)
			}
		}
		if test.ok != nil && !test.ok(s) {
			t.Errorf("%s: settings are not what the warning says", test.yaml)
		}
	}
}

// TestAddressOfTheBus checks that nothing stands in for a wrong one, whoever gave it.
func TestAddressOfTheBus(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][]string{
		"nats://":                  {"TOOLSEARCH_NATS_URL", "nats.url", `"nats://"`, "nats://host:4222"},
		"ftp://bus":                {"nats.url", "nats://, tls://"},
		"nats://bus:99999":         {"nats.url", "nats://host:4222"},
		"nats://a,wss://b":         {"nats.url", "websockets"},
		"nats://u:s3cret@bus:0":    {"nats.url", "nats://host:4222"},
		"foo://u:s3cret@bus:4222/": {"nats.url", "nats://, tls://"},
	} {
		_, _, err := config.Load(config.Sources{Environ: func() []string { return []string{"TOOLSEARCH_NATS_URL=" + url} }})
		var wrong *config.ValueError
		if !errors.As(err, &wrong) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want a *config.ValueError without a secret", url, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", url, err, w)
			}
		}
	}
}

// TestNothingStandsIn checks that a worker neither joins another installation nor thins out a bus by mistake.
func TestNothingStandsIn(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"TOOLSEARCH_ROOT=a..b":          "subject tokens",
		"TOOLSEARCH_STORE_REPLICAS=33":  "from 1 to 5",
		"TOOLSEARCH_STORE_REPLICAS=two": "a whole number",
	} {
		_, _, err := config.Load(config.Sources{Environ: func() []string { return []string{variable} }})
		var wrong *config.ValueError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a *config.ValueError that says %q", variable, err, want)
		}
	}
}

// TestSettingsAreWhole checks that where 0 stands for a default the default is there, also one that follows another
// setting, and that it is printed.
func TestSettingsAreWhole(t *testing.T) {
	t.Parallel()
	s, warnings := load(t, "worker: {concurrency: 8, calls: 0}", nil)
	if len(warnings) > 0 {
		t.Error(warnings)
	}
	want := config.Default()
	want.Worker.Concurrency, want.Worker.Queue = 8, 128
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	printed, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"concurrency: 8", "queue: 128", "tenant_share: 0.75", "calls: 1024", "runners: 64", "tenant_calls: 32"} {
		if !strings.Contains(string(printed), "\n  "+line+"\n") {
			t.Errorf("%q is not printed:\n%s", line, printed)
		}
	}
}

func TestNoSecretIsTold(t *testing.T) {
	t.Parallel()
	s, warnings := load(t, `
nats: {url: "nats://user:s3cret@bus:4222,tls://s3cret@other", tokn: s3cret}
tools: {connectors: {token: s3cret, origin: "http:s3cret@x", oauth: {client_secret: [s3cret], token_url: "https://id.example"}}}
`, []string{"TOOLSEARCH_UNKNOWN=s3cret"})
	printed, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	told := string(printed)
	for _, w := range warnings {
		told += w.String() + w.Value
	}
	if strings.Contains(told, "s3cret") {
		t.Errorf("a secret is told:\n%s", told)
	}
	if len(warnings) != 4 || s.Connectors.Token != "s3cret" || !strings.Contains(s.NATS.URL, "s3cret") {
		t.Errorf("warnings %v", warnings)
	}
}

func TestYAMLReadsBack(t *testing.T) {
	t.Parallel()
	s, _ := load(t, "worker: {core_tools: [], queue: 3}\ntools: {tool_search: {defer: [], listing: 'off'}, connectors: {enabled: false}}\nlog: {level: debug}", nil)
	for name, want := range map[string]config.Settings{"default": config.Default(), "changed": s} {
		printed, err := want.YAML()
		if err != nil {
			t.Fatal(err)
		}
		back, warnings := load(t, string(printed), nil)
		if diff := cmp.Diff(want, back); diff != "" || len(warnings) > 0 {
			t.Errorf("%s: %s%v\n%s", name, diff, warnings, printed)
		}
	}
}

func TestFileErrors(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"missing":  filepath.Join(t.TempDir(), "none.yaml"),
		"not YAML": file(t, "a: [1,\nb: }"),
		"a list":   file(t, "- a\n- b"),
	} {
		_, _, err := config.Load(config.Sources{File: path, Environ: func() []string { return nil }})
		var fe *config.FileError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want a *config.FileError that names %s", name, err, path)
		}
	}
}

func TestFileFromEnvironment(t *testing.T) {
	t.Parallel()
	path := file(t, "worker: {queue: 5}")
	s, w, err := config.Load(config.Sources{Environ: func() []string { return []string{config.EnvFile + "=" + path} }})
	if err != nil || len(w) > 0 || s.Worker.Queue != 5 {
		t.Errorf("queue %d, warnings %v, error %v", s.Worker.Queue, w, err)
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"0": 0, "17": 17, "17B": 17, "1KiB": 1024, "256MiB": 256 << 20, "2 gib": 2 << 30, "1.5kb": 1500, "1TB": 1e12,
		"-1": -1, "": -1, "MiB": -1, "1e30": -1, "nan": -1, "1XB": -1, "1 2": -1,
	} {
		got, err := config.ParseSize(in)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, n := range []int64{0, 1, 1000, 1024, 1 << 20, 3 << 30, 1<<20 + 1} {
		if back, err := config.ParseSize(config.FormatSize(n)); err != nil || back != n {
			t.Errorf("%d is written %s and read %d, %v", n, config.FormatSize(n), back, err)
		}
	}
}

func TestSameWarningsEveryTime(t *testing.T) {
	t.Parallel()
	const yaml = "z: 1\na: 1\nworker: {queue: x, calls: y}\nlog: {level: z}\n"
	_, first := load(t, yaml, []string{"TOOLSEARCH_B=1", "TOOLSEARCH_A=1"})
	for range 20 {
		_, again := load(t, yaml, []string{"TOOLSEARCH_A=1", "TOOLSEARCH_B=1"})
		if !slices.EqualFunc(first, again, func(a, b config.Warning) bool { return a.Key == b.Key && a.Value == b.Value }) {
			t.Fatalf("%v, then %v", first, again)
		}
	}
}

// TestPrintedSecretsAreMissed checks that what was printed in the place of a secret is never taken for one.
func TestPrintedSecretsAreMissed(t *testing.T) {
	t.Parallel()
	want := config.Default()
	want.Connectors.Token, want.Connectors.OAuth.ClientSecret = "s3cret", "s3cret"
	printed, err := want.YAML()
	if err != nil {
		t.Fatal(err)
	}
	s, warnings := load(t, string(printed), nil)
	if diff := cmp.Diff(config.Default(), s); diff != "" {
		t.Error(diff)
	}
	if len(warnings) != 2 {
		t.Errorf("warnings %v, want one for each secret", warnings)
	}
	for _, w := range warnings {
		if !strings.Contains(w.String(), "--print-config left out") || !strings.Contains(w.String(), `using ""`) {
			t.Errorf("told %q", w)
		}
	}
	_, _, err = config.Load(config.Sources{Environ: func() []string { return []string{"TOOLSEARCH_NATS_URL=nats://[redacted]@bus:4222"} }})
	if err == nil || !strings.Contains(err.Error(), "--print-config left out") {
		t.Errorf("an address without its user: %v", err)
	}
}
