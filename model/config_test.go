package model_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/model"
	"weir/models"
)

// TestConfigAsTransformersReadsIt compares with what transformers builds its
// networks from (tools/golden/models.py): published configs, and configs that rely
// on defaults.
func TestConfigAsTransformersReadsIt(t *testing.T) {
	b, err := os.ReadFile("testdata/configs.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name   string
		Config json.RawMessage
		Want   struct {
			KVHeads      int       `json:"kv_heads"`
			HeadDim      int       `json:"head_dim"`
			MaxPositions int       `json:"max_positions"`
			Eps          float64   `json:"eps"`
			Tied         bool      `json:"tied"`
			Windows      []int     `json:"windows"`
			EOS          []int32   `json:"eos"`
			InvFreq      []float32 `json:"inv_freq"`
			RopeScale    float32   `json:"rope_scale"`
		}
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	// Transformers does not derive a length from YaRN's parameters: factor times original.
	longer := map[string]int{
		"Qwen2.5-7B-Instruct with YaRN": 131072, "YaRN without an original length": 16384,
	}
	for _, c := range cases {
		got, err := model.ParseConfig(c.Config)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		w := c.Want
		if n := longer[c.Name]; n > 0 {
			w.MaxPositions = n
		}
		if got.KVHeads != w.KVHeads || got.HeadDim != w.HeadDim || got.MaxSeqTokens != w.MaxPositions || got.NormEps != float32(w.Eps) ||
			got.TiedHead != w.Tied || !slices.Equal(got.Windows, w.Windows) || !slices.Equal(got.EOS, w.EOS) {
			t.Errorf("%s: got %+v\nwant %+v", c.Name, got, w)
		}
		if got.Rope.Scale != w.RopeScale || len(got.Rope.InvFreq) != len(w.InvFreq) {
			t.Fatalf("%s: scale %v, %d frequencies; want %v, %d", c.Name, got.Rope.Scale, len(got.Rope.InvFreq), w.RopeScale, len(w.InvFreq))
		}
		for i, f := range got.Rope.InvFreq {
			// Powers differ by a unit in the last place between libraries.
			if diff := int(math.Float32bits(f)) - int(math.Float32bits(w.InvFreq[i])); diff < -2 || diff > 2 {
				t.Errorf("%s: frequency %d is %v, want %v", c.Name, i, f, w.InvFreq[i])
			}
		}
	}
}

// config is a small config of Llama with these fields added, or replaced.
func config(fields string) []byte {
	all := map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "vocab_size": 96, "hidden_size": 40, "intermediate_size": 56,
		"num_hidden_layers": 2, "num_attention_heads": 4,
	}
	var more map[string]any
	if err := json.Unmarshal([]byte("{"+fields+"}"), &more); err != nil {
		panic(err)
	}
	for k, v := range more {
		all[k] = v
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return b
}

var refusals = []struct {
	fields string
	is     error
	want   string // the text after that of the wrapped error
}{
	{`"architectures":["XLNetLMHeadModel"]`, model.ErrUnsupported, "architecture XLNetLMHeadModel in config.json (supported: the " + strconv.Itoa(len(model.Architectures())) + " that docs/models.md lists)"},
	{`"architectures":[],"model_type":"xlnet"`, model.ErrUnsupported, `model_type "xlnet" in config.json (supported: the ` + strconv.Itoa(len(model.Architectures())) + ` that docs/models.md lists)`},
	{`"hidden_act":"gelu"`, model.ErrUnsupported, "hidden_act gelu in config.json (supported: silu)"},
	{`"rope_scaling":{"type":"dynamic","factor":2}`, model.ErrUnsupported, "rope type dynamic in config.json (supported: default, linear, llama3, yarn)"},
	{`"rope_parameters":{"rope_type":"longrope","factor":2}`, model.ErrUnsupported, "rope type longrope in config.json (supported: default, linear, llama3, yarn)"},
	{`"rope_parameters":{"full_attention":{"rope_type":"default"}}`, model.ErrUnsupported, "rope_parameters per kind of layer in config.json (supported: one set for all layers)"},
	{`"partial_rotary_factor":0.5`, model.ErrUnsupported, "partial_rotary_factor 0.5 in config.json (supported: 1)"},
	{`"architectures":["Qwen3ForCausalLM"],"num_key_value_heads":4,"layer_types":["full_attention","linear_attention"]`, model.ErrUnsupported, "layer type linear_attention in config.json (supported: full_attention, sliding_attention)"},
	{`"architectures":["MistralForCausalLM"],"num_key_value_heads":4,"layer_types":["full_attention","sliding_attention"]`, model.ErrUnsupported, "layer type full_attention in config.json (supported: the same sliding_window in all layers of mistral)"},
	{`"layer_types":["full_attention","sliding_attention"]`, model.ErrConfig, "config.json: layer_types makes layer 1 sliding_attention, but no sliding_window is in use"},
	{`"layer_types":["full_attention"]`, model.ErrConfig, "config.json: layer_types has 1 entries for 2 layers"},
	{`"vocab_size":null`, model.ErrConfig, "config.json: vocab_size is missing or 0"},
	{`"hidden_size":-40`, model.ErrConfig, "config.json: hidden_size -40 is not in [1, 16777216]"},
	{`"hidden_size":1e300`, model.ErrConfig, "config.json: hidden_size is number 1e+300, not an integer"},
	{`"hidden_size":"40"`, model.ErrConfig, "config.json: hidden_size is string, not an integer"},
	{`"num_hidden_layers":100000`, model.ErrConfig, "config.json: num_hidden_layers 100000 is not in [1, 4096]"},
	{`"num_attention_heads":3`, model.ErrConfig, "config.json: hidden_size 40 is not a multiple of num_attention_heads 3, and head_dim is not given"},
	{`"num_attention_heads":8`, model.ErrConfig, "config.json: head_dim 5 is odd, so its halves cannot be rotated"},
	{`"num_key_value_heads":3`, model.ErrConfig, "config.json: num_attention_heads 4 is not a multiple of num_key_value_heads 3"},
	{`"num_key_value_heads":8`, model.ErrConfig, "config.json: num_key_value_heads 8 is not in [1, 4]"},
	{`"num_key_value_heads":[1]`, model.ErrConfig, "config.json: num_key_value_heads is array, not an integer"},
	{`"head_dim":16777216`, model.ErrConfig, "config.json: head_dim 16777216 is not in [1, 4194304]"},
	{`"rms_norm_eps":0`, model.ErrConfig, "config.json: rms_norm_eps 0 is not a positive number"},
	{`"rms_norm_eps":1e-60`, model.ErrConfig, "config.json: rms_norm_eps 1e-60 is not a positive number"},
	{`"eos_token_id":96`, model.ErrConfig, "config.json: eos_token_id 96 is outside the vocabulary of 96 tokens"},
	{`"eos_token_id":[1,-1]`, model.ErrConfig, "config.json: eos_token_id -1 is outside the vocabulary of 96 tokens"},
	{`"eos_token_id":"</s>"`, model.ErrConfig, "config.json: eos_token_id is neither a token id nor a list of them"},
	{`"max_position_embeddings":-1`, model.ErrConfig, "config.json: max_position_embeddings -1 is not in [1, 16777216]"},
	{`"tie_word_embeddings":1`, model.ErrConfig, "config.json: tie_word_embeddings is number, not true or false"},
	{`"rope_theta":0`, model.ErrConfig, "config.json: rope_theta 0 is not above 1"},
	{`"rope_scaling":"linear"`, model.ErrConfig, "config.json: rope_scaling is string, not an object"},
	{`"rope_scaling":{"type":"linear"}`, model.ErrConfig, `config.json: the factor of rope type "linear" is 0 or missing, not in [1, 16777216]`},
	{`"rope_scaling":{"type":"linear","factor":0.5}`, model.ErrConfig, `config.json: the factor of rope type "linear" is 0.5 or missing, not in [1, 16777216]`},
	{`"rope_scaling":{"rope_type":"llama3","factor":8}`, model.ErrConfig, "config.json: rope type llama3 needs 0 < low_freq_factor < high_freq_factor, not 0 and 0"},
	{`"rope_scaling":{"rope_type":"llama3","factor":8,"original_max_position_embeddings":0,"low_freq_factor":1,"high_freq_factor":4}`, model.ErrConfig, "config.json: original_max_position_embeddings 0 is not in [1, 16777216]"},
	{`"rope_scaling":{"rope_type":"yarn","factor":8,"beta_fast":1,"beta_slow":2}`, model.ErrConfig, "config.json: rope type yarn needs 0 < beta_slow <= beta_fast, not 2 and 1"},
	{`"rope_scaling":{"rope_type":"yarn","factor":8,"attention_factor":-1}`, model.ErrConfig, "config.json: rope type yarn scales attention by -1, not a positive number"},
	{`"architectures":["MistralForCausalLM"],"num_key_value_heads":4,"sliding_window":-5`, model.ErrConfig, "config.json: sliding_window -5 is not in [1, 16777216]"},
	{`"architectures":7`, model.ErrConfig, "config.json: architectures is number, not a list"},
}

func TestRefusedConfig(t *testing.T) {
	for _, r := range refusals {
		_, err := model.ParseConfig(config(r.fields))
		if !errors.Is(err, r.is) || err.Error() != r.is.Error()+": "+r.want {
			t.Errorf("%s:\n got %v\nwant %v: %s", r.fields, err, r.is, r.want)
		}
	}
	for _, b := range []string{"", "{", "[]", "null", "7", "\x00", `{"architectures":["LlamaForCausalLM"]} x`} {
		if _, err := model.ParseConfig([]byte(b)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", b, err)
		}
	}
}

func TestConfigVariants(t *testing.T) {
	for fields, want := range map[string]func(model.Config) bool{
		``: func(c model.Config) bool {
			return c.KVHeads == 4 && c.HeadDim == 10 && c.MaxSeqTokens == 2048 && !c.QKVBias && !c.QKNorm && slices.Equal(c.EOS, []int32{2})
		},
		`"architectures":null,"model_type":"llama"`:    func(c model.Config) bool { return c.Architecture == "LlamaForCausalLM" },
		`"architectures":["Other","LlamaForCausalLM"]`: func(c model.Config) bool { return c.Architecture == "LlamaForCausalLM" },
		`"hidden_act":"swish"`:                         func(c model.Config) bool { return true },
		`"eos_token_id":null`:                          func(c model.Config) bool { return c.EOS == nil },
		`"eos_token_id":[7,8]`:                         func(c model.Config) bool { return slices.Equal(c.EOS, []int32{7, 8}) },
		`"attention_bias":true,"mlp_bias":true`:        func(c model.Config) bool { return c.QKVBias && c.OutBias && c.MLPBias },
		`"sliding_window":8,"use_sliding_window":true`: func(c model.Config) bool { return slices.Equal(c.Windows, []int{0, 0}) },
		`"quantization_config":null`:                   func(c model.Config) bool { return true },
		`"rope_scaling":{},"rope_parameters":{"rope_type":"linear","factor":2}`: func(c model.Config) bool {
			return c.Rope.InvFreq[0] == 0.5
		},
		`"rope_scaling":{"type":"linear","factor":4},"rope_parameters":{"rope_type":"linear","factor":2}`: func(c model.Config) bool {
			return c.Rope.InvFreq[0] == 0.25
		},
		`"rope_theta":100,"rope_parameters":{"rope_theta":10000}`: func(c model.Config) bool {
			return c.Rope.InvFreq[1] < 0.16 // 10000^(-1/5)
		},
		`"rope_scaling":{"rope_type":"yarn","original_max_position_embeddings":1024},"original_max_position_embeddings":512`: func(c model.Config) bool {
			return c.MaxSeqTokens == 2048 && c.Rope.Scale == float32(0.1*math.Log(4)+1)
		},
		`"architectures":["Qwen2ForCausalLM"],"num_key_value_heads":null,"attention_bias":true,"mlp_bias":true`: func(c model.Config) bool {
			return c.KVHeads == 4 && c.QKVBias && !c.OutBias && !c.MLPBias && c.EOS == nil
		},
		`"architectures":["Qwen3ForCausalLM"],"num_key_value_heads":2,"attention_bias":true`: func(c model.Config) bool {
			return c.QKNorm && c.QKVBias && c.OutBias && c.HeadDim == 128
		},
		`"architectures":["MistralForCausalLM"],"num_key_value_heads":2,"layer_types":["sliding_attention","sliding_attention"]`: func(c model.Config) bool {
			return slices.Equal(c.Windows, []int{4096, 4096})
		},
	} {
		c, err := model.ParseConfig(config(fields))
		if err != nil || !want(c) {
			t.Errorf("%s: %+v, %v", fields, c, err)
		}
	}
}

func TestGenerationDefaults(t *testing.T) {
	c := model.Config{VocabSize: 96, EOS: []int32{2}}
	g, err := model.ParseGeneration([]byte(`{"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":0.05,"repetition_penalty":1.05,"max_new_tokens":512,"eos_token_id":[2,4],"do_sample":true}`), c)
	if err != nil || *g.Temperature != 0.6 || *g.TopP != 0.95 || *g.TopK != 20 || *g.MinP != 0.05 || *g.RepetitionPenalty != 1.05 ||
		*g.MaxNewTokens != 512 || !slices.Equal(g.EOS, []int32{2, 4}) {
		t.Errorf("%+v, %v", g, err)
	}
	for _, silent := range []string{"", "{}", `{"temperature":null,"eos_token_id":null}`} {
		g, err = model.ParseGeneration([]byte(silent), c)
		if err != nil || g.Temperature != nil || g.TopP != nil || g.TopK != nil || g.MinP != nil || g.RepetitionPenalty != nil || g.MaxNewTokens != nil ||
			!slices.Equal(g.EOS, c.EOS) {
			t.Errorf("%q: %+v, %v", silent, g, err)
		}
	}
	if g, err = model.ParseGeneration([]byte(`{"top_k":-1,"eos_token_id":0}`), c); err != nil || *g.TopK != 0 || !slices.Equal(g.EOS, []int32{0}) {
		t.Errorf("%+v, %v", g, err)
	}
	for doc, want := range map[string]string{
		`{"temperature":-1}`:       "temperature -1 is negative",
		`{"top_p":0}`:              "top_p 0 is not in (0, 1]",
		`{"top_p":1.5}`:            "top_p 1.5 is not in (0, 1]",
		`{"min_p":-0.1}`:           "min_p -0.1 is not in [0, 1]",
		`{"repetition_penalty":0}`: "repetition_penalty 0 is not positive",
		`{"top_k":-2}`:             "top_k -2 is below -1",
		`{"max_new_tokens":0}`:     "max_new_tokens 0 is not positive",
		`{"eos_token_id":96}`:      "eos_token_id 96 is outside the vocabulary of 96 tokens",
		`{"temperature":"hot"}`:    "temperature is string, not a number",
		`{"top_k":1.5}`:            "top_k is number 1.5, not an integer",
		`{"temperature":NaN}`:      "not valid JSON at byte 15: NaN and Infinity are not JSON",
		`[]`:                       "a value is array, not an object",
	} {
		_, err := model.ParseGeneration([]byte(doc), c)
		if want := model.ErrConfig.Error() + ": generation_config.json: " + want; !errors.Is(err, model.ErrConfig) || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", doc, err, want)
		}
	}
	if g := openModel(t, models.Bundled()).Generation; *g.Temperature != 0.7 || *g.TopP != 0.9 || !slices.Equal(g.EOS, []int32{2, 0}) {
		t.Errorf("bundled: %+v", g)
	}
}

