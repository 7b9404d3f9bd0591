package usage

import (
	"syscall"
	"time"
)

// CPU returns the processor time of this process so far, in user and kernel mode, over all threads; 0 if it is unknown.
func CPU() time.Duration {
	self, err := syscall.GetCurrentProcess()
	var created, exited, kernel, user syscall.Filetime
	if err != nil || syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	ticks := func(t syscall.Filetime) time.Duration {
		return time.Duration(t.HighDateTime)<<32 + time.Duration(t.LowDateTime)
	}
	return 100 * (ticks(kernel) + ticks(user)) // a tick has 100 ns
}
