//go:build !linux

package cpu

import "unsafe"

func mapSegment(n int, _ bool) (segment, error) {
	mapped := make([]byte, n+cacheLine)
	skip := int(-uintptr(unsafe.Pointer(&mapped[0])) & (cacheLine - 1))
	return segment{data: mapped[skip:][:n], mapped: mapped}, nil
}

func unmapSegment(segment) error { return nil }

// collapse does nothing: these systems have no such call.
func collapse([]byte) {}

// interleave is never called here: there is one node.
func interleave([]byte, []int) error { return nil }
