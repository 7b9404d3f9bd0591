package usage

import (
	"syscall"
	"time"
)

// CPU is the processor time of this process so far, in user and kernel mode, over all threads.
func CPU() time.Duration {
	self, err := syscall.GetCurrentProcess()
	var created, exited, kernel, user syscall.Filetime
	if err != nil || syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	ticks := func(t syscall.Filetime) time.Duration {
		return time.Duration(t.HighDateTime)<<32 + time.Duration(t.LowDateTime)
	}
	return 100 * (ticks(kernel) + ticks(user)) // of 100 ns
}
