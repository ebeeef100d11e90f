package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

// asBinary, set to 1, makes the test binary be the program, so that tests run real processes of exactly this code.
const asBinary = "RUN_AS_TOOLSEARCH"

func TestMain(m *testing.M) {
	nodeFromEnv()
	if os.Getenv(asBinary) == "1" {
		main()
		return // main always exits
	}
	goleak.VerifyTestMain(m)
}

// process is a run of the program.
type process struct {
	t        testing.TB
	cmd      *exec.Cmd
	name     string
	out, err *stream
	wait     func() error // for its end, any number of times
}

// program prepares a run. env comes on top of the test's own.
func program(ctx context.Context, env []string, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(append(os.Environ(), asBinary+"=1"), env...)
	return cmd, nil
}

// launch starts the program. The test's end kills it.
func launch(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p, err := start(t, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// start starts the program and leaves its end to the caller.
func start(t testing.TB, env []string, args ...string) (*process, error) {
	cmd, err := program(context.Background(), env, args...)
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{t: t, cmd: cmd, name: strings.Join(args, " "), out: newStream(out), err: newStream(errs)}
	p.wait = sync.OnceValue(func() error {
		<-p.out.end
		<-p.err.end
		return cmd.Wait()
	})
	return p, nil
}

// kill ends the process as a power cut would, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone
	_ = p.wait()             // its status says that it was killed
}

// exit waits for the process's end and gives its exit code.
func (p *process) exit() int {
	p.t.Helper()
	if err := p.wait(); err != nil && p.cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// await returns the first line with a text.
func (p *process) await(s *stream, text string) string {
	p.t.Helper()
	line, ok := s.await(text, 30*time.Second)
	if !ok {
		p.t.Fatalf("toolsearch %s did not say %q:\n%s\n%s", p.name, text, p.out, p.err)
	}
	return line
}

// stream is what a process writes, line by line.
type stream struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed at the next line
	end   chan struct{} // closed at the end
}

func newStream(r io.Reader) *stream {
	s := &stream{more: make(chan struct{}), end: make(chan struct{})}
	go func() {
		defer close(s.end)
		sc := bufio.NewScanner(r)
		sc.Buffer(nil, 16<<20)
		for sc.Scan() {
			s.mu.Lock()
			s.lines = append(s.lines, sc.Text())
			close(s.more)
			s.more = make(chan struct{})
			s.mu.Unlock()
		}
	}()
	return s
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(append(s.lines, ""), "\n")
}

func (s *stream) await(text string, patience time.Duration) (string, bool) {
	deadline := time.After(patience)
	for seen := 0; ; {
		s.mu.Lock()
		lines, more := s.lines[seen:], s.more
		s.mu.Unlock()
		for _, l := range lines {
			if strings.Contains(l, text) {
				return l, true
			}
		}
		seen += len(lines)
		ended := false
		select {
		case <-more:
			continue
		case <-s.end:
			s.mu.Lock()
			ended = seen == len(s.lines)
			s.mu.Unlock()
		case <-deadline:
			ended = true
		}
		if ended {
			return "", false
		}
	}
}

// runs runs the program to its end.
func runs(t testing.TB, env []string, args ...string) (code int, out, errs string) {
	t.Helper()
	p := launch(t, env, args...)
	code = p.exit()
	return code, p.out.String(), p.err.String()
}

// serving starts a worker with its own server and returns it with its address.
func serving(t testing.TB, env []string, args ...string) (*process, string) {
	t.Helper()
	p := launch(t, env, append([]string{"worker", "--port", "0", "--dir", t.TempDir(), "--log-json"}, args...)...)
	return p, readyAt(t, p)
}

func readyAt(t testing.TB, p *process) string {
	t.Helper()
	var line struct{ Server string }
	if err := json.Unmarshal([]byte(p.await(p.err, "the worker is ready")), &line); err != nil || line.Server == "" {
		t.Fatalf("no address: %v\n%s", err, p.err)
	}
	return line.Server
}

func TestWorkerAndClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := func() (*process, string) {
		p := launch(t, nil, "worker", "--port", "0", "--dir", dir, "--log-json")
		return p, readyAt(t, p)
	}
	end := func(p *process) {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.exit(); code != 0 {
			t.Errorf("SIGTERM: exit code %d\n%s", code, p.err)
		}
	}
	worker, url := begin()
	code, out, errs := runs(t, nil, "assemble", "--nats", url, "--sample", "--json")
	var reply struct{ Scope string }
	if err := json.Unmarshal([]byte(out), &reply); err != nil || code != 0 {
		t.Fatalf("assemble: exit code %d, %v: %s", code, err, errs)
	}
	for query, want := range map[string]int{"create an issue": 0, "zebra crossing": 1} {
		if code, out, errs := runs(t, nil, "search", "--nats", url, "--scope", reply.Scope, query); code != want {
			t.Errorf("search %q: exit code %d, want %d\n%s%s", query, code, want, out, errs)
		}
	}
	if code, _, errs := runs(t, nil, "search", "--nats", url, "--scope", "nonsense", "q"); code != 3 || !strings.Contains(errs, "BAD_REQUEST") {
		t.Errorf("a refused search: exit code %d: %s", code, errs)
	}
	end(worker)

	// The scope lives in the folder, not in the process.
	worker, url = begin()
	if code, _, errs := runs(t, nil, "search", "--nats", url, "--scope", reply.Scope, "create an issue"); code != 0 {
		t.Errorf("after a restart: exit code %d: %s", code, errs)
	}
	end(worker)
}

