package api

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// VectorFormat is how an answer carries vectors: the field encoding_format.
type VectorFormat uint8

const (
	FloatVectors  VectorFormat = iota // decimal digits in JSON
	Base64Vectors                     // base64 of their bytes in JSON
	BytesVectors                      // their bytes alone; a header says which are whose
	BytesOnlyVectors
)

// vectorFormats are the values of encoding_format.
var vectorFormats = []string{FloatVectors: "float", Base64Vectors: "base64", BytesVectors: "bytes", BytesOnlyVectors: "bytes_only"}

// Binary reports whether the answer is no JSON.
func (f VectorFormat) Binary() bool { return f >= BytesVectors }

// NumberType is the type of the numbers that are sent as bytes: the field embed_dtype. Each is the nearest to the number,
// of two the one that is even. Numbers that are too great are infinite, and in FP8E4M3, which has no infinity, the greatest,
// as in torch.
type NumberType uint8

const (
	Float32 NumberType = iota
	Float16
	BFloat16
	FP8E4M3
	FP8E5M2
)

// numberTypes are the values of embed_dtype, with the bits of exponents and mantissas.
var numberTypes = [...]struct {
	name               string
	size               int
	exponent, mantissa int
}{Float32: {"float32", 4, 8, 23}, Float16: {"float16", 2, 5, 10}, BFloat16: {"bfloat16", 2, 8, 7}, FP8E4M3: {"fp8_e4m3", 1, 4, 3}, FP8E5M2: {"fp8_e5m2", 1, 5, 2}}

// Size is the number of bytes of a number.
func (t NumberType) Size() int { return numberTypes[t].size }

// VectorEncoding is all that a request says about how vectors are written. The zero value is decimal digits.
type VectorEncoding struct {
	Format    VectorFormat
	Type      NumberType // of all formats but FloatVectors
	Endian    string     // as it was sent: native, big or little; "": native
	BigEndian bool
}

func decodeEncodingFormat(r *EmbeddingRequest, v Raw, _ *Limits) *fault {
	i, f := oneOf(v, len(vectorFormats), func(i int) string { return vectorFormats[i] })
	r.Encoding.Format = VectorFormat(i)
	return f
}

func decodeNumberType(r *EmbeddingRequest, v Raw, _ *Limits) *fault {
	i, f := oneOf(v, len(numberTypes), func(i int) string { return numberTypes[i].name })
	r.Encoding.Type = NumberType(i)
	return f
}

func decodeEndianness(r *EmbeddingRequest, v Raw, _ *Limits) *fault {
	names := []string{"native", "little", "big"}
	i, f := oneOf(v, len(names), func(i int) string { return names[i] })
	r.Encoding.Endian, r.Encoding.BigEndian = names[i], names[i] == "big"
	return f
}

// oneOf returns the number of the text that v is.
func oneOf(v Raw, n int, name func(int) string) (int, *fault) {
	s, f := text(v)
	if f != nil {
		return 0, f
	}
	list := ""
	for i := range n {
		if name(i) == s {
			return i, nil
		}
		switch {
		case i == n-1:
			list += " or "
		case i > 0:
			list += ", "
		}
		list += "'" + name(i) + "'"
	}
	return 0, faultf("must be %s, got %s", list, clip(v))
}

