package api

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// widened are the finite numbers of a type of at most two bytes by their bits, as the types are defined; the others are NaN.
func widened(t NumberType) []float64 {
	n := numberTypes[t]
	bias := 1<<(n.exponent-1) - 1
	all := make([]float64, 1<<(8*n.size))
	for bits := range all {
		e, m := bits>>n.mantissa&(1<<n.exponent-1), bits&(1<<n.mantissa-1)
		x := math.Ldexp(float64(m), 1-bias-n.mantissa)
		if e > 0 {
			x = math.Ldexp(float64(m+1<<n.mantissa), e-bias-n.mantissa)
		}
		if last := e == 1<<n.exponent-1; last && (t != FP8E4M3 || m == 1<<n.mantissa-1) {
			x = math.NaN()
		}
		if bits>>(8*n.size-1) == 1 {
			x = -x
		}
		all[bits] = x
	}
	return all
}

// nearest is the index of the number of a kind that is nearest to x among all that are not negative; of
// two, the even index. Behind the last is infinity.
func nearest(numbers []float64, x float64, kind NumberType) int {
	i, found := slices.BinarySearch(numbers, x)
	if found {
		return i
	}
	if i < len(numbers) { // between two
		if low, high := x-numbers[i-1], numbers[i]-x; low < high || low == high && i%2 == 1 {
			i--
		}
		return i
	}
	last := len(numbers) - 1
	if step := numbers[last] - numbers[last-1]; kind == FP8E4M3 || x-numbers[last] < step/2 {
		return last
	}
	return last + 1
}

// torchNumbers are numbers with what torch 2.15 makes of them as float16, bfloat16, fp8_e4m3 and fp8_e5m2.
var torchNumbers = map[float32][4]uint16{
	463: {0x5f3c, 0x43e8, 0x7e, 0x5f}, 480: {0x5f80, 0x43f0, 0x7e, 0x60}, -1e9: {0xfc00, 0xce6e, 0xfe, 0xfc}, 61440: {0x7b80, 0x4770, 0x7e, 0x7c},
	65519: {0x7bff, 0x4780, 0x7e, 0x7c}, 65520: {0x7c00, 0x4780, 0x7e, 0x7c}, 3.4e38: {0x7c00, 0x7f80, 0x7e, 0x7c}, 1e-40: {0, 1, 0, 0}, 0x1.8p-9: {0x1a00, 0x3b40, 2, 0x1a},
}

// TestNarrow: the bits are those of the nearest number, of two those that are even, for numbers in between, halves and random ones.
func TestNarrow(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, kind := range []NumberType{Float16, BFloat16, FP8E4M3, FP8E5M2} {
		all := widened(kind)
		positive := all[:len(all)/2]
		positive = positive[:slices.IndexFunc(append(slices.Clone(positive), math.NaN()), math.IsNaN)]
		check := func(x float32) {
			t.Helper()
			want := uint16(nearest(positive, math.Abs(float64(x)), kind))
			if math.Signbit(float64(x)) {
				want |= uint16(len(all) / 2)
			}
			if got := narrow(x, kind); got != want {
				t.Fatalf("%s: %v (%x) has the bits %x, want %x", numberTypes[kind].name, x, math.Float32bits(x), got, want)
			}
		}
		for i, x := range positive {
			numbers := []float32{float32(x)}
			if i > 0 {
				half := float32((x + positive[i-1]) / 2)
				numbers = append(numbers, half, math.Nextafter32(half, 0), math.Nextafter32(half, math.MaxFloat32))
			}
			for _, y := range numbers {
				check(y)
				check(-y)
			}
		}
		for range 20_000 {
			if x := math.Float32frombits(rng.Uint32()); x-x == 0 {
				check(x)
			}
		}
		check(math.MaxFloat32)
		check(math.SmallestNonzeroFloat32)
	}
}

// TestNarrowAsTorch: beyond the greatest numbers, too, the bits are those that torch makes.
func TestNarrowAsTorch(t *testing.T) {
	for x, want := range torchNumbers {
		for i, kind := range []NumberType{Float16, BFloat16, FP8E4M3, FP8E5M2} {
			if got := narrow(x, kind); got != want[i] {
				t.Errorf("%v as %s: %x, want %x", x, numberTypes[kind].name, got, want[i])
			}
		}
	}
}

// TestVectorBytes: bytes in both orders, and the header that says which are whose, in ASCII.
func TestVectorBytes(t *testing.T) {
	for _, kind := range []NumberType{Float32, Float16, BFloat16, FP8E4M3, FP8E5M2} {
		e := Embeddings{Meta: Meta{ID: "embd-é\x7f𝄞", Model: "日本", Created: 5}, Vectors: [][]float32{{1, -2, 0.5, 4}, {3, 1}}, Prompt: 7}
		e.Encoding = VectorEncoding{Format: BytesVectors, Type: kind}
		little := AppendVectorBytes(nil, &e)
		e.Encoding.Endian, e.Encoding.BigEndian = "big", true
		big := AppendVectorBytes(nil, &e)
		size := kind.Size()
		if len(little) != 6*size || len(big) != len(little) {
			t.Fatalf("%d and %d bytes", len(little), len(big))
		}
		for i := 0; i < len(big); i += size {
			slices.Reverse(big[i : i+size])
		}
		if !slices.Equal(little, big) {
			t.Errorf("%x and %x", little, big)
		}
		if kind == Float32 && math.Float32frombits(binary.LittleEndian.Uint32(little[4:])) != -2 {
			t.Errorf("%x", little)
		}
		e.Columns = 2
		checkVectorMetadata(t, &e, kind)
	}
}

// checkVectorMetadata checks the header of e, whose vectors have four numbers and two.
func checkVectorMetadata(t *testing.T, e *Embeddings, kind NumberType) {
	t.Helper()
	size := kind.Size()
	text := AppendVectorMetadata(nil, e)
	var got struct {
		ID, Model string
		Created   int64
		Data      []struct {
			Index, Start, End int
			Dtype             string `json:"embed_dtype"`
			Endianness        string
			Shape             []int
		}
		Usage map[string]int
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != e.ID || got.Model != e.Model || got.Created != 5 || got.Usage["prompt_tokens"] != 7 || got.Usage["total_tokens"] != 7 || len(got.Data) != 2 {
		t.Errorf("%s", text)
	}
	if d := got.Data[1]; d.Index != 1 || d.Start != 4*size || d.End != 6*size || d.Dtype != numberTypes[kind].name || d.Endianness != "big" || !slices.Equal(d.Shape, []int{1, 2}) {
		t.Errorf("%s", text)
	}
	for _, c := range text {
		if c < ' ' || c > '~' {
			t.Errorf("%q is not ASCII", text)
		}
	}
	if n := e.MetadataSize(2); len(text) > n {
		t.Errorf("%d bytes of metadata, but at most %d were announced", len(text), n)
	}
}
