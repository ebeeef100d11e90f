package command

import (
	"context"
	"errors"

	"toolsearch/cmd/toolsearch/internal/catalogfile"
	"toolsearch/cmd/toolsearch/internal/config"
	"toolsearch/worker/embedded"
)

// The exit codes of every verb. What the command line, the configuration and the files they name say wrongly is
// ExitUsage: the same again fails again. What is out of reach, taken or refused is ExitRefused: the same may succeed
// later. A setting that is not understood is neither: it is told and replaced, unless nothing may stand in for it.
const (
	ExitFound       = 0
	ExitNothing     = 1
	ExitUsage       = 2
	ExitRefused     = 3
	ExitInterrupted = 130
)

const exitHelp = `Exit codes: 0 found or done, 1 nothing found or a call that did not succeed, 2 wrong usage, configuration or
file, 3 the service said no, or something is out of reach or taken, 130 interrupted.`

// checkListen refuses an address of a flag that nothing can listen on.
func checkListen(flag, address string) error {
	if err := config.CheckListen(address); err != nil {
		return usagef("--%s is %q, want %w", flag, address, err)
	}
	return nil
}

// errNothing ends a run that found nothing; everything about it is printed already.
var errNothing = errors.New("nothing found")

// errInterrupted is why a context ended that a signal ended.
var errInterrupted = errors.New("interrupted")

// exitCode sorts the error of a run. started says whether a verb had begun: what fails before is the command line.
func exitCode(ctx context.Context, err error, started bool) int {
	var usage usageError
	var file *catalogfile.Error
	var settings *config.FileError
	var value *config.ValueError
	var dir *embedded.DirError
	switch {
	case err == nil:
		return ExitFound
	case errors.Is(err, errNothing):
		return ExitNothing
	case !started, errors.As(err, &usage), errors.As(err, &file), errors.As(err, &settings), errors.As(err, &value),
		errors.As(err, &dir):
		return ExitUsage
	case errors.Is(err, errInterrupted) || ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted
	default:
		return ExitRefused
	}
}
