package embedded

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
)

// bridge hands the server's log to slog. The server's texts vary with their figures, so they ride in an attribute
// under one constant message.
type bridge struct {
	log *slog.Logger

	mu   sync.Mutex
	last string // the text of the last fatal error; the server reports a failed start nowhere else
}

var _ server.Logger = (*bridge)(nil)

const logMessage = "embedded nats server"

func (b *bridge) Noticef(format string, v ...any) {
	b.log.Debug(logMessage, "text", fmt.Sprintf(format, v...))
}

func (b *bridge) Warnf(format string, v ...any) {
	b.log.Warn(logMessage, "text", fmt.Sprintf(format, v...))
}

func (b *bridge) Errorf(format string, v ...any) {
	b.log.Error(logMessage, "text", fmt.Sprintf(format, v...))
}

func (b *bridge) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	b.mu.Lock()
	b.last = text
	b.mu.Unlock()
	b.log.Error(logMessage, "text", text, "fatal", true)
}

func (b *bridge) Debugf(format string, v ...any) {
	b.log.Debug(logMessage, "text", fmt.Sprintf(format, v...))
}

func (b *bridge) Tracef(format string, v ...any) {
	b.log.Debug(logMessage, "text", fmt.Sprintf(format, v...))
}

func (b *bridge) fatal() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
