package queues

import (
	"fmt"
	"time"

	"weir/internal/jsontext"
	"weir/store"
)

// The tables.
const (
	tagQueue = 'U'
	tagItem  = 'V'
	tagCall  = 'W'
)

// Queue is a queue as it is stored.
type Queue struct {
	Project     string   `json:"p"`
	ID          string   `json:"id"`
	Name        string   `json:"n"`
	Description string   `json:"d"`
	Scorers     []string `json:"s"`
	CreatedBy   string   `json:"by"`
	CreatedAt   int64    `json:"c"` // milliseconds of Unix time
	UpdatedAt   int64    `json:"u"`
	// DeletedAt is 0 except while the queue is being removed.
	DeletedAt int64 `json:"x,omitempty"`
	// Extra has the members of requests that this version does not know, as a JSON object.
	Extra jsontext.RawMessage `json:"e,omitempty"`
	Items int                 `json:"i"`
	Done  int                 `json:"f"` // items that an annotator has completed or skipped
}

// State says how far an annotator has come with an item.
type State string

// The states of an item. Unstarted is not stored.
const (
	Unstarted  State = "unstarted"
	InProgress State = "in_progress"
	Completed  State = "completed"
	Skipped    State = "skipped"
)

func (s State) finished() bool { return s == Completed || s == Skipped }

// progress is how far one annotator has come.
type progress struct {
	User  string `json:"u"`
	State State  `json:"s"`
	At    int64  `json:"t"` // milliseconds of Unix time
}

// Call is what an item keeps of its call.
type Call struct {
	ID      string `json:"id"`
	Op      string `json:"o"`
	Trace   string `json:"t"`
	Started int64  `json:"s"`           // microseconds of Unix time
	Ended   *int64 `json:"e,omitempty"` // nil: it ran when it was added
}

// item is an item as it is stored.
type item struct {
	Project  string     `json:"p"`
	Queue    string     `json:"q"`
	ID       string     `json:"id"`
	Call     Call       `json:"c"`
	Fields   []string   `json:"f"`
	AddedBy  string     `json:"by"`
	At       int64      `json:"t"` // milliseconds of Unix time
	Updated  int64      `json:"u"`
	Progress []progress `json:"a,omitempty"` // one for each annotator, the latest change last
}

// state is that of the annotator who changed it last.
func (it *item) state() (State, string) {
	if n := len(it.Progress); n > 0 {
		return it.Progress[n-1].State, it.Progress[n-1].User
	}
	return Unstarted, ""
}

// finished reports whether any annotator has completed or skipped the item.
func (it *item) finished() bool {
	for _, p := range it.Progress {
		if p.State.finished() {
			return true
		}
	}
	return false
}

// set changes the state of an annotator, which then is the latest.
func (it *item) set(user string, state State, at int64) {
	it.forget(user)
	it.Progress = append(it.Progress, progress{user, state, at})
	it.Updated = max(it.Updated, at)
}

// forget removes the progress of an annotator and reports whether there was any.
func (it *item) forget(user string) bool {
	for i, p := range it.Progress {
		if p.User == user {
			it.Progress = append(it.Progress[:i:i], it.Progress[i+1:]...)
			return true
		}
	}
	return false
}

func key(tag byte, parts ...string) []byte {
	k := []byte{tag}
	for _, p := range parts {
		k = store.AppendString(k, p)
	}
	return k
}

func (q *Queue) key() []byte { return key(tagQueue, q.Project, q.ID) }
func (it *item) key() []byte { return key(tagItem, it.Project, it.Queue, it.ID) }

// items is the table of items.
var items = store.Table{Tag: tagItem, Indexes: []byte{tagCall}, Entries: func(dst [][]byte, _, row []byte) [][]byte {
	it, err := decodeItem(row)
	if err != nil {
		return dst
	}
	return append(dst, key(tagCall, it.Project, it.Queue, it.Call.ID))
}}

// encode writes a record. The first byte is the version of its form.
func encode(v any) ([]byte, error) {
	text, err := jsontext.Encode(v)
	return append([]byte{1}, text...), err
}

