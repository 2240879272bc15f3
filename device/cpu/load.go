package cpu

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"unsafe"

	"weir/model"
	"weir/weights"
)

// param is what a Weight names: one of three things, by Use.
type param struct {
	linear linear
	embed  embedding
	vec    []float32
	turned []float32 // of a convolution: see turn
}

// linear is a linear layer: matrices below each other, one for each run of stacked tensors
// that are stored alike.
type linear struct {
	n, k  int
	parts []matrix
}

// matrix is weights in tiles of 16 output rows.
type matrix struct {
	n, k   int
	first  int // its first row, of those of the linear layer
	format Format
	exact  bool      // blocks that are multiplied as float32
	order  []int32   // [k] the columns, in the order in which they are stored; nil: in theirs
	tile   int       // bytes of a tile
	data   []byte    // [ceil(n/16)] tiles; rows from n on are zero
	bias   []float32 // [ceil(n/16)*16], or nil
}

func (m *matrix) tiles() int { return (m.n + rowsPerTile - 1) / rowsPerTile }

// embedding reads rows from the checkpoint's own memory: a step needs a few
// rows of a table that is often the model's largest.
type embedding struct {
	rows, width int
	parts       []weights.Tensor
	add         []float32 // [tokens of a step, addPart] what EmbedAdd has read
}

// read widens row id into dst. A file that was cut either faults, or ends within the page and
// reads as zeros to the end of the row.
func (e *embedding) read(dst []float32, id int) (err error) { return e.readPart(dst, id, 0) }

// readPart is read for the columns from first on, a multiple of 256.
func (e *embedding) readPart(dst []float32, id, first int) (err error) {
	defer weights.CatchFault(debug.SetPanicOnFault(true), e.parts, &err)
	row := id
	for i := range e.parts {
		t := &e.parts[i]
		if row < t.Shape[0] {
			t.Widen(dst, row, first)
			if dst[len(dst)-1] == 0 {
				return t.File.Check()
			}
			return nil
		}
		row -= t.Shape[0]
	}
	panic(fmt.Sprintf("cpu: token %d is not in the embedding's %d rows", id, e.rows))
}

