package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/internal/jsontext"
	"weir/store"
	"weir/trajectory"
)

// Upload stages one batch. It is a trajectory.Sink, for one goroutine. Every
// upload ends with Commit or Abort, and Abort after Commit does nothing.
type Upload struct {
	a             *Archive
	ctx           context.Context
	tenant, model string
	id            uploadID

	buf     [streams][]byte // the block that is being filled
	blocks  [streams]uint64 // how many are complete
	record  []byte
	packed  []byte  // the last block, compressed, in a buffer that is used again
	pending []block // complete, not handed to the store yet
	bytes   int     // in pending

	staged  bool       // blocks were handed to the store, so there is a marker
	staging chan error // receives the result of the staging update that is running; nil if none is
	ended   bool

	batch   Batch
	rewards []float64 // of the group that is being uploaded
	shape   shape     // of what has been staged, if changes are noted

	held struct { // reserved for what has these names above
		buf                              [streams]int64
		record, packed, pending, rewards int64
		shape                            int64
	}
}

type block struct{ key, value []byte }

// stageBytes is how much is handed to the store at a time. It fits into one transaction of
// badger, which takes 15 % of a memtable of 16 MiB.
const stageBytes = 1 << 20

// Begin begins an upload. It can only be aborted after ctx has ended. What it holds is
// reserved with ctx (package memory).
func (a *Archive) Begin(ctx context.Context, tenant, model string) (*Upload, error) {
	if err := a.waitOpen(); err != nil {
		return nil, err
	}
	return &Upload{a: a, ctx: ctx, tenant: tenant, model: model, id: newUploadID(), batch: Batch{Model: model}}, nil
}

// Trajectory stages a trajectory.
func (u *Upload) Trajectory(t *trajectory.Trajectory) error {
	r := Row{Group: t.Group, Index: t.Index, Facts: t.Facts, text: u.span(len(t.Text))}
	if err := u.write(texts, t.Text); err != nil {
		return err
	}
	if err := u.recordRoom(r.recordSize()); err != nil {
		return err
	}
	u.record = r.append(u.record)
	if err := u.writeRecord(rows); err != nil {
		return err
	}
	if err := u.addPosition(t.Group, t.Index); err != nil {
		return err
	}
	b := &u.batch
	b.Trajectories++
	if r.Scored {
		if err := u.addReward(r.Reward); err != nil {
			return err
		}
		if b.Rewards == nil {
			b.Rewards = &[2]float64{r.Reward, r.Reward}
		}
		b.Rewards[0], b.Rewards[1] = min(b.Rewards[0], r.Reward), max(b.Rewards[1], r.Reward)
	}
	if v := r.Version(); v.Given {
		b.Versions.add(v.N)
	}
	if !r.Start.IsZero() {
		b.Starts.add(r.Start.UnixMicro())
	}
	return nil
}

// Group stages what a group has besides its trajectories, which were staged before.
func (u *Upload) Group(g *trajectory.Group) error {
	r := GroupRow{Index: g.Index, Trajectories: g.Trajectories, Exceptions: g.Exceptions, Metrics: g.Metrics, text: u.span(len(g.Text))}
	if err := u.write(texts, g.Text); err != nil {
		return err
	}
	if r.Scored = len(u.rewards); r.Scored > 0 {
		r.Mean, r.Deviation = trajectory.Spread(u.rewards)
	}
	u.rewards = u.rewards[:0]
	if err := u.recordRoom(fixedBytes + scoresSize(r.Metrics)); err != nil {
		return err
	}
	if err := u.endGroup(g.Index); err != nil {
		return err
	}
	u.record = r.append(u.record)
	u.batch.Groups++
	u.batch.Exceptions += g.Exceptions
	return u.writeRecord(groups)
}

// span is where the next n bytes of text will be.
func (u *Upload) span(n int) textRange { return textRange{u.batch.size[texts], int64(n)} }

// writeRecord writes the length of u.record and u.record.
func (u *Upload) writeRecord(s stream) error {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(u.record)))
	if err := u.write(s, length[:n]); err != nil {
		return err
	}
	return u.write(s, u.record)
}

// write appends to a stream, and stages blocks when there are enough.
func (u *Upload) write(s stream, p []byte) error {
	u.batch.size[s] += int64(len(p))
	for len(p) > 0 {
		n := min(len(p), blockSize-len(u.buf[s]))
		if err := u.room(s, n); err != nil {
			return err
		}
		u.buf[s] = append(u.buf[s], p[:n]...)
		p = p[n:]
		if len(u.buf[s]) < blockSize {
			break
		}
		if err := u.seal(s); err != nil {
			return err
		}
		if u.bytes >= stageBytes {
			if err := u.stage(); err != nil {
				return err
			}
		}
	}
	return nil
}

