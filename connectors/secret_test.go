package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"toolsearch/connectors/gatewaytest"
)

// A token must be in no log, error, result or event, also where a gateway sends it back or a transport complains of
// it. Everything that leaves the package is written down and searched.
func TestATokenIsNowhereToBeFound(t *testing.T) {
	t.Parallel()
	const token = "hunter2-hunter2-hunter2"
	echo := func(status int, format string) gatewaytest.Fault {
		return gatewaytest.Fault{Kind: gatewaytest.Status, Status: status, Body: fmt.Sprintf(format, token)}
	}
	faults := map[string]gatewaytest.Fault{
		"text error":    echo(500, "internal error, you sent Authorization: Bearer %s"),
		"json error":    echo(401, `{"error":{"code":"UNAUTHORIZED","message":"token %s is not known"},"requestId":"x"}`),
		"code":          echo(403, `{"error":"%s"}`),
		"request id":    echo(400, `{"code":"C","message":"m","requestId":"%s"}`),
		"rate limit":    echo(429, `{"code":"%s"}`),
		"result":        echo(200, `{"results":[{"data":{"headers":"Bearer %s"}}]}`),
		"row error":     echo(200, `{"results":[{"error":{"code":"PROVIDER_ERROR","message":"%s"}}]}`),
		"wrong shape":   echo(200, `{"results":[{"error":{"code":"%s","message":"m"}}]}`),
		"html":          echo(200, `<html>%s`),
		"search result": echo(200, `{"results":[{"index":0,"tools":["A_B"],"guidance":"%[1]s"}],"schemas":{"A_B":{"connector":"a","tool":"A_B","description":"%[1]s"}},"connections":[{"%[1]s":1}]}`),
		"redirect":      {Kind: gatewaytest.Status, Status: 307, Header: http.Header{"Location": {"http://127.0.0.1:1/?" + token}}},
		"dropped":       {Kind: gatewaytest.Drop},
		"half":          {Kind: gatewaytest.HalfBody},
		"working":       {Kind: gatewaytest.Slow},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := &logBuffer{}
			s := newSetup(t, setupOptions{client: ClientOptions{Tokens: Shared(token), ExecuteAttempts: 2}})
			s.server.Fault(fault)
			observer := &Observer{
				AttemptStarted:  func(_ context.Context, a Attempt) { fmt.Fprintf(out, "%+v\n", a) },
				AttemptFinished: func(_ context.Context, a Attempt, _ time.Duration, err *Error) { tell(out, a, err) },
				Retry:           func(_ context.Context, a Attempt, err *Error, _ time.Duration) { tell(out, a, err) },
				Dropped:         func(_ context.Context, _ Route, _ string, err error) { tell(out, err) },
			}
			s.client.observer = observer
			s.client.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
			s.gateway.log = s.client.log
			ctx := t.Context()
			r := s.gateway.Execute(ctx, mail())
			p, err := json.Marshal(r)
			tell(out, string(p), err)
			p, _ = json.Marshal(s.gateway.Search(ctx, "tenant", []string{"send an email"}))
			tell(out, string(p))
			p, _ = json.Marshal(s.gateway.Describe(ctx, "tenant", []string{sendMail}))
			tell(out, string(p))
			list, err := s.client.List(ctx, "tenant")
			tell(out, list, err)
			account, err := s.client.Account(ctx, "tenant", "ca_1")
			tell(out, account, err)
			started, err := s.client.Connections(ctx, "tenant", ConnectionsRequest{Connectors: []string{"mail"}})
			tell(out, started, err)
			if !strings.Contains(s.server.Requests()[0].Authorization, token) {
				t.Fatal("the token was not even sent")
			}
			if text := out.String(); strings.Contains(text, "hunter2") {
				t.Errorf("the token is in:\n%s", text)
			}
			if text := s.logs.String(); strings.Contains(text, "hunter2") {
				t.Errorf("the token is in the log:\n%s", text)
			}
		})
	}
}

// tell writes values down in every way that a program might, with the causes of errors.
func tell(out *logBuffer, values ...any) {
	for _, v := range values {
		fmt.Fprintf(out, "%v %+v\n", v, v)
		err, _ := v.(error)
		for ; err != nil; err = errors.Unwrap(err) {
			if e, ok := err.(*Error); ok && e == nil {
				break
			}
			fmt.Fprintf(out, "%v %+v %q\n", err, err, err.Error())
		}
	}
}

func TestATokenThatCannotStandInAHeaderIsNotShown(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"hunter2-hunter2\r\nX-Evil: 1", "hunter2 hunter2", "hunter2\x7f", "hunter2-é"} {
		s := newSetup(t, setupOptions{client: ClientOptions{Tokens: Shared(token)}})
		r := s.gateway.Execute(t.Context(), mail())
		if code(r) != "PROVIDER_ERROR" || s.server.RequestCount() != 0 || strings.Contains(r.Result.Error.Message+s.logs.String(), "hunter2") {
			t.Errorf("got %+v after %d requests; log %s", r.Result.Error, s.server.RequestCount(), s.logs)
		}
	}
}

// The token goes to the origin and to nobody else, and each tenant has its own.
func TestATokenGoesToItsOriginOnly(t *testing.T) {
	t.Parallel()
	s := newSetup(t, setupOptions{
		server: gatewaytest.Options{Tokens: map[string]string{"token-of-a": "a", "token-of-b": "b"}},
		client: ClientOptions{Tokens: Static{"a": "token-of-a", "b": "token-of-b", "c": "token-of-nobody"}},
	})
	for tenant, want := range map[string]string{"a": "Bearer token-of-a", "b": "Bearer token-of-b"} {
		e := mail()
		e.Tenant = tenant
		if r := s.gateway.Execute(t.Context(), e); r.Result.Error != nil {
			t.Fatal(r.Result.Error)
		}
		requests := s.server.Requests()
		if got := requests[len(requests)-1]; got.Authorization != want || got.Tenant != tenant {
			t.Errorf("%s: got %+v", tenant, got)
		}
	}
	if r := s.gateway.Search(t.Context(), "c", []string{"q"}); r.Condition == nil || r.Condition.Reason != "sign_in_expired" {
		t.Errorf("a token that is not known: got %+v", r)
	}
}
