package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/testkit"
	"weir/weights"
)

// numbers are n bytes of a tensor that tell where they are.
func numbers(first, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(first + i)
	}
	return b
}

// small is a whole file with values of all types and some tensors.
func small() *testkit.GGUF {
	return &testkit.GGUF{
		Keys: []testkit.GGUFKey{
			{Key: "general.architecture", Value: "llama"},
			{Key: "u8", Value: uint8(200)}, {Key: "i8", Value: int8(-100)},
			{Key: "u16", Value: uint16(60000)}, {Key: "i16", Value: int16(-30000)},
			{Key: "u32", Value: uint32(4e9)}, {Key: "i32", Value: int32(-2e9)},
			{Key: "u64", Value: uint64(1) << 63}, {Key: "i64", Value: int64(math.MinInt64)},
			{Key: "f32", Value: float32(1.5)}, {Key: "f64", Value: math.Pi},
			{Key: "yes", Value: true}, {Key: "no", Value: false}, {Key: "empty", Value: ""},
			{Key: "texts", Value: []string{"a", "", "ö", "\xff"}},
			{Key: "ints", Value: []int32{1, -2, 3}}, {Key: "big ints", Value: []int64{1 << 40}}, {Key: "bytes", Value: []uint8{0, 255}},
			{Key: "floats", Value: []float32{0.5, -1}}, {Key: "doubles", Value: []float64{0.25}}, {Key: "bools", Value: []bool{true, false}},
			{Key: "nested", Value: [][]int32{{1, 2}, {}, {3}}}, {Key: "nested texts", Value: [][]string{{"x"}, {"y", "z"}}},
			{Key: "nothing", Value: []int32{}},
		},
		Tensors: []testkit.GGUFTensor{
			{Name: "vector", Type: 0, Shape: []uint64{3}, Data: numbers(1, 12)},
			{Name: "matrix", Type: 8, Shape: []uint64{64, 2}, Data: numbers(2, 4*34)},
			{Name: "halves", Type: 1, Shape: []uint64{5, 3, 2}, Data: numbers(3, 60)},
			{Name: "scalar", Type: 30, Data: numbers(4, 2)},
		},
	}
}

