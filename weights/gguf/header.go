package gguf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"weir/weights"
)

var (
	// ErrUnsupported says that a file is whole, as far as one can tell, but of a version or
	// with a type that is not read. The message names it.
	ErrUnsupported = errors.New("gguf: not supported")
	// ErrNotGGUF says that a file is of another format.
	ErrNotGGUF = errors.New("gguf: not a GGUF file")
)

const (
	magic            = "GGUF"
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
	// These bounds are far above any model. They, and the bytes that are there, bound what
	// reading a header takes.
	maxKeys       = 1 << 16
	maxTensors    = 1 << 17
	maxDimensions = 4 // GGML_MAX_DIMS
	maxNesting    = 8 // arrays in arrays
	maxName       = 1 << 16
	maxAlignment  = 1 << 30
)

// Magic reports whether a file that begins with these bytes, of which four are needed, is a GGUF
// file. A file that is none may be called so, and the files of Ollama have names without an
// ending.
func Magic(first []byte) bool { return len(first) >= len(magic) && string(first[:len(magic)]) == magic }

// header is what the header of one file says.
type header struct {
	metadata  Metadata
	alignment uint64
	tensors   []weights.Tensor // in the order of the file
}

// parse reads the header of a file of this name. Data of tensors, and values of metadata, are
// parts of file. Nothing after the header is touched.
func parse(name string, file []byte) (*header, error) {
	r := reader{file: file}
	h, err := r.header()
	u, unknown := errors.AsType[*unsupportedError](err)
	switch {
	case err == nil:
		return h, nil
	case errors.Is(err, ErrNotGGUF):
		return nil, fmt.Errorf("%w: %s", ErrNotGGUF, name)
	case unknown:
		return nil, fmt.Errorf("%w: %s: %s", ErrUnsupported, name, u.text)
	}
	return nil, fmt.Errorf("%w: %s: %w", weights.ErrDamaged, name, err)
}

// Places reads where the tensors of a file are, of which begin are the first bytes. If these are too
// few, which a damaged length can also seem to be, there are no places, and needed is more than
// their number. Places are not compared with the size of the file, nor with each other: Open does
// that.
func Places(begin []byte) (places []weights.Place, needed int64, err error) {
	r := reader{file: begin}
	h, entries, start, err := r.describe()
	switch {
	case r.short:
		return nil, 4 * int64(len(begin)), nil
	case err != nil:
		return nil, 0, err
	}
	for _, e := range entries {
		if e.begin <= math.MaxInt64/4 && e.bytes <= math.MaxInt64/4 {
			from := int64(start + e.begin)
			places = append(places, weights.Place{Name: h.tensors[e.place].Name, From: from, To: from + int64(e.bytes)})
		}
	}
	return places, int64(r.at), nil
}

// unsupportedError is what parse makes an ErrUnsupported of.
type unsupportedError struct{ text string }

func (e *unsupportedError) Error() string { return e.text }

func unsupported(format string, args ...any) error {
	return &unsupportedError{fmt.Sprintf(format, args...)}
}

