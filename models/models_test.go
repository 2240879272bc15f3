package models

import (
	"io/fs"
	"testing"
)

// TestBundledIsWhole: the bundled model has every file that a server needs, of about the
// right size.
func TestBundledIsWhole(t *testing.T) {
	for name, least := range map[string]int64{
		"config.json": 500, "generation_config.json": 50, "model.safetensors": 10 << 20, "tokenizer.json": 100_000,
		"tokenizer_config.json": 50, "chat_template.jinja": 500, "heldout.jsonl": 50_000, "README.md": 500,
	} {
		info, err := fs.Stat(Bundled(), name)
		if err != nil || info.Size() < least {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