// seal completes the block that is being filled.
func (u *Upload) seal(s stream) error {
	if n := packedSize(len(u.buf[s])); n > cap(u.packed) {
		if err := u.grow(&u.held.packed, int64(n+cap(u.packed))); err != nil {
			return err
		}
		u.packed = make([]byte, 0, n)
	}
	u.packed = u.a.codec.compress(u.packed[:0], u.buf[s])
	n := u.bytes + len(u.packed) + keyBytes
	if err := u.grow(&u.held.pending, stagedCopies*int64(n)); err != nil {
		return err
	}
	u.pending = append(u.pending, block{blockKey(u.id, s, u.blocks[s]), bytes.Clone(u.packed)}) // it may be a small part of its buffer
	u.bytes = n
	u.blocks[s]++
	u.buf[s] = u.buf[s][:0]
	return nil
}

// sealAll completes the blocks that are being filled, and waits until all before them are staged.
func (u *Upload) sealAll() error {
	for s := range streams {
		if len(u.buf[s]) > 0 {
			if err := u.seal(s); err != nil {
				return err
			}
		}
	}
	return u.waitStaged()
}

// stage hands the pending blocks to the store, which writes them while the next ones are
// being compressed.
func (u *Upload) stage() error {
	if err := u.waitStaged(); err != nil {
		return err
	}
	blocks, first := u.pending, !u.staged
	u.pending, u.bytes, u.staged = nil, 0, true
	u.staging = make(chan error, 1)
	go func() {
		u.staging <- u.a.db.Update(u.ctx, func(tx *store.Tx) error {
			if first {
				tx.Set(markerKey(u.id), nil)
			}
			for _, b := range blocks {
				tx.Set(b.key, b.value)
			}
			return nil
		})
	}()
	return nil
}

// waitStaged waits for the staging update that is running.
func (u *Upload) waitStaged() error {
	if u.staging == nil {
		return nil
	}
	err := <-u.staging
	u.staging = nil
	return err
}

// Meta describes a batch; it is known at the end of an upload.
type Meta struct {
	Split string
	Step  trajectory.Int
	Bytes int64
	// Key is the Idempotency-Key of the request or "", and Digest that of its body.
	Key    string
	Digest []byte
	Calls  []Call // the chat completions that were recorded
}

// keepKeys is how long an Idempotency-Key is remembered.
const keepKeys = 72 * time.Hour

var errDuplicate = errors.New("archive: the batch is there already")

// Commit makes the batch visible and durable in one update. Of a batch without groups only
// the key is stored. The error is ErrConflict, one of the store, or that of the context of
// the upload. After store.ErrFailed the batch may or may not be there.
func (u *Upload) Commit(m Meta) (Receipt, error) {
	if err := u.sealAll(); err != nil {
		return Receipt{}, err
	}
	b := &u.batch
	b.Split, b.Step, b.Bytes, b.upload = m.Split, m.Step, m.Bytes, u.id
	var before Receipt
	err := u.a.db.Update(u.ctx, func(tx *store.Tx) (err error) {
		if m.Key != "" {
			if before, err = u.earlierReceipt(tx, m); err != nil {
				return err
			}
		}
		b.Received = u.a.commitTime()
		b.ID = newID(b.Received)
		if b.Groups > 0 {
			if err := u.writeBatch(tx); err != nil {
				return err
			}
			u.indexCalls(tx, m.Calls)
		}
		if m.Key != "" {
			tx.SetUntil(receiptKey(u.tenant, u.model, m.Key), b.Receipt.encode(m.Digest), b.Received.Add(keepKeys))
		}
		return nil
	})
	switch {
	case errors.Is(err, errDuplicate):
		return before, nil // Abort sweeps
	case errors.Is(err, store.ErrFailed):
		// The batch may be there, so nothing may be removed now. If it is not, its marker
		// is there, and the next start removes its blocks.
		u.ended = true
	}
	if err != nil {
		return Receipt{}, err
	}
	u.ended = true
	return b.Receipt, nil
}

// writeBatch writes the pending blocks and the header, and removes the marker.
func (u *Upload) writeBatch(tx *store.Tx) error {
	for _, p := range u.pending {
		tx.Set(p.key, p.value)
	}
	tx.Set(headerKey(u.tenant, u.model, u.batch.ID), u.batch.encode())
	if u.staged {
		tx.Delete(markerKey(u.id))
	}
	return u.noteWritten(tx)
}

// earlierReceipt looks for an earlier request with the same key. If there is one, the error
// is errDuplicate or ErrConflict.
func (u *Upload) earlierReceipt(tx *store.Tx, m Meta) (Receipt, error) {
	value, err := tx.Get(receiptKey(u.tenant, u.model, m.Key))
	if errors.Is(err, store.ErrNotFound) {
		return Receipt{}, nil
	}
	if err != nil {
		return Receipt{}, err
	}
	var p keptReceipt
	if err := jsontext.Decode(value, &p); err != nil || len(p.ID) != len(ID{}) {
		return Receipt{}, fmt.Errorf("%w: a receipt", ErrDamaged)
	}
	if !bytes.Equal(p.Digest, m.Digest) {
		return Receipt{}, ErrConflict
	}
	r := p.receipt(ID(p.ID))
	r.Duplicate = true
	return r, errDuplicate
}

// Abort ends an upload without a batch. After Commit it does nothing.
func (u *Upload) Abort() {
	if u.ended {
		return
	}
	u.ended = true
	_ = u.waitStaged() // its blocks are removed whether it failed or not
	if u.staged {
		u.a.sweepLater(u.id)
	}
}
