package calls

import (
	"bytes"
	"context"
	"strconv"

	"github.com/google/uuid"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
)

const (
	// MaxBatch bounds the calls of a request.
	MaxBatch = 10_000
	// MaxRecord bounds all that is stored of a call, in bytes.
	MaxRecord = 16 << 20
	// maxDepth bounds how deeply a body may be nested. Weave's clients encode values that are
	// nested 255 levels deep at the most.
	maxDepth   = 300
	maxProject = 256 // bytes
	// MaxID bounds the ids of calls, traces, parents, threads and turns, in bytes.
	MaxID = 256
	// MaxOpName bounds the names of ops, in bytes.
	MaxOpName = 1024
	// MaxName bounds a display name, in bytes.
	MaxName = 4096
)

var errTooLarge = &form.Refusal{Status: 413, Reason: "A call may have at most 16 MiB"}

// Form is the form of a request that writes calls.
type Form int

// The forms of requests.
const (
	FormStart    Form = iota // {"start": {...}}
	FormEnd                  // {"end": {...}}
	FormUpsert               // {"batch": [{"mode": "start", "req": {"start": {...}}}, ...]}
	FormComplete             // {"batch": [{...}, ...]}
)

// Request is a request that writes calls.
type Request struct {
	Form    Form
	Changes []*Change
}

// DecodeRequest reads the body of a request. project is that of calls that name none; "":
// they have to name it. The error is form.Invalid, a *form.Refusal, or the cause of
// ctx. The request shares the memory of body.
func DecodeRequest(ctx context.Context, body []byte, f Form, project string) (*Request, error) {
	d := decoder{Decoder: form.Decoder{Meter: pace.Of(ctx)}, project: project}
	v, err := d.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	d.arena = make([]byte, 0, len(v))
	r := &Request{Form: f}
	d.cur = jsontext.NewCursor(v)
	top := []string{"body"}
	switch f {
	case FormStart:
		d.member("start", top, func(loc []string) { r.Changes = append(r.Changes, d.change(start, loc)) })
	case FormEnd:
		d.member("end", top, func(loc []string) { r.Changes = append(r.Changes, d.change(end, loc)) })
	default:
		d.member("batch", top, func(loc []string) { d.batch(r, loc) })
	}
	return r, d.End()
}

// decoder reads one body. What it returns means nothing if it has issues.
type decoder struct {
	form.Decoder
	cur     *jsontext.Cursor
	project string
	arena   []byte // values without white space; it is never longer than the body
}

// name is what the name of a member stands for.
func name(raw jsontext.Value) string { return raw.SharedText() }

// member reads the object at the cursor, which has to have this member. f reads it. Other
// members are passed over: requests have them from later versions.
func (d *decoder) member(want string, loc []string, f func(loc []string)) {
	if d.cur.Kind() != jsontext.Object {
		d.cur.Take()
		d.Issue("model_attributes_type", loc)
		return
	}
	found := false
	d.cur.Object(func(raw jsontext.Value) {
		if name(raw) != want || found {
			d.cur.Take()
			return
		}
		found = true
		f(append(loc[:len(loc):len(loc)], want))
	})
	if !found {
		d.Issue("missing", loc, want)
	}
}

// batch reads the array of a batch.
func (d *decoder) batch(r *Request, loc []string) {
	if d.cur.Kind() != jsontext.Array {
		d.cur.Take()
		d.Issue("list_type", loc)
		return
	}
	d.cur.Array(func(n int) {
		if n >= MaxBatch {
			d.Refuse(413, "A batch may have at most "+strconv.Itoa(MaxBatch)+" calls")
		}
		if d.Meter.Err() != nil || d.Refusal != nil {
			d.cur.Take() // nothing more is said of it
			return
		}
		from := d.cur.Offset()
		at := append(loc[:len(loc):len(loc)], strconv.Itoa(n))
		if r.Form == FormComplete {
			r.Changes = append(r.Changes, d.change(complete, at))
		} else if c := d.item(at); c != nil {
			r.Changes = append(r.Changes, c)
		}
		_ = d.Meter.Spend(d.cur.Offset() - from) // its error is asked for by Err
	})
}

