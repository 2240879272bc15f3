package testkit

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"weir/weights"
)

// Safetensors returns a checkpoint file with these tensors. Its header is not padded,
// so readers cannot rely on the alignment of the data.
func Safetensors(tensors []weights.Tensor) []byte {
	stored := map[weights.DType]string{weights.F32: "F32", weights.F16: "F16", weights.BF16: "BF16", weights.I32: "I32"}
	var header, data bytes.Buffer
	header.WriteByte('{')
	for i, t := range tensors {
		if i > 0 {
			header.WriteByte(',')
		}
		shape := bytes.ReplaceAll(fmt.Append(nil, t.Shape), []byte(" "), []byte(","))
		fmt.Fprintf(&header, `%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, t.Name, stored[t.DType], shape, data.Len(), data.Len()+len(t.Data))
		data.Write(t.Data)
	}
	header.WriteByte('}')
	file := binary.LittleEndian.AppendUint64(nil, uint64(header.Len()))
	return append(append(file, header.Bytes()...), data.Bytes()...)
}
