package batchesapi

import (
	"context"
	"errors"
	"io"

	"weir/batch"
	"weir/store"
)

// resultFile gathers a file of results.
type resultFile struct {
	row    fileRow
	buffer []byte
}

// pageResults bounds the bytes of results that are read at a time.
const pageResults = 4 << 20

// finish writes the files of results of a batch, and then ends it. It may be done again.
func (r *runner) finish(ctx context.Context, one *run, row *batchRow) error {
	now := r.cfg.Now().Unix()
	name := row.ID + "_"
	out := &resultFile{row: fileRow{ID: row.Output, Name: name + "output.jsonl", Purpose: purposeOutput, Created: now, User: row.Who.User}}
	bad := &resultFile{row: fileRow{ID: row.ErrorFile, Name: name + "error.jsonl", Purpose: purposeOutput, Created: now, User: row.Who.User}}
	final, err := r.gather(ctx, one, row, out, bad)
	if err != nil {
		return err
	}
	s := r.cfg.Store
	for _, f := range []*resultFile{out, bad} {
		if err := r.flush(ctx, one.owner, f, 1); err != nil {
			return err
		}
	}
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		b, err := get[batchRow](&tx.Reader, one.owner.key(tagBatch, one.id))
		if err != nil || b == nil || b.ended() {
			return err
		}
		for _, f := range []*resultFile{out, bad} {
			if f.row.Bytes > 0 {
				if err := set(tx, one.owner.key(tagFile, f.row.ID), &f.row); err != nil {
					return err
				}
			}
		}
		b.HasOutput, b.HasErrors, b.Counts = out.row.Bytes > 0, bad.row.Bytes > 0, final
		b.set(b.Next, now)
		tx.Delete(one.owner.key(tagOpen, one.id))
		return set(tx, one.owner.key(tagBatch, one.id), b)
	})
	if err != nil {
		return err
	}
	return s.clear(ctx, store.AppendString([]byte{tagResult}, row.ID), everyKey)
}

// gather reads the results in the order of their lines. In a batch that has expired, lines without
// one get an error.
func (r *runner) gather(ctx context.Context, one *run, row *batchRow, out, bad *resultFile) (final counts, err error) {
	final.Total = row.Counts.Total
	missing := func(int) error { return nil }
	if row.Next == expired {
		if missing, err = r.missing(ctx, one, row, bad, &final); err != nil {
			return final, err
		}
	}
	type result struct {
		line   int
		failed bool
		text   []byte
	}
	for from := 0; ; {
		var some []result
		size := 0
		if err := r.cfg.Store.eachResult(row.ID, from, func(line int, failed bool, text []byte) bool {
			some = append(some, result{line, failed, append([]byte(nil), text...)})
			size += len(text)
			return size < pageResults
		}); err != nil {
			return final, err
		}
		for _, x := range some {
			if err := missing(x.line); err != nil {
				return final, err
			}
			f := out
			if x.failed {
				f = bad
			}
			final.add(x.failed, usageIn(x.text))
			f.buffer = append(f.buffer, x.text...)
			if err := r.flush(ctx, one.owner, f, chunkBytes); err != nil {
				return final, err
			}
		}
		if len(some) == 0 {
			return final, missing(-1)
		}
		from = some[len(some)-1].line + 1
	}
}

// missing returns a function that is called with the number of each line that has a result, and with -1
// at the end. It writes errors for those between.
func (r *runner) missing(ctx context.Context, one *run, row *batchRow, bad *resultFile, final *counts) (func(line int) error, error) {
	in, err := r.input(one.owner, row)
	if err != nil {
		return nil, err
	}
	if in == nil {
		return func(int) error { return nil }, nil
	}
	return func(until int) error {
		for {
			job, err := in.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil || in.Number() == until {
				return err
			}
			e := &batch.Error{Code: batch.CodeExpired, Message: "This request could not be executed before the completion window expired."}
			bad.buffer = (&batch.Result{ID: job.ID, CustomID: job.Line.CustomID, Err: e}).Append(bad.buffer)
			final.Failed++
			if err := r.flush(ctx, one.owner, bad, chunkBytes); err != nil {
				return err
			}
		}
	}, nil
}

// flush writes the whole chunks that a file has gathered, if they have at least so many bytes, or all
// that there is if that is less than a chunk.
func (r *runner) flush(ctx context.Context, o owner, f *resultFile, least int) error {
	for len(f.buffer) >= max(1, least) {
		n := min(len(f.buffer), chunkBytes)
		next, err := r.cfg.Store.putChunks(ctx, o.content(f.row.ID), f.row.Chunks, f.buffer[:n])
		if err != nil {
			return err
		}
		f.row.Chunks = next
		f.row.Bytes += int64(n)
		f.buffer = append(f.buffer[:0], f.buffer[n:]...)
	}
	return nil
}
