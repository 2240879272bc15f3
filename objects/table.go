package objects

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// Table is a table to be created or changed.
type Table struct {
	Project  string
	base     string // digest of the table that is changed; "": it is made anew
	expected string
	rows     []jsontext.Value // to be made
	digests  []string         // of rows that are there
	changes  []change
}

// change is one step of an update.
type change struct {
	op    string // append, pop, insert
	index int
	row   jsontext.Value
}

// maxRows bounds the rows of a table.
const maxRows = 1_000_000

// DecodeTable reads the body of a creation. The error is that of DecodeObject.
func DecodeTable(ctx context.Context, body []byte) (*Table, error) {
	d, m, loc, err := begin(ctx, body, "table")
	if err != nil {
		return nil, err
	}
	t := &Table{Project: d.project(m, loc), expected: d.text(m, "expected_digest", false, loc)}
	if list := d.Take(m, "rows", true, jsontext.Array, "list_type", loc); list != nil {
		for i, v := range list.PacedElements(d.Meter.Bytes) {
			if i == maxRows {
				d.Refuse(413, "A table may have at most 1000000 rows")
				break
			}
			if v.Kind() != jsontext.Object {
				d.Issue("dict_type", loc, "rows", strconv.Itoa(i))
				continue
			}
			t.rows = append(t.rows, jsontext.AppendCompact(nil, v))
		}
	}
	return t, d.End()
}

// DecodeTableFromDigests reads the body of a creation from rows that are there.
func DecodeTableFromDigests(ctx context.Context, body []byte) (*Table, error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return nil, err
	}
	t := &Table{Project: d.project(m, loc), expected: d.text(m, "expected_digest", false, loc)}
	list := d.Take(m, "row_digests", true, jsontext.Array, "list_type", loc)
	for i, v := range list.PacedElements(d.Meter.Bytes) {
		switch {
		case i == maxRows:
			d.Refuse(413, "A table may have at most 1000000 rows")
		case v.Kind() != jsontext.String:
			d.Issue("string_type", loc, "row_digests", strconv.Itoa(i))
		case i < maxRows:
			t.digests = append(t.digests, v.Text())
		}
	}
	return t, d.End()
}

// DecodeTableUpdate reads the body of an update.
func DecodeTableUpdate(ctx context.Context, body []byte) (*Table, error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return nil, err
	}
	t := &Table{Project: d.project(m, loc), base: d.text(m, "base_digest", true, loc)}
	list := d.Take(m, "updates", true, jsontext.Array, "list_type", loc)
	for i, v := range list.PacedElements(d.Meter.Bytes) {
		if i == maxListed {
			d.Refuse(413, "An update may have at most 10000 steps")
			break
		}
		d.change(t, v, append(slices.Clip(loc), "updates", strconv.Itoa(i)))
	}
	return t, d.End()
}

func (d *decoder) change(t *Table, v jsontext.Value, loc []string) {
	m := d.Object(v, loc)
	if m == nil {
		return
	}
	for _, op := range []string{"append", "pop", "insert"} {
		if !m.Has(op) {
			continue
		}
		loc := append(slices.Clip(loc), op)
		spec := d.Object(m.Values[op], loc)
		c := change{op: op}
		if op != "append" {
			if !spec.Has("index") {
				d.Issue("missing", loc, "index")
			}
			c.index = d.number(spec, "index", 0, loc)
		}
		if op != "pop" {
			if row := d.Take(spec, "row", true, jsontext.Object, "dict_type", loc); row != nil {
				c.row = jsontext.AppendCompact(nil, row)
			}
		}
		t.changes = append(t.changes, c)
		return
	}
	d.Issue("missing", loc, "append")
}

// addRow stores a row and returns its digest.
func (w *writer) addRow(project string, row jsontext.Value, m *pace.Meter) (string, error) {
	digest := valueDigest(row, m)
	return digest, errors.Join(m.Err(), w.put(project, keyOf(tagRow, project, digest), row))
}

// addTable stores the list of a table's rows and returns its digest.
func (w *writer) addTable(project string, digests []string, expected string) (string, error) {
	digest := tableDigest(digests)
	if err := expect(expected, digest, "table ("+strconv.Itoa(len(digests))+" rows)"); err != nil {
		return "", err
	}
	for d := range w.s.watches {
		d.keep(project, digests)
	}
	return digest, w.put(project, keyOf(tagTable, project, digest), []byte(strings.Join(digests, "\n")))
}

// CreateTable stores a table and returns the answer. withRows says that the answer names the
// digests of the rows.
func (s *Store) CreateTable(ctx context.Context, user string, t *Table, withRows bool) (answer []byte, err error) {
	m := pace.Of(ctx)
	err = s.update(ctx, user, func(w *writer) error {
		digests := slices.Clone(t.digests)
		for _, row := range t.rows {
			digest, err := w.addRow(t.Project, row, m)
			if err != nil {
				return err
			}
			digests = append(digests, digest)
		}
		digest, err := w.addTable(t.Project, digests, t.expected)
		if err != nil {
			return err
		}
		answer = tableAnswer(digest, "row_digests", digests, withRows)
		return nil
	})
	return answer, err
}

