package gguf

import (
	"fmt"

	"weir/weights"
)

// tensorTypes are the types of tensors by their numbers (ggml, include/ggml.h, enum ggml_type).
var tensorTypes = map[uint32]weights.DType{
	0: weights.F32, 1: weights.F16, 2: weights.Q4_0, 3: weights.Q4_1, 6: weights.Q5_0, 7: weights.Q5_1,
	8: weights.Q8_0, 9: weights.Q8_1, 10: weights.Q2_K, 11: weights.Q3_K, 12: weights.Q4_K, 13: weights.Q5_K,
	14: weights.Q6_K, 15: weights.Q8_K, 16: weights.IQ2_XXS, 17: weights.IQ2_XS, 18: weights.IQ3_XXS, 19: weights.IQ1_S,
	20: weights.IQ4_NL, 21: weights.IQ3_S, 22: weights.IQ2_S, 23: weights.IQ4_XS, 24: weights.I8, 25: weights.I16,
	26: weights.I32, 27: weights.I64, 28: weights.F64, 29: weights.IQ1_M, 30: weights.BF16, 34: weights.TQ1_0,
	35: weights.TQ2_0, 39: weights.MXFP4, 40: weights.NVFP4, 41: weights.Q1_0, 42: weights.Q2_0,
}

// otherTypes are the names of types that are not read: those that ggml no longer has or has only
// begun to have, and those of ik_llama.cpp (its ggml/include/ggml.h), whose numbers are above 96.
var otherTypes = map[uint32]string{
	4: "Q4_2, which ggml no longer has", 5: "Q4_3, which ggml no longer has",
	31: "Q4_0_4_4, which ggml no longer has", 32: "Q4_0_4_8, which ggml no longer has", 33: "Q4_0_8_8, which ggml no longer has",
	36: "IQ4_NL_4_4 of older ggml, or I2_S of BitNet", 37: "IQ4_NL_4_8, which ggml no longer has", 38: "IQ4_NL_8_8, which ggml no longer has",
	133: "Q6_0", 134: "IQ1_BN", 135: "IQ2_BN", 137: "IQ2_K", 138: "IQ3_K", 139: "IQ4_K", 140: "IQ5_K", 141: "IQ6_K",
	144: "IQ4_KS", 145: "IQ2_KS", 146: "IQ4_KSS", 151: "Q8_KV", 152: "IQ5_KS", 153: "IQ2_KT", 154: "IQ3_KT", 155: "IQ4_KT",
	156: "IQ3_KS", 157: "IQ2_KL", 158: "IQ1_KT",
	202: "Q4_0_R8", 206: "Q5_0_R4", 208: "Q8_0_R8", 210: "Q2_K_R4", 211: "Q3_K_R4", 212: "Q4_K_R4", 213: "Q5_K_R4", 214: "Q6_K_R4",
	216: "IQ2_XXS_R4", 217: "IQ2_XS_R4", 218: "IQ3_XXS_R4", 219: "IQ1_S_R4", 220: "IQ4_NL_R4", 221: "IQ3_S_R4", 222: "IQ2_S_R4",
	223: "IQ4_XS_R8", 229: "IQ1_M_R4", 230: "BF16_R16", 233: "Q6_0_R4", 335: "IQ2_BN_R4", 337: "IQ2_K_R4", 338: "IQ3_K_R4",
	339: "IQ4_K_R4", 340: "IQ5_K_R4", 344: "IQ4_KS_R4", 352: "IQ5_KS_R4", 353: "MXFP4_R8", 397: "Q8_K_R16", 398: "Q8_KV_R8", 399: "Q8_K_R8",
}

// typeName names a type that is not read.
func typeName(number uint32) string {
	name, ok := otherTypes[number]
	switch {
	case !ok:
		return fmt.Sprintf("the unknown type %d", number)
	case number > 96:
		return fmt.Sprintf("type %d (%s of ik_llama.cpp)", number, name)
	}
	return fmt.Sprintf("type %d (%s)", number, name)
}

// Type is the type of a value of the metadata.
type Type uint32

// The types of values (ggml, docs/gguf.md).
const (
	Uint8 Type = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	Array
	Uint64
	Int64
	Float64
)

// valueTypes has the names of types, and the bytes of a value, 0 where they differ.
var valueTypes = [...]struct {
	name string
	size int
}{
	Uint8: {"uint8", 1}, Int8: {"int8", 1}, Uint16: {"uint16", 2}, Int16: {"int16", 2}, Uint32: {"uint32", 4}, Int32: {"int32", 4},
	Float32: {"float32", 4}, Bool: {"bool", 1}, String: {"string", 0}, Array: {"array", 0},
	Uint64: {"uint64", 8}, Int64: {"int64", 8}, Float64: {"float64", 8},
}

func (t Type) known() bool { return int(t) < len(valueTypes) }

func (t Type) String() string {
	if t.known() {
		return valueTypes[t].name
	}
	return fmt.Sprintf("unknown type %d", uint32(t))
}
