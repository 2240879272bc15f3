//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"gorgonia.org/cu"

	"weir/device/cuda/kernels"
	"weir/internal/cudashim"
	"weir/internal/cudrv"
)

// Lab runs single kernels, to check and to time them. Like a Device it belongs
// to the thread that opened it.
type Lab struct {
	d   *Device
	mem arena
}

// OpenLab opens a device without a model.
func OpenLab(cfg Config) (*Lab, error) {
	d, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	return &Lab{d: d}, nil
}

// Close frees everything.
func (l *Lab) Close() error { return errors.Join(l.mem.close(), l.d.Close()) }

// Info describes the device.
func (l *Lab) Info() Info { return l.d.info }

// Emulated reports whether the driver is the one made for tests.
func (l *Lab) Emulated() bool { return l.d.info.Name == "Emulated GPU" }

// Attribute is a property of the device by the driver's number.
func (l *Lab) Attribute(n int) (int, error) {
	v, err := l.d.dev.Attribute(cu.DeviceAttribute(n))
	return v, cudrv.Wrap(err)
}

// Driver is the newest CUDA version that the driver knows, and the entry points
// of package cudashim that it lacks.
func (l *Lab) Driver() (version int, missing []string) { return cu.Version(), cudashim.Missing() }

// Memory is the free and the whole memory of the device, in bytes.
func (l *Lab) Memory() (free, total int64, err error) {
	free, total, err = cu.MemInfo()
	return free, total, cudrv.Wrap(err)
}

// KernelFacts is what the driver's compiler made of a kernel.
type KernelFacts struct{ Registers, Local, Shared int }

// Facts reports on an entry.
func (l *Lab) Facts(entry string) (f KernelFacts, err error) {
	k := l.d.lib.kernels[entry]
	if k == nil {
		return f, fmt.Errorf("%w: %s is not loaded", ErrConfig, entry)
	}
	for _, a := range []struct {
		to *int
		at cu.FunctionAttribute
	}{{&f.Registers, cu.NumRegs}, {&f.Local, cu.LocalSizeBytes}, {&f.Shared, cu.SharedSizeBytes}} {
		if *a.to, err = k.fn.Attribute(a.at); err != nil {
			return f, deviceError("ask for a kernel's properties", err)
		}
	}
	return f, nil
}

// Alloc returns n bytes of device memory, filled with 0xff, which is NaN in every
// format.
func (l *Lab) Alloc(n int) (uint64, error) {
	p, err := l.mem.bytes(int64(n))
	if err != nil {
		return 0, err
	}
	return p, l.Fill(p, 0xff, n)
}

// Free frees all memory that Alloc and Put returned.
func (l *Lab) Free() error {
	return errors.Join(cudrv.Wrap(l.d.run.stream.Synchronize()), l.mem.close())
}

// Fill sets n bytes.
func (l *Lab) Fill(p uint64, b byte, n int) error {
	return cudrv.Wrap(cu.MemsetD8Async(cu.DevicePtr(p), b, int64(n), l.d.run.stream))
}

// Copy copies n bytes on the device.
func (l *Lab) Copy(to, from uint64, n int) error {
	return cudrv.Wrap(cu.MemcpyDtoDAsync(cu.DevicePtr(to), cu.DevicePtr(from), int64(n), l.d.run.stream))
}

// Put copies a slice to new device memory.
func Put[T any](l *Lab, s []T) (uint64, error) {
	p, err := l.Alloc(len(of(s)))
	if err != nil {
		return 0, err
	}
	return p, l.d.upload(p, of(s))
}

// Take waits for the device and copies n values back.
func Take[T any](l *Lab, p uint64, n int) ([]T, error) {
	s := make([]T, n)
	if err := l.d.run.stream.Synchronize(); err != nil {
		return nil, deviceError("wait for the device", err)
	}
	if n > 0 {
		if err := cu.MemcpyDtoH(unsafe.Pointer(unsafe.SliceData(s)), cu.DevicePtr(p), int64(len(of(s)))); err != nil {
			return nil, deviceError("copy from the device", err)
		}
	}
	return s, nil
}

// Launch queues a kernel. Parameters are addresses (uint64), int, int64 and
// float32, as the entry lists them.
func (l *Lab) Launch(entry string, x, y, z int, params ...any) error {
	k, words, err := l.words(entry, 0, params)
	if err != nil {
		return err
	}
	return l.d.run.launch(k, x, y, z, words...)
}

// words converts parameters for a launch whose first ones are tensor maps.
func (l *Lab) words(entry string, maps int, params []any) (*kernel, []uint64, error) {
	k := l.d.lib.kernels[entry]
	if k == nil {
		return nil, nil, fmt.Errorf("%w: %s is not loaded", ErrConfig, entry)
	}
	if maps+len(params) != len(k.entry.Params) {
		return nil, nil, fmt.Errorf("%w: %d parameters for %s, which has %d", ErrConfig, maps+len(params), entry, len(k.entry.Params))
	}
	words := make([]uint64, len(params))
	for i, p := range params {
		switch v := p.(type) {
		case uint64:
			words[i] = v
		case int:
			words[i] = i32(v)
			if k.entry.Params[maps+i].Type == kernels.I64 {
				words[i] = uint64(v)
			}
		case float32:
			words[i] = f32(v)
		default:
			return nil, nil, fmt.Errorf("%w: parameter %d of %s is a %T", ErrConfig, maps+i, entry, p)
		}
	}
	return k, words, nil
}