// reader reads a file from its beginning. Once it has failed, or there are too few bytes, all
// that it reads is 0.
type reader struct {
	file  []byte
	at    int
	err   error
	short bool // err is that there are too few bytes
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// take is the next n bytes.
func (r *reader) take(n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.file)-r.at) {
		r.short = true
		r.fail(fmt.Errorf("%d bytes are needed at byte %d, but only %d follow: the file is truncated or damaged", n, r.at, len(r.file)-r.at))
		return nil
	}
	b := r.file[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// name reads the name of a key or of a tensor, which must be text.
func (r *reader) name() string {
	n := r.uint64()
	if r.err != nil {
		return ""
	}
	if n > maxName {
		r.fail(fmt.Errorf("its name is %d bytes long, more than the %d allowed", n, maxName))
	}
	b := r.take(n)
	switch {
	case r.err != nil:
	case len(b) == 0:
		r.fail(errors.New("it has no name"))
	case !utf8.Valid(b):
		r.fail(fmt.Errorf("its name %.200q is not UTF-8", b))
	}
	return string(b)
}

// header reads a header, and compares the places of the tensors with the bytes that are there.
func (r *reader) header() (*header, error) {
	h, entries, start, err := r.describe()
	switch {
	case err != nil:
		return nil, err
	case len(entries) == 0:
		return h, nil
	case start > uint64(len(r.file)):
		return nil, fmt.Errorf("the file ends at byte %d, before its data: it is truncated", len(r.file))
	}
	return h, h.place(entries, r.file[start:])
}

// describe reads a header, whose tensors have no Data yet. start is where the data begins, to which
// the entries refer.
func (r *reader) describe() (h *header, entries []entry, start uint64, err error) {
	if !Magic(r.file) {
		return nil, nil, 0, ErrNotGGUF
	}
	r.at = len(magic)
	version := r.uint32()
	switch {
	case r.err != nil:
		return nil, nil, 0, r.err
	case version&0xffff == 0 && version != 0:
		return nil, nil, 0, unsupported("the file is big-endian (version %d in that order of bytes); only little-endian files are read", bits.ReverseBytes32(version))
	case version == 1:
		return nil, nil, 0, unsupported("GGUF version 1 is not read, which was in use for some weeks of 2023 (supported: 2, 3)")
	case version != 2 && version != 3:
		return nil, nil, 0, unsupported("GGUF version %d (supported: 2, 3)", version)
	}
	tensors, keys := r.uint64(), r.uint64()
	switch {
	case r.err != nil:
		return nil, nil, 0, r.err
	case keys > maxKeys:
		return nil, nil, 0, fmt.Errorf("the header claims %d keys, more than the %d allowed", keys, maxKeys)
	case tensors > maxTensors:
		return nil, nil, 0, fmt.Errorf("the header claims %d tensors, more than the %d allowed", tensors, maxTensors)
	}
	h = &header{metadata: Metadata{values: map[string]Value{}}}
	for i := range int(keys) {
		if err := r.key(i, &h.metadata); err != nil {
			return nil, nil, 0, err
		}
	}
	if h.alignment, err = h.readAlignment(); err != nil {
		return nil, nil, 0, err
	}
	if entries, err = r.tensors(int(tensors), h); err != nil {
		return nil, nil, 0, err
	}
	return h, entries, pad(uint64(r.at), h.alignment), nil
}

// key reads a key with its value.
func (r *reader) key(i int, m *Metadata) error {
	key := r.name()
	if r.err != nil {
		return fmt.Errorf("key number %d of the metadata: %w", i+1, r.err)
	}
	if _, twice := m.values[key]; twice {
		return fmt.Errorf("the key %.200q is given twice", key)
	}
	v := r.value(Type(r.uint32()), 0)
	if r.err != nil {
		return fmt.Errorf("the value of the key %.200q: %w", key, r.err)
	}
	m.values[key] = v
	m.keys = append(m.keys, key)
	return nil
}

// value reads a value of type t, which is an element of an array if depth is not 0.
func (r *reader) value(t Type, depth int) Value {
	v := Value{Type: t}
	switch {
	case r.err != nil:
	case !t.known():
		r.fail(fmt.Errorf("its type %d is unknown", uint32(t)))
	case t == String:
		v.data = r.take(r.uint64())
	case t == Array && depth == maxNesting:
		r.fail(fmt.Errorf("arrays are nested more than %d deep", maxNesting))
	case t == Array:
		v = r.array(depth)
	case t == Bool:
		if v.data = r.take(1); v.data != nil && v.data[0] > 1 {
			r.fail(fmt.Errorf("the truth value is %d, neither 0 nor 1", v.data[0]))
		}
	default:
		v.data = r.take(uint64(valueTypes[t].size))
	}
	return v
}

func (r *reader) array(depth int) Value {
	v := Value{Type: Array, Elem: Type(r.uint32())}
	n := r.uint64()
	if r.err != nil {
		return v
	}
	if !v.Elem.known() {
		r.fail(fmt.Errorf("the type %d of its elements is unknown", uint32(v.Elem)))
		return v
	}
	// Any element takes at least as many bytes as that.
	least := max(uint64(valueTypes[v.Elem].size), 1)
	if v.Elem == String || v.Elem == Array {
		least = 8
	}
	if left := uint64(len(r.file) - r.at); n > left/least {
		r.short = true
		r.fail(fmt.Errorf("an array of %d %s needs more than the %d bytes that follow: the file is truncated or damaged", n, v.Elem, left))
		return v
	}
	v.Len = int(n)
	start := r.at
	switch v.Elem {
	case String, Array:
		for i := 0; i < v.Len && r.err == nil; i++ {
			r.value(v.Elem, depth+1)
		}
	default:
		r.take(n * least)
	}
	if r.err != nil {
		return v
	}
	v.data = r.file[start:r.at:r.at]
	if i := slices.IndexFunc(v.data, func(b byte) bool { return b > 1 }); v.Elem == Bool && i >= 0 {
		r.fail(fmt.Errorf("element %d of the truth values is %d, neither 0 nor 1", i, v.data[i]))
	}
	return v
}

// entry is a tensor and its place [begin, begin+bytes) in the data.
type entry struct {
	name         string
	place        int // in the header
	begin, bytes uint64
}

// tensors reads the n tensors that the header describes.
func (r *reader) tensors(n int, h *header) (entries []entry, err error) {
	seen := map[string]bool{}
	for i := range n {
		e, t, err := r.tensor(i, h.alignment)
		if err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("the tensor %.200q is given twice", t.Name)
		}
		seen[t.Name] = true
		entries = append(entries, e)
		h.tensors = append(h.tensors, t)
	}
	return entries, nil
}

