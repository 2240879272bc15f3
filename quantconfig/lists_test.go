package quantconfig

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
)

// TestLists: entries of lists stand for the names that they stand for in the programs that the
// lists are from (tools/golden/quantized.py).
func TestLists(t *testing.T) {
	b, err := os.ReadFile("testdata/lists.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Names        []string
		Transformers map[string][]string
		AutoAWQ      map[string][]string
		Compressed   map[string][]string `json:"compressed_tensors"`
		GPTQModel    map[string][]string
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	compare := func(program, entry string, want []string, match matcher) {
		var got []string
		for _, name := range golden.Names {
			if match(name) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, %q: %q, not %q", program, entry, got, want)
		}
	}
	for entry, want := range golden.Transformers {
		if want != nil { // it is a pattern
			compare("transformers", entry, want, moduleList([]string{"another", entry}))
		}
	}
	for entry, want := range golden.AutoAWQ {
		compare("AutoAWQ", entry, want, partList([]string{"another", entry}))
	}
	for entry, want := range golden.Compressed {
		list, err := parseTargets([]string{"another", entry})
		if err != nil {
			t.Fatal(err)
		}
		compare("compressed-tensors", entry, want, func(name string) bool { return list.match(name, "Linear") > 0 })
	}
	for entry, want := range golden.GPTQModel {
		re, err := anchored(entry)
		if (err == nil) != (want != nil) {
			t.Errorf("GPTQModel, %q: %v, want %q", entry, err, want)
		} else if err == nil {
			compare("GPTQModel", entry, want, re.MatchString)
		}
	}
	compare("wildcards", "*self_attn*", []string{golden.Names[2], golden.Names[3], golden.Names[4]}, wildcardList([]string{"*self_attn*", "no*thing"}))
	compare("wildcards", "lm_?ead", []string{"lm_head"}, wildcardList([]string{"lm_?ead"}))
	compare("wildcards", "mlp.gate", []string{golden.Names[5], golden.Names[6]}, wildcardList([]string{"mlp.gate"}))
}

// TestVerdicts: which modules the lists of a config name.
func TestVerdicts(t *testing.T) {
	const q, o, norm = "model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.o_proj", "model.embed_tokens"
	for _, c := range []struct {
		config string
		want   map[string]verdict // the class of names other than the embedding is Linear
	}{
		{`{"quant_method":"gptq","bits":4}`, map[string]verdict{q: either, head: either, norm: plain}},
		{`{"quant_method":"gptq","bits":4,"modules_in_block_to_quantize":[["self_attn.q_proj","self_attn.k_proj"],["mlp.up_proj"]]}`, map[string]verdict{q: quantised, o: plain, head: either}},
		{`{"quant_method":"gptq","bits":4,"modules_in_block_to_quantize":["self_attn.o_proj"]}`, map[string]verdict{q: plain, o: quantised}},
		{`{"bits":4,"dynamic":{"-:.*q_proj":{},".*embed.*":{"bits":8}}}`, map[string]verdict{q: plain, o: either, norm: either}},
		{`{"quant_method":"awq","modules_to_not_convert":null}`, map[string]verdict{q: either, norm: plain}},
		{`{"w_bit":4,"q_group_size":64,"zero_point":true,"version":"GEMM"}`, map[string]verdict{q: either}},
		{`{"quant_method":"awq","modules_to_not_convert":["o_proj"]}`, map[string]verdict{q: quantised, o: plain, head: either}},
		{`{"quant_method":"fp8","weight_block_size":[128,128]}`, map[string]verdict{q: either, norm: plain}},
		{`{"quant_method":"fp8","ignored_layers":["model.layers.1.self_attn.o_proj"]}`, map[string]verdict{q: quantised, o: plain}},
		{`{"quant_method":"compressed-tensors","format":"int-quantized","ignore":["lm_head"],"config_groups":{"a":{"targets":["Linear"],"weights":{"strategy":"channel"}}}}`, map[string]verdict{q: quantised, head: plain, norm: plain}},
		{`{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"a":{"targets":["re:.*q_proj","Embedding"],"weights":{}},"b":{"targets":["Linear"]}}}`, map[string]verdict{q: quantised, o: plain, norm: quantised}},
		{`{"format":"int-quantized","config_groups":{"a":{"targets":["Linear"],"weights":{}}}}`, map[string]verdict{q: quantised}},
		{`{"quant_method":"modelopt","quant_algo":"FP8","ignore":["*o_proj*"]}`, map[string]verdict{q: quantised, o: plain, head: either}},
		{`{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":{"` + q + `":{"quant_algo":"NVFP4","group_size":16}}}}`, map[string]verdict{q: quantised, o: plain}},
		{`{"quant_method":"auto-round","bits":4,"group_size":128,"sym":true,"packing_format":"auto_round:auto_gptq","extra_config":{"` + q + `":{"bits":16},".*o_proj":{"bits":32}}}`, map[string]verdict{q: plain, o: plain, norm: plain, head: either}},
	} {
		parsed, err := Parse([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		for name, want := range c.want {
			class := "Linear"
			if name == norm {
				class = "Embedding"
			}
			s, got, err := parsed.choose(name, class)
			if err != nil || got != want || got != plain && s == nil {
				t.Errorf("%s: %s: %v, %v, not %v", c.config, name, got, err, want)
			}
		}
	}
}

// TestDynamic: what a rule says replaces the rest of the config, and the first rule counts.
func TestDynamic(t *testing.T) {
	c, err := Parse([]byte(`{"quant_method":"gptq","bits":4,"group_size":32,"sym":true,"checkpoint_format":"gptq_v2",
		"dynamic":{"+:a":{"bits":8,"sym":false},"ab":{"bits":2},"b":{"group_size":-1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]words{
		"ab": {layout: 4, bits: 8, group: 32}, "b": {layout: 4, bits: 4, group: -1, sym: true}, "c": {layout: 4, bits: 4, group: 32, sym: true},
	} {
		if s, _, _ := c.choose(name, "Linear"); s != want {
			t.Errorf("%s: %+v, not %+v", name, s, want)
		}
	}
}

// TestRefusedConfigs: what is not supported, or wrong, is one sentence.
func TestRefusedConfigs(t *testing.T) {
	for config, is := range map[string]error{
		`[]`:                     ErrConfig,
		`{}`:                     ErrConfig,
		`{"quant_method":1}`:     ErrConfig,
		`{"quant_method":"hqq"}`: ErrUnsupported,
		`{"quant_method":"torchao","quant_type":"int4_weight_only"}`:                                                                                     ErrUnsupported,
		`{"quant_method":"gptq","bits":4,"group_size":0}`:                                                                                                ErrConfig,
		`{"quant_method":"gptq","bits":4,"pack_dtype":"int16"}`:                                                                                          ErrUnsupported,
		`{"quant_method":"gptq","bits":4,"checkpoint_format":"gptq_p"}`:                                                                                  ErrUnsupported,
		`{"quant_method":"gptq","bits":4,"dynamic":[]}`:                                                                                                  ErrConfig,
		`{"quant_method":"gptq","bits":4,"dynamic":{"a(?=b)":{}}}`:                                                                                       ErrUnsupported,
		`{"quant_method":"gptq","bits":4,"dynamic":{"a":{"bits":6}}}`:                                                                                    ErrUnsupported,
		`{"quant_method":"gptq","bits":4,"modules_in_block_to_quantize":{}}`:                                                                             ErrConfig,
		`{"quant_method":"gptq","bits":4,"modules_in_block_to_quantize":[1]}`:                                                                            ErrConfig,
		`{"quant_method":"awq","bits":8}`:                                                                                                                ErrUnsupported,
		`{"quant_method":"fp8","weight_block_size":[128]}`:                                                                                               ErrConfig,
		`{"quant_method":"fp8","expert_dtype":"fp4"}`:                                                                                                    ErrUnsupported,
		`{"quant_method":"compressed-tensors"}`:                                                                                                          ErrConfig,
		`{"quant_method":"compressed-tensors","config_groups":{"W8A8":["Linear"]}}`:                                                                      ErrUnsupported,
		`{"quant_method":"compressed-tensors","config_groups":{},"sparsity_config":{"format":"sparse-24-bitmask"}}`:                                      ErrUnsupported,
		`{"quant_method":"compressed-tensors","config_groups":{},"transform_config":{"config_groups":{"R1":{}}}}`:                                        ErrUnsupported,
		`{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"a":{"weights":{"strategy":"group"}}}}`:                          ErrConfig,
		`{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"a":{"weights":{"strategy":"token"}}}}`:                          ErrUnsupported,
		`{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"a":{"weights":{"strategy":"block","block_structure":"128x"}}}}`: ErrConfig,
		`{"quant_method":"compressed-tensors","format":"mxfp6-pack-quantized","config_groups":{"a":{"weights":{}}}}`:                                     ErrUnsupported,
		`{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"a":{"quant_algo":"W4A8_AWQ"}}}`:                                  ErrUnsupported,
		`{"quant_method":"auto-round","bits":4,"packing_format":"auto_round:exllamav3"}`:                                                                 ErrUnsupported,
		`{"quant_method":"auto-round","bits":4,"data_type":"mx_fp"}`:                                                                                     ErrUnsupported,
		`{"quant_method":"auto-round","bits":4,"extra_config":[]}`:                                                                                       ErrConfig,
	} {
		if _, err := Parse([]byte(config)); !errors.Is(err, is) {
			t.Errorf("%s: %v, not %v", config, err, is)
		}
	}
}