// Box is a matrix of bf16, LD elements between rows, that a kernel reads through
// a tensor map in boxes of 64 columns by BoxRows rows.
type Box struct {
	Base                    uint64
	Rows, Cols, LD, BoxRows int
}

// LaunchBoxes is Launch for kernels whose first parameters are tensor maps.
func (l *Lab) LaunchBoxes(entry string, x, y, z int, boxes []Box, params ...any) error {
	k, words, err := l.words(entry, len(boxes), params)
	if err != nil {
		return err
	}
	maps := make([]tensor, len(boxes))
	for i, b := range boxes {
		maps[i] = tensor{base: b.Base, rows: b.Rows, cols: b.Cols, ld: b.LD, boxRows: b.BoxRows}
	}
	return l.d.run.launchTensors(k, x, y, z, maps, words...)
}

// Launched names the kernels that were launched since Forget, in the order of
// the launch table.
func (l *Lab) Launched() (names []string) {
	for i := range kernels.Entries {
		if k := l.d.lib.kernels[kernels.Entries[i].Name]; k != nil && k.launches > 0 {
			names = append(names, k.entry.Name)
		}
	}
	return names
}

// Forget starts the count of Launched anew.
func (l *Lab) Forget() {
	for _, k := range l.d.lib.kernels {
		k.launches = 0
	}
}

// Pack queues the writing of a matrix's tiles to w, which is to hold as many as
// TileBytes says, from rows of bf16.
func (l *Lab) Pack(as Format, w, rows uint64, n, k int) error {
	if err := l.Fill(w, 0, TileBytes(as, n, k)); err != nil {
		return err
	}
	return l.Launch(packers[as], cdiv(n, kernels.Tile), cdiv(k, kernels.Tile), 1, w, rows, n, k, 0, n, 0, 0, 0)
}

// TileBytes is the size of a matrix on the device.
func TileBytes(as Format, n, k int) int {
	return cdiv(n, kernels.Tile) * cdiv(k, kernels.Tile) * formats[as].tile
}

// A Product is y = x·wᵀ + bias for rows of x, as the kernels' launch table has it.
type Product struct {
	As             Format
	W              uint64 // tiles of [N, K]
	N, K           int
	X, Y           uint64
	LDX, LDY, Rows int
	Epilogue       int
	Bias           uint64 // float32 [N], or 0
	Work, Counters uint64 // as kernels.GemmWork says
}

// Gemm queues the product that a step would queue for so many rows.
func (l *Lab) Gemm(p Product) error {
	l.d.work.gemm, l.d.work.counters = p.Work, p.Counters
	l.d.gemm(&param{n: p.N, k: p.K, data: p.W, bias: p.Bias, as: p.As}, p.Y, p.LDY, p.X, p.LDX, p.Rows, p.Epilogue)
	err := l.d.err
	l.d.err = nil
	return err
}

// Graph captures what f queues and returns a function that replays it.
func (l *Lab) Graph(f func() error) (replay func() error, err error) {
	if err := cudrv.BeginCapture(l.d.run.stream); err != nil {
		return nil, deviceError("capture a graph", err)
	}
	ferr := f()
	g, err := cudrv.EndCapture(l.d.run.stream)
	if err != nil || ferr != nil {
		return nil, errors.Join(ferr, err)
	}
	defer g.Destroy()
	e, err := cudrv.Instantiate(g)
	if err != nil {
		return nil, deviceError("make a graph", err)
	}
	l.d.graphs.keep(e)
	return func() error { return cudrv.Replay(e, l.d.run.stream) }, nil
}

// Seconds is how long the device needs for one call of f: the median of five
// replays of a graph that holds n of them.
func (l *Lab) Seconds(n int, f func(i int) error) (float64, error) {
	replay, err := l.Graph(func() error {
		for i := range n {
			if err := f(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var times []float64
	for range 6 {
		s, err := l.Span(replay)
		if err != nil {
			return 0, err
		}
		times = append(times, s/float64(n))
	}
	times = times[1:] // the first one warms up
	slices.Sort(times)
	return times[len(times)/2], nil
}

// Span is how long the device needs for what f queues.
func (l *Lab) Span(f func() error) (float64, error) {
	a, err := cu.MakeEvent(cu.DefaultEvent)
	if err != nil {
		return 0, deviceError("make an event", err)
	}
	defer func() { _ = cu.DestroyEvent(&a) }()
	b, err := cu.MakeEvent(cu.DefaultEvent)
	if err != nil {
		return 0, deviceError("make an event", err)
	}
	defer func() { _ = cu.DestroyEvent(&b) }()
	err = errors.Join(cudrv.Wrap(a.Record(l.d.run.stream)), f(), cudrv.Wrap(b.Record(l.d.run.stream)), cudrv.Wrap(b.Synchronize()))
	if err != nil {
		return 0, deviceError("time", err)
	}
	ms, err := a.Elapsed(b)
	return ms / 1e3, cudrv.Wrap(err)
}

// Wait waits until everything that was queued is done.
func (l *Lab) Wait() error { return cudrv.Wrap(l.d.run.stream.Synchronize()) }
