// Package quantconfig knows how quantized checkpoints of Hugging Face are stored: what a
// quantization_config says, which tensors a quantized matrix consists of, and which matrices
// are quantized at all.
//
//	c, err := quantconfig.Parse(value)              // of config.json, or of a file of its own
//	tensors, err := c.Assemble(checkpoint, matrices, needed) // each matrix is one tensor, with Packed
//
// Assemble reads no weights, only what decides how they are read: the groups of columns that
// GPTQ orders by activations, and single factors of NVFP4. The numbers themselves are package
// weights' (weights.Packed).
//
// # Methods
//
// Each method has its names of tensors. For a module, such as
// model.layers.0.self_attn.q_proj, they are:
//
//	gptq                qweight, qzeros, scales, g_idx
//	awq                 qweight, qzeros, scales
//	fp8, fbgemm_fp8     weight, weight_scale_inv or weight_scale
//	compressed-tensors  weight or weight_packed, weight_scale, weight_zero_point,
//	                    weight_g_idx, weight_global_scale, weight_shape
//	modelopt            weight, weight_scale, weight_scale_2
//	mxfp4               NAME_blocks, NAME_scales
//
// auto-round stores one of these forms. The meaning of each was taken from the programs that
// write and read it: compressed-tensors 0.20, GPTQModel 7.7, AutoAWQ 0.2.9, transformers 5.23,
// NVIDIA ModelOpt 0.47, AutoRound 0.16 and vLLM 0.33. testdata holds checkpoints that their
// packers made (tools/golden/quantized.py), with the numbers that they read from them.
//
// # Which matrices
//
// The lists of a config (targets, ignore, modules_to_not_convert and others) decide which
// matrices are quantized, as the program that the method is from reads them. A matrix that
// is quantized although the lists leave it out, or the other way round, is an error, because
// one of the two is damaged. Where a config has no list, or in the cases that programs leave
// out without one (the head), the tensors decide.
//
// # What is passed over
//
// Scales of activations (input_scale) and of the KV cache (k_scale, v_scale) change nothing
// here: rows of activations are kept in more than 8 bits of floating point, or are rounded
// with scales of their own, and keys and values are stored as --kv-cache-dtype says.
package quantconfig
