//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"weir/device/cuda/kernels"
	"weir/internal/cudrv"
	"weir/model"
	"weir/weights"
)

// param is what a Weight names.
type param struct {
	n, k int
	data uint64 // tiles of [n, k], or n float32
	bias uint64 // [n] float32, or 0
	use  model.Use
	as   Format // of a matrix
	// gated says that 32 rows of gate and 32 of up take turns in the tiles, for the
	// SwiGLU epilogue. The last ones are filled up with zeros, which n counts, too.
	gated bool
}

// stageBytes is the size of a piece of a matrix on its way to the device.
const stageBytes = 16 << 20

// staging is two pieces of pinned memory that are used in turns. Each has a counterpart
// on the device, from which it is packed into tiles.
type staging struct {
	host [2]pinned
	dev  [2]cu.DevicePtr
	done [2]cu.Event
	size int
	turn int
}

// Load implements model.Device.
func (d *Device) Load(m model.Matrix) (model.Weight, error) {
	if err := m.Check(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	p := param{use: m.Use}
	var err error
	switch m.Use {
	case model.Linear, model.Gated, model.Embedding:
		err = d.loadMatrix(&p, m)
	case model.Exact:
		err = d.loadExact(&p, m)
	case model.Vector:
		p.data, p.n, err = d.loadVector(m.Rows)
	}
	if err != nil {
		return 0, err
	}
	d.params = append(d.params, p)
	return model.Weight(len(d.params) - 1), nil
}

// dtypes are the stored types that pack_* read.
var dtypes = map[weights.DType]int{weights.BF16: 0, weights.F16: 1, weights.F32: 2}

func (d *Device) loadMatrix(p *param, m model.Matrix) error {
	p.n, p.k = m.Size()
	if len(m.Bias) > 0 {
		var err error
		if p.bias, _, err = d.loadVector(m.Bias); err != nil {
			return err
		}
	}
	if p.use == model.Gated {
		// The epilogue cannot add a bias. Such a product is stored, and silu_gate
		// follows.
		if p.gated = len(m.Bias) == 0; p.gated {
			p.n = 2 * int(roundUp(int64(p.n/2), kernels.Tile/2))
		}
	}
	as, packed, err := d.cfg.StoredAs(m)
	if err != nil {
		return err
	}
	p.as = as
	if p.use != model.Embedding {
		d.need.work = max(d.need.work, int64(kernels.GemmWork(mostFew, mostFew, p.n, p.k)))
		d.need.counters = max(d.need.counters, int64(kernels.GemmCounters(mostFew, mostFew, p.n))*4)
	}
	// Only a head can be an embedding too. The parts of other tensors may be copies that exist only while they are loaded.
	from := origin{unsafe.SliceData(m.Rows[0].Data), p.as}
	shared := len(m.Rows) == 1 && p.n == d.shape.Spec.VocabSize
	if shared && d.loaded[from] != 0 {
		p.data = d.loaded[from]
		return nil
	}
	size, err := product(cdiv(p.n, kernels.Tile), cdiv(p.k, kernels.Tile), formats[p.as].tile)
	if err != nil {
		return err
	}
	if p.data, err = d.rom.bytes(size); err != nil {
		return fmt.Errorf("%w (tensor %q)", err, m.Rows[0].Name)
	}
	if packed {
		err = d.packExact(p, m)
	} else {
		err = d.packRounded(p, m, size)
	}
	if err != nil {
		return err
	}
	if shared {
		d.loaded[from] = p.data
	}
	return nil
}

// packRounded has the numbers of all tensors rounded to p.as, in tiles of so many bytes in sum.
func (d *Device) packRounded(p *param, m model.Matrix, size int64) error {
	if err := d.zero(p.data, size); err != nil {
		return err
	}
	row := 0
	for i := range m.Rows {
		t := &m.Rows[i]
		if err := d.pack(p, t, row, i); err != nil {
			return fmt.Errorf("%w (tensor %q)", err, t.Name)
		}
		if !p.gated {
			row += t.Shape[0]
		}
	}
	return nil
}

// pack sends a tensor in pieces and packs them into the rows from row0 on. The tensors
// of a gated matrix are its parts 0 and 1.
func (d *Device) pack(p *param, t *weights.Tensor, row0, part int) error {
	per, interleave := kernels.Tile, 0
	if p.gated {
		per, interleave = kernels.Tile/2, 1
	}
	dtype := t.DType
	if t.Quantized() {
		dtype = weights.F32
	}
	rows, rowBytes := t.Shape[0], t.Shape[1]*dtype.Size()
	step := max(stageBytes/rowBytes/kernels.Tile*kernels.Tile, kernels.Tile)
	if err := d.stage.grow(d, min(step, rows)*rowBytes); err != nil {
		return err
	}
	for at := 0; at < rows; at += step {
		n := min(step, rows-at)
		s, i := &d.stage, d.stage.turn
		s.turn ^= 1
		if err := s.done[i].Synchronize(); err != nil {
			return deviceError("wait for a copy", err)
		}
		piece := s.host[i].mem[:n*rowBytes]
		stage(piece, t, at, rowBytes)
		if !p.as.within(piece, dtype) {
			return fmt.Errorf("%w: a weight is not a number, or greater than %s can store, %g", ErrConfig, p.as, formats[p.as].largest)
		}
		if err := cu.MemcpyHtoDAsync(s.dev[i], s.host[i].pointer(), int64(n*rowBytes), d.run.stream); err != nil {
			return deviceError("copy to the device", err)
		}
		err := d.run.launch(d.lib.kernels[packers[p.as]], cdiv((row0+at)%per+n, per), cdiv(p.k, kernels.Tile), 1,
			p.data, uint64(s.dev[i]), i32(n), i32(p.k), i32(row0+at), i32(p.n), i32(dtypes[dtype]), i32(interleave), i32(part))
		if err != nil {
			return err
		}
		if err := s.done[i].Record(d.run.stream); err != nil {
			return deviceError("mark a copy", err)
		}
	}
	return nil
}

// stage writes rows of t, from row at on, into piece: as they are stored if they are numbers,
// else as float32.
func stage(piece []byte, t *weights.Tensor, at, rowBytes int) {
	if !t.Quantized() && t.Pairs == 0 {
		copy(piece, t.Data[at*rowBytes:])
		return
	}
	for r := at; len(piece) > 0; r, piece = r+1, piece[rowBytes:] {
		if !t.Quantized() {
			copy(piece[:rowBytes], t.Data[t.StoredRow(r)*rowBytes:])
		} else {
			t.Widen(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(piece))), rowBytes/4), r, 0)
		}
	}
}

