package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
)

// object is a JSON object under construction.
type object = map[string]any

// tinyBytes is a byte-level file: the byte alphabet and a few merges. Members
// of parts replace its own.
func tinyBytes(parts object) object {
	vocab := object{}
	for b, r := range byteSpelling {
		vocab[string(r)] = b
	}
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
	return tinyFile(vocab, []string{"Ġ t", "h e", "Ġt he", "i n"}, object{"pre_tokenizer": byteLevel, "decoder": byteLevel}, parts)
}

// tinyChars is a Llama-2 kind of file: letters, bytes, and a few merges.
func tinyChars(parts object) object {
	vocab := object{"<unk>": 0}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = len(vocab)
	}
	for _, r := range "▁abcdefghijklmnopqrstuvwxyz.中" {
		vocab[string(r)] = len(vocab)
	}
	replaced := object{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "}
	f := tinyFile(vocab, []string{"▁ t", "h e", "▁t he"}, object{
		"normalizer": object{"type": "Sequence", "normalizers": []any{object{"type": "Prepend", "prepend": "▁"},
			object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}}},
		"decoder": object{"type": "Sequence", "decoders": []any{replaced, object{"type": "ByteFallback"}, object{"type": "Fuse"},
			object{"type": "Strip", "content": " ", "start": 1, "stop": 0}}},
	}, parts)
	model := f["model"].(object)
	model["unk_token"], model["byte_fallback"], model["fuse_unk"] = "<unk>", true, true
	return f
}

func tinyFile(vocab object, merges []string, parts ...object) object {
	for _, m := range merges {
		var a, b string
		if _, err := fmt.Sscanf(m, "%s %s", &a, &b); err != nil {
			panic(err)
		}
		vocab[a+b] = len(vocab)
	}
	f := object{"version": "1.0", "model": object{"type": "BPE", "vocab": vocab, "merges": merges}}
	for _, p := range parts {
		maps.Copy(f, p)
	}
	return f
}

// withModel returns the file with members of its model replaced.
func withModel(f, members object) object {
	model := maps.Clone(f["model"].(object))
	maps.Copy(model, members)
	f["model"] = model
	return f
}

func marshal(tb testing.TB, v any) []byte {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
