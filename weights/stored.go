package weights

import "fmt"

// Quantized reports whether t's numbers are stored as codes with scales.
func (t *Tensor) Quantized() bool { return t.Packed != nil || t.DType.Blocked() }

// TypeName says for people how t's numbers are stored, such as "bfloat16", "Q4_K" or "4-bit
// integers in groups of 128".
func (t *Tensor) TypeName() string {
	p := t.Packed
	if p == nil {
		return t.DType.String()
	}
	code := t.DType.String()
	if t.DType != F8E4M3 && t.DType != F8E5M2 && t.DType != F4 {
		code = fmt.Sprintf("%d-bit integers", p.Bits)
	}
	rows, columns := 0, 0
	if len(t.Shape) > 0 {
		rows, columns = t.Len()/max(1, t.Shape[len(t.Shape)-1]), t.Shape[len(t.Shape)-1]
	}
	switch {
	case p.Order != nil:
		return code + " in groups of columns that are out of order"
	case p.GroupRows >= rows && p.GroupColumns >= columns:
		return code + " with one scale"
	case p.GroupRows <= 1 && p.GroupColumns >= columns:
		return code + " with a scale per row"
	case p.GroupRows <= 1:
		return fmt.Sprintf("%s in groups of %d", code, p.GroupColumns)
	}
	return fmt.Sprintf("%s in blocks of %d by %d", code, p.GroupRows, p.GroupColumns)
}
