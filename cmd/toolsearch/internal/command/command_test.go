package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"toolsearch/cmd/toolsearch/internal/command"
	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/cmd/toolsearch/internal/node"
)

var update = flag.Bool("update", false, "write the golden files anew")

// bus is the address of the server that the whole package's tests share; a worker answers there.
var bus string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withBus(m.Run))
}

func withBus(run func() int) int {
	s := config.Default()
	s.Embedded.Dir, s.Embedded.Port = "", 0
	ctx := context.Background()
	n, err := node.Start(ctx, s, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-n.Ready()
	bus = n.URL()
	code := run()
	if err := n.Drain(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// ran is what a run of the command line left.
type ran struct {
	code     int
	out, err string
}

// run runs the command line in this process.
func run(t *testing.T, in string, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	code := command.Main(command.Surroundings{
		In: strings.NewReader(in), Out: &out, Err: &errs, Environ: func() []string { return nil },
	}, args)
	return ran{code, out.String(), errs.String()}
}

// ask runs a verb that asks the worker of this package's tests, in a session of the test's own.
func ask(t *testing.T, args ...string) ran {
	t.Helper()
	session := strings.NewReplacer("/", "-", "#", "-", " ", "_").Replace(t.Name())
	return run(t, "", append(args, "--nats", bus, "--session", session)...)
}

const catalog = "testdata/catalog"

// volatile is what differs from run to run in golden output.
var volatile = regexp.MustCompile(`sha256:[0-9a-f]{64}|\d{4}-\d\d-\d\d \d\d:\d\d [A-Z]+`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = volatile.ReplaceAllString(got, "<varies>")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update to make it", err)
	}
	if got != string(want) {
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"assemble":        {"assemble", "--catalog", catalog},
		"assemble_off":    {"assemble", "--catalog", catalog, "--tool-search", `{"enabled": "off"}`, "--enabled", "garden,nowhere"},
		"search":          {"search", "--catalog", catalog, "plant a tree", "water", "zebra crossing"},
		"search_limit":    {"search", "--catalog", catalog, "--limit", "1", "garden"},
		"search_nothing":  {"search", "--catalog", catalog, "zebra"},
		"search_mistake":  {"search", "--catalog", catalog, "--arguments", `{"limit": 3}`},
		"describe":        {"describe", "--catalog", catalog, "mcp__garden__plant_tree", "mcp__garden__rake", "mcp__garden__mow"},
		"help":            {"--help"},
		"help_search":     {"search", "--help"},
		"search_two_dirs": {"search", "--catalog", catalog + "/garden.json", "--catalog", catalog + "/core.json", "rake"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", args...)
			if !strings.HasPrefix(name, "help") {
				got = ask(t, args...)
			}
			golden(t, name, fmt.Sprintf("$ toolsearch %s\n%s(exit code %d)\n", strings.Join(args, " "), got.out, got.code))
			if got.err != "" {
				t.Errorf("standard error: %s", got.err)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		code int
		err  string // part of standard error
	}{
		"found":               {[]string{"search", "--catalog", catalog, "tree"}, command.ExitFound, ""},
		"nothing found":       {[]string{"search", "--catalog", catalog, "zebra"}, command.ExitNothing, ""},
		"one of two found":    {[]string{"search", "--catalog", catalog, "zebra", "tree"}, command.ExitFound, ""},
		"described":           {[]string{"describe", "--catalog", catalog, "mcp__garden__rake"}, command.ExitFound, ""},
		"nothing described":   {[]string{"describe", "--catalog", catalog, "mcp__garden__mow"}, command.ExitNothing, ""},
		"assembled":           {[]string{"assemble", "--catalog", catalog}, command.ExitFound, ""},
		"sample":              {[]string{"search", "--sample", "create an issue"}, command.ExitFound, ""},
		"unknown verb":        {[]string{"serch"}, command.ExitUsage, `did you mean search?`},
		"unknown flag":        {[]string{"search", "--catlog", "x"}, command.ExitUsage, "--catlog"},
		"no query":            {[]string{"search", "--catalog", catalog}, command.ExitUsage, "no query"},
		"no tools":            {[]string{"search", "x"}, command.ExitUsage, "--catalog"},
		"both tools":          {[]string{"search", "--sample", "--catalog", catalog, "x"}, command.ExitUsage, "not both"},
		"missing file":        {[]string{"search", "--catalog", "testdata/none.json", "x"}, command.ExitUsage, "testdata/none.json"},
		"bad surface":         {[]string{"assemble", "--catalog", catalog, "--surface", "wall"}, command.ExitUsage, `"wall"`},
		"bad overlay":         {[]string{"assemble", "--catalog", catalog, "--tool-search", "{"}, command.ExitUsage, "not JSON"},
		"bad timeout":         {[]string{"assemble", "--catalog", catalog, "--timeout", "0s"}, command.ExitUsage, "--timeout"},
		"missing creds":       {[]string{"assemble", "--catalog", catalog, "--creds", "none.creds"}, command.ExitUsage, "none.creds"},
		"cert without key":    {[]string{"assemble", "--catalog", catalog, "--tls-cert", "command_test.go"}, command.ExitUsage, "--tls-key"},
		"missing config":      {[]string{"assemble", "--catalog", catalog, "--config", "none.yaml"}, command.ExitUsage, "none.yaml"},
		"scope and catalog":   {[]string{"search", "--scope", "x", "--catalog", catalog, "q"}, command.ExitUsage, "--catalog"},
		"malformed scope":     {[]string{"search", "--scope", "x", "q"}, command.ExitRefused, "BAD_REQUEST"},
		"unknown scope":       {[]string{"search", "--scope", "sha256:" + strings.Repeat("0", 64), "q"}, command.ExitRefused, "SCOPE_NOT_FOUND"},
		"unknown parent":      {[]string{"assemble", "--catalog", catalog, "--parent", "sha256:" + strings.Repeat("0", 64)}, command.ExitRefused, "SCOPE_NOT_FOUND"},
		"no worker":           {[]string{"search", "--catalog", catalog, "--root", "nobody.here", "q"}, command.ExitRefused, "no worker answers"},
		"bad call id":         {[]string{"call", "--catalog", catalog, "--call-id", "a.b", "mcp__garden__rake"}, command.ExitUsage, "--call-id"},
		"call without name":   {[]string{"call", "--catalog", catalog}, command.ExitUsage, "no tool"},
		"call not JSON":       {[]string{"call", "--catalog", catalog, "mcp__garden__rake", "{"}, command.ExitUsage, "not JSON"},
		"stop bad call":       {[]string{"stop", "a b"}, command.ExitUsage, "no call id"},
		"stop two calls":      {[]string{"stop", "a", "b"}, command.ExitUsage, "it was given 2 arguments"},
		"job without call":    {[]string{"jobs", "show"}, command.ExitUsage, "the id of one call"},
		"no such button":      {[]string{"connections", "answer", "fly"}, command.ExitUsage, `"fly" is no button`},
		"connect nothing":     {[]string{"connections", "connect"}, command.ExitUsage, "connections status"},
		"install nothing":     {[]string{"connections", "install"}, command.ExitUsage, "no server"},
		"rename to nothing":   {[]string{"connections", "rename", "mail", "--alias", "work"}, command.ExitUsage, "--to"},
		"disconnect nothing":  {[]string{"connections", "disconnect"}, command.ExitUsage, "connections accounts"},
		"apps switched off":   {[]string{"connections", "status"}, command.ExitNothing, ""},
		"bench without tools": {[]string{"bench", "--tools", "0"}, command.ExitUsage, "--tools"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got ran
			switch test.args[0] {
			case "serch", "bench":
				got = run(t, "", test.args...)
			default:
				got = ask(t, test.args...)
			}
			if got.code != test.code || !strings.Contains(got.err, test.err) || test.err == "" && got.err != "" {
				t.Errorf("exit code %d, want %d with %q; out: %s err: %s", got.code, test.code, test.err, got.out, got.err)
			}
			if got.code == command.ExitUsage && !strings.Contains(got.err, "--help") {
				t.Errorf("a usage error does not name the help: %s", got.err)
			}
		})
	}
}

// TestMisspelt checks that a wrong word is named before what stands behind it is read, with the word that may have been
// meant.
func TestMisspelt(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"connections conect":                         `unknown command "conect" for "toolsearch connections"; did you mean connect?`,
		"connections conect --nats x chat":           `unknown command "conect" for "toolsearch connections"; did you mean connect?`,
		"connections --config x.yaml conect --force": `unknown command "conect" for "toolsearch connections"`,
		"connections --config=x.yaml conect":         `unknown command "conect" for "toolsearch connections"`,
		"connections conect --help":                  `unknown command "conect" for "toolsearch connections"`,
		"connections nothing-like-it --nats x":       `unknown command "nothing-like-it" for "toolsearch connections"` + "\n",
		"jobs lst --json":                            `unknown command "lst" for "toolsearch jobs"; did you mean list?`,
		"jobs sho --tenant acme id":                  `unknown command "sho" for "toolsearch jobs"; did you mean show?`,
		"token runtme --tenant acme":                 `unknown command "runtme" for "toolsearch token"; did you mean runtime?`,
		"serch --sample mail":                        `unknown command "serch" for "toolsearch"; did you mean search?`,
		"help serch":                                 `unknown command "serch" for "toolsearch"; did you mean search?`,
		"help connections conect":                    `unknown command "conect" for "toolsearch connections"; did you mean connect?`,
		"jobs --json list":                           "unknown flag: --json; write the flags of a command behind it: toolsearch jobs <command> ...",
		"search -x mail":                             "flags are written with two dashes",
		"token setup --dir=":                         "--dir is empty",
		"search mail --catalog=":                     "--catalog is empty",
		"search --sample --arguments {":              "--arguments is not JSON",
		"describe --sample --arguments {":            "--arguments is not JSON",
		"call --sample --arguments {":                "--arguments is not JSON",
		"call --sample --arguments -":                "standard input holds no JSON",
		"search --smaple mail":                       "unknown flag: --smaple; did you mean --sample?",
		"search --nothing-like-it mail":              "unknown flag: --nothing-like-it\n",
		"search --sample mail --limit many":          `--limit is "many"; it must be a whole number`,
		"search --sample mail --timeout 5":           `--timeout is "5"; it must be a duration such as 30s or 5m`,
		"search --sample=perhaps mail":               `--sample is "perhaps"; it must be true or false`,
		"search mail --sample --tenant":              "flag needs an argument: --tenant",
		"search --sample mail --tenant=":             "--tenant is empty",
		"stop --session=":                            "--session is empty",
		"jobs show --tenant= call":                   "--tenant is empty",
		"jobs list extra":                            `list takes no argument; it was given "extra"`,
		"watch x":                                    `watch takes no argument; it was given "x"`,
		"jobs show":                                  "it was given 0 arguments",
		"assemble --sample --context-length -5":      "--context-length must be more than 0",
		"init --replicas 9":                          "from 1 to 5",
		"search --root a..b --sample mail":           "subject tokens",
		"health --admin nowhere":                     `--admin is "nowhere"`,
		"eval --sets no-such-folder":                 "no-such-folder: cannot be read: no such file or directory",
		"eval --sets command_test.go":                "is no folder",
		"token worker --key no-such-key":             "toolsearch token setup",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", strings.Fields(line)...)
			if got.code != command.ExitUsage || !strings.Contains(got.err, want) || !strings.Contains(got.err, "--help") {
				t.Errorf("exit code %d, want %q and where to read more; out: %s err: %s", got.code, want, got.out, got.err)
			}
		})
	}
	for _, line := range []string{"", "help", "help search", "help connections connect", "connections", "connections --help",
		"connections connect --help", "completion bash", "__complete sear"} {
		if got := run(t, "", strings.Fields(line)...); got.code != command.ExitFound || got.out == "" {
			t.Errorf("%q: exit code %d; err: %s", line, got.code, got.err)
		}
	}
}

