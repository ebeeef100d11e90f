package command_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"toolsearch/cmd/toolsearch/internal/command"
)

// get asks the admin server, over a connection of its own.
func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// A worker with an admin address answers an operator until it has drained; the verb health asks it.
func TestWorkerAdmin(t *testing.T) {
	t.Parallel()
	logs, w := io.Pipe()
	signals, code := make(chan os.Signal, 1), make(chan int, 1)
	go func() {
		code <- command.Main(command.Surroundings{In: strings.NewReader(""), Out: io.Discard, Err: w, Signals: signals,
			Environ: func() []string { return []string{"TOOLSEARCH_ADMIN_ADDR=127.0.0.1:0"} }},
			[]string{"worker", "--nats", bus, "--log-json"})
		_ = w.Close()
	}()
	lines, address := bufio.NewScanner(logs), ""
	for ready := false; !ready || address == ""; {
		if !lines.Scan() {
			t.Fatalf("the worker ended: %v", lines.Err())
		}
		var line struct{ Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("a line of the log is no JSON: %s", lines.Text())
		}
		if line.Address != "" {
			address = line.Address
		}
		ready = ready || line.Msg == "the worker is ready"
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		_, _ = io.Copy(io.Discard, logs)
	}()
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ok"}`, "/buildinfo": `"go":"go1.`,
		"/metrics": `toolsearch_worker_ready 1`, "/debug/pprof/goroutine?debug=1": "goroutine profile",
	} {
		if status, body := get(t, address, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %s; want %q in it", path, status, body, want)
		}
	}
	if r := run(t, "", "health", "--admin", address); r.code != command.ExitFound || !strings.Contains(r.out, `"ok"`) {
		t.Errorf("health: %+v", r)
	}
	signals <- os.Interrupt
	if c := <-code; c != command.ExitFound && c != command.ExitInterrupted {
		t.Errorf("exit code %d", c)
	}
	<-rest
	if r := run(t, "", "health", "--admin", address); r.code != command.ExitRefused {
		t.Errorf("health after the end: %+v", r)
	}
	if r := run(t, "", "health"); r.code != command.ExitUsage {
		t.Errorf("health without an address: %+v", r)
	}
}
