package batchesapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/jsontext"
	"weir/store"
)

// Store keeps files and batches in a database of its own. Its methods may be called from any
// goroutine. Those that write return when the change is on stable storage.
type Store struct {
	db    *store.DB
	limit int64 // bytes of files that an owner may have; 0: any number
	age   time.Duration

	swept atomic.Bool
	fresh sync.Map // ids of files that were sent before sweep was done
}

// Keys are a tag, the project, the tenant and the id. A chunk of a file has its number behind
// that, a chunk of a part of an upload the id of the part and its number. Results have the id of their batch and the number of their line.
const (
	tagFile   = 'F'
	tagChunk  = 'C'
	tagUpload = 'U'
	tagBatch  = 'B'
	tagOpen   = 'O' // batches that have not ended; no value
	tagResult = 'R' // 1 or 0, whether it failed, and a line of a file of results
)

// Limits of a Store that was told nothing.
const (
	DefaultBytes = 10 << 30
	DefaultFile  = 200 << 20 // bytes of a file with its form, as with OpenAI
	DefaultAge   = 30 * 24 * time.Hour
)

// chunkBytes is the size of the pieces of files, chunkNumber that of the number at the end of their keys.
const (
	chunkBytes  = 1 << 20
	chunkNumber = 8
)

// NewStore returns the files and batches in db. Files of an owner together have at most so many
// bytes, 0: any number. Files and batches are kept for age, 0: for ever.
func NewStore(db *store.DB, limit int64, age time.Duration) *Store {
	return &Store{db: db, limit: limit, age: age}
}

// StoreStats returns the counters of the database.
func (s *Store) StoreStats() store.Stats { return s.db.Stats() }

// owner is whose files and batches are: those of others are not found.
type owner struct{ project, tenant string }

func (o owner) key(tag byte, id string) []byte {
	return append(store.AppendString(store.AppendString([]byte{tag}, o.project), o.tenant), id...)
}

// content is what the keys of the chunks of a file or of an upload begin with.
func (o owner) content(id string) []byte { return store.AppendString(o.key(tagChunk, ""), id) }

// part is what the keys of the chunks of a part of an upload begin with.
func (o owner) part(upload, id string) []byte { return store.AppendString(o.content(upload), id) }

// span is a number of chunks with keys that begin so.
type span struct {
	at     []byte
	chunks int
}

// spans are where the content of a file is.
func (o owner) spans(f *fileRow) []span {
	if f.Upload == "" {
		return []span{{o.content(f.ID), f.Chunks}}
	}
	var list []span
	for _, p := range f.Parts {
		list = append(list, span{o.part(f.Upload, p.ID), p.Chunks})
	}
	return list
}

func chunkKey(at []byte, n int) []byte { return store.AppendUint(slices.Clone(at), uint64(n)) }

func resultKey(batch string, line int) []byte {
	return store.AppendUint(store.AppendString([]byte{tagResult}, batch), uint64(line))
}

// cutOwner reads whose a key is, and what follows.
func cutOwner(key []byte) (o owner, rest string, ok bool) {
	project, b, err := store.CutString(key[1:])
	if err != nil {
		return o, "", false
	}
	tenant, b, err := store.CutString(b)
	return owner{project, tenant}, string(b), err == nil
}

// get reads a row; nil: there is none.
func get[T any](r *store.Reader, key []byte) (*T, error) {
	text, err := r.Get(key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row := new(T)
	if err := jsontext.Decode(text, row); err != nil {
		return nil, &store.CorruptError{Key: key, Err: err}
	}
	return row, nil
}

// one reads a row; nil: there is none.
func one[T any](s *Store, key []byte) (row *T, err error) {
	err = s.db.View(func(r *store.Reader) error {
		row, err = get[T](r, key)
		return err
	})
	return row, err
}

// set writes a row.
func set[T any](tx *store.Tx, key []byte, row *T) error {
	text, err := jsontext.Encode(row)
	if err == nil {
		tx.Set(key, text)
	}
	return err
}

// all reads the rows of an owner.
func all[T any](r *store.Reader, prefix []byte) (rows []*T, err error) {
	var bad error
	err = r.Scan(store.Range{Prefix: prefix}, func(key, text []byte) bool {
		row := new(T)
		if bad = jsontext.Decode(text, row); bad != nil {
			bad = &store.CorruptError{Key: slices.Clone(key), Err: bad}
			return false
		}
		rows = append(rows, row)
		return true
	})
	return rows, errors.Join(err, bad)
}

func list[T any](s *Store, prefix []byte) (rows []*T, err error) {
	err = s.db.View(func(r *store.Reader) error {
		rows, err = all[T](r, prefix)
		return err
	})
	return rows, err
}

func (s *Store) file(o owner, id string) (*fileRow, error) {
	return one[fileRow](s, o.key(tagFile, id))
}
func (s *Store) batch(o owner, id string) (*batchRow, error) {
	return one[batchRow](s, o.key(tagBatch, id))
}

// change changes a batch that has not ended. change returns whether there is something to write.
// Row is nil if there is no such batch.
func (s *Store) change(ctx context.Context, o owner, id string, change func(b *batchRow) bool) (row *batchRow, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		if row, err = get[batchRow](&tx.Reader, o.key(tagBatch, id)); err != nil || row == nil || row.ended() || !change(row) {
			return err
		}
		if row.ended() {
			tx.Delete(o.key(tagOpen, id))
		}
		return set(tx, o.key(tagBatch, id), row)
	})
	return row, err
}