func write(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestValues: all types of values are read, and a getter of another type says what is there.
func TestValues(t *testing.T) {
	h, err := parse("small.gguf", small().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	m := &h.metadata
	for _, c := range []struct {
		key  string
		get  string
		want any // a string: the error
	}{
		{"general.architecture", "Text", "llama"}, {"empty", "Text", ""},
		{"u8", "Int", int64(200)}, {"i8", "Int", int64(-100)}, {"u16", "Int", int64(60000)}, {"i16", "Int", int64(-30000)},
		{"u32", "Int", int64(4e9)}, {"i32", "Int", int64(-2e9)}, {"i64", "Int", int64(math.MinInt64)},
		{"u64", "Int", errors.New("is 9223372036854775808, which is beyond any use")},
		{"f32", "Float", 1.5}, {"f64", "Float", math.Pi}, {"u8", "Float", 200.0},
		{"f32", "Int", errors.New("is 1.5 (float32), not an integer")},
		{"yes", "Bool", true}, {"no", "Bool", false}, {"yes", "Int", errors.New("is true (bool), not an integer")},
		{"u8", "Text", errors.New("is 200 (uint8), not a string")},
		{"empty", "Bool", errors.New(`is "" (string), not a truth value`)},
		{"texts", "Float", errors.New("is an array of 4 string (array), not a number")},
		{"ints", "Ints", []int32{1, -2, 3}}, {"bytes", "Ints", []int32{0, 255}}, {"nothing", "Ints", []int32{}},
		{"big ints", "Ints", errors.New("has the element 1099511627776, which no int32 can hold")},
		{"floats", "Ints", errors.New("is an array of 2 float32 (array), not an array of integers")},
		{"floats", "Floats", []float32{0.5, -1}}, {"doubles", "Floats", []float32{0.25}},
		{"u8", "Floats", errors.New("is 200 (uint8), not an array of numbers")},
		{"bools", "Bools", []bool{true, false}}, {"ints", "Bools", errors.New("is an array of 3 int32 (array), not an array of truth values")},
	} {
		v, ok := m.Value(c.key)
		if !ok {
			t.Errorf("%s is missing", c.key)
			continue
		}
		out := reflect.ValueOf(v).MethodByName(c.get).Call(nil)
		if wrong, ok := c.want.(error); ok {
			if err, _ := out[1].Interface().(error); err == nil || err.Error() != wrong.Error() {
				t.Errorf("%s as %s: %v, not %v", c.key, c.get, err, wrong)
			}
			continue
		}
		if got := out[0].Interface(); !out[1].IsNil() || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s as %s: %v, %v, not %v", c.key, c.get, got, out[1], c.want)
		}
	}
	if n, texts, ok := m.Strings("texts"); !ok || n != 4 || !slices.EqualFunc(slices.Collect(texts), []string{"a", "", "ö", "\xff"}, func(a []byte, b string) bool { return string(a) == b }) {
		t.Errorf("texts: %d, %v", n, ok)
	}
	if _, _, ok := m.Strings("ints"); ok {
		t.Error("an array of integers is an array of texts")
	}
	if _, _, ok := m.Strings("missing"); ok {
		t.Error("a missing key has texts")
	}
	if _, ok := m.Int("missing"); ok {
		t.Error("a missing key is an integer")
	}
	if v, ok := m.Value("nested"); !ok || v.Elem != Array || v.Len != 3 {
		t.Errorf("nested: %v", v)
	}
	if len(m.Keys()) != len(small().Keys) || m.Keys()[1] != "u8" {
		t.Errorf("keys %q", m.Keys())
	}
}

// TestTensors: shapes come with the innermost dimension last, and the bytes are those of the file.
func TestTensors(t *testing.T) {
	for _, version := range []uint32{2, 3} {
		g := small()
		g.Version = version
		dir := write(t, map[string][]byte{"blob": g.Bytes()})
		if is, err := Is(filepath.Join(dir, "blob")); !is || err != nil {
			t.Errorf("Is: %v, %v", is, err)
		}
		f, err := Open(filepath.Join(dir, "blob"))
		if err != nil {
			t.Fatal(err)
		}
		embedded, err := OpenFS(fstest.MapFS{"sub/blob": {Data: g.Bytes()}}, "sub/blob")
		if err != nil {
			t.Fatal(err)
		}
		checkTensors(t, f, g)
		checkTensors(t, embedded, g)
		if d := f.Tensors()[1].DType; d != weights.Q8_0 {
			t.Errorf("type %v", d)
		}
		c, err := f.Checkpoint(f.Tensors())
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if x, ok := c.Tensor("halves"); !ok || x.Data[0] != 3 {
			t.Error("the checkpoint has not the tensors")
		}
		if arch, _ := f.Metadata.String("general.architecture"); arch != "llama" {
			t.Errorf("architecture %q", arch)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// checkTensors compares the tensors of a file with those that were written.
func checkTensors(t *testing.T, f *File, g *testkit.GGUF) {
	t.Helper()
	for i, x := range f.Tensors() {
		want := g.Tensors[i]
		var shape []int
		for _, n := range slices.Backward(want.Shape) {
			shape = append(shape, int(n))
		}
		if x.Name != want.Name || !slices.Equal(x.Shape, shape) || !bytes.Equal(x.Data, want.Data) {
			t.Errorf("%s %v %v", x.Name, x.DType, x.Shape)
		}
	}
}

// TestAlignment: general.alignment says where data begin and what offsets are multiples of.
func TestAlignment(t *testing.T) {
	for _, alignment := range []int{1, 8, 64, 4096} {
		g := small()
		g.Set("general.alignment", uint32(alignment))
		g.Alignment = alignment
		h, err := parse("x", g.Bytes())
		if err != nil {
			t.Fatalf("%d: %v", alignment, err)
		}
		for i, x := range h.tensors {
			if !bytes.Equal(x.Data, g.Tensors[i].Data) {
				t.Errorf("%d: %s has other bytes", alignment, x.Name)
			}
		}
	}
}

// TestValueString: messages say what a value is.
func TestValueString(t *testing.T) {
	h, err := parse("x", small().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"u64": "9223372036854775808", "i64": "-9223372036854775808", "i8": "-100", "f32": "1.5", "yes": "true", "empty": `""`, "ints": "an array of 3 int32"} {
		if v, _ := h.metadata.Value(key); v.String() != want {
			t.Errorf("%s is %s, want %s", key, v, want)
		}
	}
}

// hostile are files that are refused, and what the sentence about each has to say.
var hostile = []struct {
	name string
	file func() []byte
	want string // after the name of the file
}{
	{"version 1", with(func(g *testkit.GGUF) { g.Version = 1 }), "GGUF version 1 is not read, which was in use for some weeks of 2023 (supported: 2, 3)"},
	{"version 4", with(func(g *testkit.GGUF) { g.Version = 4 }), "GGUF version 4 (supported: 2, 3)"},
	{"big-endian", with(func(g *testkit.GGUF) { g.Version = 3 << 24 }), "the file is big-endian (version 3 in that order of bytes); only little-endian files are read"},
	{"1e9 tensors", with(func(g *testkit.GGUF) { g.Count = 1e9 }), "the header claims 1000000000 tensors, more than the 131072 allowed"},
	{"1e18 keys", with(func(g *testkit.GGUF) { g.KeyCount = 1e18 }), "the header claims 1000000000000000000 keys, more than the 65536 allowed"},
	{"too many tensors", with(func(g *testkit.GGUF) { g.Count = 100_000 }), "tensor number"},
	{"no key name", with(func(g *testkit.GGUF) { g.Keys[3].Key = "" }), "key number 4 of the metadata: it has no name"},
	{"key twice", with(func(g *testkit.GGUF) { g.Keys[3].Key = "u8" }), `the key "u8" is given twice`},
	{"unknown type", with(func(g *testkit.GGUF) { g.Keys[1].Value = testkit.RawGGUF{Type: 13, Data: []byte{1}} }), `the value of the key "u8": its type 13 is unknown`},
	{"unknown elements", with(func(g *testkit.GGUF) {
		g.Keys[1].Value = testkit.RawGGUF{Type: 9, Data: []byte{99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}
	}), `the value of the key "u8": the type 99 of its elements is unknown`},
	{"bool 2", with(func(g *testkit.GGUF) { g.Set("yes", testkit.RawGGUF{Type: 7, Data: []byte{2}}) }), `the value of the key "yes": the truth value is 2, neither 0 nor 1`},
	{"bools 3", with(func(g *testkit.GGUF) {
		g.Set("bools", testkit.RawGGUF{Type: 9, Data: []byte{7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 3}})
	}), `the value of the key "bools": element 1 of the truth values is 3, neither 0 nor 1`},
	{"long text", with(func(g *testkit.GGUF) {
		g.Set("empty", testkit.RawGGUF{Type: 8, Data: binary.LittleEndian.AppendUint64(nil, 1<<62)})
	}), `the value of the key "empty": 4611686018427387904 bytes are needed at byte`},
	{"long array", with(func(g *testkit.GGUF) {
		g.Set("ints", testkit.RawGGUF{Type: 9, Data: binary.LittleEndian.AppendUint64([]byte{5, 0, 0, 0}, 1<<62)})
	}), `the value of the key "ints": an array of 4611686018427387904 int32 needs more than the`},
	{"long array of texts", with(func(g *testkit.GGUF) {
		g.Set("texts", testkit.RawGGUF{Type: 9, Data: binary.LittleEndian.AppendUint64([]byte{8, 0, 0, 0}, 1<<61)})
	}), `the value of the key "texts": an array of 2305843009213693952 string needs more than the`},
	{"deep array", with(func(g *testkit.GGUF) { g.Set("nested", nested(9)) }), `the value of the key "nested": arrays are nested more than 8 deep`},
	{"name not UTF-8", with(func(g *testkit.GGUF) { g.Tensors[1].Name = "a\xff" }), `tensor number 2: its name "a\xff" is not UTF-8`},
	{"long name", with(func(g *testkit.GGUF) { g.Tensors[1].Name = strings.Repeat("x", 1<<16+1) }), `tensor number 2: its name is 65537 bytes long, more than the 65536 allowed`},
	{"enormous alignment", with(func(g *testkit.GGUF) { g.Set("general.alignment", uint64(math.MaxUint64)) }), "the key general.alignment is 18446744073709551615, which is beyond any use"},
	{"alignment 0", with(func(g *testkit.GGUF) { g.Set("general.alignment", uint32(0)) }), "the key general.alignment is 0, not a power of two up to 1073741824"},
	{"alignment 24", with(func(g *testkit.GGUF) { g.Set("general.alignment", uint32(24)) }), "the key general.alignment is 24, not a power of two up to 1073741824"},
	{"alignment 2^31", with(func(g *testkit.GGUF) { g.Set("general.alignment", uint32(1<<31)) }), "the key general.alignment is 2147483648, not a power of two up to 1073741824"},
	{"alignment text", with(func(g *testkit.GGUF) { g.Set("general.alignment", "32") }), `the key general.alignment is "32" (string), not an integer`},
	{"alignment beyond the file", with(func(g *testkit.GGUF) { g.Set("general.alignment", uint32(1<<30)); g.Tensors = g.Tensors[:1] }), "before its data: it is truncated"},
	{"tensor twice", with(func(g *testkit.GGUF) { g.Tensors[2].Name = "vector" }), `the tensor "vector" is given twice`},
	{"5 dimensions", with(func(g *testkit.GGUF) { g.Tensors[2].Shape = []uint64{5, 3, 2, 1, 1} }), `the tensor "halves" has 5 dimensions, more than the 4 allowed`},
	{"dimension 0", with(func(g *testkit.GGUF) { g.Tensors[2].Shape = []uint64{5, 0} }), `the tensor "halves" of [5 0] has a dimension of 0`},
	{"huge", with(func(g *testkit.GGUF) { g.Tensors[2].Shape = []uint64{1 << 32, 1 << 32} }), `the tensor "halves" of [4294967296 4294967296] is larger than memory can be`},
	{"huge dimension", with(func(g *testkit.GGUF) { g.Tensors[2].Shape = []uint64{math.MaxUint64} }), `the tensor "halves" of [18446744073709551615] is larger than memory can be`},
	{"broken blocks", with(func(g *testkit.GGUF) { g.Tensors[1].Shape = []uint64{48, 2} }), `the tensor "matrix" has rows of 48 numbers, which are not whole blocks of the 32 that Q8_0 stores together`},
	{"removed type", with(func(g *testkit.GGUF) { g.Tensors[1].Type = 31 }), `the tensor "matrix" is of type 31 (Q4_0_4_4, which ggml no longer has)`},
	{"type of another program", with(func(g *testkit.GGUF) { g.Tensors[1].Type = 139 }), `the tensor "matrix" is of type 139 (IQ4_K of ik_llama.cpp)`},
	{"type of the future", with(func(g *testkit.GGUF) { g.Tensors[1].Type = 1000 }), `the tensor "matrix" is of the unknown type 1000`},
	{"not aligned", with(func(g *testkit.GGUF) { g.Tensors[1].Offset = new(uint64(16)) }), `the tensor "matrix" is at byte 16 of the data, which is not a multiple of the alignment 32`},
	{"overlap", with(func(g *testkit.GGUF) { g.Tensors[2].Offset = new(uint64(64)) }), `the tensor "halves", which takes 60 bytes from byte 64 of the data on, overlaps the tensor "matrix"`},
	{"same place", with(func(g *testkit.GGUF) { g.Tensors[1].Offset = new(uint64(0)) }), `overlaps the tensor "vector"`},
	{"gap", with(func(g *testkit.GGUF) {
		g.Tensors[3].Offset = new(uint64(256 + 32))
		g.Tensors[3].Data = make([]byte, 34)
	}), `bytes [252, 288) of the data, before the tensor "scalar", belong to no tensor`},
	{"beyond the file", with(func(g *testkit.GGUF) { g.Tensors[3].Offset = new(uint64(1 << 40)) }), `the tensor "scalar" takes 2 bytes from byte 1099511627776 of the data on, which ends at 288: the file is truncated or damaged`},
	{"offset overflow", with(func(g *testkit.GGUF) { g.Tensors[3].Offset = new(uint64(math.MaxUint64 - 31)) }), `the tensor "scalar" takes 2 bytes from byte 18446744073709551584 of the data on`},
	{"larger than the data", with(func(g *testkit.GGUF) { g.Tensors[3].Shape = []uint64{100} }), `the tensor "scalar" takes 200 bytes from byte 256 of the data on, which ends at 288: the file is truncated or damaged`},
	{"only a magic", func() []byte { return []byte("GGUFxxxx") }, "version"},
}

func with(change func(*testkit.GGUF)) func() []byte {
	return func() []byte {
		g := small()
		change(g)
		return g.Bytes()
	}
}

// nested is an array of arrays, so many of them.
func nested(depth int) any {
	list := []any{uint8(1)}
	for range depth - 1 {
		list = []any{list}
	}
	return list
}

// TestHostileFiles: what is wrong with a file is one sentence that names the file and the key or
// the tensor, and takes no more memory than some multiple of the file.
func TestHostileFiles(t *testing.T) {
	for _, c := range hostile {
		b := c.file()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parse("dir/bad.gguf", b)
		runtime.ReadMemStats(&after)
		if err == nil || !errors.Is(err, weights.ErrDamaged) && !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), ": dir/bad.gguf: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<15+20*uint64(len(b)) {
			t.Errorf("%s: %d bytes were allocated for a file of %d", c.name, took, len(b))
		}
	}
	if _, err := parse("x", []byte("PK\x03\x04 and more")); !errors.Is(err, ErrNotGGUF) {
		t.Errorf("another format: %v", err)
	}
}

// TestTruncated: a file that ends anywhere before its last tensor does is refused.
func TestTruncated(t *testing.T) {
	g := small()
	whole := g.Bytes()
	end := len(whole) - 32 + 2 // the last tensor has two bytes, and padding
	for n := len(magic); n < len(whole); n++ {
		_, err := parse("x", whole[:n])
		if n < end && !errors.Is(err, weights.ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", n, end, err)
		}
		if n >= end && err != nil {
			t.Errorf("padding at the end is needed: %v", err)
		}
	}
	if _, err := parse("x", append(whole, 1, 2, 3)); err != nil {
		t.Errorf("bytes after the last tensor: %v", err)
	}
}

// TestCutFile: a file that is cut after it was opened is an error for those who read its metadata.
func TestCutFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no files are mapped")
	}
	g := small()
	g.Keys = append(g.Keys, testkit.GGUFKey{Key: "last", Value: strings.Repeat("x", 1<<20)})
	path := filepath.Join(write(t, map[string][]byte{"f": g.Bytes()}), "f")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	read := func() (err error) {
		defer f.CatchFault(debug.SetPanicOnFault(true), &err)
		f.Metadata.String("last")
		return nil
	}
	if err := read(); !errors.Is(err, weights.ErrLost) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

// TestChangedFile: who writes into a file that is open gets wrong texts, and no panic.
func TestChangedFile(t *testing.T) {
	b := small().Bytes()
	h, err := parse("x", b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 0xff
	}
	_, texts, _ := h.metadata.Strings("texts")
	for text := range texts {
		t.Errorf("a text of %d bytes", len(text))
	}
}

// TestOtherFiles: what is no GGUF file is told apart by its first bytes.
func TestOtherFiles(t *testing.T) {
	dir := write(t, map[string][]byte{"empty": {}, "short": []byte("GG"), "text.gguf": []byte("hello")})
	for _, name := range []string{"empty", "short", "text.gguf", "."} {
		if is, err := Is(filepath.Join(dir, name)); is || err != nil {
			t.Errorf("%s: %v, %v", name, is, err)
		}
	}
	if _, err := Is(filepath.Join(dir, "nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"empty", "short", "text.gguf", "nothing"} {
		if f, err := Open(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// TestPlaces: from the header alone, the places of tensors are those where Open finds them; of fewer
// bytes it says that more are needed.
func TestPlaces(t *testing.T) {
	b := small().Bytes()
	h, err := parse("x", b)
	if err != nil {
		t.Fatal(err)
	}
	whole := false
	for n := 4; n < len(b); n++ {
		places, needed, err := Places(b[:n])
		if err != nil || (len(places) > 0) != (needed <= int64(n)) || whole && places == nil {
			t.Errorf("%d bytes: %v, %d needed, %v", n, places, needed, err)
		}
		whole = places != nil
		for i, p := range places {
			if x := h.tensors[i]; p.Name != x.Name || &b[p.From] != &x.Data[0] || p.To-p.From != int64(len(x.Data)) {
				t.Errorf("%+v is not where %s is", p, x.Name)
			}
		}
	}
	if !whole {
		t.Error("the header takes the whole file")
	}
	if _, _, err := Places([]byte("GGML....")); !errors.Is(err, ErrNotGGUF) {
		t.Error(err)
	}
}

// FuzzParse: no bytes lead to a panic, and tensors lie apart and within the file.
func FuzzParse(f *testing.F) {
	f.Add(small().Bytes())
	for _, c := range hostile {
		if b := c.file(); len(b) < 1<<12 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		places, _, wrong := Places(b)
		h, err := parse("x", b)
		if err == nil && (wrong != nil || len(places) != len(h.tensors)) {
			t.Errorf("%d places of %d tensors, %v", len(places), len(h.tensors), wrong)
		}
		if err != nil {
			return
		}
		readAll(&h.metadata)
		// Bytes of a tensor are marked in the file; none may be marked twice.
		for i := range b {
			b[i] = 0
		}
		for _, x := range h.tensors {
			if err := x.CheckSize(); err != nil {
				t.Error(err)
			}
			for i := range x.Data {
				if x.Data[i]++; x.Data[i] > 1 {
					t.Fatalf("%s shares bytes with another tensor", x.Name)
				}
			}
		}
	})
}

// readAll reads all values in all ways.
func readAll(m *Metadata) {
	for _, key := range m.Keys() {
		v, _ := m.Value(key)
		_ = fmt.Sprint(v)
		for i := range reflect.TypeFor[Value]().NumMethod() {
			reflect.ValueOf(v).Method(i).Call(nil)
		}
		if _, texts, ok := m.Strings(key); ok {
			for range texts {
			}
		}
	}
}
