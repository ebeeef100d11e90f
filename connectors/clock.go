package connectors

import "time"

// Clock is the time that waits and breakers live by. Tests give their own, so that no test waits.
type Clock interface {
	Now() time.Time
	// NewTimer sends once on its channel after d; stop gives the timer up.
	NewTimer(d time.Duration) (c <-chan time.Time, stop func())
}

type machineClock struct{}

func (machineClock) Now() time.Time { return time.Now() }

func (machineClock) NewTimer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// SystemClock is the machine's clock.
func SystemClock() Clock { return machineClock{} }
