package cpu

import (
	"fmt"
	"unsafe"

	"weir/backend"
)

var _ backend.Copier = (*Device)(nil)

// CopySizes implements backend.Copier.
func (d *Device) CopySizes() (block, state int, ok bool) {
	if len(d.caches) > 0 {
		block = d.caches[0].block
	}
	return block, 4 * d.states.slot, true
}

// CopyOut implements backend.Copier.
func (d *Device) CopyOut(dst []byte, state bool, id int32) error {
	from, err := d.copied(len(dst), state, id)
	copy(dst, from)
	return err
}

// CopyIn implements backend.Copier.
func (d *Device) CopyIn(src []byte, state bool, id int32) error {
	to, err := d.copied(len(src), state, id)
	copy(to, src)
	return err
}

// copied is the memory of a block or of a state slot, which has to have n bytes.
func (d *Device) copied(n int, state bool, id int32) ([]byte, error) {
	block, slot, _ := d.CopySizes()
	size, most := block, d.shape.Spec.NumBlocks
	if state {
		size, most = slot, d.shape.Spec.StateSlots
	}
	if id <= 0 || int(id) >= most || n != size {
		return nil, fmt.Errorf("cpu: %d bytes are copied from or to number %d of %d, which has %d bytes", n, id, most, size)
	}
	switch {
	case size == 0:
		return nil, nil
	case state:
		first := &d.states.data[int(id)*d.states.slot]
		return unsafe.Slice((*byte)(unsafe.Pointer(first)), size), nil
	}
	return d.caches[0].data[int(id)*size:][:size], nil
}
