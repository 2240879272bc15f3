package kvevents

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"weir/kvcache"
)

// The functions below write MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md), of which events need little.

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

// appendMap begins a map of less than 16 members.
func appendMap(b []byte, n int) []byte { return append(b, 0x80|byte(n)) }

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 128:
		return append(b, byte(v))
	case v < 1<<8:
		return append(b, 0xcc, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

// appendText appends a text of less than 256 bytes.
func appendText(b []byte, s string) []byte {
	if len(s) < 32 {
		return append(append(b, 0xa0|byte(len(s))), s...)
	}
	return append(append(b, 0xd9, byte(len(s))), s...)
}

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(f))
}

// encoder writes batches of events.
type encoder struct {
	cfg   *Config
	plain *[16]byte // see Publisher.SetPlain; nil: all salts are alike
}

// hash appends the hash of a block, in one of the two forms that vLLM has.
func (e *encoder) hash(b []byte, h kvcache.Hash) []byte {
	if e.cfg.IntHashes {
		return appendUint(b, binary.BigEndian.Uint64(h[:8]))
	}
	return append(append(b, 0xc4, byte(len(h))), h[:]...)
}

// batch appends a batch: the time, its events and the number of the engine among those that share a model.
func (e *encoder) batch(b []byte, seconds float64, cleared bool, c *kvcache.Changes, blockTokens int) []byte {
	b = appendFloat(appendArray(b, 3), seconds)
	events := 0
	if cleared {
		events++
	}
	for i := 0; i < len(c.List); i = e.end(c, i) {
		events++
	}
	b = appendArray(b, events)
	if cleared {
		b = e.event(b, c, kvcache.Change{Kind: kvcache.Cleared}, nil, blockTokens)
	}
	for i := 0; i < len(c.List); {
		end := e.end(c, i)
		b = e.event(b, c, c.List[i], c.List[i:end], blockTokens)
		i = end
	}
	return appendUint(b, 0)
}

// end is the end of the run of changes that begins at i and makes one event: blocks that follow each other in a chain, or
// things that were removed from one place.
func (e *encoder) end(c *kvcache.Changes, i int) int {
	first := c.List[i]
	for j := i + 1; j < len(c.List); j++ {
		next, last := c.List[j], c.List[j-1]
		if next.Kind != first.Kind || next.Kind == kvcache.Cleared || next.Copied != first.Copied || next.Group != first.Group {
			return j
		}
		if next.Kind == kvcache.Stored && (next.First || next.Parent != last.Hash || next.Tokens < 0 || last.Tokens < 0) {
			return j
		}
	}
	return len(c.List)
}

func (e *encoder) medium(c kvcache.Change) string {
	if c.Copied {
		return e.cfg.Tier
	}
	return "GPU" // as vLLM calls the memory that a device computes in, whatever the device is
}

// event appends an event for a run of changes like first. What is absent has the default that vLLM's classes give it.
func (e *encoder) event(b []byte, c *kvcache.Changes, first kvcache.Change, run []kvcache.Change, blockTokens int) []byte {
	switch first.Kind {
	case kvcache.Removed:
		b = appendText(appendText(appendMap(b, 4), "type"), "BlockRemoved")
		b = e.blocks(b, run)
	case kvcache.Stored:
		return e.stored(b, c, first, run, blockTokens)
	default:
		return appendText(appendText(appendMap(b, 1), "type"), "AllBlocksCleared")
	}
	b = appendText(appendText(b, "medium"), e.medium(first))
	return appendUint(appendText(b, "group_idx"), uint64(first.Group))
}

func (e *encoder) blocks(b []byte, run []kvcache.Change) []byte {
	b = appendArray(appendText(b, "block_hashes"), len(run))
	for _, c := range run {
		b = e.hash(b, c.Hash)
	}
	return b
}

func (e *encoder) stored(b []byte, c *kvcache.Changes, first kvcache.Change, run []kvcache.Change, blockTokens int) []byte {
	var g Group
	if int(first.Group) < len(e.cfg.Groups) {
		g = e.cfg.Groups[first.Group]
	}
	salted := first.First && e.plain != nil && first.Parent != *e.plain
	members := 9
	for _, more := range []bool{salted, g.Kind != "", g.Window > 0} {
		if more {
			members++
		}
	}
	b = appendText(appendText(appendMap(b, members), "type"), "BlockStored")
	b = e.blocks(b, run)
	b = appendText(b, "parent_block_hash")
	if first.First || first.Tokens < 0 {
		b = appendNil(b)
	} else {
		b = e.hash(b, first.Parent)
	}
	b = appendText(b, "token_ids")
	if first.Tokens < 0 {
		b = appendArray(b, 0)
	} else {
		b = appendArray(b, len(run)*blockTokens)
		for _, s := range run {
			for _, id := range c.Tokens[s.Tokens:][:blockTokens] {
				b = appendUint(b, uint64(id))
			}
		}
	}
	b = appendUint(appendText(b, "block_size"), uint64(blockTokens))
	b = appendNil(appendText(b, "lora_id"))
	b = appendText(appendText(b, "medium"), e.medium(first))
	b = appendNil(appendText(b, "lora_name"))
	if salted { // like vLLM's cache_salt, at the first block only
		b = appendArray(appendText(b, "extra_keys"), len(run))
		b = appendText(appendArray(b, 1), hex.EncodeToString(first.Parent[:]))
		for range run[1:] {
			b = appendNil(b)
		}
	}
	b = appendUint(appendText(b, "group_idx"), uint64(first.Group))
	if g.Kind != "" {
		b = appendText(appendText(b, "kv_cache_spec_kind"), g.Kind)
	}
	if g.Window > 0 {
		b = appendUint(appendText(b, "kv_cache_spec_sliding_window"), uint64(g.Window))
	}
	return b
}
