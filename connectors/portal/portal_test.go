package portal_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/connectors/portal"
	"toolsearch/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bundle struct {
	gateway *gatewaytest.Gateway
	service *gatewaytest.Portal
	client  *portal.Client
}

func setup(t *testing.T, o gatewaytest.PortalOptions, tokens connectors.Tokens) *bundle {
	t.Helper()
	g, err := gatewaytest.Start(gatewaytest.Options{Tokens: map[string]string{"hush-hush": "acme"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	p, err := gatewaytest.StartPortal(g, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if tokens == nil {
		tokens = connectors.Static{"acme": "hush-hush"}
	}
	return &bundle{g, p, client(t, p.URL(), tokens)}
}

func client(t *testing.T, url string, tokens connectors.Tokens) *portal.Client {
	t.Helper()
	origin, err := connectors.ParseOrigin(url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := portal.New(portal.Options{Origin: origin, Tokens: tokens, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// refused checks an error's kind and code.
func refused(t *testing.T, err error, kind portal.Kind, code string) *portal.Error {
	t.Helper()
	var e *portal.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Code != code || e.Message == "" || strings.Contains(e.Error(), "hush") {
		t.Fatalf("%#v, want %s %s", err, kind, code)
	}
	return e
}

func TestListRenameDisconnect(t *testing.T) {
	t.Parallel()
	b := setup(t, gatewaytest.PortalOptions{}, nil)
	ctx := t.Context()
	list, err := b.client.List(ctx, "acme", "")
	if err != nil || len(list.Items) != 4 || list.ETag == "" || list.NotModified {
		t.Fatalf("%+v, %v", list, err)
	}
	if same, err := b.client.List(ctx, "acme", list.ETag); err != nil || !same.NotModified || same.ETag != list.ETag {
		t.Errorf("%+v, %v", same, err)
	}
	first := list.Items[0]
	if err := b.client.Rename(ctx, "acme", first.ConnectionID, "work"); err != nil {
		t.Error(err)
	}
	renamed, err := b.client.List(ctx, "acme", list.ETag)
	if err != nil || renamed.NotModified || renamed.Items[0].Alias != "work" {
		t.Errorf("%+v, %v", renamed, err)
	}
	ended, err := b.client.Disconnect(ctx, "acme", first.ConnectionID)
	if err != nil || len(b.service.Audits()) != 1 || ended.AuditID != b.service.Audits()[0].ID {
		t.Errorf("%+v, %v, %+v", ended, err, b.service.Audits())
	}
	_, err = b.client.Disconnect(ctx, "acme", first.ConnectionID)
	refused(t, err, portal.KindRefused, "ACCOUNT_NOT_FOUND")
}

func TestTheMembershipCheckPassesThrough(t *testing.T) {
	t.Parallel()
	b := setup(t, gatewaytest.PortalOptions{Strangers: []string{"acme"}}, nil)
	list, err := b.client.List(t.Context(), "acme", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.client.Disconnect(t.Context(), "acme", list.Items[0].ConnectionID)
	e := refused(t, err, portal.KindRefused, "NOT_A_MEMBER")
	if e.AuditID == "" || e.AuditID != b.service.Audits()[0].ID || b.service.Audits()[0].Allowed {
		t.Errorf("audit %q, %+v", e.AuditID, b.service.Audits())
	}
}

func TestWhoIsNotSignedIn(t *testing.T) {
	t.Parallel()
	for _, tokens := range []connectors.Tokens{connectors.Static{}, connectors.Static{"acme": "another-token"}, connectors.Static{"acme": "two words"}} {
		b := setup(t, gatewaytest.PortalOptions{}, tokens)
		_, err := b.client.List(t.Context(), "acme", "")
		refused(t, err, portal.KindSignedOut, subjects.RefusalSignedOut)
	}
	none, err := portal.New(portal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	_, err = none.List(t.Context(), "acme", "")
	refused(t, err, portal.KindNotConfigured, subjects.RefusalNotConfigured)
	var missing *portal.Client
	_, err = missing.Disconnect(t.Context(), "acme", "ca")
	refused(t, err, portal.KindNotConfigured, subjects.RefusalNotConfigured)
	if _, err := portal.New(portal.Options{Timeout: -1}); err == nil {
		t.Error("made with a negative timeout")
	}
}

// A list is asked twice, a change once. Whether a change took effect is only said where it is known.
func TestWhenTheServiceFails(t *testing.T) {
	t.Parallel()
	b := setup(t, gatewaytest.PortalOptions{}, nil)
	list, err := b.client.List(t.Context(), "acme", "")
	if err != nil {
		t.Fatal(err)
	}
	id := list.Items[0].ConnectionID
	b.service.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503})
	if _, err := b.client.List(t.Context(), "acme", ""); err != nil {
		t.Errorf("one failure of a list: %v", err)
	}
	b.service.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503}, gatewaytest.Fault{Kind: gatewaytest.Status, Status: 503})
	_, err = b.client.List(t.Context(), "acme", "")
	refused(t, err, portal.KindUnreachable, subjects.RefusalUnreachable)
	if _, err := b.client.List(t.Context(), "acme", ""); err != nil { // opens a connection, on which net/http would repeat
		t.Fatal(err)
	}
	asked := b.service.Asked()
	drop := gatewaytest.Fault{Kind: gatewaytest.Drop}
	b.service.Fault(drop, drop)
	_, err = b.client.List(t.Context(), "acme", "")
	refused(t, err, portal.KindUnreachable, subjects.RefusalUnreachable)
	if n := b.service.Asked() - asked; n != 2 {
		t.Errorf("%d requests for a list", n)
	}
	asked = b.service.Asked()
	for _, f := range []gatewaytest.Fault{{Kind: gatewaytest.Status, Status: 500}, {Kind: gatewaytest.Drop, AfterEffect: true}} {
		b.service.Fault(f)
		_, err = b.client.Disconnect(t.Context(), "acme", id)
		refused(t, err, portal.KindUnclear, subjects.RefusalOutcomeUnknown)
	}
	if n := b.service.Asked() - asked; n != 2 {
		t.Errorf("%d requests for two changes", n)
	}
	b.service.Close()
	_, err = b.client.Disconnect(t.Context(), "acme", id)
	refused(t, err, portal.KindUnreachable, subjects.RefusalUnreachable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.client.List(ctx, "acme", "")
	refused(t, err, portal.KindUnreachable, subjects.RefusalUnreachable)
}

// Neither a redirect nor a word of the service carries a token away, and odd answers are errors.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	var stolen atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Store(true) }))
	defer thief.Close()
	for _, c := range []struct {
		status     int
		body, code string
		kind       portal.Kind
	}{
		{302, "", subjects.RefusalUnreachable, portal.KindUnreachable},
		{200, "<html>", subjects.RefusalUnreachable, portal.KindUnreachable},
		{304, "", subjects.RefusalUnreachable, portal.KindUnreachable},
		{403, `{"error":"no_access"}`, "no_access", portal.KindRefused},
		{403, `{"code":"FLAT","message":"hush-hush is no good"}`, "FLAT", portal.KindRefused},
		{418, `teapot`, "HTTP_418", portal.KindRefused},
		{403, `{"error":{"message":"only members"}}`, "HTTP_403", portal.KindRefused},
		{403, `{"code":40301,"message":"only members","auditId":7}`, "40301", portal.KindRefused},
		{403, `{"error":null,"code":"NULLS","message":"only members","auditId":null}`, "NULLS", portal.KindRefused},
		{403, `{"error":{"code":"LONG","message":"` + strings.Repeat("é", 5000) + `"}}`, "LONG", portal.KindRefused},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", thief.URL)
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		_, err := client(t, s.URL, connectors.Static{"acme": "hush-hush"}).List(t.Context(), "acme", "")
		e := refused(t, err, c.kind, c.code)
		if len(e.Message) > 2048 {
			t.Errorf("%d: a message of %d bytes", c.status, len(e.Message))
		}
		if strings.Contains(c.body, "only members") && e.Message != "only members" {
			t.Errorf("%s: the service's own words became %q", c.body, e.Message)
		}
		s.Close()
	}
	if stolen.Load() {
		t.Error("a redirect was followed")
	}
}

// Garbage is neither a user without accounts nor the word that a change was made.
func TestGarbage(t *testing.T) {
	t.Parallel()
	serve := func(status int, body string, half bool) *portal.Client {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if half {
				w.Header().Set("Content-Length", fmt.Sprint(len(body)+100))
			}
			w.Header().Set("X-Audit-Id", strings.Repeat("a", 10_000))
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return client(t, s.URL, connectors.Static{"acme": "hush-hush"})
	}
	for _, body := range []string{"", "null", "{}", `{"items":null}`, `{"items":{}}`, `{"items":["x"]}`, `[]`, `"x"`, `{"accounts":[]}`,
		strings.Repeat("[", 20_000), `{"items":[` + strings.Repeat(" ", 5<<20) + `]}`} {
		_, err := serve(200, body, false).List(t.Context(), "acme", "")
		refused(t, err, portal.KindUnreachable, subjects.RefusalUnreachable)
	}
	if list, err := serve(200, `{"items":[]}`, false).List(t.Context(), "acme", ""); err != nil || len(list.Items) != 0 {
		t.Errorf("no accounts: %+v, %v", list, err)
	}
	for _, body := range []string{"<html>sign in</html>", "[]", "null", `"ok"`, `{"auditId":`} {
		_, err := serve(200, body, false).Disconnect(t.Context(), "acme", "ca_1")
		if e := refused(t, err, portal.KindUnclear, subjects.RefusalOutcomeUnknown); len(e.AuditID) != 256 {
			t.Errorf("%s: the audit id %q", body, e.AuditID)
		}
		refused(t, serve(200, body, false).Rename(t.Context(), "acme", "ca_1", "work"), portal.KindUnclear, subjects.RefusalOutcomeUnknown)
	}
	_, err := serve(200, `{"auditId":"x"`, true).Disconnect(t.Context(), "acme", "ca_1")
	refused(t, err, portal.KindUnclear, subjects.RefusalOutcomeUnknown)
	for status, body := range map[int]string{204: "", 200: `{"auditId":"x"}`, 202: "{}"} {
		if ended, err := serve(status, body, false).Disconnect(t.Context(), "acme", "ca_1"); err != nil || len(ended.AuditID) != 256 {
			t.Errorf("%d %s: %+v, %v", status, body, ended, err)
		}
	}
	_, err = serve(403, `{"code":"`+strings.Repeat("C", 10_000)+`","message":"no"}`, false).Disconnect(t.Context(), "acme", "ca_1")
	var e *portal.Error
	if !errors.As(err, &e) || e.Kind != portal.KindRefused || len(e.Code) > 256 || len(e.AuditID) > 256 {
		t.Errorf("a code of %d bytes, an audit id of %d", len(e.Code), len(e.AuditID))
	}
}
