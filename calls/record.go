package calls

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"unsafe"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
	"weir/store"
)

// Column is a field of a record. Records are stored by these numbers, so the order is the
// format: new columns are added at the end.
type Column byte

// The columns of a record. Those up to Extra are texts, or JSON values as they were sent
// without the white space between tokens.
const (
	ID Column = iota // texts
	Project
	OpName
	TraceID
	ParentID
	ThreadID
	TurnID
	DisplayName
	User // wb_user_id
	RunID
	Source // of calls that did not come over Weave's interface: what wrote them
	Exception
	RunStep // numbers, as JSON
	RunStepEnd
	Attributes // JSON values
	Inputs
	Output
	Summary
	OtelDump
	Extra   // members of the request that this version does not know, as a JSON object
	Renamed // the display name that an update has set; "" removes it
	columns = iota
)

// columnNames are the names of the columns in requests and answers.
var columnNames = [columns]string{
	"id", "project_id", "op_name", "trace_id", "parent_id", "thread_id", "turn_id", "display_name", "wb_user_id", "wb_run_id", "source", "exception",
	"wb_run_step", "wb_run_step_end", "attributes", "inputs", "output", "summary", "otel_dump", "", "",
}

// Name is the name of a column in requests and answers; "" for those that have none.
func (c Column) Name() string { return columnNames[c] }

// JSON reports whether the values of a column are JSON and not texts.
func (c Column) JSON() bool { return c >= RunStep && c <= Extra }

// ColumnOf finds a column by its name.
func ColumnOf(name string) (Column, bool) {
	for c, n := range columnNames {
		if n == name && n != "" {
			return Column(c), true
		}
	}
	return 0, false
}

// Status says how far a call has come.
type Status byte

// The states of a call.
const (
	Running         Status = 'r'
	Success         Status = 's'
	Failed          Status = 'e' // it has an exception
	DescendantError Status = 'd' // a call below it has one
)

// String is the name of a status in answers.
func (s Status) String() string {
	switch s {
	case Running:
		return "running"
	case Failed:
		return "error"
	case DescendantError:
		return "descendant_error"
	}
	return "success"
}

// NotEnded stands for the end of a call that runs.
const NotEnded int64 = math.MinInt64

// Record is what is stored of a call, as a view over the stored bytes. Times are
// microseconds of Unix time.
//
// A record may lack its start: an end, or an update, may arrive before it. Such a record
// waits for the start, has no entries in the indexes of calls, and is in no answer. A record
// may also stand for a call that was deleted, for which late requests then do nothing.
type Record struct {
	Started int64
	Ended   int64 // NotEnded: it runs
	Written int64 // when the server wrote the record first
	Status  Status
	flags   byte
	fields  [columns][]byte
}

// The flags of a record.
const (
	hasStart = 1 << iota
	hasEnd
	isDeleted
)

// Visible reports whether the record is a call in answers: it has a start and was not deleted.
func (r *Record) Visible() bool { return r.flags&(hasStart|isDeleted) == hasStart }

// Has reports whether the column is not null.
func (r *Record) Has(c Column) bool { return r.fields[c] != nil }

// Bytes is the value of a column, nil if it is null: a text, or JSON. It must not be changed.
func (r *Record) Bytes(c Column) []byte { return r.fields[c] }

// Text is the value of a column that is a text; "" if it is null. It shares the memory of the
// record.
func (r *Record) Text(c Column) string {
	return unsafe.String(unsafe.SliceData(r.fields[c]), len(r.fields[c]))
}

// Value is the value of a column that is JSON; nil if it is null.
func (r *Record) Value(c Column) jsontext.Value { return r.fields[c] }

// DisplayName is the name that the call is shown with, nil if it has none.
func (r *Record) DisplayName() []byte {
	name := r.fields[DisplayName]
	if r.fields[Renamed] != nil {
		name = r.fields[Renamed]
	}
	if len(name) == 0 {
		return nil
	}
	return name
}

