package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// endSignals hears what asks a process to end.
func endSignals() <-chan os.Signal {
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c
}

// untilSignal gives a context that the first signal ends. The second one ends the process. stop ends the listening.
func untilSignal(parent context.Context, signals <-chan os.Signal, exit func(int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for heard := 0; ; heard++ {
			select {
			case <-done:
				return
			case <-signals:
				if heard > 0 {
					exit(ExitInterrupted)
					return
				}
				cancel(errInterrupted)
			}
		}
	}()
	return ctx, func() { close(done); <-gone; cancel(nil) }
}

// untilEnd reads, or gives up when ctx ends: the end of a terminal's or a pipe's input may never come. A read that waits
// cannot be called back, so it is left behind; the process ends right after.
func untilEnd[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
