package pooling

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

// crossFolder is a reranker of a network that generates, as sentence-transformers saves it.
var crossFolder = map[string]string{
	"modules.json":                      `[{"path":"","type":"sentence_transformers.base.modules.transformer.Transformer"},{"path":"1_LogitScore","type":"sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}]`,
	"1_LogitScore/config.json":          `{"true_token_id":9,"false_token_id":4,"module_input_name":"causal_logits"}`,
	"sentence_bert_config.json":         `{"transformer_task":"text-generation","modality_config":{"text":{},"message":{"format":"flat"}}}`,
	"config_sentence_transformers.json": `{"model_type":"CrossEncoder","activation_fn":"torch.nn.modules.linear.Identity","prompts":{"web":"Find it"},"default_prompt_name":"web"}`,
	"config.json":                       `{"sentence_transformers":{"activation_fn":"torch.nn.modules.activation.Tanh"}}`,
}

// readCrossOf reads the folder with changes: names and contents in turn; "" removes a file.
func readCrossOf(changes ...string) (string, bool, error) {
	fsys := fstest.MapFS{}
	for name, text := range crossFolder {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for i := 0; i < len(changes); i += 2 {
		if delete(fsys, changes[i]); changes[i+1] != "" {
			fsys[changes[i]] = &fstest.MapFile{Data: []byte(changes[i+1])}
		}
	}
	c, found, err := ReadCross(fsys)
	activation := "-"
	if c.Activation != nil {
		activation = fmt.Sprint(*c.Activation)
	}
	return fmt.Sprintf("%v %d-%d rendered %v with %s, %v prompt %q activation %s", c.Logits, c.Yes, c.No, c.Rendered, c.Kwargs, c.Generation, c.Prompt, activation), found, err
}

func TestReadCross(t *testing.T) {
	transformer := `[{"path":"","type":"sentence_transformers.base.modules.transformer.Transformer"}]`
	for _, c := range []struct {
		name    string
		changes []string
		found   bool
		want    string
	}{
		{"all", nil, true, `true 9-4 rendered true with , false prompt "Find it" activation 0`},
		{"one token", []string{"1_LogitScore/config.json", `{"true_token_id":9}`}, true, `true 9--1 rendered true with , false prompt "Find it" activation 0`},
		{"texts", []string{"sentence_bert_config.json", `{}`}, true, `true 9-4 rendered false with , false prompt "Find it" activation 0`},
		{"no settings", []string{"sentence_bert_config.json", "", "config_sentence_transformers.json", ""}, true, `true 9-4 rendered false with , false prompt "" activation 1`},
		{"arguments", []string{"sentence_bert_config.json", `{"modality_config":{"message":{}},"processing_kwargs":{"chat_template":{"add_generation_prompt":true,"x":1,"restore_suffix":false}}}`}, true,
			`true 9-4 rendered true with {"x":1}, true prompt "Find it" activation 0`},
		{"another prompt", []string{"config_sentence_transformers.json", `{"model_type":"CrossEncoder","prompts":{"a":"b"},"activation_fn":"my.Class"}`}, true, `true 9-4 rendered true with , false prompt "" activation -`},
		{"earlier", []string{"config_sentence_transformers.json", "", "config.json", `{"sbert_ce_default_activation_function":"torch.nn.modules.activation.Sigmoid"}`}, true, `true 9-4 rendered true with , false prompt "" activation 2`},
		{"a head in the network", []string{"modules.json", transformer}, true, `false 0--1 rendered true with , false prompt "Find it" activation -`},
		{"vectors", []string{"modules.json", `[{"type":"a.Transformer"},{"type":"a.Pooling"}]`, "config_sentence_transformers.json", `{"model_type":"SentenceTransformer"}`}, false, `false 0--1 rendered false with , false prompt "" activation -`},
		{"no modules", []string{"modules.json", ""}, false, `false 0--1 rendered false with , false prompt "" activation -`},
	} {
		if got, found, err := readCrossOf(c.changes...); err != nil || found != c.found || got != c.want {
			t.Errorf("%s: %s, %v, %v; want %s", c.name, got, found, err, c.want)
		}
	}
	for text, changes := range map[string][]string{
		"modules.json":                    {"modules.json", "{"},
		"has 3 modules":                   {"modules.json", `[{"type":"a.Transformer"},{"type":"a.Dense"},{"type":"a.LogitScore"}]`},
		"has 2 modules":                   {"modules.json", `[{"type":"a.Dense"},{"type":"a.LogitScore"}]`},
		"has the path":                    {"modules.json", `[{"type":"a.Transformer"},{"path":"../x","type":"a.LogitScore"}]`},
		"1_LogitScore/config.json":        {"1_LogitScore/config.json", ""},
		"does not name the tokens":        {"1_LogitScore/config.json", `{"false_token_id":1}`},
		"config.json does not name":       {"1_LogitScore/config.json", `{"true_token_id":1,"module_input_name":"scores"}`},
		"sets tools of the":               {"sentence_bert_config.json", `{"modality_config":{"message":{}},"processing_kwargs":{"chat_template":{"tools":[]}}}`},
		"add_generation_prompt":           {"sentence_bert_config.json", `{"modality_config":{"message":{}},"processing_kwargs":{"chat_template":{"add_generation_prompt":"x"}}}`},
		"sentence_bert_config.json":       {"sentence_bert_config.json", "["},
		"config_sentence_transformers":    {"config_sentence_transformers.json", "["},
		"activation_fn \"torch.nn.Mish\"": {"config_sentence_transformers.json", `{"model_type":"CrossEncoder","activation_fn":"torch.nn.Mish"}`},
	} {
		if got, _, err := readCrossOf(changes...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, %s", text, err, got)
		}
	}
}

func TestLogitPlan(t *testing.T) {
	rows, x := [][]float32{{1, 2}, {3, -1}}, []float32{0.5, 0.25}
	identity := Identity
	sigmoid := func(x float64) float32 { return float32(1 / (1 + math.Exp(-x))) }
	for _, c := range []struct {
		name       string
		rows       [][]float32
		difference bool
		activation *Activation
		want       []float32
	}{
		{"one", rows[:1], false, nil, []float32{sigmoid(1)}},
		{"the difference", rows, true, nil, []float32{sigmoid(1 - 1.25)}},
		{"the difference, without an activation", rows, true, &identity, []float32{1 - 1.25}},
		{"two classes", rows, false, nil, []float32{sigmoid(1 - 1.25), sigmoid(1.25 - 1)}},
	} {
		p, err := LogitPlan(c.rows, c.difference, c.activation)
		if err != nil || p.Validate(2) != nil || p.Labels != len(c.want) || p.Kind != Last || !near(p.Apply(nil, x, Options{}), c.want) {
			t.Errorf("%s: %+v, %v, want %v", c.name, p, err, c.want)
		}
	}
	for n := range 4 {
		if _, err := LogitPlan(make([][]float32, n), true, nil); (err == nil) != (n == 2) && n != 2 {
			t.Errorf("the difference of %d rows: %v", n, err)
		}
	}
}

func TestCosine(t *testing.T) {
	for _, c := range []struct {
		a, b []float32
		want float32
	}{
		{[]float32{1, 0}, []float32{3, 0}, 1}, {[]float32{1, 0}, []float32{-2, 0}, -1}, {[]float32{1, 0}, []float32{0, 5}, 0},
		{[]float32{3, 4}, []float32{4, 3}, 0.96}, {[]float32{0, 0}, []float32{1, 1}, 0}, {[]float32{3e38, 3e38}, []float32{3e38, 3e38}, 1},
	} {
		if got := Cosine(c.a, c.b); math.Abs(float64(got-c.want)) > 1e-6 {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
