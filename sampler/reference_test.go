package sampler

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// picked is the result of one row.
type picked struct {
	token   int32
	logprob float32
	rank    int32
	top     []int32
	topLP   []float32 // log-probabilities of top
}

func (p picked) equal(q picked) bool {
	return p.token == q.token && p.logprob == q.logprob && p.rank == q.rank && slices.Equal(p.top, q.top) && slices.Equal(p.topLP, q.topLP)
}

// String leaves out all but the first top tokens.
func (p picked) String() string {
	n := min(len(p.top), 8)
	return fmt.Sprintf("token %d logprob %v rank %d top %v %v", p.token, p.logprob, p.rank, p.top[:n], p.topLP[:n])
}

// poison fills the entries of an Out that Pick must not write.
const poison = -77

// poisonedOut returns an Out for the rows of d.
func poisonedOut(d *backend.Draws) backend.Out {
	tops := 0
	for _, r := range d.Rows {
		tops += int(r.Top)
	}
	n := len(d.Rows)
	return backend.Out{
		Tokens:      slices.Repeat([]int32{poison}, n),
		Logprobs:    slices.Repeat([]float32{poison}, n),
		Ranks:       slices.Repeat([]int32{poison}, n),
		TopTokens:   slices.Repeat([]int32{poison}, tops),
		TopLogprobs: slices.Repeat([]float32{poison}, tops),
	}
}

// pick runs p on every row of d. It checks that Pick changes no logit, and writes
// exactly those entries that the row asks for.
func pick(t testing.TB, p *Picker, logits [][]float32, d *backend.Draws) []picked {
	t.Helper()
	out := poisonedOut(d)
	results := make([]picked, len(d.Rows))
	at := 0
	for i, r := range d.Rows {
		before := slices.Clone(logits[i])
		p.Pick(logits[i], d, i, &out, at)
		if !slices.EqualFunc(before, logits[i], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatalf("row %d: Pick changed a logit", i)
		}
		end := at + int(r.Top)
		results[i] = picked{out.Tokens[i], out.Logprobs[i], out.Ranks[i], out.TopTokens[at:end], out.TopLogprobs[at:end]}
		at = end
	}
	for i, r := range d.Rows {
		checkWritten(t, i, r, &results[i])
	}
	return results
}

// checkWritten clears the fields that the row did not ask for.
func checkWritten(t testing.TB, row int, r backend.Draw, got *picked) {
	t.Helper()
	written := got.logprob != poison || got.rank != poison
	if want := r.Logprobs != backend.NoLogprobs && !r.Dead; written != want {
		t.Fatalf("row %d: log-probability %v and rank %d in mode %d", row, got.logprob, got.rank, r.Logprobs)
	}
	if !written {
		got.logprob, got.rank = 0, 0
	}
	if !r.Dead && (slices.Contains(got.top, poison) || slices.Contains(got.topLP, poison)) {
		t.Fatalf("row %d: not all top entries are written", row)
	}
}

// reference is the definition of the package comment, step by step. It sorts, adds up
// big integers, and visits tokens in a random order, which must not matter. It shares
// weight, gumbel, philox and logMass with Picker, which have tests of their own, and
// nothing else.
type reference struct {
	*rand.Rand
}

// pick computes a row.
func (f reference) pick(logits []float32, d *backend.Draws, row int) picked {
	r := d.Rows[row]
	legal := make([]float32, len(logits)) // NaN is illegal, +Inf the largest float
	for i, v := range logits {
		legal[i] = f.legal(v)
	}
	raw := f.mask(legal, d.Masks, r.Mask)
	first := int32(0)
	if row > 0 {
		first = d.Rows[row-1].EditEnd
	}
	edited := f.edit(f.mask(raw, d.Masks, r.Allow), d.Edits[first:r.EditEnd])
	z := f.scale(edited, r.Temperature)
	kept := f.finite(z)
	if r.Temperature > 0 {
		kept = f.filter(z, kept, r)
	}
	token := f.choose(z, kept, r)
	switch r.Logprobs {
	case backend.RawLogprobs:
		return f.report(raw, f.finite(raw), token, r)
	case backend.ProcessedLogprobs:
		return f.report(z, kept, token, r)
	}
	return picked{token: token, top: slices.Repeat([]int32{-1}, int(r.Top)), topLP: slices.Repeat([]float32{negInf}, int(r.Top))}
}

func (f reference) legal(v float32) float32 {
	if v != v {
		return negInf
	}
	return min(v, maxFloat)
}

// mask returns the row with row m of masks applied; -1 is no mask.
func (f reference) mask(row []float32, masks []uint32, m int32) []float32 {
	row = slices.Clone(row)
	words := (len(row) + 31) / 32
	for i := range row {
		if m >= 0 && masks[int(m)*words+i/32]>>(i%32)&1 == 0 {
			row[i] = negInf
		}
	}
	return row
}

func (f reference) edit(row []float32, edits []backend.Edit) []float32 {
	for _, e := range edits {
		v := row[e.Token]
		if v == negInf {
			continue
		}
		v = float32(v + e.Bias)
		if v > 0 {
			v = float32(v / e.Repeat)
		} else {
			v = float32(v * e.Repeat)
		}
		row[e.Token] = f.legal(float32(v - e.Minus))
	}
	return row
}