// FuzzConfig: whatever the bytes are, a config is refused, or its sizes agree
// with each other.
func FuzzConfig(f *testing.F) {
	for _, name := range checkpoints {
		b, err := fs.ReadFile(checkpointFS(name), "config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, r := range refusals {
		f.Add(config(r.fields))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := model.ParseConfig(b)
		if err != nil {
			if !errors.Is(err, model.ErrConfig) && !errors.Is(err, model.ErrUnsupported) {
				t.Errorf("the error is neither ErrConfig nor ErrUnsupported: %v", err)
			}
			return
		}
		if c.Heads%c.KVHeads != 0 || c.HeadDim%2 != 0 || len(c.Windows) != c.Layers || len(c.Rope.InvFreq) != c.HeadDim/2 || c.MaxSeqTokens < 1 || !(c.NormEps > 0) {
			t.Errorf("%+v", c)
		}
		for _, v := range append(c.Rope.InvFreq, c.Rope.Scale) {
			if !(v >= 0) || math.IsInf(float64(v), 0) {
				t.Errorf("rope %+v", c.Rope)
			}
		}
		if c.ActivationBytes(1) <= 0 || c.KVBytesPerToken(1) <= 0 {
			t.Errorf("sizes overflow: %+v", c)
		}
		if _, err := model.ParseGeneration(b, c); err != nil && !errors.Is(err, model.ErrConfig) {
			t.Error(err)
		}
	})
}
