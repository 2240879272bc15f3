package feedback

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// Record is one item of feedback. Its key is Project and ID.
type Record struct {
	ID        string // a UUID, 36 characters, lower case
	Project   string // <entity>/<project>
	TraceRef  string
	User      string // who wrote it
	Creator   *string
	CreatedAt int64 // milliseconds of Unix time
	Type      string
	Payload   jsontext.Value // an object, as it was sent plus what the server adds
	Refs      refs
	Queue     *string
	// Weave has the columns that only the dialect of W&B Weave knows (weave.go), as
	// a compact JSON object: those that differ from their defaults; nil: none does.
	Weave jsontext.Value
}

// refs are the optional references of a record; nil stands for null.
type refs struct{ Annotation, Runnable, Call, Trigger *string }

// Dialect is the names of the columns in a request and its answer: two columns have
// other names in W&B Weave, which also has columns of its own
// (docs/interface/feedback.md, section 2).
type Dialect string

const (
	WeirNames  Dialect = ""
	WeaveNames Dialect = "weave"
	// WeaveBrief has Weave's names, and leaves queue_id and the columns that only Weave has out
	// of records where they have their defaults: its clients before 0.53 take no record with
	// columns that they do not know.
	WeaveBrief Dialect = "weave, brief"
)

// weave reports whether the dialect has Weave's names.
func (d Dialect) weave() bool { return d != WeirNames }

func (d Dialect) traceRefName() string {
	if d.weave() {
		return "weave_ref"
	}
	return "trace_ref"
}

func (d Dialect) userName() string {
	if d.weave() {
		return "wb_user_id"
	}
	return "platform_user_id"
}

// columns are the names of a record's fields, in the order of answers.
func (d Dialect) columns() []string {
	names := []string{
		"id", "project_id", d.traceRefName(), d.userName(), "creator", "created_at", "feedback_type", "payload",
		"annotation_ref", "runnable_ref", "call_ref", "trigger_ref", "queue_id",
	}
	if d.weave() {
		for i := range weaveColumns {
			names = append(names, weaveColumns[i].name)
		}
	}
	return names
}

// firstWeave is the index in Dialect.columns of the first column that only Weave has.
const firstWeave = colQueue + 1

// append encodes a record: a version, the time, then every field as its length plus one
// and its bytes; 0 stands for null. Version 2 has Weave as its last field. A record without
// it is written as version 1, which earlier versions of weir can read.
func (r *Record) append(dst []byte) []byte {
	text := func(v jsontext.Value) *string {
		s := unsafe.String(unsafe.SliceData(v), len(v)) // nobody changes a value while it is encoded
		return &s
	}
	fields := []*string{&r.ID, &r.Project, &r.TraceRef, &r.User, r.Creator, &r.Type, text(r.Payload), r.Refs.Annotation, r.Refs.Runnable, r.Refs.Call, r.Refs.Trigger, r.Queue}
	version := byte(1)
	if r.Weave != nil {
		version, fields = 2, append(fields, text(r.Weave))
	}
	size := recordHead
	for _, s := range fields {
		size++
		if s != nil {
			size += binary.MaxVarintLen32 + len(*s)
		}
	}
	dst = longcopy.Grow(dst, size)
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.CreatedAt))
	for _, s := range fields {
		if s == nil {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(len(*s))+1)
		dst = longcopy.AppendString(dst, *s)
	}
	return dst
}

// recordHead is the number of bytes before the fields: the version and the time.
const recordHead = 9

var errRecord = fmt.Errorf("%w: not a record of feedback", store.ErrCorrupt)

// decodeRecord decodes a record. It copies b once, and everything in the record shares
// this copy.
func decodeRecord(b []byte) (*Record, error) {
	kept := make([]byte, len(b)) // the runtime clears it piece by piece
	longcopy.Copy(kept, b)
	return viewRecord(kept)
}

// viewRecord decodes a record without a copy: it is valid while nobody changes b.
func viewRecord(b []byte) (*Record, error) {
	if len(b) < recordHead || b[0] != 1 && b[0] != 2 {
		return nil, errRecord
	}
	r := &Record{CreatedAt: int64(binary.BigEndian.Uint64(b[1:]))}
	at, bad := recordHead, false
	next := func() (field []byte, ok bool) {
		n, k := binary.Uvarint(b[at:])
		if k <= 0 || n > uint64(len(b)-at-k)+1 {
			bad = true
			return nil, false
		}
		at += k
		if n == 0 {
			return nil, false
		}
		field = b[at : at+int(n-1) : at+int(n-1)]
		at += len(field)
		return field, true
	}
	must := func() []byte {
		field, ok := next()
		bad = bad || !ok
		return field
	}
	text := func(field []byte) string { return unsafe.String(unsafe.SliceData(field), len(field)) }
	may := func() *string {
		field, ok := next()
		if !ok {
			return nil
		}
		s := text(field)
		return &s
	}
	r.ID, r.Project, r.TraceRef, r.User = text(must()), text(must()), text(must()), text(must())
	r.Creator = may()
	r.Type = text(must())
	r.Payload = must()
	r.Refs = refs{may(), may(), may(), may()}
	r.Queue = may()
	if b[0] == 2 {
		r.Weave = must()
	}
	if _, ok := parseUUID(r.ID); bad || !ok || len(r.Payload) == 0 {
		return nil, errRecord
	}
	return r, nil
}

