package weights

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Packed describes a matrix [N, K] whose numbers are codes with scales, as quantized
// checkpoints of Hugging Face have them in several stored tensors:
//
//	w[n, k] = (number(code[n, k]) - zero[n, g]) * scale[n, g]
//
// where g is the group of column k, and number is the value of a code: itself for integers.
// The difference is exact, and the product is rounded once, to float32. Tensor.Data holds
// the codes, and Tensor.DType is their type: F8E4M3, F8E5M2, F4 (E2M1), I8, or I32 for words
// that hold integers of Bits bits without sign. A tensor of more dimensions than two is a
// stack of matrices; N is the number of all their rows.
//
// Tensor.Codes, Numbers, Group, GroupScale and GroupZero read the parts one by one, for
// devices that store them in their own way. Tensor.CheckSize checks all that these rely on.
type Packed struct {
	Layout Layout
	Bits   int // of a code
	// GroupRows by GroupColumns numbers share a scale and a zero point. A group ends with the
	// matrix, so both may be larger than it.
	GroupRows, GroupColumns int
	// Order has the group of each column; nil: column k is in group k / GroupColumns.
	Order []int32
	// Scales has a number for each group. Scales that are stored as [groups, N] and not
	// [N, groups] are Transposed. They are float32, float16, bfloat16, F8E4M3 or F8E8M0.
	Scales     Tensor
	Transposed bool
	// Global is one more factor of all scales, or their divisor if it Divides; 0 if there is
	// none. The scale of a group is the product or quotient, rounded to float32.
	Global  float32
	Divides bool
	// Zeros holds the zero points of groups: of DType I8 one for each scale, in the same
	// order, or of DType I32 words in the form that Layout says. Zero is added to what is
	// stored: to the number if it is I8, to each field of a word (modulo 2^32 over the whole
	// word if 32 is a multiple of Bits, and modulo 2^Bits if not). Without Data each zero point
	// is Zero.
	Zeros Tensor
	Zero  int32
	// Symmetric says that the checkpoint claims of its Zeros that each is half the range of
	// the codes.
	Symmetric bool
	// Activations is the type, I8, F8E4M3 or F4, to which the checkpoint was made to have the
	// rows rounded that the matrix is multiplied with; Invalid: none. Devices that keep more
	// of them do better.
	Activations DType
}

// Layout is how codes and zero points are stored.
type Layout uint8

const (
	// RowCodes: Data is [N, K] of DType I8, F8E4M3 or F8E5M2.
	RowCodes Layout = iota + 1
	// RowPairs: Data is [N, K/2] bytes, column 2j in the lower half and 2j+1 in the upper
	// one, of 4-bit floating point E2M1 (DType F4).
	RowPairs
	// RowWords: Data is int32 [N, ceil(K*Bits/32)], a row being a sequence of codes of Bits
	// bits without gaps, which starts with the lowest bits; zero points are int32
	// [ceil(N*Bits/32), groups], and each column is such a sequence (compressed-tensors,
	// "pack-quantized").
	RowWords
	// ColumnWords: Data is int32 [ceil(K*Bits/32), N], the words of a row one below the
	// other; zero points are int32 [groups, ceil(N*Bits/32)] (GPTQ).
	ColumnWords
	// AWQWords: Data is int32 [K, N/8], codes of 4 bits of 8 consecutive rows in the order
	// 0 2 4 6 1 3 5 7, the first in the lowest bits; zero points [groups, N/8] likewise (AWQ).
	AWQWords
)

// size is N and K of a tensor with Packed.
func (t *Tensor) size() (n, k int) {
	k = t.Shape[len(t.Shape)-1]
	n = 1
	for _, d := range t.Shape[:len(t.Shape)-1] {
		n *= d
	}
	return n, k
}

// ceil is a / b, rounded up. a is positive, and b may be anything that is.
func ceil(a, b int) int { return (a-1)/b + 1 }

