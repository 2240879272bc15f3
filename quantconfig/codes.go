package quantconfig

import (
	"fmt"

	"weir/weights"
)

// grouping is which numbers share a scale.
type grouping uint8

const (
	byShape  grouping = iota // the shape of the scales says: one, or one for each row
	byTensor                 // one
	byRow                    // one for each row
	byBlock                  // one for each rows by columns
)

// codes are numbers of 8 or 4 bits beside each other in rows, with scales.
type codes struct {
	suffix     string          // of the codes
	types      []weights.DType // that the codes are stored as
	dtype      weights.DType   // what they are; Invalid: as they are stored
	scale      []string        // suffixes, one of which the scales have
	scaleTypes []weights.DType

	grouping      grouping
	rows, columns int // of a block

	global        string // suffix of one more factor; "": none
	globalDivides bool
	zeros         bool // there are zero points
	activations   weights.DType
}

var floatTypes = []weights.DType{weights.F32, weights.BF16, weights.F16}

func (s codes) build(p *parts) (t weights.Tensor, err error) {
	n, k := p.size()
	if t, err = p.take(s.suffix, s.types...); err != nil {
		return t, err
	}
	pk := &weights.Packed{Layout: weights.RowCodes, Bits: 8, Activations: s.activations}
	if s.dtype != weights.Invalid {
		t.DType = s.dtype
	}
	stored := []int{n, k}
	if t.DType == weights.F4 {
		pk.Layout, pk.Bits, stored[1] = weights.RowPairs, 4, k/2
	}
	if err := p.shaped(t, stored); err != nil {
		return t, err
	}
	t.Packed = pk
	if err := s.scales(p, pk); err != nil {
		return t, err
	}
	if s.global != "" {
		pk.Divides = s.globalDivides
		if pk.Global, err = p.factor(s.global); err != nil {
			return t, err
		}
	}
	zeros, ok := p.maybe(".weight_zero_point")
	if s.zeros && ok {
		if zeros.DType != weights.I8 || zeros.Len() != pk.Scales.Len() {
			return t, fmt.Errorf("%w: %.200q is %s of shape %d, not int8 of shape %d", ErrMismatch, zeros.Name, zeros.DType, zeros.Shape, pk.Scales.Shape)
		}
		pk.Zeros = zeros
	}
	return t, nil
}

// scales finds the scales, and how many numbers share one.
func (s codes) scales(p *parts, pk *weights.Packed) (err error) {
	suffix := s.scale[0]
	for _, other := range s.scale[1:] {
		if _, ok := p.stored.Tensor(p.module + other); ok {
			suffix = other
		}
	}
	if pk.Scales, err = p.take(suffix, s.scaleTypes...); err != nil {
		return err
	}
	shapes, err := s.group(p, pk)
	if err != nil {
		return err
	}
	if pk.Scales.DType == weights.U8 {
		pk.Scales.DType = weights.F8E8M0 // a type that PyTorch has not had for long
	}
	return p.shaped(pk.Scales, shapes...)
}

// group sets the size of a group in pk, and returns the shapes that the scales may have.
func (s codes) group(p *parts, pk *weights.Packed) (shapes [][]int, err error) {
	n, k := p.size()
	kind := s.grouping
	if kind == byShape {
		kind = byRow
		if pk.Scales.Len() == 1 {
			kind = byTensor
		}
	}
	switch kind {
	case byTensor:
		pk.GroupRows, pk.GroupColumns = n, k
		return [][]int{{1}, nil, {1, 1}}, nil
	case byRow:
		pk.GroupRows, pk.GroupColumns = 1, k
		return [][]int{{n, 1}, {n}}, nil
	}
	pk.GroupRows, pk.GroupColumns = s.rows, s.columns
	a, b := ceil(n, s.rows), ceil(k, s.columns)
	shapes = [][]int{{a, b}, {a, 1, b, 1}} // the second one is ModelOpt's of FP8_PB_WO
	if len(p.matrix.Shape) > 2 && s.rows == 1 {
		shapes = [][]int{append(append([]int(nil), p.matrix.Shape[:len(p.matrix.Shape)-1]...), b)}
	}
	return shapes, nil
}
