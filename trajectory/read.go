package trajectory

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
)

// Limits bound a log request.
type Limits struct {
	Trajectory   int // bytes of one trajectory, and of a group without its trajectories
	Trajectories int // trajectories, and groups, in one request
	Depth        int // levels of nesting
	// Reserve is called before Read comes to hold so many bytes more, for a trajectory or
	// for what is made of it, which are kept until Read returns. An error of it ends the
	// reading. nil allows everything.
	Reserve func(n int64) error
}

// DefaultLimits returns the limits of docs/interface/trajectories.md, section 6.
func DefaultLimits() Limits {
	return Limits{Trajectory: 256 << 20, Trajectories: 1_000_000, Depth: 200}
}

// Validate reports the first limit that makes no sense.
func (l Limits) Validate() error {
	if l.Trajectory < 1 || l.Trajectories < 1 || l.Depth < 5 {
		return fmt.Errorf("trajectory: Limits of %d bytes, %d trajectories, %d levels: want at least 1, 1 and 5", l.Trajectory, l.Trajectories, l.Depth)
	}
	return nil
}

var (
	// ErrTooLarge is the error of a trajectory, or of what a group has besides
	// its trajectories, beyond Limits.Trajectory.
	ErrTooLarge = errors.New("trajectory: a trajectory is too large")
	// ErrTooMany is the error of more than Limits.Trajectories.
	ErrTooMany = errors.New("trajectory: too many trajectories")
)

// Trajectory is one rollout as it was received.
type Trajectory struct {
	Group, Index int   // zero-based: the group in its request, the trajectory in its group
	Text         Value // compact; the sink may not keep it
	Facts
}

// Group is what a group has besides its trajectories. It comes after them.
type Group struct {
	Index        int
	Trajectories int
	Text         Value // the other members, as one object; the sink may not keep it
	Exceptions   int
	Metrics      []Score // those that are numbers or booleans
}

// Sink takes what Read finds, in the order of the body. An error of it ends the
// reading. Until Read has returned without one nothing is known to be valid.
type Sink interface {
	Trajectory(*Trajectory) error
	Group(*Group) error
}

// Envelope is the request around the groups.
type Envelope struct {
	Split string
	Step  Int // training step, an extension of ours
	Counts
	Bytes int64 // of the body
}

// Counts count what a batch holds.
type Counts struct{ Groups, Trajectories, Exceptions int }

// MaxSplit is the longest name of a split, in characters.
const MaxSplit = 128

// Read reads the body of a log request and hands its groups to the sink. It
// holds one trajectory at a time: memory is bounded by Limits.Trajectory,
// whatever the size of the body.
//
// The error is an *Invalid with what is wrong with the body, ErrTooLarge,
// ErrTooMany, or one of r, Limits.Reserve or the sink. Once something is wrong the sink gets
// nothing more, but the body is read on for what else is.
func Read(r io.Reader, l Limits, sink Sink) (Envelope, error) {
	q := request{limits: l, sink: sink}
	q.reserve, q.groupRoom.reserve = l.Reserve, l.Reserve
	window := int64(0)
	if !q.grow(&window, jsontext.Window) {
		return q.Envelope, q.err
	}
	text := int64(0)
	q.Scanner = jsontext.NewStream(r, l.Depth, func(n int) bool { return q.grow(&text, text+int64(n)) })
	q.push("body")
	err := q.read()
	q.Bytes = int64(q.Offset())
	return q.Envelope, err
}

// request is a body being read.
type request struct {
	*jsontext.Scanner
	details
	limits Limits
	sink   Sink
	Envelope

	given     struct{ split, groups bool }
	group     Group
	groupRoom room  // of its metrics
	groupText int64 // reserved for its text
}

// errEnough ends the reading at the last violation that is reported.
var errEnough = errors.New("enough violations")

