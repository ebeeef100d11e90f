package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"toolsearch/subjects"
)

// fillTimeout bounds the work behind a cache. It belongs to no request, so a caller who leaves neither ends it nor
// spoils what the others get.
const fillTimeout = time.Minute

// filler does the work behind the caches, once per key however many ask. The work runs under the worker's own context;
// each caller waits under its own. What fails is told to those who wait and kept nowhere.
type filler struct {
	base   context.Context // ends with the worker
	log    *slog.Logger
	bound  int // of work that runs at once, whose callers may all have left
	flight singleflight.Group

	mu     sync.Mutex
	active int
	closed bool
	wait   sync.WaitGroup
}

// do runs work for key, or joins the one that runs.
func (f *filler) do(ctx context.Context, key string, work func(ctx context.Context) (any, error)) (any, error) {
	result := f.flight.DoChan(key, func() (any, error) { return f.work(key, work) })
	select {
	case r := <-result:
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// behind runs work for key and waits for nothing.
func (f *filler) behind(key string, work func(ctx context.Context) (any, error)) {
	f.flight.DoChan(key, func() (any, error) { return f.work(key, work) })
}

func (f *filler) work(key string, work func(ctx context.Context) (any, error)) (v any, err error) {
	if err := f.begin(); err != nil {
		return nil, err
	}
	defer f.end()
	defer func() {
		if p := recover(); p != nil {
			f.log.Error("filling a cache panicked", "key", key, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			v, err = nil, errInternal(nil)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(f.base, fillTimeout, errFillTimeout)
	defer cancel()
	v, err = work(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		// Not the caller's deadline: it must not read as one.
		err = &subjects.Error{Code: subjects.CodeUnavailable, Message: "storage did not answer in time; try again", Err: err}
	}
	return v, err
}

var errFillTimeout = fmt.Errorf("worker: %s passed", fillTimeout)

func (f *filler) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return errDraining()
	case f.active >= f.bound:
		e := subjects.Errorf(subjects.CodeOverloaded, "this worker is loading as much as it may; repeat the request")
		e.RetryAfter = 250 * time.Millisecond
		return e
	}
	f.active++
	f.wait.Add(1)
	return nil
}

func (f *filler) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active--
	f.wait.Done()
}

// close lets in no more work and waits for what runs; the base context should have ended.
func (f *filler) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.wait.Wait()
}
