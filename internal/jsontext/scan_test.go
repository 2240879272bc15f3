package jsontext

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

var scanCases = []struct {
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
}

// stream scans text as it arrives in pieces of one byte.
func stream(text []byte, maxDepth int) error {
	s := NewStream(iotest.OneByteReader(bytes.NewReader(text)), maxDepth, nil)
	if s.Value() && s.Over() {
		return nil
	}
	return s.Err()
}

// byPieces scans text at a pace, through a window that grows by one byte.
func byPieces(text []byte, maxDepth int) error {
	return pacedScan(text, maxDepth, 1, func(int) bool { return true })
}

func TestScan(t *testing.T) {
	for _, c := range scanCases {
		for name, scan := range map[string]func([]byte, int) error{"Scan": Scan, "stream": stream, "paced": byPieces} {
			if problem := checkVerdict(scan([]byte(c.in), 4), c.offset, c.reason); problem != "" {
				t.Errorf("%s: %q: %s", name, c.in, problem)
			}
		}
	}
	if err := Scan([]byte(`[[[[1]]]]`), 4); err != nil {
		t.Errorf("depth 4 of 4: %v", err)
	}
}

// checkVerdict says what is wrong with the error of a scan that should fail at offset for
// a reason that contains these words, or succeed if offset is negative.
func checkVerdict(err error, offset int, reason string) string {
	if offset < 0 {
		if err != nil {
			return err.Error()
		}
		return ""
	}
	s, ok := err.(*SyntaxError)
	if !ok {
		return fmt.Sprintf("error %v, want a syntax error", err)
	}
	if s.Offset != offset || !strings.Contains(s.Error(), reason) {
		return fmt.Sprintf("%v, want offset %d and %q", s, offset, reason)
	}
	return ""
}

// TestReasons holds the kind of each syntax error and the beginning of its token.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		in    string
		kind  Reason
		token int // -1: does not matter
	}{
		{`[1,]`, WantValue, -1}, {`[NaN]`, WantValue, -1}, {`[`, WantValue, -1},
		{`{1`, WantName, -1}, {`{"a":1,}`, WantName, -1},
		{`{"a" 1}`, WantColon, -1},
		{`[1 2]`, WantSeparator, -1}, {`{"a":1]`, WantSeparator, -1},
		{`1 2`, WantEnd, -1}, {`01`, WantEnd, -1},
		{`[[[[[`, TooDeep, -1},
		{`[1, -]`, BadNumber, 4}, {`[1, 2.x]`, BadNumber, 4}, {` 3e+`, BadNumber, 1}, {`-Infinity`, BadNumber, 0},
		{` trux`, BadLiteral, 1}, {`[nul`, BadLiteral, 1},
		{`["abc`, UnclosedString, 1},
		{`["ab\q"]`, BadEscape, 1},
		{"[\"ab\n\"]", ControlInString, 1},
		{"[\"ab\xff\"]", InvalidUTF8, 1},
	} {
		for name, scan := range map[string]func([]byte, int) error{"Scan": Scan, "stream": stream} {
			e, ok := scan([]byte(c.in), 4).(*SyntaxError)
			if !ok || e.Kind != c.kind || c.token >= 0 && e.Token != c.token {
				t.Errorf("%s: %q: %+v, want kind %d of the token at %d", name, c.in, e, c.kind, c.token)
			}
		}
	}
}

// TestScanEveryByte puts every byte value at every offset around a word of the
// loop that looks at eight bytes at a time, against encoding/json.
func TestScanEveryByte(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				s := bytes.Repeat([]byte{'a'}, n)
				s[at] = byte(c)
				checkString(t, append(append([]byte{'"'}, s...), '"'))
			}
		}
	}
}

