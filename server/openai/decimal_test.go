package openai

import "testing"

// A client could read a number without a decimal point as an integer.
func TestDecimal(t *testing.T) {
	for x, want := range map[float64]string{0.25: "0.25", 3: "3.0", 0: "0.0"} {
		if got := decimal(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
