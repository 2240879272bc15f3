// Package weights reads checkpoints in the safetensors format: one file model.safetensors,
// or several files and model.safetensors.index.json, which names the file of each tensor.
// It knows bytes, shapes and element types, and no architectures. It also says what the numbers
// of quantized tensors are: those in blocks of GGUF files, whose headers package gguf reads, and
// those of which a checkpoint stores the parts in several tensors ([Packed]).
//
//	c, err := weights.Open("models/weir-tiny")
//	t, ok := c.Tensor("model.embed_tokens.weight") // t.DType, t.Shape, t.Data
//	defer c.Close()                                // t.Data is valid until then
//
// [Open] maps the files into memory and reads their headers only, so that a checkpoint of any size
// is opened at once; a system without memory mapping reads them. [OpenFS] is for the model
// inside the binary.
//
// A mapped file that is cut raises SIGBUS where its missing pages are read, which ends a Go
// process unless the reader is prepared: see [CatchFault].
//
// A file is
//
//	8 bytes: n, little-endian
//	n bytes: a JSON object {tensor: {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ...}
//	the data, to which the offsets refer
//
// Everything that a header says is checked when the file is opened: the offsets of all
// tensors have to cover the data exactly, and each has to have the size that its type and
// shape need. So a truncated or damaged file is a sentence that names the file and the
// tensor (ErrDamaged), and not a wrong answer later. The limit of 100 MB for a header is
// that of the reference implementation, safetensors/src/tensor.rs. Headers are read as values
// of package internal/jsontext and not decoded into maps, which would hide a tensor that is
// named twice.
package weights
