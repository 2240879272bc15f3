package chat

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/api"
)

// vectorTemplates returns the paths of the real templates of the vectors, whose directory WEIR_VECTORS
// names (see make vectors). Without it the test is skipped.
func vectorTemplates(t *testing.T) []string {
	t.Helper()
	dir := os.Getenv("WEIR_VECTORS")
	if dir == "" {
		t.Skip("WEIR_VECTORS is not set")
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "templates", "*", "*.jinja"))
	if len(paths) == 0 {
		t.Fatal("no templates")
	}
	return paths
}

// TestVectorsPrefill continues the last message under every real template of
// the vectors: either the prompt ends in the message, or the request is refused in the known words.
func TestVectorsPrefill(t *testing.T) {
	paths := vectorTemplates(t)
	tokens, err := ParseTokenizerConfig([]byte(`{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}`))
	if err != nil {
		t.Fatal(err)
	}
	msgs := []api.Message{text("user", "What is it?"), text("assistant", "It is a \n")}
	continued := 0
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cfg := of(string(src))
			cfg.SpecialTokens = tokens.SpecialTokens
			r := newRenderer(t, cfg)
			p, err := r.Render(Input{Messages: msgs, ContinueFinalMessage: true})
			if err != nil {
				t.Log(err) // templates that need tools, or refuse such a conversation
				return
			}
			continued++
			// The third: a template that prints the list of parts, as the
			// reference does with it too.
			ends := []string{"It is a", "It is a \n", `It is a \n`}
			if !slices.ContainsFunc(ends, func(s string) bool { return strings.HasSuffix(p.Text, s) }) || strings.Contains(p.Text, prefillMark) {
				t.Errorf("%q", p.Text)
			}
			whole := mustRender(t, r, Input{Messages: msgs, AddGenerationPrompt: ptr(false)})
			if !strings.HasPrefix(whole.Text, p.Text) {
				t.Errorf("%q is no beginning of %q", p.Text, whole.Text)
			}
		})
	}
	if continued < len(paths)/2 {
		t.Errorf("only %d of %d templates continued a message", continued, len(paths))
	}
}
