package plainfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// kernelTypes are the file systems whose files the kernel makes up, by the numbers in
// linux/magic.h. Those that golang.org/x/sys/unix does not name are configfs, mqueue and
// fusectl.
var kernelTypes = map[uint32]string{
	unix.PROC_SUPER_MAGIC: "proc", unix.SYSFS_MAGIC: "sysfs", unix.DEBUGFS_MAGIC: "debugfs", unix.TRACEFS_MAGIC: "tracefs",
	unix.SECURITYFS_MAGIC: "securityfs", unix.SELINUX_MAGIC: "selinuxfs", unix.SMACK_MAGIC: "smackfs", unix.AAFS_MAGIC: "apparmorfs",
	unix.CGROUP_SUPER_MAGIC: "cgroup", unix.CGROUP2_SUPER_MAGIC: "cgroup2", unix.RDTGROUP_SUPER_MAGIC: "resctrl",
	unix.BPF_FS_MAGIC: "bpf", unix.BINFMTFS_MAGIC: "binfmt_misc", unix.BINDERFS_SUPER_MAGIC: "binder", unix.XENFS_SUPER_MAGIC: "xenfs",
	unix.PSTOREFS_MAGIC: "pstore", unix.EFIVARFS_MAGIC: "efivarfs", unix.NSFS_MAGIC: "nsfs", unix.PID_FS_MAGIC: "pidfs",
	0x62656570: "configfs", 0x19800202: "mqueue", 0x65735543: "fusectl",
}

// kernels returns the name of the file system of a file, if the kernel makes up what is in it;
// "" if it does not, or if that cannot be known.
func kernels(f *os.File) string {
	raw, err := f.SyscallConn()
	if err != nil {
		return ""
	}
	var name string
	_ = raw.Control(func(fd uintptr) { // it fails for a file that is closed
		var s unix.Statfs_t
		if unix.Fstatfs(int(fd), &s) == nil {
			name = kernelTypes[uint32(s.Type)]
		}
	})
	return name
}
