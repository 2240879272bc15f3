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

// TestTileEncodings: the same for AMX.
func TestTileEncodings(t *testing.T) {
	for _, c := range []struct{ instruction, got, want string }{
		{"ldtilecfg (%rax)", vexBytes(0, 0, 0x49, 0, 0, 0x00), "c4 e2 78 49 00"},
		{"tilerelease", vexBytes(0, 0, 0x49, 0, 0, 0xc0), "c4 e2 78 49 c0"},
		{"tilezero %tmm3", tileZero(3), "c4 e2 7b 49 d8"},
		{"tileloadd (%rsi,%r9,1), %tmm4", tileLoad(4, 6, 9), "c4 a2 7b 4b 24 0e"},
		{"tileloadd (%r8,%r9,1), %tmm5", tileLoad(5, 8, 9), "c4 82 7b 4b 2c 08"},
		{"tileloadd (%r11,%r15,1), %tmm7", tileLoad(7, 11, 15), "c4 82 7b 4b 3c 3b"},
		{"tilestored %tmm2, (%rax,%rbx,1)", tileStore(2, 0, 3, 0), "c4 e2 7a 4b 14 18"},
		{"tilestored.d32 %tmm1, 64(%rax,%rbx,1)", tileStore(1, 0, 3, 64), "c4 e2 7a 4b 8c 18 40 00 00 00"},
		{"tdpbf16ps %tmm7, %tmm5, %tmm3", tileDot(false, 3, 5, 7), "c4 e2 42 5c dd"},
		{"tdpbsud %tmm6, %tmm4, %tmm1", tileDot(true, 1, 4, 6), "c4 e2 4a 5e cc"},
	} {
		if got := hex(c.got); got != c.want {
			t.Errorf("%s: %s, not %s", c.instruction, got, c.want)
		}
	}
}

// hex is the bytes of BYTE directives.
func hex(text string) string {
	return strings.TrimSpace(strings.NewReplacer("BYTE $0x", "", ";", "").Replace(text))
}
