package proc

import "syscall"

// dieWithParent makes the kernel kill the process if localemu ends without being able to do so itself.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
