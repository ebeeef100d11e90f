package linking

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/connectors"
	"toolsearch/subjects"
)

// follow keeps this worker's view of all operations and stops, until the drain.
func (s *Operations) follow() {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		stop, err := s.consume()
		if err == nil {
			close(s.ready)
			<-s.runs.Done()
			stop()
			return
		}
		s.o.Logger.Warn("the watch over operations cannot be opened yet", "error", err)
		t := time.NewTimer(wait.NextBackOff())
		select {
		case <-t.C:
		case <-s.runs.Done():
			t.Stop()
			return
		}
	}
}

// consume reads each session's record and each stop as it stands, and then every one that follows. The consumer is made
// again by itself after a lost connection, and goes on behind the last message that it delivered.
func (s *Operations) consume() (stop func(), err error) {
	ctx, cancel := context.WithTimeout(s.runs, 5*apiWait)
	defer cancel()
	c, err := s.records.js.OrderedConsumer(ctx, s.o.Layout.CallsStream(), jetstream.OrderedConsumerConfig{
		FilterSubjects:    []string{s.o.Layout.OperationSubjects(), s.o.Layout.Root.Stops()},
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	cc, err := c.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return // no message of a consumer
		}
		s.deliver(m.Subject(), meta.Sequence.Stream, m.Data())
	}, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		s.o.Logger.Debug("the consumer of operations is made again", "error", err)
	}))
	if err != nil {
		return nil, err
	}
	return func() { cc.Stop(); <-cc.Closed() }, nil
}

// deliver takes in one message of the stream.
func (s *Operations) deliver(subject string, seq uint64, body []byte) {
	tenant, session, ok := s.o.Layout.OperationOwner(subject)
	if !ok {
		s.stopped(subject, seq)
		return
	}
	op, err := connectors.DecodeOperation(body)
	if err != nil {
		s.o.Logger.Warn("a record of an operation cannot be read", "subject", subject, "error", err)
		return
	}
	if op.Created == 0 {
		op.Created = seq
	}
	k := key{tenant, session}
	s.mu.Lock()
	sl := s.slot(k)
	sl.op, sl.seen = op, s.o.Clock.Now()
	if sl.run != nil && sl.run.id == op.ID {
		replace(sl.run.changes, op)
	}
	for c, id := range sl.waiters {
		if op.Settled() && id == op.ID {
			replace(c, op)
		}
	}
	free := sl.run == nil && !op.Settled() && op.Runner == ""
	s.forget(k, sl)
	s.mu.Unlock()
	if free {
		s.takeOver(k, op)
	}
}

// replace puts the newest into a channel of one place.
func replace(c chan *connectors.Operation, op *connectors.Operation) {
	select {
	case <-c:
	default:
	}
	c <- op
}

// look takes over operations that have gone without a sign of life.
func (s *Operations) look() {
	for {
		next, stop := s.o.Clock.NewTimer(s.o.Lease / 3)
		select {
		case <-next:
		case <-s.runs.Done():
			stop()
			return
		}
		for k, op := range s.silent() {
			s.takeOver(k, op)
		}
	}
}

func (s *Operations) silent() map[key]*connectors.Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[key]*connectors.Operation{}
	now := s.o.Clock.Now()
	for k, sl := range s.slots {
		if sl.run == nil && sl.op != nil && !sl.op.Settled() && now.Sub(sl.seen) > s.o.Lease {
			out[k] = sl.op
		}
	}
	return out
}

// takeOver makes an operation this worker's, if nobody was faster.
func (s *Operations) takeOver(k key, seen *connectors.Operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != lifeStarted {
		return
	}
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.runs, 5*apiWait)
		defer cancel()
		runner := subjects.NewCallID()
		op, err := s.records.update(ctx, k, func(o *connectors.Operation) error {
			if o.ID != seen.ID || o.Runner != seen.Runner || o.Settled() {
				return connectors.ErrOperationLost
			}
			o.Runner = runner
			return nil
		})
		switch {
		case err == nil:
			s.o.Logger.Info("an operation was taken over", "tenant", k.tenant, "session", k.session, "operation", op.ID)
			s.o.Observer.TakenOver(ctx, op.WithoutLinks())
			s.begin(ctx, k, op, runner, true)
		case !errors.Is(err, connectors.ErrOperationLost) && s.runs.Err() == nil:
			s.o.Logger.Warn("an operation cannot be taken over now", "tenant", k.tenant, "session", k.session, "error", err)
		}
	})
}