// Load implements model.Device.
func (d *Device) Load(m model.Matrix) (model.Weight, error) {
	if err := m.Check(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	var p param
	var err error
	switch m.Use {
	case model.Linear, model.Gated, model.Exact:
		p.linear, err = d.loadLinear(m)
	case model.Embedding:
		p.embed, err = d.loadEmbedding(m)
	case model.Vector:
		p.vec, err = d.loadVector(m.Rows, 1)
	}
	if err != nil {
		return 0, err
	}
	d.params = append(d.params, p)
	return model.Weight(len(d.params) - 1), nil
}

// loadVector widens vectors, one after another, and pads with zeros to a
// multiple of the given length.
func (d *Device) loadVector(parts []weights.Tensor, multiple int) ([]float32, error) {
	n := 0
	for _, t := range parts {
		n += t.Shape[0]
	}
	v, err := d.weightMem.floats((n + multiple - 1) / multiple * multiple)
	if err != nil {
		return nil, err
	}
	i := 0
	for _, t := range parts {
		t.Widen(v[i:i+t.Shape[0]], 0, 0)
		for _, x := range v[i : i+t.Shape[0]] {
			if !finite(x) {
				return nil, &badWeight{t.Name, x, F32}
			}
		}
		i += t.Shape[0]
	}
	return v, nil
}

// loadLinear packs a linear layer, part by part.
func (d *Device) loadLinear(m model.Matrix) (linear, error) {
	l := linear{parts: d.partsOf(m)}
	l.n, l.k = m.Size()
	i := 0
	for p := range l.parts {
		w := &l.parts[p]
		part, end := model.Matrix{Use: m.Use}, i
		for rows := 0; rows < w.n; end++ {
			rows += m.Rows[end].Shape[0]
		}
		part.Rows = m.Rows[i:end]
		if len(m.Bias) > 0 {
			part.Bias = m.Bias[i:end]
		}
		if err := d.loadMatrix(w, part); err != nil {
			return linear{}, err
		}
		i = end
	}
	return l, nil
}

// partsOf cuts stacked tensors where their formats change, so that none is stored in more
// memory than its numbers need.
func (d *Device) partsOf(m model.Matrix) []matrix {
	var parts []matrix
	first := 0
	for i := range m.Rows {
		t := &m.Rows[i]
		f := d.storedAs(t)
		if m.Use == model.Exact {
			f = F32 // whatever others are, since a rounding could change which expert is chosen
		}
		var order []int32
		if f != F32 {
			order = columnOrder(t)
		}
		if len(parts) == 0 || parts[len(parts)-1].format != f || !slices.Equal(parts[len(parts)-1].order, order) {
			w := matrix{order: order, k: t.Shape[1], first: first, format: f, tile: f.tileBytes(t.Shape[1])}
			w.exact = d.cfg.WeightType == F32 && f != F32 && f != FP8
			parts = append(parts, w)
		}
		parts[len(parts)-1].n += t.Shape[0]
		first += t.Shape[0]
	}
	return parts
}

// loadMatrix packs m into w, whose size and format are known.
func (d *Device) loadMatrix(w *matrix, m model.Matrix) error {
	if w.format == W8A8 && w.k > maxWhole {
		return fmt.Errorf("%w: tensor %q has rows of %d, more than %s can sum up", ErrConfig, m.Rows[0].Name, w.k, w.format)
	}
	size, err := sizeOf(w.tiles(), w.tile)
	if err != nil {
		return err
	}
	if len(m.Bias) > 0 {
		if w.bias, err = d.loadVector(m.Bias, rowsPerTile); err != nil {
			return err
		}
	}
	if w.data, err = d.weightMem.bytes(size); err != nil {
		return err
	}
	if err := d.fill(w, m.Rows); err != nil {
		return err
	}
	for _, t := range m.Rows {
		d.packed[unsafe.SliceData(t.Data)] = true
	}
	if d.cfg.HugePages {
		collapse(w.data)
	}
	if err := d.expectPairs(w); err != nil {
		return err
	}
	if err := d.expectBlocks(w); err != nil {
		return err
	}
	return d.input.expect(d, w)
}

// fill reads w's tiles from the cache, or packs them.
func (d *Device) fill(w *matrix, rows []weights.Tensor) error {
	cached, key := d.cached(w), ""
	if cached {
		key = d.tileKey(w, rows)
	}
	if !cached || !d.restore(w, key) {
		j := &packJob{w: w, rows: rows, kept: map[*weights.Tensor]bool{}}
		for i := range rows {
			t := &rows[i]
			// storedAs has looked at the numbers, but where the format is the configuration's.
			j.kept[t] = (tilesOf(t) == w.format || t.Packed != nil && withZeros(t) == w.format) && (d.cfg.WeightType == Auto || w.exact || w.format.holds(t))
		}
		d.team.runAtHome(w.tiles(), j) // on the nodes that will read them
		if err := j.bad.take(); err != nil {
			return err
		}
	}
	if cached {
		d.cfg.Tiles.Keep(key, w.tile, w.data)
	}
	return nil
}

// storedAs is the format of a tensor in memory. Blocks keep their codes, also where they are
// to be float32, for they are widened when they are used; if there are no tiles for their type
// they are widened now.
func (d *Device) storedAs(t *weights.Tensor) Format {
	as := d.cfg.WeightType
	switch {
	case as != Auto && as != F32:
		return as
	case asNumbers(t):
		if as == Auto {
			as = formatOf(t.DType)
		}
		return as
	}
	if t.Packed != nil && t.Packed.Order != nil && as == F32 {
		return F32 // products with widened tiles take their columns in the order of the rows
	}
	f := tilesOf(t)
	if t.Packed != nil && d.team != nil {
		f = d.packedAs(t)
	}
	if f != Auto && d.impl.multiplies(f) {
		return f
	}
	return F32
}

// multiplies reports whether there are kernels for tiles of f.
func (im *impl) multiplies(f Format) bool {
	s := f.blocks()
	return s == nil || im.blocks.dot[f-firstBlocks] != nil || im.blocks.dotExpanded[f-firstBlocks] != nil
}

// tilesOf is the format of tiles that keep the codes of t, Auto if there is none.
func tilesOf(t *weights.Tensor) Format {
	if t.Packed != nil {
		return packedFormat(t)
	}
	return blockFormatOf(t.DType)
}

// packColumns is how much of a row is packed before the next row of the tile:
// 16 rows of it fit the first-level cache.
const packColumns = 512

// packJob fills one tile per chunk.
type packJob struct {
	w    *matrix
	rows []weights.Tensor
	kept map[*weights.Tensor]bool // whose codes are kept, and not rounded once more
	bad  oneError
}

// oneError keeps one of the errors of a job's chunks.
type oneError struct{ p atomic.Pointer[error] }

func (e *oneError) set(err error) { e.p.CompareAndSwap(nil, &err) }

// take returns the error that is kept, or nil, and forgets it.
func (e *oneError) take() error {
	if p := e.p.Swap(nil); p != nil {
		return *p
	}
	return nil
}

// badWeight is the complaint about a number that is none, or that a format cannot hold.
type badWeight struct {
	tensor string
	value  float32
	format Format
}

func (e *badWeight) Error() string {
	if e.finite() {
		return fmt.Sprintf("%v: tensor %q holds %v, which %s cannot store", ErrConfig, e.tensor, e.value, e.format)
	}
	return fmt.Sprintf("%v: tensor %q holds %v, which is not a weight", weights.ErrDamaged, e.tensor, e.value)
}

func (e *badWeight) Unwrap() error {
	if e.finite() {
		return ErrConfig
	}
	return weights.ErrDamaged
}

func (e *badWeight) finite() bool { return finite(e.value) }

func finite(v float32) bool { return v-v == 0 }

func (j *packJob) do(_, chunk int) {
	if err := j.packTile(chunk); err != nil {
		j.bad.set(err)
	}
}

// packTile packs one tile. Its error is that of a fault; a bad weight is kept in j.
func (j *packJob) packTile(chunk int) (err error) {
	defer weights.CatchFault(debug.SetPanicOnFault(true), j.rows, &err)
	w := j.w
	tile := w.data[chunk*w.tile:][:w.tile]
	// The tile's rows are in one tensor or across the border of several.
	var from [rowsPerTile]*weights.Tensor // nil: no row
	var row [rowsPerTile]int              // of the tensor
	first := 0
	for i := range j.rows {
		t := &j.rows[i]
		for r := range rowsPerTile {
			if i := chunk*rowsPerTile + r - first; i >= 0 && i < t.Shape[0] {
				row[r], from[r] = i, t
			}
		}
		first += t.Shape[0]
	}
	if w.format == W8A8 {
		for r := range rowsPerTile {
			if from[r] == nil {
				continue
			}
			j.packWhole(tile, r, from[r], row[r])
		}
		return nil
	}
	for r := range rowsPerTile {
		if w.order != nil && from[r] != nil && !w.format.repackOrdered(tile, r, from[r], row[r], w.order) {
			j.bad.set(damaged(from[r], row[r], 0, min(packColumns, w.k)))
		}
	}
	for k0 := 0; k0 < w.k && w.order == nil; k0 += packColumns {
		for r := range rowsPerTile {
			if from[r] != nil {
				j.pack(tile, r, from[r], row[r], k0, min(k0+packColumns, w.k))
			}
		}
	}
	return nil
}

// packWhole stores row i of t as row r of a tile of W8A8.
func (j *packJob) packWhole(tile []byte, r int, t *weights.Tensor, i int) {
	if j.kept[t] {
		if !repackWhole(tile, r, t, i) {
			j.bad.set(damaged(t, i, 0, min(packColumns, j.w.k)))
		}
		return
	}
	if bad, ok := packWhole(tile, r, t, i, j.w.k); !ok {
		j.bad.set(&badWeight{t.Name, bad, j.w.format})
	}
}

// pack stores columns [k0, k1) of row i of t as row r of the tile; k0 is a
// multiple of packColumns.
func (j *packJob) pack(tile []byte, r int, t *weights.Tensor, i, k0, k1 int) {
	f := j.w.format
	if j.kept[t] {
		if !f.repack(tile, r, t, i, k0, k1) {
			j.bad.set(damaged(t, i, k0, k1))
		}
		return
	}
	if !f.quantized() && asNumbers(t) {
		size := j.w.k * t.DType.Size()
		src := t.Data[t.StoredRow(i)*size:][:size]
		if !f.packRow(tile, r, t.DType, src, k0, k1) {
			j.bad.set(f.complaint(t, src, k0, k1))
		}
		return
	}
	var row [packColumns]float32
	v := row[:k1-k0]
	t.Widen(v, i, k0)
	for i, x := range v {
		if !(x <= f.largest() && x >= -f.largest()) {
			j.bad.set(&badWeight{t.Name, x, f})
			return
		}
		if f.quantized() && i%blockColumns == 0 {
			f.packBlock(tile, (k0+i)/blockColumns, r, v[i:min(i+blockColumns, len(v))])
		}
	}
	if !f.quantized() {
		f.putRow(tile[k0/2*f.pairBytes():], r, v)
	}
}

// asNumbers reports whether Data are t's numbers, one after another.
func asNumbers(t *weights.Tensor) bool { return t.Packed == nil && !t.DType.Blocked() }

// complaint is about the first of the numbers [k0, k1) of src that f cannot hold.
func (f Format) complaint(t *weights.Tensor, src []byte, k0, k1 int) *badWeight {
	for k := k0; k < k1; k++ {
		if v := number(t.DType, src, k); !(v <= f.largest() && v >= -f.largest()) {
			return &badWeight{t.Name, v, f}
		}
	}
	return &badWeight{t.Name, 0, f} // the file has changed meanwhile
}

// checkJob looks for numbers that are none in a table that is not packed, a piece per chunk.
type checkJob struct {
	table []weights.Tensor // one
	bad   oneError
}

// checkBytes is the size of a piece, a multiple of every number's size.
const checkBytes = 1 << 20

func (j *checkJob) do(_, chunk int) {
	if err := j.check(chunk); err != nil {
		j.bad.set(err)
	}
}

func (j *checkJob) check(chunk int) (err error) {
	defer weights.CatchFault(debug.SetPanicOnFault(true), j.table, &err)
	t := &j.table[0]
	if !asNumbers(t) {
		return checkRow(t, chunk)
	}
	piece := t.Data[chunk*checkBytes:]
	piece = piece[:min(len(piece), checkBytes)]
	if at := weights.NotFinite(t.DType, piece); at >= 0 {
		return &badWeight{t.Name, number(t.DType, piece, at), F32}
	}
	return nil
}

// checkRow looks for numbers that are none in row r of a table whose numbers are codes.
func checkRow(t *weights.Tensor, r int) error {
	var row [packColumns]float32
	for k0 := 0; k0 < t.Shape[1]; k0 += packColumns {
		v := row[:min(packColumns, t.Shape[1]-k0)]
		t.Widen(v, r, k0)
		for _, x := range v {
			if !finite(x) {
				return &badWeight{t.Name, x, F32}
			}
		}
	}
	return nil
}

// loadEmbedding leaves the table where it is. All of it is read once, to refuse a number that
// is none, unless a matrix that was packed from the same bytes has been: a tied head is.
func (d *Device) loadEmbedding(m model.Matrix) (embedding, error) {
	e := embedding{parts: m.Rows}
	e.rows, e.width = m.Size()
	for i, t := range m.Rows {
		if d.packed[unsafe.SliceData(t.Data)] || d.knownFinite(&t) {
			continue
		}
		j, pieces := &checkJob{table: m.Rows[i : i+1]}, (len(t.Data)+checkBytes-1)/checkBytes
		if !asNumbers(&t) {
			pieces = t.Shape[0]
		}
		d.team.run(1, pieces, j)
		if err := j.bad.take(); err != nil {
			return e, err
		}
		d.keepFinite(&t)
	}
	return e, nil
}
