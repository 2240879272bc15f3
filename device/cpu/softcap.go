package cpu

import "math"

// bound writes limit*tanh(x*by) to x, with scratch memory of any size that is a multiple of 16.
// tanh(x) is (1-e)/(1+e) with e = exp(-2|x|), and the exponentials are those of the softmax, many
// at a time: math.Tanh takes nearly five times as long. Small numbers lose relative precision and no
// absolute one, which is what scores and logits need. Each number is computed on its own, so
// neighbors change no bit.
func (im *impl) bound(x, scratch []float32, by, limit float32) {
	scale := newRowScale(2 * by)
	for len(x) > 0 {
		n := min(len(x), len(scratch))
		part, e := x[:n], scratch[:padded(n)]
		for i, v := range part {
			e[i] = math.Float32frombits(math.Float32bits(v) | 1<<31) // -|v|
		}
		clear(e[n:])
		im.expSum(e, 0, scale.hi, scale.lo)
		for i, e := range e[:n] {
			y := limit * ((1 - e) / (1 + e))
			part[i] = math.Float32frombits(math.Float32bits(y) | math.Float32bits(part[i])&(1<<31))
		}
		x = x[n:]
	}
}

// fall writes x*by plus slope times how far each score's key lies behind the query, which is first for the first and
// at most 0 for all that a causal row sees.
func fall(x []float32, by, slope float32, first int) {
	for i, v := range x {
		x[i] = float32(v*by) - float32(slope*float32(max(-first-i, first+i)))
	}
}