// Groups is the number of groups that the columns of a row are in.
func (t *Tensor) Groups() int {
	n, _ := t.size()
	return t.Packed.Scales.Len() / ceil(n, t.Packed.GroupRows)
}

// Group is the group of column k, in [0, Groups()).
func (t *Tensor) Group(k int) int {
	if p := t.Packed; p.Order == nil {
		return k / p.GroupColumns
	}
	return int(t.Packed.Order[k])
}

// place is where the scale of group g of row r is in Scales.
func (t *Tensor) place(r, g int) int {
	p := t.Packed
	n, _ := t.size()
	rows := ceil(n, p.GroupRows)
	if p.Transposed {
		return g*rows + r/p.GroupRows
	}
	return r/p.GroupRows*(p.Scales.Len()/rows) + g
}

// GroupScale is the scale of group g of row r.
func (t *Tensor) GroupScale(r, g int) float32 {
	p := t.Packed
	s := p.Scales.scalar(t.place(r, g))
	switch {
	case p.Global == 0:
		return s
	case p.Divides:
		return s / p.Global
	}
	return s * p.Global
}

// scalar is number i of a tensor of scales.
func (t *Tensor) scalar(i int) float32 {
	switch t.DType {
	case F8E4M3:
		return e4m3[t.Data[i]]
	case F8E8M0:
		return e8m0(t.Data[i])
	}
	var v [1]float32
	widenNumbers(t.DType, v[:], t.Data[i*t.DType.Size():])
	return v[0]
}

// GroupZero is the zero point of group g of row r, in the units of codes.
func (t *Tensor) GroupZero(r, g int) int32 {
	p := t.Packed
	switch {
	case p.Zeros.Data == nil:
		return p.Zero
	case p.Zeros.DType == I8:
		return int32(int8(p.Zeros.Data[t.place(r, g)])) + p.Zero
	}
	n, _ := t.size()
	groups, bits := t.Groups(), p.Bits
	switch p.Layout {
	case RowWords:
		return p.zeroField(r*bits, func(w int) int { return w*groups + g })
	case ColumnWords:
		return p.zeroField(r*bits, func(w int) int { return g*ceil(n*bits, 32) + w })
	}
	return p.zeroField(r/8*32+awqShift(r), func(w int) int { return g*(n/8) + w })
}

// zeroField is the field of Bits bits from this bit on of a sequence of words. at says where a
// word of the sequence is.
func (p *Packed) zeroField(bit int, at func(word int) int) int32 {
	mask := uint32(1)<<p.Bits - 1
	word := func(w int) uint32 { return binary.LittleEndian.Uint32(p.Zeros.Data[4*at(w):]) }
	if 32%p.Bits == 0 {
		// GPTQModel takes 1 from all fields of a word at once when it stores a zero point,
		// and adds it again so (gptqmodel/utils/model.py).
		return int32((word(bit/32) + uint32(p.Zero)*(math.MaxUint32/mask)) >> (bit % 32) & mask)
	}
	v := uint64(word(bit / 32))
	if bit%32+p.Bits > 32 {
		v |= uint64(word(bit/32+1)) << 32
	}
	return int32((uint32(v>>(bit%32)) + uint32(p.Zero)) & mask)
}

// awqShift is the lowest bit of row r's code in a word of AWQWords.
func awqShift(r int) int { return 4 * (r%2*4 + r%8/2) }

// Codes writes the codes of columns [k0, k0+len(dst)) of row r, a byte for each: integers with
// sign are in two's complement.
func (t *Tensor) Codes(dst []uint8, r, k0 int) {
	p := t.Packed
	n, k := t.size()
	switch p.Layout {
	case RowCodes:
		copy(dst, t.Data[r*k+k0:])
	case RowPairs:
		row := t.Data[r*(k/2):]
		for i := range dst {
			dst[i] = row[(k0+i)/2] >> ((k0 + i) % 2 * 4) & 15
		}
	case RowWords:
		p.fields(dst, t.Data[r*ceil(k*p.Bits, 32)*4:], k0, 4)
	case ColumnWords:
		p.fields(dst, t.Data[r*4:], k0, n*4)
	case AWQWords:
		shift := awqShift(r)
		column := t.Data[(k0*(n/8)+r/8)*4:]
		for i := range dst {
			dst[i] = uint8(binary.LittleEndian.Uint32(column[i*(n/8)*4:])>>shift) & 15
		}
	}
}

