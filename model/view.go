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
	if t.Packed != nil || t.Pairs != 0 || columns == 1 && t.DType.Size() == 0 {
		return t, fmt.Errorf("%w: the tensor %s is stored in a way in which no part of it can be taken", ErrUnsupported, t.Name)
	}
	rowBytes := len(t.Data) / total
	if v.turned || v.step > 1 {
		if v.turned && t.DType.Size() == 0 {
			return t, fmt.Errorf("%w: the tensor %s is %v, whose numbers cannot be turned over", ErrUnsupported, t.Name, t.DType)
		}
		t.Data, t.File = v.copied(t, columns, total, rowBytes), nil
	} else {
		end := (v.first + chosen(total, v.first, v.count, 1)) * rowBytes
		t.Data = t.Data[v.first*rowBytes : end : end]
	}
	t.Shape = shape
	return t, nil
}

// copied are the bytes of rows that do not follow each other, or that are turned over.
func (v view) copied(t weights.Tensor, columns, total, rowBytes int) []byte {
	step, n := max(v.step, 1), chosen(total, v.first, v.count, v.step)
	if !v.turned {
		data := make([]byte, 0, n*rowBytes)
		for i := range n {
			data = append(data, t.Data[(v.first+i*step)*rowBytes:][:rowBytes]...)
		}
		return data
	}
	size := t.DType.Size()
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
	t.Shape, t.Data, t.File = v.shapeOf(t.Shape), nil, nil
	return t
}
