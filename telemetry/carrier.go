package telemetry

import (
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
)

// Carrier is the headers of a NATS message for a propagator. NATS keeps the case of header names and senders differ, so
// it reads any case; it writes lower case, as W3C and the contract do. OpenTelemetry's own HeaderCarrier writes
// "Traceparent" and cannot read "traceparent".
type Carrier nats.Header

var _ propagation.TextMapCarrier = Carrier(nil)

// Get returns the first value under key, in whatever case it stands there; the very spelling goes first.
func (c Carrier) Get(key string) string {
	if v := c[key]; len(v) > 0 {
		return v[0]
	}
	for k, v := range c {
		if len(v) > 0 && strings.EqualFold(k, key) {
			return v[0]
		}
	}
	return ""
}

// Set puts value under key in lower case, in place of what stands there in any case.
func (c Carrier) Set(key, value string) {
	for k := range c {
		if strings.EqualFold(k, key) {
			delete(c, k)
		}
	}
	c[strings.ToLower(key)] = []string{value}
}

// Keys lists the names, in lower case.
func (c Carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, strings.ToLower(k))
	}
	return keys
}