// appendNumber appends the bytes of a finite number.
func (e *VectorEncoding) appendNumber(dst []byte, x float32) []byte {
	switch numberTypes[e.Type].size {
	case 1:
		return append(dst, byte(narrow(x, e.Type)))
	case 2:
		if e.BigEndian {
			return binary.BigEndian.AppendUint16(dst, narrow(x, e.Type))
		}
		return binary.LittleEndian.AppendUint16(dst, narrow(x, e.Type))
	}
	if e.BigEndian {
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
}

// narrow returns the bits of a finite number in a type of at most two bytes.
func narrow(x float32, t NumberType) uint16 {
	exponent, mantissa := numberTypes[t].exponent, numberTypes[t].mantissa
	bits := math.Float32bits(x)
	e, m := int(bits>>23&0xff)-127, bits&(1<<23-1)
	if e == -127 {
		e = -126
	} else {
		m |= 1 << 23
	}
	bias := 1<<(exponent-1) - 1
	shift, below := 23-mantissa, max(0, 1-bias-e) // how far below the least normal number
	shift = min(shift+below, 31)
	code := m >> shift
	if rest, half := m&(1<<shift-1), uint32(1)<<(shift-1); rest > half || rest == half && code&1 == 1 {
		code++
	}
	if below == 0 { // what rounding carried goes to the exponent
		code += uint32(e+bias-1) << mantissa
	}
	most := uint32(1<<exponent-1) << mantissa // infinity
	if t == FP8E4M3 {
		most += 1<<mantissa - 2 // 448; what follows is no number
	}
	return uint16(bits>>31<<(exponent+mantissa) | min(code, most))
}

// appendBase64 appends the base64 of the bytes of v, as a string of JSON.
func (e *VectorEncoding) appendBase64(dst []byte, v []float32) []byte {
	var room [192]byte // a multiple of three, so that no digits but the last are padded
	dst = append(dst, '"')
	for len(v) > 0 {
		n := min(len(v), len(room)/e.Type.Size())
		b := room[:0]
		for _, x := range v[:n] {
			b = e.appendNumber(b, x)
		}
		dst = base64.StdEncoding.AppendEncode(dst, b)
		v = v[n:]
	}
	return append(dst, '"')
}

// AppendVectorBytes appends the bytes of all vectors, one after the other.
func AppendVectorBytes(dst []byte, e *Embeddings) []byte {
	for _, v := range e.Vectors {
		for _, x := range v {
			dst = e.Encoding.appendNumber(dst, x)
		}
	}
	return dst
}

// MetadataSize is the most bytes that the header metadata of an answer in bytes has, of so many inputs.
func (m *Meta) MetadataSize(inputs int) int { return 256 + 6*(len(m.ID)+len(m.Model)) + 192*inputs }

// AppendVectorMetadata appends what the header metadata says of an answer in bytes: an object of JSON in ASCII, whose
// data has an element for each input, with the place of its bytes and the shape of its vector or of its vectors.
func AppendVectorMetadata(dst []byte, e *Embeddings) []byte {
	endian := e.Encoding.Endian
	if endian == "" {
		endian = "native"
	}
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, e.ID)
	dst = append(dst, `,"created":`...)
	dst = strconv.AppendInt(dst, e.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = AppendString(dst, e.Model)
	dst = append(dst, `,"data":[`...)
	at := 0
	for i, v := range e.Vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"embed_dtype":"`+numberTypes[e.Encoding.Type].name+`","endianness":"`+endian+`","start":`...)
		dst = strconv.AppendInt(dst, int64(at), 10)
		at += len(v) * e.Encoding.Type.Size()
		dst = append(dst, `,"end":`...)
		dst = strconv.AppendInt(dst, int64(at), 10)
		dst = append(dst, `,"shape":[`...)
		if e.Columns > 0 {
			dst = strconv.AppendInt(dst, int64(len(v)/e.Columns), 10)
			dst = append(dst, ',')
			dst = strconv.AppendInt(dst, int64(e.Columns), 10)
		} else {
			dst = strconv.AppendInt(dst, int64(len(v)), 10)
		}
		dst = append(dst, `]}`...)
	}
	dst = append(dst, `],"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(e.Prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(e.Prompt), 10)
	return toASCII(append(dst, `}}`...))
}

// toASCII returns a text of JSON with escapes in place of all characters that are not ASCII, which headers cannot have.
func toASCII(text []byte) []byte {
	plain := true
	for _, c := range text {
		plain = plain && c < utf8.RuneSelf && c != 0x7f
	}
	if plain {
		return text
	}
	out := make([]byte, 0, 2*len(text))
	escape := func(r rune) {
		out = append(out, '\\', 'u')
		const digits = "0123456789abcdef"
		for shift := 12; shift >= 0; shift -= 4 {
			out = append(out, digits[r>>shift&15])
		}
	}
	for _, r := range string(text) {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escape(high)
			escape(low)
		default:
			escape(r)
		}
	}
	return out
}
