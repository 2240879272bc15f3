package api

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestScan(t *testing.T) {
	for _, c := range []struct {
		in     string
		offset int // -1: valid
		reason string
	}{
		{` {"a" : [1, -0.5e+3, "x\u00e9\n", true, false, null, {}, []]} `, -1, ""},
		{`"é 漢字 😀"`, -1, ""},
		{`"\ud800"`, -1, ""}, // a lone surrogate is no matter of syntax
		{`{"a":1,"a":2}`, -1, ""},
		{``, 0, "unexpected end"},
		{`  `, 2, "unexpected end"},
		{`{"model":`, 9, "unexpected end, want a value"},
		{`{"a":1`, 6, "want ',' or '}'"},
		{`{"a" 1}`, 5, "want ':'"},
		{`{a:1}`, 1, "property name"},
		{`{"a\x":1}`, 3, "escape"},
		{`{"a":1,}`, 7, "property name"},
		{`[1,]`, 3, "want a value"},
		{`[1 2]`, 3, "want ',' or ']'"},
		{`{} x`, 3, "extra data"},
		{`{}{}`, 2, "extra data"},
		{"\xef\xbb\xbf{}", 0, "byte 0xef"},
		{`{"t": NaN}`, 6, "NaN"},
		{`[Infinity]`, 1, "NaN and Infinity"},
		{`[-Infinity]`, 2, "NaN and Infinity"},
		{`nul`, 3, "unexpected end, want null"},
		{`trux`, 3, "want true"},
		{`01`, 1, "extra data"},
		{`-`, 1, "a digit"},
		{`1.`, 2, "behind the point"},
		{`1e+`, 3, "exponent"},
		{`+1`, 0, "want a value"},
		{`"abc`, 4, "unterminated"},
		{`"a\`, 2, "escape"},
		{`"a\x41"`, 2, "escape"},
		{`"\u12g4"`, 1, "escape"},
		{"\"a\nb\"", 2, "control character '\\n'"},
		{"\"abcdefgh\x1f\"", 9, "control"},
		{"\"ab\xff\"", 3, "UTF-8"},
		{"\"\xed\xa0\x80\"", 1, "UTF-8"},            // a surrogate spelt in UTF-8
		{"\"abc\xe6\xbc\"", 4, "UTF-8"},             // cut short
		{"\"abcdefgh\xc0\xaf\"", 9, "UTF-8"},        // overlong
		{`{"a":"x"` + "\xff}", 8, "byte 0xff"},      // outside a string
		{strings.Repeat("[", 5) + "1]]]]]", 4, "4"}, // depth 5
	} {
		err := Scan([]byte(c.in), 4)
		if c.offset < 0 {
			if err != nil {
				t.Errorf("%q: %v", c.in, err)
			}
			continue
		}
		s, ok := err.(*SyntaxError)
		if !ok {
			t.Errorf("%q: error %v, want a syntax error", c.in, err)
			continue
		}
		if s.Offset != c.offset || !strings.Contains(s.Error(), c.reason) {
			t.Errorf("%q: %v, want offset %d and %q", c.in, s, c.offset, c.reason)
		}
	}
	if err := Scan([]byte(`[[[[1]]]]`), 4); err != nil {
		t.Errorf("depth 4 of 4: %v", err)
	}
}

// TestScanEveryByte puts every byte value at every offset around a word of the
// eight-at-a-time loop, against the byte-by-byte definition.
func TestScanEveryByte(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				s := bytes.Repeat([]byte{'a'}, n)
				s[at] = byte(c)
				in := append(append([]byte{'"'}, s...), '"')
				want := json.Valid(in) && utf8.Valid(in)
				if got := Scan(in, 1) == nil; got != want {
					t.Fatalf("%q: valid %v, want %v", in, got, want)
				}
				if want {
					if end := skipString(append(in, "\"\"\"\"\"\"\"\""...), 0); end != len(in) {
						t.Fatalf("%q: skipped to %d, want %d", in, end, len(in))
					}
				}
			}
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) {
	body := largeRequest()
	if n := testing.AllocsPerRun(20, func() {
		if Scan(body, 200) != nil {
			t.Fatal("invalid")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// tree reads a value with the functions of value.go, as encoding/json would.
func tree(v Raw) any {
	switch v.kind() {
	case kindNull:
		return nil
	case kindBool:
		return v[0] == 't'
	case kindString:
		return v.text()
	case kindNumber:
		return json.Number(v)
	case kindArray:
		a := []any{}
		for i, e := range v.elements() {
			if i != len(a) {
				panic("index")
			}
			a = append(a, tree(e))
		}
		return a
	}
	m := map[string]any{}
	for key, e := range v.members() {
		m[string(key)] = tree(e)
	}
	return m
}

var scanSeeds = []string{
	`{"a":[1,2,{"b":null}],"c":"d\"e\\","a":-0.5E-3}`, `"\ud83d\ude00 \ud83d \ude00\ud83d\ud83d\ude00 \u0000\/\b\f\n\r\t"`,
	` [ ] `, `{ "x" : { } , "\u0078" : "\\" }`, `[NaN]`, "\"\xff\"", `[[[[[[]]]]]]`, `1e999`, `"a\u2028"`, `{"":""}`, `[1,2`, `tru`, "\xef\xbb\xbf1",
	`["\\\\","\\\"",""]`, `-0`, `0.0e-0`,
}

// FuzzScan compares with encoding/json: the verdict, but for the documented
// differences, and the values that are read afterwards.
func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Add(largeRequest())
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Scan(data, maxDepth)
		want := json.Valid(data) && utf8.Valid(data)
		if (err == nil) != want {
			t.Fatalf("%q: %v, want valid %v", data, err, want)
		}
		if err != nil {
			if s := err.(*SyntaxError); s.Offset < 0 || s.Offset > len(data) || s.Reason == "" {
				t.Fatalf("%q: %+v", data, s)
			}
			return
		}
		v := trim(data)
		if end := skipValue(v, 0); end != len(v) {
			t.Fatalf("%q: skipped to %d of %d", v, end, len(v))
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var twin any
		if err := d.Decode(&twin); err != nil {
			t.Fatal(err)
		}
		if got := tree(v); !reflect.DeepEqual(got, twin) {
			t.Fatalf("%q: read %#v, want %#v", data, got, twin)
		}
	})
}

// TestIntegers is the integer row of the coercion table (spec 1.5).
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
		if Scan([]byte(s), 1) != nil || strings.TrimSpace(s) != s || Raw(s).kind() != kindNumber || len(s) > 60 {
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
