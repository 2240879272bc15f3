package feedback

import (
	"context"
	"encoding/csv"
	"io"

	"weir/internal/jsontext"
	"weir/store"
)

// ExportLines writes the records of a query as JSON, one per line. It reads one snapshot,
// however long w takes.
func (s *Store) ExportLines(ctx context.Context, q *Query, w io.Writer) error {
	var buf []byte
	return s.export(ctx, q, func(rec *Record) error {
		buf = append(q.appendRow(buf[:0], rec), '\n')
		_, err := w.Write(buf)
		return err
	})
}

// ExportCSV writes the records of a query as comma-separated values (RFC 4180) after a line
// of names. A value that is not a text is written as JSON, and null as nothing.
func (s *Store) ExportCSV(ctx context.Context, q *Query, w io.Writer) error {
	fields := q.fields
	if fields == nil {
		for i, name := range q.Dialect.columns() {
			fields = append(fields, field{column: i, name: name})
		}
	}
	c := csv.NewWriter(w)
	c.UseCRLF = true
	line := make([]string, len(fields))
	for i := range fields {
		line[i] = fields[i].name
	}
	if err := c.Write(line); err != nil {
		return err
	}
	err := s.export(ctx, q, func(rec *Record) error {
		for i := range fields {
			switch v := jsontext.Value(fields[i].appendJSON(nil, rec)); v.Kind() {
			case jsontext.Null:
				line[i] = ""
			case jsontext.String:
				line[i] = v.Text()
			default:
				line[i] = string(v)
			}
		}
		return c.Write(line)
	})
	c.Flush()
	return firstError(err, c.Error())
}

// export calls f with the records of a query, without a total.
func (s *Store) export(ctx context.Context, q *Query, f func(*Record) error) error {
	return s.view(func(r *store.Reader, seen uint64) error {
		_, err := s.each(ctx, q, r, seen, false, func(rec *Record, _ int) error { return f(rec) })
		return err
	})
}

// Each calls f with all records of all projects, in no particular order, and damaged with
// the key of every record that cannot be read.
func (s *Store) Each(f func(*Record) error, damaged func(key []byte, err error)) error {
	return s.db.View(func(r *store.Reader) error {
		var failed error
		err := r.Scan(store.Range{Prefix: []byte{tagRow}, Damaged: damaged}, func(key, row []byte) bool {
			rec, err := decodeRecord(row)
			if err != nil {
				damaged(key, err)
				return true
			}
			failed = f(rec)
			return failed == nil
		})
		return firstError(failed, err)
	})
}