// TestToolSearchIsTold checks that a value of --tool-search which cannot be taken is told.
func TestToolSearchIsTold(t *testing.T) {
	t.Parallel()
	got := ask(t, "assemble", "--catalog", catalog, "--tool-search", `{"threshold_pct": 900}`)
	if got.code != command.ExitFound || !strings.Contains(got.err, "threshold_pct cannot be 900") {
		t.Errorf("exit code %d, err: %s", got.code, got.err)
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	got := run(t, "", "search", "--catalog", catalog, "--nats", "nats://someone:s3cret@127.0.0.1:1", "tree")
	if got.code != command.ExitRefused || !strings.Contains(got.err, "toolsearch worker") {
		t.Errorf("exit code %d, err: %s", got.code, got.err)
	}
	if strings.Contains(got.err, "s3cret") {
		t.Errorf("the password is told: %s", got.err)
	}
}

// TestJSONIsTheReply checks that --json prints what the worker answered, byte for byte: with the separators of a model.
func TestJSONIsTheReply(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"search":   {[]string{"search", "--catalog", catalog, "--json", "tree"}, `{"queries": ["tree"], "total_available": `},
		"describe": {[]string{"describe", "--catalog", catalog, "--json", "mcp__garden__rake"}, `{"tools": {"mcp__garden__rake": {`},
		"mistake":  {[]string{"search", "--catalog", catalog, "--json", "--arguments", "{}"}, `{"error": "`},
		"refused":  {[]string{"search", "--scope", "sha256:" + strings.Repeat("0", 64), "--json", "q"}, `{"error":{"code":"SCOPE_NOT_FOUND",`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, test.args...)
			if !strings.HasPrefix(got.out, test.want) || strings.Count(got.out, "\n") != 1 || !json.Valid([]byte(got.out)) {
				t.Errorf("got %q, want one line of JSON that begins with %q", got.out, test.want)
			}
		})
	}
}

