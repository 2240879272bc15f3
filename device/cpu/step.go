package cpu

import (
	"fmt"
	"math"
	"slices"

	"weir/backend"
	"weir/internal/invariants"
	"weir/model"
)

// Begin implements model.Device.
func (d *Device) Begin(b *backend.Batch) {
	if invariants.Enabled {
		invariants.NoError(b.Check(d.shape.Spec, len(d.drawn)))
	}
	d.team.wakeUp(d.team.threads) // they are needed in some microseconds
	d.batch = b
	d.input.of.Width = 0
	d.attendJob.planned = [3]int{}
	for i := range d.ropes {
		d.eachRow(rowJob{op: ropeRow, table: i}, len(b.Tokens), 32*d.ropes[i].width)
	}
}

// token is the id in row t. A negative entry names the row of the step before that drew
// the token. If that row could draw nothing, its sequence has ended, and what this row
// computes is never read.
func (d *Device) token(t int) int {
	id := d.batch.Tokens[t]
	if id < 0 {
		id = max(d.drawn[^id], 0)
	}
	return int(id)
}

// serialRows is the number of operations on single numbers below which rows are not
// shared out to the threads.
const serialRows = 1 << 14

// rowJob is an operation that treats every row on its own.
type rowJob struct {
	d        *Device
	op       func(j *rowJob, row int)
	dst, src view
	gate     view
	vec      []float32
	eps      float32 // of a norm, or a factor
	norm     normOf
	act      function
	by       model.Index
	offset   int
	weighted bool // of experts
	quantize bool // what op writes is the input of a product
	table    int  // of ropes
	embed    *embedding
	n, per   int // rows, and rows per chunk
}

func (j *rowJob) do(_, chunk int) {
	for r := chunk * j.per; r < min(j.n, (chunk+1)*j.per); r++ {
		j.op(j, r)
	}
}

// finish is for the end of an op that may have to quantize.
func (j *rowJob) finish(r int) {
	if j.quantize {
		j.d.impl.round(j.d.input.how, j.d.input.row(r), j.dst.row(r))
	}
}

// rowsPerChunk is how many rows are computed as one chunk, if there are n rows that cost so
// many operations each.
func (d *Device) rowsPerChunk(n, cost int) int {
	return max(serialRows/max(cost, 1), n/(d.team.threads*chunksPerWorker), 1)
}

// eachRow runs op on rows [0, n) that cost so many operations each.
func (d *Device) eachRow(j rowJob, n, cost int) {
	if n == 0 {
		return
	}
	j.d, j.n = d, n
	j.per = d.rowsPerChunk(n, cost)
	d.rowsJob = j
	d.team.run(1, (n+j.per-1)/j.per, &d.rowsJob)
}

// Embed implements model.Device.
func (d *Device) Embed(dst model.Act, w model.Weight, scale float32) {
	e := &d.params[w].embed
	if dst.Width != e.width {
		panic(fmt.Sprintf("cpu: Embed of rows of %d into rows of %d", e.width, dst.Width))
	}
	d.eachRow(rowJob{op: embedRow, dst: d.written(dst), embed: e, eps: scale}, len(d.batch.Tokens), dst.Width)
}

func embedRow(j *rowJob, r int) {
	y := j.dst.row(r)
	token := j.d.token(r)
	if token >= j.embed.rows {
		token = 0
	}
	if err := j.embed.read(y, token); err != nil {
		j.d.failed.set(err)
	}
	if j.eps != 1 {
		j.d.impl.scale(y, y, j.eps)
	}
}

// MatMulAdd implements model.Device.
func (d *Device) MatMulAdd(dst model.Act, w model.Weight, src, scratch model.Act) {
	if dst.Width != scratch.Width || scratch.Buf == dst.Buf || scratch.Buf == src.Buf {
		panic(fmt.Sprintf("cpu: MatMulAdd of rows of %d to rows of %d", scratch.Width, dst.Width))
	}
	d.MatMul(scratch, w, src)
	d.eachRow(rowJob{op: addRow, dst: d.written(dst), src: d.view(scratch)}, d.rows(dst), dst.Width)
}

func addRow(j *rowJob, r int) { j.d.impl.add(j.dst.row(r), j.src.row(r)) }

// EndForward implements model.Device. Every operation is done by then.
func (d *Device) EndForward() {}

// Gather implements model.Device.
func (d *Device) Gather(dst, src model.Act) {
	if dst.Width != src.Width {
		panic(fmt.Sprintf("cpu: Gather of rows of %d into rows of %d", src.Width, dst.Width))
	}
	d.eachRow(rowJob{op: gatherRow, dst: d.written(dst), src: d.view(src)}, len(d.batch.At), dst.Width)
}

func gatherRow(j *rowJob, r int) { copy(j.dst.row(r), j.src.row(int(j.d.batch.At[r]))) }

// ropeTable holds the rotations of the step's rows. They are the same in every
// layer, and a row's cost a few microseconds once per step; a table of all
// positions would be 64 MiB for 128 k positions, and slow the start.
type ropeTable struct {
	model.Rope
	width    int       // dimensions rotated / 2
	cos, sin []float32 // [MaxTokens, width]
}

func newRopeTable(mem *arena, r model.Rope, rows int) (ropeTable, error) {
	t := ropeTable{Rope: r, width: len(r.InvFreq)}
	n, err := sizeOf(rows, t.width)
	if err != nil {
		return t, err
	}
	if t.cos, err = mem.floats(n); err != nil {
		return t, err
	}
	t.sin, err = mem.floats(n)
	return t, err
}

// ropeRow rounds the angle to float32 before its sine, as Hugging Face's
// rotary embeddings do: at position 30,000 that moves the angle by 0.001, which
// the model has seen in training.
func ropeRow(j *rowJob, r int) {
	t, b := &j.d.ropes[j.table], j.d.batch
	pos, frequencies, scale := float32(b.Pos[r]), t.InvFreq, t.Scale
	if len(b.Long) > 0 && t.Long != nil {
		if s, _ := slices.BinarySearch(b.QueryEnd, int32(r+1)); b.IsLong(s) { // the first that ends behind row r
			frequencies, scale = t.Long, t.LongScale
		}
	}
	for i, f := range frequencies {
		sin, cos := math.Sincos(float64(float32(pos * f)))
		t.cos[r*t.width+i] = float32(cos) * scale
		t.sin[r*t.width+i] = float32(sin) * scale
	}
}
