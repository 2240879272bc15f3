package archive

import (
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/google/uuid"

	"weir/store"
)

// The first byte of a key is the table. In every table that clients can reach, the tenant
// follows it.
const (
	tagHeader  = 'B' // tenant, model, log id: a batch's header
	tagBlock   = 'D' // upload, stream, number: a block
	tagMarker  = 'U' // upload: its blocks belong to no batch
	tagReceipt = 'I' // tenant, model, hash of an idempotency key: a receipt
	tagCall    = 'C' // tenant, id of a chat completion: the group that was recorded of it
	tagCreated = 'M' // tenant, id: a model that was created
	tagNamed   = 'N' // tenant, entity, project, name: the id of a model that was created
	tagGone    = 'K' // tenant, model, step: a checkpoint that was deleted
	tagShape   = 'S' // upload: which trajectories it has, for sinks (changes.go)
)

// ID is the id of a batch: a UUID of version 7. Their order is that of the commits.
type ID [16]byte

// newID makes the id of a batch that is committed at t. After the milliseconds it has 12
// bits of their fraction, in which different microseconds are different (RFC 9562, section
// 6.2, method 3).
func newID(t time.Time) (id ID) {
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	us := t.UnixMicro()
	ms, fraction := us/1000, us%1000*4096/1000
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = 0x70 | byte(fraction>>8)
	id[7] = byte(fraction)
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// String returns the id in the usual form of a UUID.
func (id ID) String() string { return uuid.UUID(id).String() }

// ParseID reads the form that String writes, and no other.
func ParseID(s string) (id ID, ok bool) {
	u, err := uuid.Parse(s)
	if err != nil || u.String() != s {
		return ID{}, false
	}
	return ID(u), true
}

// uploadID identifies the blocks of one upload. It is not the id of the batch, which is only
// known at the commit.
type uploadID [16]byte

func newUploadID() (u uploadID) {
	_, _ = rand.Read(u[:]) // never fails (crypto/rand)
	return u
}

func tenantKey(tag byte, tenant string) []byte { return store.AppendString([]byte{tag}, tenant) }

func modelKey(tag byte, tenant, model string) []byte {
	return store.AppendString(tenantKey(tag, tenant), model)
}

func headerKey(tenant, model string, id ID) []byte {
	return append(modelKey(tagHeader, tenant, model), id[:]...)
}

func receiptKey(tenant, model, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return append(modelKey(tagReceipt, tenant, model), sum[:]...)
}

func markerKey(u uploadID) []byte { return append([]byte{tagMarker}, u[:]...) }

// blockPrefix is the beginning of the keys of all blocks of an upload.
func blockPrefix(u uploadID) []byte { return append([]byte{tagBlock}, u[:]...) }

func blockKey(u uploadID, s stream, n uint64) []byte {
	return store.AppendUint(append(blockPrefix(u), byte(s)), n)
}