// fields writes the fields [k0, k0+len(dst)) of Bits bits of a sequence of words, which are so
// many bytes apart.
func (p *Packed) fields(dst []uint8, words []byte, k0, stride int) {
	mask := uint64(1)<<p.Bits - 1
	bit := k0 * p.Bits
	next := bit / 32
	var v uint64 // what is not used up of the words before next
	have := 0    // bits of it
	if bit%32 > 0 {
		v, have = uint64(binary.LittleEndian.Uint32(words[next*stride:]))>>(bit%32), 32-bit%32
		next++
	}
	for i := range dst {
		if have < p.Bits {
			v |= uint64(binary.LittleEndian.Uint32(words[next*stride:])) << have
			have += 32
			next++
		}
		dst[i] = uint8(v & mask)
		v >>= p.Bits
		have -= p.Bits
	}
}

// Numbers is the value of each code of a tensor with Packed. It must not be changed.
func (t *Tensor) Numbers() *[256]float32 {
	switch t.DType {
	case I8:
		return &signed
	case F8E4M3:
		return &e4m3
	case F8E5M2:
		return &e5m2
	case F4:
		return &e2m1
	}
	return &unsigned
}

// The values of codes. The 4-bit and 8-bit floating point types are those of the Open Compute
// Project (8-bit Floating Point Specification 1.0; Microscaling Formats Specification 1.0).
var signed, unsigned, e4m3, e5m2, e2m1 [256]float32

func init() {
	for i := range 256 {
		signed[i], unsigned[i] = float32(int8(i)), float32(i)
		e4m3[i] = small(i&0x80 != 0, i>>3&15, i&7, 3, 7)
		if i&0x7f == 0x7f { // it has no infinity
			e4m3[i] = float32(math.NaN())
		}
		e5m2[i] = FromFloat16(uint16(i) << 8)
		e2m1[i] = small(i&8 != 0, i>>1&3, i&1, 1, 1)
	}
}

// small is a number with a mantissa of so many bits.
func small(negative bool, exponent, mantissa, bits, bias int) float32 {
	v := math.Ldexp(float64(mantissa), 1-bias-bits)
	if exponent > 0 {
		v = math.Ldexp(float64(mantissa+1<<bits), exponent-bias-bits)
	}
	if negative {
		v = math.Copysign(v, -1)
	}
	return float32(v)
}

// e8m0 is a power of two; 255 is NaN.
func e8m0(b byte) float32 {
	switch b {
	case 0:
		return 0x1p-127
	case 255:
		return float32(math.NaN())
	}
	return math.Float32frombits(uint32(b) << 23)
}

// widenPacked is Widen for the stored row r of a matrix with Packed.
func (t *Tensor) widenPacked(dst []float32, r, k0 int) {
	numbers := t.Numbers()
	var codes [512]uint8
	group := -1
	var scale, zero float32
	for i := range dst {
		if i%len(codes) == 0 {
			t.Codes(codes[:min(len(codes), len(dst)-i)], r, k0+i)
		}
		if g := t.Group(k0 + i); g != group {
			group, scale, zero = g, t.GroupScale(r, g), float32(t.GroupZero(r, g))
		}
		dst[i] = (numbers[codes[i%len(codes)]] - zero) * scale
	}
}

