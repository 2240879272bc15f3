package model

import (
	"fmt"
	"runtime/debug"

	"weir/weights"
)

// HeadRows returns the rows of the head for some tokens, [D] each, widened to float32 and with the network's factor on
// logits: a token's logit is the product of its row and the vector before the head. The error is ErrUnsupported
// for a network whose logits are more than such products, or that has no head.
func (m *Model) HeadRows(tokens []int) (rows [][]float32, err error) {
	c := &m.Config
	if n := &c.Network; n.Head == NoHead || n.HeadBias || n.LogitCap != 0 {
		return nil, fmt.Errorf("%w: %s has no logits that are plain products with rows of its head", ErrUnsupported, c.Architecture)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.checkpoint.CatchFault(debug.SetPanicOnFault(true), &err)
	var head weights.Tensor
	var ok bool
	if head, ok = m.checkpoint.Tensor(c.headName()); !ok {
		head, ok = m.checkpoint.Tensor(c.embedName())
	}
	if !ok || !head.Widens() {
		return nil, fmt.Errorf("%w: the head's numbers cannot be read", ErrUnsupported)
	}
	scale := or1(c.Network.LogitScale)
	for _, token := range tokens {
		if token < 0 || token >= c.VocabSize {
			return nil, fmt.Errorf("model: the head has no row %d", token)
		}
		row := make([]float32, c.Hidden)
		head.Widen(row, token, 0)
		for i := range row {
			row[i] *= scale
		}
		rows = append(rows, row)
	}
	return rows, nil
}