// putChunks writes content from a chunk on, and returns how many there are. It is not visible before
// the row of its file is there.
func (s *Store) putChunks(ctx context.Context, at []byte, from int, content []byte) (n int, err error) {
	for n = from; len(content) > 0; n++ {
		piece := content[:min(len(content), chunkBytes)]
		content = content[len(piece):]
		if err := s.db.Update(ctx, func(tx *store.Tx) error {
			tx.Set(chunkKey(at, n), piece)
			return nil
		}); err != nil {
			return n, err
		}
	}
	return n, nil
}

// readChunk reads a piece of a file.
func (s *Store) readChunk(at []byte, n int) (piece []byte, err error) {
	err = s.db.View(func(r *store.Reader) error {
		piece, err = r.Get(chunkKey(at, n))
		return err
	})
	return piece, err
}

// deleteFile deletes a file with its upload, and then its content. What a crash leaves of that is swept.
func (s *Store) deleteFile(ctx context.Context, o owner, f *fileRow) error {
	err := s.db.Update(ctx, func(tx *store.Tx) error {
		tx.Delete(o.key(tagFile, f.ID))
		if f.Upload != "" {
			tx.Delete(o.key(tagUpload, f.Upload))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.clear(ctx, o.content(cmp.Or(f.Upload, f.ID)), everyKey)
}

// begins notes that the chunks of a file or of a part are being written, so that they are not swept.
func (s *Store) begins(id string) {
	if !s.swept.Load() {
		s.fresh.Store(id, true)
	}
}

// eachResult calls f with the results of a batch from a line on, in the order of the lines, until it
// returns false.
func (s *Store) eachResult(batch string, from int, f func(line int, failed bool, text []byte) bool) error {
	prefix := store.AppendString([]byte{tagResult}, batch)
	return s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: prefix, From: resultKey(batch, from)}, func(key, v []byte) bool {
			line, _, err := store.CutUint(key[len(prefix):])
			return err != nil || len(v) == 0 || f(int(line), v[0] == 1, v[1:])
		})
	})
}

// putResult writes the result of a line.
func (s *Store) putResult(ctx context.Context, batch string, line int, failed bool, text []byte) error {
	v := []byte{0}
	if failed {
		v[0] = 1
	}
	v = append(v, text...)
	return s.db.Update(ctx, func(tx *store.Tx) error {
		tx.Set(resultKey(batch, line), v)
		return nil
	})
}

// step is how many keys an update deletes.
const step = 1000

// everyKey selects all keys for clear.
func everyKey(*store.Reader, []byte) (bool, error) { return true, nil }

// clear deletes what keys select, with all that begin with prefix.
func (s *Store) clear(ctx context.Context, prefix []byte, which func(r *store.Reader, key []byte) (bool, error)) error {
	from := prefix
	for from != nil {
		var found [][]byte
		var bad error
		next := []byte(nil)
		err := s.db.View(func(r *store.Reader) error {
			return r.Scan(store.Range{Prefix: prefix, From: from, Keys: true}, func(key, _ []byte) bool {
				if len(found) == step {
					next = slices.Clone(key)
					return false
				}
				var ok bool
				if ok, bad = which(r, key); ok {
					found = append(found, slices.Clone(key))
				}
				return bad == nil
			})
		})
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		if len(found) > 0 {
			if err := s.db.Update(ctx, func(tx *store.Tx) error {
				for _, key := range found {
					tx.Delete(key)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}

// sweep deletes what an earlier process has left: chunks without a file or an upload, and results whose batch
// has ended. Nothing may be computed meanwhile.
func (s *Store) sweep(ctx context.Context) error {
	open := map[string]bool{}
	batches, err := s.unfinished()
	if err != nil {
		return err
	}
	for _, b := range batches {
		open[b.id] = true
	}
	last, orphan := "", false // the file of the key before, and whether it is not there
	err = s.clear(ctx, []byte{tagChunk}, func(r *store.Reader, key []byte) (bool, error) {
		prefix := string(key[:len(key)-chunkNumber])
		if prefix == last {
			return orphan, nil
		}
		there, err := s.owned(r, key)
		last, orphan = prefix, !there
		return orphan && err == nil, err
	})
	return errors.Join(err, s.clear(ctx, []byte{tagResult}, func(_ *store.Reader, key []byte) (bool, error) {
		id, _, err := store.CutString(key[1:])
		return err == nil && !open[id], nil
	}))
}

// owned reports whether a chunk is one of a file or an upload that there is, or is being written.
func (s *Store) owned(r *store.Reader, key []byte) (bool, error) {
	o, rest, ok := cutOwner(key)
	id, more, err := store.CutString([]byte(rest))
	if !ok || err != nil {
		return true, nil // who knows what it is
	}
	part, _, err := store.CutString(more)
	if len(more) == chunkNumber || err != nil {
		_, fresh := s.fresh.Load(id)
		there, err := r.Has(o.key(tagFile, id))
		return there || fresh, err
	}
	_, fresh := s.fresh.Load(part)
	u, err := get[uploadRow](r, o.key(tagUpload, id))
	if corrupt := (*store.CorruptError)(nil); errors.As(err, &corrupt) {
		return true, nil
	}
	return fresh || u != nil && u.part(part) >= 0, err
}

// named is a batch and whose it is.
type named struct {
	owner owner
	id    string
}

// unfinished are the batches that have not ended.
func (s *Store) unfinished() (found []named, err error) {
	err = s.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tagOpen}, Keys: true}, func(key, _ []byte) bool {
			if o, id, ok := cutOwner(key); ok {
				found = append(found, named{o, id})
			}
			return true
		})
	})
	return found, err
}