// checkPacked checks all that Widen and the other readers of t.Packed rely on.
func (t *Tensor) checkPacked() error {
	p := t.Packed
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("tensor %.200q: %s", t.Name, fmt.Sprintf(format, args...))
	}
	if len(t.Shape) < 2 || t.Len() < 1 || t.Pairs != 0 {
		return wrong("only matrices with rows in their order are packed, not shape %d", t.Shape)
	}
	n, k := t.size()
	size, err := t.codeBytes(n, k)
	switch {
	case err != nil:
		return wrong("%v", err)
	case size != len(t.Data):
		return wrong("the codes of shape %d should have %d bytes, but have %d", t.Shape, size, len(t.Data))
	case p.GroupRows < 1 || p.GroupColumns < 1:
		return wrong("groups of %d by %d numbers", p.GroupRows, p.GroupColumns)
	}
	rows := ceil(n, p.GroupRows)
	groups := p.Scales.Len() / rows
	switch s := &p.Scales; {
	case s.DType != F32 && s.DType != F16 && s.DType != BF16 && s.DType != F8E4M3 && s.DType != F8E8M0:
		return wrong("scales of type %s", s.DType)
	case groups < 1 || groups*rows != s.Len() || s.Len()*s.DType.Size() != len(s.Data):
		return wrong("%d scales of %d bytes for %d rows of groups", s.Len(), len(s.Data), rows)
	case p.Order == nil && groups != ceil(k, p.GroupColumns):
		return wrong("%d scales in a row of %d columns, whose groups have %d", groups, k, p.GroupColumns)
	case p.Order != nil && len(p.Order) != k:
		return wrong("the groups of %d columns are given, but there are %d", len(p.Order), k)
	}
	for _, g := range p.Order {
		if g < 0 || int(g) >= groups {
			return wrong("a column is in group %d of %d", g, groups)
		}
	}
	if err := p.checkZeros(n, groups); err != nil {
		return wrong("%v", err)
	}
	return nil
}

// codeBytes is the size of Data.
func (t *Tensor) codeBytes(n, k int) (int, error) {
	p := t.Packed
	switch p.Layout {
	case RowCodes:
		if t.DType != I8 && t.DType != F8E4M3 && t.DType != F8E5M2 || p.Bits != 8 {
			return 0, fmt.Errorf("codes of type %s and %d bits in a row", t.DType, p.Bits)
		}
		return n * k, nil
	case RowPairs:
		if t.DType != F4 || p.Bits != 4 || k%2 != 0 {
			return 0, fmt.Errorf("pairs of type %s and %d bits in rows of %d", t.DType, p.Bits, k)
		}
		return n * (k / 2), nil
	case RowWords, ColumnWords:
		if t.DType != I32 || p.Bits < 1 || p.Bits > 8 {
			return 0, fmt.Errorf("words of type %s with codes of %d bits", t.DType, p.Bits)
		}
		return n * ceil(k*p.Bits, 32) * 4, nil
	case AWQWords:
		if t.DType != I32 || p.Bits != 4 || n%8 != 0 {
			return 0, fmt.Errorf("words of type %s with codes of %d bits of %d rows", t.DType, p.Bits, n)
		}
		return n / 8 * k * 4, nil
	}
	return 0, fmt.Errorf("unknown layout %d", p.Layout)
}

// checkZeros checks that there is a zero point for each group.
func (p *Packed) checkZeros(n, groups int) error {
	if p.Zeros.Data == nil {
		return nil
	}
	size := 0
	switch {
	case p.Zeros.DType == I8:
		size = p.Scales.Len()
	case p.Zeros.DType != I32 || p.GroupRows != 1:
		return fmt.Errorf("zero points of type %s for groups of %d rows", p.Zeros.DType, p.GroupRows)
	case p.Layout == RowWords || p.Layout == ColumnWords:
		size = ceil(n*p.Bits, 32) * groups * 4
	case p.Layout == AWQWords:
		size = n / 8 * groups * 4
	}
	if size != len(p.Zeros.Data) {
		return fmt.Errorf("the zero points of %d rows of %d groups should have %d bytes, but have %d", n, groups, size, len(p.Zeros.Data))
	}
	return nil
}
