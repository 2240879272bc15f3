package batchesapi

import "testing"

// TestUploads: one owner has at most half of the places for files that are received.
func TestUploads(t *testing.T) {
	var u uploads
	a, b, c := owner{project: "a"}, owner{project: "b"}, owner{tenant: "c"}
	took := func(o owner, want int) {
		t.Helper()
		n := 0
		for n <= maxUploads && u.take(o) {
			n++
		}
		if n != want {
			t.Errorf("%v has %d places, want %d", o, n, want)
		}
	}
	took(a, maxUploads/2)
	took(b, maxUploads/2)
	took(c, 0)
	u.give(a)
	took(c, 1)
	took(a, 0)
}
