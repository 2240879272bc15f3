package model

import (
	"slices"

	"weir/internal/jsontext"
)

// wrappers are models that see or hear, whose part for text is one of the other networks: its text_config says which one. The positions
// of text are the same in all axes of a rotary embedding for images, so that nothing in it differs from the network alone. The value
// is the architecture of a part for text that does not say what it is, as where older versions of transformers wrote the fields of
// both parts into one object; "": it must say.
var wrappers = map[string]string{
	"Qwen2VLForConditionalGeneration":        "Qwen2ForCausalLM",
	"Qwen2_5_VLForConditionalGeneration":     "Qwen2ForCausalLM",
	"Qwen2AudioForConditionalGeneration":     "Qwen2ForCausalLM",
	"LlavaForConditionalGeneration":          "LlamaForCausalLM",
	"LlavaNextForConditionalGeneration":      "LlamaForCausalLM",
	"LlavaNextVideoForConditionalGeneration": "LlamaForCausalLM",
	"LlavaOnevisionForConditionalGeneration": "Qwen2ForCausalLM",
	"InternVLForConditionalGeneration":       "Qwen2ForCausalLM",
	"SmolVLMForConditionalGeneration":        "LlamaForCausalLM",
	"Idefics3ForConditionalGeneration":       "LlamaForCausalLM",
	"Idefics2ForConditionalGeneration":       "MistralForCausalLM",
	"VoxtralForConditionalGeneration":        "LlamaForCausalLM",
	"Lfm2VlForConditionalGeneration":         "Lfm2ForCausalLM",
	"AyaVisionForConditionalGeneration":      "Cohere2ForCausalLM",
	"Cohere2VisionForConditionalGeneration":  "Cohere2ForCausalLM",
}

// textTypes are the architectures of parts for text that have a model_type of their own.
var textTypes = map[string]string{"qwen2_vl_text": "Qwen2ForCausalLM", "qwen2_5_vl_text": "Qwen2ForCausalLM"}

// moreTowers are prefixes of tensors that are not of the part for text, beside towers.
var moreTowers = []string{"model.connector.", "connector.", "model.image_newline", "image_newline", "model.vision_tower.", "model.multi_modal_projector.", "audio_tower.",
	"model.audio_tower.", "multi_modal_projector.", "model.vision_model.", "vision_model.", "perceiver_resampler.", "model.perceiver_resampler.", "modality_projection."}

// parseWrapper reads the config.json of one of the wrappers.
func parseWrapper(arch string, file jsontext.Value) (Config, error) {
	inner, text := wrappers[arch], file
	if t := file.Member("text_config"); t != nil && t.Kind() == jsontext.Object {
		text = t
	}
	var kind struct {
		ModelType string `json:"model_type"`
	}
	if err := unmarshal(text, &kind); err != nil {
		return Config{}, badConfig("text_config: %v", err)
	}
	if found, ok := textTypes[kind.ModelType]; ok {
		inner = found
	} else if found := ofType(kind.ModelType); found != "" {
		inner = found
	} else if len(text) != len(file) && kind.ModelType != "" {
		return Config{}, (*origin)(nil).unsupported("text_config.model_type", kind.ModelType, "those of the networks that docs/models.md lists")
	}
	var c Config
	var err error
	if r, ok := recipes[inner]; ok {
		c, err = readRecipe(arch, r, file, nil)
	} else {
		c, err = families[inner].within(arch, text, file)
	}
	c.Network.Skip = slices.Concat(c.Network.Skip, towers, moreTowers)
	return c, err
}

// ofType is the architecture of networks of that type that generate; "": there is none.
func ofType(modelType string) string {
	var list []string
	for name, r := range recipes {
		if r.modelType == modelType && modelType != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	for name, f := range families {
		if f.modelType == modelType {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return slices.Min(list)
}

// within reads the fields of a part for text. Those that say something about the whole model may stand around it.
func (f family) within(arch string, text, file jsontext.Value) (Config, error) {
	raw := f.defaults
	raw.HiddenAct, raw.RMSNormEps = "silu", 1e-6
	var around struct {
		Tied bool     `json:"tie_word_embeddings"`
		EOS  tokenIDs `json:"eos_token_id"`
	}
	if err := unmarshal(file, &around); err != nil {
		return Config{}, badConfig("%v", err)
	}
	raw.TieWordEmbeddings = around.Tied
	if around.EOS != nil {
		raw.EOSTokenID = around.EOS
	}
	if err := unmarshal(text, &raw); err != nil {
		return Config{}, badConfig("text_config: %v", err)
	}
	raw.clearNulls(text)
	return f.config(arch, &raw)
}
