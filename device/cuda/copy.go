//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"

	"gorgonia.org/cu"

	"weir/backend"
	"weir/internal/cudrv"
)

var _ backend.Copier = (*Device)(nil)

// copying copies KV blocks and states to the host and back, on a stream of its own, beside the step that is in flight: that one
// neither writes what is copied out nor sees what is copied in. It is made for the first copy.
type copying struct {
	stream cu.Stream
	host   pinned // of one block or state: memory that is not pinned is copied at a fraction of the speed
}

// free waits for the last copy and frees everything.
func (c *copying) free() error {
	if c.stream == (cu.Stream{}) {
		return nil
	}
	var err error
	if c.host.mem != nil {
		err = c.host.free()
	}
	err = errors.Join(err, cudrv.Wrap(c.stream.Destroy()))
	*c = copying{}
	return err
}

// CopySizes implements backend.Copier.
func (d *Device) CopySizes() (block, state int, ok bool) {
	return 2 * d.cache.blockStride, 4 * d.work.states.slot, true
}

// CopyOut implements backend.Copier.
func (d *Device) CopyOut(dst []byte, state bool, id int32) error {
	from, err := d.copied(len(dst), state, id)
	if err != nil || len(dst) == 0 {
		return err
	}
	c := &d.run.copying
	if err := cu.MemcpyDtoHAsync(c.host.pointer(), from, int64(len(dst)), c.stream); err != nil {
		return deviceError("copy a KV block to the host", err)
	}
	if err := c.stream.Synchronize(); err != nil {
		return deviceError("wait for a copy", err)
	}
	copy(dst, c.host.mem)
	return nil
}

// CopyIn implements backend.Copier.
func (d *Device) CopyIn(src []byte, state bool, id int32) error {
	to, err := d.copied(len(src), state, id)
	if err != nil || len(src) == 0 {
		return err
	}
	c := &d.run.copying
	copy(c.host.mem, src)
	if err := cu.MemcpyHtoDAsync(to, c.host.pointer(), int64(len(src)), c.stream); err != nil {
		return deviceError("copy a KV block to the device", err)
	}
	if err := c.stream.Synchronize(); err != nil {
		return deviceError("wait for a copy", err)
	}
	return nil
}

// copied is the address of a block or of a state slot, which has to have n bytes, and makes what copies need.
func (d *Device) copied(n int, state bool, id int32) (at cu.DevicePtr, err error) {
	block, slot, _ := d.CopySizes()
	base, size, most := d.cache.base, block, d.cache.blocks
	if state {
		base, size, most = d.work.states.base, slot, d.shape.Spec.StateSlots
	}
	if id <= 0 || int(id) >= most || n != size {
		return 0, fmt.Errorf("cuda: %d bytes are copied from or to number %d of %d, which has %d bytes", n, id, most, size)
	}
	c := &d.run.copying
	if c.stream == (cu.Stream{}) {
		if c.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
			return 0, deviceError("make a stream", err)
		}
	}
	if c.host.mem == nil {
		if c.host, err = newPinned(max(block, slot)); err != nil {
			return 0, err
		}
	}
	return cu.DevicePtr(base + uint64(id)*uint64(size)), nil
}
