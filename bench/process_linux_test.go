package bench

import (
	"fmt"
	"testing"
)

// TestParseStat: the name of a program may contain any bytes.
func TestParseStat(t *testing.T) {
	for text, want := range map[string]string{
		"1 (a b) c) (d) S 1 2 3 4 5 6 7 8 9 10 150 7 0 0": "1.57s <nil>",
		"1 (a) S 1 2 3 4 5 6 7 8 9 10 150":                "0s bench: /proc/PID/stat has 12 fields after the name",
		"":                                                "0s bench: /proc/PID/stat has 0 fields after the name",
		"1 (a) S 1 2 3 4 5 6 7 8 9 10 x 7 0 0":            `0s bench: /proc/PID/stat: strconv.ParseInt: parsing "x": invalid syntax`,
	} {
		d, err := parseStat([]byte(text))
		if got := fmt.Sprint(d, err); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
