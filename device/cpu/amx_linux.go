//go:build amd64 && !purego

package cpu

import "golang.org/x/sys/unix"

// permitTiles asks Linux for the registers of AMX, 8 KiB for each thread, which a process
// does not have unless it asks (arch_prctl(2), ARCH_REQ_XCOMP_PERM).
func permitTiles() bool {
	const request, tileData = 0x1023, 18
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, request, tileData, 0)
	return errno == 0
}
