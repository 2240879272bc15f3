package archive

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"weir/internal/pace"
	"weir/store"
)

// stream is one of the sequences of bytes that an upload writes.
type stream byte

const (
	texts stream = iota
	rows
	groups
	streams // how many there are
)

// blockSize is how many bytes of a stream are compressed together. It is enough for zstd to
// find repetition, and not too much to decompress for one trajectory.
const blockSize = 256 << 10

// The first byte of a block says how the rest is stored.
const (
	uncompressed = 0
	compressed   = 1
)

// codec compresses blocks. EncodeAll and DecodeAll may be called from many
// goroutines.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(2*blockSize))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return &codec{enc, dec}, nil
}

func (c *codec) close() {
	_ = c.enc.Close() // writes nowhere
	c.dec.Close()
}

// packedSize is the room that compress needs for n bytes.
func packedSize(n int) int { return n + n/8 + 64 }

// compress appends the stored form of a block to dst, which is empty.
func (c *codec) compress(dst, b []byte) []byte {
	out := c.enc.EncodeAll(b, append(dst, compressed))
	if len(out) > len(b) {
		return append(append(out[:0], uncompressed), b...)
	}
	return out
}

func (c *codec) decompress(dst, b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: an empty block", store.ErrCorrupt)
	}
	switch b[0] {
	case uncompressed:
		return append(dst, b[1:]...), nil
	case compressed:
		out, err := c.dec.DecodeAll(b[1:], dst)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%w: a block of kind %d", store.ErrCorrupt, b[0])
}

// source reads one stream of an upload. It has one block in memory.
type source struct {
	r     *store.Reader
	v     *View
	meter *pace.Meter
	c     *codec
	u     uploadID
	s     stream
	size  int64

	block  []byte // the block with the number at, if loaded
	at     int64
	loaded bool
}

// load loads the block with the byte at off, and returns the block from that byte on.
func (s *source) load(off int64) ([]byte, error) {
	if n := off / blockSize; !s.loaded || n != s.at {
		s.loaded = false
		if err := s.v.blocks.Need(blockBytes); err != nil {
			return nil, err
		}
		if err := s.meter.Spend(pace.Row + blockSize); err != nil {
			return nil, err
		}
		b, err := s.r.Get(blockKey(s.u, s.s, uint64(n)))
		if err == nil {
			s.block, err = s.c.decompress(s.block[:0], b)
		}
		if err == nil && int64(len(s.block)) != min(blockSize, s.size-n*blockSize) {
			err = fmt.Errorf("%w: a block of %d bytes", store.ErrCorrupt, len(s.block))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: stream %d, block %d: %w", ErrDamaged, s.s, n, err)
		}
		s.at, s.loaded = n, true
	}
	return s.block[off%blockSize:], nil
}

// read appends n bytes from off on to dst.
func (s *source) read(dst []byte, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off+n > s.size {
		return nil, fmt.Errorf("%w: %d bytes at %d of %d", ErrDamaged, n, off, s.size)
	}
	for n > 0 {
		b, err := s.load(off)
		if err != nil {
			return nil, err
		}
		b = b[:min(n, int64(len(b)))]
		dst = append(dst, b...)
		if err := s.meter.Spend(pace.Compare + len(b)); err != nil {
			return nil, err
		}
		off += int64(len(b))
		n -= int64(len(b))
	}
	return dst, nil
}
