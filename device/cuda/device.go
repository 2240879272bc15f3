//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"gorgonia.org/cu"

	"weir/device/cuda/kernels"
	"weir/internal/cudrv"
	"weir/model"
)

var (
	_ model.Device  = (*Device)(nil)
	_ model.Resizer = (*Device)(nil)
)

// network is what a Device was planned for.
type network struct {
	shape  model.Shape
	heads  []heads // by Shape.KV
	groups []int   // tokens of a tile of attention, for each way to cut runs
}

// Device computes on one GPU. It belongs to the OS thread that opened it, which
// stays locked to the goroutine until Close.
type Device struct {
	cfg  Config
	info Info
	dev  cu.Device
	ctx  cu.CUContext
	lib  library
	run  launcher

	rom    arena // weights
	mem    arena // activations and scratch
	pool   arena // KV blocks
	stage  staging
	params []param // by Weight
	loaded map[origin]uint64
	need   struct{ work, counters int64 } // of the largest matrix, for the few-row products
	sealed bool

	network
	acts    []activation
	ropes   []rope
	work    workspace
	cache   cache
	step    step
	flights [2]flight
	steps   struct{ begun, ended uint32 }
	drawing drawing
	graphs  graphs
	err     error // the first of the steps in flight
}

// hung lists the devices that stopped answering. A call to one of them would not return.
var hung struct {
	sync.Mutex
	devices map[int]bool
}

// Open takes the device's primary context and compiles the kernels. Plan comes
// next.
func Open(cfg Config) (_ *Device, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	list, err := Probe(cfg.Driver)
	if err != nil {
		return nil, err
	}
	if cfg.Ordinal >= len(list) {
		return nil, fmt.Errorf("%w: there is no device %d, the driver has %d", ErrConfig, cfg.Ordinal, len(list))
	}
	info := list[cfg.Ordinal]
	if !info.Usable() {
		return nil, fmt.Errorf("%w: %s: the kernels need sm_80 or newer", ErrConfig, info)
	}
	hung.Lock()
	dead := hung.devices[cfg.Ordinal]
	hung.Unlock()
	if dead {
		return nil, fmt.Errorf("%w: device %d has stopped answering", ErrDevice, cfg.Ordinal)
	}
	d := &Device{cfg: cfg, info: info, lib: library{kernels: map[string]*kernel{}}, loaded: map[origin]uint64{}}
	d.run.bind()
	d.graphs.enabled = !cfg.PlainLaunch
	if d.dev, err = cu.GetDevice(cfg.Ordinal); err != nil {
		return nil, deviceError("open the device", err)
	}
	if d.ctx, err = d.dev.RetainPrimaryCtx(); err != nil {
		return nil, deviceError("take the device's context", err)
	}
	runtime.LockOSThread()
	defer func() {
		if err != nil {
			_ = d.Close() // the first error says more
		}
	}()
	if err := cu.SetCurrentContext(d.ctx); err != nil {
		return nil, deviceError("make the context current", err)
	}
	if d.run.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return nil, deviceError("make a stream", err)
	}
	if err := d.lib.load(&d.cfg, kernels.SM80, info); err != nil {
		return nil, err
	}
	switch {
	case cfg.Products == MMA:
	case !info.Hopper():
		return nil, fmt.Errorf("%w: %s has no wgmma", ErrConfig, info)
	default:
		if err := d.lib.load(&d.cfg, kernels.SM90a, info); err != nil {
			return nil, err
		}
		if d.run.params, err = cudrv.NewParams(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Info describes the device.
func (d *Device) Info() Info { return d.info }

// Close frees everything and gives up the context. It may be called twice.
func (d *Device) Close() error {
	if d.ctx == (cu.CUContext{}) {
		return nil
	}
	defer runtime.UnlockOSThread()
	hung.Lock()
	dead := hung.devices[d.cfg.Ordinal]
	hung.Unlock()
	if dead {
		*d = Device{}
		return nil
	}
	// The driver reports errors of a step again here. Close only reports whether memory
	// was freed, and after such an error the context frees it.
	broken := d.err != nil
	d.graphs.abandon(d.run.stream)
	d.graphs.close()
	if d.run.stream != (cu.Stream{}) {
		_ = d.run.stream.Synchronize()
	}
	var err error
	for i := range d.flights {
		err = errors.Join(err, d.flights[i].free())
	}
	err = errors.Join(err, d.stage.free(), d.run.copying.free(), d.step.free(), d.drawing.close(), d.rom.close(), d.mem.close(), d.pool.close(), d.lib.close())
	if d.run.stream != (cu.Stream{}) {
		err = errors.Join(err, cudrv.Wrap(d.run.stream.Destroy()))
	}
	if d.run.params != nil {
		d.run.params.Free()
	}
	if broken {
		err = nil
	}
	err = errors.Join(err, cudrv.Wrap(cu.SetCurrentContext(cu.CUContext{})), cudrv.Wrap(d.dev.ReleasePrimaryCtx()))
	*d = Device{}
	if err != nil {
		return fmt.Errorf("%w: close: %w", ErrDevice, err)
	}
	return nil
}

// fail keeps the first error of the steps in flight.
func (d *Device) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// launch queues a kernel of the step, unless one has failed or the step is the
// replay of a graph.
func (d *Device) launch(name string, x, y, z int, words ...uint64) {
	if d.idle() {
		return
	}
	if err := d.run.launch(d.lib.kernels[name], x, y, z, words...); err != nil {
		d.fail(err)
	}
}

// idle reports whether operations have nothing to do.
func (d *Device) idle() bool { return d.err != nil || d.graphs.replaying }

// Memory is what a Device holds, in bytes.
type Memory struct{ Weights, KV, Scratch int64 }

// Memory reports what has been allocated so far.
func (d *Device) Memory() Memory {
	return Memory{Weights: d.rom.total, KV: d.pool.total, Scratch: d.mem.total}
}
