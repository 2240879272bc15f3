package spans

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/internal/jsontext"
)

// message is one message of OTLP, in protobuf's encoding or as JSON.
type message struct {
	wire []byte
	json jsontext.Value // nil: in protobuf's encoding
}

func (m message) len() int { return len(m.wire) + len(m.json) }

// field is the value of one field of a message; a repeated field has several.
type field struct {
	typ    protowire.Type
	number uint64 // of the types varint, fixed32 and fixed64
	bytes  []byte // of the type bytes: a text, bytes, or a message
	json   jsontext.Value
}

// names are the names of the fields of a message in JSON, by their numbers. Fields that are not
// named here are passed over.
type names []string

// find returns the number of a name, which may also be spelled as in the definition of the
// message (trace_id for traceId); 0: there is none.
func (n names) find(name string) int {
	name = strings.ReplaceAll(name, "_", "")
	for i, want := range n {
		if want != "" && strings.EqualFold(want, name) {
			return i
		}
	}
	return 0
}

// each calls f for the fields of a message, and reports whether the message is well-formed.
func (m message) each(n names, f func(number int, v field)) bool {
	if m.json != nil {
		return m.eachMember(n, f)
	}
	for b := m.wire; len(b) > 0; {
		number, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return false
		}
		b = b[size:]
		v := field{typ: typ}
		switch typ {
		case protowire.VarintType:
			v.number, size = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v.number, size = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var x uint32
			x, size = protowire.ConsumeFixed32(b)
			v.number = uint64(x)
		case protowire.BytesType:
			v.bytes, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(number, typ, b)
		}
		if size < 0 {
			return false
		}
		b = b[size:]
		if int(number) < len(n) && n[number] != "" {
			f(int(number), v)
		}
	}
	return true
}

func (m message) eachMember(n names, f func(number int, v field)) bool {
	if m.json.Kind() != jsontext.Object {
		return false
	}
	for name, v := range m.json.RawMembers() {
		number := n.find(name.SharedText())
		switch {
		case number == 0 || v.Kind() == jsontext.Null:
		case v.Kind() == jsontext.Array:
			for _, e := range v.Elements() {
				f(number, field{json: e})
			}
		default:
			f(number, field{json: v})
		}
	}
	return true
}

// message is the message that a field holds; false: it holds none.
func (v field) message() (message, bool) {
	if v.json != nil {
		return message{json: v.json}, v.json.Kind() == jsontext.Object
	}
	return message{wire: v.bytes}, v.typ == protowire.BytesType
}

// text is the text that a field holds. What is not UTF-8 in it becomes U+FFFD.
func (v field) text() (string, bool) {
	if v.json != nil {
		if v.json.Kind() != jsontext.String {
			return "", false
		}
		return v.json.Text(), true
	}
	return strings.ToValidUTF8(string(v.bytes), "\uFFFD"), v.typ == protowire.BytesType
}

// id is an id in hexadecimal. In JSON it is written so, and as protobuf's rules for JSON say,
// in base64, by those who do not follow OTLP; size tells the two apart.
func (v field) id(size int) (string, bool) {
	if v.json == nil {
		return hex.EncodeToString(v.bytes), v.typ == protowire.BytesType
	}
	text, ok := v.text()
	if !ok {
		return "", false
	}
	if len(text) != hex.EncodedLen(size) {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil && len(b) == size {
			return hex.EncodeToString(b), true
		}
	}
	if _, err := hex.DecodeString(text); err != nil {
		return "", false
	}
	return strings.ToLower(text), true
}

// uint is a number that is not negative. In JSON one of 64 bits is mostly a text.
func (v field) uint() (uint64, bool) {
	if v.json == nil {
		return v.number, v.typ != protowire.BytesType
	}
	x, err := strconv.ParseUint(v.jsonNumber(), 10, 64)
	return x, err == nil
}

// jsonNumber is a number, or the text that stands for one.
func (v field) jsonNumber() string {
	if v.json.Kind() == jsontext.String {
		return v.json.Text()
	}
	return string(v.json)
}

// enum is the number of a constant. In JSON it may be its name, which follows a prefix.
func (v field) enum(prefix string, constants []string) int {
	if v.json != nil && v.json.Kind() == jsontext.String {
		name, _ := strings.CutPrefix(v.json.Text(), prefix)
		for i, c := range constants {
			if c == name {
				return i
			}
		}
	}
	if x, ok := v.uint(); ok && x < uint64(len(constants)) {
		return int(x)
	}
	return 0
}

