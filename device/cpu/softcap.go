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

// byDistance multiplies the scores of a head with by, and adds what depends on how far each key is from the query: first for the
// first of them, less than 0 if the key comes before the query. Sums are rounded once: those of far keys are of great numbers.
func (j *attendJob) byDistance(x []float32, by float32, head, first int) {
	unit := float32(1) // of scores that are bounded afterwards
	if j.a.Softcap > 0 {
		unit = 1 / j.a.Softcap
	}
	if j.a.Slopes != nil {
		slope := j.a.Slopes[head] * unit
		for i, v := range x {
			x[i] = float32(float64(v)*float64(by) - float64(slope)*float64(max(-first-i, first+i)))
		}
		by = 1
	}
	if j.a.Buckets == nil {
		return
	}
	most, heads := len(j.a.Buckets)/2, j.q.width/j.c.keyDim
	for i, v := range x {
		bucket := int(j.a.Buckets[most+min(max(first+i, -most), most)])
		x[i] = float32(float64(v)*float64(by) + float64(j.bias[bucket*heads+head]*unit))
	}
}
