package trajectory

import (
	"math"
	"slices"
	"strconv"
	"time"

	"weir/internal/jsontext"
)

// Facts are what queries and metrics need of a trajectory.
type Facts struct {
	Reward  float64 // 0 when absent (docs/interface/trajectories.md, section 2.3)
	Scored  bool    // false: it was recorded without a reward, and none has been given since
	Initial Int     // policy versions
	Final   Int
	Start   time.Time // start_time; zero: none
	Tools   bool      // tools is a list with something in it

	Finish  []string // distinct finish reasons, in order of appearance
	Choices int      // trainable turns
	Tokens  Int      // completion tokens, if every choice says how many

	Metrics  []Score // as last given; booleans count 1 and 0
	Metadata []Label
}

// Int is an integer that may be absent.
type Int struct {
	N     int64
	Given bool
}

// Some is an integer that is there.
func Some(n int64) Int { return Int{n, true} }

// Or is the first of a and b that is there.
func (a Int) Or(b Int) Int {
	if a.Given {
		return a
	}
	return b
}

// Score is one metric.
type Score struct {
	Name  string
	Value float64
}

// Label is one member of metadata, its value as text: strings as they are,
// anything else as the JSON that came.
type Label struct{ Name, Value string }

// Version is the policy version that selects the trajectory: the final one,
// else the initial one.
func (f *Facts) Version() Int { return f.Final.Or(f.Initial) }

// Truncated reports whether a turn ended at its length limit.
func (f *Facts) Truncated() bool { return slices.Contains(f.Finish, "length") }

// Describe checks a trajectory (an object, compact) and returns its facts. reserve is called
// before so many bytes more are held for them, and an error of it is returned; nil allows
// everything.
func Describe(text Value, reserve func(n int64) error) (Facts, error) {
	d := details{room: room{reserve: reserve}}
	f := d.trajectory(text)
	if d.room.err != nil {
		return Facts{}, d.room.err
	}
	if len(d.list) > 0 {
		return Facts{}, &Invalid{d.list}
	}
	return f, nil
}

// trajectory checks one trajectory at the path, in document order.
func (d *details) trajectory(text Value) Facts {
	f := Facts{Scored: true}
	d.begin()
	turns := tally{room: &d.room}
	c := jsontext.NewCursor(text)
	c.Object(func(name jsontext.Value) {
		key := shortName(name)
		d.push(key)
		defer d.pop()
		kind := c.Kind()
		switch key {
		case "messages_and_choices":
			turns = tally{room: &d.room}
			d.turns(c, &turns)
		case "tools":
			f.Tools = d.tools(c)
		case "additional_histories":
			d.listOf(c, func() { d.history(c) })
		case "reward":
			x, ok := c.Take().Float()
			if f.Reward = x; !ok {
				d.add(notFloat)
			}
		case "initial_policy_version":
			f.Initial = d.integer(c.Take())
		case "final_policy_version":
			f.Final = d.integer(c.Take())
		case "metrics":
			f.Metrics = d.metrics(c)
		case "metadata":
			f.Metadata = d.metadata(c)
		case "logs":
			d.listOf(c, func() {
				if c.Kind() != jsontext.String {
					d.add(notText)
				}
				c.Take()
			})
		case "start_time":
			f.Start = time.Time{}
			switch v := c.Take(); kind {
			case jsontext.Null:
			case jsontext.String:
				if len(v) > longText && !d.need(factsByte*int64(len(v))) {
					return
				}
				t, ok := ParseTime(v.Text())
				if f.Start = t; !ok {
					d.add(notDatetime)
				}
			default:
				d.add(notDatetimeText)
			}
		default:
			c.Take()
		}
	})
	f.Finish, f.Choices = turns.finish, turns.choices
	if turns.choices > 0 && !turns.silent {
		f.Tokens = Some(turns.tokens)
	}
	return f
}

// listOf checks that the value at the cursor is an array and goes over it, with
// each index on the path.
func (d *details) listOf(c *jsontext.Cursor, element func()) {
	if c.Kind() != jsontext.Array {
		d.add(notList)
		c.Take()
		return
	}
	c.Array(func(n int) {
		if d.full() {
			c.Take()
			return
		}
		d.push(strconv.Itoa(n))
		element()
		d.pop()
	})
}

// tools checks a tools member and reports whether there are any.
func (d *details) tools(c *jsontext.Cursor) (some bool) {
	if c.Kind() == jsontext.Null {
		c.Take()
		return false
	}
	d.listOf(c, func() {
		some = true
		if c.Kind() != jsontext.Object {
			d.add(notObject)
		}
		c.Take()
	})
	return some
}

// history checks an element of additional_histories (docs/interface/trajectories.md, section 2.5).
func (d *details) history(c *jsontext.Cursor) {
	if c.Kind() != jsontext.Object {
		d.add(notObject)
		c.Take()
		return
	}
	c.Object(func(name jsontext.Value) {
		key := shortName(name)
		d.push(key)
		defer d.pop()
		switch key {
		case "messages_and_choices":
			d.turns(c, &tally{room: &d.room})
		case "tools":
			d.tools(c)
		default:
			c.Take()
		}
	})
}