func checkString(t *testing.T, in []byte) {
	t.Helper()
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

func TestScanDoesNotAllocate(t *testing.T) {
	body := []byte(`{"messages":[{"role":"user","content":"Zürich\n\u00e9"}],"temperature":-0.5e1,"stream":true,"stop":null,"tools":[[],{}]}`)
	if n := testing.AllocsPerRun(20, func() {
		if Scan(body, 200) != nil {
			t.Fatal("invalid")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// tree reads a value with the methods of Value, as encoding/json would.
func tree(v Value) any {
	switch v.Kind() {
	case Null:
		return nil
	case Bool:
		return v[0] == 't'
	case String:
		return v.Text()
	case Number:
		return json.Number(v)
	case Array:
		a := []any{}
		for i, e := range v.Elements() {
			if i != len(a) {
				panic("index")
			}
			a = append(a, tree(e))
		}
		return a
	}
	m := map[string]any{}
	for key, e := range v.Members() {
		m[string(key)] = tree(e)
	}
	return m
}

var scanSeeds = []string{
	`{"a":[1,2,{"b":null}],"c":"d\"e\\","a":-0.5E-3}`, `"\ud83d\ude00 \ud83d \ude00\ud83d\ud83d\ude00 \u0000\/\b\f\n\r\t"`,
	` [ ] `, `{ "x" : { } , "\u0078" : "\\" }`, `[NaN]`, "\"\xff\"", `[[[[[[]]]]]]`, `1e999`, `"a\u2028"`, `{"":""}`, `[1,2`, `tru`, "\xef\xbb\xbf1",
	`["\\\\","\\\"",""]`, `-0`, `0.0e-0`,
}

// withoutToken leaves the token out of an error that is not about one: it may then be any
// that came before.
func withoutToken(err error) error {
	s, ok := err.(*SyntaxError)
	if !ok || s.Kind == BadNumber || s.Kind == BadLiteral || s.Kind == UnclosedString {
		return err
	}
	other := *s
	other.Token = 0
	return &other
}

// FuzzScan compares with encoding/json the verdict, except for the documented differences,
// and the values that are read afterwards. A stream has the same verdict.
func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const depthOfStandard = 10000
		err := Scan(data, depthOfStandard)
		if again := stream(data, depthOfStandard); !reflect.DeepEqual(withoutToken(again), withoutToken(err)) {
			t.Fatalf("%q: %v from memory, %v from a stream", data, err, again)
		}
		if again := byPieces(data, depthOfStandard); !reflect.DeepEqual(withoutToken(again), withoutToken(err)) {
			t.Fatalf("%q: %v at once, %v by pieces", data, err, again)
		}
		want := json.Valid(data) && utf8.Valid(data)
		if (err == nil) != want {
			t.Fatalf("%q: %v, want valid %v", data, err, want)
		}
		if err != nil {
			if s := err.(*SyntaxError); s.Offset < 0 || s.Offset > len(data) || s.Token > s.Offset || s.Reason == "" {
				t.Fatalf("%q: %+v", data, s)
			}
			return
		}
		compareValue(t, Trim(data), data)
	})
}

// compareValue compares v, which is data without white space around it, with what
// encoding/json reads from data.
func compareValue(t *testing.T, v Value, data []byte) {
	t.Helper()
	if end := skipValue(v, 0); end != len(v) {
		t.Fatalf("%q: skipped to %d of %d", v, end, len(v))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var reference any
	if err := d.Decode(&reference); err != nil {
		t.Fatal(err)
	}
	if got := tree(v); !reflect.DeepEqual(got, reference) {
		t.Fatalf("%q: read %#v, want %#v", data, got, reference)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		t.Fatal(err)
	}
	if got, err := Compact(data, len(data)); err != nil || string(got) != compact.String() {
		t.Fatalf("%q: compact %q, %v, want %q", data, got, err, &compact)
	}
}

// TestLongText compares the text of strings that are longer than what is copied at a time with
// that of encoding/json.
func TestLongText(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 20_000)
	for _, s := range []string{
		`"` + long + `"`,
		`"\n` + long + `"`,
		`"` + long + `\n"`,
		`"` + long + `\u00e9` + long + `\ud83d\ude42` + long + `"`,
		`"` + strings.Repeat(`\u0041`, 100_000) + `"`, // the text has a sixth of the bytes
		`"` + strings.Repeat(`\ud800`, 100_000) + `"`,
	} {
		var want string
		if err := json.Unmarshal([]byte(s), &want); err != nil {
			t.Fatal(err)
		}
		if got := Value(s).Text(); got != want {
			t.Errorf("%.40s…: %d bytes, want %d", s, len(got), len(want))
		}
	}
}

// TestParseFloat compares long numbers with strconv: those just below, at and above the middle
// of two neighbours, with digits far behind, and all places of the point.
func TestParseFloat(t *testing.T) {
	zeros, nines := strings.Repeat("0", 5000), strings.Repeat("9", 5000)
	middle := "9007199254740993" // between 2^53 and 2^53+2
	numbers := []string{
		zeros, "-" + zeros, zeros + "." + zeros, zeros + "1", "1" + zeros, "-1" + zeros, "1" + zeros + "e-5000", "1" + zeros + "e-5001",
		"0." + zeros + "1", "0." + zeros + "1e5001", "0." + nines, nines, nines + "e-4990", nines + "." + nines + "e-5000",
		middle + "." + zeros, middle + "." + zeros + "1", middle + "." + zeros + "0e0", "-" + middle + "." + zeros + "1", zeros + middle, zeros + middle + "." + zeros + "1",
		"9007199254740992." + nines, middle + zeros + "e-5000", middle + zeros + "1e-5001",
		"1.5e" + zeros + "3", "1.5e-" + zeros + "3", "1.5e+" + zeros + "3", "1e" + nines, "1e-" + nines, "0e" + nines, "-1e" + nines,
		"." + nines, nines + ".", "." + zeros, "+" + nines + "e-5000",
		// no numbers
		nines + "e", nines + "e+", nines + "-", nines + "e5x", nines + "..", "." + nines + ".", nines + "e1.5", "x" + nines, "--" + nines, "-" + strings.Repeat("-", 5000), strings.Repeat(".", 5000), "e" + nines, "-e" + nines,
		// short ones
		"1", "-0.5e3", "x", "",
	}
	for _, s := range numbers {
		got, err := ParseFloat(s)
		want, wantErr := exactFloat(s)
		if got != want || err == nil && math.Signbit(got) != strings.HasPrefix(s, "-") || (err == nil) != (wantErr == nil) {
			t.Errorf("%.40s… of %d bytes: %v %v, want %v %v", s, len(s), got, err, want, wantErr)
		}
	}
}

// exactFloat computes with fractions, because strconv takes "1" and 1000 zeros and "e-1000" for 0.
func exactFloat(s string) (float64, error) {
	_, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	n, err := strconv.Atoi(cmp.Or(exponent, "0"))
	r, ok := new(big.Rat), false
	if err == nil && n > -10_000 && n < 10_000 {
		r, ok = r.SetString(s)
	}
	if !ok {
		return strconv.ParseFloat(s, 64) // it is no number, 0 or infinite
	}
	x, _ := r.Float64()
	if math.IsInf(x, 0) {
		return x, strconv.ErrRange
	}
	return x, nil
}

// TestAppendLongString compares long strings with short ones of the same characters.
func TestAppendLongString(t *testing.T) {
	for _, part := range []string{"plain", "\n", "\"quoted\"", "\x01", "é", "\xff", "a\xe2\x82", "\uFFFD", "🙂\u2028"} {
		const times = 30_000
		one := AppendString(nil, part)
		want := `x"` + strings.Repeat(string(one[1:len(one)-1]), times) + `"`
		long := strings.Repeat(part, times)
		if got := AppendString([]byte("x"), long); string(got) != want {
			t.Errorf("%q: %d bytes, want %d", part, len(got), len(want))
		}
	}
}
