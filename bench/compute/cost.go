package compute

import (
	"weir/backend"
	"weir/model"
)

// Cost is what one step or several have to do.
type Cost struct {
	WeightBytes float64 // weights read
	KVBytes     float64 // keys and values read
	StateBytes  float64 // recurrent states read and written
	Products    float64 // operations of matrix products
	Attention   float64 // operations of attention
	Recurrence  float64 // operations of convolutions and recurrences
	Mixtures    float64 // mixtures of experts that were computed
	Experts     float64 // experts whose weights they read, each counted once for a mixture and step
}

// Bytes is the number of bytes that are moved from and to memory.
func (c Cost) Bytes() float64 { return c.WeightBytes + c.KVBytes + c.StateBytes }

// ExpertsPerMixture is how many experts of a mixture a step reads, as a mean; 0 if there is none.
func (c Cost) ExpertsPerMixture() float64 { return c.Experts / max(c.Mixtures, 1) }

func (c *Cost) add(d Cost) {
	c.WeightBytes += d.WeightBytes
	c.KVBytes += d.KVBytes
	c.StateBytes += d.StateBytes
	c.Products += d.Products
	c.Attention += d.Attention
	c.Recurrence += d.Recurrence
	c.Mixtures += d.Mixtures
	c.Experts += d.Experts
}

// over is c divided by n.
func (c Cost) over(n float64) Cost {
	return Cost{c.WeightBytes / n, c.KVBytes / n, c.StateBytes / n, c.Products / n, c.Attention / n, c.Recurrence / n, c.Mixtures / n, c.Experts / n}
}

// Gauge is what a device tells of its weights beside model.Device. device/cpu knows both anyway,
// so that nothing is counted while a server computes.
type Gauge interface {
	// WeightBytes is the size of everything that was loaded so far.
	WeightBytes() int64
	// ExpertRows is how many rows chose an expert in the last Experts.
	ExpertRows(expert int) int
}

// ledger counts what a runner asks of its device, operation by operation. So it is true for any
// network, and leaves out what the runner leaves out, such as most of the last layer for rows
// that are not drawn.
type ledger struct {
	gauge    Gauge
	shape    model.Shape
	batch    *backend.Batch
	matrices []loaded // by model.Weight
	kvBytes  float64  // bytes of a position in all caches
	kvSize   float64  // and numbers
	cost     Cost
}

// loaded is a matrix as the device has it.
type loaded struct{ size, bytes float64 }

// take returns the cost of what was done since it was last called.
func (l *ledger) take() Cost {
	c := l.cost
	l.cost = Cost{}
	return c
}

func (l *ledger) plan(s model.Shape) {
	l.shape, l.kvSize = s, 0
	for _, kv := range s.KV {
		l.kvSize += numbers(kv)
	}
}

// numbers is how many a position has in a cache.
func numbers(kv model.KVShape) float64 { return float64(kv.KVHeads * kv.Numbers()) }

// load notes a matrix. Vectors and embeddings have none: a step reads few of their numbers.
func (l *ledger) load(m model.Matrix, bytes int64) {
	x := loaded{}
	if m.Use != model.Vector && m.Use != model.Embedding {
		n, k := m.Size()
		x = loaded{float64(n) * float64(k), float64(bytes)}
	}
	l.matrices = append(l.matrices, x)
}

// rows is how many rows an operation on a has.
func (l *ledger) rows(a model.Act) int {
	if l.shape.Acts[a.Buf].Drawn {
		return len(l.batch.At)
	}
	return len(l.batch.Tokens)
}

func (l *ledger) product(w model.Weight, rows int) {
	if rows == 0 {
		return
	}
	m := &l.matrices[w]
	l.cost.WeightBytes += m.bytes
	l.cost.Products += 2 * float64(rows) * m.size
}

// experts counts the experts that some row has chosen. The operation must be done.
func (l *ledger) experts(e *model.Experts) {
	l.cost.Mixtures++
	for x := range e.GateUp {
		if n := l.gauge.ExpertRows(x); n > 0 {
			l.cost.Experts++
			l.product(e.GateUp[x], n)
			l.product(e.Down[x], n)
		}
	}
}

func (l *ledger) draw(head model.Head, d *backend.Draws) {
	n := 0
	for i := range d.Rows {
		if !d.Rows[i].Hidden {
			n++
		}
	}
	if head.W != model.NoWeight {
		l.product(head.W, n)
	}
}

func (l *ledger) attend(q model.Act, cache int, a *model.Attention) {
	kv := l.shape.KV[cache]
	perPosition := numbers(kv) / l.kvSize * l.kvBytes
	perPair := float64(2 * (q.Width / kv.KeyDim) * (kv.KeyDim + kv.ValueDim))
	first := 0
	for s, end := range l.batch.QueryEnd {
		positions, pairs := visible(int(l.batch.KVLen[s]), int(end)-first, a)
		first = int(end)
		l.cost.KVBytes += float64(positions) * perPosition
		l.cost.Attention += float64(pairs) * perPair
	}
}

// visible returns how many positions the last rows of a sequence of length kv see together,
// each counted once, and how many pairs of a row and a position that it sees there are.
func visible(kv, rows int, a *model.Attention) (positions, pairs int) {
	least := kv
	for pos := kv - rows; pos < kv; pos++ {
		first := 0
		if a.Window > 0 {
			first = max(first, pos-a.Window+1)
		}
		if a.Chunk > 0 {
			first = max(first, pos/a.Chunk*a.Chunk)
		}
		last := pos
		if a.Bidirectional {
			last = kv - 1
			if a.Window > 0 {
				last = min(last, pos+a.Window-1)
			}
		}
		least = min(least, first)
		pairs += last - first + 1
	}
	return kv - least, pairs
}

// recur counts an operation on a recurrent state with so many operations for each row. A state of a
// sequence is read, unless the sequence begins, and written.
func (l *ledger) recur(state, perRow int) {
	size := 4 * float64(l.shape.States[state])
	for _, in := range l.batch.StateIn {
		l.cost.StateBytes += size
		if in != 0 {
			l.cost.StateBytes += size
		}
	}
	l.cost.Recurrence += float64(len(l.batch.Tokens)) * float64(perRow)
}

// A number of a state is multiplied by its decay, read for the product with the key, added to, and
// read for the result: 1 + 2 + 2 + 2 operations. Mamba's needs no product with the key.
func (l *ledger) delta(d *model.Delta) { l.recur(d.State, 7*d.ValueHeads*d.KeyDim*d.ValueDim) }
func (l *ledger) scan(n *model.Scan)   { l.recur(n.State, 5*n.Heads*n.HeadDim*n.StateDim) }
func (l *ledger) conv(src model.Act, c *model.Conv) {
	l.recur(c.State, 2*c.Width*src.Width)
}