func TestUsageAndNoServer(t *testing.T) {
	t.Parallel()
	for want, args := range map[int][]string{
		2: {"search", "--nonsense"},
		3: {"search", "--nats", "nats://127.0.0.1:1", "--sample", "q"},
		0: {"version"},
	} {
		if code, out, errs := runs(t, nil, args...); code != want {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, out, errs)
		}
	}
}

// gatewayToken is what the workers of these tests show the gateway.
const gatewayToken = "token-of-the-test"

var tokenEnv = []string{"TOOLSEARCH_TOOLS_CONNECTORS_TOKEN=" + gatewayToken}

func startGateway(t testing.TB) *gatewaytest.Gateway {
	t.Helper()
	g, err := gatewaytest.Start(gatewaytest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// mails is tool_call's arguments for n emails.
func mails(n int) string {
	type call struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	var calls []call
	for i := range n {
		calls = append(calls, call{"connectors__mail__SEND_EMAIL", map[string]string{"to": fmt.Sprintf("guest%d@example.com", i), "subject": "Party"}})
	}
	p, err := json.Marshal(map[string]any{"calls": calls})
	if err != nil {
		panic(err)
	}
	return string(p)
}

// TestCallWatchStop plays three people at three terminals: one calls, one watches, one stops.
func TestCallWatchStop(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	_, url := serving(t, tokenEnv, "--gateway", g.URL())
	gate := gatewaytest.NewGate()
	defer gate.Open()
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", AfterEffect: true, Gate: gate, Skip: 1, Times: 1})

	watcher := launch(t, nil, "watch", "--nats", url, "--call", "party", "--replay")
	watcher.await(watcher.err, "watching")
	caller := launch(t, nil, "call", "--nats", url, "--sample", "--call-id", "party", "--arguments", mails(5))
	select {
	case <-gate.Reached():
	case <-caller.out.end:
		t.Fatalf("the call ended: %s%s", caller.out, caller.err)
	}
	if code, out, errs := runs(t, nil, "stop", "party", "--nats", url, "--reason", "test"); code != 0 || !strings.Contains(out, "stopped: call party") {
		t.Errorf("stop: exit code %d: %s%s", code, out, errs)
	}
	gate.Open()
	if code := caller.exit(); code != 1 {
		t.Errorf("the caller of a stopped call: exit code %d: %s", code, caller.err)
	}
	if code := watcher.exit(); code != 0 {
		t.Errorf("the watcher: exit code %d: %s", code, watcher.err)
	}
	for name, out := range map[string]string{"caller": caller.out.String(), "watcher": watcher.out.String()} {
		if strings.Count(out, " ok ") != 2 || strings.Count(out, " interrupted ") != 3 || !strings.Contains(out, "2 of 5 succeeded") {
			t.Errorf("the %s saw:\n%s", name, out)
		}
	}
	if n := len(g.Effects()); n != 2 {
		t.Errorf("%d emails were sent, want 2", n)
	}
	// The same call again is answered from its record and sends nothing; another payload under its id is refused.
	if code, out, _ := runs(t, nil, "call", "--nats", url, "--sample", "--call-id", "party", "--arguments", mails(5), "--json"); code != 1 || !strings.Contains(out, `"total_count": 5`) {
		t.Errorf("the call again: exit code %d: %s", code, out)
	}
	if code, _, errs := runs(t, nil, "call", "--nats", url, "--sample", "--call-id", "party", "--arguments", mails(4)); code != 3 || !strings.Contains(errs, "CALL_CONFLICT") {
		t.Errorf("another call of that id: exit code %d: %s", code, errs)
	}
	if code, out, _ := runs(t, nil, "jobs", "show", "party", "--nats", url); code != 0 || !strings.Contains(out, "done") || strings.Count(out, "interrupted") != 3 {
		t.Errorf("jobs show: exit code %d: %s", code, out)
	}
	if code, out, _ := runs(t, nil, "jobs", "list", "--nats", url); code != 1 || !strings.Contains(out, "no jobs") {
		t.Errorf("jobs list: exit code %d: %s", code, out)
	}
	if code, out, _ := runs(t, nil, "jobs", "retry", "party", "--nats", url); code != 1 || !strings.Contains(out, "was not given up") {
		t.Errorf("jobs retry: exit code %d: %s", code, out)
	}
	if code, out, _ := runs(t, nil, "jobs", "show", "nothing", "--nats", url); code != 1 || !strings.Contains(out, "nothing is known") {
		t.Errorf("jobs show of an unknown call: exit code %d: %s", code, out)
	}
}

func TestCallAsync(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	_, url := serving(t, tokenEnv, "--gateway", g.URL())
	code, out, errs := runs(t, nil, "call", "--nats", url, "--sample", "--async", "--json", "--call-id", "later", "--arguments", mails(2))
	var accepted subjects.Accepted
	if err := json.Unmarshal([]byte(out), &accepted); err != nil || code != 0 || !accepted.Accepted || accepted.CallID != "later" {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	code, out, errs = runs(t, nil, "watch", "--nats", url, "--call", "later", "--replay", "--json")
	if code != 0 || strings.Count(out, "\n") != 3 || strings.Count(out, `"outcome":"ok"`) != 2 {
		t.Errorf("watch: exit code %d: %s%s", code, out, errs)
	}
}

// TestSecondSignalForcesTheEnd holds a request in flight so that the drain must wait.
func TestSecondSignalForcesTheEnd(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	worker, url := serving(t, tokenEnv, "--gateway", g.URL())
	gate := gatewaytest.NewGate()
	defer gate.Open()
	g.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Gate: gate, Times: 1})
	caller := launch(t, nil, "call", "--nats", url, "--sample", "--arguments", mails(1))
	select {
	case <-gate.Reached():
	case <-caller.out.end:
		t.Fatalf("the call ended: %s%s", caller.out, caller.err)
	}
	for _, want := range []string{"draining", ""} {
		if err := worker.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if want != "" {
			worker.await(worker.err, want)
		}
	}
	if code := worker.exit(); code != 130 {
		t.Errorf("exit code %d\n%s", code, worker.err)
	}
}

func TestGatewayVerb(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, "gateway", "--addr", "127.0.0.1:0", "--fault", "status,status=500,times=1")
	p.await(p.out, "vault")
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != 0 || !strings.Contains(p.out.String(), "listening on http://127.0.0.1:") {
		t.Errorf("exit code %d: %s%s", code, p.out, p.err)
	}
	if code, _, errs := runs(t, nil, "gateway", "--fault", "nonsense"); code != 2 || !strings.Contains(errs, "nonsense") {
		t.Errorf("a wrong fault: exit code %d: %s", code, errs)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	began := time.Now()
	code, out, errs := runs(t, nil, "demo")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d after %s\n%s\n%s", code, time.Since(began), out, errs)
	}
	for _, want := range []string{"saved", "mcp__gitnest__create_issue", "matches: []", `"labels": ["bug"]`, "summary: 2 of 5 ran, 3 INTERRUPTED",
		"kill -9", "The gateway saw 6 requests and 5 emails"} {
		if !strings.Contains(out, want) {
			t.Errorf("the demo does not show %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("the demo colours where nobody sees it")
	}
}
