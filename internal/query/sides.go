package query

import (
	"encoding/binary"
	"math"
)

// mirrored are the comparisons with their sides exchanged.
var mirrored = map[string]string{"$eq": "$eq", "$gt": "$lt", "$gte": "$lte", "$lt": "$gt", "$lte": "$gte"}

// Sides returns the field and the literal that n compares, and the comparison with the
// field on its left.
func (n *Expr) Sides() (f, lit *Expr, op string, ok bool) {
	op, ok = mirrored[n.Op]
	if !ok {
		return nil, nil, "", false
	}
	if f, lit = n.Args[1], n.Args[0]; n.Args[0].Op == "$getField" {
		f, lit, op = n.Args[0], n.Args[1], n.Op
	}
	return f, lit, op, f.Op == "$getField" && f.Field.Path == nil && lit.Op == "$literal"
}

// Append appends everything that affects which records n is true of.
func (n *Expr) Append(dst []byte) []byte {
	text := func(s string) { dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...) }
	text(n.Op)
	text(n.To)
	dst = append(dst, byte(n.Value.Kind), byte(b2i(n.Value.Bool)), byte(b2i(n.Fold)), byte(n.Field.Column), byte(b2i(n.Field.Path == nil)))
	dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(n.Value.Num.Float))
	text(n.Value.Text)
	text(string(n.Value.Raw))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(n.Field.Path)))
	for _, s := range n.Field.Path {
		text(s)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(n.Args)))
	for _, a := range n.Args {
		dst = a.Append(dst)
	}
	return dst
}