// valueNames are the fields of AnyValue, of which a value has one.
var valueNames = names{1: "stringValue", 2: "boolValue", 3: "intValue", 4: "doubleValue", 5: "arrayValue", 6: "kvlistValue", 7: "bytesValue"}

var (
	listNames     = names{1: "values"}
	keyValueNames = names{1: "key", 2: "value"}
)

// maxDepth bounds how deeply arrays and objects may be nested in an attribute.
const maxDepth = 32

// appendValue appends a value of an attribute as JSON; an empty one is null. It reports false
// for a malformed one.
func appendValue(dst []byte, m message, depth int) (_ []byte, ok bool) {
	from := len(dst)
	good := depth <= maxDepth
	wellFormed := m.each(valueNames, func(number int, v field) {
		if good {
			dst, good = appendScalar(dst[:from], number, v, depth)
		}
	})
	if len(dst) == from {
		dst = append(dst, "null"...)
	}
	return dst, good && wellFormed
}

func appendScalar(dst []byte, number int, v field, depth int) (_ []byte, ok bool) {
	switch number {
	case 1:
		s, ok := v.text()
		return jsontext.AppendString(dst, s), ok
	case 2:
		if v.json != nil {
			return append(dst, v.json...), v.json.Kind() == jsontext.Bool
		}
		return strconv.AppendBool(dst, v.number != 0), v.typ == protowire.VarintType
	case 3:
		if v.json == nil {
			return strconv.AppendInt(dst, int64(v.number), 10), v.typ == protowire.VarintType
		}
		x, err := strconv.ParseInt(v.jsonNumber(), 10, 64)
		return strconv.AppendInt(dst, x, 10), err == nil
	case 4:
		return appendDouble(dst, v)
	case 5, 6:
		inner, ok := v.message()
		if !ok {
			return dst, false
		}
		if number == 5 {
			return appendList(dst, inner, depth)
		}
		return appendObject(dst, inner, depth)
	}
	if v.json != nil { // bytes are in base64 there
		return append(dst, v.json...), v.json.Kind() == jsontext.String
	}
	return jsontext.AppendString(dst, base64.StdEncoding.EncodeToString(v.bytes)), v.typ == protowire.BytesType
}

func appendList(dst []byte, m message, depth int) (_ []byte, ok bool) {
	return appendItems(dst, m, "[]", func(dst []byte, item message) ([]byte, bool) { return appendValue(dst, item, depth+1) })
}

func appendObject(dst []byte, m message, depth int) (_ []byte, ok bool) {
	return appendItems(dst, m, "{}", func(dst []byte, item message) ([]byte, bool) {
		key, value, ok := keyValue(item)
		if !ok {
			return dst, false
		}
		return appendValue(append(jsontext.AppendString(dst, key), ':'), value, depth+1)
	})
}

// appendItems appends the items of a list, each by appendItem, between brackets.
func appendItems(dst []byte, m message, brackets string, appendItem func(dst []byte, item message) ([]byte, bool)) (_ []byte, ok bool) {
	good, n := true, 0
	dst = append(dst, brackets[0])
	wellFormed := m.each(listNames, func(_ int, v field) {
		item, ok := v.message()
		if !ok || !good {
			good = false
			return
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst, good = appendItem(dst, item)
	})
	return append(dst, brackets[1]), good && wellFormed
}

// keyValue reads a KeyValue.
func keyValue(m message) (key string, value message, ok bool) {
	good := true
	wellFormed := m.each(keyValueNames, func(number int, v field) {
		one := false
		if number == 1 {
			key, one = v.text()
		} else {
			value, one = v.message()
		}
		good = good && one
	})
	return key, value, good && wellFormed
}

// appendDouble appends a double. JSON has no words for those that are not finite, so they
// become texts.
func appendDouble(dst []byte, v field) (_ []byte, ok bool) {
	if v.json != nil {
		if v.json.Kind() == jsontext.Number {
			return append(dst, v.json...), true
		}
		s, ok := v.text()
		if x, err := strconv.ParseFloat(s, 64); ok && err == nil {
			return appendFloat(dst, x), true
		}
		return dst, false
	}
	if v.typ != protowire.Fixed64Type {
		return dst, false
	}
	return appendFloat(dst, math.Float64frombits(v.number)), true
}

func appendFloat(dst []byte, x float64) []byte {
	switch {
	case math.IsNaN(x):
		return append(dst, `"NaN"`...)
	case math.IsInf(x, 0):
		if x < 0 {
			return append(dst, `"-Infinity"`...)
		}
		return append(dst, `"Infinity"`...)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, 64)
}
