package connectors

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"toolsearch/catalog"
	"toolsearch/telemetry"
)

// Defaults of [GatewayOptions].
const (
	DefaultSearchBound     = 30 * time.Second
	DefaultDescribeBound   = 10 * time.Second
	DefaultEntryBound      = 120 * time.Second
	DefaultBreakerFailures = 5
	DefaultBreakerCooldown = 15 * time.Second
)

// GatewayOptions are the settings of [NewGateway].
type GatewayOptions struct {
	// Disabled makes connectors invisible although a gateway is configured.
	Disabled bool
	// SearchBound and DescribeBound are how long a search and a describe wait for the gateway at most, whatever time
	// their requests have; 0 is 30 s and 10 s.
	SearchBound, DescribeBound time.Duration
	// BreakerFailures is how many failures in a row open a tenant's breaker; 0 is 5.
	BreakerFailures int
	// BreakerCooldown is how long an open breaker lets nothing through; 0 is 15 s.
	BreakerCooldown time.Duration
	// Clock tells the breakers the time; nil is the machine's.
	Clock Clock
	// Observer is told of the breakers; may be nil.
	Observer *Observer
	// Telemetry counts the breakers by their states; nil counts nothing.
	Telemetry *telemetry.Recorder
	// Logger is told of twin slugs and unexpected answers; nil is silent.
	Logger *slog.Logger
}

func (o *GatewayOptions) validate() error {
	switch {
	case o.SearchBound < 0:
		return fmt.Errorf("connectors: SearchBound %v: must be 0 or positive", o.SearchBound)
	case o.DescribeBound < 0:
		return fmt.Errorf("connectors: DescribeBound %v: must be 0 or positive", o.DescribeBound)
	case o.BreakerFailures < 0:
		return fmt.Errorf("connectors: BreakerFailures %d: must be 0 or positive", o.BreakerFailures)
	case o.BreakerCooldown < 0:
		return fmt.Errorf("connectors: BreakerCooldown %v: must be 0 or positive", o.BreakerCooldown)
	}
	return nil
}

// Gateway is the gateway as a worker uses it: the legs beside the local search and describe, and the execution of one
// entry of a batch. A nil Gateway is one without connectors. It is safe for concurrent use.
type Gateway struct {
	client        *Client
	enabled       bool
	searchBound   time.Duration
	describeBound time.Duration
	clock         Clock
	log           *slog.Logger
	breakers      *breakers
	searches      flights[searchLeg]
	describes     flights[describeLeg]
}

type searchLeg struct {
	groups  [][]catalog.RemoteTool
	failure Failure
	hidden  bool // connectors are invisible: nothing is told and nothing joined
}

type describeLeg struct {
	schemas map[string]Schema
	failure Failure
	hidden  bool
}

// NewGateway makes a gateway over a client. Close it when no request uses it any more.
func NewGateway(client *Client, o GatewayOptions) (*Gateway, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = machineClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BreakerFailures == 0 {
		o.BreakerFailures = DefaultBreakerFailures
	}
	g := &Gateway{
		client: client, enabled: !o.Disabled, clock: o.Clock, log: o.Logger,
		searchBound:   orDefault(o.SearchBound, DefaultSearchBound),
		describeBound: orDefault(o.DescribeBound, DefaultDescribeBound),
		breakers:      newBreakers(o.BreakerFailures, orDefault(o.BreakerCooldown, DefaultBreakerCooldown), o.Clock, recording(o.Telemetry, o.Observer)),
	}
	return g, nil
}

// Client is the client underneath, for connections and accounts.
func (g *Gateway) Client() *Client { return g.client }

// Configured reports whether there is a gateway that is switched on. It asks nobody: a tenant may be signed out.
func (g *Gateway) Configured() bool { return g != nil && g.enabled && !g.client.origin.IsZero() }

// errClosed is the cause of legs that a Close has ended.
var errClosed = errors.New("connectors: the gateway is closed")

// Close ends the legs that are under way, waits for their goroutines and closes the client's idle connections.
// Executions belong to their callers and are not touched.
func (g *Gateway) Close() {
	if g == nil {
		return
	}
	g.searches.stop(errClosed)
	g.describes.stop(errClosed)
	g.client.Close()
}
