package feedback

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// parseUUID reads 8-4-4-4-12 hexadecimal digits, of either case and any version.
func parseUUID(s string) (id [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return [16]byte{}, false
	}
	return id, true
}

func uuidText(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// uuid7 makes an id that sorts by time (RFC 9562, section 5.7).
func uuid7(ms int64, random [10]byte) (id [16]byte) {
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], uint64(ms))
	copy(id[:6], t[2:])
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}
