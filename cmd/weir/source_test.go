package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/jsontext"
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
	if _, err := openSource(weights, o); err == nil || !strings.Contains(err.Error(), "is not a folder with a tokenizer") {
		t.Error(err)
	}
}

// TestTokenizerInOtherFiles: a folder with vocab.json and merges.txt in the place of a
// tokenizer.json, and chat_template.json in that of a chat_template.jinja, gives the same tokens
// and the same prompts.
func TestTokenizerInOtherFiles(t *testing.T) {
	t.Parallel()
	dir := copyModel(t)
	template := inOtherFiles(t, dir)
	want := openForTokens(t, dir)
	for _, name := range []string{"tokenizer.json", "chat_template.jinja"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	got := openForTokens(t, dir)
	for _, text := range []string{"Hello world, it's 2026!\n\n  <|im_start|>user\nde\u0301ja\u0300 vu<|im_end|>", template} {
		a, errA := want.tokenizer.Encode(nil, text, true)
		b, errB := got.tokenizer.Encode(nil, text, true)
		if errA != nil || errB != nil || !slices.Equal(a, b) {
			t.Errorf("%q\n got %v, %v\nwant %v, %v", text, b, errB, a, errA)
		}
	}
	if got.tokenizerInfo == "" || !strings.Contains(got.tokenizerInfo, "im_start") {
		t.Errorf("tokenizer info without the template: %.300s", got.tokenizerInfo)
	}
	if err := os.WriteFile(filepath.Join(dir, "chat_template.json"), []byte(`{"chat_template":5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openSource(dir, sourceOptions(t)); err == nil || !strings.Contains(err.Error(), "chat_template.json") {
		t.Error(err)
	}
}

// inOtherFiles writes the tokenizer and the template of a folder into other files, too, and
// returns the template.
func inOtherFiles(t *testing.T, dir string) (template string) {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var file struct {
		Added []struct {
			ID      int    `json:"id"`
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens"`
		Model struct {
			Vocab  jsontext.RawMessage `json:"vocab"`
			Merges []any               `json:"merges"`
		} `json:"model"`
	}
	if err := jsontext.Decode(read("tokenizer.json"), &file); err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	if err := jsontext.Decode(read("tokenizer_config.json"), &config); err != nil {
		t.Fatal(err)
	}
	added := map[string]any{}
	for _, a := range file.Added {
		added[strconv.Itoa(a.ID)] = a
	}
	config["tokenizer_class"], config["added_tokens_decoder"] = "Qwen2TokenizerFast", added
	var merges strings.Builder
	for _, m := range file.Model.Merges {
		if pair, ok := m.([]any); ok {
			m = fmt.Sprintf("%s %s", pair...)
		}
		fmt.Fprintln(&merges, m)
	}
	template = string(read("chat_template.jinja"))
	for name, v := range map[string]any{"vocab.json": file.Model.Vocab, "tokenizer_config.json": config, "chat_template.json": map[string]string{"chat_template": template}} {
		text, err := jsontext.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "merges.txt"), []byte(merges.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return template
}

func sourceOptions(t *testing.T) *modelOptions {
	t.Helper()
	o := &modelOptions{}
	if _, _, err := parseFlags(t, o.bind, noEnv); err != nil {
		t.Fatal(err)
	}
	return o
}

func openForTokens(t *testing.T, dir string) *source {
	t.Helper()
	s, err := openSource(dir, sourceOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.network.Close(); err != nil {
		t.Error(err)
	}
	return s
}

// TestThinkSuffixOfVocabulary: think tags that have a suffix in the vocabulary are recognized with it.
func TestThinkSuffixOfVocabulary(t *testing.T) {
	dir := copyModel(t)
	for _, name := range []string{"tokenizer.json", "chat_template.jinja"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.NewReplacer("<think>", "<think:own>", "</think>", "</think:own>").Replace(string(text)))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{dir: "<think:own>", "": "<think>"} {
		s, err := openSource(dir, &modelOptions{contentFormat: "auto", reasoningParser: "hy_v3", callParser: "auto", generationConfig: "auto", responseRole: "assistant"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.network.Close()
		if got := s.chat.Marks().Opening(); got != want {
			t.Errorf("%q: thoughts begin with %s, not %s", dir, got, want)
		}
	}
}
