package connectors

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"
)

func TestReadInteger(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{`5`: 5, `5.0`: 5, `-3`: -3, `1e2`: 100, `"7"`: 7, `" 7.0 "`: 7, `true`: 1, `false`: 0, `120e-1`: 12} {
		if got, ok := readInteger(json.RawMessage(in)); !ok || got != want {
			t.Errorf("%s: got %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{`5.5`, `"five"`, `""`, `null`, `[]`, `{}`, `1e400`, `1e-400`, `99999999999999999999`, `"1/2"`, `"0x10"`, `"1_0"`, `"Inf"`} {
		if got, ok := readInteger(json.RawMessage(in)); ok {
			t.Errorf("%s: got %d", in, got)
		}
	}
}

func TestReadBoolean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{`true`: true, `1`: true, `1.0`: true, `"YES"`: true, `"on"`: true, `"1"`: true, `" true "`: true,
		`false`: false, `0`: false, `"no"`: false, `"Off"`: false, `"false"`: false} {
		if got, ok := readBoolean(json.RawMessage(in)); !ok || got != want {
			t.Errorf("%s: got %v, %v", in, got, ok)
		}
	}
	for _, in := range []string{`2`, `"maybe"`, `null`, `[]`, `""`} {
		if got, ok := readBoolean(json.RawMessage(in)); ok {
			t.Errorf("%s: got %v", in, got)
		}
	}
}

func TestShapeErrorsSayWhere(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"results":[{"error":{"code":"PROVIDER_ERROR"}}]}`: "results.0.error.message: want a value, it is required",
		`{"results":[{},{"connector":null}]}`:               "results.1.connector: want a value that is not null",
		`{"results":"x"}`:                                   "results: want a list",
		`[]`:                                                ": want an object",
		`{"results":[{"error":{"code":"X","message":"m"}}]}`:      "results.0.error.code: want one of TOOL_NOT_ALLOWED, CONNECTION_REQUIRED, TOOL_NOT_FOUND, PROVIDER_ERROR",
		`{"results":[{"data":1,"error":"broken","account":"x"}]}`: "results.0.error: want an object",
	} {
		if _, err := parseExecute(json.RawMessage(body)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
	if _, err := parseConnections(json.RawMessage(`{"results":[{"connector":"a","status":"maybe"}]}`)); err == nil {
		t.Error("an unknown status was accepted")
	}
	if _, _, err := parseList(json.RawMessage(`{"items":[{"connector":"a","connectionStatus":"maybe"}]}`)); err == nil {
		t.Error("an unknown connection status was accepted")
	}
	for _, body := range []string{`{"items":[],"error":null}`, `{"items":[{}]}`, `{"items":[{"connector":"a","disabledTools":[5]}]}`, `{"items":[],"nextCursor":5}`} {
		if _, _, err := parseList(json.RawMessage(body)); err == nil {
			t.Errorf("%s was accepted", body)
		}
	}
	good := `{"connectionId":"c","connector":"a","status":"active","label":"L","active":true,"createdAt":"x","updatedAt":"y"}`
	if a, err := parseAccount(json.RawMessage(good)); err != nil || a.Label != "L" || !a.Active || a.Alias != nil {
		t.Errorf("got %+v, %v", a, err)
	}
	for _, body := range []string{`{}`, `{"error":"x"}`, `5`,
		`{"connectionId":"c","connector":"a","status":"active","label":"","active":true,"createdAt":"x","updatedAt":"y"}`} {
		if _, err := parseAccount(json.RawMessage(body)); err == nil {
			t.Errorf("%s was accepted", body)
		}
	}
}

// Whatever a gateway sends, reading it neither panics nor gives what a model cannot be handed.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{`{}`, `null`, `[]`, `{"results":[{"index":0,"useCase":"q","tools":["A_B"]}],"schemas":{"A_B":{"connector":"a","tool":"A_B"}}}`,
		`{"results":[{"data":1,"error":null}]}`, `{"results":[{"error":{"code":"CONNECTION_REQUIRED","message":"m"}}]}`,
		`{"items":[{"connector":"a"}],"nextCursor":"x"}`, `{"schemas":{"":{"connector":"","tool":""}}}`, `{"results":[{"index":1e999}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !json.Valid(body) || !utf8.Valid(body) {
			return // refused before it is read
		}
		ignore := func(error) {}
		if a, err := parseSearch(body, ignore); err == nil {
			g := &Gateway{log: discard}
			for _, group := range g.groups(t.Context(), []string{"q", "r"}, a) {
				for _, tool := range group {
					if _, ok := ParseName(tool.Name); !ok || !isObject(tool.Parameters) || len(tool.Required) > maxRequired {
						t.Fatalf("%s gives %+v", body, tool)
					}
				}
			}
		}
		_, _ = parseSchemas(body, ignore)
		if rows, err := parseExecute(body); err == nil {
			plans := []Plan{{Name: "a"}, {Name: "b"}}
			for _, e := range AssembleResults(2, Splice(plans, rows, "link")).Results {
				if (e.Error == nil) == (e.Response == nil) {
					t.Fatalf("%s gives %+v", body, e)
				}
				if _, err := json.Marshal(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, _ = parseConnections(body)
		_, _, _ = parseList(body)
		_, _ = parseAccount(body)
	})
}

func FuzzParseError(f *testing.F) {
	f.Add(429, []byte(`{"error":{"code":"C","message":"m"},"requestId":7,"retryAfterMs":1e999}`), "1e999")
	f.Add(500, []byte("\xff"), "Wed, 21 Oct 2026 07:28:00 GMT")
	f.Add(404, []byte(`{"error":"connection_not_found"}`), "-5")
	f.Fuzz(func(t *testing.T, status int, body []byte, after string) {
		e := ParseError(status, body, http.Header{"Retry-After": {after}}, time.Unix(1e9, 0))
		if e.Message == "" || e.Code == "" || !utf8.ValidString(e.Error()) || utf8.RuneCountInString(e.Message) > maxMessage {
			t.Fatalf("got %+v", e)
		}
		if e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter {
			t.Fatalf("it waits %v", e.RetryAfter)
		}
	})
}
