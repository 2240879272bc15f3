package sampler

import "math"

// This file is the arithmetic that the package comment defines. Every product is
// converted explicitly: the Go specification requires a rounding there. Without it a
// compiler may fuse the product with the addition that follows, as it does on arm64,
// ppc64, riscv64 and s390x, and the result would depend on the architecture.

const maxFloat = math.MaxFloat32

// infinity is the bit pattern of +Inf: the exponent of infinities and NaN.
const infinity = 0x7f800000

// negInf is the logit of a token that is not legal.
var negInf = float32(math.Inf(-1))

const (
	log2e = 1.4426950408889634
	ln2Hi = 0.693359375           // ten bits, so k*ln2Hi is exact
	ln2Lo = -2.121944400546905e-4 // ln 2 - ln2Hi
	round = 12582912              // 1.5 * 2^23: adding and subtracting it rounds to an integer
)

// Coefficients of (exp(r) - 1 - r) / r² on |r| <= ln(2)/2. They minimise the largest
// relative error of exp (computed by Remez exchange) and are rounded to float32.
const (
	e0 float32 = 0.49999994
	e1 float32 = 0.1666652
	e2 float32 = 0.041668393
	e3 float32 = 0.008368781
	e4 float32 = 0.0013814464
)

// exp32 is exp(x) for x in [-28, 0].
func exp32(x float32) float32 {
	k := float32(float32(x*log2e)+round) - round
	r := x - float32(k*ln2Hi)
	r -= float32(k * ln2Lo)
	q := float32(e4*r) + e3
	q = float32(q*r) + e2
	q = float32(q*r) + e1
	q = float32(q*r) + e0
	// 1 + (r + r²q): adding the large terms last keeps the result monotone.
	m := 1 + (r + float32(float32(r*r)*q))
	return math.Float32frombits(math.Float32bits(m) + uint32(int32(k))<<23)
}

// fullWeight is the weight of the most likely token.
const fullWeight = 1 << 40

// weight is exp(x) in units of 2^-40, truncated; x <= 0. Below -28 it is 0.
func weight(x float32) uint64 {
	if !(x >= -28) {
		return 0
	}
	return uint64(int64(exp32(x) * fullWeight))
}

// Coefficients of (ln(1+f) - f) / f² on [sqrt(1/2)-1, sqrt(2)-1], found in the same
// way.
const (
	l0 float32 = -0.49999988
	l1 float32 = 0.33333325
	l2 float32 = -0.25001583
	l3 float32 = 0.20001973
	l4 float32 = -0.16609083
	l5 float32 = 0.14181828
	l6 float32 = -0.13242984
	l7 float32 = 0.12904412
	l8 float32 = -0.07621762
)

// logSum is ln(1+f) + e*ln(2) for 1+f in [sqrt(1/2), sqrt(2)] and an integer e.
func logSum(f, e float32) float32 {
	p := float32(l8*f) + l7
	p = float32(p*f) + l6
	p = float32(p*f) + l5
	p = float32(p*f) + l4
	p = float32(p*f) + l3
	p = float32(p*f) + l2
	p = float32(p*f) + l1
	p = float32(p*f) + l0
	y := float32(float32(f*f)*p) + float32(e*ln2Lo)
	return (f + y) + float32(e*ln2Hi)
}

// sqrtHalf is the bit pattern of sqrt(1/2) in float32.
const sqrtHalf = 0x3f3504f3

// log32 is the natural logarithm of a positive normal x.
func log32(x float32) float32 {
	b := math.Float32bits(x) - sqrtHalf
	f := math.Float32frombits(b&(1<<23-1)+sqrtHalf) - 1
	return logSum(f, float32(int32(b)>>23))
}

// gumbel turns 32 random bits into a Gumbel variate, -ln(-ln(1-v)) with
// v = (x + 1/2) / 2^32. Large variates come from v near 0, where v has 24
// significant bits. The usual form -ln(-ln(u)) has them at u near 1, where a float32
// has a resolution of 2^-24 only.
func gumbel(x uint32) float32 {
	v := float32(float32(x)*0x1p-32) + 0x1p-33
	if v > 1-0x1p-24 {
		v = 1 - 0x1p-24
	}
	var e float32 // an exponential variate, -ln(1-v)
	if w := 1 - v; w >= math.Sqrt2/2 {
		e = -logSum(-v, 0)
	} else {
		e = -log32(w)
	}
	return -log32(e)
}

// gumbelMost[k] is an upper bound of gumbel(x) for every x with k leading zero bits.
// A token that cannot win with it needs no logarithm. gumbel falls as x grows, except
// for its last bits, which the 1e-4 covers.
var gumbelMost = func() (most [33]float32) {
	for k := range most {
		most[k] = gumbel(uint32(1<<31>>k)) + 1e-4
	}
	return most
}()

// logMass is ln(total / 2^40) in float64; total > 0. It does not use math.Log, which
// is written in assembly on some architectures and may round differently there.
func logMass(total uint64) float64 {
	b := math.Float64bits(float64(total))
	e := float64(int(b>>52) - 1023 - 40)
	f := math.Float64frombits(b&(1<<52-1) | 1023<<52)
	if f >= math.Sqrt2 {
		f /= 2
		e++
	}
	// ln f = 2 artanh(s), |s| < 0.172: eleven terms reach 2^-56.
	s := (f - 1) / (f + 1)
	s2 := float64(s * s)
	p := 1.0 / 21
	for d := 19.0; d > 0; d -= 2 {
		p = float64(p*s2) + 1/d
	}
	return float64(e*math.Ln2) + float64(float64(2*s)*p)
}

// philox is Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011.
func philox(c0, c1, c2, c3, k0, k1 uint32) (uint32, uint32, uint32, uint32) {
	for range 10 {
		p0, p1 := uint64(c0)*0xD2511F53, uint64(c2)*0xCD9E8D57
		c0, c1, c2, c3 = uint32(p1>>32)^c1^k0, uint32(p1), uint32(p0>>32)^c3^k1, uint32(p0)
		k0 += weyl0
		k1 += weyl1
	}
	return c0, c1, c2, c3
}

// Each round of Philox adds these to its keys.
const weyl0, weyl1 = 0x9E3779B9, 0xBB67AE85

// domain is part of every counter, to separate these draws from any other use of the
// same seed.
const domain = 0x77656972

// randomWords are the random words of tokens 4*group to 4*group+3.
func randomWords(group uint32, seed uint64, index uint32) [4]uint32 {
	a, b, c, d := philox(group, index, 0, domain, uint32(seed), uint32(seed>>32))
	return [4]uint32{a, b, c, d}
}

// sortKey maps a float to an integer such that the integers are ordered as the floats
// are; -0 and 0 are equal. z must not be NaN.
func sortKey(z float32) uint32 {
	b := math.Float32bits(z)
	switch {
	case b<<1 == 0:
		return 1 << 31
	case b>>31 != 0:
		return ^b
	}
	return b | 1<<31
}

// fromSortKey is the inverse of sortKey; the key of both zeros gives 0.
func fromSortKey(k uint32) float32 {
	if k>>31 != 0 {
		return math.Float32frombits(k &^ (1 << 31))
	}
	return math.Float32frombits(^k)
}
