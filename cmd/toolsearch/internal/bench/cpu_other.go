//go:build !unix

package bench

import "time"

var begin = time.Now()

// cpuTime stands in for the CPU where the system does not tell it: one busy goroutine uses about the wall's time.
func cpuTime() time.Duration { return time.Since(begin) }
