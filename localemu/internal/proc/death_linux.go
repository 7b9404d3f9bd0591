package proc

import "syscall"

// dieWithParent has the kernel kill the process when localemu ends without having been able to do so itself.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