// scale returns z of a row.
func (f reference) scale(row []float32, temperature float32) []float32 {
	z := slices.Clone(row)
	if !(temperature > 0) {
		return z
	}
	inv := min(float32(1)/temperature, maxFloat)
	for i, v := range row {
		if v != negInf {
			z[i] = max(-maxFloat, min(maxFloat, float32(v*inv)))
		}
	}
	return z
}

// finite returns the tokens that are legal, the greatest first and equal ones in a
// random order.
func (f reference) finite(z []float32) (ids []int) {
	for i, v := range z {
		if v != negInf {
			ids = append(ids, i)
		}
	}
	f.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(z[b], z[a]) })
	return ids
}

// mass is the sum of the weights of tokens.
func (f reference) mass(z []float32, ids []int, top float32) *big.Int {
	sum, w := new(big.Int), new(big.Int)
	for _, i := range ids {
		sum.Add(sum, w.SetUint64(weight(z[i]-top)))
	}
	return sum
}

// filter returns those of kept, which is sorted, that min_p, top_k and top_p keep.
func (f reference) filter(z []float32, kept []int, r backend.Draw) []int {
	if len(kept) == 0 {
		return kept
	}
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
		kept = f.topP(z, kept, r.TopP)
	}
	return kept
}

func (f reference) topP(z []float32, kept []int, p float32) []int {
	top := z[kept[0]]
	total, _ := new(big.Float).SetInt(f.mass(z, kept, top)).Float64()
	limit, _ := big.NewFloat(math.Ceil(float64(p) * total)).Int(nil)
	above, equal, w := new(big.Int), new(big.Int), new(big.Int) // mass above the current value, and at it
	for n, i := range kept {
		if n > 0 && z[i] < z[kept[n-1]] {
			above.Add(above, equal)
			equal.SetInt64(0)
		}
		if above.Cmp(limit) >= 0 {
			return kept[:n]
		}
		equal.Add(equal, w.SetUint64(weight(z[i]-top)))
	}
	return kept
}

// choose draws a token from kept.
func (f reference) choose(z []float32, kept []int, r backend.Draw) int32 {
	if r.Target >= 0 {
		return r.Target
	}
	win, best := int32(-1), negInf
	for _, j := range f.Perm(len(kept)) {
		i := kept[j]
		score := z[i]
		if r.Temperature > 0 {
			c0, c1, c2, c3 := philox(uint32(i/4), r.Index, 0, 0x77656972, uint32(r.Seed), uint32(r.Seed>>32))
			score = float32(score + gumbel([4]uint32{c0, c1, c2, c3}[i%4]))
		}
		if score > best || score == best && int32(i) < win {
			win, best = int32(i), score
		}
	}
	return win
}

// report computes what a row says of token. kept is the distribution, sorted.
func (f reference) report(z []float32, kept []int, token int32, r backend.Draw) picked {
	inside := map[int32]bool{-1: false}
	for _, i := range kept {
		inside[int32(i)] = true
	}
	var zmax float32
	var mass float64
	if len(kept) > 0 {
		zmax = z[kept[0]]
		mass = logMass(f.mass(z, kept, zmax).Uint64())
	}
	logprob := func(i int32) float32 {
		if !inside[i] {
			return negInf
		}
		return float32((float64(z[i]) - float64(zmax)) - mass)
	}
	p := picked{token: token, logprob: logprob(token), rank: 1}
	for _, i := range kept {
		if !inside[token] || z[i] > z[token] {
			p.rank++
		}
	}
	best := slices.SortedFunc(slices.Values(kept), func(a, b int) int { return cmp.Or(cmp.Compare(z[b], z[a]), a-b) })
	for j := range int(r.Top) {
		id := int32(-1)
		if j < len(best) {
			id = int32(best[j])
		}
		p.top, p.topLP = append(p.top, id), append(p.topLP, logprob(id))
	}
	return p
}

// bothPickers returns a Picker without kernels and one with.
func bothPickers() []*Picker { return []*Picker{{}, {Kernels: goKernels}} }

// randomBatch adds one to three random rows of v logits to d.
func randomBatch(g *rand.Rand, v int) (d backend.Draws, logits [][]float32) {
	words := (v + 31) / 32
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
	return d, logits
}

// TestPickReference compares Picker, with and without kernels, with the reference.
func TestPickReference(t *testing.T) {
	pickers := bothPickers() // the same for all sizes, so that data left over from a longer row would be noticed
	for round := range 1200 {
		g := rand.New(rand.NewPCG(uint64(round), 7))
		v := 1 + g.IntN([]int{5, 40, 200, 1200, 5000}[g.IntN(5)])
		d, logits := randomBatch(g, v)
		got := [][]picked{pick(t, pickers[0], logits, &d), pick(t, pickers[1], logits, &d)}
		for i := range logits {
			want := reference{g}.pick(logits[i], &d, i)
			for k := range pickers {
				if !got[k][i].equal(want) {
					t.Fatalf("round %d, %d tokens, row %d of %+v, kernels %v:\n got %v\nwant %v", round, v, i, d.Rows[i], k > 0, got[k][i], want)
				}
			}
		}
	}
}

// FuzzPick: whatever the bits of the logits and whatever the draw, Picker does not
// crash and does what the reference does.
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
		want := reference{g}.pick(row, &d, 0)
		for _, p := range bothPickers() {
			if got := pick(t, p, [][]float32{row}, &d)[0]; !got.equal(want) {
				t.Fatalf("%+v, kernels %v:\n got %v\nwant %v", *r, p.hasKernels(), got, want)
			}
		}
	})
}
