package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/models"
)

// TestEndTokens: the primary end token is the tokenizer's, whatever the order of the
// tokens in the other files.
func TestEndTokens(t *testing.T) {
	t.Parallel()
	o := &modelOptions{}
	if _, _, err := parseFlags(t, o.bind, noEnv); err != nil {
		t.Fatal(err)
	}
	for tokenizerEOS, want := range map[string]string{"<|im_end|>": "eos=2 stop=[0]", "<|endoftext|>": "eos=0 stop=[2]", "<|im_start|>": "eos=1 stop=[2 0]"} {
		dir := copyModel(t)
		if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"eos_token":"`+tokenizerEOS+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSource(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.defaults.String(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", tokenizerEOS, got)
		}
		if err := s.network.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := fs.Stat(models.Bundled(), "generation_config.json"); err != nil {
		t.Error(err)
	}
}
