package testkit

import (
	"encoding/binary"
	"fmt"
	"math"
)

// GGUF is a model file in the GGUF format, which may be as wrong as a test wants it.
type GGUF struct {
	Magic     string // "GGUF" if empty
	Version   uint32 // 3 if 0
	Keys      []GGUFKey
	Tensors   []GGUFTensor
	KeyCount  uint64 // the number of Keys if 0
	Count     uint64 // the number of Tensors if 0
	Alignment int    // of tensors, 32 if 0; the key general.alignment is not added
}

// GGUFKey is a key with its value: a Go number, a bool, a string, a slice of these, or a slice of
// slices. RawGGUF stands for a type and the bytes of a value as they are.
type GGUFKey struct {
	Key   string
	Value any
}

// RawGGUF is a value that GGUF writes as it is.
type RawGGUF struct {
	Type uint32
	Data []byte
}

// GGUFTensor is a tensor. The innermost dimension comes first.
type GGUFTensor struct {
	Name   string
	Type   uint32
	Shape  []uint64
	Data   []byte
	Offset *uint64 // nil: after the tensors before it
}

// Set changes the value of a key, or adds it.
func (g *GGUF) Set(key string, value any) {
	for i := range g.Keys {
		if g.Keys[i].Key == key {
			g.Keys[i].Value = value
			return
		}
	}
	g.Keys = append(g.Keys, GGUFKey{key, value})
}

// Bytes is the file.
func (g *GGUF) Bytes() []byte {
	alignment := g.Alignment
	if alignment == 0 {
		alignment = 32
	}
	or := func(a, b uint64) uint64 {
		if a != 0 {
			return a
		}
		return b
	}
	magic := g.Magic
	if magic == "" {
		magic = "GGUF"
	}
	b := []byte(magic)
	b = binary.LittleEndian.AppendUint32(b, uint32(or(uint64(g.Version), 3)))
	b = binary.LittleEndian.AppendUint64(b, or(g.Count, uint64(len(g.Tensors))))
	b = binary.LittleEndian.AppendUint64(b, or(g.KeyCount, uint64(len(g.Keys))))
	for _, k := range g.Keys {
		b = ggufText(b, k.Key)
		b = binary.LittleEndian.AppendUint32(b, ggufType(k.Value))
		b = ggufValue(b, k.Value)
	}
	var data []byte
	for _, t := range g.Tensors {
		b = ggufText(b, t.Name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
		for _, n := range t.Shape {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		b = binary.LittleEndian.AppendUint32(b, t.Type)
		offset := uint64(len(data))
		if t.Offset != nil {
			offset = *t.Offset
		}
		b = binary.LittleEndian.AppendUint64(b, offset)
		data = ggufPad(append(data, t.Data...), alignment)
	}
	return append(ggufPad(b, alignment), data...)
}

func ggufPad(b []byte, alignment int) []byte {
	for len(b)%alignment != 0 {
		b = append(b, 0)
	}
	return b
}

func ggufText(b []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(text))), text...)
}

// ggufType is the number of the type of a value.
func ggufType(value any) uint32 {
	switch v := value.(type) {
	case uint8:
		return 0
	case int8:
		return 1
	case uint16:
		return 2
	case int16:
		return 3
	case uint32:
		return 4
	case int32:
		return 5
	case float32:
		return 6
	case bool:
		return 7
	case string:
		return 8
	case uint64:
		return 10
	case int64:
		return 11
	case float64:
		return 12
	case RawGGUF:
		return v.Type
	}
	return 9
}

func ggufValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case RawGGUF:
		return append(b, v.Data...)
	case string:
		return ggufText(b, v)
	case float32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	case float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	case uint8, int8, uint16, int16, uint32, int32, bool, uint64, int64:
		b, _ = binary.Append(b, binary.LittleEndian, v)
		return b
	case []string:
		return ggufArray(b, v)
	case []int32:
		return ggufArray(b, v)
	case []float32:
		return ggufArray(b, v)
	case []float64:
		return ggufArray(b, v)
	case []uint32:
		return ggufArray(b, v)
	case []uint8:
		return ggufArray(b, v)
	case []int64:
		return ggufArray(b, v)
	case []bool:
		return ggufArray(b, v)
	case [][]int32:
		return ggufArray(b, v)
	case [][]string:
		return ggufArray(b, v)
	case []any:
		return ggufArray(b, v)
	}
	panic(fmt.Sprintf("testkit: %T is no value of a GGUF file", value))
}

func ggufArray[T any](b []byte, list []T) []byte {
	var first T
	if len(list) > 0 {
		first = list[0]
	}
	b = binary.LittleEndian.AppendUint32(b, ggufType(first))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(list)))
	for _, v := range list {
		b = ggufValue(b, v)
	}
	return b
}
