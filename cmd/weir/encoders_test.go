package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/device/cpu"
	"weir/model"
	"weir/pooling"
)

const encoderFolders = "../../model/testdata/encoders"

// goldenVectors is what sentence-transformers makes of texts (tools/golden/encoders.py).
type goldenVectors struct {
	Texts   []string    `json:"texts"`
	Tokens  [][]int     `json:"tokens"`
	Vectors [][]float64 `json:"vectors"`
}

func readVectors(t *testing.T, dir string) (g goldenVectors) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err = errors.Join(err, json.Unmarshal(b, &g)); err != nil {
		t.Fatal(err)
	}
	return g
}

// embed asks for the vectors of an input, which is a text, a list of texts or of tokens.
func embed(t *testing.T, url string, input any) (vectors [][]float64, tokens int, refusal string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"input": input})
	if err != nil {
		t.Fatal(err)
	}
	code, text, _ := do(t, http.DefaultClient, "POST", url+"/v1/embeddings", string(body))
	if code != 200 {
		return nil, 0, fmt.Sprintf("%d %s", code, text)
	}
	var answer struct {
		Data []struct {
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Tokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	for _, d := range answer.Data {
		vectors = append(vectors, d.Embedding)
	}
	return vectors, answer.Usage.Tokens, ""
}

// TestServeEncoders: texts that are sent to a server with a folder of sentence-transformers get the vectors that it computes,
// to 1e-5 in each component, all at once and one at a time, with the same bits.
func TestServeEncoders(t *testing.T) {
	t.Parallel()
	list, err := filepath.Glob(encoderFolders + "/*/modules.json")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d folders, %v", len(list), err)
	}
	for _, name := range list {
		dir := filepath.Dir(name)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			g := readVectors(t, dir)
			url, stop := startServe(t, "--data-dir", "", dir)
			defer stop()
			together, tokens, refusal := embed(t, url, g.Texts)
			if want := len(slices.Concat(g.Tokens...)); refusal != "" || len(together) != len(g.Texts) || tokens != want {
				t.Fatalf("%d vectors, %d tokens instead of %d, %s", len(together), tokens, want, refusal)
			}
			for i, want := range g.Vectors {
				alone, tokens, _ := embed(t, url, g.Texts[i])
				if tokens != len(g.Tokens[i]) || !slices.Equal(alone[0], together[i]) {
					t.Errorf("%q: %d tokens, want %v; the vector alone and beside others: %v %v", g.Texts[i], tokens, g.Tokens[i], alone[0], together[i])
				}
				compareVectors(t, g.Texts[i], alone[0], want)
			}
		})
	}
}

func compareVectors(t *testing.T, text string, got, want []float64) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d components instead of %d", len(got), len(want))
	}
	for k := range want {
		if !(math.Abs(got[k]-want[k]) <= 1e-5) {
			t.Fatalf("%q: component %d is %v instead of %v", text, k, got[k], want[k])
		}
	}
}

// TestServeEncoderLimits: the context is what the folder says, a step has room for it, and an encoder does nothing but embed.
func TestServeEncoderLimits(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(encoderFolders, "minilm")
	url, stop := startServe(t, "--data-dir", "", "--enable-chunked-prefill", "--long-prefill-token-threshold", "8", dir)
	longest := slices.Repeat([]int{7, 9}, 32) // 64 tokens, as sentence_bert_config.json says; the network would take 96
	if _, tokens, refusal := embed(t, url, longest); tokens != 64 {
		t.Errorf("64 tokens: %s", refusal)
	}
	many := slices.Repeat([][]int{longest, longest[:33], longest[:1]}, 20) // more than a step has
	vectors, _, refusal := embed(t, url, many)
	for i, v := range vectors {
		if !slices.Equal(v, vectors[i%3]) {
			t.Errorf("input %d has another vector than one like it", i)
		}
	}
	if len(vectors) != 60 {
		t.Errorf("%d vectors, %s", len(vectors), refusal)
	}
	if _, _, refusal := embed(t, url, append(longest, 7)); !strings.HasPrefix(refusal, "400") {
		t.Errorf("65 tokens: %s", refusal)
	}
	if code, _ := post(t, url, question); code != 400 {
		t.Errorf("a chat with an encoder: %d", code)
	}
	stop()
	for text, args := range map[string][]string{
		"it generates no tokens":            {"--runner", "generate"},
		"computes a text in one step":       {"--max-num-batched-tokens", "48", "--max-num-seqs", "4"},
		"the model was made for sequences":  {"--max-model-len", "65"},
		"takes capital letters as they are": {lowercased(t, "roberta")},
	} {
		if strings.HasPrefix(args[0], "--") {
			args = append(args, dir)
		}
		if code, _, errOut := runWeir(append([]string{"serve", "--port", "0", "--data-dir", ""}, args...)...); code == 0 || !strings.Contains(errOut, text) {
			t.Errorf("%q: %d %s", args, code, errOut)
		}
	}
}

