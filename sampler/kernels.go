package sampler

import "math"

// Kernels are loops over logits that a device may have faster versions of. The zero
// value means loops in Go. Max and Near may be set alone; Load, Mass, Above and Between
// are set together, and with Max and Near.
type Kernels struct {
	// Max is the greatest x[i], or NaN if NaN may have kept it from finding that.
	// len(x) is a positive multiple of 16.
	Max func(x []float32) float32

	// Near sets bit i%32 of hits[i/32] if logits[i]*inv and an upper bound of the
	// token's Gumbel variate together reach limit. It may set further bits.
	// len(logits) is 32*len(hits).
	//
	// The variate is that of word i%4 of Philox 4x32-10 for the counter (group+i/4,
	// index, 0, 0x77656972). keys are the keys of its ten rounds, two for each. For the
	// variate -ln(-ln(1-v)), v = (x+1/2) / 2^32, ln(2) * (32 - log2(x)) is an upper
	// bound; and -log2(x) is at most 127 - b / 2^23, where b are the bits of x as a
	// float32, because between powers of two a logarithm lies above its chord.
	// Rounding may take 2^-20 of the largest term.
	Near func(hits []uint32, logits []float32, keys *[20]uint32, group, index uint32, inv, limit float32)

	// Load sets dst to z as defined in step 5 of the package comment, with inv = 1/T,
	// and to -Inf where a logit is not legal. It returns the greatest value.
	// len(logits) is a multiple of 16, and dst is as long.
	Load func(dst, logits []float32, inv float32) float32

	// Mass is the exact sum of the weights of the z[i] >= floor. top is zmax, and
	// finite. len(z) is a multiple of 32, and no z is NaN.
	Mass func(z []float32, floor, top float32) uint64

	// Above sets bit i%32 of hits[i/32] if z[i] >= floor, and clears it otherwise.
	// len(z) is 32*len(hits).
	Above func(hits []uint32, z []float32, floor float32)

	// Between copies the z[i] with lo <= z[i] < end to the front of dst, in their
	// order, and returns their number. It may overwrite the rest of dst. dst is as long
	// as z and may be z itself. len(z) is a multiple of 32.
	Between func(dst, z []float32, lo, end float32) int
}

// NearGo is Kernels.Near in Go, for the tests of others.
func NearGo(hits []uint32, logits []float32, keys *[20]uint32, group, index uint32, inv, limit float32) {
	const unit, all = math.Ln2 / (1 << 23), 159 * math.Ln2
	seed := uint64(keys[0]) | uint64(keys[1])<<32
	clear(hits)
	for i, l := range logits {
		x := randomWords(group+uint32(i/4), seed, index)[i%4]
		b := float32(int32(math.Float32bits(float32(x)))) // exact to 2^-24
		most := all - float32(b*unit)
		if z := l * inv; z+most >= limit {
			hits[i/32] |= 1 << (i % 32)
		}
	}
}

// LoadGo is Kernels.Load in Go.
func LoadGo(dst, logits []float32, inv float32) float32 {
	dst = dst[:len(logits)]
	hi := negInf
	for i, l := range logits {
		z := l * inv
		if math.Float32bits(z)&infinity == infinity { // an infinity or NaN
			z = scaled(l, inv)
		}
		dst[i] = z
		if z > hi {
			hi = z
		}
	}
	return hi
}

// MassGo is Kernels.Mass in Go.
func MassGo(z []float32, floor, top float32) (total uint64) {
	for _, v := range z {
		if v >= floor {
			total += weight(v - top)
		}
	}
	return total
}

// AboveGo is Kernels.Above in Go, for the tests of others.
func AboveGo(hits []uint32, z []float32, floor float32) {
	clear(hits)
	for i, v := range z {
		if v >= floor {
			hits[i/32] |= 1 << (i % 32)
		}
	}
}

// BetweenGo is Kernels.Between in Go, for the tests of others.
func BetweenGo(dst, z []float32, lo, end float32) (n int) {
	for _, v := range z {
		if v >= lo && v < end {
			dst[n] = v
			n++
		}
	}
	return n
}