func (h *header) readAlignment() (uint64, error) {
	v, ok := h.metadata.values[alignmentKey]
	if !ok {
		return defaultAlignment, nil
	}
	n, err := v.Int()
	if err != nil {
		return 0, fmt.Errorf("the key %s %w", alignmentKey, err)
	}
	if n < 1 || n > maxAlignment || n&(n-1) != 0 {
		return 0, fmt.Errorf("the key %s is %d, not a power of two up to %d", alignmentKey, n, maxAlignment)
	}
	return uint64(n), nil
}

func pad(n, alignment uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }

// tensor reads the description of a tensor.
func (r *reader) tensor(i int, alignment uint64) (entry, weights.Tensor, error) {
	t := weights.Tensor{Name: r.name()}
	e := entry{name: t.Name, place: i}
	dims := r.uint32()
	if r.err == nil && dims > maxDimensions {
		r.fail(fmt.Errorf("the tensor %.200q has %d dimensions, more than the %d allowed", t.Name, dims, maxDimensions))
	}
	var shape []uint64
	for range dims {
		if r.err != nil {
			break
		}
		shape = append(shape, r.uint64())
	}
	number := r.uint32()
	e.begin = r.uint64()
	if r.err != nil {
		return e, t, fmt.Errorf("tensor number %d: %w", i+1, r.err)
	}
	var ok bool
	if t.DType, ok = tensorTypes[number]; !ok {
		return e, t, unsupported("the tensor %.200q is of %s", t.Name, typeName(number))
	}
	var err error
	if e.bytes, err = size(t.DType, shape); err != nil {
		return e, t, fmt.Errorf("the tensor %.200q %w", t.Name, err)
	}
	if e.begin%alignment != 0 {
		return e, t, fmt.Errorf("the tensor %.200q is at byte %d of the data, which is not a multiple of the alignment %d", t.Name, e.begin, alignment)
	}
	// The innermost dimension comes first in the file.
	for _, n := range slices.Backward(shape) {
		t.Shape = append(t.Shape, int(n))
	}
	return e, t, nil
}

// size is the bytes of a tensor whose innermost dimension is the first of shape. All dimensions
// and their product fit an int if it succeeds.
func size(d weights.DType, shape []uint64) (uint64, error) {
	columns, bytes := d.Block()
	elements := uint64(1)
	for _, n := range shape {
		if n == 0 {
			return 0, fmt.Errorf("of %d has a dimension of 0", shape)
		}
		hi, lo := bits.Mul64(elements, n)
		if hi != 0 || lo > math.MaxInt/64 {
			return 0, fmt.Errorf("of %d is larger than memory can be", shape)
		}
		elements = lo
	}
	row := uint64(1)
	if len(shape) > 0 {
		row = shape[0]
	}
	if row%uint64(columns) != 0 {
		return 0, fmt.Errorf("has rows of %d numbers, which are not whole blocks of the %d that %s stores together", row, columns, d)
	}
	return elements / uint64(columns) * uint64(bytes), nil
}

// place gives each tensor its bytes.
func (h *header) place(entries []entry, data []byte) error {
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.begin, b.begin) })
	end := uint64(0) // of the tensors so far
	for i, e := range entries {
		switch {
		case e.begin > uint64(len(data)) || e.bytes > uint64(len(data))-e.begin:
			return fmt.Errorf("the tensor %.200q takes %d bytes from byte %d of the data on, which ends at %d: the file is truncated or damaged", e.name, e.bytes, e.begin, len(data))
		case e.begin < end:
			return fmt.Errorf("the tensor %.200q, which takes %d bytes from byte %d of the data on, overlaps the tensor %.200q", e.name, e.bytes, e.begin, entries[i-1].name)
		case e.begin != pad(end, h.alignment):
			return fmt.Errorf("bytes [%d, %d) of the data, before the tensor %.200q, belong to no tensor", end, e.begin, e.name)
		}
		end = e.begin + e.bytes
		h.tensors[e.place].Data = data[e.begin:end:end]
	}
	return nil
}
