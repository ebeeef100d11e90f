package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/dispatch"
	"toolsearch/subjects"
)

// apiWait bounds one question to JetStream, so that a server that went silent is asked again.
const apiWait = 2 * time.Second

// stream is one stream of the layout, bound when it is first needed: a worker starts before its server is there.
type stream struct {
	js   jetstream.JetStream
	name string

	mu    sync.Mutex
	bound jetstream.Stream
}

func (s *stream) bind(ctx context.Context) (jetstream.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound == nil {
		b, err := s.js.Stream(ctx, s.name)
		if err != nil {
			return nil, known(fmt.Errorf("durable: stream %s: %w", s.name, err))
		}
		s.bound = b
	}
	return s.bound, nil
}

// last reads the last message of a subject at the stream's leader: the stream does not allow direct reads, which a
// replica that lags might answer. A nil message is the leader's word that there is none.
func (s *stream) last(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	b, err := s.bind(ctx)
	if err != nil {
		return nil, err
	}
	m, err := b.GetLastMsgForSubject(ctx, subject)
	return none(m, err)
}

// next reads the first message on subject from the sequence seq on; nil if there is none.
func (s *stream) next(ctx context.Context, subject string, seq uint64) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	b, err := s.bind(ctx)
	if err != nil {
		return nil, err
	}
	m, err := b.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
	return none(m, err)
}

// at reads the message of one sequence; nil if it is not there.
func (s *stream) at(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	b, err := s.bind(ctx)
	if err != nil {
		return nil, err
	}
	m, err := b.GetMsg(ctx, seq)
	return none(m, err)
}

// remove deletes the message of one sequence. One that is gone already is no error.
func (s *stream) remove(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	b, err := s.bind(ctx)
	if err != nil {
		return err
	}
	if err := b.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		if m, gerr := s.at(ctx, seq); gerr != nil || m != nil {
			return fmt.Errorf("durable: remove from %s: %w", s.name, err)
		}
	}
	return nil
}

// info asks what the stream holds.
func (s *stream) info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	b, err := s.bind(ctx)
	if err != nil {
		return nil, err
	}
	return b.Info(ctx, opts...)
}

func none(m *jetstream.RawStreamMsg, err error) (*jetstream.RawStreamMsg, error) {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, known(err)
}

// known gives errors that dispatch acts on their name there.
func known(err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: %w", dispatch.ErrClosed, err)
	case errors.Is(err, &subjects.Error{Code: subjects.CodeTooLarge}):
		return fmt.Errorf("%w: %w", dispatch.ErrTooLarge, err)
	}
	return err
}