// Erasure says which files and batches of a project are to be deleted: those whose user is each of
// Users, and that are older than Before.
type Erasure struct {
	Project string
	Users   []string
	Before  int64 // Unix seconds; 0: all
	DryRun  bool  // only counts them
}

// Erase deletes the files and the ended batches that an erasure names, and returns how many they are.
func (s *Store) Erase(ctx context.Context, e *Erasure) (n int, err error) {
	return s.erase(ctx, store.AppendString(nil, e.Project), e.DryRun, func(user string, created, _ int64) bool {
		return (e.Before == 0 || created < e.Before) && !slices.ContainsFunc(e.Users, func(u string) bool { return u != user })
	})
}

// Expire deletes what is older than the Store keeps, and files whose time has come.
func (s *Store) Expire(ctx context.Context, now time.Time) (n int, err error) {
	before := int64(0)
	if s.age > 0 {
		before = now.Add(-s.age).Unix()
	}
	return s.erase(ctx, nil, false, func(_ string, created, expires int64) bool {
		return created < before || expires > 0 && expires <= now.Unix()
	})
}

// erase deletes files, uploads and ended batches of owners that begin so. Files that a batch still reads stay.
func (s *Store) erase(ctx context.Context, owners []byte, dryRun bool, which func(user string, created, expires int64) bool) (n int, err error) {
	type found struct {
		owner  owner
		file   *fileRow
		upload string
		batch  string
	}
	var list []found
	read := map[string]bool{}
	var bad error
	each := func(r *store.Reader, tag byte, f func(o owner, text []byte) error) error {
		err := r.Scan(store.Range{Prefix: append([]byte{tag}, owners...), Damaged: func([]byte, error) {}}, func(key, text []byte) bool {
			if o, _, ok := cutOwner(key); ok {
				bad = f(o, text)
			}
			return bad == nil && ctx.Err() == nil
		})
		return errors.Join(err, bad, ctx.Err())
	}
	err = s.db.View(func(r *store.Reader) error {
		if err := each(r, tagBatch, func(o owner, text []byte) error {
			b := &batchRow{}
			err := jsontext.Decode(text, b)
			if !b.ended() {
				read[b.Input] = true
			} else if err == nil && which(b.Who.User, b.Created, 0) {
				list = append(list, found{owner: o, batch: b.ID})
			}
			return err
		}); err != nil {
			return err
		}
		if err := each(r, tagUpload, func(o owner, text []byte) error {
			u := &uploadRow{}
			err := jsontext.Decode(text, u)
			if err == nil && u.Status == pending && which(u.User, u.Created, u.Expires) {
				list = append(list, found{owner: o, upload: u.ID})
			}
			return err
		}); err != nil {
			return err
		}
		return each(r, tagFile, func(o owner, text []byte) error {
			f := &fileRow{}
			err := jsontext.Decode(text, f)
			if err == nil && !read[f.ID] && which(f.User, f.Created, f.Expires) {
				list = append(list, found{owner: o, file: f})
			}
			return err
		})
	})
	for i := 0; i < len(list) && err == nil && !dryRun; i++ {
		switch f := list[i]; {
		case f.file != nil:
			err = s.deleteFile(ctx, f.owner, f.file)
		case f.upload != "":
			_, err = s.deleteUpload(ctx, f.owner, f.upload)
		default:
			err = s.db.Update(ctx, func(tx *store.Tx) error {
				tx.Delete(f.owner.key(tagBatch, f.batch))
				return nil
			})
		}
	}
	return len(list), err
}
