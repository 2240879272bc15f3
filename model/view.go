package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"weir/weights"
)

// parameter is one weight of a decoder: the stored tensors that it is made of, and
// where its handle goes.
type parameter struct {
	use  Use
	rows []stored
	bias []stored
	into *Weight
	// value, if it is not nil, receives the one number of the tensor, and no device loads it.
	value *float32
}

// stored is a tensor that a checkpoint must hold, and what of it a parameter is made of.
type stored struct {
	name  string
	shape []int
	view
}

// view is a part of a stored tensor, which is taken as a matrix whose rows have the last of its
// dimensions as their length, or one number each if that is the only one. The zero view is the tensor as it is.
type view struct {
	first, count int // rows; a count of 0: all
	step         int // every step-th row; 0: each
	// turned says that what was chosen is turned over, so that its columns are the rows. Then from
	// these, turn chooses as first, count and step do from rows.
	turned                         bool
	turnFirst, turnCount, turnStep int
	vector                         bool // the result is a vector and not a matrix
	each                           elementwise
}

// elementwise is a function of each number of a vector.
type elementwise uint8

const (
	asStored    elementwise = iota
	plusOne                 // 1 + w, in float32
	negativeExp             // -exp(w)
)

func (v view) whole() bool { return v == view{} }

// shapeOf is the shape of the view of a tensor with the given shape.
func (v view) shapeOf(shape []int) []int {
	if v.whole() || v == (view{each: v.each}) {
		return shape
	}
	total, columns := asMatrix(shape)
	n := chosen(total, v.first, v.count, v.step)
	if v.turned {
		n, columns = chosen(columns, v.turnFirst, v.turnCount, v.turnStep), n
	}
	if v.vector {
		return []int{n * columns}
	}
	return []int{n, columns}
}

// asMatrix is the number of rows of a tensor with the given shape, and of the columns that each has.
func asMatrix(shape []int) (rows, columns int) {
	rows, columns = 1, 1
	for _, n := range shape[:max(len(shape)-1, 1)] {
		rows *= n
	}
	if len(shape) > 1 {
		columns = shape[len(shape)-1]
	}
	return rows, columns
}

// chosen is how many of n rows a choice takes.
func chosen(n, first, count, step int) int {
	if count != 0 {
		return count
	}
	step = max(step, 1)
	return (n - first + step - 1) / step
}

// of takes the view of a tensor, whose shape is known to be right. Rows that follow each other share
// the tensor's bytes, and all else is copied.
func (v view) of(t weights.Tensor) (weights.Tensor, error) {
	if v.whole() {
		return t, nil
	}
	if v.each != asStored {
		return v.apply(t), nil
	}
	total, columns := asMatrix(t.Shape)
	shape := v.shapeOf(t.Shape)
	switch {
	case columns == 1 && t.DType.Size() == 0:
		return t, fmt.Errorf("%w: the tensor %s is stored in a way in which no part of it can be taken", ErrUnsupported, t.Name)
	case t.Packed != nil && v.ofPacked(&t, total):
	case t.Packed != nil:
		return v.widened(t, columns, total), nil
	case t.Pairs != 0 || columns == 1 && t.DType.Size() == 0:
		return t, fmt.Errorf("%w: the tensor %s is stored in a way in which no part of it can be taken", ErrUnsupported, t.Name)
	case v.turned && t.DType.Size() == 0:
		return t, fmt.Errorf("%w: the tensor %s is %v, whose numbers cannot be turned over", ErrUnsupported, t.Name, t.DType)
	case v.turned:
		t.Data, t.File = v.turnedOver(t, columns, total), nil
	default:
		v.rowsOf(&t, total)
	}
	t.Shape = shape
	return t, nil
}

// ofPacked takes rows of a quantized matrix whose codes and scales are stored by row, as the experts of gpt-oss
// are. It reports whether t is such a matrix.
func (v view) ofPacked(t *weights.Tensor, total int) bool {
	if !v.cuts(t.Packed) {
		return false
	}
	p := *t.Packed
	groups := p.Scales.Len() / total
	v.rowsOf(t, total)
	v.rowsOf(&p.Scales, total)
	p.Scales.Shape = []int{chosen(total, v.first, v.count, v.step), groups}
	t.Packed = &p
	return true
}

