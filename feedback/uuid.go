package feedback

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// parseUUID reads 8-4-4-4-12 hexadecimal digits, of either case and any version. Unlike
// uuid.Parse it takes no other spelling.
func parseUUID(s string) (id [16]byte, ok bool) {
	if len(s) != 36 {
		return id, false
	}
	id, err := uuid.Parse(s)
	return id, err == nil
}

func uuidText(id [16]byte) string { return uuid.UUID(id).String() }

// uuid7 makes an id that sorts by time (RFC 9562, section 5.7).
//
// uuid.NewV7 of google/uuid 1.6.0 is no substitute, because it reads the clock itself. A
// record's id has to carry its created_at, and a batch's id (package trajectory/archive)
// the time of its commit, also where these are later than the clock.
func uuid7(ms int64, random [10]byte) (id [16]byte) {
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], uint64(ms))
	copy(id[:6], t[2:])
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}
