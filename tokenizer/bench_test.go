package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bigFile makes a Qwen kind of tokenizer.json with n entries: the bytes, and
// merges of entries drawn at random, short ones more often.
func bigFile(n int) []byte {
	rng := rand.New(rand.NewPCG(19, 20))
	list := make([]string, 0, n)
	seen := make(map[string]bool, n)
	add := func(s string) {
		seen[s] = true
		list = append(list, s)
	}
	for _, r := range byteSpelling {
		add(string(r))
	}
	var merges strings.Builder
	for len(list) < n {
		pick := func() string { return list[int(float64(len(list))*rng.Float64()*rng.Float64())] }
		a, b := pick(), pick()
		if len(a)+len(b) > 16 || seen[a+b] {
			continue
		}
		add(a + b)
		fmt.Fprintf(&merges, ",%q", a+" "+b)
	}
	var vocab strings.Builder
	for id, s := range list {
		fmt.Fprintf(&vocab, ",%q:%d", s, id)
	}
	return fmt.Appendf(nil, `{"version":"1.0","normalizer":{"type":"NFC"},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":%q},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":false}]},
"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{%s},"merges":[%s]}}`, qwen2Pattern, vocab.String()[1:], merges.String()[1:])
}

func TestBigFile(t *testing.T) {
	data := bigFile(20000)
	tok, slow := mustLoad(t, data), newReference(t, data)
	for _, s := range samples()[:60] {
		if got, want := encode(tok, s.Text, false), slow.encode(t, s.Text); len(got) != len(want) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: got %v, want %v", s.Name, got, want)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for name, data := range map[string][]byte{
		"150k": bigFile(150_000),
		"4k":   readFile(b, "testdata/mini/bl-qwen2-nfc.json.gz"),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				mustLoad(b, data)
			}
		})
	}
}

// benchTexts returns prose and Chinese from the samples, and code from this package.
func benchTexts(b *testing.B) map[string]string {
	texts := map[string]string{}
	for _, s := range samples() {
		switch {
		case strings.HasPrefix(s.Name, "ulysses"), strings.HasPrefix(s.Name, "wp"):
			texts["en"] += s.Text
		case strings.HasPrefix(s.Name, "zh"):
			texts["zh"] += s.Text
		}
	}
	files, _ := filepath.Glob("*.go")
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		texts["code"] += string(src)
	}
	return texts
}

// BenchmarkEncode: a server nearly always finds words in the cache (cold=false). With
// cold=true each text starts with an empty cache, and most words of texts as short as
// these are not found.
func BenchmarkEncode(b *testing.B) {
	big := mustLoad(b, bigFile(150_000))
	for _, t := range []struct {
		name string
		tok  *Tokenizer
	}{{"150k", big}, {"gpt2", mini(b, "bl-gpt2")}, {"o200k", mini(b, "bl-o200k")}, {"deepseek3", mini(b, "bl-deepseek3")}, {"llama2", mini(b, "spm-llama2")}} {
		for text, s := range benchTexts(b) {
			dst := make([]int32, 0, len(s))
			for _, cold := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%s/cold=%v", t.name, text, cold), func(b *testing.B) {
					b.SetBytes(int64(len(s)))
					for b.Loop() {
						if cold {
							b.StopTimer()
							clear(t.tok.cache.sets)
							b.StartTimer()
						}
						dst, _ = t.tok.Encode(dst[:0], s, false)
					}
				})
			}
		}
	}
}

// BenchmarkLongWord: a word of a megabyte.
func BenchmarkLongWord(b *testing.B) {
	tok := mustLoad(b, bigFile(150_000))
	random := make([]byte, 1<<20)
	rng := rand.New(rand.NewPCG(21, 22))
	for i := range random {
		random[i] = 'a' + byte(rng.IntN(26))
	}
	for name, s := range map[string]string{"a": strings.Repeat("a", 1<<20), "spaces": strings.Repeat(" ", 1<<20), "letters": string(random), "marks": strings.Repeat("\u0301\u0327", 1<<18)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(1 << 20)
			for b.Loop() {
				encode(tok, s, false)
			}
		})
	}
}

func BenchmarkDecoder(b *testing.B) {
	for _, name := range []string{"bl-llama3", "spm-llama2"} {
		tok := mini(b, name)
		ids := encode(tok, benchTexts(b)["en"], false)
		d, out := tok.NewDecoder(nil, DecodeOptions{SkipSpecial: true}), make([]byte, 0, 1<<20)
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if i%len(ids) == 0 {
					out = out[:0]
				}
				out = d.Append(out, ids[i%len(ids)])
			}
		})
	}
}