func tableAnswer(digest, name string, digests []string, with bool) []byte {
	out := jsontext.AppendString([]byte(`{"digest":`), digest)
	if !with {
		return append(out, '}')
	}
	out = append(append(append(out, `,"`...), name...), `":[`...)
	for i, d := range digests {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsontext.AppendString(out, d)
	}
	return append(out, "]}"...)
}

// UpdateTable stores a changed table beside the one that it was made of, and returns the
// answer.
func (s *Store) UpdateTable(ctx context.Context, user string, t *Table) (answer []byte, err error) {
	m := pace.Of(ctx)
	err = s.update(ctx, user, func(w *writer) error {
		digests, err := rowsOf(&w.tx.Reader, t.Project, t.base)
		if err != nil {
			return err
		}
		var changed []string
		for _, c := range t.changes {
			if err := m.Spend(pace.Row); err != nil {
				return err
			}
			if c.op == "append" {
				c.index = len(digests)
			}
			if c.index > len(digests) || c.op == "pop" && c.index == len(digests) {
				return refuse(400, "Index out of range")
			}
			digest := ""
			if c.op == "pop" {
				digest = digests[c.index]
				digests = slices.Delete(digests, c.index, c.index+1)
			} else {
				if digest, err = w.addRow(t.Project, c.row, m); err != nil {
					return err
				}
				digests = slices.Insert(digests, c.index, digest)
			}
			changed = append(changed, digest)
		}
		if len(digests) > maxRows {
			return refuse(413, "A table may have at most 1000000 rows")
		}
		digest, err := w.addTable(t.Project, digests, "")
		answer = tableAnswer(digest, "updated_row_digests", changed, true)
		return err
	})
	return answer, err
}

// rowsOf are the digests of a table's rows. A table that is not there is a refusal.
func rowsOf(r *store.Reader, project, digest string) ([]string, error) {
	b, err := read(r, keyOf(tagTable, project, digest))
	switch {
	case err != nil:
		return nil, &Damaged{"table " + digest, err}
	case b == nil:
		return nil, refuse(404, "Table "+clip(digest)+" not found")
	case len(b.data) == 0:
		return nil, nil
	}
	return strings.Split(string(b.data), "\n"), nil
}

func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

// rowOf is the value of a row; nil if it is not there.
func rowOf(r *store.Reader, project, digest string) (jsontext.Value, error) {
	b, err := read(r, keyOf(tagRow, project, digest))
	if err != nil {
		return nil, &Damaged{"row " + digest, err}
	}
	if b == nil {
		return nil, nil
	}
	return b.data, nil
}

// TableQuery asks for rows of a table.
type TableQuery struct {
	Project, Digest string
	only            map[string]bool // digests; nil: all rows
	sort            []rowOrder
	limit, offset   int // limit below 0: none
}

type rowOrder struct {
	path       []string
	descending bool
}

// DecodeTableQuery reads the body of a query.
func DecodeTableQuery(ctx context.Context, body []byte) (*TableQuery, error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return nil, err
	}
	q := &TableQuery{Project: d.project(m, loc), Digest: d.text(m, "digest", true, loc), limit: d.number(m, "limit", -1, loc), offset: d.number(m, "offset", 0, loc)}
	if v := d.Take(m, "filter", false, jsontext.Object, "model_attributes_type", loc); v != nil {
		loc := append(slices.Clip(loc), "filter")
		if list := d.list(d.Object(v, loc), "row_digests", false, loc); len(list) > 0 {
			q.only = map[string]bool{}
			for _, digest := range list {
				q.only[digest] = true
			}
		}
	}
	for _, s := range d.SortBy(m, loc) {
		path := query.SplitPath(s.Field)
		if len(s.Field) > query.MaxPathBytes || len(path) > query.MaxPathParts || slices.ContainsFunc(path, func(s string) bool { return strings.TrimSpace(s) == "" }) {
			d.Refuse(400, "Invalid sort field '"+clip(s.Field)+"': a path has at most 32 parts, none of which is empty")
		}
		q.sort = append(q.sort, rowOrder{path, s.Descending})
	}
	return q, d.End()
}

const (
	// maxSorted bounds the rows that are sorted in memory.
	maxSorted = 200_000
)

// tableRow is a row of a table: where it is, and what orders it.
type tableRow struct {
	index  int
	digest string
	keys   []query.Value
}

// Rows writes the rows of a query to w: as {"rows": […]} or, with lines, each as a line of
// JSON.
func (s *Store) Rows(ctx context.Context, q *TableQuery, w io.Writer, lines bool) error {
	m := pace.Of(ctx)
	return s.db.View(func(r *store.Reader) error {
		list, err := q.rows(r, m)
		if err != nil {
			return err
		}
		list = cut(list, q.offset, q.limit)
		buf := []byte(`{"rows":[`)
		if lines {
			buf = buf[:0]
		}
		written := 0
		for _, row := range list {
			value, err := rowOf(r, q.Project, row.digest)
			if err := errors.Join(err, m.Spend(pace.Row+len(value))); err != nil {
				return err
			}
			if value == nil {
				continue // made of digests of rows that were never sent
			}
			if written++; written > 1 && !lines {
				buf = append(buf, ',')
			}
			buf = jsontext.AppendString(append(buf, `{"digest":`...), row.digest)
			buf = append(append(buf, `,"val":`...), value...)
			buf = append(strconv.AppendInt(append(buf, `,"original_index":`...), int64(row.index), 10), '}')
			if lines {
				buf = append(buf, '\n')
			}
			if buf, err = writePart(w, buf); err != nil {
				return err
			}
		}
		if !lines {
			buf = append(buf, "]}"...)
		}
		_, err = w.Write(buf)
		return err
	})
}

