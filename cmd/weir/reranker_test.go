package main

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rerankerGolden is what tools/golden/rerankers.py writes.
type rerankerGolden struct {
	Pairs  [][2]string `json:"pairs"`
	Tokens [][]int     `json:"tokens"`
	Logits []float64   `json:"logits"`
	Scores []float64   `json:"scores"`
	Texts  []float64   `json:"texts"` // scores of the texts one behind the other
}

func readReranker(t *testing.T, name string) (dir string, g rerankerGolden) {
	t.Helper()
	dir = filepath.Join("testdata", "rerankers", name)
	data, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil || len(g.Pairs) < 4 || len(g.Scores) != len(g.Pairs) {
		t.Fatalf("%s: %v, %d pairs", name, err, len(g.Pairs))
	}
	return dir, g
}

// copyFolder copies a model folder, without some files.
func copyFolder(t *testing.T, from string, without ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, name := range without {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// askScores asks a server for the scores of pairs, all at once, and returns them with the tokens that were counted.
func askScores(t *testing.T, url string, pairs [][2]string, more map[string]any) (scores []float64, tokens int) {
	t.Helper()
	fields := map[string]any{}
	for k, v := range more {
		fields[k] = v
	}
	var first, second []string
	for _, p := range pairs {
		first, second = append(first, p[0]), append(second, p[1])
	}
	fields["text_1"], fields["text_2"] = first, second
	body, _ := json.Marshal(fields)
	code, answer, _ := do(t, http.DefaultClient, "POST", url+"/score", string(body))
	var got struct {
		Data []struct {
			Score float64 `json:"score"`
		} `json:"data"`
		Usage struct {
			Tokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != 200 {
		t.Fatalf("%d %v %s", code, err, answer)
	}
	for _, d := range got.Data {
		scores = append(scores, d.Score)
	}
	return scores, got.Usage.Tokens
}

// compareScores compares scores with those of sentence-transformers.
func compareScores(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d scores, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-5) {
			t.Errorf("%s: the score of pair %d is %.7f, want %.7f", what, i, got[i], want[i])
		}
	}
}

// exact are the flags with which nothing is rounded.
var exact = []string{"--kv-cache-dtype", "float32", "--dtype", "float32"}

// original are the members of --hf-overrides that vLLM's documents give for Qwen3-Reranker.
const original = `{"architectures": ["Qwen3ForSequenceClassification"], "classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true}`

// TestServeRerankers: models whose score is made of logits give the scores of sentence-transformers, as their files say
// and as --hf-overrides says.
func TestServeRerankers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"causal", "plain"} {
		dir, g := readReranker(t, name)
		bare := copyFolder(t, dir, "modules.json", "1_LogitScore", "sentence_bert_config.json", "config_sentence_transformers.json")
		tokens := len(slices.Concat(g.Tokens...))
		for _, c := range []struct {
			what         string
			args         []string
			scores, logs []float64 // nil: not compared
			tokens       int
		}{
			{"files", []string{dir}, g.Scores, g.Logits, tokens},
			{"files, as a pooler", []string{dir, "--runner", "pooling"}, g.Scores, nil, tokens},
			{"texts", []string{bare, "--hf-overrides", original}, g.Texts, nil, 0},
			{"texts, another way", []string{bare, "--hf-overrides", `{"classifier_from_token": ["no", "yes"], "method": "from_2_way_softmax"}`, "--runner", "pooling"}, g.Texts, nil, 0},
			{"joined", []string{bare, "--hf-overrides", `{"classifier_from_token": ["no", "yes"], "method": "from_2_way_softmax", "use_sep_token": true}`}, map[string][]float64{"plain": g.Scores}[name], nil, 0},
			{"one token", []string{bare, "--hf-overrides", `{"classifier_from_token": ["yes"], "method": "no_post_processing"}`}, nil, nil, 0},
		} {
			url, stop := startServe(t, append(c.args, exact...)...)
			got, counted := askScores(t, url, g.Pairs, nil)
			if c.scores != nil {
				compareScores(t, name+", "+c.what, got, c.scores)
			}
			if c.tokens > 0 && counted != c.tokens {
				t.Errorf("%s, %s: %d tokens, want %d", name, c.what, counted, c.tokens)
			}
			if c.logs != nil {
				raw, _ := askScores(t, url, g.Pairs, map[string]any{"use_activation": false})
				for i := range raw {
					raw[i] /= 8 // logits of up to 8 have an eighth of the precision of scores
					c.logs[i] /= 8
				}
				compareScores(t, name+", logits", raw, c.logs)
			}
			if code, answer, _ := do(t, http.DefaultClient, "POST", url+"/classify", `{"input":"a"}`); code != 200 || !strings.Contains(answer, `"label":"LABEL_0"`) || !strings.Contains(answer, `"num_classes":1`) {
				t.Errorf("%s, %s: classify %d %s", name, c.what, code, answer)
			}
			stop()
		}
	}
}