// decode reads a record of encode.
func decode(row []byte, into any) error {
	if len(row) == 0 || row[0] != 1 {
		return errRecord
	}
	if err := jsontext.Decode(row[1:], into); err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	return nil
}

var errRecord = fmt.Errorf("%w: not a record of a queue", store.ErrCorrupt)

func decodeItem(row []byte) (*item, error) {
	it := &item{}
	if err := decode(row, it); err != nil {
		return nil, err
	}
	if it.Project == "" || it.Queue == "" || it.ID == "" || it.Call.ID == "" {
		return nil, errRecord
	}
	return it, nil
}

func decodeQueue(row []byte) (*Queue, error) {
	q := &Queue{}
	if err := decode(row, q); err != nil {
		return nil, err
	}
	if q.Project == "" || q.ID == "" {
		return nil, errRecord
	}
	return q, nil
}

// timeText is a time in UTC with milliseconds, microTime one with microseconds.
func timeText(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
func microTime(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// AppendJSON appends a queue as clients get it.
func (q *Queue) AppendJSON(dst []byte) []byte {
	dst = appendText(dst, `{"id":`, q.ID)
	dst = appendText(dst, `,"project_id":`, q.Project)
	dst = appendText(dst, `,"name":`, q.Name)
	dst = appendText(dst, `,"description":`, q.Description)
	dst = appendTexts(append(dst, `,"scorer_refs":`...), q.Scorers)
	dst = appendText(dst, `,"created_at":`, timeText(q.CreatedAt))
	dst = appendText(dst, `,"created_by":`, q.CreatedBy)
	dst = appendText(dst, `,"updated_at":`, timeText(q.UpdatedAt))
	if q.DeletedAt != 0 {
		dst = appendText(dst, `,"deleted_at":`, timeText(q.DeletedAt))
	} else {
		dst = append(dst, `,"deleted_at":null`...)
	}
	if len(q.Extra) > 2 {
		dst = append(append(dst, ','), q.Extra[1:len(q.Extra)-1]...)
	}
	return append(dst, '}')
}

// appendJSON appends an item as clients get it; position 0: without its position.
func (it *item) appendJSON(dst []byte, position int) []byte {
	dst = appendText(dst, `{"id":`, it.ID)
	dst = appendText(dst, `,"project_id":`, it.Project)
	dst = appendText(dst, `,"queue_id":`, it.Queue)
	dst = appendText(dst, `,"call_id":`, it.Call.ID)
	dst = appendText(dst, `,"call_started_at":`, microTime(it.Call.Started))
	if it.Call.Ended != nil {
		dst = appendText(dst, `,"call_ended_at":`, microTime(*it.Call.Ended))
	} else {
		dst = append(dst, `,"call_ended_at":null`...)
	}
	dst = appendText(dst, `,"call_op_name":`, it.Call.Op)
	dst = appendText(dst, `,"call_trace_id":`, it.Call.Trace)
	dst = appendTexts(append(dst, `,"display_fields":`...), it.Fields)
	dst = appendText(dst, `,"added_by":`, it.AddedBy)
	state, user := it.state()
	dst = appendText(dst, `,"annotation_state":`, string(state))
	if state != Unstarted {
		dst = appendText(dst, `,"annotator_user_id":`, user)
	} else {
		dst = append(dst, `,"annotator_user_id":null`...)
	}
	dst = appendText(dst, `,"created_at":`, timeText(it.At))
	dst = appendText(dst, `,"created_by":`, it.AddedBy)
	dst = appendText(dst, `,"updated_at":`, timeText(it.Updated))
	dst = append(dst, `,"deleted_at":null,"position_in_queue":`...)
	if position > 0 {
		return append(fmt.Appendf(dst, "%d", position), '}')
	}
	return append(dst, `null}`...)
}

func appendText(dst []byte, name, s string) []byte {
	return jsontext.AppendString(append(dst, name...), s)
}

func appendTexts(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, s)
	}
	return append(dst, ']')
}
