package sampler

import (
	"flag"
	"math"
	"math/bits"
	"testing"
)

// every makes the tests of the functions visit each float32, or each random word. That
// takes minutes. Run it after any change to math.go.
var every = flag.Bool("every", false, "test the arithmetic on every input")

// TestPhiloxKnownAnswers: the answers are those of the Random123 distribution,
// tests/kat_vectors, lines "philox4x32 10".
func TestPhiloxKnownAnswers(t *testing.T) {
	const f = ^uint32(0)
	for _, c := range []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		a, b, x, d := philox(c.ctr[0], c.ctr[1], c.ctr[2], c.ctr[3], c.key[0], c.key[1])
		if got := [4]uint32{a, b, x, d}; got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.ctr, c.key, got, c.want)
		}
	}
}

// TestExpNeverFalls: exp32 never falls as its argument grows, which is what makes every
// filter a threshold on z. Without -every, the test visits runs of neighbouring floats,
// an eighth of all, and everything near the places where k changes.
func TestExpNeverFalls(t *testing.T) {
	at := func(x uint32) float32 { return -math.Float32frombits(x) } // falls as x grows
	if exp32(0) != 1 || exp32(at(0x30000000)) != 1 || weight(0) != fullWeight {
		t.Fatalf("exp32(0) = %v, weight(0) = %d", exp32(0), weight(0))
	}
	run := func(from, to uint32) {
		last := exp32(at(from))
		for x := from; x <= to; x++ {
			e := exp32(at(x))
			if e > last {
				t.Fatalf("exp32(%v) = %v is more than %v, at a larger argument", at(x), e, last)
			}
			last = e
		}
		if w := weight(at(to)); w != uint64(float64(last)*fullWeight) {
			t.Fatalf("weight(%v) = %d, but exp32 is %v", at(to), w, last)
		}
	}
	end := math.Float32bits(28)
	stride := uint32(8 << 12)
	if *every {
		stride = 1 << 12
	}
	for x := uint32(0x30000000); x < end; x += stride {
		run(x, min(x+1<<12, end))
	}
	for k := range 41 {
		mid := math.Float32bits(float32((float64(k) + 0.5) * math.Ln2))
		run(mid-10_000, min(mid+10_000, end))
	}
	for _, x := range []float32{-28.000002, -1e30, negInf, notANumber} {
		if weight(x) != 0 {
			t.Errorf("weight(%v) = %d", x, weight(x))
		}
	}
}

func TestExpError(t *testing.T) {
	step := uint32(211)
	if *every {
		step = 1
	}
	worst, where := 0.0, float32(0)
	for x := math.Float32bits(1e-9); x < math.Float32bits(28); x += step {
		f := -math.Float32frombits(x)
		want := math.Exp(float64(f))
		if e := math.Abs(float64(exp32(f))-want) / want; e > worst {
			worst, where = e, f
		}
	}
	t.Logf("relative error %.3g at %v", worst, where)
	if worst > 1.1e-7 {
		t.Errorf("relative error %.3g at %v", worst, where)
	}
}

func TestLogError(t *testing.T) {
	step := uint32(307)
	if *every {
		step = 1
	}
	worst, where := 0.0, float32(0)
	for b := math.Float32bits(0x1p-34); b < math.Float32bits(32); b += step {
		x := math.Float32frombits(b)
		got, want := float64(log32(x)), math.Log(float64(x))
		if want == 0 {
			if got != 0 {
				t.Fatalf("log32(1) = %v", got)
			}
			continue
		}
		if e := math.Abs(got-want) / math.Abs(want); e > worst {
			worst, where = e, x
		}
	}
	t.Logf("relative error %.3g at %v", worst, where)
	if worst > 1.5e-7 {
		t.Errorf("relative error %.3g at %v", worst, where)
	}
}

func TestLogMass(t *testing.T) {
	for total := uint64(1); total < 1<<62; total += total/97 + 1 {
		got, want := logMass(total), math.Log(float64(total))-40*math.Ln2
		if math.Abs(got-want) > 1e-14 {
			t.Fatalf("logMass(%d) = %v, want %v", total, got, want)
		}
	}
	if logMass(fullWeight) != 0 {
		t.Errorf("logMass of 1 is %v", logMass(fullWeight))
	}
}

// TestGumbel compares the variates with float64, checks their range, and that none
// exceeds the bound by which Picker skips tokens.
func TestGumbel(t *testing.T) {
	step := uint64(3001)
	if *every {
		step = 1
	}
	lo, hi, worst := positiveInf, negInf, 0.0
	check := func(x uint32) {
		g := gumbel(x)
		lo, hi = min(lo, g), max(hi, g)
		if most := gumbelMost[bits.LeadingZeros32(x)]; !(g <= most) {
			t.Fatalf("gumbel(%#x) = %v exceeds its bound %v", x, g, most)
		}
		// The definition in float64 begins with the same rounded v.
		v := float64(min(float32(float32(x)*0x1p-32)+0x1p-33, 1-0x1p-24))
		if exact := (float64(x) + 0.5) / (1 << 32); !(v > 0 && v < 1) || math.Abs(v-exact) > exact*0x1p-23 {
			t.Fatalf("the random word %#x gives v = %v", x, v)
		}
		want := -math.Log(-math.Log1p(-v))
		worst = max(worst, math.Abs(float64(g)-want)/max(1, math.Abs(want)))
	}
	for x := uint64(0); x < 1<<32; x += step {
		check(uint32(x))
	}
	for k := range 32 {
		for d := range uint32(2000) {
			check(1<<k + d)
			check(1<<k - d)
		}
	}
	t.Logf("range [%v, %v], error %.3g", lo, hi, worst)
	if lo < -2.82 || hi > 22.88 || gumbelMost[32] > 22.88 || hi != gumbel(0) {
		t.Errorf("range [%v, %v], bound %v", lo, hi, gumbelMost[32])
	}
	if worst > 3e-7 {
		t.Errorf("error %.3g", worst)
	}
}

// TestSortKey: the integers are ordered as the floats are, over every exponent.
func TestSortKey(t *testing.T) {
	last, lastKey := negInf, sortKey(negInf)
	for i := int64(-0x7f800000); i <= 0x7f800000; i += 65521 {
		z := math.Float32frombits(uint32(i))
		if i < 0 {
			z = -math.Float32frombits(uint32(-i))
		}
		k := sortKey(z)
		if z != fromSortKey(k) {
			t.Fatalf("fromSortKey(sortKey(%v)) = %v", z, fromSortKey(k))
		}
		if z > last && k <= lastKey {
			t.Fatalf("sortKey(%v) = %#x, sortKey(%v) = %#x", z, k, last, lastKey)
		}
		last, lastKey = z, k
	}
	if sortKey(float32(math.Copysign(0, -1))) != sortKey(0) {
		t.Error("the keys of the two zeros differ")
	}
}
