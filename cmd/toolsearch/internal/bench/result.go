package bench

import (
	"slices"
	"time"
)

// Result is what a run measured.
type Result struct {
	// P50Ratio, RateRatio and AssembleRatio are explained in the package's documentation.
	P50Ratio      float64 `json:"p50_ratio"`
	RateRatio     float64 `json:"rate_ratio"`
	AssembleRatio float64 `json:"assemble_ratio"`

	Tools    int    `json:"tools"`
	Queries  int    `json:"queries"` // different ones
	Cores    int    `json:"cores"`
	Bus      string `json:"bus"`
	InFlight int    `json:"in_flight"`

	// Search and Echo are measured beside each other.
	Search Measured `json:"search"`
	Echo   Measured `json:"echo"`
	// SearchCPU is the CPU of one search in microseconds, without the bus.
	SearchCPU float64 `json:"search_cpu_us"`
	// PossibleRate is 1/(1/echo_rate + search_cpu/cores), in requests a second.
	PossibleRate float64 `json:"possible_rate"`
	// RequestBytes and ReplyBytes are the averages of one search.
	RequestBytes float64 `json:"request_bytes"`
	ReplyBytes   float64 `json:"reply_bytes"`

	// Assemble names a stored catalog; AssembleEcho has its sizes.
	Assemble           Measured `json:"assemble"`
	AssembleEcho       Measured `json:"assemble_echo"`
	AssembleReplyBytes int      `json:"assemble_reply_bytes"`

	Seconds float64 `json:"seconds"`
}

// Measured is one kind of request. Times are in microseconds with one in flight; Rate is in requests a second with
// many in flight, 0 where it was not measured.
type Measured struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	Rate float64 `json:"rate,omitempty"`
	// CPU is what this process spent on one request with many in flight, in microseconds: client, server and service
	// where all are in it. Other work on the machine hardly changes it. 0 where it was not measured.
	CPU float64 `json:"cpu_us,omitempty"`
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// times collects how long requests took.
type times []time.Duration

// measured sorts t.
func (t times) measured() Measured {
	if len(t) == 0 {
		return Measured{}
	}
	slices.Sort(t)
	at := func(part float64) float64 {
		return micros(t[min(len(t)-1, int(part*float64(len(t))))])
	}
	return Measured{P50: at(0.50), P99: at(0.99)}
}

// ratio is a/b, 0 where b is.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
