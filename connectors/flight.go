package connectors

import (
	"context"
	"sync"
)

// flights lets callers that want the same thing at the same time share one run of it. The run belongs to no caller:
// it keeps the values of the first caller's context but not its cancellation, so a caller that leaves takes nothing
// from the others. When the last caller has left, the run is cancelled, and a later caller starts another.
//
// golang.org/x/sync/singleflight has no such last-one-out rule, which would leave runs behind that nobody waits for.
type flights[T any] struct {
	mu      sync.Mutex
	running map[string]*flight[T]
	stopped bool
	wg      sync.WaitGroup
}

type flight[T any] struct {
	waiting int // guarded by flights.mu
	cancel  context.CancelCauseFunc
	done    chan struct{}
	value   T // set before done is closed
}

// do returns the value of the run for key, or false when ctx has ended first or the flights were stopped. The value is
// shared: it is read only.
// run must return soon after its context has ended.
func (f *flights[T]) do(ctx context.Context, key string, run func(context.Context) T) (value T, ok bool) {
	fl := f.join(ctx, key, run)
	if fl == nil {
		return value, false
	}
	select {
	case <-fl.done:
		return fl.value, true
	case <-ctx.Done():
		f.leave(key, fl, context.Cause(ctx))
		return value, false
	}
}

func (f *flights[T]) join(ctx context.Context, key string, run func(context.Context) T) *flight[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return nil
	}
	if fl := f.running[key]; fl != nil {
		fl.waiting++
		return fl
	}
	if f.running == nil {
		f.running = make(map[string]*flight[T])
	}
	shared, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	fl := &flight[T]{waiting: 1, cancel: cancel, done: make(chan struct{})}
	f.running[key] = fl
	f.wg.Go(func() {
		defer f.land(key, fl)
		fl.value = run(shared)
	})
	return fl
}

func (f *flights[T]) leave(key string, fl *flight[T], cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		fl.cancel(cause)
		f.forget(key, fl)
	}
}

func (f *flights[T]) land(key string, fl *flight[T]) {
	f.mu.Lock()
	f.forget(key, fl)
	f.mu.Unlock()
	fl.cancel(nil)
	close(fl.done)
}

func (f *flights[T]) forget(key string, fl *flight[T]) {
	if f.running[key] == fl {
		delete(f.running, key)
	}
}

// stop cancels every run, lets no other begin and waits until the last has ended.
func (f *flights[T]) stop(cause error) {
	f.mu.Lock()
	f.stopped = true
	for key, fl := range f.running {
		fl.cancel(cause)
		delete(f.running, key)
	}
	f.mu.Unlock()
	f.wg.Wait()
}
