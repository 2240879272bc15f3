package jinja

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// Dict is a mapping that keeps the order of insertion. It must not be changed after it was
// passed to Render.
type Dict struct {
	keys, vals []Value
	// index finds a key by its hash. It is nil while the dict is small and all its keys
	// are of type string, as in most dicts of a chat: comparing all keys is then faster
	// than hashing one.
	index map[any]int
}

const indexFrom = 9 // the size from which a Dict keeps an index

// NewDict makes an empty dict with room for n entries.
func NewDict(n int) *Dict {
	return &Dict{keys: make([]Value, 0, n), vals: make([]Value, 0, n)}
}

// Len returns the number of entries.
func (d *Dict) Len() int { return len(d.keys) }

// Get returns the value under a string key.
func (d *Dict) Get(key string) (Value, bool) {
	if i := d.findString(key); i >= 0 {
		return d.vals[i], true
	}
	return nil, false
}

// Set sets the value under a string key. A key that is already there keeps its place.
func (d *Dict) Set(key string, v Value) {
	if i := d.findString(key); i >= 0 {
		d.vals[i] = v
		return
	}
	d.add(key, key, v)
}

// All iterates over the entries with a string key, in order.
func (d *Dict) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for i, k := range d.keys {
			if s, ok := k.(string); ok && !yield(s, d.vals[i]) {
				return
			}
		}
	}
}

// Update sets every entry of other that has a string key, like Python's dict.update.
func (d *Dict) Update(other *Dict) {
	for key, v := range other.All() {
		d.Set(key, v)
	}
}

func (d *Dict) clone() *Dict {
	return &Dict{keys: slices.Clone(d.keys), vals: slices.Clone(d.vals), index: maps.Clone(d.index)}
}

func (d *Dict) findString(key string) int {
	if d.index != nil {
		if i, ok := d.index[key]; ok {
			return i
		}
		return -1
	}
	for i, k := range d.keys {
		if s, ok := k.(string); ok && s == key {
			return i
		}
	}
	return -1
}

func (d *Dict) add(hash any, key, v Value) {
	if _, plain := key.(string); d.index == nil && (!plain || len(d.keys)+1 >= indexFrom) {
		d.index = make(map[any]int, 2*len(d.keys)+1)
		for i, k := range d.keys {
			d.index[k] = i // all strings, which are their own hash
		}
	}
	if d.index != nil {
		d.index[hash] = len(d.keys)
	}
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, v)
}

// find returns the index of a key of any type, or -1. An unhashable key raises TypeError.
func (d *Dict) find(m *machine, key Value) int {
	if s, ok := key.(string); ok {
		return d.findText(m, s)
	}
	h := m.hash(key)
	if s, ok := h.(string); ok {
		return d.findText(m, s)
	}
	m.spend(hashSize(h) >> 7)
	if i, ok := d.index[h]; ok {
		return i
	}
	return -1
}

// findText is findString with its time counted: the key is hashed and compared with the
// one that is found, or it is compared with the few keys of its length.
func (d *Dict) findText(m *machine, key string) int {
	if len(key) >= 64 {
		n := 2
		if d.index == nil {
			n = len(d.keys)
		}
		m.scan(n * len(key))
	}
	return d.findString(key)
}

// hashSize is the length of a hash that is a text, in bytes.
func hashSize(h any) int64 {
	switch h := h.(type) {
	case string:
		return int64(len(h))
	case bigHash:
		return int64(len(h))
	case tupleHash:
		return int64(len(h))
	}
	return 0
}

// setText sets the value under a text and counts the time.
func (d *Dict) setText(m *machine, key string, v Value) {
	if i := d.findText(m, key); i >= 0 {
		d.vals[i] = v
		return
	}
	m.scan(2 * len(key))
	d.add(key, key, v)
}

func (d *Dict) set(m *machine, key, v Value) {
	if i := d.find(m, key); i >= 0 {
		d.vals[i] = v
		return
	}
	d.add(m.hash(key), key, v)
}

// A hash is a comparable Go value, and keys that are equal in Python have equal hashes: 1,
// 1.0 and True have int64(1), a str and the Markup of the same text have the string, and
// tuples have a text that spells out their items.

type (
	noneHash      struct{}
	undefinedHash struct{}
	bigHash       string
	tupleHash     string
)

// hash is hash(v). An unhashable v raises TypeError.
func (m *machine) hash(v Value) any {
	switch v := v.(type) {
	case string:
		m.scan(2 * len(v))
		return v
	case int64:
		return v
	case nil:
		return noneHash{}
	case Markup:
		m.scan(2 * len(v))
		return string(v)
	case bool:
		i, _ := asIndex(v)
		return i
	case float64:
		if v != math.Trunc(v) || math.IsInf(v, 0) {
			return v
		}
		if math.Abs(v) < 1<<63 {
			return int64(v)
		}
		b, _ := big.NewFloat(v).Int(nil)
		return bigHash(b.String())
	case *big.Int:
		m.spend(int64(v.BitLen()))
		return bigHash(v.String())
	case *undefined:
		return undefinedHash{}
	case *rangeValue:
		return *v
	case *tuple:
		return tupleHash(m.spellTuple(nil, v, 0))
	case *view:
		if v.kind != viewValues {
			throwType("unhashable type: '%s'", typeName(v))
		}
	case *List, *Dict:
		throwType("unhashable type: '%s'", typeName(v))
	}
	if !identical(v, v) { // not a value of the language: a caller has passed it in
		throwType("unhashable type: '%s'", typeName(v))
	}
	return v // compared by identity
}

func (m *machine) spellTuple(b []byte, t *tuple, depth int) []byte {
	if depth > maxNesting {
		throwRecursion()
	}
	b = append(b, '(')
	for _, x := range t.items {
		m.spend(1)
		start := len(b)
		if inner, ok := x.(*tuple); ok {
			b = m.spellTuple(b, inner, depth+1)
			continue
		}
		switch h := m.hash(x).(type) {
		case string:
			m.classify(len(h))
			b = strconv.AppendQuote(b, h)
		case int64, float64, bigHash, rangeValue:
			b = fmt.Appendf(b, "%T:%v,", h, h)
		default:
			b = fmt.Appendf(b, "%T:%p,", h, h)
		}
		m.alloc(len(b) - start)
	}
	return append(b, ')')
}
