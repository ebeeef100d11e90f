package command_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/cmd/toolsearch/internal/command"
	"toolsearch/worker/embedded"
)

func TestInit(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	initialise := func(args ...string) ran {
		return run(t, "", append([]string{"init", "--nats", s.ClientURL()}, args...)...)
	}
	type report struct {
		Applied bool
		Drift   []struct{ Stream, Field string }
		Streams []string
		Bodies  []string
	}
	read := func(r ran) (out report) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.out), &out); err != nil {
			t.Fatalf("%v: %s %s", err, r.out, r.err)
		}
		return out
	}

	got := initialise("--check", "--json")
	if r := read(got); got.code != command.ExitRefused || r.Applied || len(r.Drift) != len(r.Streams) || len(r.Streams) < 6 || r.Drift[0].Field != "stream" {
		t.Errorf("a check of an empty bus: exit code %d: %+v %s", got.code, r, got.err)
	}
	if again := initialise("--check"); again.code != command.ExitRefused || !strings.Contains(again.out, "stream TOOLSEARCH_JOBS is missing") {
		t.Errorf("a check changed the bus: exit code %d: %s", again.code, again.out)
	}
	got = initialise("--json", "--tenant", "acme")
	if r := read(got); got.code != command.ExitFound || !r.Applied || len(r.Drift) == 0 || len(r.Bodies) != 1 || r.Bodies[0] != "TOOLSEARCH_BODIES_acme" {
		t.Errorf("the first: exit code %d: %+v %s", got.code, r, got.err)
	}
	if got := initialise("--replicas", "3"); got.code != command.ExitRefused || !strings.Contains(got.err, "--replicas 1") {
		t.Errorf("three copies on one server: exit code %d: %s", got.code, got.err)
	}
	for _, args := range [][]string{{}, {"--check"}} {
		if got := initialise(args...); got.code != command.ExitFound || !strings.Contains(got.out, "nothing to do") {
			t.Errorf("init %v again: exit code %d: %s %s", args, got.code, got.out, got.err)
		}
	}

	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "TOOLSEARCH_RESULTS")
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	c.MaxAge, c.MaxBytes = 2*c.MaxAge, 1<<30
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := initialise("--check"); got.code != command.ExitRefused || !strings.Contains(got.out, "max_age is 2h0m0s, want 1h0m0s") || !strings.Contains(got.out, "1 difference,") {
		t.Errorf("a changed stream: exit code %d: %s", got.code, got.out)
	}
	if got := initialise(); got.code != command.ExitFound {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	if stream, err = js.Stream(t.Context(), "TOOLSEARCH_RESULTS"); err != nil || stream.CachedInfo().Config.MaxBytes != 1<<30 || stream.CachedInfo().Config.MaxAge*2 != c.MaxAge {
		t.Errorf("an operator's bound is gone, or the age is not back: %+v, %v", stream.CachedInfo().Config, err)
	}

	for name, test := range map[string]struct {
		args []string
		code int
		err  string
	}{
		"three copies on one server": {[]string{"--replicas", "3"}, command.ExitRefused, "replicas"},
		"no number of copies":        {[]string{"--replicas", "9"}, command.ExitUsage, "from 1 to 5"}, // nothing may stand in for it
		"empty tenant":               {[]string{"--tenant", ""}, command.ExitUsage, "--tenant"},
		"bad timeout":                {[]string{"--timeout", "0s"}, command.ExitUsage, "--timeout"},
	} {
		if got := initialise(test.args...); got.code != test.code || !strings.Contains(got.err, test.err) {
			t.Errorf("%s: exit code %d, err: %s", name, got.code, got.err)
		}
	}
}
