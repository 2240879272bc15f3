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

// ownCheckpoints are the architectures of which there is a checkpoint.
func ownCheckpoints(t *testing.T) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	for _, pattern := range []string{"testdata/*/config.json", "testdata/*/*/config.json"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			var c struct{ Architectures []string }
			if err := json.Unmarshal(mapFile(t, path).Data, &c); err != nil {
				t.Fatal(path, err)
			}
			for _, name := range c.Architectures {
				own[name] = true
			}
		}
	}
	return own
}

// TestEveryWrapper: each architecture of which there is no checkpoint of its own gives the logits of the network that it wraps, wherever its
// tensors are, and also where the part for text lacks a model_type.
func TestEveryWrapper(t *testing.T) {
	own := ownCheckpoints(t)
	for _, class := range model.Architectures() {
		_, ok := wrapped[class]
		generates := strings.HasSuffix(class, "ForConditionalGeneration") || strings.HasSuffix(class, "ForCausalLM")
		if generates && !ok && !own[class] {
			t.Errorf("%s has no checkpoint, and is not among those that have another one's", class)
		}
	}
	for class := range wrapped {
		t.Run(class, func(t *testing.T) { newWrapperTest(t, class).run(t) })
	}
}

// A wrapperTest compares what is made of a checkpoint with the checkpoint.
type wrapperTest struct {
	class, textType, dir string
	text                 map[string]any // config.json of the checkpoint
	prompt               []int32        // longer than the window of any of them
	want                 [][]float32
}

func newWrapperTest(t *testing.T, class string) *wrapperTest {
	t.Helper()
	w := &wrapperTest{class: class, textType: wrapped[class].textType, dir: filepath.Join("testdata", wrapped[class].checkpoint)}
	for i := range int32(48) {
		w.prompt = append(w.prompt, 3+i*i*7%71)
	}
	if err := json.Unmarshal(mapFile(t, filepath.Join(w.dir, "config.json")).Data, &w.text); err != nil {
		t.Fatal(err)
	}
	w.want = familyLogits(t, openModel(t, os.DirFS(w.dir)), w.prompt)
	return w
}

func (w *wrapperTest) run(t *testing.T) {
	if w.textType == "" { // another name alone
		w.text["architectures"] = []string{w.class}
		w.same(t, "renamed", w.text, func(name string) string { return name })
		return
	}
	delete(w.text, "architectures")
	around := map[string]any{"architectures": []string{w.class}, "model_type": "of the whole", "vision_config": map[string]any{"depth": 1}, "text_config": w.text}
	for _, member := range []string{"tie_word_embeddings", "eos_token_id"} { // which say something about the whole
		if v, ok := w.text[member]; ok {
			around[member] = v
		}
	}
	w.text["model_type"] = w.textType
	bare, plain := maps.Clone(w.text), maps.Clone(around)
	delete(bare, "model_type")
	plain["text_config"] = bare
	for _, prefix := range []string{"model.language_model.", "language_model.model.", "model.text_model."} {
		below := func(name string) string { return belowWrapper(name, prefix) }
		w.same(t, prefix, around, below, "vision_tower.patch.weight")
		if untyped(w.class) {
			w.same(t, prefix+" without model_type", plain, below, "model.vision_tower.patch.weight")
		}
	}
}

// belowWrapper is the name that a tensor of a network has in a wrapper whose tensors begin in some way.
func belowWrapper(name, prefix string) string {
	if name == "lm_head.weight" && prefix == "language_model.model." {
		return "language_model.lm_head.weight"
	}
	if rest, ok := strings.CutPrefix(name, "model."); ok {
		return prefix + rest
	}
	return name
}

// same compares the logits of a checkpoint with that config.json, and with other names of tensors and further tensors.
func (w *wrapperTest) same(t *testing.T, what string, config map[string]any, name func(string) string, more ...string) {
	t.Helper()
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	data := renamed(t, filepath.Join(w.dir, "model.safetensors"), name, more...)
	m := openModel(t, fstest.MapFS{"config.json": {Data: b}, "model.safetensors": {Data: data}})
	if got := familyLogits(t, m, w.prompt); m.Config.Architecture != w.class || !reflect.DeepEqual(got, w.want) {
		t.Errorf("%s: %s gives other logits", what, m.Config.Architecture)
	}
}
