package connectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/oauth2"
)

// renewEarly is how long before its expiry an access token is renewed, so that none runs out under a request.
const renewEarly = 2 * time.Minute

// renewWithin bounds one renewal.
const renewWithin = 30 * time.Second

// TokenStore keeps a tenant's OAuth tokens between renewals. Load returns nil and no error for a tenant that is
// signed out. Save replaces the tokens at once or not at all.
type TokenStore interface {
	Load(ctx context.Context, tenant string) (*oauth2.Token, error)
	Save(ctx context.Context, tenant string, t *oauth2.Token) error
}

// OAuthOptions are the settings of [NewOAuth].
type OAuthOptions struct {
	// Client sends the renewals. Nil is a client of its own with a 30 s bound.
	Client *http.Client
	// Clock tells the time. Nil is the machine's.
	Clock Clock
}

// OAuth is a [Tokens] that renews access tokens with their refresh tokens. The store is read at every attempt, and a
// tenant's renewal runs once however many attempts wait for it.
type OAuth struct {
	config   *oauth2.Config
	store    TokenStore
	client   *http.Client
	clock    Clock
	renewals flights[renewal]
}

type renewal struct {
	token string
	err   error
}

// NewOAuth makes a token source over a client configuration (its id, secret and token endpoint) and a store.
func NewOAuth(config *oauth2.Config, store TokenStore, o OAuthOptions) *OAuth {
	if o.Client == nil {
		o.Client = &http.Client{Timeout: renewWithin, CheckRedirect: refuseRedirect}
	}
	if o.Clock == nil {
		o.Clock = machineClock{}
	}
	return &OAuth{config: config, store: store, client: o.Client, clock: o.Clock}
}

// Token implements [Tokens].
func (o *OAuth) Token(ctx context.Context, tenant string) (string, error) {
	t, err := o.store.Load(ctx, tenant)
	if err != nil || t == nil {
		return "", err
	}
	if o.fresh(t, renewEarly) {
		return t.AccessToken, nil
	}
	r, ok := o.renewals.do(ctx, tenant, func(ctx context.Context) renewal { return o.renew(ctx, tenant) })
	if !ok {
		return "", context.Cause(ctx)
	}
	return r.token, r.err
}

func (o *OAuth) fresh(t *oauth2.Token, margin time.Duration) bool {
	return t.AccessToken != "" && (t.Expiry.IsZero() || o.clock.Now().Add(margin).Before(t.Expiry))
}

// renew loads again first: another process may have renewed while this one waited. A token that is still good bridges
// a token endpoint that is out of reach.
func (o *OAuth) renew(ctx context.Context, tenant string) renewal {
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	t, err := o.store.Load(ctx, tenant)
	for range 2 {
		if err != nil || t == nil {
			return renewal{err: err}
		}
		if o.fresh(t, renewEarly) {
			return renewal{token: t.AccessToken}
		}
		fresh, rerr := o.exchange(ctx, t)
		if rerr == nil {
			if err := o.store.Save(ctx, tenant, fresh); err != nil {
				// The new token works now; a rotated refresh token that was not kept shows at the next renewal.
				return renewal{token: fresh.AccessToken}
			}
			return renewal{token: fresh.AccessToken}
		}
		if !errors.Is(rerr, ErrNoToken) {
			if o.fresh(t, 0) {
				return renewal{token: t.AccessToken}
			}
			return renewal{err: rerr}
		}
		// Refused: perhaps because another process has used this refresh token already. Its result is in the store.
		used := t.RefreshToken
		if t, err = o.store.Load(ctx, tenant); err == nil && t != nil && t.RefreshToken == used {
			return renewal{err: rerr}
		}
	}
	return renewal{err: ErrNoToken}
}

// exchange trades the refresh token for a new access token. Its errors hold no text of the token endpoint, whose
// answers may repeat what was sent.
func (o *OAuth) exchange(ctx context.Context, t *oauth2.Token) (*oauth2.Token, error) {
	if t.RefreshToken == "" {
		return nil, ErrNoToken
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.client)
	fresh, err := o.config.TokenSource(ctx, &oauth2.Token{RefreshToken: t.RefreshToken}).Token()
	if err == nil {
		return fresh, nil
	}
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil {
		if s := refused.Response.StatusCode; s == http.StatusBadRequest || s == http.StatusUnauthorized {
			return nil, ErrNoToken
		}
		return nil, fmt.Errorf("connectors: the token endpoint answered %d", refused.Response.StatusCode)
	}
	var sent *url.Error
	if errors.As(err, &sent) {
		return nil, fmt.Errorf("connectors: the token endpoint could not be reached: %w", sent.Err)
	}
	return nil, errors.New("connectors: the token endpoint's answer cannot be used")
}

// TokenDir is a [TokenStore] in a folder: a file <tenant>.json with access_token, refresh_token, token_type and
// expiry (RFC 3339). A save replaces the file in one step; only the process's own user can read it.
type TokenDir string

// Load implements [TokenStore].
func (d TokenDir) Load(_ context.Context, tenant string) (*oauth2.Token, error) {
	p, err := readTenantFile(string(d), tenant, ".json")
	if err != nil || len(bytes.TrimSpace(p)) == 0 {
		return nil, err
	}
	t := new(oauth2.Token)
	if json.Unmarshal(p, t) != nil {
		return nil, fmt.Errorf("connectors: token file %s.json is not the JSON of an OAuth token", tenant)
	}
	return t, nil
}

// Save implements [TokenStore].
func (d TokenDir) Save(_ context.Context, tenant string, t *oauth2.Token) error {
	p, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("connectors: token of tenant %s: %w", tenant, err)
	}
	f, err := os.CreateTemp(string(d), "."+tenant+"-*")
	if err != nil {
		return fmt.Errorf("connectors: token of tenant %s: %w", tenant, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(p)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(string(d), tenant+".json"))
	}
	if err != nil {
		return fmt.Errorf("connectors: token of tenant %s: %w", tenant, err)
	}
	return nil
}

var (
	_ Tokens     = (*OAuth)(nil)
	_ TokenStore = TokenDir("")
)
