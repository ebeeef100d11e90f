package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// farewell is the time that is kept back at the end of a drain for refusing what did not finish and for the last
// flush, as a part of the whole and at most.
const (
	farewellPart = 4
	farewellMost = 3 * time.Second
)

// settleTime is how long handlers get to answer by themselves after their context has ended.
const settleTime = time.Second

// Drain ends the worker in order, so that no request that reached it goes unanswered:
//
//	not ready any more
//	endpoints off the bus, and what the server had already sent handed to the pool
//	queries that wait and run finish, and calls the entry they are at; the rest of a call is handed to another worker
//	whoever still waits, for a query or for a call, is answered UNAVAILABLE, and may repeat the request
//	flush, close the connection
//
// It takes [Options.DrainTimeout], or until ctx ends if that is sooner, and blocks until all is done. Further calls wait
// for the first and return what it returned: nil, or what did not finish in time.
func (w *Worker) Drain(ctx context.Context) error {
	w.mu.Lock()
	if w.state >= stateDraining {
		w.mu.Unlock()
		<-w.drained
		return w.drainErr
	}
	w.state = stateDraining
	w.mu.Unlock()

	w.log.Info("the worker is draining")
	w.drainErr = w.drain(ctx)
	w.mu.Lock()
	w.state = stateDrained
	w.mu.Unlock()
	close(w.drained)
	w.log.Info("the worker has drained", "error", w.drainErr)
	return w.drainErr
}

func (w *Worker) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.DrainTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	soft, cancelSoft := context.WithTimeout(ctx, left-min(left/farewellPart, farewellMost))
	defer cancelSoft()

	w.endUpkeep()
	w.upkeep.Wait()
	var errs []error
	if svc := w.service; svc != nil {
		errs = append(errs, w.offTheBus(soft, svc))
	}
	errs = append(errs, w.finish(soft))
	w.stop(errStopped)
	w.shelf.fill.close()
	if w.nc.IsConnected() {
		// The caller's context may have ended already, and the refusals of the last moment still have to leave.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellMost)
		defer cancel()
		if err := w.nc.FlushWithContext(last); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			errs = append(errs, fmt.Errorf("worker: flush the last replies: %w", err))
		}
	}
	w.unobserve()
	w.nc.Close()
	return errors.Join(errs...)
}

// offTheBus takes the endpoints off the bus and waits until every request that the server had sent by then is with the
// pool. Stop only begins this: it unsubscribes and returns. The flush is answered behind everything that the server
// sent before it unsubscribed us, and the barrier is called behind everything that lies in the subscriptions' queues.
func (w *Worker) offTheBus(ctx context.Context, svc micro.Service) error {
	if err := svc.Stop(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		w.log.Warn("the service could not be stopped", "error", err)
	}
	if !w.nc.IsConnected() {
		return nil // nothing can arrive, and nothing could be answered
	}
	if err := w.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("worker: unsubscribe: %w", err)
	}
	handed := make(chan struct{})
	if err := w.nc.Barrier(func() { close(handed) }); err != nil {
		return fmt.Errorf("worker: wait for the subscriptions: %w", err)
	}
	select {
	case <-handed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker: the subscriptions were not emptied in time: %w", ctx.Err())
	}
}

// finish lets the work end while ctx lasts, and answers for what is left. It is an error if a query was left; who waits
// for a call only has to ask another worker, under the same call_id.
func (w *Worker) finish(ctx context.Context) error {
	queries, calls := w.queries.close(), w.calls.close()
	handed := make(chan error, 1)
	go func() { handed <- errors.Join(w.linking.Drain(ctx), w.drainDurable(ctx)) }()
	waitFor(ctx, queries)
	err := <-handed // it heeds ctx
	if running, waiting := w.queries.load(); running+waiting > 0 {
		err = errors.Join(err, fmt.Errorf("worker: %d requests were ended before they were done", running+waiting))
	}
	w.stop(errStopped)
	w.queries.refuse()
	w.calls.refuse()
	// Handlers that heed their context answer by themselves; for others it is done here. Whoever answers first wins.
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	waitFor(settle, queries)
	waitFor(settle, calls)
	w.queries.abandon()
	w.calls.abandon()
	return err
}

func waitFor(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}