// timeText is RFC 3339 in UTC with exactly three digits of the second's fraction.
func timeText(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// text is the value of a column that is a string; nil stands for null.
func (r *Record) text(i int) *string {
	switch i {
	case 0:
		return &r.ID
	case 1:
		return &r.Project
	case 2:
		return &r.TraceRef
	case 3:
		return &r.User
	case 4:
		return r.Creator
	case 6:
		return &r.Type
	case 8:
		return r.Refs.Annotation
	case 9:
		return r.Refs.Runnable
	case 10:
		return r.Refs.Call
	case 11:
		return r.Refs.Trigger
	}
	return r.Queue
}

// appendColumn appends the value of a column as JSON.
func (r *Record) appendColumn(dst []byte, i int) []byte {
	switch i {
	case colCreated:
		return append(append(append(dst, '"'), timeText(r.CreatedAt)...), '"')
	case colPayload:
		return longcopy.Append(dst, r.Payload)
	}
	if i >= firstWeave {
		return append(dst, r.weaveColumn(weaveColumns[i-firstWeave].name)...)
	}
	s := r.text(i)
	if s == nil {
		return append(dst, "null"...)
	}
	return jsontext.AppendString(dst, *s)
}

// AppendJSON appends a record with all its columns.
func (r *Record) AppendJSON(dst []byte, d Dialect) []byte {
	for i, name := range d.columns() {
		if d == WeaveBrief && r.isDefault(i, name) {
			continue
		}
		dst = append(dst, ",{"[b2i(i == 0)], '"')
		dst = append(append(dst, name...), '"', ':')
		dst = r.appendColumn(dst, i)
	}
	if d.weave() {
		r.unknownColumns(func(name []byte, v jsontext.Value) {
			dst = append(jsontext.AppendString(append(dst, ','), string(name)), ':')
			dst = longcopy.Append(dst, v)
		})
	}
	return append(dst, '}')
}

// isDefault reports whether a column that not all clients of Weave know has its default.
func (r *Record) isDefault(i int, name string) bool {
	if i == colQueue {
		return r.Queue == nil
	}
	return i >= firstWeave && (r.Weave == nil || member(r.Weave, name) == nil)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// AppendReceipt appends the answer to the request that wrote the record
// (docs/interface/feedback.md, F-31).
func (r *Record) AppendReceipt(dst []byte, d Dialect) []byte {
	dst = append(append(dst, `{"id":"`...), r.ID...)
	dst = append(append(dst, `","created_at":"`...), timeText(r.CreatedAt)...)
	dst = append(append(append(dst, `","`...), d.userName()...), `":`...)
	dst = jsontext.AppendString(dst, r.User)
	return append(longcopy.Append(append(dst, `,"payload":`...), r.Payload), '}')
}

// maxReceipt is the most bytes that AppendReceipt appends.
func (r *Record) maxReceipt() int { return len(r.Payload) + jsontext.MaxLen(r.User) + 256 }

// same reports whether two records have the same content, whatever their ids and times
// (docs/interface/feedback.md, F-25).
func (r *Record) same(o *Record) bool {
	return r.TraceRef == o.TraceRef && r.Type == o.Type && string(r.Payload) == string(o.Payload) && r.User == o.User && string(r.Weave) == string(o.Weave) &&
		equal(r.Creator, o.Creator) && equal(r.Queue, o.Queue) && equal(r.Refs.Annotation, o.Refs.Annotation) &&
		equal(r.Refs.Runnable, o.Refs.Runnable) && equal(r.Refs.Call, o.Refs.Call) && equal(r.Refs.Trigger, o.Refs.Trigger)
}

func equal(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// Value is the value of a field of a record. It is missing if the meter has stopped the work.
func (r *Record) Value(f *query.Field, m *pace.Meter) query.Value {
	if f.Column == colPayload {
		return query.At(r.Payload, f.Path, m)
	}
	if f.Column == colCreated {
		n := query.Number{Float: float64(r.CreatedAt) / 1000}
		return query.Value{Kind: query.Num, Num: n, Text: timeText(r.CreatedAt)}
	}
	if f.Column >= firstWeave {
		column := r.weaveColumn(weaveColumns[f.Column-firstWeave].name)
		if f.Path != nil {
			return query.At(column, f.Path, m)
		}
		return query.ValueOf(column)
	}
	if s := r.text(f.Column); s != nil {
		return query.Value{Kind: query.Text, Text: *s}
	}
	return query.Value{Kind: query.Null}
}
