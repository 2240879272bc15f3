package cpu

import (
	"fmt"
	"math"

	"weir/model"
)

// selectJob is Select of some rows per chunk. Each row is a span of its own for the kernels of attention, because
// what follows its scores, the choice, is of the row alone.
type selectJob struct {
	d       *Device
	weights view
	s       model.Selection
	n, per  int

	positions int       // of the longest sequence, a multiple of 8; 0: the network chooses none
	chosen    []byte    // [MaxTokens, positions/8] bit p%8 of byte p/8: position p is chosen
	scores    []float32 // [workers, positions]
}

// allocate makes room for what is chosen, and for the scores of a row for each worker.
func (j *selectJob) allocate(mem *arena, s model.Shape) error {
	if s.Pieces&model.PieceSelect == 0 {
		return nil
	}
	positions := (s.Spec.MaxSeqTokens + 7) &^ 7
	n, err := sizeOf(s.Spec.MaxTokens, positions/8)
	if err != nil {
		return err
	}
	if j.chosen, err = mem.bytes(n); err != nil {
		return err
	}
	if n, err = sizeOf(j.d.team.threads, positions); err != nil {
		return err
	}
	if j.scores, err = mem.floats(n); err != nil {
		return err
	}
	j.positions = positions
	return nil
}

// Select implements model.Device.
func (d *Device) Select(q, weights model.Act, kv int, s model.Selection) {
	if kv < 0 || kv >= len(d.caches) {
		panic(fmt.Sprintf("cpu: Select from cache %d of %d", kv, len(d.caches)))
	}
	j, a, c := &d.selectJob, &d.attendJob, &d.caches[kv]
	heads := weights.Width
	if c.heads != 1 || heads > c.group || q.Width != heads*c.keyDim || j.positions == 0 {
		panic(fmt.Sprintf("cpu: Select by %d heads with rows of %d in cache %d", heads, q.Width, kv))
	}
	a.c, a.group, a.keys, a.dims = c, heads, c.queryColumns(), c.valueColumns()
	a.q, a.a, a.sinks = d.view(q), model.Attention{Scale: 1, Sinks: model.NoWeight}, nil
	clear(a.planned[:]) // the spans are not those of attention
	a.spans = a.spans[:0]
	row, b := 0, d.batch
	for i, end := range b.QueryEnd {
		for table := b.Table(c.table, i); row < int(end); row++ {
			a.spans = append(a.spans, span{row, row + 1, int(b.KVLen[i]), table})
		}
	}
	j.weights, j.s, j.n = d.view(weights), s, len(b.Tokens)
	j.per = max(1, j.n/(d.team.threads*chunksPerWorker))
	d.team.run(1, (j.n+j.per-1)/j.per, j)
}

func (j *selectJob) do(worker, chunk int) {
	for r := chunk * j.per; r < min(j.n, (chunk+1)*j.per); r++ {
		chosen, n := j.chosen[r*j.positions/8:][:j.positions/8], int(j.d.batch.Pos[r])+1
		clear(chosen)
		if n <= j.s.TopK {
			for p := range n {
				chosen[p/8] |= 1 << (p % 8)
			}
			continue
		}
		scores := j.scores[worker*j.positions:][:n]
		j.score(worker, r, scores)
		greatest(chosen, scores, j.s.TopK)
	}
}

// score writes the score of each position that row r sees.
func (j *selectJob) score(worker, r int, scores []float32) {
	a, sc := &j.d.attendJob, &j.d.scratch[worker].attn
	s, weights, k := &a.spans[r], j.weights.row(r), a.dots
	a.load(sc, s, 0)
	clear(scores)
	data := a.c.data[a.c.at(0):]
	p0, p1 := a.parts(s)
	for p := p0; p < p1; p++ {
		a.units(sc.offs, s, p)
		u0, u1, _ := a.reach(s, r, r+1, p)
		to := scores[p*partTokens+u0*rowsPerTile:]
		to = to[:min(len(to), (u1-u0)*rowsPerTile)]
		for r0, m := range a.passes(s) {
			tiles := k.tiles[m]
			offs := sc.offs[u0 : u0+(u1-u0+tiles-1)/tiles*tiles]
			a.scores(sc, data, offs, r0, m)
			for h := range m {
				w, scale := weights[r0+h], float32(j.s.Scale*sc.scale[r0+h].e) // with Int8 e is the query's unit, or else 1
				for i, x := range sc.scores[h*scoreStride:][:len(to)] {
					to[i] += float32(w * max(float32(x*scale), 0))
				}
			}
		}
	}
}

// greatest sets the bits of the n greatest scores, and of those that equal the least of these, the first ones.
func greatest(chosen []byte, scores []float32, n int) {
	// The n-th greatest is found digit by digit, as a number whose order is that of the scores.
	var prefix, mask uint32
	left := n
	for shift := 24; shift >= 0; shift -= 8 {
		var count [256]int
		for _, x := range scores {
			if k := orderOf(x); k&mask == prefix {
				count[k>>shift&255]++
			}
		}
		digit := 255
		for ; count[digit] < left; digit-- {
			left -= count[digit]
		}
		prefix, mask = prefix|uint32(digit)<<shift, mask|255<<shift
	}
	for p, x := range scores {
		k := orderOf(x)
		if k == prefix && left > 0 {
			left--
		} else if k <= prefix {
			continue
		}
		chosen[p/8] |= 1 << (p % 8)
	}
}

// orderOf is a number whose order is that of floats. The two zeros are equal, and NaN is the least.
func orderOf(x float32) uint32 {
	if x != x {
		return 0
	}
	b := math.Float32bits(x + 0) // no negative zero
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

// keep sets the scores of positions from start on that are not chosen for row r to -Inf. It reports whether any is left.
func (j *selectJob) keep(r int, scores []float32, start int) (any bool) {
	chosen := j.chosen[r*j.positions/8:][:j.positions/8]
	for i := range scores {
		if p := start + i; p < j.positions && chosen[p/8]>>(p%8)&1 != 0 {
			any = true
		} else {
			scores[i] = float32(math.Inf(-1))
		}
	}
	if !any {
		clear(scores) // which are multiplied with values
	}
	return any
}