func (q *request) read() error {
	ok := q.body() && q.Over()
	var bad *jsontext.SyntaxError
	switch err := q.Err(); {
	case ok:
	case errors.As(err, &bad):
		// Where the text ends to be JSON everything else is guesswork.
		return &Invalid{[]Detail{{Loc: []string{"body", strconv.Itoa(bad.Offset)}, Msg: notJSON.msg, Type: notJSON.code}}}
	case errors.Is(err, jsontext.ErrTooLarge):
		return ErrTooLarge
	case errors.Is(err, jsontext.ErrNoMemory):
		return q.room.err
	case errors.Is(err, errEnough):
	case err != nil:
		return err
	}
	if len(q.list) > 0 {
		return &Invalid{q.list}
	}
	return nil
}

// report reports a violation at the path. It is false when that was the last.
func (q *request) report(v violation, tail ...string) bool {
	if !q.add(v, tail...) {
		return q.Fail(errEnough)
	}
	return true
}

// within puts a name on the path while f runs.
func (q *request) within(name string, f func() bool) bool {
	q.push(name)
	defer q.pop()
	return f()
}

// wrong scans a value that is not what it should be and reports it.
func (q *request) wrong(v violation) bool { return q.Value() && q.report(v) }

// body scans the value of the whole body.
func (q *request) body() bool {
	if q.End() {
		return q.Err() == nil && q.report(missing)
	}
	if q.Next() != '{' {
		return q.wrong(notModel)
	}
	if !q.Object(q.member) {
		return false
	}
	if !q.given.split && !q.report(missing, "split") {
		return false
	}
	return q.given.groups || q.report(missing, "trajectory_groups")
}

// member scans a member of the request.
func (q *request) member() bool {
	name, ok := q.CaptureName(q.limits.Trajectory)
	if !ok {
		return false
	}
	switch key := shortName(name); key {
	case "split":
		q.given.split = true
		return q.within(key, q.split)
	case "step":
		return q.within(key, q.step)
	case "trajectory_groups":
		return q.within(key, q.groups)
	}
	return q.Value() // model_id too: the one in the path wins (docs/interface/trajectories.md, section 2.1)
}

func (q *request) split() bool {
	v, ok := q.Capture(q.limits.Trajectory)
	if !ok {
		return false
	}
	if v.Kind() != jsontext.String {
		return q.report(notText)
	}
	if len(v) > MaxSplit*len(`\ud83d\ude00`)+2 { // it has more characters, however they are written
		return q.report(tooLong)
	}
	text, paired := v.AppendText(nil)
	q.Split = string(text)
	if bad := checkSplit(q.Split); bad != nil {
		return q.report(*bad)
	}
	if !paired {
		return q.report(badText)
	}
	return true
}

// checkSplit says what is wrong with a split's name; nil: nothing.
func checkSplit(s string) *violation {
	n := utf8.RuneCountInString(s)
	switch {
	case n == 0:
		return &tooShort
	case n > MaxSplit:
		return &tooLong
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return &badText
		}
	}
	return nil
}

// ValidSplit reports whether s can be the name of a split.
func ValidSplit(s string) bool { return utf8.ValidString(s) && checkSplit(s) == nil }

func (q *request) step() bool {
	v, ok := q.Capture(q.limits.Trajectory)
	if !ok {
		return false
	}
	n := q.integer(v)
	if q.full() {
		return q.Fail(errEnough)
	}
	if n.Given && n.N < 0 {
		return q.report(negative)
	}
	q.Step = n
	return true
}

func (q *request) groups() bool {
	if q.Next() != '[' {
		q.given.groups = true
		return q.wrong(notList)
	}
	if q.given.groups {
		// Python would let the last one win; but what came first is staged, and
		// to lose logged data silently is the one thing not to do.
		return q.wrong(repeated)
	}
	q.given.groups = true
	return q.Array(func(n int) bool {
		if n == q.limits.Trajectories {
			return q.Fail(ErrTooMany)
		}
		return q.within(strconv.Itoa(n), func() bool { return q.oneGroup(n) })
	})
}

