package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// Metadata are the keys of a file and their values. They refer to the mapped file: they are valid
// until it is closed, and who reads them defers File.CatchFault if the file may have been cut.
//
// The methods that are called like types tell that a key is there and its value can be read as
// that type. Those of [Value] say what is wrong with a value instead.
type Metadata struct {
	values map[string]Value
	keys   []string
}

// Keys lists all keys in the order of the file. The caller must not change it.
func (m *Metadata) Keys() []string { return m.keys }

// Value finds the value of a key.
func (m *Metadata) Value(key string) (Value, bool) {
	v, ok := m.values[key]
	return v, ok
}

// String is the text that key has. It is a copy.
func (m *Metadata) String(key string) (value string, found bool) {
	return found1(m, key, Value.Text)
}

// Bool is the truth value that key has.
func (m *Metadata) Bool(key string) (value, found bool) { return found1(m, key, Value.Bool) }

// Int is the integer that key has, of any type of integers that an int64 can hold.
func (m *Metadata) Int(key string) (value int64, found bool) { return found1(m, key, Value.Int) }

// Float is the number that key has, of any type of numbers.
func (m *Metadata) Float(key string) (value float64, found bool) { return found1(m, key, Value.Float) }

// Ints is the array of integers that key has, of any type of integers. It is a copy.
func (m *Metadata) Ints(key string) (values []int32, found bool) { return found1(m, key, Value.Ints) }

// Floats is the array of numbers that key has, float32 or float64. It is a copy.
func (m *Metadata) Floats(key string) (values []float32, found bool) {
	return found1(m, key, Value.Floats)
}

// Strings gives the length of the array of texts that key has, and its texts, which are parts of
// the file.
func (m *Metadata) Strings(key string) (count int, texts iter.Seq[[]byte], found bool) {
	v, ok := m.values[key]
	if !ok {
		return 0, nil, false
	}
	count, texts, err := v.Texts()
	return count, texts, err == nil
}

func found1[T any](m *Metadata, key string, read func(Value) (T, error)) (value T, found bool) {
	v, ok := m.values[key]
	if !ok {
		return value, false
	}
	value, err := read(v)
	return value, err == nil
}

// Value is a value of the metadata, whose bytes have been checked.
type Value struct {
	Type Type
	Elem Type   // the type of the elements of an array
	Len  int    // the number of elements of an array
	data []byte // without the header of an array or the length of a text
}

// String describes a value for messages.
func (v Value) String() string {
	switch {
	case v.Type == Array:
		return fmt.Sprintf("an array of %d %s", v.Len, v.Elem)
	case v.Type == String:
		return fmt.Sprintf("%.100q", v.data)
	case v.Type == Bool:
		return fmt.Sprint(v.data[0] != 0)
	case v.Type == Uint64:
		return fmt.Sprint(uint64(number(v.Type, v.data)))
	case v.Type.integer():
		return fmt.Sprint(number(v.Type, v.data))
	}
	return fmt.Sprint(float(v.Type, v.data))
}

// Zero reports whether a value is 0, false, or a text or an array with nothing else in it, which
// stands for something that is not there.
func (v Value) Zero() bool {
	return !bytes.ContainsFunc(v.data, func(r rune) bool { return r != 0 })
}

func (v Value) not(what string) error { return fmt.Errorf("is %s (%s), not %s", v, v.Type, what) }

// Text is a copy of a string.
func (v Value) Text() (string, error) {
	if v.Type != String {
		return "", v.not("a string")
	}
	return string(v.data), nil
}

// Bool is a truth value.
func (v Value) Bool() (bool, error) {
	if v.Type != Bool {
		return false, v.not("a truth value")
	}
	return v.data[0] != 0, nil
}

// Int is an integer of any type.
func (v Value) Int() (int64, error) {
	if !v.Type.integer() {
		return 0, v.not("an integer")
	}
	n := number(v.Type, v.data)
	if v.Type == Uint64 && n < 0 {
		return 0, fmt.Errorf("is %d, which is beyond any use", uint64(n))
	}
	return n, nil
}

// Float is a number of any type, which may be infinite or NaN.
func (v Value) Float() (float64, error) {
	switch {
	case v.Type == Float32 || v.Type == Float64:
		return float(v.Type, v.data), nil
	case v.Type.integer():
		n, err := v.Int()
		return float64(n), err
	}
	return 0, v.not("a number")
}

// Ints is a copy of an array of integers.
func (v Value) Ints() ([]int32, error) {
	if v.Type != Array || !v.Elem.integer() {
		return nil, v.not("an array of integers")
	}
	size := valueTypes[v.Elem].size
	list := make([]int32, v.Len)
	for i := range list {
		n := number(v.Elem, v.data[i*size:])
		if n != int64(int32(n)) {
			return nil, fmt.Errorf("has the element %d, which no int32 can hold", n)
		}
		list[i] = int32(n)
	}
	return list, nil
}

// Floats is a copy of an array of numbers.
func (v Value) Floats() ([]float32, error) {
	if v.Type != Array || v.Elem != Float32 && v.Elem != Float64 {
		return nil, v.not("an array of numbers")
	}
	size := valueTypes[v.Elem].size
	list := make([]float32, v.Len)
	for i := range list {
		list[i] = float32(float(v.Elem, v.data[i*size:]))
	}
	return list, nil
}

// Bools is a copy of an array of truth values.
func (v Value) Bools() ([]bool, error) {
	if v.Type != Array || v.Elem != Bool {
		return nil, v.not("an array of truth values")
	}
	list := make([]bool, v.Len)
	for i := range list {
		list[i] = v.data[i] != 0
	}
	return list, nil
}

// Texts gives the length of an array of strings, and the strings, which are parts of the file.
func (v Value) Texts() (count int, texts iter.Seq[[]byte], err error) {
	if v.Type != Array || v.Elem != String {
		return 0, nil, v.not("an array of strings")
	}
	return v.Len, func(yield func([]byte) bool) {
		rest := v.data
		for range v.Len {
			// The lengths were checked, but somebody may have written into the file since.
			if len(rest) < 8 || binary.LittleEndian.Uint64(rest) > uint64(len(rest)-8) {
				return
			}
			n := int(binary.LittleEndian.Uint64(rest))
			if !yield(rest[8 : 8+n : 8+n]) {
				return
			}
			rest = rest[8+n:]
		}
	}, nil
}

// integer reports whether t is a type of integers.
func (t Type) integer() bool {
	return t <= Int32 || t == Uint64 || t == Int64
}

// number is the integer of type t at the beginning of b. An uint64 above the largest int64 is
// negative.
func number(t Type, b []byte) int64 {
	switch t {
	case Uint8:
		return int64(b[0])
	case Int8:
		return int64(int8(b[0]))
	case Uint16:
		return int64(binary.LittleEndian.Uint16(b))
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case Uint32:
		return int64(binary.LittleEndian.Uint32(b))
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// float is the float32 or float64 at the beginning of b.
func float(t Type, b []byte) float64 {
	if t == Float32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}
