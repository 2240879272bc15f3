package model

import (
	"errors"
	"fmt"
	"math"

	"weir/weights"
)

// ErrContract is wrapped by the errors of Shape.Check and Matrix.Check.
var ErrContract = errors.New("model: broken device contract")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrContract, fmt.Sprintf(format, args...))
}

// BlockMultiple divides the number of tokens of a KV block on every device.
const BlockMultiple = 16

// Check reports the first thing in s that no device can allocate. A device may have further
// limits of its own.
func (s *Shape) Check() error {
	if len(s.KV) == 0 {
		return broken("there is no cache of keys and values")
	}
	widest := 0
	for i, kv := range s.KV {
		if err := kv.check(i); err != nil {
			return err
		}
		widest = max(widest, kv.KeyDim)
	}
	if err := s.checkPlaces(); err != nil {
		return err
	}
	for i, n := range s.States {
		if n < 1 {
			return broken("state %d has %d numbers", i, n)
		}
	}
	if (len(s.States) > 0) != (s.Spec.StateSlots > 0) {
		return broken("%d states of sequences and %d slots for them", len(s.States), s.Spec.StateSlots)
	}
	if err := s.Spec.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrContract, err)
	}
	if s.Spec.BlockTokens%BlockMultiple != 0 {
		return broken("KV blocks of %d tokens are not a multiple of %d", s.Spec.BlockTokens, BlockMultiple)
	}
	for i, a := range s.Acts {
		if a.Width < 1 {
			return broken("activation buffer %d has %d columns", i, a.Width)
		}
	}
	for i, r := range s.Ropes {
		if r.Offset < 0 || r.Offset+2*len(r.InvFreq) > widest {
			return broken("rotary table %d rotates %d dimensions from %d on, but a head has %d", i, 2*len(r.InvFreq), r.Offset, widest)
		}
		if r.Long != nil && len(r.Long) != len(r.InvFreq) {
			return broken("rotary table %d has %d frequencies for long sequences and %d for others", i, len(r.Long), len(r.InvFreq))
		}
	}
	for i, w := range s.Windows {
		if w < 0 {
			return broken("attention window %d is %d positions wide", i, w)
		}
	}
	return nil
}

// check is Check for cache i of keys and values.
func (kv *KVShape) check(i int) error {
	switch {
	case kv.Heads < 1 || kv.KVHeads < 1 || kv.KeyDim < 1 || kv.ValueDim < 0:
		return broken("cache %d: %d heads, %d KV heads and keys of %d must be positive, and values of %d not negative", i, kv.Heads, kv.KVHeads, kv.KeyDim, kv.ValueDim)
	case kv.ValueInKey && kv.ValueDim > kv.KeyDim:
		return broken("cache %d: keys of %d cannot contain values of %d", i, kv.KeyDim, kv.ValueDim)
	case kv.Heads%kv.KVHeads != 0:
		return broken("cache %d: %d heads are not a multiple of %d KV heads", i, kv.Heads, kv.KVHeads)
	}
	return nil
}

// Check reports the first thing that is wrong with m: a tensor whose shape does not agree
// with its type and the length of its data, tensors that cannot be stacked, or a bias that
// does not belong to its matrix.
func (m *Matrix) Check() error {
	if len(m.Rows) == 0 {
		return broken("a parameter has no tensors")
	}
	for _, list := range [][]weights.Tensor{m.Rows, m.Bias} {
		for _, t := range list {
			if err := checkTensor(t); err != nil {
				return err
			}
		}
	}
	switch m.Use {
	case Vector:
		return m.checkVector()
	case Embedding:
		if len(m.Bias) > 0 {
			return broken("the embedding %q has a bias", m.Rows[0].Name)
		}
		return m.checkStack()
	case Linear, Exact:
		if err := m.checkStack(); err != nil {
			return err
		}
		return m.checkBias()
	case Gated:
		if err := m.checkStack(); err != nil {
			return err
		}
		if len(m.Rows) != 2 || m.Rows[0].Shape[0] != m.Rows[1].Shape[0] {
			return broken("%q is not a gate with an up projection of the same size", m.Rows[0].Name)
		}
		return m.checkBias()
	}
	return broken("the use %d of tensor %q is unknown", m.Use, m.Rows[0].Name)
}

// checkTensor checks that t holds numbers that devices compute with, as many as its shape says.
func checkTensor(t weights.Tensor) error {
	if !t.Widens() {
		return broken("tensor %q is %v, but devices compute with float32, float16, bfloat16 and types that are widened to them", t.Name, t.DType)
	}
	const widest = 8 // bytes of a number
	size := widest
	for _, n := range t.Shape {
		if n < 1 || size > math.MaxInt/n {
			return broken("tensor %q has the impossible shape %d", t.Name, t.Shape)
		}
		size *= n
	}
	if err := t.CheckSize(); err != nil {
		return broken("%v", err)
	}
	return nil
}

// checkVector checks that all tensors are vectors.
func (m *Matrix) checkVector() error {
	for _, t := range m.Rows {
		if len(t.Shape) != 1 {
			return broken("tensor %q of shape %d is not a vector", t.Name, t.Shape)
		}
	}
	if len(m.Bias) > 0 {
		return broken("the vector %q has a bias", m.Rows[0].Name)
	}
	return nil
}

// checkStack checks that the tensors are matrices with rows of one length.
func (m *Matrix) checkStack() error {
	for i, t := range m.Rows {
		if len(t.Shape) != 2 {
			return broken("tensor %q of shape %d is not a matrix", t.Name, t.Shape)
		}
		if first := m.Rows[0]; t.Shape[1] != first.Shape[1] {
			return broken("tensor %d, %q, has rows of %d, but %q has rows of %d", i, t.Name, t.Shape[1], first.Name, first.Shape[1])
		}
	}
	return nil
}

// checkBias checks that there is no bias, or a vector for each matrix with an element for
// each of its rows.
func (m *Matrix) checkBias() error {
	if len(m.Bias) == 0 {
		return nil
	}
	if len(m.Bias) != len(m.Rows) {
		return broken("%d matrices, of which %q is the first, have %d biases", len(m.Rows), m.Rows[0].Name, len(m.Bias))
	}
	for i, b := range m.Bias {
		if len(b.Shape) != 1 || b.Shape[0] != m.Rows[i].Shape[0] {
			return broken("the bias %q of shape %d is not a vector of the %d rows of %q", b.Name, b.Shape, m.Rows[i].Shape[0], m.Rows[i].Name)
		}
	}
	return nil
}

// Size is the number of rows and columns of the stacked matrix, for which Check has found
// nothing wrong.
func (m *Matrix) Size() (rows, columns int) {
	for _, t := range m.Rows {
		rows += t.Shape[0]
	}
	return rows, m.Rows[0].Shape[1]
}
