package tokenizer

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// referenceMerge merges the pair with the lowest rank, of equal ones the leftmost, until
// no pair has a merge.
func referenceMerge(m *mergeTable, ids []int32) []int32 {
	ids = slices.Clone(ids)
	for {
		best, at := uint32(noRank), -1
		for i := 1; i < len(ids); i++ {
			if r := m.rank(ids[i-1], ids[i]); r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return ids
		}
		ids[at-1] = m.merged[best]
		ids = slices.Delete(ids, at, at+1)
	}
}

// randomMerges makes a table of merges in no sensible order: a token may be used by a merge
// of a lower rank than the one that makes it, and be made by several.
func randomMerges(rng *rand.Rand, letters int) *mergeTable {
	m := &mergeTable{}
	tokens := int32(letters)
	seen := map[uint64]bool{}
	for range 2 + rng.IntN(20) {
		a, b := rng.Int32N(tokens), rng.Int32N(tokens)
		if seen[pairKey(a, b)] {
			continue
		}
		seen[pairKey(a, b)] = true
		m.add(a, b, tokens)
		tokens++
	}
	rng.Shuffle(len(m.pairs), func(i, j int) {
		m.pairs[i], m.pairs[j] = m.pairs[j], m.pairs[i]
		m.merged[i], m.merged[j] = m.merged[j], m.merged[i]
	})
	m.build()
	return m
}

// TestWideMergeMatchesReference: the merge for very long pieces gives what merging one pair
// at a time gives, however few pairs a round may have and whatever the order of ranks.
func TestWideMergeMatchesReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for i := range rounds(6000) {
		letters := 1 + rng.IntN(4)
		m := randomMerges(rng, letters)
		ids := make([]int32, 1+rng.IntN(80))
		for i := range ids {
			ids[i] = rng.Int32N(int32(letters))
		}
		want := referenceMerge(m, ids)
		before := []int32{7}
		w := &wideMerge{m: m}
		if got := w.merge(before, slices.Clone(ids), 1+rng.IntN(len(ids))); !slices.Equal(got[1:], want) || got[0] != 7 {
			t.Fatalf("%d: %v\n got %v\nwant %v", i, ids, got, want)
		}
	}
}

// TestWideMergeLongSymbols: symbols of more places than the bits beside an id can count.
func TestWideMergeLongSymbols(t *testing.T) {
	m := &mergeTable{}
	for k := range int32(13) { // token k is 2^k letters
		m.add(k, k, k+1)
	}
	m.add(13, 0, 14)
	m.build()
	for _, n := range []int{2046, 2047, 2048, 4095, 4096, 8191, 8192, 8193, 16384, 20000, 24577} {
		ids := make([]int32, n)
		var long longMerge
		ranks := make([]uint32, n)
		for i := range ranks {
			ranks[i] = m.rank(0, 0)
		}
		ranks[n-1] = noRank
		want := long.merge(m, nil, ids, ranks)
		for _, most := range []int{1 + n/100, n / 2, n} {
			w := &wideMerge{m: m}
			if got := w.merge(nil, slices.Clone(ids), most); !slices.Equal(got, want) {
				t.Fatalf("%d letters, %d pairs a round: got %d tokens, want %d", n, most, len(got), len(want))
			}
		}
	}
}

// TestLongPiecesMatchHeap: a piece on both sides of the length from which it is merged
// in little memory. Its ids are those that the heap gives.
func TestLongPiecesMatchHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, name := range []string{"bl-gpt2", "spm-llama2"} {
		tok := mini(t, name)
		for _, alphabet := range []string{"e", "en", "the a in of", "TAeeoonnrr-"} {
			b := make([]byte, wideFrom+100)
			for i := range b {
				b[i] = alphabet[rng.IntN(len(alphabet))]
			}
			s := string(b)
			w := &worker{t: tok}
			if w.merge(s); len(w.out) == 0 {
				t.Fatal("no tokens")
			}
			slow := &worker{t: tok}
			if tok.byteLevel {
				for i := range len(s) {
					slow.ids = append(slow.ids, tok.bytes[s[i]])
				}
			} else {
				slow.ids = tok.chars.symbols(nil, s)
			}
			for i := range slow.ids[1:] {
				slow.ranks = append(slow.ranks, tok.merges.rank(slow.ids[i], slow.ids[i+1]))
			}
			want := slow.long.merge(tok.merges, nil, slow.ids, append(slow.ranks, noRank))
			if !slices.Equal(w.out, want) {
				t.Errorf("%s: %d letters of %q: %d tokens, want %d", name, len(s), alphabet, len(w.out), len(want))
			}
		}
	}
}

// TestLongPieceMemory: a piece that nothing cuts costs at most eight bytes a byte for
// merging it, beside its tokens and the slice that these first had.
func TestLongPieceMemory(t *testing.T) {
	tok := mini(t, "bl-llama3")
	s := strings.Repeat("e", rounds(1<<22))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ids := encode(tok, s, false)
	runtime.ReadMemStats(&after)
	if len(ids) > len(s)/2 {
		t.Fatal("nothing was merged")
	}
	if used := int(after.TotalAlloc-before.TotalAlloc) - 4*len(ids); used > 9*len(s)+1<<20 {
		t.Errorf("%d bytes for a text of %d", used, len(s))
	}
}

// TestEncodeUntil: Encode stops within a slice of work, whatever it is doing, and gives
// dst back as it was.
func TestEncodeUntil(t *testing.T) {
	done := make(chan struct{})
	close(done)
	for name, text := range map[string]string{
		"words":         strings.Repeat("a word ", 100_000),
		"one piece":     strings.Repeat("a", 200_000),
		"marks":         "a" + strings.Repeat("\u0301", 200_000),
		"not composed":  strings.Repeat("e\u0301 ", 100_000),
		"spaces":        strings.Repeat(" ", 200_000),
		"added tokens":  strings.Repeat("<|im_end|>a", 100_000),
		"single tokens": strings.Repeat("a b c 1 2 3", 100_000),
	} {
		for _, model := range []string{"bl-qwen2-nfc", "bl-llama3", "spm-llama2"} {
			before := []int32{7}
			ids, err := mini(t, model).EncodeUntil(done, before, text, true)
			if !errors.Is(err, ErrStopped) || !slices.Equal(ids, before) {
				t.Errorf("%s, %s: %d tokens, error %v", model, name, len(ids), err)
			}
		}
	}
	tok := withPattern(t, `(?:a+)+b|c`)
	if _, err := tok.EncodeUntil(done, nil, strings.Repeat("a", 100_000), false); !errors.Is(err, ErrStopped) {
		t.Errorf("a regular expression: %v", err)
	}
}
