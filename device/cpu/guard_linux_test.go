package cpu

import (
	"testing"

	"golang.org/x/sys/unix"
)

// beforeGuard returns n bytes that end where unreadable memory begins, so that
// a kernel that looks one byte too far is caught by the processor.
func beforeGuard(t testing.TB, n int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	size := (n+page-1)/page*page + page
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(m[size-page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return m[size-page-n : size-page]
}
