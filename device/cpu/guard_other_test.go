//go:build !linux

package cpu

import "testing"

// beforeGuard returns n bytes; only on Linux is there unreadable memory after them.
func beforeGuard(_ testing.TB, n int) []byte { return make([]byte, n) }
