package api

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	"weir/internal/jsontext"
)

// TestIntegers is the integer row of the coercion table (docs/interface/chat-completions.md).
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int
		ok   bool
	}{
		{"10", 10, true}, {"10.0", 10, true}, {"1e1", 10, true}, {"100e-1", 10, true}, {"1.5e1", 15, true}, {"0.00e-9999999999999999999", 0, true},
		{"-0", 0, true}, {"-10.00", -10, true}, {"true", 1, true}, {"false", 0, true},
		{"9223372036854775807", 1<<63 - 1, true}, {"-9223372036854775808", -1 << 63, true},
		{"9223372036854775808", 0, false}, {"-9223372036854775809", 0, false},
		{"922337203685477580.7e1", 1<<63 - 1, true}, {"1e18", 1e18, true}, {"1e19", 0, false}, {"1e999999999999999999999", 0, false},
		{"123456789012345678901234567890", 0, false},
		{"10.5", 0, false}, {"1e-1", 0, false}, {"105e-1", 0, false}, {"1e-999999999999999999999", 0, false}, {"0.1", 0, false},
		{`"10"`, 0, false}, {`"abc"`, 0, false}, {"[1]", 0, false}, {"{}", 0, false}, {"null", 0, false},
	} {
		got, f := integer(Raw(c.in))
		if (f == nil) != c.ok || got != c.want {
			t.Errorf("%s: %d, %v, want %d, ok %v", c.in, got, f, c.want, c.ok)
		}
	}
}

// FuzzInteger compares with exact rational arithmetic.
func FuzzInteger(f *testing.F) {
	for _, s := range []string{"10", "-0.50e1", "9223372036854775807", "9223372036854775808.000", "0.000e5", "120e-1", "120e-2", "18446744073709551616", "1844674407370955161.6e1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if jsontext.Scan([]byte(s), 1) != nil || strings.TrimSpace(s) != s || Raw(s).Kind() != jsontext.Number || len(s) > 60 {
			return
		}
		if _, e, ok := strings.Cut(strings.ToLower(s), "e"); ok {
			if n, err := strconv.Atoi(e); err != nil || n < -100 || n > 100 {
				return // big.Rat would take its time
			}
		}
		x, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%q: no rational", s)
		}
		got, fault := integer(Raw(s))
		want := x.IsInt() && x.Num().IsInt64()
		if (fault == nil) != want || want && int64(got) != x.Num().Int64() {
			t.Fatalf("%s: %d, %v, want ok %v, %v", s, got, fault, want, x)
		}
		bound, fault := clamped(Raw(s))
		limit := new(big.Rat).SetInt(new(big.Int).SetUint64(maxBound))
		want = x.IsInt() && new(big.Rat).Abs(x).Cmp(limit) <= 0
		if (fault == nil) != want {
			t.Fatalf("%s: %d, %v, want ok %v", s, bound, fault, want)
		}
		if want && x.Num().IsInt64() && int64(bound) != x.Num().Int64() {
			t.Fatalf("%s: %d", s, bound)
		}
	})
}

// TestNumbers and TestBooleans are the other rows of the coercion table.
func TestNumbers(t *testing.T) {
	for in, want := range map[string]float64{"1": 1, "0.5": 0.5, `"0.5"`: 0.5, `"-2e1"`: -20, "true": 1, "false": 0, "1e-400": 0} {
		if got, f := number(Raw(in)); f != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", in, got, f, want)
		}
	}
	for _, in := range []string{`"abc"`, `"nan"`, `"inf"`, `"Infinity"`, `"0x10"`, `"1_0"`, `"1 2"`, `""`, "1e999", "-1e999", `"1e999"`, "[]", "{}", "null"} {
		if got, f := number(Raw(in)); f == nil {
			t.Errorf("%s: %v, want an error", in, got)
		}
	}
}

func TestBooleans(t *testing.T) {
	for want, list := range map[bool][]string{
		true:  {"true", "1", "1.0", `"true"`, `"True"`, `"yes"`, `"y"`, `"on"`, `"t"`, `"1"`},
		false: {"false", "0", "-0.0", `"false"`, `"no"`, `"n"`, `"off"`, `"f"`, `"0"`},
	} {
		for _, in := range list {
			if got, f := boolean(Raw(in)); f != nil || got != want {
				t.Errorf("%s: %v, %v, want %v", in, got, f, want)
			}
		}
	}
	for _, in := range []string{"5", "-1", "0.5", `"2"`, `"maybe"`, `""`, `" true"`, "[]", "{}", "null"} {
		if got, f := boolean(Raw(in)); f == nil {
			t.Errorf("%s: %v, want an error", in, got)
		}
	}
}
