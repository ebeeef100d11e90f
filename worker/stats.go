package worker

import (
	"sync/atomic"
	"time"

	"toolsearch/subjects"
)

// EndpointStats is the data of an endpoint in the service's statistics ("nats micro stats"). The figures beside it,
// the framework's own, only measure how fast requests are handed on.
type EndpointStats struct {
	// Requests counts every request that arrived, also those that were refused.
	Requests uint64 `json:"requests"`
	// Replies counts the answers that are no service error, among them those that tell a model of its mistake.
	Replies uint64 `json:"replies"`
	// Mistakes counts, of the replies, those that tell a model of its mistake.
	Mistakes uint64 `json:"mistakes"`
	// Errors counts service errors by code; codes without one are absent.
	Errors map[subjects.Code]uint64 `json:"errors"`
	// Refused counts, of the errors, those of requests that were never begun: OVERLOADED, and UNAVAILABLE in a drain.
	Refused uint64 `json:"refused"`
	// Unanswered counts requests that named no reply subject, and answers that could not be sent.
	Unanswered uint64 `json:"unanswered"`
	// InFlight is how many requests wait or run now.
	InFlight int64 `json:"in_flight"`
	// ProcessingTime is the time spent on requests that were begun, in all; AverageProcessingTime is per request.
	ProcessingTime        time.Duration `json:"processing_time"`
	AverageProcessingTime time.Duration `json:"average_processing_time"`
}

// counters are an endpoint's running figures.
type counters struct {
	requests, replies, mistakes, refused, unanswered, begun atomic.Uint64
	inFlight                                                atomic.Int64
	time                                                    atomic.Int64
	errors                                                  [16]atomic.Uint64 // in the order of codes
}

// codes fixes the order of [counters.errors].
var codes = subjects.Codes()

func (c *counters) failed(code subjects.Code) {
	for i, k := range codes {
		if k == code {
			c.errors[i].Add(1)
			return
		}
	}
}

func (c *counters) snapshot() EndpointStats {
	s := EndpointStats{
		Requests:       c.requests.Load(),
		Replies:        c.replies.Load(),
		Mistakes:       c.mistakes.Load(),
		Errors:         map[subjects.Code]uint64{},
		Refused:        c.refused.Load(),
		Unanswered:     c.unanswered.Load(),
		InFlight:       c.inFlight.Load(),
		ProcessingTime: time.Duration(c.time.Load()),
	}
	for i, code := range codes {
		if n := c.errors[i].Load(); n > 0 {
			s.Errors[code] = n
		}
	}
	if n := c.begun.Load(); n > 0 {
		s.AverageProcessingTime = s.ProcessingTime / time.Duration(n)
	}
	return s
}
