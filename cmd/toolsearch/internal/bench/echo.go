package bench

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// echo answers each request with as many bytes as the last token of its subject says. Like the worker it has a
// connection and a queue group of its own.
type echo struct {
	prefix string
	sub    *nats.Subscription
}

// newEcho makes its subjects as long as the one of a search.
func newEcho(nc *nats.Conn, like string, largest int) (*echo, error) {
	e := &echo{prefix: "toolsearch-echo-" + nuid.Next() + "."}
	if pad := len(like) - len(e.subject(0)); pad > 0 {
		e.prefix = strings.Repeat("x", pad) + e.prefix
	}
	body := []byte(strings.Repeat(`{"matches": []} `, largest/16+1))
	var err error
	e.sub, err = nc.QueueSubscribe(e.prefix+"*", "echo", func(m *nats.Msg) {
		n, err := strconv.Atoi(m.Subject[len(e.prefix):])
		if err == nil && n <= len(body) {
			_ = m.Respond(body[:n]) // who asked will notice
		}
	})
	if err != nil {
		return nil, fmt.Errorf("bench: echo: %w", err)
	}
	return e, nc.Flush()
}

func (e *echo) subject(size int) string { return e.prefix + fmt.Sprintf("%08d", size) }
