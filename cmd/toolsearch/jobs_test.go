package main

import (
	"strings"
	"testing"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/worker/embedded"
)

// TestJobs kills every worker that takes a call up until it is given up, and lets an operator bring it back.
func TestJobs(t *testing.T) {
	t.Parallel()
	bus, err := embedded.Start(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Shutdown)
	g := startGateway(t)
	gate := gatewaytest.NewGate()
	t.Cleanup(gate.Open)
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Gate: gate})
	env := append([]string{"TOOLSEARCH_WORKER_ACK_WAIT=300ms", "TOOLSEARCH_WORKER_MAX_TAKEOVERS=1"}, tokenEnv...)
	worker := func() *process {
		p := launch(t, env, "worker", "--nats", bus.ClientURL(), "--gateway", g.URL(), "--log-json")
		p.await(p.err, "the worker is ready")
		return p
	}
	ask := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := runs(t, nil, append(args, "--nats", bus.ClientURL())...)
		if code != want {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", args, code, want, out, errs)
		}
		return out
	}
	doomed := worker()
	ask(0, "call", "--sample", "--async", "--call-id", "party", "--arguments", mails(3))
	for range 2 { // the first runner, and the one takeover that is allowed
		<-gate.Reached()
		next := worker()
		doomed.kill()
		doomed = next
	}
	out := ask(0, "watch", "--call", "party", "--replay")
	if strings.Count(out, " unknown ") != 1 || strings.Count(out, " abandoned ") != 2 {
		t.Errorf("the call was given up as:\n%s", out)
	}
	if out := ask(0, "jobs", "list"); !strings.Contains(out, "dead") || !strings.Contains(out, "default.cli.party") {
		t.Errorf("jobs list:\n%s", out)
	}
	if out := ask(0, "jobs", "show", "party"); !strings.Contains(out, "given up") || strings.Count(out, "abandoned") != 2 {
		t.Errorf("jobs show:\n%s", out)
	}
	gate.Open()
	if out := ask(0, "jobs", "retry", "party"); !strings.Contains(out, "generation 1") {
		t.Errorf("jobs retry:\n%s", out)
	}
	// The call again joins the retried one: what was abandoned has run now, what may have run before was left alone.
	reply := ask(1, "call", "--sample", "--call-id", "party", "--arguments", mails(3), "--json")
	if !strings.Contains(reply, `"success_count": 2`) || strings.Count(reply, "OUTCOME_UNKNOWN") != 1 {
		t.Errorf("after the retry: %s", reply)
	}
	ask(1, "jobs", "list") // nothing is left
	ask(1, "jobs", "retry", "party")
}
