package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// consentTemplate is what a user sees who opens a connect link.
var consentTemplate = template.Must(template.New("consent").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Connect {{.Connector}}</title></head>
<body><h1>Connect {{.Connector}}</h1>
<p>An agent asks to use the {{.Connector}} account of {{.Tenant}}.</p>
<form method="post"><button name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button></form></body></html>
`))

func (g *Gateway) consentPage(w http.ResponseWriter, r *http.Request) {
	k, ok := g.links.change(r.PathValue("id"), func(*link) {})
	if !ok || k.id == "" {
		http.Error(w, "There is no such link.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = consentTemplate.Execute(w, struct{ Connector, Tenant string }{k.connector, k.tenant}) // a reader that has gone
}

// decide takes a button of the consent page.
func (g *Gateway) decide(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	decision := r.FormValue("decision")
	if decision != "allow" && decision != "deny" {
		http.Error(w, "decision must be allow or deny.", http.StatusBadRequest)
		return
	}
	k, ok := g.links.change(r.PathValue("id"), func(k *link) {
		switch {
		case k.status != "pending":
		case decision == "allow":
			k.set("active", "")
		default:
			k.set("failed", "the user denied it")
		}
	})
	if !ok {
		http.Error(w, "There is no such link.", http.StatusNotFound)
		return
	}
	g.tell(k, k.status)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s is %s now. You can close this page.\n", k.connector, k.status)
}

// Consent opens a connect link as a user's browser does, and presses the page's button: Allow, or Deny.
func Consent(ctx context.Context, connectURL string, allow bool) error {
	page, err := browse(ctx, http.MethodGet, connectURL, "")
	if err != nil {
		return err
	}
	if !strings.Contains(page, `name="decision"`) {
		return errors.New("gatewaytest: the link leads to no consent page")
	}
	decision := "deny"
	if allow {
		decision = "allow"
	}
	_, err = browse(ctx, http.MethodPost, connectURL, url.Values{"decision": {decision}}.Encode())
	return err
}

func browse(ctx context.Context, method, to, form string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(form))
	if err != nil {
		return "", err
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("gatewaytest: %s answered with status %d", method, resp.StatusCode)
	}
	return string(body), nil
}
