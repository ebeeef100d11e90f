package command

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
)

func TestSignals(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal)
	exits := make(chan int, 1)
	ctx, stop := untilSignal(context.Background(), signals, func(code int) { exits <- code })
	defer stop()
	signals <- os.Interrupt
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), errInterrupted) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
	select {
	case code := <-exits:
		t.Fatalf("the first signal ended the process with %d", code)
	default:
	}
	signals <- os.Interrupt
	if code := <-exits; code != ExitInterrupted {
		t.Errorf("the second signal ended the process with %d", code)
	}
}

func TestExitCodeOfErrors(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errInterrupted)
	for _, test := range []struct {
		ctx     context.Context
		err     error
		started bool
		want    int
	}{
		{context.Background(), nil, true, ExitFound},
		{context.Background(), errNothing, true, ExitNothing},
		{context.Background(), errors.New("flag"), false, ExitUsage},
		{context.Background(), usagef("x"), true, ExitUsage},
		{context.Background(), errors.New("x"), true, ExitRefused},
		{ended, errInterrupted, true, ExitInterrupted},
		{ended, context.Canceled, true, ExitInterrupted},
		{ended, errors.New("drain"), true, ExitRefused},
	} {
		if got := exitCode(test.ctx, test.err, test.started); got != test.want {
			t.Errorf("exitCode(%v, started %v) = %d, want %d", test.err, test.started, got, test.want)
		}
	}
}

// A read that never ends does not keep a signal from ending the process.
func TestUntilEnd(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if _, err := untilEnd(ctx, func() ([]byte, error) { return io.ReadAll(r) }); !errors.Is(err, errInterrupted) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
	_ = w.Close() // lets the read that was left behind end
	if p, err := untilEnd(t.Context(), func() (string, error) { return "x", io.EOF }); p != "x" || !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v", p, err)
	}
}
