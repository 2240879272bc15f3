package sampler

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// picked is one row's result.
type picked struct {
	token   int32
	logprob float32
	rank    int32
	top     []int32
	topLP   []float32
}

func (p picked) equal(q picked) bool {
	return p.token == q.token && p.logprob == q.logprob && p.rank == q.rank && slices.Equal(p.top, q.top) && slices.Equal(p.topLP, q.topLP)
}

// pick runs Picker on every row of d. Entries that Pick must not touch hold
// poison, which is checked.
func pick(t testing.TB, p *Picker, logits [][]float32, d *backend.Draws) []picked {
	t.Helper()
	const poison = -77
	tops := 0
	for _, r := range d.Rows {
		tops += int(r.Top)
	}
	n := len(d.Rows)
	out := backend.Out{Tokens: make([]int32, n), Logprobs: make([]float32, n), Ranks: make([]int32, n), TopTokens: make([]int32, tops), TopLogprobs: make([]float32, tops)}
	for i := range n {
		out.Tokens[i], out.Logprobs[i], out.Ranks[i] = poison, poison, poison
	}
	for i := range tops {
		out.TopTokens[i], out.TopLogprobs[i] = poison, poison
	}
	res := make([]picked, n)
	at := 0
	for i, r := range d.Rows {
		before := slices.Clone(logits[i])
		p.Pick(logits[i], d, i, &out, at)
		for j, v := range before {
			if math.Float32bits(v) != math.Float32bits(logits[i][j]) {
				t.Fatalf("row %d: Pick changed logit %d", i, j)
			}
		}
		res[i] = picked{out.Tokens[i], out.Logprobs[i], out.Ranks[i], out.TopTokens[at : at+int(r.Top)], out.TopLogprobs[at : at+int(r.Top)]}
		at += int(r.Top)
	}
	for i, r := range d.Rows {
		touched := out.Logprobs[i] != poison || out.Ranks[i] != poison
		if want := r.Logprobs != backend.NoLogprobs && !r.Dead; touched != want {
			t.Fatalf("row %d: log-probability %v, rank %d with mode %d", i, out.Logprobs[i], out.Ranks[i], r.Logprobs)
		}
		if !touched {
			res[i].logprob, res[i].rank = 0, 0
		}
		if !r.Dead && (slices.Contains(res[i].top, poison) || slices.Contains(res[i].topLP, poison)) {
			t.Fatalf("row %d: top entries not written", i)
		}
	}
	return res
}