// TestServeConvertedReranker: a network that was converted to a classifier, whose files have a template and a prompt.
func TestServeConvertedReranker(t *testing.T) {
	t.Parallel()
	dir, g := readReranker(t, "converted")
	url, stop := startServe(t, dir)
	defer stop()
	got, tokens := askScores(t, url, g.Pairs, nil)
	compareScores(t, "scores", got, g.Scores)
	if want := len(slices.Concat(g.Tokens...)); tokens != want {
		t.Errorf("%d tokens, want %d", tokens, want)
	}
	// The same by its own flags, as vLLM serves it: nothing but the template renders the pairs.
	bare := copyFolder(t, dir, "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "chat_template.jinja")
	url, end := startServe(t, bare, "--chat-template", filepath.Join(dir, "chat_template.jinja"))
	defer end()
	got, _ = askScores(t, url, g.Pairs, map[string]any{"instruction": "Find what answers"})
	compareScores(t, "instruction", got, g.Scores)
}

// TestServeScoreTemplate: --chat-template renders the pairs of a reranker, and requests have a say in it.
func TestServeScoreTemplate(t *testing.T) {
	t.Parallel()
	dir, g := readReranker(t, "causal")
	bare := copyFolder(t, dir, "modules.json", "1_LogitScore", "sentence_bert_config.json", "config_sentence_transformers.json", "chat_template.jinja")
	url, stop := startServe(t, append([]string{bare, "--hf-overrides", original, "--chat-template", filepath.Join(dir, "chat_template.jinja")}, exact...)...)
	defer stop()
	got, _ := askScores(t, url, g.Pairs, map[string]any{"instruction": "Find what answers"}) // the default prompt of the folder's own files
	compareScores(t, "instruction", got, g.Scores)
	other, _ := askScores(t, url, g.Pairs, nil)
	for i := range other {
		if math.Abs(other[i]-g.Scores[i]) < 1e-4 {
			t.Errorf("the instruction makes no difference to pair %d: %v", i, other[i])
		}
	}
	_, own, _ := do(t, http.DefaultClient, "POST", url+"/rerank", `{"query":"capital of Germany","documents":["A weir","Berlin"],"top_n":1}`)
	if !strings.Contains(own, `"relevance_score":`) || strings.Count(own, `"index"`) != 1 {
		t.Errorf("rerank: %s", own)
	}
}

// TestRerankerRefusals: what --hf-overrides and files may not say, and what they say is not lost on --runner.
func TestRerankerRefusals(t *testing.T) {
	t.Parallel()
	dir, _ := readReranker(t, "plain")
	for _, c := range []struct {
		overrides string
		code      int
		text      string
	}{
		{`{`, 2, "--hf-overrides"},
		{`{"rope_theta": 1}`, 2, `"rope_theta" is not one of`},
		{`{"classifier_from_token": "yes"}`, 2, "classifier_from_token"},
		{`{"is_original_qwen3_reranker": true}`, 2, "has 0 tokens"},
		{`{"classifier_from_token": ["yes"], "is_original_qwen3_reranker": true}`, 2, "has 1 tokens"},
		{`{"classifier_from_token": ["no", "yes"]}`, 2, "neither method nor"},
		{`{"classifier_from_token": ["no", "yes"], "method": "other"}`, 2, `method "other"`},
		{`{"classifier_from_token": ["no", "maybe not"], "is_original_qwen3_reranker": true}`, 2, `no token "maybe not"`},
		{`{"architectures": ["BertForSequenceClassification"], "classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": true}`, 2, "Qwen3ForSequenceClassification"},
	} {
		if code, _, errOut := runWeir("serve", "--port", "0", "--data-dir", "", dir, "--hf-overrides", c.overrides); code != c.code || !strings.Contains(errOut, c.text) {
			t.Errorf("%s: %d %s", c.overrides, code, errOut)
		}
	}
	if code, _, errOut := runWeir("serve", "--port", "0", "--data-dir", "", dir, "--hf-overrides", original, "--runner", "generate"); code != 2 || !strings.Contains(errOut, "--runner generate") {
		t.Errorf("%d %s", code, errOut)
	}
	for name, c := range map[string][2]string{
		"1_LogitScore/config.json": {`{"true_token_id": 320}`, "no row 320"},
		"config.json":              {"", "id2label has 1 names"},
	} {
		broken := copyFolder(t, dir)
		file := filepath.Join(broken, name)
		text := c[0]
		if text == "" {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = strings.Replace(string(old), "{", `{"id2label": {"1": "x"},`, 1)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, errOut := runWeir("serve", "--port", "0", "--data-dir", "", broken); code != 1 || !strings.Contains(errOut, c[1]) {
			t.Errorf("%s: %d %s", name, code, errOut)
		}
	}
	types := copyFolder(t, "../../model/testdata/classifiers/cross-bert")
	file := filepath.Join(types, "tokenizer.json")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"type_id": 1`) {
		t.Fatalf("%s: %v", file, err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), `"type_id": 1`, `"type_id": 2`)), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := runWeir("serve", "--port", "0", "--data-dir", "", types); code != 1 || !strings.Contains(errOut, "has the token type 2") {
		t.Errorf("token types: %d %s", code, errOut)
	}
	url, stop := startServe(t, dir, "--runner", "generate", "--hf-overrides", "{}")
	defer stop()
	if code, answer, _ := do(t, http.DefaultClient, "POST", url+"/v1/completions", `{"prompt":"a","max_tokens":2}`); code != 200 {
		t.Errorf("--runner generate: %d %s", code, answer)
	}
	if code, answer, _ := do(t, http.DefaultClient, "POST", url+"/rerank", `{"query":"a","documents":["b"]}`); code != 400 || !strings.Contains(answer, "it generates") {
		t.Errorf("--runner generate: %d %s", code, answer)
	}
}