// Latency is how long the call took, in whole milliseconds; false while it runs.
func (r *Record) Latency() (ms int64, ok bool) {
	if r.Ended == NotEnded {
		return 0, false
	}
	d := r.Ended - r.Started
	ms = d / 1000
	if d%1000 < 0 {
		ms-- // Python's timedelta has days and seconds rounded down
	}
	return ms, true
}

// TraceName is the name of the op, without the version and the rest of its reference.
func (r *Record) TraceName() string { return opLabel(r.Text(OpName)) }

// opLabel is the name in a reference to an op, and the text itself if it is not one.
func opLabel(op string) string {
	_, rest, isRef := strings.Cut(op, ":///")
	if !isRef || !strings.HasPrefix(op, "weave") {
		return op
	}
	parts := strings.SplitN(rest, "/", 4) // entity, project, kind, name:version
	if len(parts) < 4 || parts[2] != "op" && parts[2] != "object" {
		return op
	}
	name, _, _ := strings.Cut(parts[3], ":")
	return name
}

// recordHead is the bytes before the fields: a version, the flags, the status, three times
// and the set of the columns that are not null.
const recordHead = 3 + 3*8 + 4

// append encodes a record: the head, then each field that is not null as its length, in four
// bytes, and its bytes.
func (r *Record) append(dst []byte) []byte {
	size, set := recordHead, uint32(0)
	for c, f := range r.fields {
		if f != nil {
			set |= 1 << c
			size += 4 + len(f)
		}
	}
	dst = longcopy.Grow(dst, size)
	dst = append(dst, 1, r.flags, byte(r.Status))
	for _, t := range [...]int64{r.Started, r.Ended, r.Written} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(t))
	}
	dst = binary.BigEndian.AppendUint32(dst, set)
	for _, f := range r.fields {
		if f != nil {
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(f)))
			dst = longcopy.Append(dst, f)
		}
	}
	return dst
}

var errRecord = fmt.Errorf("%w: not a record of a call", store.ErrCorrupt)

// ViewRecord decodes a record without a copy: it is valid while nobody changes b.
func ViewRecord(b []byte) (*Record, error) {
	r := &Record{}
	if !r.view(b) {
		return nil, errRecord
	}
	return r, nil
}

// view makes r a view of b, and reports whether b is a record.
func (r *Record) view(b []byte) bool {
	if len(b) < recordHead || b[0] != 1 {
		return false
	}
	*r = Record{flags: b[1], Status: Status(b[2])}
	r.Started = int64(binary.BigEndian.Uint64(b[3:]))
	r.Ended = int64(binary.BigEndian.Uint64(b[11:]))
	r.Written = int64(binary.BigEndian.Uint64(b[19:]))
	set := binary.BigEndian.Uint32(b[27:])
	b = b[recordHead:]
	for ; set != 0; set &= set - 1 {
		c := bits.TrailingZeros32(set)
		if len(b) < 4 || c >= columns {
			return false
		}
		n := uint64(binary.BigEndian.Uint32(b))
		if n > uint64(len(b)-4) {
			return false
		}
		r.fields[c] = b[4 : 4+n : 4+n]
		b = b[4+n:]
		if Column(c).JSON() && n == 0 {
			return false
		}
	}
	return len(b) == 0 && len(r.fields[ID]) > 0 && len(r.fields[Project]) > 0
}

// settle sets the status from what the record has.
func (r *Record) settle() {
	switch {
	case len(r.fields[Exception]) > 0:
		r.Status = Failed
	case r.Ended == NotEnded:
		r.Status = Running
	case errorsBelow(r.fields[Summary]):
		r.Status = DescendantError
	default:
		r.Status = Success
	}
}

// errorsBelow reports whether a summary counts calls below that failed.
func errorsBelow(summary jsontext.Value) bool {
	n := summary.Member("status_counts").Member("error")
	if n == nil || n.Kind() != jsontext.Number {
		return false
	}
	x, _ := n.Float()
	return x > 0
}
