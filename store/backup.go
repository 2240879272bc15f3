package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	badger "github.com/dgraph-io/badger/v4"
)

// A backup is the line backupMagic, then blocks. A block is the length and the CRC-32C of
// its content, in 4 bytes each, little-endian, then the content. The first byte of the
// content is the kind of the block:
//
//	D   the name of a database, to which the records that follow belong
//	R   records: key, expiry (Unix seconds) and value; lengths and expiry are varints
//	E   the end, with the number of records before it; a file that was cut lacks it
const (
	backupMagic = "weir backup 1\n"
	blockName   = 'D'
	blockRows   = 'R'
	blockEnd    = 'E'
	blockSize   = 1 << 20
)

// A Backup writes databases to a stream.
type Backup struct {
	w    *bufio.Writer
	rows uint64
	err  error
}

// NewBackup begins a backup on w. Errors of w are returned by Add and Close.
func NewBackup(w io.Writer) *Backup {
	b := &Backup{w: bufio.NewWriterSize(w, 64<<10)}
	_, b.err = b.w.WriteString(backupMagic)
	return b
}

func (b *Backup) block(content []byte) {
	if b.err != nil || len(content) == 0 {
		return
	}
	var head [8]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(content)))
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(content, castagnoli))
	if _, b.err = b.w.Write(head[:]); b.err == nil {
		_, b.err = b.w.Write(content)
	}
}

// Add writes one snapshot of a database, which can be written to meanwhile. It returns how
// many damaged records it had to leave out.
func (b *Backup) Add(name string, d *DB) (damaged int, err error) {
	b.block(append([]byte{blockName}, name...))
	err = d.View(func(r *Reader) error {
		rows := []byte{blockRows}
		err := r.items(func(item *badger.Item, value []byte, err error) bool {
			if err != nil {
				damaged++
				d.corrupt(item.Key(), err)
				return true
			}
			rows = binary.AppendUvarint(rows, uint64(len(item.Key())))
			rows = append(rows, item.Key()...)
			rows = binary.AppendUvarint(rows, item.ExpiresAt())
			rows = binary.AppendUvarint(rows, uint64(len(value)))
			rows = append(rows, value...)
			b.rows++
			if len(rows) >= blockSize {
				b.block(rows)
				rows = rows[:1]
			}
			return b.err == nil
		})
		if len(rows) > 1 {
			b.block(rows)
		}
		return err
	})
	return damaged, errors.Join(err, b.err)
}

// Close ends a backup. It does not close the stream.
func (b *Backup) Close() error {
	b.block(binary.AppendUvarint([]byte{blockEnd}, b.rows))
	return errors.Join(b.err, b.w.Flush())
}

// items calls f with every record but those of the store itself, and with its value or an
// error, until f returns false.
func (r *Reader) items(f func(item *badger.Item, value []byte, err error) bool) error {
	r.inside = true
	outside := func(item *badger.Item, value []byte, err error) bool {
		r.inside = false
		more := f(item, value, err)
		r.inside = true
		return more
	}
	it := r.txn.NewIterator(badger.IteratorOptions{PrefetchValues: false})
	defer it.Close()
	for it.Seek([]byte{1}); it.Valid(); it.Next() {
		item := it.Item()
		more := true
		if err := item.Value(func(b []byte) error {
			v, err := unseal(item.Key(), b)
			if err == nil {
				more = outside(item, v, nil)
			}
			return err
		}); err != nil {
			more = outside(item, nil, err)
		}
		if !more {
			break
		}
	}
	r.inside = false
	return nil
}

// ErrNotEmpty: a backup can only be restored to an empty database.
var ErrNotEmpty = errors.New("store: the database is not empty")

// ErrBackup: the input is not a backup, or not a whole one.
var ErrBackup = errors.New("store: not a whole backup")

// Restore reads a backup into the databases that open returns for the names in it, and
// returns the number of records. If the backup is incomplete or damaged, everything before
// the damage is restored and the error is ErrBackup. It is ErrNotEmpty if a database is not
// empty.
func Restore(ctx context.Context, r io.Reader, open func(name string) (*DB, error)) (rows uint64, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	magic := make([]byte, len(backupMagic))
	if _, err := io.ReadFull(br, magic); err != nil || string(magic) != backupMagic {
		return 0, ErrBackup
	}
	var db *DB
	for {
		content, err := readBlock(br)
		if err != nil {
			return rows, err
		}
		switch kind, body := content[0], content[1:]; kind {
		case blockName:
			if db, err = open(string(body)); err != nil {
				return rows, err
			}
			if err := db.empty(); err != nil {
				return rows, err
			}
		case blockRows:
			if db == nil {
				return rows, ErrBackup
			}
			n, err := db.load(ctx, body)
			rows += n
			if err != nil {
				return rows, err
			}
		case blockEnd:
			if n, k := binary.Uvarint(body); k <= 0 || n != rows {
				return rows, fmt.Errorf("%w: it has %d records of %d", ErrBackup, rows, n)
			}
			return rows, nil
		default:
			return rows, ErrBackup
		}
	}
}

// maxBlock bounds the length of a block in bytes. A longer one is taken for damage.
const maxBlock = 1 << 30

func readBlock(r io.Reader) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: it ends early", ErrBackup)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > maxBlock {
		return nil, fmt.Errorf("%w: a block of %d bytes", ErrBackup, n)
	}
	var content bytes.Buffer // grows as bytes come, so a damaged length does not take memory
	if _, err := io.CopyN(&content, r, int64(n)); err != nil {
		return nil, fmt.Errorf("%w: it ends early", ErrBackup)
	}
	if crc32.Checksum(content.Bytes(), castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, fmt.Errorf("%w: a block is damaged", ErrBackup)
	}
	return content.Bytes(), nil
}

func (d *DB) empty() error {
	return d.View(func(r *Reader) error {
		var err error
		if e := r.items(func(*badger.Item, []byte, error) bool { err = ErrNotEmpty; return false }); e != nil {
			return e
		}
		return err
	})
}

func (d *DB) load(ctx context.Context, rows []byte) (n uint64, err error) {
	err = d.Update(ctx, func(tx *Tx) error {
		for len(rows) > 0 {
			var w write
			key, rest, ok := cutBytes(rows)
			if !ok {
				return ErrBackup
			}
			expires, k := binary.Uvarint(rest)
			if k <= 0 {
				return ErrBackup
			}
			value, rest, ok := cutBytes(rest[k:])
			if !ok {
				return ErrBackup
			}
			w.key, w.value, w.expires = key, seal(key, value), expires
			tx.sets = true
			tx.add(w)
			rows = rest
			n++
		}
		return nil
	})
	return n, err
}

func cutBytes(b []byte) (piece, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	return b[k : k+int(n)], b[k+int(n):], true
}

// Verify reads all values and the checksums of all tables. It calls f with everything that
// is damaged, and returns how many records are whole.
func (d *DB) Verify(f func(err error)) (rows int, err error) {
	for _, m := range d.Damage() {
		f(fmt.Errorf("store: a log was damaged: %v", m))
	}
	err = d.View(func(r *Reader) error {
		r.inside = true
		err := d.gate.db.VerifyChecksum()
		r.inside = false
		return err
	})
	switch {
	case err == nil:
	case d.Err() != nil:
		return 0, err
	default:
		f(fmt.Errorf("store: a table is damaged: %w", err))
	}
	return rows, d.View(func(r *Reader) error {
		return r.items(func(_ *badger.Item, _ []byte, err error) bool {
			if err != nil {
				f(err)
			} else {
				rows++
			}
			return true
		})
	})
}
