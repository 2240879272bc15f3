package sim

import (
	"encoding/binary"

	"weir/backend"
)

var _ backend.Copier = (*Oracle)(nil)

const (
	slotBytes  = 4 + 4 + 4 + 1 // token, position, group, long
	stateBytes = 8 + 4         // hash, position
)

// CopySizes implements backend.Copier.
func (o *Oracle) CopySizes() (block, state int, ok bool) {
	if len(o.states) > 0 {
		state = stateBytes
	}
	return o.spec.BlockTokens * slotBytes, state, true
}

// copies checks a call of CopyOut or CopyIn.
func (o *Oracle) copies(data []byte, state bool, id int32, in bool) error {
	if o.turns.err != nil {
		return o.turns.err
	}
	block, slot, _ := o.CopySizes()
	want, most, flight := block, len(o.blocks), o.turns.ended // steps from this one on are in flight
	if state {
		want, most = slot, len(o.states)
	}
	var err error
	switch {
	case id <= 0 || int(id) >= most || len(data) != want:
		err = broken("%d bytes are copied from or to number %d of %d, which has %d bytes", len(data), id, most, want)
	case state && (o.states[id].wrote >= flight || in && o.states[id].read >= flight):
		err = broken("state slot %d is copied while a step that uses it is in flight", id)
	case !state && in && o.blocks[id].seen >= flight:
		err = broken("block %d is overwritten while a step that uses it is in flight", id)
	case !state && !in && o.writes(id, flight):
		err = broken("block %d is copied while a step that writes it is in flight", id)
	}
	if err != nil {
		return o.turns.fail(err)
	}
	return nil
}

// writes reports whether a step from this number on has written to a slot of a block.
func (o *Oracle) writes(id int32, step int) bool {
	for i := range o.spec.BlockTokens {
		if o.slots[int(id)*o.spec.BlockTokens+i].step >= step {
			return true
		}
	}
	return false
}

// CopyOut implements backend.Copier. A slot of the block that was never written is a breach: only whole blocks are of use.
func (o *Oracle) CopyOut(dst []byte, state bool, id int32) error {
	if err := o.copies(dst, state, id, false); err != nil {
		return err
	}
	if state {
		s := &o.states[id]
		binary.LittleEndian.PutUint64(dst, s.hash)
		binary.LittleEndian.PutUint32(dst[8:], uint32(s.pos))
		return nil
	}
	for i := range o.spec.BlockTokens {
		s, b := &o.slots[int(id)*o.spec.BlockTokens+i], dst[i*slotBytes:]
		if s.pos < 0 {
			return o.turns.fail(broken("block %d is copied before slot %d of it was written", id, i))
		}
		for j, v := range []int32{s.token, s.pos, s.group} {
			binary.LittleEndian.PutUint32(b[4*j:], uint32(v))
		}
		if b[12] = 0; s.long {
			b[12] = 1
		}
	}
	return nil
}

// CopyIn implements backend.Copier.
func (o *Oracle) CopyIn(src []byte, state bool, id int32) error {
	if err := o.copies(src, state, id, true); err != nil {
		return err
	}
	if state {
		s := &o.states[id]
		s.hash, s.pos = binary.LittleEndian.Uint64(src), int32(binary.LittleEndian.Uint32(src[8:]))
		return nil
	}
	o.blocks[id] = block{step: neverWritten, used: neverWritten, seen: neverWritten}
	for i := range o.spec.BlockTokens {
		b := src[i*slotBytes:]
		number := func(j int) int32 { return int32(binary.LittleEndian.Uint32(b[4*j:])) }
		o.slots[int(id)*o.spec.BlockTokens+i] = slot{token: number(0), pos: number(1), group: number(2), long: b[12] == 1, step: neverWritten}
	}
	return nil
}