// grow makes the pieces hold n bytes.
func (s *staging) grow(d *Device, n int) error {
	if n <= s.size {
		return nil
	}
	if err := d.run.stream.Synchronize(); err != nil {
		return deviceError("wait for the device", err)
	}
	if err := s.free(); err != nil {
		return err
	}
	n = int(roundUp(int64(n), 1<<20))
	for i := range s.host {
		var err error
		if s.host[i], err = newPinned(n); err != nil {
			return err
		}
		if s.dev[i], err = cu.MemAlloc(int64(n)); err != nil {
			return deviceError("allocate memory for loading", err)
		}
		if s.done[i], err = cu.MakeEvent(cu.DisableTiming); err != nil {
			return deviceError("make an event", err)
		}
	}
	s.size = n
	return nil
}

func (s *staging) free() error {
	var err error
	for i := range s.host {
		if len(s.host[i].mem) > 0 {
			err = errors.Join(err, s.host[i].free())
		}
		if s.dev[i] != 0 {
			err = errors.Join(err, cudrv.Wrap(cu.MemFree(s.dev[i])))
		}
		if s.done[i] != (cu.Event{}) {
			err = errors.Join(err, cudrv.Wrap(cu.DestroyEvent(&s.done[i])))
		}
	}
	*s = staging{}
	return err
}

// loadVector widens vectors to float32, one after another.
func (d *Device) loadVector(parts []weights.Tensor) (at uint64, n int, err error) {
	for _, t := range parts {
		n += t.Shape[0]
	}
	v := make([]float32, n)
	rest := v
	for i := range parts {
		t := &parts[i]
		own := rest[:t.Shape[0]]
		rest = rest[len(own):]
		t.Widen(own, 0, 0)
		for _, x := range own {
			if x-x != 0 {
				return 0, 0, fmt.Errorf("%w: a weight is not a number (tensor %q)", ErrConfig, t.Name)
			}
		}
	}
	if at, err = d.rom.bytes(int64(len(v)) * 4); err != nil {
		return 0, 0, err
	}
	return at, len(v), d.upload(at, of(v))
}

// mostFew is the greatest number of rows of the few-row products.
var mostFew = kernels.GemmRows[len(kernels.GemmRows)-1]

// seal allocates what the products of the largest matrix need, and frees what only
// loading needed. The first step calls it.
func (d *Device) seal() error {
	d.sealed = true
	var err error
	if d.work.gemm, err = d.mem.bytes(d.need.work); err != nil {
		return err
	}
	if err := d.sealExperts(); err != nil {
		return err
	}
	if d.work.counters, err = d.mem.bytes(d.need.counters); err != nil {
		return err
	}
	if err := d.zero(d.work.counters, d.need.counters); err != nil {
		return err
	}
	if err := d.run.stream.Synchronize(); err != nil {
		return deviceError("wait for the device", err)
	}
	clear(d.loaded)
	return d.stage.free()
}
