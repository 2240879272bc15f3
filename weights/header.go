package weights

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"weir/internal/jsontext"
)

// ErrDamaged says that a checkpoint's bytes contradict themselves or its
// format. The message around it names the file and the tensor.
var ErrDamaged = errors.New("weights: damaged checkpoint")

func damaged(file, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrDamaged, file, fmt.Sprintf(format, args...))
}

const (
	prefixBytes = 8           // the header's length, little-endian
	maxHeader   = 100_000_000 // bytes; the limit of the reference implementation (safetensors/src/tensor.rs)
)

// parse reads the tensors of one safetensors file:
//
//	[8 bytes: n][n bytes: JSON header][data]
//
// Their Data are parts of file. Nothing after the header is touched. The
// ranges have to cover the data without gaps, overlaps or a rest, as the format demands, so
// that a damaged length is found here and does not become a wrong answer.
func parse(name string, file []byte) ([]Tensor, error) {
	if len(file) < prefixBytes {
		return nil, damaged(name, "%d bytes are too few for a safetensors file", len(file))
	}
	n := binary.LittleEndian.Uint64(file)
	if n > maxHeader {
		return nil, damaged(name, "the header claims %d bytes, more than the %d allowed: this is not a safetensors file", n, maxHeader)
	}
	if n > uint64(len(file)-prefixBytes) {
		return nil, damaged(name, "the header claims %d bytes, but only %d follow: the file is truncated", n, len(file)-prefixBytes)
	}
	entries, err := parseHeader(name, file[prefixBytes:prefixBytes+n])
	if err != nil {
		return nil, err
	}
	data := file[prefixBytes+n:]
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	tensors := make([]Tensor, len(entries))
	at := uint64(0) // everything before is taken
	for i, e := range entries {
		switch {
		case e.end > uint64(len(data)):
			return nil, damaged(name, "tensor %.200q lies at bytes [%d, %d) of the data, which ends at %d: the file is truncated", e.tensor.Name, e.begin, e.end, len(data))
		case e.begin < at:
			return nil, damaged(name, "tensor %.200q at bytes [%d, %d) overlaps tensor %.200q", e.tensor.Name, e.begin, e.end, entries[i-1].tensor.Name)
		case e.begin > at:
			return nil, damaged(name, "bytes [%d, %d) before tensor %.200q belong to no tensor", at, e.begin, e.tensor.Name)
		}
		at = e.end
		tensors[i] = e.tensor
		tensors[i].Data = data[e.begin:e.end:e.end]
	}
	if at != uint64(len(data)) {
		return nil, damaged(name, "the last %d bytes belong to no tensor", uint64(len(data))-at)
	}
	return tensors, nil
}

// A Place is the bytes [From, To) of a file, in which a tensor is.
type Place struct {
	Name     string // of the tensor
	From, To int64
}

// Places reads where the tensors of a safetensors file are, of which begin are the first bytes. If
// these are too few there are no places. needed is how many bytes the header has, as far as is
// known. Places are not compared with the size of the file, nor with each other: Open does that.
func Places(begin []byte) (places []Place, needed int64, err error) {
	if len(begin) < prefixBytes {
		return nil, prefixBytes, nil
	}
	n := binary.LittleEndian.Uint64(begin)
	if n > maxHeader {
		return nil, 0, damaged("the file", "the header claims %d bytes, more than the %d allowed", n, maxHeader)
	}
	needed = prefixBytes + int64(n)
	if needed > int64(len(begin)) {
		return nil, needed, nil
	}
	entries, err := parseHeader("the file", begin[prefixBytes:needed])
	for _, e := range entries {
		if e.end <= math.MaxInt64/2 {
			places = append(places, Place{e.tensor.Name, needed + int64(e.begin), needed + int64(e.end)})
		}
	}
	return places, needed, err
}

// entry is a tensor and its place [begin, end) in the data.
type entry struct {
	tensor     Tensor
	begin, end uint64
}

// maxDepth bounds the nesting of a header. Three levels are used.
const maxDepth = 100

// parseHeader checks each entry alone; parse checks them against each other.
func parseHeader(file string, header []byte) ([]entry, error) {
	if !utf8.Valid(header) {
		return nil, damaged(file, "the header is not UTF-8")
	}
	if err := jsontext.Scan(header, maxDepth); err != nil {
		return nil, damaged(file, "header: not valid JSON: %v", err)
	}
	entries, err := entriesOf(jsontext.Trim(header))
	if err != nil {
		return nil, damaged(file, "header: %v", err)
	}
	return entries, nil
}

