//go:build cuda && linux && amd64

package cuda

import (
	"fmt"
	"unsafe"

	"weir/device/cuda/kernels"
	"weir/model"
)

// mixtures is scratch memory for mixtures of experts. An entry is a row and one of the experts that it
// chose; kernels find an expert's entries on the device, so no step waits for the host.
type mixtures struct {
	room           int    // rows whose entries fit at a time; more are computed in several turns
	chosen, weight uint64 // [MaxTokens, TopK] int32 and float32
	order, tiles   uint64 // [room*TopK] int32, and kernels.ExpertTile
	count          uint64
	both, mid, out uint64 // [room*TopK, .] bf16, bf16 and float32
	bothLD, midLD  int
	outLD          int
	loaded         uint64 // kernels.Loaded of all params, from seal on
}

// entryBytes bounds the results of experts that exist at a time, unless 64 rows have more.
const entryBytes = 256 << 20

// sized is memory that Plan allocates.
type sized struct {
	at   *uint64
	size []int
}

// plan says how much memory a network's mixtures need.
func (m *mixtures) plan(s model.Shape) []sized {
	x := s.Experts
	if x.Experts == 0 {
		return nil
	}
	rounded := func(n int) int { return int(roundUp(int64(n), actAlign)) }
	m.bothLD, m.midLD, m.outLD = rounded(2*int(roundUp(int64(x.Inner), kernels.Tile/2))), rounded(x.Inner), rounded(x.Width)
	tokens := s.Spec.MaxTokens
	m.room = min(tokens, max(64, entryBytes/(x.TopK*(2*m.bothLD+2*m.midLD+4*m.outLD))))
	entries := m.room * x.TopK
	most := 0
	for _, per := range kernels.GemmRows {
		most = max(most, kernels.MostTiles(entries, x.Experts, per))
	}
	return []sized{
		{&m.chosen, []int{tokens, x.TopK, 4}}, {&m.weight, []int{tokens, x.TopK, 4}},
		{&m.order, []int{entries, 4}}, {&m.tiles, []int{most, int(unsafe.Sizeof(kernels.ExpertTile{}))}}, {&m.count, []int{4}},
		{&m.both, []int{entries, m.bothLD, 2}}, {&m.mid, []int{entries, m.midLD, 2}}, {&m.out, []int{entries, m.outLD, 4}},
	}
}

// checkExperts compares a network's mixtures with what the kernels are compiled for.
func checkExperts(x model.ExpertShape) error {
	if x.Experts > kernels.MostExperts || x.TopK > kernels.MostChosen {
		return fmt.Errorf("%w: %d of %d experts, but the kernels choose at most %d of %d", ErrConfig, x.TopK, x.Experts, kernels.MostChosen, kernels.MostExperts)
	}
	return nil
}

// sealExperts writes the table of all matrices, by which products of experts find theirs.
func (d *Device) sealExperts() error {
	if d.shape.Experts.Experts == 0 {
		return nil
	}
	table := make([]kernels.Loaded, len(d.params))
	for i := range d.params {
		p := &d.params[i]
		table[i] = kernels.Loaded{W: p.data, Bias: p.bias, Format: int32(p.as)}
	}
	var err error
	if d.work.mix.loaded, err = d.rom.bytes(int64(len(of(table)))); err != nil {
		return err
	}
	return d.upload(d.work.mix.loaded, of(table))
}

// loadExact takes a matrix in as float32, [n, k].
func (d *Device) loadExact(p *param, m model.Matrix) error {
	p.n, p.k = m.Size()
	var err error
	if len(m.Bias) > 0 {
		if p.bias, _, err = d.loadVector(m.Bias); err != nil {
			return err
		}
	}
	v := make([]float32, p.n*p.k)
	rest := v
	for i := range m.Rows {
		t := &m.Rows[i]
		for r := range t.Shape[0] {
			row := rest[:p.k]
			rest = rest[p.k:]
			t.Widen(row, r, 0)
			for _, x := range row {
				if x-x != 0 {
					return fmt.Errorf("%w: a weight is not a number (tensor %q)", ErrConfig, t.Name)
				}
			}
		}
	}
	if p.data, err = d.rom.bytes(int64(len(v)) * 4); err != nil {
		return fmt.Errorf("%w (tensor %q)", err, m.Rows[0].Name)
	}
	return d.upload(p.data, of(v))
}

