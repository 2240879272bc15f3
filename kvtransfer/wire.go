package kvtransfer

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"weir/kvcache"
)

// The protocol is described in docs/kv-transfer.md. All numbers are little-endian.
const (
	magic = "weirkvt1"

	opHave    = 1 // which of these keys are there
	opGet     = 2 // the copies of these keys
	opRelease = 3 // the lease is not needed any more

	absent  = 0
	held    = 1
	awaited = 2

	accepted      = 0
	otherIdentity = 1
	refused       = 2

	nonceSize   = 32
	requestSize = 32
	keySize     = 17
	answerSize  = 24

	// maxKeys is the most keys of a request.
	maxKeys = 1 << 16
	// maxCopy is the most bytes of a copy that an answer may announce.
	maxCopy = 1 << 31
)

var (
	errProtocol = errors.New("kvtransfer: the other side does not speak the protocol")
	errSecret   = errors.New("kvtransfer: the other side does not know the secret")
	errIdentity = errors.New("kvtransfer: the partner has another fingerprint: another build, instructions, types, weights or sizes of blocks")
	errChecksum = errors.New("kvtransfer: a copy has another checksum")
)

// LeaseID names what a server holds for a partner. It is random.
type LeaseID [16]byte

// request is what a client asks for.
type request struct {
	op    byte
	wait  uint32 // milliseconds
	lease LeaseID
	keys  []kvcache.Key
}

// append appends the request as it is sent.
func (q *request) append(dst []byte) []byte {
	dst = append(dst, q.op, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(q.keys)))
	dst = binary.LittleEndian.AppendUint32(dst, q.wait)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, q.lease[:]...)
	for _, k := range q.keys {
		dst = appendKey(dst, k)
	}
	return dst
}

