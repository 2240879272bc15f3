package responsesapi

import (
	"encoding/binary"
	"errors"
)

// Record is what is kept of a response.
type Record struct {
	ID      string
	Created int64  // Unix milliseconds
	User    string // whose key asked for it
	// Response is the response object.
	Response []byte
	// Items are the items of its input, with ids, as elements of a JSON array.
	Items []byte
	// Messages are those of the chat, with the earlier turns and the answer, and without the
	// instructions, as elements of a JSON array. Count is how many they are.
	Messages []byte
	Count    int
	// IDs are the tokens of the prompt and of the output.
	IDs []int32
	// Front is what the beginning of the prompt was made of, as a hash.
	Front front
}

// front is a hash of all that a prompt is made of beside its messages: instructions, tools and
// arguments of the template.
type front [32]byte

// recordForm is the first byte of a record.
const recordForm = 1

var errRecord = errors.New("responsesapi: a record is damaged")

// encode returns the bytes of a record. Its id is in its key.
func (r *Record) encode() []byte {
	b := make([]byte, 0, 128+len(r.Response)+len(r.Items)+len(r.Messages)+4*len(r.IDs))
	b = append(b, recordForm)
	b = binary.AppendVarint(b, r.Created)
	b = append(b, r.Front[:]...)
	b = binary.AppendUvarint(b, uint64(r.Count))
	for _, s := range [][]byte{[]byte(r.User), r.Response, r.Items, r.Messages} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = binary.AppendUvarint(b, uint64(len(r.IDs)))
	for _, id := range r.IDs {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

// decodeRecord reads a record. It shares the memory of b.
func decodeRecord(id string, b []byte) (*Record, error) {
	r := &Record{ID: id}
	if len(b) == 0 || b[0] != recordForm {
		return nil, errRecord
	}
	var n int
	if r.Created, n = binary.Varint(b[1:]); n <= 0 {
		return nil, errRecord
	}
	if b = b[1+n:]; len(b) < len(r.Front) {
		return nil, errRecord
	}
	b = b[copy(r.Front[:], b):]
	count, n := binary.Uvarint(b)
	if n <= 0 || count > 1<<31 {
		return nil, errRecord
	}
	r.Count, b = int(count), b[n:]
	var user []byte
	for _, to := range []*[]byte{&user, &r.Response, &r.Items, &r.Messages} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errRecord
		}
		*to, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
	}
	r.User = string(user)
	ids, n := binary.Uvarint(b)
	if n <= 0 || uint64(len(b)-n) != 4*ids || ids > 1<<40 {
		return nil, errRecord
	}
	b = b[n:]
	r.IDs = make([]int32, ids)
	for i := range r.IDs {
		r.IDs[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return r, nil
}
