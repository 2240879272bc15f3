package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	badger "github.com/dgraph-io/badger/v4"
)

// An update that no single transaction can hold goes through a journal:
//
//  1. its writes are stored as chunks, under the keys journalChunk and a number;
//  2. journalEnd is written, with the number of chunks: now the update has happened;
//  3. the writes themselves are done, in as many transactions as it takes;
//  4. journalEnd is deleted, then the chunks are.
//
// When a database is opened after a crash, a journal with an end is carried out from step
// 3 on, and one without an end is deleted, before anybody can read.

var (
	journalChunk = []byte{0, 'j'} // + number, 8 bytes
	journalEnd   = []byte{0, 'J'}
)

// chunkSize is the size in bytes at which a chunk ends; the last write in it may go beyond.
const chunkSize = 256 << 10

// writeAhead carries out tx through the journal. An error means that badger has failed.
func (d *DB) writeAhead(db *badger.DB, tx *Tx) error {
	chunks, err := d.journal(db, tx)
	if err == nil {
		err = d.carryOut(db, chunks)
	}
	if err == nil {
		d.count.updates.Add(1)
	}
	return err
}

// journal does steps 1 and 2.
func (d *DB) journal(db *badger.DB, tx *Tx) (chunks uint64, err error) {
	batch := batch{d: d, db: db}
	var chunk []byte
	put := func() {
		key := AppendUint(append([]byte(nil), journalChunk...), chunks)
		batch.add(write{key: key, value: seal(key, chunk)})
		chunks++
		chunk = nil
	}
	for i := range tx.writes {
		if chunk = tx.writes[i].append(chunk); len(chunk) >= chunkSize {
			put()
		}
	}
	put()
	batch.flush()
	batch.add(write{key: journalEnd, value: seal(journalEnd, AppendUint(nil, chunks))})
	batch.flush()
	return chunks, batch.err
}

// redo carries out, or deletes, a journal that a crash has left.
func (d *DB) redo(db *badger.DB) error {
	txn := db.NewTransaction(false)
	defer txn.Discard()
	r := Reader{txn: txn, db: d}
	end, err := r.Get(journalEnd)
	if err == nil {
		chunks, _, err := CutUint(end)
		if err != nil {
			return err
		}
		return d.carryOut(db, chunks)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	batch := batch{d: d, db: db}
	if err := r.Scan(Range{Prefix: journalChunk, Keys: true}, func(key, _ []byte) bool {
		batch.add(write{key: append([]byte(nil), key...)})
		return batch.err == nil
	}); err != nil {
		return err
	}
	batch.flush()
	return batch.err
}

// carryOut does steps 3 and 4.
func (d *DB) carryOut(db *badger.DB, chunks uint64) error {
	batch := batch{d: d, db: db}
	txn := db.NewTransaction(false)
	defer txn.Discard()
	r := Reader{txn: txn, db: d}
	for i := range chunks {
		chunk, err := r.Get(AppendUint(append([]byte(nil), journalChunk...), i))
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) {
			d.corrupt(journalChunk, errors.New("store: a part of a large update is lost"))
			continue
		}
		if err != nil {
			return err
		}
		for len(chunk) > 0 {
			var w write
			if chunk, err = w.cut(chunk); err != nil {
				return err
			}
			batch.add(w)
		}
	}
	batch.flush() // the order matters: all writes, the end, the chunks
	batch.add(write{key: journalEnd})
	batch.flush()
	for i := range chunks {
		batch.add(write{key: AppendUint(append([]byte(nil), journalChunk...), i)})
	}
	batch.flush()
	return batch.err
}

// append appends a write to a chunk: its key, expiry and value. The length of the value is
// written plus one, and 0 means a deletion.
func (w *write) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(w.key)))
	dst = append(dst, w.key...)
	dst = binary.AppendUvarint(dst, w.expires)
	if w.value == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(w.value))+1)
	return append(dst, w.value...)
}

// cut reads a write that append has written. It refers to the bytes of b.
func (w *write) cut(b []byte) (rest []byte, err error) {
	piece := func(extra uint64) (p []byte, ok bool) {
		n, k := binary.Uvarint(b)
		if k <= 0 || n < extra || n-extra > uint64(len(b)-k) {
			err = errJournal
			return nil, false
		}
		p, b = b[k:k+int(n-extra)], b[k+int(n-extra):]
		return p, true
	}
	w.key, _ = piece(0)
	if err != nil {
		return nil, err
	}
	var k int
	if w.expires, k = binary.Uvarint(b); k <= 0 || len(b) == k {
		return nil, errJournal
	}
	if b = b[k:]; b[0] == 0 {
		return b[1:], nil
	}
	w.value, _ = piece(1)
	return b, err
}

var errJournal = fmt.Errorf("%w: a journal that cannot be read", ErrCorrupt)

// batch does writes in as many transactions as they take. After an error it does nothing.
type batch struct {
	d   *DB
	db  *badger.DB
	g   group
	err error
}

func (b *batch) add(w write) {
	if b.err != nil {
		return
	}
	var more size
	more.add(&w, b.d.cfg.ValueThreshold)
	if b.g.txn != nil && !b.g.within(more, b.d.cfg.MemTable) {
		b.flush()
	}
	if b.g.txn == nil {
		b.g = group{txn: b.db.NewTransaction(true)}
	}
	if err := w.into(b.g.txn); err != nil && b.err == nil {
		b.err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	b.g.size.add(&w, b.d.cfg.ValueThreshold)
}

func (b *batch) flush() {
	if b.g.txn != nil && b.err == nil {
		b.err = b.d.sync(b.g.txn, b.g.size)
		b.d.count.bytes.Add(uint64(b.g.bytes))
	}
	b.g = group{}
}
