//go:build unix && !linux

package proc

import "syscall"

// dieWithParent can do nothing here: when localemu is killed with SIGKILL, its processes go on.
func dieWithParent(*syscall.SysProcAttr) {}
