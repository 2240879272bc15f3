package cpu

import (
	"reflect"
	"testing"
)

// eachImpl runs a test for every tier that this processor has.
func eachImpl(t *testing.T, f func(t *testing.T, im *impl)) {
	t.Helper()
	for _, im := range impls {
		t.Run(im.name, func(t *testing.T) { f(t, im) })
	}
}

// eachKernel runs a test for every tier that has a kernel, or a table of kernels, of
// its own. Tiers share most of their kernels, so key tells which one a tier has; a
// zero key means none.
func eachKernel[K comparable](t *testing.T, key func(im *impl) K, f func(t *testing.T, im *impl)) {
	t.Helper()
	var none K
	seen := map[K]bool{none: true}
	for _, im := range impls {
		if k := key(im); !seen[k] {
			seen[k] = true
			t.Run(im.name, func(t *testing.T) { f(t, im) })
		}
	}
	if len(seen) == 1 {
		t.Skip("no tier has such kernels here")
	}
}

// kernel identifies an assembly function, 0 if there is none.
func kernel(f any) uintptr {
	if v := reflect.ValueOf(f); !v.IsNil() {
		return v.Pointer()
	}
	return 0
}

// table identifies the kernels of a table: they are the same if the last one is. The
// plain loops are closures, which cannot be told from each other, but only one tier
// has them.
func table[F any](im *impl, kernels []F) uintptr {
	switch {
	case len(kernels) == 0:
		return 0
	case im.name == "generic":
		return 1
	}
	return kernel(kernels[len(kernels)-1])
}

// someLengths are the lengths below 258 at which kernels take different paths: around
// every multiple of the numbers that a turn of a loop takes, up to two turns, and
// longer ones that end before, at and after such a multiple.
func someLengths() []int {
	var list []int
	for n := range 50 {
		list = append(list, n)
	}
	return append(list, 63, 64, 65, 71, 96, 127, 128, 129, 191, 192, 193, 255, 256, 257)
}
