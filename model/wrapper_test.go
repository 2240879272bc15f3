package model_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/model"
)

// wrapped has, for each architecture that wraps a network or is another name of one, a checkpoint of that network, and the model_type
// that a part for text has there.
var wrapped = map[string]struct{ checkpoint, textType string }{
	"Qwen2VLForConditionalGeneration":        {"qwen2", "qwen2_vl_text"},
	"Qwen2AudioForConditionalGeneration":     {"qwen2", "qwen2"},
	"LlavaForConditionalGeneration":          {"llama3", "llama"},
	"LlavaNextForConditionalGeneration":      {"llama3", "llama"},
	"LlavaNextVideoForConditionalGeneration": {"llama3", "llama"},
	"LlavaOnevisionForConditionalGeneration": {"qwen2", "qwen2"},
	"InternVLForConditionalGeneration":       {"qwen2", "qwen2"},
	"SmolVLMForConditionalGeneration":        {"llama3", "llama"},
	"Idefics3ForConditionalGeneration":       {"llama3", "llama"},
	"Idefics2ForConditionalGeneration":       {"mistral", "mistral"},
	"VoxtralForConditionalGeneration":        {"llama3", "llama"},
	"Lfm2VlForConditionalGeneration":         {"families/lfm2", "lfm2"},
	"AyaVisionForConditionalGeneration":      {"families/cohere2", "cohere2"},
	"Cohere2VisionForConditionalGeneration":  {"families/cohere2", "cohere2"},
	"Gemma3ForConditionalGeneration":         {"families/gemma3", "gemma3_text"},
	"Gemma3nForConditionalGeneration":        {"families/gemma3n", "gemma3n_text"},
	"Gemma4ForConditionalGeneration":         {"families/gemma4", "gemma4_text"},
	"Gemma4UnifiedForConditionalGeneration":  {"families/gemma4", "gemma4_unified_text"},
	"Gemma4UnifiedForCausalLM":               {"families/gemma4", ""},
	"KimiK25ForConditionalGeneration":        {"families/deepseek_v3", "deepseek_v3"},
	"Kimi_K25ForConditionalGeneration":       {"families/deepseek_v3", "deepseek_v3"},
	"Llama4ForConditionalGeneration":         {"families/llama4", "llama4_text"},
	"Mistral3ForConditionalGeneration":       {"families/ministral3", "ministral3"},
	"Qwen3_5ForConditionalGeneration":        {"families/qwen3_5", "qwen3_5_text"},
	"Qwen3_5MoeForConditionalGeneration":     {"families/qwen3_5_moe", "qwen3_5_moe_text"},
	"MPTForCausalLM":                         {"families/mpt", ""},
	"PhiMoEForCausalLM":                      {"families/phimoe", ""},
	"RWForCausalLM":                          {"families/falcon", ""},
}

// untyped are wrappers that take a part for text that does not say what it is for one of their usual networks.
func untyped(class string) bool {
	return slices.Contains([]string{"Qwen2VL", "Qwen2Audio", "Llava", "LlavaNext", "LlavaNextVideo", "LlavaOnevision", "InternVL", "SmolVLM", "Idefics2", "Idefics3", "Voxtral", "Lfm2Vl",
		"AyaVision", "Cohere2Vision"}, strings.TrimSuffix(class, "ForConditionalGeneration"))
}

// TestEveryWrapper: each architecture of which there is no checkpoint of its own gives the logits of the network that it wraps, wherever its
// tensors are, and also where the part for text lacks a model_type.
func TestEveryWrapper(t *testing.T) {
	own := map[string]bool{}
	for _, pattern := range []string{"testdata/*/config.json", "testdata/*/*/config.json"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			var c struct{ Architectures []string }
			if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &c) != nil {
				t.Fatal(path, err)
			}
			for _, name := range c.Architectures {
				own[name] = true
			}
		}
	}
	for _, class := range model.Architectures() {
		if _, ok := wrapped[class]; !ok && !own[class] && (strings.HasSuffix(class, "ForConditionalGeneration") || strings.HasSuffix(class, "ForCausalLM")) {
			t.Errorf("%s has no checkpoint, and is not among those that have another one's", class)
		}
	}
	prompt := []int32{5, 9, 14, 20, 7, 33, 61, 12, 40, 25, 8}
	for class, c := range wrapped {
		t.Run(class, func(t *testing.T) {
			dir := filepath.Join("testdata", c.checkpoint)
			var text map[string]any
			if err := json.Unmarshal(mapFile(t, filepath.Join(dir, "config.json")).Data, &text); err != nil {
				t.Fatal(err)
			}
			want := familyLogits(t, openModel(t, os.DirFS(dir)), prompt)
			same := func(what string, config map[string]any, name func(string) string) {
				b, err := json.Marshal(config)
				if err != nil {
					t.Fatal(err)
				}
				data := renamed(t, filepath.Join(dir, "model.safetensors"), name, "vision_tower.patch.weight")
				if c.textType == "" {
					data = renamed(t, filepath.Join(dir, "model.safetensors"), name)
				}
				m := openModel(t, fstest.MapFS{"config.json": {Data: b}, "model.safetensors": {Data: data}})
				if got := familyLogits(t, m, prompt); m.Config.Architecture != class || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s gives other logits", what, m.Config.Architecture)
				}
			}
			if c.textType == "" { // another name alone
				text["architectures"] = []string{class}
				same("renamed", text, func(name string) string { return name })
				return
			}
			delete(text, "architectures")
			around := map[string]any{"architectures": []string{class}, "model_type": "of the whole", "vision_config": map[string]any{"depth": 1}}
			for _, member := range []string{"tie_word_embeddings", "eos_token_id"} { // which say something about the whole
				if v, ok := text[member]; ok {
					around[member] = v
				}
			}
			around["text_config"] = text
			text["model_type"] = c.textType
			for _, prefix := range []string{"model.language_model.", "language_model.model.", "model.text_model."} {
				below := func(name string) string {
					if name == "lm_head.weight" && prefix == "language_model.model." {
						return "language_model.lm_head.weight"
					}
					if rest, ok := strings.CutPrefix(name, "model."); ok {
						return prefix + rest
					}
					return name
				}
				same(prefix, around, below)
				if untyped(class) {
					bare := maps.Clone(text)
					delete(bare, "model_type")
					plain := maps.Clone(around)
					plain["text_config"] = bare
					same(prefix+" without model_type", plain, below)
				}
			}
		})
	}
}
