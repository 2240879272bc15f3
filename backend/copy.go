package backend

// A Copier is a Backend whose KV blocks and state slots can be copied to memory of the host and back. The bytes mean something only
// to backends of the same kind, with the same weights, types and sizes of blocks: what is copied in on
// one of these is what was copied out, and every bit that is computed from it is the same.
//
// The engine calls it between two calls of a step. Nobody else writes what is copied out then: the steps that computed it have
// ended. Nobody reads or writes what is copied in: no token of a step that is in flight sees it.
type Copier interface {
	// CopySizes are the bytes of a block and of a state slot; either may be 0. ok is false if this backend cannot copy.
	CopySizes() (block, state int, ok bool)
	// CopyOut copies block id, or state slot id if state is set, to dst.
	CopyOut(dst []byte, state bool, id int32) error
	// CopyIn copies src to block id, or to state slot id if state is set.
	CopyIn(src []byte, state bool, id int32) error
}
