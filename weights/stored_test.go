package weights

import "testing"

// TestTypeName: what people are told of a stored type, and whether it is a quantized one.
func TestTypeName(t *testing.T) {
	shape := []int{512, 1024}
	for _, c := range []struct {
		tensor    Tensor
		name      string
		quantized bool
	}{
		{Tensor{DType: BF16, Shape: shape}, "bfloat16", false},
		{Tensor{DType: F8E4M3, Shape: shape}, "float8_e4m3", false},
		{Tensor{DType: Q4_K, Shape: shape}, "Q4_K", true},
		{Tensor{DType: I32, Shape: shape, Packed: &Packed{Bits: 4, GroupRows: 1, GroupColumns: 128}}, "4-bit integers in groups of 128", true},
		{Tensor{DType: I8, Shape: shape, Packed: &Packed{Bits: 8, GroupRows: 1, GroupColumns: 1024}}, "8-bit integers with a scale per row", true},
		{Tensor{DType: F8E4M3, Shape: shape, Packed: &Packed{Bits: 8, GroupRows: 128, GroupColumns: 128}}, "float8_e4m3 in blocks of 128 by 128", true},
		{Tensor{DType: F8E4M3, Shape: shape, Packed: &Packed{Bits: 8, GroupRows: 1 << 30, GroupColumns: 1 << 30}}, "float8_e4m3 with one scale", true},
		{Tensor{DType: F4, Shape: shape, Packed: &Packed{Bits: 4, GroupRows: 1, GroupColumns: 32}}, "float4 in groups of 32", true},
		{Tensor{DType: I32, Shape: shape, Packed: &Packed{Bits: 4, GroupRows: 1, GroupColumns: 128, Order: []int32{0}}}, "4-bit integers in groups of columns that are out of order", true},
	} {
		if got := c.tensor.TypeName(); got != c.name || c.tensor.Quantized() != c.quantized {
			t.Errorf("%q, quantized %v; want %q, %v", got, c.tensor.Quantized(), c.name, c.quantized)
		}
	}
}
