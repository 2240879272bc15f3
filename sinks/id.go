package sinks

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"weir/store/outbox"
)

// messageID is the same whenever an entry is sent, and different for every key that it changes.
func messageID(s outbox.State, e outbox.Entry, key string, snapshot bool) string {
	sum := sha256.Sum256([]byte(key))
	where := strconv.FormatUint(e.Seq, 10)
	if snapshot {
		where = "s" + strconv.FormatUint(s.Until, 10)
	}
	return s.Epoch + "." + where + "." + hex.EncodeToString(sum[:8])
}
