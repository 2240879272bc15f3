//go:build !linux

package cpu

import "testing"

// beforeGuard returns n bytes; only Linux has unreadable memory behind them.
func beforeGuard(_ testing.TB, n int) []byte { return make([]byte, n) }
