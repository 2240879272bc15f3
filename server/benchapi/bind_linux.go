package benchapi

import (
	"os/exec"
	"syscall"
)

// bind has the system kill the process when the thread that started it ends.
func bind(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
