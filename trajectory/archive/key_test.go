package archive

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestIDs checks that ids sort by microseconds, and ParseID.
func TestIDs(t *testing.T) {
	for us := range 1200 {
		at := time.UnixMicro(1_772_900_000_000_000 + int64(us))
		id, next := newID(at), newID(at.Add(time.Microsecond))
		if bytes.Compare(id[:8], next[:8]) >= 0 {
			t.Fatalf("%v is not before %v", id, next)
		}
		if got, ok := ParseID(id.String()); !ok || got != id || id.String()[14] != '7' || !strings.ContainsRune("89ab", rune(id.String()[19])) {
			t.Fatalf("%v", id)
		}
		if !id.after().After(at) || id.after().Sub(at) > time.Millisecond {
			t.Fatalf("%v after %v", id.after(), at)
		}
	}
	for _, s := range []string{"", "x", "0199f2d1-5d0e-7a7c-8f55-9b9a6d1f2c3", "0199F2D1-5d0e-7a7c-8f55-9b9a6d1f2c33", "0199f2d1+5d0e-7a7c-8f55-9b9a6d1f2c33", "0199f2d1-5d0e-7a7c-8f55-9b9a6d1f2cg3"} {
		if _, ok := ParseID(s); ok {
			t.Errorf("%q", s)
		}
	}
}
