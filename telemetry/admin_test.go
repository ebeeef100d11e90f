package telemetry_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"toolsearch/telemetry"
)

func serve(t *testing.T, o telemetry.AdminOptions) *telemetry.Admin {
	t.Helper()
	o.Address = "127.0.0.1:0"
	a, err := telemetry.Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := a.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return a
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, address, path, accept string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

func TestProbesSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	var problems []string
	a := serve(t, telemetry.AdminOptions{Ready: func(context.Context) []string { return problems },
		Build: telemetry.ReadBuild("1.2.3")})
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _, body := get(t, a.Address(), path, ""); status != http.StatusOK || body != "{\"status\":\"ok\"}\n" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	problems = []string{"not connected to NATS: nats://user:hunter2pass@bus:4222 refused", "the streams could not be made"}
	status, _, body := get(t, a.Address(), "/readyz", "")
	var got struct {
		Status   string
		Problems []string
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusServiceUnavailable || len(got.Problems) != 2 ||
		!strings.HasPrefix(got.Problems[0], "not connected to NATS") || strings.Contains(body, "hunter2pass") {
		t.Errorf("%d %s", status, body)
	}
	if !strings.Contains(problems[0], "hunter2pass") {
		t.Error("the probe changed what it was told")
	}
	if _, _, body := get(t, a.Address(), "/buildinfo", ""); !strings.Contains(body, `"version":"1.2.3"`) || !strings.Contains(body, `"go":"go`) {
		t.Errorf("build information %s", body)
	}
	if status, _, _ := get(t, a.Address(), "/metrics", ""); status != http.StatusNotFound {
		t.Errorf("metrics without any: %d", status)
	}
	if status, _, _ := get(t, a.Address(), "/debug/pprof/heap?debug=1", ""); status != http.StatusOK {
		t.Errorf("a profile: %d", status)
	}
	resp, err := client.Post("http://"+a.Address()+"/readyz", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.StatusCode)
	}
}

// A profile holds memory: it is for callers on the same machine, whatever address the server listens on.
func TestProfilesStayHere(t *testing.T) {
	t.Parallel()
	h := telemetry.AdminHandler(telemetry.AdminOptions{})
	for remote, want := range map[string]int{"127.0.0.1:5": http.StatusOK, "[::1]:5": http.StatusOK, "10.0.0.7:5": http.StatusForbidden,
		"[2001:db8::1]:5": http.StatusForbidden, "odd": http.StatusForbidden} {
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr = remote
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s from %s: %d, want %d", path, remote, w.Code, want)
			}
		}
	}
}

func TestServeRefusesItsAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, address := range []string{"", "127.0.0.1", l.Addr().String()} {
		if a, err := telemetry.Serve(telemetry.AdminOptions{Address: address}); err == nil || !strings.Contains(err.Error(), "AdminOptions.Address") {
			t.Errorf("%q: %v, %v", address, a, err)
		}
	}
}