// exact is the product with a matrix that is kept in float32.
func (d *Device) exact(dst model.Act, p *param, src model.Act) {
	y, ldy := d.act(dst)
	x, ldx := d.act(src)
	rows := d.rows(dst)
	d.launch("exact", cdiv(p.n, kernels.ExactCols), cdiv(rows, kernels.ExactRows), 1, y, x, p.data, p.bias,
		i32(rows), i32(p.n), i32(p.k), i32(ldx), i32(ldy), i32(d.wide(dst, wideDst)|d.wide(src, wideSrc)))
}

// Experts implements model.Device.
func (d *Device) Experts(dst, src, logits model.Act, e *model.Experts) {
	m, x, experts := &d.work.mix, d.shape.Experts, len(e.GateUp)
	if !(dst.Width == src.Width && logits.Width == experts && len(e.Down) == experts && d.sum(logits) && e.Groups <= kernels.MostGroups &&
		experts <= x.Experts && e.TopK <= x.TopK && src.Width <= x.Width && e.Inner <= x.Inner) {
		panic(fmt.Sprintf("cuda: %d experts of %d for rows of %d into rows of %d", len(e.Down), logits.Width, src.Width, dst.Width))
	}
	d.route(logits, &e.Router)
	y, ldy := d.act(dst)
	in, ldx := d.factor(src)
	total, types := d.rows(dst), d.wide(dst, wideDst)
	for first := 0; first < total; first += m.room {
		n := min(m.room, total-first)
		chosen, weight := m.chosen+uint64(first*e.TopK*4), m.weight+uint64(first*e.TopK*4)
		d.mix(e, chosen, weight, in+uint64(first*ldx*2), ldx, src.Width, n)
		d.launch("sum_experts", n, cdiv(dst.Width, elementCols), 1, y+uint64(first*ldy*d.acts[dst.Buf].size()), m.out, chosen, weight,
			i32(e.TopK), i32(dst.Width), i32(ldy), i32(m.outLD), i32(types), i32(flag(!e.ScoreInput)))
	}
}

// route chooses the experts of each row of logits. Rows that fill up a graph's bucket choose none.
func (d *Device) route(logits model.Act, r *model.Router) {
	x, ld := d.act(logits)
	vector := func(w model.Weight) uint64 {
		if w == model.NoWeight {
			return 0
		}
		return d.params[w].data
	}
	d.launch("route", d.rows(logits), 1, 1, d.work.mix.chosen, d.work.mix.weight, x, vector(r.Bias), vector(r.PerExpert), d.step.at.live, i32(flag(d.acts[logits.Buf].Drawn)),
		i32(logits.Width), i32(r.TopK), i32(ld), i32(int(r.Score)), i32(r.Groups), i32(r.TopGroups), i32(flag(r.GroupBest2)), i32(flag(r.Renorm)),
		f32(r.Floor), f32(r.RenormAdd), f32(r.Jitter), f32(r.Scale))
}

// mix writes what the experts of n rows of x make of them to out.
func (d *Device) mix(e *model.Experts, chosen, weight, x uint64, ldx, width, n int) {
	m := &d.work.mix
	experts, entries, div := len(e.GateUp), n*e.TopK, e.TopK
	g := groupedRows{per: kernels.GroupedRows(entries, experts)}
	g.tiles = kernels.MostTiles(entries, experts, g.per)
	d.launch("group_rows", experts, 1, 1, m.order, m.tiles, m.count, chosen, i32(entries), i32(experts), i32(g.per))
	if e.ScoreInput { // out has room for the inputs of entries, until it is written
		padded := int(roundUp(int64(width), actAlign))
		for k := range e.TopK {
			d.launch("elements", n, cdiv(padded, elementCols), 1, m.out+uint64(k*m.outLD*2), x, weight+uint64(4*k), i32(elementsGate), i32(padded), i32(padded),
				i32(e.TopK*m.outLD), i32(ldx), i32(e.TopK), i32(wideGate), f32(1), i32(0), f32(0), f32(0), f32(0), f32(0))
		}
		x, ldx, div = m.out, m.outLD, 1
	}
	d.firstProduct(g, e, x, ldx, width, div, entries)
	d.grouped(g, e.Down, m.out, m.outLD, m.mid, m.midLD, 1, width, e.Inner, kernels.StoreF32)
}

