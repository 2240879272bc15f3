package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestTextsOfFormats writes random strings of each format to the folder WEIR_FORMATS_OUT, if
// that is set, for the validators that tools/formats/check.py knows.
func TestTextsOfFormats(t *testing.T) {
	dir := os.Getenv("WEIR_FORMATS_OUT")
	if dir == "" {
		t.Skip("WEIR_FORMATS_OUT is not set")
	}
	for _, format := range formatNames {
		g := mustCompile(t, schema(fmt.Sprintf(`{"type":"string","format":%q}`, format)), testVocabulary)
		rng := rand.New(rand.NewPCG(1, 1))
		texts := map[string]bool{}
		for range 5000 {
			texts[randomString(t, g, rng)] = true
		}
		list := []string{}
		for s := range texts {
			list = append(list, s)
		}
		out, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, format+".json"), out, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// randomString draws a string of g. Each kind of character comes as often as others, however
// many there are of the kind, and how soon the text ends is drawn, too.
func randomString(t *testing.T, g *Grammar, rng *rand.Rand) string {
	t.Helper()
	w := newRandomWalk(t, "random string", g, rng)
	end := []float64{0.5, 0.2, 0.05, 0.01, 0}[rng.IntN(5)]
	for !w.m.Done() {
		w.fill()
		if len(w.text) > 1 && legal(w.mask, '"') && (rng.Float64() < end || len(w.text) > 600) {
			w.accept('"')
			continue
		}
		var kinds [5][]int32
		for b := range int32(256) {
			if !legal(w.mask, b) || b == '"' && len(w.text) > 1 {
				continue
			}
			k := 0
			switch {
			case b >= 0x80:
				k = 1
			case b >= '0' && b <= '9':
				k = 2
			case b|0x20 >= 'a' && b|0x20 <= 'z':
				k = 3
			case b == '.' || b == '-' || b == ':' || b == '/':
				k = 4
			}
			kinds[k] = append(kinds[k], b)
		}
		var full [][]int32
		for _, k := range kinds {
			if len(k) > 0 {
				full = append(full, k)
			}
		}
		if len(full) == 0 {
			w.accept('"')
			continue
		}
		k := full[rng.IntN(len(full))]
		w.accept(k[rng.IntN(len(k))])
	}
	return mustParse(t, w.text).(string)
}
