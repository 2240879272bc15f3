package testkit

import (
	"os"
	"os/exec"
	"syscall"
)

// MayMount has a command start as root of a user namespace and a mount namespace of its own, so
// that it can mount file systems, which nobody else sees. Where the system does not allow that,
// the command does not start, or mounting fails.
func MayMount(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}