func (q *request) oneGroup(n int) bool {
	if q.Next() != '{' {
		return q.wrong(notModel)
	}
	q.group = Group{Index: n, Text: append(q.group.Text[:0], '{')}
	q.groupRoom.begin()
	seen := false
	if !q.Object(func() bool { return q.groupMember(&seen) }) {
		return false
	}
	q.group.Text = append(q.group.Text, '}')
	q.Groups++
	q.Exceptions += q.group.Exceptions
	if len(q.list) > 0 {
		return true
	}
	if err := q.sink.Group(&q.group); err != nil {
		return q.Fail(err)
	}
	return true
}

// groupMember scans a member of a group: its trajectories one by one, anything
// else as a whole.
func (q *request) groupMember(seen *bool) bool {
	key, ok := q.CaptureName(q.limits.Trajectory) // it is kept as it was written
	if !ok {
		return false
	}
	name := shortName(key)
	g := &q.group
	if name != "trajectories" {
		if !q.widen(len(key) + len(",:}")) {
			return false
		}
		if len(g.Text) > 1 {
			g.Text = append(g.Text, ',')
		}
		g.Text = append(append(g.Text, key...), ':')
	}
	q.push(name)
	defer q.pop()
	if name == "trajectories" {
		return q.trajectories(seen)
	}
	v, ok := q.Capture(q.limits.Trajectory - min(len(g.Text), q.limits.Trajectory))
	if !ok {
		return false
	}
	if !q.widen(len(v) + len("}")) {
		return false
	}
	g.Text = longcopy.Append(g.Text, v)
	return q.groupValue(name, v)
}

// widen makes room for n more bytes in the text of the group.
func (q *request) widen(n int) bool {
	old := q.group.Text
	if size := len(old) + n; size > cap(old) {
		size = max(size, 2*cap(old), 512)
		if !q.groupRoom.grow(&q.groupText, int64(size+cap(old))) {
			return q.Fail(q.groupRoom.err)
		}
		q.group.Text = longcopy.Append(make([]byte, 0, size), old)
	}
	return true
}

// groupValue checks the container types of what a group has (docs/interface/trajectories.md, section 2.2).
func (q *request) groupValue(name string, v Value) bool {
	switch name {
	case "exceptions", "logs":
		if v.Kind() != jsontext.Array {
			return q.report(notList)
		}
		if name == "exceptions" {
			q.group.Exceptions = jsontext.NewCursor(v).Count()
		}
	case "metadata", "metrics":
		if v.Kind() != jsontext.Object {
			return q.report(notObject)
		}
		if name == "metrics" {
			c := jsontext.NewCursor(v)
			members, ok := q.groupRoom.members(c, scoreBytes)
			if !ok {
				return q.Fail(q.groupRoom.err)
			}
			q.group.Metrics = scores(v, members)
		}
	}
	return true
}

// scores are the members of v that are metrics, of so many members.
func scores(v Value, members int) []Score {
	list, seen := newList[Score](members)
	for key, val := range v.Members() {
		if x, ok := score(val); ok {
			name := string(key)
			list = put(list, seen, name, Score{name, x})
		}
	}
	return list
}

func (q *request) trajectories(seen *bool) bool {
	if q.Next() != '[' {
		return q.wrong(notList)
	}
	if *seen {
		return q.wrong(repeated)
	}
	*seen = true
	return q.Array(func(n int) bool {
		if q.Trajectories == q.limits.Trajectories {
			return q.Fail(ErrTooMany)
		}
		q.Trajectories++
		q.group.Trajectories++
		return q.within(strconv.Itoa(n), func() bool { return q.one(n) })
	})
}

// one scans one trajectory.
func (q *request) one(n int) bool {
	if q.Next() != '{' {
		return q.wrong(notModel)
	}
	text, ok := q.Capture(q.limits.Trajectory)
	if !ok {
		return false
	}
	t := Trajectory{Group: q.group.Index, Index: n, Text: text}
	t.Facts = q.trajectory(t.Text)
	if q.room.err != nil {
		return q.Fail(q.room.err)
	}
	if q.full() {
		return q.Fail(errEnough)
	}
	if len(q.list) > 0 {
		return true
	}
	if err := q.sink.Trajectory(&t); err != nil {
		return q.Fail(err)
	}
	return true
}