func entriesOf(header jsontext.Value) ([]entry, error) {
	if err := expect(header, jsontext.Object); err != nil {
		return nil, err
	}
	var entries []entry
	seen := map[string]bool{}
	for key, v := range header.Members() {
		name := string(key)
		if seen[name] {
			return nil, fmt.Errorf("tensor %.200q is named twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := checkMetadata(v); err != nil {
				return nil, err
			}
			continue
		}
		e, err := parseEntry(name, v)
		if err != nil {
			return nil, fmt.Errorf("tensor %.200q: %w", name, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// expect refuses a value of another type.
func expect(v jsontext.Value, want jsontext.Kind) error {
	if v.Kind() != want {
		return fmt.Errorf("%.60s where %s is expected", v, want)
	}
	return nil
}

// checkMetadata checks that the metadata are an object of strings.
func checkMetadata(v jsontext.Value) error {
	if err := expect(v, jsontext.Object); err != nil {
		return err
	}
	for _, text := range v.Members() {
		if err := expect(text, jsontext.String); err != nil {
			return err
		}
	}
	return nil
}

// naturals reads an array of integers in [0, MaxInt64].
func naturals(v jsontext.Value) ([]uint64, error) {
	if err := expect(v, jsontext.Array); err != nil {
		return nil, err
	}
	list := []uint64{}
	for _, e := range v.Elements() {
		if e.Kind() != jsontext.Number {
			return nil, fmt.Errorf("%.60s where an integer is expected", e)
		}
		n, err := strconv.ParseUint(string(e), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%.60s is not an integer in [0, 2^63)", e)
		}
		list = append(list, n)
	}
	return list, nil
}

// fields are the members of an entry; nil ones are missing.
type fields struct {
	dtype          *string
	shape, offsets []uint64
}

// set reads a member into its field.
func (f *fields) set(key string, v jsontext.Value) (err error) {
	switch {
	case key == "dtype" && f.dtype == nil:
		if err := expect(v, jsontext.String); err != nil {
			return err
		}
		s := v.Text()
		f.dtype = &s
		return nil
	case key == "shape" && f.shape == nil:
		f.shape, err = naturals(v)
		return err
	case key == "data_offsets" && f.offsets == nil:
		if f.offsets, err = naturals(v); err == nil && len(f.offsets) != 2 {
			err = fmt.Errorf("data_offsets holds %d numbers, not 2", len(f.offsets))
		}
		return err
	case key == "dtype" || key == "shape" || key == "data_offsets":
		return fmt.Errorf("%s is given twice", key)
	}
	// What a field of a later format means for the bytes is unknown.
	return fmt.Errorf("unknown field %.200q", key)
}

func (f *fields) missing() error {
	switch {
	case f.dtype == nil:
		return errors.New("dtype is missing")
	case f.shape == nil:
		return errors.New("shape is missing")
	case f.offsets == nil:
		return errors.New("data_offsets is missing")
	}
	return nil
}

func parseEntry(name string, v jsontext.Value) (entry, error) {
	if err := expect(v, jsontext.Object); err != nil {
		return entry{}, err
	}
	var f fields
	for key, val := range v.Members() {
		if err := f.set(string(key), val); err != nil {
			return entry{}, err
		}
	}
	if err := f.missing(); err != nil {
		return entry{}, err
	}
	d := parseDType(*f.dtype)
	if d == Invalid {
		return entry{}, fmt.Errorf("unknown dtype %.200q", *f.dtype)
	}
	e := entry{tensor: Tensor{Name: name, DType: d, Shape: make([]int, len(f.shape))}, begin: f.offsets[0], end: f.offsets[1]}
	if e.begin > e.end {
		return entry{}, fmt.Errorf("data_offsets [%d, %d) run backwards", e.begin, e.end)
	}
	size, err := byteSize(d, f.shape)
	if err != nil {
		return entry{}, err
	}
	if size != e.end-e.begin {
		return entry{}, fmt.Errorf("%s %d needs %d bytes, but its data_offsets [%d, %d) hold %d", d, f.shape, size, e.begin, e.end, e.end-e.begin)
	}
	for i, dim := range f.shape {
		e.tensor.Shape[i] = int(dim)
	}
	return e, nil
}

// byteSize is the bytes of a tensor. Dimensions and their product fit an int
// when it succeeds, even where another dimension is 0.
func byteSize(d DType, shape []uint64) (uint64, error) {
	elements, empty := uint64(1), false
	for _, dim := range shape {
		if dim == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(elements, dim)
		if hi != 0 || lo > math.MaxInt/64 { // 64: the widest element, in bits
			return 0, fmt.Errorf("%s %d is larger than memory can be", d, shape)
		}
		elements = lo
	}
	if empty {
		return 0, nil
	}
	n := elements * dtypes[d].bits
	if n%8 != 0 {
		return 0, fmt.Errorf("%s %d does not fill whole bytes", d, shape)
	}
	return n / 8, nil
}
