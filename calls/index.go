package calls

import (
	"errors"

	"weir/store"
)

// The first byte of a key names the table or index; what follows is in the comment. All
// index entries of calls end with the time of the start, as SortableTime, and the id, so
// that the entries of one value are in the order of time.
const (
	TagRow    = 'A' // project, id
	TagTime   = 'B' // project, started_at, id
	TagOp     = 'C' // project, op_name, started_at, id
	TagTrace  = 'D' // project, trace_id, started_at, id
	TagParent = 'E' // project, parent_id ("" of a root), started_at, id
	TagStatus = 'F' // project, the status as one byte in a string, started_at, id
	TagThread = 'G' // project, thread_id, started_at, id; of calls that have one

	tagHalf  = 'H' // project, when it was written, id: records that wait for their start
	tagBytes = 'K' // project: the bytes of its records
)

// RowKey is the key of a record.
func RowKey(project, id string) []byte {
	key := append(make([]byte, 0, len(project)+len(id)+5), TagRow)
	return store.AppendString(store.AppendString(key, project), id)
}

// SortableTime turns a time into a number whose bytes sort as times do.
func SortableTime(us int64) uint64 { return uint64(us) ^ 1<<63 }

// TimeOf is the inverse of SortableTime.
func TimeOf(n uint64) int64 { return int64(n ^ 1<<63) }

// IndexPrefix is what the keys of the entries of one value begin with. TagTime has no value.
func IndexPrefix(tag byte, project, value string) []byte {
	k := append(make([]byte, 0, len(project)+len(value)+48), tag)
	k = store.AppendString(k, project)
	if tag != TagTime && tag != tagHalf {
		k = store.AppendString(k, value)
	}
	return k
}

// CutPosition reads the end of an index entry, after its IndexPrefix.
func CutPosition(rest []byte) (us int64, id string, err error) {
	n, rest, err := store.CutUint(rest)
	if err != nil {
		return 0, "", err
	}
	id, _, err = store.CutString(rest)
	return TimeOf(n), id, err
}

// table is the records and their indexes.
var table = store.Table{
	Tag:     TagRow,
	Indexes: []byte{TagTime, TagOp, TagTrace, TagParent, TagStatus, TagThread, tagHalf},
	Entries: func(dst [][]byte, _, row []byte) [][]byte {
		var r Record
		if !r.view(row) {
			return dst
		}
		return r.entries(dst)
	},
}

// entries appends the keys of the record's index entries.
func (r *Record) entries(dst [][]byte) [][]byte {
	if r.flags&isDeleted != 0 {
		return dst
	}
	project, id := r.Text(Project), r.Text(ID)
	entry := func(tag byte, value string, at int64) {
		k := store.AppendUint(IndexPrefix(tag, project, value), SortableTime(at))
		dst = append(dst, store.AppendString(k, id))
	}
	if !r.Visible() {
		entry(tagHalf, "", r.Written)
		return dst
	}
	entry(TagTime, "", r.Started)
	entry(TagOp, r.Text(OpName), r.Started)
	entry(TagTrace, r.Text(TraceID), r.Started)
	entry(TagParent, r.Text(ParentID), r.Started)
	entry(TagStatus, string(rune(r.Status)), r.Started)
	if r.Has(ThreadID) {
		entry(TagThread, r.Text(ThreadID), r.Started)
	}
	return dst
}

// get reads a record, whether it is visible or not; nil if there is none. It may be kept.
func get(r *store.Reader, project, id string) (*Record, error) {
	row, err := r.Get(RowKey(project, id))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	var rec *Record
	if err == nil {
		rec, err = ViewRecord(row)
	}
	if errors.Is(err, store.ErrCorrupt) {
		return nil, &Damaged{Project: project, ID: id, Err: err}
	}
	return rec, err
}

// Damaged says which call cannot be read. It is store.ErrCorrupt.
type Damaged struct {
	Project, ID string
	Err         error
}

func (e *Damaged) Error() string { return "calls: record " + e.ID + ": " + e.Err.Error() }

// Unwrap lets errors.Is find store.ErrCorrupt.
func (e *Damaged) Unwrap() error { return e.Err }