// twin is doc.go step by step: it sorts, sums big integers and visits tokens in
// a random order. It shares exp32, gumbel and logMass with Picker, which have
// tests of their own, and nothing else.
func twin(logits []float32, d *backend.Draws, row int, g *rand.Rand) picked {
	r := d.Rows[row]
	none := float32(math.Inf(-1))
	tidy := func(v float32) float32 {
		if v != v {
			return none
		}
		return min(v, math.MaxFloat32)
	}
	words := (len(logits) + 31) / 32
	masked := func(l []float32, m int32) []float32 {
		l = slices.Clone(l)
		for i := range l {
			if m >= 0 && d.Masks[int(m)*words+i/32]>>(i%32)&1 == 0 {
				l[i] = none
			}
		}
		return l
	}
	l := make([]float32, len(logits))
	for i, v := range logits {
		l[i] = tidy(v)
	}
	raw := masked(l, r.Mask)
	l = masked(raw, r.Allow)
	first := int32(0)
	if row > 0 {
		first = d.Rows[row-1].EditEnd
	}
	for _, e := range d.Edits[first:r.EditEnd] {
		v := l[e.Token]
		if v == none {
			continue
		}
		v = float32(v + e.Bias)
		if v > 0 {
			v = float32(v / e.Repeat)
		} else {
			v = float32(v * e.Repeat)
		}
		l[e.Token] = tidy(float32(v - e.Minus))
	}

	greedy := !(r.Temperature > 0)
	z := slices.Clone(l)
	if !greedy {
		inv := min(float32(1)/r.Temperature, math.MaxFloat32)
		for i, v := range l {
			if v != none {
				z[i] = max(-math.MaxFloat32, min(math.MaxFloat32, float32(v*inv)))
			}
		}
	}
	var kept []int
	for i, v := range z {
		if v != none {
			kept = append(kept, i)
		}
	}
	// Best first; among equals in random order, which must not matter.
	order := func(ids []int, z []float32) {
		g.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		slices.SortStableFunc(ids, func(a, b int) int {
			switch {
			case z[a] > z[b]:
				return -1
			case z[a] < z[b]:
				return 1
			}
			return 0
		})
	}
	order(kept, z)
	mass := func(ids []int, z []float32, top float32) *big.Int {
		sum, w := new(big.Int), new(big.Int)
		for _, i := range ids {
			sum.Add(sum, w.SetUint64(weight(z[i]-top)))
		}
		return sum
	}
	if !greedy && len(kept) > 0 {
		top := z[kept[0]]
		if r.MinP > 0 {
			need := uint64(float32(min(r.MinP, 1) * (1 << 40)))
			kept = slices.DeleteFunc(kept, func(i int) bool { return weight(z[i]-top) < need })
		}
		if k := int(r.TopK); k > 0 && k < len(kept) {
			kth := z[kept[k-1]]
			kept = slices.DeleteFunc(kept, func(i int) bool { return z[i] < kth })
		}
		if r.TopP > 0 && r.TopP < 1 {
			total, _ := new(big.Float).SetInt(mass(kept, z, top)).Float64()
			limit, _ := big.NewFloat(math.Ceil(float64(r.TopP) * total)).Int(nil)
			above := new(big.Int) // mass strictly above the current value
			pending, w := new(big.Int), new(big.Int)
			n := 0
			for j, i := range kept {
				if j > 0 && z[i] < z[kept[j-1]] {
					above.Add(above, pending)
					pending.SetInt64(0)
				}
				if above.Cmp(limit) >= 0 {
					break
				}
				pending.Add(pending, w.SetUint64(weight(z[i]-top)))
				n++
			}
			kept = kept[:n]
		}
	}

	res := picked{token: -1}
	switch {
	case r.Target >= 0:
		res.token = r.Target
	case len(kept) == 0:
	case greedy:
		for _, i := range kept {
			if z[i] == z[kept[0]] && (res.token < 0 || i < int(res.token)) {
				res.token = int32(i)
			}
		}
	default:
		best := none
		for _, j := range g.Perm(len(kept)) {
			i := kept[j]
			c0, c1, c2, c3 := philox(uint32(i/4), r.Index, 0, 0x77656972, uint32(r.Seed), uint32(r.Seed>>32))
			s := float32(z[i] + gumbel([4]uint32{c0, c1, c2, c3}[i%4]))
			if s > best || s == best && int32(i) < res.token {
				best, res.token = s, int32(i)
			}
		}
	}

	dist := z
	switch r.Logprobs {
	case backend.NoLogprobs:
		for range r.Top {
			res.top, res.topLP = append(res.top, -1), append(res.topLP, none)
		}
		return res
	case backend.RawLogprobs:
		dist = raw
		kept = kept[:0]
		for i, v := range dist {
			if v != none {
				kept = append(kept, i)
			}
		}
		order(kept, dist)
	}
	inside := make([]bool, len(logits))
	for _, i := range kept {
		inside[i] = true
	}
	lp := func(i int32) float32 {
		if i < 0 || !inside[i] {
			return none
		}
		top := dist[kept[0]]
		return float32((float64(dist[i]) - float64(top)) - logMass(mass(kept, dist, top).Uint64()))
	}
	res.logprob, res.rank = lp(res.token), 1
	for _, i := range kept {
		if res.token < 0 || !inside[res.token] || dist[i] > dist[res.token] {
			res.rank++
		}
	}
	slices.SortFunc(kept, func(a, b int) int {
		if dist[a] != dist[b] {
			if dist[a] > dist[b] {
				return -1
			}
			return 1
		}
		return a - b
	})
	for j := range int(r.Top) {
		id := int32(-1)
		if j < len(kept) {
			id = int32(kept[j])
		}
		res.top, res.topLP = append(res.top, id), append(res.topLP, lp(id))
	}
	return res
}

