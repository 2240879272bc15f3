package jsontext

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// everything has a field for each shape of Go value that weir decodes or encodes.
type everything struct {
	Text     string             `json:"text"`
	Plain    int                `json:"plain"`
	Small    int32              `json:"small"`
	Natural  uint64             `json:"natural"`
	Real     float64            `json:"real"`
	Short    float32            `json:"short"`
	Yes      bool               `json:"yes,omitempty"`
	Pointer  *int               `json:"pointer,omitempty"`
	Pointers []*string          `json:"pointers"`
	List     []float64          `json:"list"`
	Bytes    []byte             `json:"bytes"`
	Pair     [2]int             `json:"pair"`
	Map      map[string]float64 `json:"map"`
	Deep     map[string][]inner `json:"deep"`
	Inner    inner              `json:"inner"`
	Maybe    *inner             `json:"maybe"`
	Any      any                `json:"any"`
	Raw      json.RawMessage    `json:"raw"`
	Custom   custom             `json:"custom"`
	Nothing  struct{}           `json:"nothing"`
	Hidden   int                `json:"-"`
	NoTag    int
	inner
}

type inner struct {
	Name  string `json:"name"`
	Count int    `json:"count,omitempty"`
}

// custom decodes itself: a number or its name.
type custom int

func (c *custom) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*c = custom(len(s))
		return nil
	}
	return json.Unmarshal(text, (*int)(c))
}

func (c custom) MarshalJSON() ([]byte, error) { return json.Marshal(strings.Repeat("<", int(c)&7)) }

var decodeSeeds = []string{
	`{"text":"a\u00e9\n<&>\ud83d\ude00\ud800","plain":-12,"small":2147483647,"natural":18446744073709551615,"real":1e-7,"short":0.1,"yes":true}`,
	`{"pointer":5,"pointers":["a",null,""],"list":[1,2.5,1e21,-0.0],"bytes":"AQID","pair":[1,2],"map":{"b":1,"a":2},"deep":{"x":[{"name":"n","count":1}]}}`,
	`{"inner":{"name":"i"},"maybe":{"count":3},"any":{"a":[1,null,true,"x",{"b":{}}]},"raw":{"k": [1, 2]},"custom":"abc","nothing":{"x":1},"NoTag":3,"name":"embedded","count":7}`,
	`{"TEXT":"upper","nOtAg":4,"text":"again","unknown":{"deep":[[[]]]},"pair":[1],"pointer":null,"map":null,"list":null,"any":null,"inner":null,"plain":null}`,
	`{"plain":1.5}`, `{"plain":"1"}`, `{"small":2147483648}`, `{"text":5}`, `{"list":{}}`, `{"inner":[]}`, `{"natural":-1}`, `{"real":"x"}`, `{"yes":1}`, `{"pair":[1,2,3]}`,
	`{"plain":1e2}`, `{"real":1e999}`, `{"bytes":"?"}`, `{"custom":[]}`, `{"pointer":[]}`, `[]`, `null`, `5`, `"x"`, `{}`, ` { } `, `{"raw":null,"custom":null,"bytes":null,"deep":{"":null}}`,
	`{"any":1e400}`, `{"any":12345678901234567890}`, `{"":1}`, `{"a":1,"a":2}`, `[1,[2,[3]]]`, `{"text":"\u2028\u0000\u007f"}`, `{"inner":{"name":1},"text":"after"}`,
}

// FuzzDecode: what Scan accepts is decoded to the value that encoding/json gives, or
// refused by both, and is encoded to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, s := range decodeSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, fresh := range []func() any{
			func() any { return new(any) },
			func() any { return new(everything) },
			func() any { return new(map[string]RawMessage) },
			func() any { return new([]int32) },
			func() any { return new(*int) },
		} {
			compareDecode(t, text, fresh)
		}
	})
}

func compareDecode(t *testing.T, text []byte, fresh func() any) {
	t.Helper()
	got, want := fresh(), fresh()
	err, wantErr := Decode(text, got), json.Unmarshal(text, want)
	if wantErr == nil && !utf8.Valid(text) {
		wantErr = err // the stricter rule
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q into %T: %v, encoding/json has %v", text, got, err, wantErr)
	}
	if err != nil {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q into %T: %+v, encoding/json has %+v", text, got, got, want)
	}
	b, err := Encode(got)
	wantBytes, wantErr := json.Marshal(want)
	if (err == nil) != (wantErr == nil) || string(b) != string(wantBytes) {
		t.Fatalf("%+v: %s %v, encoding/json has %s %v", got, b, err, wantBytes, wantErr)
	}
	b, err = EncodeIndent(got, " ")
	wantBytes, wantErr = json.MarshalIndent(want, "", " ")
	if (err == nil) != (wantErr == nil) || string(b) != string(wantBytes) {
		t.Fatalf("%+v, indented: %s %v, encoding/json has %s %v", got, b, err, wantBytes, wantErr)
	}
}

// TestEncodeNumbers: floating-point numbers are spelled as encoding/json spells them.
func TestEncodeNumbers(t *testing.T) {
	for _, x := range []float64{0, math.Copysign(0, -1), 1, 0.1, 1e20, 1e21, 1e-6, 1e-7, 1.5e-9, 123456789.125, math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1)} {
		for _, v := range []any{x, float32(x), []float64{x}, map[string]any{"x": x}} {
			got, err := Encode(v)
			want, wantErr := json.Marshal(v)
			if string(got) != string(want) || (err == nil) != (wantErr == nil) {
				t.Errorf("%v: %s %v, encoding/json has %s %v", v, got, err, want, wantErr)
			}
		}
	}
}

// TestTypeError: the error of a value that does not fit names the field and the type, as
// that of encoding/json. There are two exceptions: a text that is not base64 is a TypeError
// too, and what a method UnmarshalJSON returns stays as it is.
func TestTypeError(t *testing.T) {
	for _, text := range decodeSeeds {
		if text == `{"bytes":"?"}` || text == `{"custom":[]}` {
			continue
		}
		err, want := Decode([]byte(text), new(everything)), json.Unmarshal([]byte(text), new(everything))
		e, ok := err.(*TypeError)
		w, wantOK := want.(*json.UnmarshalTypeError)
		if ok != wantOK {
			t.Errorf("%s: %v, encoding/json has %v", text, err, want)
		} else if ok && (e.Field != w.Field || e.Type != w.Type || e.Value != w.Value) {
			t.Errorf("%s: field %q, type %v, value %q; encoding/json has %q, %v, %q", text, e.Field, e.Type, e.Value, w.Field, w.Type, w.Value)
		}
	}
}
