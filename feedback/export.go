package feedback

import (
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"strings"

	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// ExportLines writes the records of a query as JSON, one per line. It reads one snapshot,
// however long w takes.
func (s *Store) ExportLines(ctx context.Context, q *Query, w io.Writer) error {
	out := rowWriter{w: w, q: q, meter: pace.Of(ctx)}
	return FirstError(s.export(ctx, q, func(rec *Record) error {
		if err := out.row(rec); err != nil {
			return err
		}
		out.buf = append(out.buf, '\n')
		return nil
	}), out.flush())
}

// ExportCSV writes the records of a query as comma-separated values (RFC 4180) after a line
// of names. A value that is not a text is written as JSON, and null as nothing. Unless it is
// to be raw, a cell that a spreadsheet could take for a formula gets an apostrophe in front.
func (s *Store) ExportCSV(ctx context.Context, q *Query, w io.Writer, raw bool) error {
	fields := q.fields
	if fields == nil {
		for i, name := range q.Dialect.columns() {
			fields = append(fields, query.Field{Column: i, Name: name})
		}
	}
	out := newCSVWriter(w, pace.Of(ctx))
	for i := range fields {
		if err := out.cell(i, fields[i].Name); err != nil {
			return err
		}
	}
	if err := out.endLine(); err != nil {
		return err
	}
	return s.export(ctx, q, func(rec *Record) error {
		for i := range fields {
			text, isText := "", false
			switch v := jsontext.Value(appendField(nil, &fields[i], rec, out.meter)); v.Kind() {
			case jsontext.Null:
			case jsontext.String:
				text, isText = v.Text(), true
			default:
				text = string(v)
			}
			if isText && !raw && formula(text) {
				text = "'" + text
			}
			if err := out.cell(i, text); err != nil {
				return err
			}
		}
		return out.endLine()
	})
}

// formula reports whether a spreadsheet may take a text for a formula: by its first character,
// as OWASP's page "CSV Injection" lists them. Numbers of JSON never are.
func formula(text string) bool { return text != "" && strings.IndexByte("=+-@\t\r", text[0]) >= 0 }

// csvWriter writes lines of comma-separated values cell by cell, because a line can be as
// large as a payload times the number of fields.
type csvWriter struct {
	out   rowWriter
	meter *pace.Meter
	cells bytes.Buffer // what one has written
	// one writes lines of one cell, with quotes where they are needed. It does not end them with
	// CRLF, because then it would leave out a CR in a text.
	one *csv.Writer
}

func newCSVWriter(w io.Writer, m *pace.Meter) *csvWriter {
	c := &csvWriter{out: rowWriter{w: w, meter: m}, meter: m}
	c.one = csv.NewWriter(&c.cells)
	return c
}

// cell writes the i-th cell of a line.
func (c *csvWriter) cell(i int, text string) error {
	c.cells.Reset()
	if err := c.one.Write([]string{text}); err != nil {
		return err
	}
	c.one.Flush()
	if i > 0 {
		c.out.buf = append(c.out.buf, ',')
	}
	c.out.buf = append(c.out.buf, bytes.TrimSuffix(c.cells.Bytes(), []byte("\n"))...)
	if len(c.out.buf) >= rowPart {
		return c.out.flush()
	}
	return nil
}

func (c *csvWriter) endLine() error {
	c.out.buf = append(c.out.buf, "\r\n"...)
	return c.out.flush()
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
		return FirstError(failed, err)
	})
}
