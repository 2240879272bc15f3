package cpu

import (
	"errors"
	"fmt"

	"weir/backend"
	"weir/model"
	"weir/sampler"
)

var _ model.Device = (*Device)(nil)

// Device computes on the processors of this machine. One goroutine owns it and
// makes all calls; operations are done when they return, but for Draw, which
// End carries out.
type Device struct {
	cfg       Config
	impl      *impl
	team      *workers
	mem       arena // activations, KV cache, scratch
	weightMem arena // weights

	planned bool
	shape   model.Shape
	acts    []activation   // by Act.Buf
	params  []param        // by Weight
	packed  map[*byte]bool // first bytes of the tensors that matrices were packed from
	input   input          // rounded rows for impl.dot
	caches  []cache        // by number
	states  states
	experts experts
	own     int // how many of acts are the model's; the others are of experts
	ropes   []ropeTable
	scratch []scratch // by worker
	memory  Memory

	failed oneError // of the step, for End

	batch *backend.Batch // the step's, from Begin to End
	drawn []int32        // what the previous step drew, by row
	draw  drawState

	jobs
}

// jobs are kept in a Device because a job in an interface must not be allocated.
type jobs struct {
	rowsJob    rowJob
	headsJob   headsJob
	inputJob   inputJob
	productJob productJob
	groupJob   groupJob
	attendJob  attendJob
	selectJob  selectJob
	stateJob   stateJob
	pickJob    pickJob
}

// Memory is what a Device holds, in bytes. The KV cache is not resident before
// it is used.
type Memory struct {
	Weights     int64 // repacked matrices; embeddings stay in the mapped file
	KV          int64
	Activations int64
	Scratch     int64
}

// activation is one buffer, [rows, stride] of which width columns are used.
type activation struct {
	data          []float32
	width, stride int
	drawn         bool
	factor        bool // products read it
}

// Open starts the workers. Plan comes next.
func Open(cfg Config) (*Device, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	place, err := machine().place(cfg.Threads, cfg.Pin)
	if err != nil {
		return nil, err
	}
	return open(cfg, place)
}

// open is Open with the given placement of threads.
func open(cfg Config, place placement) (*Device, error) {
	im, err := choose(cfg.Impl)
	if err != nil {
		return nil, err
	}
	team, err := newWorkers(place)
	if err != nil {
		return nil, err
	}
	d := &Device{cfg: cfg, impl: im, team: team, packed: map[*byte]bool{}}
	d.draw.kernels = im.draws()
	d.mem.huge, d.weightMem.huge = cfg.HugePages, cfg.HugePages
	d.groupJob.d, d.rowsJob.d, d.headsJob.d, d.inputJob.d, d.productJob.d, d.attendJob.d, d.selectJob.d, d.pickJob.d = d, d, d, d, d, d, d, d
	return d, nil
}

// Close stops the workers and releases all memory. It may be called twice.
func (d *Device) Close() error {
	if d.team == nil {
		return nil
	}
	d.team.close()
	if d.cfg.Tiles != nil {
		d.cfg.Tiles.Close()
	}
	mem, weightMem := d.mem.close(), d.weightMem.close()
	*d = Device{}
	return errors.Join(mem, weightMem)
}

// Memory reports what Plan and Load have allocated so far.
func (d *Device) Memory() Memory {
	m := d.memory
	m.Weights = d.weightMem.total
	return m
}

// WeightBytes is Memory().Weights.
func (d *Device) WeightBytes() int64 { return d.weightMem.total }

// Impl names the tier of instructions in use, one of Impls.
func (d *Device) Impl() string { return d.impl.name }

// Threads is how many threads compute, the caller's included.
func (d *Device) Threads() int { return d.team.threads }

// view is a block of columns of an activation buffer.
type view struct {
	data          []float32 // from the block's first column of row 0 on
	width, stride int
}

func (v view) row(i int) []float32 {
	return v.data[i*v.stride:][:v.width:v.width]
}

// from is the view from row r and column c on; its width is not used.
func (v view) from(r, c int) view {
	v.data = v.data[r*v.stride+c:]
	return v
}

func (d *Device) view(a model.Act) view {
	b := &d.acts[a.Buf]
	if a.Off < 0 || a.Width <= 0 || a.Off+a.Width > b.width {
		panic(fmt.Sprintf("cpu: columns [%d, %d) of an activation that has %d", a.Off, a.Off+a.Width, b.width))
	}
	return view{b.data[a.Off:], a.Width, b.stride}
}

// rows is how many rows of a's buffer this step uses.
func (d *Device) rows(a model.Act) int {
	if a.Buf >= d.own {
		return d.experts.n
	}
	if d.acts[a.Buf].drawn {
		return len(d.batch.At)
	}
	return len(d.batch.Tokens)
}

// scratch is one worker's own memory, allocated by Plan.
type scratch struct {
	attn    attendScratch
	key     []float32 // [KeyDim] of a key on its way to the cache
	value   []float32 // [ValueDim] of a value
	offs    []int     // [maxTilesPerPass] tile offsets of one kernel call
	ahead   []int     // [maxTilesPerPass] what it prefetches
	head    []float32 // [headFloats] queries and keys of a recurrence
	conv    []float32 // [maxConv-1+stateRows, convColumns] rows of a convolution
	edge    []float32 // [rows of a kernel, 16] results of a tile that is not full
	chunk   []float32 // [draftRows, stride of draftTiles tiles] results of a chunk of the head
	blocks  []byte    // a tile's blocks, expanded
	wide    []byte    // the same as float32
	pairs   pairScratch
	ordered []float32             // a row in the order of a matrix's columns
	drafts  []sampler.PartialDraw // [draftRows]
	picker  sampler.Picker
	_       [linePad]byte
}