// tally counts over the turns of a conversation.
type tally struct {
	room    *room
	choices int
	finish  []string // at most maxFinish
	tokens  int64
	silent  bool // a choice does not say how many tokens it has
}

// maxFinish is more kinds of finish reasons than there are.
const maxFinish = 32

// turns checks messages_and_choices.
func (d *details) turns(c *jsontext.Cursor, t *tally) {
	d.listOf(c, func() {
		if c.Kind() != jsontext.Object {
			d.add(notObject)
			c.Take()
			return
		}
		t.turn(c)
	})
}

// turn looks into one element: a choice has a message and a finish_reason (docs/interface/trajectories.md, section 2.4).
func (t *tally) turn(c *jsontext.Cursor) {
	var message, finish bool
	reason, tokens, ids := "", -1, -1
	c.Object(func(name jsontext.Value) {
		key := shortName(name)
		switch kind := c.Kind(); {
		case key == "message":
			message = kind == jsontext.Object
			c.Take()
		case key == "finish_reason":
			finish, reason = true, ""
			if v := c.Take(); kind == jsontext.String && (len(v) <= longText || t.room.need(factsByte*int64(len(v)))) {
				reason = v.Text()
			}
		case key == "logprobs":
			tokens = -1
			if kind != jsontext.Object {
				c.Take()
				return
			}
			c.Object(func(name jsontext.Value) {
				key := shortName(name)
				if key == "content" && c.Kind() == jsontext.Array {
					tokens = c.Count()
					return
				}
				c.Take()
			})
		case key == "token_ids" && kind == jsontext.Array:
			ids = c.Count()
		default:
			c.Take()
		}
	})
	if !message || !finish {
		return
	}
	t.choices++
	if reason != "" && len(t.finish) < maxFinish && !slices.Contains(t.finish, reason) {
		t.finish = append(t.finish, reason)
	}
	switch {
	case ids >= 0:
		t.tokens += int64(ids)
	case tokens >= 0:
		t.tokens += int64(tokens)
	default:
		t.silent = true
	}
}

// score reads a metric: a number, or true for 1 and false for 0.
func score(v Value) (x float64, ok bool) {
	if v.Kind() == jsontext.Bool {
		if v[0] == 't' {
			return 1, true
		}
		return 0, true
	}
	return v.Float()
}

// metrics checks an object of numbers and booleans.
func (d *details) metrics(c *jsontext.Cursor) []Score {
	if c.Kind() != jsontext.Object {
		d.add(notObject)
		c.Take()
		return nil
	}
	n, ok := d.members(c, scoreBytes)
	if !ok {
		c.Take()
		return nil
	}
	list, seen := newList[Score](n)
	c.Object(func(name jsontext.Value) {
		x, ok := score(c.Take())
		if !ok {
			d.add(notFloat, shortName(name))
			return
		}
		key := name.Text()
		list = put(list, seen, key, Score{key, x})
	})
	return list
}

// names says where in a list each name is. A list could be searched instead,
// if nobody sent millions of names.
type names map[string]int

// newList returns a list, with its names, that has room for n members. It is nil for none.
func newList[T any](n int) ([]T, names) {
	if n == 0 {
		return nil, nil
	}
	return make([]T, 0, n), make(names, n)
}

// put adds x under its name; of a name that is there twice the last one counts.
func put[T any](list []T, at names, name string, x T) []T {
	if i, ok := at[name]; ok {
		list[i] = x
		return list
	}
	at[name] = len(list)
	return append(list, x)
}

func (d *details) metadata(c *jsontext.Cursor) []Label {
	if c.Kind() != jsontext.Object {
		d.add(notObject)
		c.Take()
		return nil
	}
	n, ok := d.members(c, labelBytes)
	if !ok {
		c.Take()
		return nil
	}
	list, seen := newList[Label](n)
	c.Object(func(name jsontext.Value) {
		key := name.Text()
		l := Label{Name: key}
		if v := c.Take(); v.Kind() == jsontext.String {
			l.Value = v.Text()
		} else {
			l.Value = string(v)
		}
		list = put(list, seen, key, l)
	})
	return list
}

// integer reads a policy version: null, or an integer however it is spelt (3.0
// is 3). What pydantic reads through a float64 we do, too: only the derived
// column is rounded, the text is kept.
func (d *details) integer(v Value) Int {
	switch v.Kind() {
	case jsontext.Null:
		return Int{}
	case jsontext.Number:
	default:
		d.add(notInt)
		return Int{}
	}
	if len(v) <= len("-9223372036854775808") { // the error for a longer one would be as long
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return Some(n)
		}
	}
	x, ok := v.Float()
	switch {
	case !ok:
		d.add(notInt)
	case x != math.Trunc(x):
		d.add(fractional)
	case x < math.MinInt64 || x >= math.MaxInt64: // the latter rounds to 2^63
		d.add(notInt)
	default:
		return Some(int64(x))
	}
	return Int{}
}