func appendKey(dst []byte, k kvcache.Key) []byte {
	dst = append(dst, k.Hash[:]...)
	if k.State {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// readRequest reads a request. The memory of keys is used again.
func readRequest(r io.Reader, keys []kvcache.Key) (q request, err error) {
	var head [requestSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return q, err
	}
	q.op, q.wait, q.lease = head[0], binary.LittleEndian.Uint32(head[8:]), LeaseID(head[16:])
	n := binary.LittleEndian.Uint32(head[4:])
	if q.op < opHave || q.op > opRelease || n > maxKeys || q.op == opRelease && n > 0 {
		return q, errProtocol
	}
	q.keys = keys[:0]
	var raw [keySize]byte
	for range n {
		if _, err := io.ReadFull(r, raw[:]); err != nil {
			return q, err
		}
		if raw[keySize-1] > 1 {
			return q, errProtocol
		}
		q.keys = append(q.keys, kvcache.Key{Hash: kvcache.Hash(raw[:]), State: raw[keySize-1] == 1})
	}
	return q, nil
}

// appendAnswer appends what stands before a copy.
func appendAnswer(dst []byte, status byte, n int, sum uint32) []byte {
	dst = append(dst, status, 0, 0, 0, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	return append(dst, 0, 0, 0, 0)
}

// readAnswer reads what stands before a copy of n bytes.
func readAnswer(r io.Reader, n int) (there bool, sum uint32, err error) {
	var head [answerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return false, 0, err
	}
	size := binary.LittleEndian.Uint64(head[8:])
	switch {
	case head[0] == absent && size == 0:
		return false, 0, nil
	case head[0] != held || size != uint64(n) || size > maxCopy:
		return false, 0, errProtocol
	}
	return true, binary.LittleEndian.Uint32(head[16:]), nil
}

// summer computes checksums.
type summer struct {
	prefix [sha256.Size + keySize]byte // the identity, and the key
}

// castagnoli is the polynomial of CRC-32C, for which processors have an instruction. On the machine of the benchmarks it takes a quarter of the
// time of XXH64, which package kvstore uses, where a disk is slower than either.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newSummer(identity [sha256.Size]byte) *summer {
	s := &summer{}
	copy(s.prefix[:], identity[:])
	return s
}

// sum is the checksum of a copy: CRC-32C of the identity, of its key and of the data, so that what is sent under
// another name is found, too.
func (s *summer) sum(k kvcache.Key, data []byte) uint32 {
	return crc32.Update(s.begin(k), castagnoli, data)
}

// begin begins the checksum of a copy.
func (s *summer) begin(k kvcache.Key) uint32 {
	appendKey(s.prefix[:sha256.Size], k)
	return crc32.Checksum(s.prefix[:], castagnoli)
}

// sumPiece is how much is read at a time: it is still in a cache of the processor when it is summed up.
const sumPiece = 256 << 10

// read reads a copy and returns its checksum.
func (s *summer) read(r io.Reader, k kvcache.Key, data []byte) (uint32, error) {
	sum := s.begin(k)
	for len(data) > 0 {
		piece := data[:min(sumPiece, len(data))]
		if _, err := io.ReadFull(r, piece); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, piece)
		data = data[len(piece):]
	}
	return sum, nil
}

// credentials are what two partners have in common.
type credentials struct {
	secret   []byte
	identity [sha256.Size]byte
}

// proof is what only somebody who knows the secret can compute. binding is that of the encryption below, if there is any.
func (c *credentials) proof(role string, client, server, binding []byte) []byte {
	mac := hmac.New(sha256.New, c.secret)
	for _, part := range [][]byte{[]byte(role), client, server, binding} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		mac.Write(n[:])
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// greet is the client's part of the handshake.
func (c *credentials) greet(rw io.ReadWriter, binding []byte) error {
	mine := append(make([]byte, 0, len(magic)+nonceSize), magic...)
	mine = append(mine, make([]byte, nonceSize)...)
	_, _ = rand.Read(mine[len(magic):]) // never fails (crypto/rand)
	if _, err := rw.Write(mine); err != nil {
		return err
	}
	theirs := make([]byte, len(magic)+nonceSize+sha256.Size)
	if _, err := io.ReadFull(rw, theirs); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	client, server := mine[len(magic):], theirs[len(magic):len(magic)+nonceSize]
	if !bytes.HasPrefix(theirs, []byte(magic)) {
		return errProtocol
	}
	if !hmac.Equal(theirs[len(magic)+nonceSize:], c.proof("server", client, server, binding)) {
		return errSecret
	}
	if _, err := rw.Write(append(c.proof("client", client, server, binding), c.identity[:]...)); err != nil {
		return err
	}
	var status [1]byte
	if _, err := io.ReadFull(rw, status[:]); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	switch status[0] {
	case accepted:
		return nil
	case otherIdentity:
		return errIdentity
	case refused:
		return errSecret
	}
	return errProtocol
}

// welcome is the server's part of the handshake.
func (c *credentials) welcome(rw io.ReadWriter, binding []byte) error {
	theirs := make([]byte, len(magic)+nonceSize)
	if _, err := io.ReadFull(rw, theirs); err != nil {
		return err
	}
	if !bytes.HasPrefix(theirs, []byte(magic)) {
		return errProtocol
	}
	mine := append(make([]byte, 0, len(magic)+nonceSize+sha256.Size), magic...)
	mine = append(mine, make([]byte, nonceSize)...)
	_, _ = rand.Read(mine[len(magic):]) // never fails (crypto/rand)
	client, server := theirs[len(magic):], mine[len(magic):]
	if _, err := rw.Write(append(mine, c.proof("server", client, server, binding)...)); err != nil {
		return err
	}
	last := make([]byte, 2*sha256.Size)
	if _, err := io.ReadFull(rw, last); err != nil {
		return err
	}
	status, err := byte(accepted), error(nil)
	switch {
	case !hmac.Equal(last[:sha256.Size], c.proof("client", client, server, binding)):
		status, err = refused, errSecret
	case !bytes.Equal(last[sha256.Size:], c.identity[:]):
		status, err = otherIdentity, errIdentity
	}
	_, failed := rw.Write([]byte{status})
	return errors.Join(err, failed)
}
