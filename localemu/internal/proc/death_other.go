//go:build unix && !linux

package proc

import "syscall"

// dieWithParent can do nothing here: if localemu is killed with SIGKILL, its processes continue.
func dieWithParent(*syscall.SysProcAttr) {}