// TestScopeIsKept checks that a handle answers again in its own session and in no other.
func TestScopeIsKept(t *testing.T) {
	t.Parallel()
	var reply struct{ Scope string }
	first := ask(t, "assemble", "--catalog", catalog, "--json")
	if err := json.Unmarshal([]byte(first.out), &reply); err != nil {
		t.Fatalf("%v: %s %s", err, first.out, first.err)
	}
	if got := ask(t, "search", "--scope", reply.Scope, "tree"); got.code != command.ExitFound {
		t.Errorf("by handle: exit code %d: %s", got.code, got.err)
	}
	if got := run(t, "", "search", "--nats", bus, "--session", "another", "--scope", reply.Scope, "tree"); !strings.Contains(got.err, "SCOPE_FORBIDDEN") {
		t.Errorf("from another session: exit code %d: %s", got.code, got.err)
	}
}

func TestPrintConfig(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := "nats: {url: 'nats://file:1'}\nworker: {queue: many, name: kept}\ntools: {connectors: {token: s3cret}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "", "worker", "--config", path, "--nats", "nats://flag:1", "--print-config")
	if got.code != command.ExitFound {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	for _, want := range []string{"url: nats://flag:1", "name: kept", "tool_search:", "token: '[redacted]'", "queue: 1024", "tenant_share: 0.75"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q is not printed:\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "s3cret") {
		t.Error("the token is printed")
	}
	for _, want := range []string{"warning:", "worker.queue", `"many"`, "using 1024"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("the warning does not say %q: %s", want, got.err)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if got := run(t, "", "version"); got.code != 0 || !strings.HasPrefix(got.out, "toolsearch ") {
		t.Errorf("exit code %d: %q", got.code, got.out)
	}
}
