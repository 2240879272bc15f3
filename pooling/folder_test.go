package pooling

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

// safetensors is a file of float32 tensors; header describes them.
func safetensors(header string, numbers ...float32) string {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for _, v := range numbers {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return string(b)
}

// twoByOne is the header of a layer's weights.
const twoByOne = `{"linear.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"linear.bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`

// folder is a model of sentence-transformers with every kind of module.
var folder = map[string]string{
	"modules.json": `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
		{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
		{"idx":2,"name":"2","path":"2_Dense","type":"sentence_transformers.models.Dense"},
		{"idx":3,"name":"3","path":"3_Normalize","type":"sentence_transformers.models.Normalize"}]`,
	"1_Pooling/config.json":     `{"word_embedding_dimension":2,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true}`,
	"2_Dense/config.json":       `{"in_features":2,"out_features":1,"bias":true,"activation_function":"torch.nn.modules.activation.Tanh"}`,
	"2_Dense/model.safetensors": safetensors(twoByOne, 1, 2, 3),
}

// files is the folder with changes: names and contents in turn; "" removes a file.
func files(changes ...string) fstest.MapFS {
	all := maps.Clone(folder)
	for i := 0; i < len(changes); i += 2 {
		all[changes[i]] = changes[i+1]
	}
	fsys := fstest.MapFS{}
	for name, text := range all {
		if text != "" {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return fsys
}

func TestLoad(t *testing.T) {
	p, err := Load(files(), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := Plan{Kind: Mean, Hidden: 2, Normalize: true, Layers: []Dense{{In: 2, Out: 1, W: []float32{1, 2}, B: []float32{3}, Activation: Tanh}}}
	if got := fmt.Sprintf("%+v", *p); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got %s\nwant %+v", got, want)
	}
	for mode, kind := range map[string]Kind{"cls_token": First, "max_tokens": Max, "lasttoken": Last} {
		p, err := Load(files("1_Pooling/config.json", `{"word_embedding_dimension":2,"pooling_mode_`+mode+`":true}`), 2)
		if err != nil || p.Kind != kind {
			t.Errorf("%s: %+v, %v", mode, p, err)
		}
	}
	// The form of today, and what sentence-transformers takes where no mode is on.
	for config, kind := range map[string]Kind{`"pooling_mode":"cls"`: First, `"pooling_mode":["max"]`: Max, `"pooling_mode":"lasttoken","include_prompt":true`: Last,
		`"pooling_mode":"mean","pooling_mode_cls_token":true`: Mean, `"pooling_mode_cls_token":false`: Mean} {
		p, err := Load(files("1_Pooling/config.json", `{"embedding_dimension":2,`+config+`}`), 2)
		if err != nil || p.Kind != kind {
			t.Errorf("%s: %+v, %v", config, p, err)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	swap := func(old, new string) string { return strings.Replace(folder["modules.json"], old, new, 1) }
	dense := func(old, new string) string { return strings.Replace(folder["2_Dense/config.json"], old, new, 1) }
	for text, changes := range map[string][]string{
		"modules.json: file does not exist":          {"modules.json", ""},
		"has 0 modules":                              {"modules.json", "[]"},
		"want a Pooling first and once":              {"modules.json", swap("models.Pooling", "models.Dense")},
		"is a \"sentence_transformers.models.LSTM\"": {"modules.json", swap("models.Dense", "models.LSTM")},
		"follows the normalization":                  {"modules.json", swap("models.Dense", "models.Normalize")},
		"has the path":                               {"modules.json", swap("2_Dense", "../2_Dense")},
		"is for vectors of 3 components":             {"1_Pooling/config.json", `{"word_embedding_dimension":3,"pooling_mode_mean_tokens":true}`},
		"wants another pooling":                      {"1_Pooling/config.json", `{"word_embedding_dimension":2,"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":true}`},
		"activation_function \"ELU\", which":         {"2_Dense/config.json", dense("torch.nn.modules.activation.Tanh", "ELU")},
		"shape [1 2], want [2 2]":                    {"2_Dense/config.json", dense(`"out_features":1`, `"out_features":2`)},
		"2_Dense: weights: no checkpoint":            {"2_Dense/model.safetensors", ""},
		"there is no tensor linear.bias":             {"2_Dense/model.safetensors", safetensors(`{"linear.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}`, 1, 2)},
		"2_Dense/config.json":                        {"2_Dense/config.json", "{"},
		"is not finite":                              {"2_Dense/model.safetensors", safetensors(twoByOne, 1, float32(math.NaN()), 3)},
		"does something else":                        {"2_Dense/config.json", dense(`"bias":true`, `"bias":true,"use_residual":true`)},
		"than to replace the vector":                 {"2_Dense/config.json", dense(`"bias":true`, `"bias":true,"module_input_name":"token_embeddings"`)},
		"leaves out the tokens of prompts":           {"1_Pooling/config.json", `{"embedding_dimension":2,"pooling_mode":"mean","include_prompt":false}`},
		"wants another pooling than":                 {"1_Pooling/config.json", `{"embedding_dimension":2,"pooling_mode":["mean","cls"]}`},
		"the first token, mean and max":              {"1_Pooling/config.json", `{"embedding_dimension":2,"pooling_mode":"weightedmean"}`},
		"pooling_mode: ":                             {"1_Pooling/config.json", `{"embedding_dimension":2,"pooling_mode":7}`},
	} {
		if _, err := Load(files(changes...), 2); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestReadText: the Transformer's own length comes before the tokenizer's, and a length that means none is none.
func TestReadText(t *testing.T) {
	const own, tokenizer = "sentence_bert_config.json", "tokenizer_config.json"
	for _, c := range []struct {
		files []string
		want  Text
	}{
		{nil, Text{Types: true}},
		{[]string{own, `{"max_seq_length":256,"do_lower_case":true}`, tokenizer, `{"model_max_length":512,"tokenizer_class":"BertTokenizer"}`}, Text{256, true, true}},
		{[]string{"sentence_roberta_config.json", `{"max_seq_length":128}`}, Text{128, false, true}},
		{[]string{own, `{"max_seq_length":null}`, tokenizer, `{"model_max_length":512,"tokenizer_class":"TokenizersBackend"}`}, Text{512, false, false}},
		{[]string{own, `{"transformer_task":"feature-extraction"}`, tokenizer, `{"model_max_length":512,"tokenizer_class":"PreTrainedTokenizerFast"}`}, Text{512, false, false}},
		{[]string{tokenizer, `{"model_max_length":1000000000000000019884624838656,"tokenizer_class":"PreTrainedTokenizerFast","model_input_names":["input_ids","token_type_ids"]}`}, Text{0, false, true}},
		{[]string{tokenizer, `{"tokenizer_class":"BertTokenizer","model_input_names":["input_ids"]}`}, Text{}},
	} {
		if got, err := ReadText(files(c.files...)); err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.files, got, err)
		}
	}
	for _, broken := range [][]string{{own, `{`}, {own, `{"max_seq_length":0}`}, {tokenizer, `[]`}} {
		if got, err := ReadText(files(broken...)); err == nil {
			t.Errorf("%q: %+v", broken, got)
		}
	}
}
