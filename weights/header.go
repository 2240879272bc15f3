package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
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
// Their Data are parts of file. Nothing behind the header is touched. The
// ranges must tile the data without gap, overlap or rest, as the format asks:
// so every damage to a length is found here and not as a wrong answer.
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

// entry is a tensor and its place [begin, end) in the data.
type entry struct {
	tensor     Tensor
	begin, end uint64
}

// parseHeader checks each entry alone; parse checks them against each other.
func parseHeader(file string, header []byte) ([]entry, error) {
	if !utf8.Valid(header) {
		return nil, damaged(file, "the header is not UTF-8")
	}
	h := newObjectReader(header)
	var entries []entry
	seen := map[string]bool{}
	err := h.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("tensor %.200q is named twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			return h.object(func(string) error { _, err := h.text(); return err })
		}
		e, err := h.entry(name)
		if err != nil {
			return fmt.Errorf("tensor %.200q: %w", name, err)
		}
		entries = append(entries, e)
		return nil
	})
	if err == nil {
		err = h.done()
	}
	if err != nil {
		return nil, damaged(file, "header: %v", err)
	}
	return entries, nil
}

// objectReader walks JSON token by token, because decoding into maps would
// hide names that occur twice.
type objectReader struct{ dec *json.Decoder }

func newObjectReader(b []byte) objectReader {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return objectReader{dec}
}

// object calls value for each key; value reads exactly one value.
func (h objectReader) object(value func(key string) error) error {
	if err := h.delim('{', "an object"); err != nil {
		return err
	}
	for h.dec.More() {
		key, err := h.text()
		if err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
	}
	return h.delim('}', "the end of an object")
}

func (h objectReader) token() (json.Token, error) {
	t, err := h.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("not valid JSON at byte %d: %w", h.dec.InputOffset(), err)
	}
	return t, nil
}

func (h objectReader) delim(want json.Delim, what string) error {
	t, err := h.token()
	if err == nil && t != want {
		err = fmt.Errorf("%.60v where %s is expected", t, what)
	}
	return err
}

func (h objectReader) text() (string, error) {
	t, err := h.token()
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", fmt.Errorf("%.60v where a string is expected", t)
	}
	return s, nil
}

// naturals reads an array of integers in [0, MaxInt64].
func (h objectReader) naturals() ([]uint64, error) {
	if err := h.delim('[', "an array"); err != nil {
		return nil, err
	}
	var list []uint64
	for h.dec.More() {
		t, err := h.token()
		if err != nil {
			return nil, err
		}
		number, ok := t.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%.60v where an integer is expected", t)
		}
		v, err := strconv.ParseUint(number.String(), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%.60s is not an integer in [0, 2^63)", number)
		}
		list = append(list, v)
	}
	return list, h.delim(']', "the end of an array")
}

// done refuses anything but white space behind the object.
func (h objectReader) done() error {
	switch t, err := h.dec.Token(); {
	case err == nil:
		return fmt.Errorf("%.60v behind the end of the object", t)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("not valid JSON behind the end of the object: %w", err)
	}
	return nil
}

func (h objectReader) entry(name string) (entry, error) {
	var dtype *string
	var shape, offsets []uint64
	haveShape := false
	err := h.object(func(key string) error {
		switch {
		case key == "dtype" && dtype == nil:
			s, err := h.text()
			dtype = &s
			return err
		case key == "shape" && !haveShape:
			var err error
			shape, err = h.naturals()
			haveShape = true
			return err
		case key == "data_offsets" && offsets == nil:
			var err error
			if offsets, err = h.naturals(); err == nil && len(offsets) != 2 {
				err = fmt.Errorf("data_offsets holds %d numbers, not 2", len(offsets))
			}
			return err
		case key == "dtype" || key == "shape" || key == "data_offsets":
			return fmt.Errorf("%s is given twice", key)
		}
		// What a field of a later format means for the bytes is unknown.
		return fmt.Errorf("unknown field %.200q", key)
	})
	switch {
	case err != nil:
		return entry{}, err
	case dtype == nil:
		return entry{}, errors.New("dtype is missing")
	case !haveShape:
		return entry{}, errors.New("shape is missing")
	case offsets == nil:
		return entry{}, errors.New("data_offsets is missing")
	}
	d := parseDType(*dtype)
	if d == Invalid {
		return entry{}, fmt.Errorf("unknown dtype %.200q", *dtype)
	}
	e := entry{tensor: Tensor{Name: name, DType: d, Shape: make([]int, len(shape))}, begin: offsets[0], end: offsets[1]}
	if e.begin > e.end {
		return entry{}, fmt.Errorf("data_offsets [%d, %d) run backwards", e.begin, e.end)
	}
	size, err := byteSize(d, shape)
	if err != nil {
		return entry{}, err
	}
	if size != e.end-e.begin {
		return entry{}, fmt.Errorf("%s %d needs %d bytes, but its data_offsets [%d, %d) hold %d", d, shape, size, e.begin, e.end, e.end-e.begin)
	}
	for i, dim := range shape {
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