// lowercased copies an encoder and has its settings want small letters.
func lowercased(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(encoderFolders, name))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sentence_bert_config.json"), []byte(`{"max_seq_length":64,"do_lower_case":true}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestServeEncoderWithoutModules: a folder without modules.json gives the mean of its tokens' vectors, as in sentence-transformers.
func TestServeEncoderWithoutModules(t *testing.T) {
	t.Parallel()
	dir := lowercased(t, "minilm")
	g := readVectors(t, dir)
	for _, name := range []string{"modules.json", "sentence_bert_config.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	url, stop := startServe(t, "--data-dir", "", dir)
	defer stop()
	vectors, _, refusal := embed(t, url, g.Texts[:1])
	if refusal != "" {
		t.Fatal(refusal)
	}
	length := 0.0
	for _, x := range vectors[0] {
		length += x * x
	}
	length = math.Sqrt(length)
	for k, want := range g.Vectors[0] { // those of the folder have a length of 1
		if !(math.Abs(vectors[0][k]/length-want) <= 1e-5) {
			t.Errorf("component %d is %v instead of %v", k, vectors[0][k]/length, want)
		}
	}
	if math.Abs(length-1) < 0.1 {
		t.Errorf("the vector has the length %v: it was normalized", length)
	}
}

// TestEncoderRoom: a step of an encoder has room for its context, whatever the flags say of chunks, and its keys and values
// are as exact as its vectors.
func TestEncoderRoom(t *testing.T) {
	for _, args := range [][]string{nil, {"--enable-chunked-prefill"}, {"--max-num-partial-prefills", "4"}} {
		o, _ := parseServe(t, args...)
		s := &source{network: &model.Model{Config: model.Config{MaxSeqTokens: 8000, Network: model.Network{Whole: true}}}, pooling: &pooling.Plan{}}
		e := o.engine.suiting(s)
		longest := e.longest(&s.network.Config, nil)
		tokens, _ := e.stepLimits(false, longest)
		if _, kv, _ := e.types(); tokens < longest || longest < leastContext || !e.engineConfig(128).Scheduler.WholePrompts || kv != cpu.F32 {
			t.Errorf("%q: steps of %d tokens for texts of %d, keys and values in %v", args, tokens, longest, kv)
		}
		if o.engine.kvDtype != "auto" || !o.engine.chunked {
			t.Error("the options themselves have changed")
		}
	}
}

// TestServeClasses: the scores of several classes are those of sentence-transformers, for texts that are sent as tokens.
func TestServeClasses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cross-roberta", "cross-llama", "cross-modernbert-bias"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("../../model/testdata/classifiers", name)
			var g struct {
				Tokens [][]int     `json:"tokens"`
				Scores [][]float64 `json:"scores"`
			}
			b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
			if err = errors.Join(err, json.Unmarshal(b, &g)); err != nil {
				t.Fatal(err)
			}
			url, stop := startServe(t, "--data-dir", "", dir)
			defer stop()
			compareClasses(t, url, g.Tokens, g.Scores)
		})
	}
}

// compareClasses compares the scores of the classes of texts of tokens.
func compareClasses(t *testing.T, url string, tokens [][]int, scores [][]float64) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"input": tokens})
	if err != nil {
		t.Fatal(err)
	}
	code, text, _ := do(t, http.DefaultClient, "POST", url+"/classify", string(body))
	var answer struct {
		Data []struct {
			Probs []float64 `json:"probs"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != 200 || len(answer.Data) != len(scores) {
		t.Fatalf("%d %s, %v", code, text, err)
	}
	for i, want := range scores {
		compareVectors(t, fmt.Sprint(tokens[i]), answer.Data[i].Probs, want)
	}
}

// TestServeUntypedPairs: a tokenizer that is of no class of its own, and does not list token_type_ids, gives tokens of one type alone.
func TestServeUntypedPairs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../model/testdata/classifiers/cross-bert")); err != nil {
		t.Fatal(err)
	}
	pair := [][2]string{{"HOW much Protein should people eat?", "A weir keeps the stream steady."}}
	name := filepath.Join(dir, "tokenizer_config.json")
	var all []float64
	for _, config := range []string{`{"tokenizer_class":"BertTokenizer"}`, `{"tokenizer_class":"TokenizersBackend","model_input_names":["input_ids","token_type_ids"]}`,
		`{"tokenizer_class":"TokenizersBackend"}`, `{"tokenizer_class":"BertTokenizer","model_input_names":["input_ids","attention_mask"]}`} {
		if err := os.WriteFile(name, []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		url, stop := startServe(t, "--data-dir", "", dir)
		scores, _ := askScores(t, url, pair, nil)
		all = append(all, scores[0])
		stop()
	}
	if all[0] != all[1] || all[2] != all[3] || all[0] == all[2] {
		t.Errorf("scores with types %v, and without %v", all[:2], all[2:])
	}
}
