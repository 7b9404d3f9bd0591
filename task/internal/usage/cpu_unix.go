//go:build unix

package usage

import (
	"syscall"
	"time"
)

// CPU returns the processor time of this process so far, in user and kernel mode, over all threads; 0 if it is unknown.
func CPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
