package main

import (
	"strings"
	"testing"
)

// TestEncodings: the bytes that GNU as writes for the same instructions.
func TestEncodings(t *testing.T) {
	for _, c := range []struct {
		rm, vvvv, reg int
		want          string
	}{
		{1, 2, 3, "62 f2 6e 48 52 d9"},
		{31, 2, 3, "62 92 6e 48 52 df"},
		{1, 30, 3, "62 f2 0e 40 52 d9"},
		{1, 2, 29, "62 62 6e 48 52 e9"},
		{9, 10, 11, "62 52 2e 48 52 d9"},
		{17, 24, 22, "62 a2 3e 40 52 f1"},
	} {
		if got := hex(evexDot(c.rm, c.vvvv, c.reg)); got != c.want {
			t.Errorf("vdpbf16ps zmm%d, zmm%d, zmm%d: %s, not %s", c.reg, c.vvvv, c.rm, got, c.want)
		}
	}
	for _, c := range []struct {
		rm, vvvv, reg int
		want          string
	}{
		{1, 2, 3, "c4 e2 6d 50 d9"},
		{9, 2, 3, "c4 c2 6d 50 d9"},
		{1, 10, 3, "c4 e2 2d 50 d9"},
		{1, 2, 11, "c4 62 6d 50 d9"},
		{15, 14, 13, "c4 42 0d 50 ef"},
	} {
		g := &gen{isa: avx2}
		g.vexDot(vec{g, c.rm}, vec{g, c.vvvv}, vec{g, c.reg})
		text, _, _ := strings.Cut(g.text.String(), "//")
		if got := hex(text); got != c.want {
			t.Errorf("{vex} vpdpbusd ymm%d, ymm%d, ymm%d: %s, not %s", c.reg, c.vvvv, c.rm, got, c.want)
		}
	}
}

// hex is the bytes of BYTE directives.
func hex(text string) string {
	return strings.TrimSpace(strings.NewReplacer("BYTE $0x", "", ";", "").Replace(text))
}
