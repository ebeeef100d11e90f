package connectors

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// endpoint is a token endpoint that rotates refresh tokens: each is good once.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	valid  string
	asked  int
	status int // answers so instead, 0 for properly
	hold   chan struct{}
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{valid: "refresh-0"}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		hold := e.hold
		e.mu.Unlock()
		if hold != nil {
			<-hold
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.asked++
		w.Header().Set("Content-Type", "application/json")
		switch used := r.FormValue("refresh_token"); {
		case e.status != 0:
			w.WriteHeader(e.status)
			fmt.Fprintf(w, `{"error":"server_error","error_description":"you sent %s"}`, used)
		case used != e.valid:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"you sent %s"}`, used)
		default:
			e.valid = fmt.Sprintf("refresh-%d", e.asked)
			fmt.Fprintf(w, `{"access_token":"access-%d","refresh_token":%q,"token_type":"Bearer","expires_in":3600}`, e.asked, e.valid)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) source(t *testing.T, dir string) *OAuth {
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: refuseRedirect}
	t.Cleanup(client.CloseIdleConnections)
	config := &oauth2.Config{ClientID: "id", ClientSecret: "client-secret", Endpoint: oauth2.Endpoint{TokenURL: e.URL, AuthStyle: oauth2.AuthStyleInParams}}
	return NewOAuth(config, TokenDir(dir), OAuthOptions{Client: client})
}

func putToken(t *testing.T, dir string, token oauth2.Token) {
	t.Helper()
	if err := TokenDir(dir).Save(t.Context(), "acme", &token); err != nil {
		t.Fatal(err)
	}
}

func TestOAuthRenewsOnceForAll(t *testing.T) {
	t.Parallel()
	e, dir := newEndpoint(t), t.TempDir()
	e.hold = make(chan struct{})
	putToken(t, dir, oauth2.Token{AccessToken: "old", RefreshToken: "refresh-0", Expiry: time.Now().Add(time.Minute)})
	source := e.source(t, dir)
	got := make(chan string, 8)
	for range cap(got) {
		go func() {
			token, err := source.Token(context.Background(), "acme")
			if err != nil {
				token = err.Error()
			}
			got <- token
		}()
	}
	close(e.hold)
	for range cap(got) {
		if token := <-got; token != "access-1" {
			t.Errorf("got %q", token)
		}
	}
	if e.asked != 1 {
		t.Errorf("%d renewals, want 1", e.asked)
	}
	kept, err := TokenDir(dir).Load(t.Context(), "acme")
	if err != nil || kept.RefreshToken != "refresh-1" || kept.AccessToken != "access-1" {
		t.Errorf("the store has %+v, %v", kept, err)
	}
	info, err := os.Stat(filepath.Join(dir, "acme.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
}

func TestOAuthUsesAGoodTokenAsItIs(t *testing.T) {
	t.Parallel()
	e, dir := newEndpoint(t), t.TempDir()
	source := e.source(t, dir)
	if got, err := source.Token(t.Context(), "acme"); got != "" || err != nil {
		t.Errorf("signed out: got %q, %v", got, err)
	}
	for _, token := range []oauth2.Token{{AccessToken: "a", Expiry: time.Now().Add(time.Hour)}, {AccessToken: "for-ever"}} {
		putToken(t, dir, token)
		if got, err := source.Token(t.Context(), "acme"); got != token.AccessToken || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if e.asked != 0 {
		t.Errorf("%d renewals, want none", e.asked)
	}
}

func TestOAuthRefusedMeansSignInAgain(t *testing.T) {
	t.Parallel()
	e, dir := newEndpoint(t), t.TempDir()
	putToken(t, dir, oauth2.Token{AccessToken: "old-access", RefreshToken: "withdrawn-refresh", Expiry: time.Now().Add(-time.Minute)})
	_, err := e.source(t, dir).Token(t.Context(), "acme")
	if !errors.Is(err, ErrNoToken) {
		t.Fatalf("got %v", err)
	}
	if tokenError(err).Status != http.StatusUnauthorized {
		t.Errorf("got %+v", tokenError(err))
	}
}

func TestOAuthOutageIsBridgedAndTold(t *testing.T) {
	t.Parallel()
	e, dir := newEndpoint(t), t.TempDir()
	e.status = http.StatusBadGateway
	source := e.source(t, dir)
	putToken(t, dir, oauth2.Token{AccessToken: "nearly-over", RefreshToken: "refresh-0", Expiry: time.Now().Add(time.Minute)})
	if got, err := source.Token(t.Context(), "acme"); got != "nearly-over" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	putToken(t, dir, oauth2.Token{AccessToken: "over", RefreshToken: "refresh-0", Expiry: time.Now().Add(-time.Minute)})
	_, err := source.Token(t.Context(), "acme")
	if err == nil || errors.Is(err, ErrNoToken) || !strings.Contains(err.Error(), "502") {
		t.Errorf("got %v", err)
	}
	e.CloseClientConnections()
	e.Close()
	_, err = source.Token(t.Context(), "acme")
	if err == nil || errors.Is(err, ErrNoToken) {
		t.Errorf("got %v", err)
	}
	for _, secret := range []string{"refresh-0", "client-secret"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error %q holds %q", err, secret)
		}
	}
}

func TestOAuthTakesWhatARivalRenewed(t *testing.T) {
	t.Parallel()
	e, dir := newEndpoint(t), t.TempDir()
	// This process holds refresh-0, which a rival has used: the endpoint refuses it, and the store has the rival's.
	putToken(t, dir, oauth2.Token{AccessToken: "old", RefreshToken: "refresh-0", Expiry: time.Now().Add(-time.Minute)})
	e.valid = "used-by-the-rival"
	source := e.source(t, dir)
	loads := 0
	source.store = storeFunc{load: func() (*oauth2.Token, error) {
		if loads++; loads == 3 { // after the refusal
			putToken(t, dir, oauth2.Token{AccessToken: "of-the-rival", RefreshToken: "refresh-9", Expiry: time.Now().Add(time.Hour)})
		}
		return TokenDir(dir).Load(t.Context(), "acme")
	}}
	if got, err := source.Token(t.Context(), "acme"); got != "of-the-rival" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

type storeFunc struct {
	load func() (*oauth2.Token, error)
}

func (s storeFunc) Load(context.Context, string) (*oauth2.Token, error) { return s.load() }
func (s storeFunc) Save(context.Context, string, *oauth2.Token) error   { return nil }

func TestTokenDirTellsAFileThatIsNoToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "acme.json"), []byte(`{"access_token":"hunter2"`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := TokenDir(dir).Load(t.Context(), "acme")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
