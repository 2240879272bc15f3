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

// TestOverrideGeneration: members of --override-generation-config replace the model's, the
// others stay, and max_new_tokens caps every request.
func TestOverrideGeneration(t *testing.T) {
	t.Parallel()
	o := &modelOptions{}
	if _, _, err := parseFlags(t, o.bind, noEnv, "--override-generation-config", `{"temperature":0.25,"top_k":7,"max_new_tokens":9,"eos_token_id":5}`); err != nil {
		t.Fatal(err)
	}
	s, err := openSource("", o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.defaults.String(), "temperature=0.25 top_p=0.9 top_k=7 max_new_tokens=9 max_tokens=9 eos=2 stop=[0 5]"; got != want {
		t.Errorf("defaults %s, want %s", got, want)
	}
	if err := s.network.Close(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"temperature":-1}`, `[]`, `{`} {
		o.override = bad
		if s, err := openSource("", o); err == nil || !isUsageError(err) || !strings.Contains(err.Error(), "--override-generation-config") {
			t.Errorf("%s: %v, %v", bad, s, err)
		}
	}
}

// TestOtherTokenizer: --tokenizer names the folder of the vocabulary and the templates.
func TestOtherTokenizer(t *testing.T) {
	t.Parallel()
	weights, texts := copyModel(t), copyModel(t)
	for _, file := range []string{"tokenizer.json", "chat_template.jinja"} {
		if err := os.Remove(filepath.Join(weights, file)); err != nil {
			t.Fatal(err)
		}
	}
	o := &modelOptions{}
	if _, _, err := parseFlags(t, o.bind, noEnv, "--tokenizer", texts); err != nil {
		t.Fatal(err)
	}
	s, err := openSource(weights, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.network.Close(); err != nil {
		t.Error(err)
	}
	o.tokenizer = filepath.Join(texts, "tokenizer.json")
	if _, err := openSource(weights, o); err == nil || !strings.Contains(err.Error(), "is not a folder with tokenizer.json") {
		t.Error(err)
	}
}
