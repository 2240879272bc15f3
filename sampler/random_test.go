package sampler

import (
	"math"
	"math/rand/v2"

	"weir/backend"
)

// This file makes random rows, masks, draws, edits and parameters, with values that
// are likely to expose a mistake.

// notANumber and positiveInf are float32 constants that Go cannot write.
var (
	notANumber  = float32(math.NaN())
	positiveInf = float32(math.Inf(1))
)

// randomRow returns a row of one of eleven kinds.
func randomRow(g *rand.Rand, v int) []float32 {
	row := make([]float32, v)
	kind := g.IntN(11)
	base := float32(math.Ldexp(1, g.IntN(30)))
	spread := float32(math.Exp(g.NormFloat64() * 2))
	shift := float32(g.NormFloat64() * 20)
	for i := range row {
		x := float32(g.NormFloat64())
		switch kind {
		case 0, 1, 2:
			row[i] = x*spread + shift
		case 3: // many ties
			row[i] = float32(math.Round(float64(x*2))) / 2
		case 4: // all equal
			row[i] = shift
		case 5: // any bits: NaN, infinities, denormals, huge values
			row[i] = math.Float32frombits(g.Uint32())
		case 6:
			row[i] = oddValue(g, v, x*3)
		case 7: // a steep head
			row[i] = x - float32(math.Log(float64(i+1)))*spread
		case 8: // neighbouring floats
			row[i] = math.Float32frombits(math.Float32bits(17) + uint32(g.IntN(4)))
		case 9: // one token, and others where weights become 0
			row[i] = -20 - 9*g.Float32()
			if i == v/2 {
				row[i] = 0
			}
		case 10: // large values that differ in their last bits
			row[i] = base + base*0x1p-23*float32(g.IntN(100))
		}
	}
	return row
}

// oddValue is x, or now and then a special value.
func oddValue(g *rand.Rand, v int, x float32) float32 {
	switch g.IntN(8) {
	case 0:
		x = notANumber
	case 1:
		x = negInf
	case 2:
		x = float32(math.Copysign(0, -1))
	case 3:
		x = 0
	}
	if g.IntN(v+1) == 0 {
		x = []float32{positiveInf, maxFloat, -maxFloat, 1e-45}[g.IntN(4)]
	}
	return x
}

func randomMask(g *rand.Rand, words int) []uint32 {
	m := make([]uint32, words)
	kind := g.IntN(5)
	for i := range m {
		switch kind {
		case 0: // no token is legal
		case 1:
			m[i] = math.MaxUint32
		case 2:
			m[i] = g.Uint32()
		case 3:
			if g.IntN(4) == 0 {
				m[i] = 1 << g.IntN(32)
			}
		case 4:
			m[i] = []uint32{0, math.MaxUint32, g.Uint32()}[g.IntN(3)]
		}
	}
	return m
}

// randomDraw returns a draw without masks and edits.
func randomDraw(g *rand.Rand, v int) backend.Draw {
	one := func(vs ...float32) float32 { return vs[g.IntN(len(vs))] }
	d := backend.Draw{
		Seed: g.Uint64(), Index: g.Uint32N(1000),
		Temperature: one(0, 0, 1, 1, 0.7, 0.01, 2, float32(g.Float64()*2), 1e-30, 1e30, 1e-45),
		TopP:        one(1, 1, 0.9, 0.5, 0.1, 1e-6, 0.99999994, g.Float32(), 0),
		MinP:        one(0, 0, 0, 0.1, 0.5, 1, 1e-13, g.Float32()*0.1),
		Mask:        -1, Allow: -1, Target: -1,
	}
	switch g.IntN(4) {
	case 0:
		d.TopK = 1 + g.Int32N(int32(v)+2)
	case 1:
		d.TopK = 1 + g.Int32N(50)
	}
	if g.IntN(6) == 0 {
		d.Target = g.Int32N(int32(v))
	}
	if d.Logprobs = backend.LogprobMode(g.IntN(3)); g.IntN(2) == 0 {
		d.Top = g.Int32N(22)
		if g.IntN(10) == 0 {
			d.Top = int32(v)
		}
	}
	return d
}

// randomEdits returns edits of different tokens.
func randomEdits(g *rand.Rand, v int) (edits []backend.Edit) {
	n := g.IntN(min(v, 20) + 1)
	for _, i := range g.Perm(v)[:n] {
		e := backend.Edit{Token: int32(i), Repeat: 1}
		switch g.IntN(5) {
		case 0:
			e.Bias = backend.Forbid
		case 1:
			e.Bias = float32(g.NormFloat64() * 50)
		case 2:
			e.Repeat = float32(math.Exp(g.NormFloat64()))
		case 3:
			e.Minus = float32(g.NormFloat64() * 5)
		case 4:
			e = backend.Edit{Token: int32(i), Bias: float32(g.NormFloat64()), Repeat: math.Float32frombits(g.Uint32() >> 1), Minus: float32(g.NormFloat64())}
		}
		edits = append(edits, e)
	}
	return edits
}

// randomParams returns parameters with edits, bans and allowed tokens.
func randomParams(g *rand.Rand, v int) Params {
	p := DefaultParams()
	token := func() int32 { return g.Int32N(int32(v)) }
	if g.IntN(2) == 0 {
		p.Frequency = float32(g.IntN(41)-20) / 10
	}
	if g.IntN(2) == 0 {
		p.Presence = float32(g.IntN(41)-20) / 10
	}
	if g.IntN(2) == 0 {
		p.Repetition = 0.5 + g.Float32()
	}
	for range g.IntN(4) {
		p.Bias = append(p.Bias, TokenBias{token(), float32(g.IntN(201) - 100)})
	}
	if g.IntN(3) == 0 {
		for range 1 + g.IntN(v) {
			p.Allowed = append(p.Allowed, token())
		}
	}
	for range g.IntN(5) {
		w := make([]int32, 1+g.IntN(3))
		for i := range w {
			w[i] = token()
		}
		p.BadWords = append(p.BadWords, w)
	}
	if g.IntN(2) == 0 {
		p.MinTokens = g.IntN(6)
		for range 1 + g.IntN(3) {
			p.StopIDs = append(p.StopIDs, token())
		}
	}
	return p
}
