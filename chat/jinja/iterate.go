package jinja

import (
	"strings"
	"unicode/utf8"
)

// iterator gives the items of a value once, one at a time. The items of a generator are
// computed one by one, and a text is not split as a whole.
type iterator struct {
	items []Value // the items themselves, or
	seq   sequence
	text  string
	gen   *generator
	loop  *loopContext
	pos   int
}

// sequence is a value that computes its items by their index.
type sequence interface {
	at(i int) Value
	len() int
}

func (v *view) len() int { return len(v.d.keys) }

// iterate is iter(v), or false if v is not iterable.
func (m *machine) iterate(v Value) (iterator, bool) {
	switch v := v.(type) {
	case *List:
		return iterator{items: v.items}, true
	case *tuple:
		return iterator{items: v.items}, true
	case *Dict:
		return iterator{items: v.keys}, true
	case *view:
		return iterator{seq: v}, true
	case *rangeValue:
		return iterator{seq: v}, true
	case string:
		return iterator{text: v}, true
	case Markup:
		return iterator{text: string(v)}, true
	case *generator:
		return iterator{gen: v}, true
	case *loopContext:
		return iterator{loop: v}, true
	case *undefined:
		return iterator{}, true
	}
	return iterator{}, false
}

// mustIterate is iterate for a value that has to be iterable.
func (m *machine) mustIterate(v Value) iterator {
	it, ok := m.iterate(v)
	if !ok {
		throwType("'%s' object is not iterable", typeName(v))
	}
	return it
}

func (it *iterator) next(m *machine) (Value, bool) {
	switch {
	case it.items != nil:
		if it.pos < len(it.items) {
			it.pos++
			return it.items[it.pos-1], true
		}
	case it.text != "":
		if it.pos < len(it.text) {
			r, n := utf8.DecodeRuneInString(it.text[it.pos:])
			it.pos += n
			return runeString(r), true
		}
	case it.seq != nil:
		if it.pos < it.seq.len() {
			it.pos++
			return it.seq.at(it.pos - 1), true
		}
	case it.gen != nil:
		return it.gen.next(m)
	case it.loop != nil:
		if v, ok := it.loop.advance(m); ok {
			return pair(v, it.loop), true
		}
	}
	return nil, false
}

// collect is list(v): the items, which the caller must not change.
func (m *machine) collect(v Value) []Value {
	switch v := v.(type) {
	case *List:
		return v.items
	case *tuple:
		return v.items
	case *Dict:
		return v.keys
	}
	it := m.mustIterate(v)
	return m.drain(&it)
}

// drain returns all items that an iterator has left.
func (m *machine) drain(it *iterator) []Value {
	var items []Value
	for {
		v, ok := it.next(m)
		if !ok {
			return items
		}
		m.spend(1)
		m.alloc(2 * valueSize)
		items = append(items, v)
	}
}

// newGenerator makes a generator. start is called when the first item is needed, and
// returns the function that gives one item at a time.
func newGenerator(name string, start func(m *machine) func() (Value, bool)) *generator {
	var step func() (Value, bool)
	done := false
	g := &generator{typ: "generator", name: "object " + name + " "}
	g.next = func(m *machine) (Value, bool) {
		if done {
			return nil, false
		}
		if step == nil {
			done = true // like a Python generator after an exception
			step = start(m)
			done = false
		}
		if step != nil {
			// A generator over a generator calls it on the same Go stack.
			if m.pulls++; m.pulls > maxNesting {
				throwRecursion()
			}
			v, ok := step()
			m.pulls--
			if ok {
				return v, true
			}
		}
		done = true
		return nil, false
	}
	return g
}

// sliceBounds resolves start, stop and step of a slice of n items, as
// slice.indices does. Missing bounds are nil.
func sliceBounds(start, stop, step Value, n int) (from, to, by int) {
	by64 := int64(1)
	if step != nil {
		by64 = sliceIndex(step)
		if by64 == 0 {
			throwValue("slice step cannot be zero")
		}
	}
	low, high := int64(0), int64(n)
	if by64 < 0 {
		low, high = -1, int64(n)-1
	}
	clamp := func(v Value, absent int64) int64 {
		if v == nil {
			return absent
		}
		i := sliceIndex(v)
		if i < 0 {
			return max(i+int64(n), low)
		}
		return min(i, high)
	}
	if by64 > 0 {
		return int(clamp(start, low)), int(clamp(stop, high)), int(min(by64, int64(n)+1))
	}
	return int(clamp(start, high)), int(clamp(stop, low)), int(max(by64, -int64(n)-1))
}

func sliceIndex(v Value) int64 {
	i, ok := asIndex(v)
	if !ok {
		throwType("slice indices must be integers or None or have an __index__ method")
	}
	return i
}

// slice is v[start:stop:step].
func (m *machine) slice(v, start, stop, step Value) Value {
	switch v := v.(type) {
	case string:
		return m.sliceText(v, start, stop, step)
	case Markup:
		return Markup(m.sliceText(string(v), start, stop, step))
	case *List:
		return m.newList(m.sliceItems(v.items, start, stop, step))
	case *tuple:
		return m.newTuple(m.sliceItems(v.items, start, stop, step))
	case *rangeValue:
		from, to, by := sliceBounds(start, stop, step, v.len())
		return &rangeValue{v.start + int64(from)*v.step, v.start + int64(to)*v.step, v.step * int64(by)}
	case *undefined:
		v.raise()
	case *Dict:
		throwType("unhashable type: 'slice'")
	}
	throwType("'%s' object is not subscriptable", typeName(v))
	return nil
}

func (m *machine) sliceItems(items []Value, start, stop, step Value) []Value {
	from, to, by := sliceBounds(start, stop, step, len(items))
	if by == 1 {
		if from >= to {
			return nil
		}
		return items[from:to:to]
	}
	if by > 0 && from < to || by < 0 && from > to {
		n := (to-from)/by + 1
		m.alloc(2 * valueSize * n)
		m.spend(int64(n) / 8)
	}
	var out []Value
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		out = append(out, items[i])
	}
	return out
}

func (m *machine) sliceText(s string, start, stop, step Value) string {
	m.scan(2 * len(s))
	n := runeLen(s)
	from, to, by := sliceBounds(start, stop, step, n)
	if by == 1 {
		if from >= to {
			return ""
		}
		if n == len(s) {
			return s[from:to]
		}
		begin := byteOffset(s, from)
		return s[begin : begin+byteOffset(s[begin:], to-from)]
	}
	m.mapping(4 * n)
	runes := []rune(s)
	var b strings.Builder
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		b.WriteRune(runes[i])
	}
	return b.String()
}

// byteOffset returns the index of the byte at which character n of s starts.
func byteOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