// item reads {"mode": "start", "req": {"start": {...}}}. The mode may follow the request, so
// it is the request's member that counts; if the mode is given it has to be the same.
func (d *decoder) item(loc []string) (c *Change) {
	if d.cur.Kind() != jsontext.Object {
		d.cur.Take()
		d.Issue("model_attributes_type", loc)
		return nil
	}
	mode := ""
	d.cur.Object(func(raw jsontext.Value) {
		switch name(raw) {
		case "mode":
			if v := d.cur.Take(); v.Kind() == jsontext.String {
				mode = v.SharedText()
			} else {
				mode = "?"
			}
		case "req":
			c = d.startOrEnd(append(loc[:len(loc):len(loc)], "req"))
		default:
			d.cur.Take()
		}
	})
	switch {
	case c == nil:
		d.Issue("missing", loc, "req")
	case mode != "" && mode != [...]string{"start", "end"}[c.kind]:
		d.Issue("literal_error", loc, "mode")
	}
	return c
}

// startOrEnd reads {"start": {...}} or {"end": {...}}.
func (d *decoder) startOrEnd(loc []string) (c *Change) {
	if d.cur.Kind() != jsontext.Object {
		d.cur.Take()
		return nil
	}
	d.cur.Object(func(raw jsontext.Value) {
		switch n := name(raw); n {
		case "start":
			c = d.change(start, append(loc[:len(loc):len(loc)], n))
		case "end":
			c = d.change(end, append(loc[:len(loc):len(loc)], n))
		default:
			d.cur.Take()
		}
	})
	return c
}

// change reads what a request says of one call.
func (d *decoder) change(k kind, loc []string) *Change {
	c := &Change{kind: k}
	r := &c.rec
	r.Ended = NotEnded
	r.flags = [...]byte{start: hasStart, end: hasEnd, complete: hasStart | hasEnd}[k]
	if d.cur.Kind() != jsontext.Object {
		d.cur.Take()
		d.Issue("model_attributes_type", loc)
		return c
	}
	from := len(d.arena)
	seen := 0 // of the members that are not columns
	var extra []byte
	d.cur.Object(func(raw jsontext.Value) {
		v := d.cur.Take()
		n := name(raw)
		switch n {
		case "started_at":
			seen |= seenStart
			if k != end {
				r.Started = d.time(v, loc, n)
			}
			return
		case "ended_at":
			seen |= seenEnd
			if k != start {
				r.Ended = d.time(v, loc, n)
			}
			return
		}
		if reserved[n] {
			return
		}
		col, known := columnByName[n]
		switch {
		case !known:
			extra = appendMember(extra, raw, v)
		case k == end && !ofEnd(col): // such as the trace that the call belongs to
		default:
			d.set(r, col, v, loc)
		}
	})
	if extra != nil {
		r.fields[Extra] = mergeObjects(nil, append(extra, '}'))
	}
	d.check(c, seen, loc)
	if len(d.arena)-from+len(extra) > MaxRecord {
		d.Refuse(errTooLarge.Status, errTooLarge.Reason)
	}
	return c
}

const (
	seenStart = 1 << iota
	seenEnd
)

func appendMember(dst []byte, name, v jsontext.Value) []byte {
	if dst == nil {
		dst = append(dst, '{')
	} else {
		dst = append(dst, ',')
	}
	dst = append(append(dst, name...), ':')
	return jsontext.AppendCompact(dst, v)
}

func ofEnd(c Column) bool {
	switch c {
	case ID, Project, Exception, Output, Summary, RunStepEnd:
		return true
	}
	return false
}

// reserved are the members of answers that the server alone says.
var reserved = map[string]bool{
	User.Name(): true, Source.Name(): true, "wb_username": true, "deleted_at": true, "expire_at": true, "storage_size_bytes": true, "total_storage_size_bytes": true,
}

// columnByName has the columns that requests may set.
var columnByName = func() map[string]Column {
	m := map[string]Column{}
	for c, n := range columnNames {
		if n != "" && !reserved[n] {
			m[n] = Column(c)
		}
	}
	return m
}()

