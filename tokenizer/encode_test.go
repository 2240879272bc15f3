package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestEncodeMatchesReference compares the whole pipeline with the reference
// implementation.
func TestEncodeMatchesReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for _, name := range referenceNames {
		tok, slow := mini(t, name), miniReference(t, name)
		for range rounds(400) {
			s := mixedText(rng, 1+rng.IntN(20))
			if rng.IntN(3) == 0 {
				s += "<|im_end|>" + mixedText(rng, rng.IntN(4))
			}
			if got, want := encode(tok, s, false), slow.encode(t, s); !slices.Equal(got, want) {
				t.Fatalf("%s: %q\n got %q\nwant %q", name, s, tokens(tok, got), tokens(tok, want))
			}
		}
	}
}

func TestEncodeAppends(t *testing.T) {
	tok := mini(t, "bl-llama3")
	dst := append(make([]int32, 0, 100), 7, 8)
	got, err := tok.Encode(dst, "the <|im_end|> end", true)
	if err != nil {
		t.Fatal(err)
	}
	if want := append([]int32{7, 8}, encode(tok, "the <|im_end|> end", true)...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if &got[0] != &dst[0] {
		t.Error("dst had room and was not used")
	}
	if got := encode(tok, "", false); len(got) != 0 {
		t.Errorf("the empty text is %v", got)
	}
}

// TestConcurrentEncode: goroutines that share a cache, which is too small for their
// words, get the same ids and texts as one goroutine alone.
func TestConcurrentEncode(t *testing.T) {
	for _, name := range []string{"bl-qwen35-nfc", "bl-deepseek3", "spm-gemma"} {
		shared := mustLoad(t, readFile(t, "testdata/mini/"+name+".json.gz"))
		shared.cache.sets = shared.cache.sets[:8]
		alone := mini(t, name)
		list := samples()[:400]
		want := make([][]int32, len(list))
		for i, s := range list {
			want[i] = encode(alone, s.Text, false)
		}
		var wait sync.WaitGroup
		for g := range 8 {
			wait.Go(func() {
				for k := range list {
					i := (k*7 + g*50) % len(list)
					if got := encode(shared, list[i].Text, false); !slices.Equal(got, want[i]) {
						t.Errorf("%s: %s differs", name, list[i].Name)
						return
					}
					if got := decodeByPieces(shared, nil, want[i], DecodeOptions{}); got != decodeByPieces(alone, nil, want[i], DecodeOptions{}) {
						t.Errorf("%s: the text of %s differs", name, list[i].Name)
						return
					}
				}
			})
		}
		wait.Wait()
	}
}

// TestCacheHoldsAndForgets: a set that is full loses its oldest word for a new one, and
// every word keeps its own ids.
func TestCacheHoldsAndForgets(t *testing.T) {
	var set cacheSet
	word := func(i int) string { return fmt.Sprintf("word %d", i) }
	for i := range 10 {
		if set.find(word(i)) != nil {
			t.Fatalf("%q is there before it was added", word(i))
		}
		set.add(word(i), []int32{int32(i), int32(-i)})
		for k := range i + 1 {
			e := set.find(word(k))
			if held := k > i-len(set); (e != nil) != held {
				t.Fatalf("after %d words, %q held: %v", i+1, word(k), e != nil)
			} else if held && !slices.Equal(e.ids[:e.n], []int32{int32(k), int32(-k)}) {
				t.Fatalf("%q has the ids %v", word(k), e.ids[:e.n])
			}
		}
	}
	longest := strings.Repeat("x", cacheBytes)
	set.add(longest, make([]int32, cacheIDs))
	if e := set.find(longest); e == nil || int(e.n) != cacheIDs || set.find(longest[1:]) != nil {
		t.Error("an entry of the largest size is not found")
	}
}

// TestNothingIsAllocatedPerWord: Encode of words in the cache, Decoder.Append and
// the names of tokens allocate nothing.
func TestNothingIsAllocatedPerWord(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops entries at random under the race detector")
	}
	check := func(what string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(50, f); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	text := strings.Repeat("The quick brown fox, 12 of them, it's jumping <|im_end|>\n  over naïve 中文 dogs. ", 3)
	for _, name := range []string{"bl-gpt2", "bl-llama3", "bl-qwen2-nfc", "bl-o200k", "bl-tekken", "bl-deepseek3"} {
		tok := mini(t, name)
		dst := encode(tok, text, true)
		check(name+" Encode", func() { dst, _ = tok.Encode(dst[:0], text, true) })
	}
	for _, name := range []string{"bl-llama3", "spm-llama2", "spm-metaspace"} {
		tok := mini(t, name)
		ids := encode(tok, text+"🙂 🙂 中文 naïve", false)
		d, out := tok.NewDecoder(nil, skipSpecial), make([]byte, 0, 4096)
		check(name+" Append", func() {
			out = out[:0]
			for _, id := range ids {
				out = d.Append(out, id)
			}
		})
		check(name+" names", func() {
			for _, id := range ids[:20] {
				if tok.Token(id) == "" || len(tok.Text(id)) < len(tok.Bytes(id)) && !tok.IsSpecial(id) {
					t.Errorf("id %d has no name", id)
				}
			}
		})
		check(name+" NewDecoder", func() { d2 := tok.NewDecoder(ids, skipSpecial); out = d2.Append(out[:0], ids[0]) })
	}
}

// TestLongWords: long words are not merged in quadratic time, which would take minutes
// here. They also outgrow the scratch memory that is kept.
func TestLongWords(t *testing.T) {
	for _, name := range []string{"bl-llama3", "bl-deepseek3", "spm-gemma"} {
		tok := mini(t, name)
		for _, unit := range []string{"e", " ", "!", "\u4e2d", "th", "\xff"} {
			s := strings.Repeat(unit, rounds(1<<17)/len(unit))
			ids := encode(tok, s, false)
			if got := tok.Decode(ids, DecodeOptions{}); got != toValid(s) {
				t.Errorf("%s: 128 KiB of %q does not come back", name, unit)
			}
		}
	}
}
