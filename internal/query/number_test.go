package query

import (
	"testing"
)

// TestNumbers checks that integers of any size are compared exactly
// (docs/interface/feedback.md, section 8.3, rule 2).
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1", "1.0", 0}, {"1e2", "100", 0}, {"9007199254740993", "9007199254740992", 1}, {"-1", "1", -1},
		{"123456789012345678901", "123456789012345678902", -1}, {"-123456789012345678901", "5", -1}, {"123456789012345678901", "9223372036854775807", 1},
		{"0.9", "1", -1}, {"1e400", "1e308", 1}, {"-0.0", "0", 0},
	} {
		a, okA := ParseNumber(c.a)
		b, okB := ParseNumber(c.b)
		if !okA || !okB || a.compare(&b) != c.want || b.compare(&a) != -c.want {
			t.Errorf("%s, %s: %d", c.a, c.b, a.compare(&b))
		}
	}
	for _, s := range []string{"", "x", "0x10", "1_000", "inf", "NaN", "1e", "--1"} {
		if _, ok := ParseNumber(s); ok {
			t.Errorf("%q is a number", s)
		}
	}
}
