// Package gguf reads the headers of model files in the GGUF format: metadata, which are keys
// with values, and tensors. It knows bytes, shapes and types, and no architectures.
//
//	f, err := gguf.Open("model-Q4_K_M.gguf")
//	arch, ok := f.Metadata.String("general.architecture")
//	c, err := f.Checkpoint(f.Tensors()) // as any other checkpoint; closing it closes the files
//
// A file is, with little-endian numbers,
//
//	4 bytes: GGUF
//	uint32:  version, 2 or 3, which are laid out in the same way
//	uint64:  number of tensors
//	uint64:  number of keys
//	keys:    name, uint32 type of the value, value
//	tensors: name, uint32 number of dimensions, uint64 for each dimension, the innermost first,
//	         uint32 type of the numbers, uint64 offset
//	data:    from the next multiple of general.alignment (32 if there is none) on; offsets
//	         refer to its beginning
//
// where a name, or any other text, is its length in bytes as an uint64 and its bytes, and an
// array is the uint32 type of its elements, their number as an uint64, and the elements.
// (ggml, docs/gguf.md and src/gguf.cpp.)
//
// A model may be split into files that end with -00001-of-00003.gguf and so on. Opening any one
// of them opens all. The first one has the metadata of the model; each says in split.no and
// split.count which part it is, and in split.tensors.count how many tensors all parts have.
//
// Files are mapped into memory and only their headers are read. Values of metadata are ranges of
// the mapping, so that what a file claims costs no memory: what is allocated is less than some
// ten times the bytes of the header. Everything that a header says is checked when the file is
// opened, as gguf.cpp does it, and that tensors do not overlap. So a truncated or damaged file is
// one sentence that names the file and the key or the tensor.
//
// gguf.cpp wants tensors to follow each other in the order of the header. Here any order will do,
// but between two of them there must be nothing except what alignment asks for, since a gap means
// that an offset or a shape is wrong. Bytes after the last tensor are allowed, as there.
package gguf
