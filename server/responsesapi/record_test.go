package responsesapi

import (
	"reflect"
	"testing"
)

// FuzzDecodeRecord: no bytes make it fail, and what it reads is written as it was read.
func FuzzDecodeRecord(f *testing.F) {
	r := &Record{ID: "i", Created: -5, User: "u", Response: []byte("r"), Items: []byte("i"), Messages: []byte("m"), Count: 3, IDs: []int32{1, -1}, Front: front{1}}
	f.Add(r.encode())
	f.Add([]byte{recordForm})
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeRecord("i", b)
		if err != nil {
			return
		}
		again, err := decodeRecord("i", got.encode())
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%+v is read as %+v, %v", got, again, err)
		}
	})
}

// TestDecodeRecord: a record that is cut is damaged.
func TestDecodeRecord(t *testing.T) {
	b := (&Record{Response: []byte("r"), IDs: []int32{1}}).encode()
	for n := range b {
		if _, err := decodeRecord("i", b[:n]); err == nil {
			t.Errorf("the first %d bytes are a record", n)
		}
	}
	if _, err := decodeRecord("i", append(b, 0)); err == nil {
		t.Error("a byte too many is a record")
	}
}
