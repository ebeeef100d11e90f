package node

import (
	"fmt"
	"log/slog"

	"golang.org/x/oauth2"

	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/connectors"
	"toolsearch/connectors/portal"
	"toolsearch/telemetry"
)

// gateway makes the gateway of the settings, nil where none is named or connectors are off.
func gateway(s config.Connectors, log *slog.Logger, rec *telemetry.Recorder) (*connectors.Gateway, error) {
	if !s.Enabled || s.Origin == "" {
		return nil, nil
	}
	origin, err := connectors.ParseOrigin(s.Origin)
	if err != nil {
		return nil, fmt.Errorf("tools.connectors.origin: %w", err)
	}
	client, err := connectors.NewClient(connectors.ClientOptions{
		Origin: origin, Tokens: tokens(s), Telemetry: rec, Logger: log,
		Timeouts: connectors.Timeouts{Search: s.SearchTimeout, Schemas: s.SchemasTimeout, Execute: s.ExecuteTimeout},
	})
	if err != nil {
		return nil, err
	}
	return connectors.NewGateway(client, connectors.GatewayOptions{
		SearchBound: s.SearchTimeout, DescribeBound: s.SchemasTimeout, Telemetry: rec, Logger: log,
	})
}

// accounts makes the client of the account-management service, nil where none is named or connectors are off.
func accounts(s config.Connectors, rec *telemetry.Recorder) (*portal.Client, error) {
	if !s.Enabled || s.Accounts == "" {
		return nil, nil
	}
	origin, err := connectors.ParseOrigin(s.Accounts)
	if err != nil {
		return nil, fmt.Errorf("tools.connectors.accounts: %w", err)
	}
	return portal.New(portal.Options{Origin: origin, Tokens: tokens(s), Telemetry: rec})
}

// tokens is where tenants' tokens come from; nil: everybody is signed out.
func tokens(s config.Connectors) connectors.Tokens {
	switch {
	case s.OAuth.TokenURL != "":
		return connectors.NewOAuth(&oauth2.Config{
			ClientID: s.OAuth.ClientID, ClientSecret: s.OAuth.ClientSecret,
			Endpoint: oauth2.Endpoint{TokenURL: s.OAuth.TokenURL},
		}, connectors.TokenDir(s.TokenDir), connectors.OAuthOptions{})
	case s.TokenDir != "":
		return connectors.Dir(s.TokenDir)
	case s.TokenEnv != "":
		return connectors.Env{Name: s.TokenEnv, Shared: true}
	case s.Token != "":
		return connectors.Shared(s.Token)
	}
	return nil
}
