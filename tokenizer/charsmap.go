package tokenizer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// charsmap replaces sequences of characters by others: the rules of normalization that a
// SentencePiece model has compiled into itself. (sentencepiece, src/normalizer.cc.)
//
// It is the size of a double-array trie, in 4 bytes; the units of the trie, 4 bytes each; and
// the replacements, each of which ends in a zero byte. The value of a sequence is where its
// replacement begins. (Darts-clone, darts.h: a unit has a label, an offset to the children, and
// bits that say whether it has a value; a value is a unit of its own.)
type charsmap struct {
	units []byte
	texts string
}

// parseCharsmap reads a map of characters, which may be empty: then it returns nil.
func parseCharsmap(blob []byte) (*charsmap, error) {
	if len(blob) == 0 {
		return nil, nil
	}
	size := 0
	if len(blob) > 4 {
		size = int(binary.LittleEndian.Uint32(blob))
	}
	if size == 0 || size%4 != 0 || size > len(blob)-4 {
		return nil, fmt.Errorf("%w: a precompiled_charsmap of %d bytes whose trie has %d", ErrInvalid, len(blob), size)
	}
	texts := blob[4+size:]
	if len(texts) == 0 || texts[len(texts)-1] != 0 {
		return nil, fmt.Errorf("%w: the last replacement of precompiled_charsmap does not end", ErrInvalid)
	}
	for text := range bytes.SplitSeq(texts, []byte{0}) {
		if len(text) > maxReplacement {
			return nil, fmt.Errorf("%w: a replacement of %d bytes in precompiled_charsmap; %d are the most", ErrUnsupported, len(text), maxReplacement)
		}
	}
	if !utf8.Valid(texts) {
		return nil, fmt.Errorf("%w: a replacement of precompiled_charsmap is not UTF-8", ErrInvalid)
	}
	return &charsmap{units: append([]byte(nil), blob[4:4+size]...), texts: string(texts)}, nil
}

// unit returns the unit at i; ok is false behind the end of a damaged trie.
func (m *charsmap) unit(i uint32) (u uint32, ok bool) {
	if uint64(i)*4+4 > uint64(len(m.units)) {
		return 0, false
	}
	return binary.LittleEndian.Uint32(m.units[4*i:]), true
}

func offsetOf(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// find returns the replacement of the longest sequence that s begins with, or of the shortest,
// and its length; 0, if none is replaced.
func (m *charsmap) find(s string, longest bool) (to string, length int) {
	u, ok := m.unit(0)
	at := offsetOf(u)
	for i := 0; ok && i < len(s) && s[i] != 0; i++ {
		at ^= uint32(s[i])
		if u, ok = m.unit(at); !ok || u&(1<<31|0xFF) != uint32(s[i]) {
			break
		}
		at ^= offsetOf(u)
		if u&(1<<8) == 0 {
			continue
		}
		value, ok := m.unit(at)
		if start := int(value & (1<<31 - 1)); ok && start < len(m.texts) {
			end := strings.IndexByte(m.texts[start:], 0) // the last byte is 0
			to, length = m.texts[start:start+end], i+1
			if !longest {
				break
			}
		}
	}
	return to, length
}

// byCluster normalizes as Hugging Face's library does: it looks up whole grapheme clusters of
// fewer than six bytes, and the characters of all others, and takes the replacement of the
// shortest sequence that they begin with for the whole.
// (spm_precompiled; Hugging Face tokenizers, normalizers/precompiled.rs.)
func (m *charsmap) byCluster(allow *allowance, s string) string {
	var b strings.Builder
	kept := 0 // s[:kept] is in b
	swell := swelling{allow: allow}
	replaced := func(start, end int) bool {
		to, n := m.find(s[start:end], false)
		if n > 0 {
			b.WriteString(s[kept:start])
			b.WriteString(to)
			kept = end
		}
		return n > 0
	}
	for clusters := graphemes.FromString(s); clusters.Next(); {
		start, end := clusters.Start(), clusters.End()
		if !allow.work(4*(end-start)) || !swell.ok(b.Len(), kept) {
			return s
		}
		if end-start < 6 && replaced(start, end) {
			continue
		}
		for i, r := range s[start:end] {
			replaced(start+i, start+i+utf8.RuneLen(r))
		}
	}
	if kept == 0 {
		return s
	}
	b.WriteString(s[kept:])
	return b.String()
}