// firstProduct writes what is between the two products of experts to mid.
func (d *Device) firstProduct(g groupedRows, e *model.Experts, x uint64, ldx, width, div, entries int) {
	m, a := &d.work.mix, e.Act
	blocks := cdiv(e.Inner, elementCols)
	if e.Plain {
		d.grouped(g, e.GateUp, m.mid, m.midLD, x, ldx, div, e.Inner, width, kernels.StoreBF16)
		d.launch("elements", entries, blocks, 1, m.mid, m.mid, m.mid, i32(elementsActivate), i32(e.Inner), i32(1), i32(m.midLD), i32(m.midLD), i32(m.midLD), i32(0),
			f32(1), i32(int(a.Kind)), f32(a.Alpha), f32(a.Beta), f32(a.Limit), f32(a.UpPlus))
		return
	}
	p := &d.params[e.GateUp[0]]
	if p.gated && a == (model.Activation{Kind: model.SiLU}) {
		d.grouped(g, e.GateUp, m.mid, m.midLD, x, ldx, div, p.n, width, kernels.SwiGLU)
		return
	}
	apart := e.Inner
	if p.gated {
		apart = 0
	}
	d.grouped(g, e.GateUp, m.both, m.bothLD, x, ldx, div, p.n, width, kernels.StoreBF16)
	d.launch("act_gate", entries, blocks, 1, m.mid, m.both, i32(e.Inner), i32(m.bothLD), i32(m.midLD), i32(apart),
		i32(int(a.Kind)), f32(a.Alpha), f32(a.Beta), f32(a.Limit), f32(a.UpPlus))
}

// groupedRows is how the entries of a step are cut into tiles.
type groupedRows struct{ per, tiles int }

// groupedNames are the products of experts, by format and kernels.GemmRows.
var groupedNames = func() (names [len(formats)]map[int]string) {
	for f := range formats {
		names[f] = map[int]string{}
		for _, n := range kernels.GemmRows {
			names[f][n] = fmt.Sprintf("grouped_%s_n%d", formats[f].name, n)
		}
	}
	return names
}()

// grouped multiplies the rows of each expert with its matrix, [n, k]. The numbers of the matrices must be as far
// apart from each other as the first two are, as they are when a network's experts are loaded one after the other.
// Whether they have one format depends on the checkpoint; there is a launch for each.
func (d *Device) grouped(g groupedRows, matrices []model.Weight, y uint64, ldy int, x uint64, ldx, div, n, k, epilogue int) {
	m := &d.work.mix
	base, step := int(matrices[0]), 0
	if len(matrices) > 1 {
		step = int(matrices[1]) - base
	}
	var there [len(formats)]bool
	for i, w := range matrices {
		p := &d.params[w]
		if !(int(w) == base+i*step && p.n == n && p.k == k && p.gated == d.params[base].gated) {
			panic(fmt.Sprintf("cuda: matrix %d of expert %d is [%d, %d], not [%d, %d], or is out of line", w, i, p.n, p.k, n, k))
		}
		there[p.as] = true
	}
	for f := range there {
		if there[f] {
			d.launch(groupedNames[f][g.per], cdiv(n, kernels.Tile), g.tiles, 1, y, x, m.loaded, m.order, m.tiles, m.count,
				i32(base), i32(step), i32(div), i32(n), i32(k), i32(ldx), i32(ldy), i32(epilogue))
		}
	}
}
