package limits

import (
	"math"
	"testing"
)

// TestReadReadsEveryWord: a bit that changes anywhere changes the result, and
// the assembly agrees with Go.
func TestReadReadsEveryWord(t *testing.T) {
	for _, n := range []int{0, 512, 1024, 4096 + 512} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i*7 + i>>8)
		}
		if got, want := best.read(b), readGeneric(b); got != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
		for i := 0; i < n; i += 8 {
			before := best.read(b)
			b[i] ^= 1
			if best.read(b) == before {
				t.Errorf("%d bytes: word %d is not read", n, i/8)
			}
		}
	}
}

// TestMeterReadsAllMemory: two threads share out the blocks, each is read once.
func TestMeterReadsAllMemory(t *testing.T) {
	m, err := Open(5<<20 - 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Bytes() != 5<<20 {
		t.Errorf("%d bytes", m.Bytes())
	}
	var want uint64
	for i := 0; i < m.Bytes(); i += block {
		want += readGeneric(m.data[i:][:block])
	}
	const passes = 2
	for threads := 1; threads <= 3; threads++ {
		r := m.Read(threads, passes)
		if len(r) != passes || !(r.Best() > 0) || math.IsInf(r.Best(), 0) {
			t.Errorf("%d threads: %v", threads, r)
		}
		if m.sum != want*(passes+1) { // one pass warms up
			t.Errorf("%d threads: read %x, want %x", threads, m.sum, want*(passes+1))
		}
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefusesNothing(t *testing.T) {
	if _, err := Open(0); err == nil {
		t.Error("no error")
	}
}

// TestArithmetic: all loops of this machine run and have names.
func TestArithmetic(t *testing.T) {
	for name, l := range map[string]loops{"native": best, "generic": genericLoops()} {
		l.fma(3)
		l.dot(3)
		if l.readForm == "" || l.fmaForm == "" || l.dotForm == "" || l.fmaOps <= 0 || l.dotOps <= 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	for name, r := range map[string]Rates{"FMA": FMA(2, 1), "Int8": Int8(2, 1)} {
		if len(r) != 1 || !(r[0] > 1e6) {
			t.Errorf("%s: %v", name, r)
		}
	}
	if (Rates{1, 3, 2}).Best() != 3 || (Rates{}).Best() != 0 {
		t.Error("Best is not the largest")
	}
}

// Benchmark prints the machine's limits.
func Benchmark(b *testing.B) {
	m, err := Open(1 << 30)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for b.Loop() {
		for threads := 1; threads <= 2; threads++ {
			b.Logf("%d threads: read %.1f GB/s, FMA %.0f GFLOP/s, int8 %.0f GOP/s", threads,
				m.Read(threads, 5).Best()/1e9, FMA(threads, 5).Best()/1e9, Int8(threads, 5).Best()/1e9)
		}
	}
}
