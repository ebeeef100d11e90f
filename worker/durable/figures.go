package durable

import (
	"context"
	"sync/atomic"
	"time"

	"toolsearch/telemetry"
)

// figuresAge is how often the queue is asked for its figures. Each worker asks, so it is seldom.
const figuresAge = 10 * time.Second

// figures are the queue's, as they were last seen.
type figures struct {
	busy  atomic.Int64 // runners at work
	queue atomic.Pointer[queueState]
}

type queueState struct {
	telemetry.QueueFigures
	first time.Time // when the oldest job was stored; zero if there is none
}

// Runners is how many calls run here, and how many may.
func (c *Calls) Runners() (busy, slots int) { return int(c.figures.busy.Load()), max(c.o.Slots, 0) }

// Queue is what was last seen of the queue, over all workers; nil if that is not known.
func (c *Calls) Queue() *telemetry.QueueFigures {
	s := c.figures.queue.Load()
	if s == nil {
		return nil
	}
	f := s.QueueFigures
	if !s.first.IsZero() {
		f.Oldest = max(time.Since(s.first), 0)
	}
	return &f
}

// watchQueue keeps the figures of the queue fresh.
func (c *Calls) watchQueue(ctx context.Context) {
	t := time.NewTicker(figuresAge)
	defer t.Stop()
	for {
		s, err := c.readQueue(ctx)
		if err != nil && ctx.Err() == nil {
			c.o.Logger.DebugContext(ctx, "the figures of the queue cannot be read now", "error", err)
		}
		c.figures.queue.Store(s)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Calls) readQueue(ctx context.Context) (*queueState, error) {
	info, err := c.jobs.info(ctx)
	if err != nil {
		return nil, err
	}
	s := &queueState{QueueFigures: telemetry.QueueFigures{Jobs: int64(info.State.Msgs), Limit: info.Config.MaxMsgs}}
	if info.State.Msgs > 0 {
		s.first = info.State.FirstTime
	}
	dead, err := c.dead.info(ctx)
	if err != nil {
		return nil, err
	}
	s.Letters = int64(dead.State.Msgs)
	ctx, cancel := context.WithTimeout(ctx, figuresAge)
	defer cancel()
	b, err := c.jobs.bind(ctx)
	if err != nil {
		return nil, err
	}
	list := b.ListConsumers(ctx)
	for consumer := range list.Info() {
		s.Pending += int64(consumer.NumPending)
		s.AckPending += int64(consumer.NumAckPending)
		s.Redelivered += int64(consumer.NumRedelivered)
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return s, nil
}