// set sets a column to what a request has.
func (d *decoder) set(r *Record, c Column, v jsontext.Value, loc []string) {
	want, wrong := jsontext.Object, "dict_type"
	switch {
	case c == Output: // anything
		r.fields[c] = d.keep(v)
		return
	case !c.JSON():
		want, wrong = jsontext.String, "string_type"
	case c == RunStep || c == RunStepEnd:
		want, wrong = jsontext.Number, "int_type"
	}
	switch {
	case v.Kind() == jsontext.Null:
		r.fields[c] = nil
	case v.Kind() != want || want == jsontext.Number && !whole(v):
		d.Issue(wrong, loc, c.Name())
	case want == jsontext.String:
		r.fields[c] = d.text(v)
	default:
		r.fields[c] = d.keep(v)
	}
}

// keep returns a value without white space between its tokens.
func (d *decoder) keep(v jsontext.Value) []byte {
	from := len(d.arena)
	d.arena = jsontext.AppendCompact(d.arena, v)
	return d.arena[from:len(d.arena):len(d.arena)]
}

// text returns what a string stands for. It is never nil.
func (d *decoder) text(v jsontext.Value) []byte {
	from := len(d.arena)
	d.arena, _ = v.AppendText(d.arena)
	return d.arena[from:len(d.arena):len(d.arena)]
}

// whole reports whether a number is written as a whole one.
func whole(v jsontext.Value) bool { return len(v) <= 20 && !bytes.ContainsAny(v, ".eE") }

// time reads a time.
func (d *decoder) time(v jsontext.Value, loc []string, name string) int64 {
	us, ok := parseTime(v)
	if !ok {
		d.Issue("datetime_parsing", loc, name)
	}
	return us
}

// required are the columns that a change has to have.
var required = [...][]Column{
	start:    {OpName, Attributes, Inputs},
	end:      {ID, Summary},
	complete: {ID, TraceID, OpName, Attributes, Inputs, Summary},
}

// check looks for what is missing and too long, and adds the ids that the server makes.
func (d *decoder) check(c *Change, seen int, loc []string) {
	r := &c.rec
	if !r.Has(Project) && d.project != "" {
		r.fields[Project] = []byte(d.project)
	}
	d.must(r, Project, loc)
	for _, col := range required[c.kind] {
		d.must(r, col, loc)
	}
	if c.kind != end && seen&seenStart == 0 {
		d.Issue("missing", loc, "started_at")
	}
	if c.kind != start && seen&seenEnd == 0 {
		d.Issue("missing", loc, "ended_at")
	}
	for _, col := range [...]Column{ID, TraceID} {
		if c.kind == start && len(r.fields[col]) == 0 {
			r.fields[col] = []byte(newID())
		}
	}
	if len(r.fields[ParentID]) == 0 {
		r.fields[ParentID] = nil
	}
	d.lengths(r, loc)
}

// must reports a column that is missing, or an empty text of those that are keys.
func (d *decoder) must(r *Record, c Column, loc []string) {
	switch {
	case !r.Has(c):
		d.Issue("missing", loc, c.Name())
	case len(r.fields[c]) == 0 && c != OpName:
		d.Issue("string_too_short", loc, c.Name())
	}
}

// lengths refuses texts that are too long for keys.
func (d *decoder) lengths(r *Record, loc []string) {
	for _, l := range [...]struct {
		c   Column
		max int
	}{
		{Project, maxProject}, {ID, MaxID}, {TraceID, MaxID}, {ParentID, MaxID}, {ThreadID, MaxID}, {TurnID, MaxID}, {RunID, MaxID},
		{OpName, MaxOpName}, {DisplayName, MaxName},
	} {
		if len(r.fields[l.c]) > l.max {
			d.Issue("string_too_long", loc, l.c.Name())
		}
	}
}

func newID() string {
	id, err := uuid.NewV7()
	if err != nil { // the random numbers of the system never fail (crypto/rand)
		panic(err)
	}
	return id.String()
}
