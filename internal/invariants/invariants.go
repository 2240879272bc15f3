// Package invariants holds checks that exist under -tags invariants and -race
// and cost nothing otherwise. A broken invariant is a bug in weir, never bad
// input, so it panics and takes the process down.
//
// The shape is pebble's internal/invariants.
package invariants

import "fmt"

// Check panics with the message unless ok. Guard calls whose arguments cost
// something with if Enabled.
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic(fmt.Sprintf("weir: broken invariant: "+format, args...))
	}
}

// NoError panics if err is not nil.
func NoError(err error) {
	if Enabled && err != nil {
		panic(fmt.Sprintf("weir: broken invariant: %v", err))
	}
}

// Poison overwrites s with v, so that a reader who kept it too long notices.
func Poison[T any](s []T, v T) {
	if Enabled {
		s = s[:cap(s)]
		for i := range s {
			s[i] = v
		}
	}
}