// cuts reports whether the view's rows can be cut out of such a matrix.
func (v view) cuts(p *weights.Packed) bool {
	byRow := p.Layout == weights.RowCodes || p.Layout == weights.RowPairs
	return !v.turned && byRow && p.GroupRows == 1 && !p.Transposed && p.Order == nil && p.Zeros.Data == nil
}

// widened is a part of a quantized matrix whose codes and scales cannot be cut or turned over, such as the parts of
// kv_b_proj in blocks of 128 rows by 128 columns. It keeps its numbers, in float32.
func (v view) widened(t weights.Tensor, columns, total int) weights.Tensor {
	step, n := max(v.step, 1), chosen(total, v.first, v.count, v.step)
	first, turnStep, m := 0, 1, columns
	if v.turned {
		first, turnStep, m = v.turnFirst, max(v.turnStep, 1), chosen(columns, v.turnFirst, v.turnCount, v.turnStep)
	}
	x, data := make([]float32, columns), make([]byte, 4*n*m)
	for i := range n {
		t.Widen(x, v.first+i*step, 0)
		for c := range m {
			at := i*m + c
			if v.turned {
				at = c*n + i
			}
			binary.LittleEndian.PutUint32(data[4*at:], math.Float32bits(x[first+c*turnStep]))
		}
	}
	return weights.Tensor{Name: t.Name, DType: weights.F32, Shape: v.shapeOf(t.Shape), Data: data}
}

// rowsOf cuts t, which has total rows, down to those that are chosen. Without bytes t is only described.
func (v view) rowsOf(t *weights.Tensor, total int) {
	size, n := len(t.Data)/total, chosen(total, v.first, v.count, v.step)
	if v.step <= 1 {
		end := (v.first + n) * size
		t.Data = t.Data[v.first*size : end : end]
		return
	}
	data := make([]byte, 0, n*size)
	for i := range n {
		data = append(data, t.Data[(v.first+i*v.step)*size:][:size]...)
	}
	t.Data, t.File = data, nil
}

// turnedOver are the bytes of the columns of the chosen rows.
func (v view) turnedOver(t weights.Tensor, columns, total int) []byte {
	step, n := max(v.step, 1), chosen(total, v.first, v.count, v.step)
	size, rowBytes := t.DType.Size(), len(t.Data)/total
	turnStep, m := max(v.turnStep, 1), chosen(columns, v.turnFirst, v.turnCount, v.turnStep)
	data := make([]byte, 0, n*m*size)
	for c := range m {
		at := (v.turnFirst + c*turnStep) * size
		for i := range n {
			data = append(data, t.Data[(v.first+i*step)*rowBytes+at:][:size]...)
		}
	}
	return data
}

// apply widens a vector to float32 and applies a function to each of its numbers.
func (v view) apply(t weights.Tensor) weights.Tensor {
	x := make([]float32, t.Len())
	flat := t
	flat.Shape = []int{t.Len()}
	flat.Widen(x, 0, 0)
	data := make([]byte, 0, 4*len(x))
	for _, f := range x {
		switch v.each {
		case plusOne:
			f = 1 + f
		case negativeExp:
			f = -float32(math.Exp(float64(f)))
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
	}
	return weights.Tensor{Name: t.Name, DType: weights.F32, Shape: slices.Clone(flat.Shape), Data: data}
}

// described is the view of a tensor without what would have to be copied: shape and type alone.
func (v view) described(t weights.Tensor) weights.Tensor {
	if v.whole() || v.each == asStored && !v.turned && v.step <= 1 && t.Packed == nil && t.Pairs == 0 {
		t, _ = v.of(t) // which only cuts
		return t
	}
	if v.each != asStored {
		t.DType = weights.F32
	}
	switch {
	case t.Packed == nil:
	case v.cuts(t.Packed):
		p := *t.Packed
		p.Scales.Data, t.Packed = nil, &p
	default:
		t.DType, t.Packed = weights.F32, nil // see widened
	}
	t.Shape, t.Data, t.File = v.shapeOf(t.Shape), nil, nil
	return t
}