// randomRow makes rows of every kind that could trip a selection.
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
		case 6: // a normal row with accidents
			row[i] = x * 3
			switch g.IntN(8) {
			case 0:
				row[i] = float32(math.NaN())
			case 1:
				row[i] = float32(math.Inf(-1))
			case 2:
				row[i] = float32(math.Copysign(0, -1))
			case 3:
				row[i] = 0
			}
			if g.IntN(v+1) == 0 {
				row[i] = []float32{float32(math.Inf(1)), math.MaxFloat32, -math.MaxFloat32, 1e-45}[g.IntN(4)]
			}
		case 7: // a steep head
			row[i] = x - float32(math.Log(float64(i+1)))*spread
		case 8: // neighbouring floats
			row[i] = math.Float32frombits(math.Float32bits(17) + uint32(g.IntN(4)))
		case 10: // large values a few units in the last place apart
			row[i] = base + base*0x1p-23*float32(g.IntN(100))
		case 9: // one token and a tail where weights end
			row[i] = -20 - 9*g.Float32()
			if i == v/2 {
				row[i] = 0
			}
		}
	}
	return row
}

func randomMask(g *rand.Rand, words int) []uint32 {
	m := make([]uint32, words)
	kind := g.IntN(5)
	for i := range m {
		switch kind {
		case 0: // none
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

func TestPickEqualsTwin(t *testing.T) {
	// One of each for all sizes, so that stale scratch shows.
	both := []*Picker{{}, {Kernels: inGo}}
	for round := range 1200 {
		g := rand.New(rand.NewPCG(uint64(round), 7))
		v := 1 + g.IntN([]int{5, 40, 200, 1200, 5000}[g.IntN(5)])
		words := (v + 31) / 32
		var d backend.Draws
		var logits [][]float32
		for range 1 + g.IntN(3) {
			r := randomDraw(g, v)
			if g.IntN(2) == 0 {
				d.Edits = append(d.Edits, randomEdits(g, v)...)
			}
			r.EditEnd = int32(len(d.Edits))
			for _, m := range []*int32{&r.Mask, &r.Allow} {
				if g.IntN(3) == 0 {
					*m = int32(len(d.Masks) / words)
					d.Masks = append(d.Masks, randomMask(g, words)...)
				}
			}
			d.Rows = append(d.Rows, r)
			logits = append(logits, randomRow(g, v))
		}
		got := [][]picked{pick(t, both[0], logits, &d), pick(t, both[1], logits, &d)}
		for i := range logits {
			want := twin(logits[i], &d, i, g)
			for k := range both {
				if !got[k][i].equal(want) {
					t.Fatalf("round %d, V %d, row %d of %+v, kernels %v:\n got %+v\nwant %+v", round, v, i, d.Rows[i], k > 0, short(got[k][i]), short(want))
				}
			}
		}
	}
}

func short(p picked) string {
	n := min(len(p.top), 8)
	return fmt.Sprint(p.token, p.logprob, p.rank, p.top[:n], p.topLP[:n])
}

// FuzzPick: any bits as logits and any draw neither crash nor differ from the
// twin.
func FuzzPick(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 192, 127, 0, 0, 128, 255, 0, 0, 128, 127}, uint64(1), uint64(2), float32(1), float32(0.5), float32(0.1))
	f.Add([]byte("weir weir weir weir weir weir weir weir weir weir weir weir "), uint64(9), uint64(3), float32(0), float32(1), float32(0))
	f.Add([]byte{255, 255, 127, 127, 255, 255, 127, 255, 1, 0, 0, 0, 1, 0, 0, 128}, uint64(3), uint64(4), float32(1e-40), float32(0.3), float32(1))
	f.Fuzz(func(t *testing.T, data []byte, seed, choice uint64, temperature, topP, minP float32) {
		v := min(len(data)/4, 4096)
		if v == 0 {
			return
		}
		row := make([]float32, v)
		for i := range row {
			row[i] = math.Float32frombits(uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24)
		}
		g := rand.New(rand.NewPCG(seed, choice))
		d := backend.Draws{Rows: []backend.Draw{randomDraw(g, v)}, Edits: randomEdits(g, v)}
		r := &d.Rows[0]
		r.Temperature, r.TopP, r.EditEnd = temperature, topP, int32(len(d.Edits))
		if minP >= 0 {
			r.MinP = minP
		}
		if bits.OnesCount64(choice)%2 == 0 {
			r.Mask = 0
			d.Masks = randomMask(g, (v+31)/32)
		}
		want := twin(row, &d, 0, g)
		for _, p := range []*Picker{{}, {Kernels: inGo}} {
			if got := pick(t, p, [][]float32{row}, &d)[0]; !got.equal(want) {
				t.Fatalf("%+v, kernels %v:\n got %+v\nwant %+v", *r, p.fast(), short(got), short(want))
			}
		}
	})
}