// rows are the rows that a query finds, in its order. A table that is not there has none.
func (q *TableQuery) rows(r *store.Reader, m *pace.Meter) (list []tableRow, err error) {
	digests, err := rowsOf(r, q.Project, q.Digest)
	var none *form.Refusal
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, digest := range digests {
		if q.only == nil || q.only[digest] {
			list = append(list, tableRow{index: i, digest: digest})
		}
	}
	if q.sort == nil {
		return list, m.Spend(len(digests) * 50)
	}
	if len(list) > maxSorted {
		return nil, refuse(400, "Too many rows for an order; at most 200000 are sorted")
	}
	if err := q.readKeys(r, m, list); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b tableRow) int {
		_ = m.Spend(pace.Compare)
		for i, o := range q.sort {
			c := compareKeys(&a.keys[i], &b.keys[i])
			if c != 0 && o.descending {
				return -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	return list, m.Err()
}

// readKeys reads what orders some rows.
func (q *TableQuery) readKeys(r *store.Reader, m *pace.Meter, list []tableRow) error {
	for i := range list {
		value, err := rowOf(r, q.Project, list[i].digest)
		if err != nil {
			return err
		}
		for _, o := range q.sort {
			v := query.Value{}
			if value != nil {
				v = query.At(value, o.path, m)
			}
			list[i].keys = append(list[i].keys, v.Detached())
		}
		if err := m.Spend(pace.Row + len(value)); err != nil {
			return err
		}
	}
	return nil
}

// compareKeys orders values: what is not there, numbers and booleans, text, other values, as
// SQLite does. false is 0 and true is 1; what is not there is null, too.
func compareKeys(a, b *query.Value) int {
	if a.Kind == query.Bool || b.Kind == query.Bool {
		return compareKeys(new(numeric(a)), new(numeric(b)))
	}
	rank := func(v *query.Value) int {
		switch v.Kind {
		case query.Missing, query.Null:
			return 0
		case query.Num:
			return 1
		case query.Text:
			return 2
		}
		return 3
	}
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	c, _ := query.CompareValues(*a, *b)
	return c
}

// numeric is a value, with a boolean as the number that it sorts as.
func numeric(v *query.Value) query.Value {
	if v.Kind == query.Bool {
		return query.Convert(*v, "int")
	}
	return *v
}

// TableStats asks how many rows tables have.
type TableStats struct {
	Project string
	digests []string
	single  bool
	sizes   bool
}

// DecodeTableStats reads the body of a request for the size of one table, or of several.
func DecodeTableStats(ctx context.Context, body []byte, single bool) (*TableStats, error) {
	d, m, loc, err := begin(ctx, body, "")
	if err != nil {
		return nil, err
	}
	q := &TableStats{Project: d.project(m, loc), single: single}
	if single {
		q.digests = []string{d.text(m, "digest", true, loc)}
	} else {
		q.digests = d.list(m, "digests", false, loc)
		q.sizes = d.flag(m, "include_storage_size", loc)
	}
	return q, d.End()
}

// TableSizes answers a request for the sizes of tables.
func (s *Store) TableSizes(ctx context.Context, q *TableStats) (answer []byte, err error) {
	m := pace.Of(ctx)
	err = s.db.View(func(r *store.Reader) error {
		answer = []byte(`{"tables":[`)
		for _, digest := range q.digests {
			rows, err := rowsOf(r, q.Project, digest)
			var none *form.Refusal
			switch {
			case errors.As(err, &none) && q.single:
				return err
			case errors.As(err, &none):
				continue
			case err != nil:
				return err
			}
			if q.single {
				answer = append(strconv.AppendInt([]byte(`{"count":`), int64(len(rows)), 10), '}')
				return nil
			}
			if answer[len(answer)-1] == '}' {
				answer = append(answer, ',')
			}
			answer = strconv.AppendInt(append(answer, `{"count":`...), int64(len(rows)), 10)
			answer = jsontext.AppendString(append(answer, `,"digest":`...), digest)
			answer = append(answer, `,"storage_size_bytes":`...)
			if !q.sizes {
				answer = append(answer, "null}"...)
				continue
			}
			size := 0
			for _, row := range rows {
				value, err := rowOf(r, q.Project, row)
				if err := errors.Join(err, m.Spend(pace.Row)); err != nil {
					return err
				}
				size += len(value)
			}
			answer = append(strconv.AppendInt(answer, int64(size), 10), '}')
		}
		answer = append(answer, "]}"...)
		return nil
	})
	return answer, err
}
