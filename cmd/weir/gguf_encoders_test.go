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
	"strconv"
	"strings"
	"testing"

	"weir/chat/jinja"
	"weir/internal/testkit"
)

// storedModel is the GGUF file that llama.cpp's converter makes of a folder (tools/golden/gguf_encoders.py).
func storedModel(t *testing.T, name, folder string) *testkit.GGUF {
	t.Helper()
	return testkit.ReadConverted(t, filepath.Join("../../model/testdata/gguf-encoders", name+".json")).File(t, folder)
}

// normalized is a vector with length 1.
func normalized(v []float64) []float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	out := slices.Clone(v)
	for i := range out {
		out[i] /= math.Sqrt(sum)
	}
	return out
}

// TestServeGGUFEncoders: a GGUF file of an encoder, with the tokenizer that is in it, gives texts the vectors of the folder that it was
// made of, with length 1.
func TestServeGGUFEncoders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"minilm", "bge", "roberta", "xlm-roberta", "distilbert", "modernbert", "nomic-own", "qwen3"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(encoderFolders, name)
			g := readVectors(t, dir)
			url, stop := startServe(t, "--data-dir", "", writeGGUF(t, name+".gguf", storedModel(t, name, dir)))
			defer stop()
			vectors, tokens, refusal := embed(t, url, g.Texts)
			if want := len(slices.Concat(g.Tokens...)); refusal != "" || tokens != want {
				t.Fatalf("%d tokens instead of %d, %s", tokens, want, refusal)
			}
			for i, want := range g.Vectors {
				compareVectors(t, g.Texts[i], vectors[i], normalized(want))
			}
			if code, _ := post(t, url, question); code != 400 {
				t.Errorf("a chat: %d", code)
			}
		})
	}
}

// TestServeGGUFGemma: of EmbeddingGemma the converter leaves out two settings, which all published ones have, so that they are changed in
// the folder that its file is compared with. A file without the dense layers gives the vector before them.
func TestServeGGUFGemma(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(encoderFolders, "embeddinggemma")
	g := readVectors(t, dir)
	edited := copyFolder(t, dir)
	var config map[string]any
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err = errors.Join(err, json.Unmarshal(b, &config)); err != nil {
		t.Fatal(err)
	}
	config["query_pre_attn_scalar"], config["layer_types"] = 12, slices.Repeat([]string{"sliding_attention"}, 4)
	b, err = json.Marshal(config)
	if err = errors.Join(err, os.WriteFile(filepath.Join(edited, "config.json"), b, 0o644)); err != nil {
		t.Fatal(err)
	}
	file := storedModel(t, "embeddinggemma", dir)
	vectors := func(path string) [][]float64 {
		t.Helper()
		url, stop := startServe(t, "--data-dir", "", path)
		defer stop()
		v, tokens, refusal := embed(t, url, g.Texts)
		if want := len(slices.Concat(g.Tokens...)); refusal != "" || tokens != want {
			t.Fatalf("%d tokens instead of %d, %s", tokens, want, refusal)
		}
		return v
	}
	want, got := vectors(edited), vectors(writeGGUF(t, "gemma.gguf", file))
	for i := range want {
		compareVectors(t, g.Texts[i], got[i], want[i])
	}
	file.Tensors = slices.DeleteFunc(file.Tensors, func(x testkit.GGUFTensor) bool { return strings.HasPrefix(x.Name, "dense_") })
	if err := os.WriteFile(filepath.Join(edited, "modules.json"), []byte(`[{"path":"","type":"a.Transformer"},{"path":"1_Pooling","type":"a.Pooling"},{"path":"4_Normalize","type":"a.Normalize"}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	want, got = vectors(edited), vectors(writeGGUF(t, "plain.gguf", file))
	for i := range want {
		compareVectors(t, g.Texts[i], got[i], want[i])
	}
}

// TestServeGGUFClassifiers: a GGUF file of a cross-encoder gives pairs the scores of the folder that it was made of, and the classes the
// names that are in it.
func TestServeGGUFClassifiers(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string][]string{"cross-xlm-roberta": {"LABEL_0"}, "cross-modernbert": {"LABEL_0"}, "cross-roberta": {"LABEL_0", "LABEL_1", "LABEL_2"}, "cross-distilbert": {"no", "yes"}} {
		dir := filepath.Join("../../model/testdata/classifiers", name)
		var g classifierGolden
		data, err := os.ReadFile(filepath.Join(dir, "golden.json"))
		if err = errors.Join(err, json.Unmarshal(data, &g)); err != nil || len(g.Pairs) < 4 {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			url, stop := startServe(t, "--data-dir", "", writeGGUF(t, name+".gguf", storedModel(t, name, dir)))
			defer stop()
			if len(labels) == 1 {
				checkPairs(t, url, &g)
				checkRanking(t, url, &g)
				return
			}
			probs := askClasses(t, url, g.Tokens)
			for i, logits := range g.Logits {
				sum, want := 0.0, []float64{}
				for _, x := range logits {
					sum += math.Exp(x)
				}
				for _, x := range logits {
					want = append(want, math.Exp(x)/sum)
				}
				compareScores(t, fmt.Sprintf("classes of pair %d", i), probs[i], want)
			}
			best := slices.Index(probs[0], slices.Max(probs[0]))
			body, _ := json.Marshal(map[string]any{"input": g.Tokens[:1]})
			if code, answer, _ := do(t, http.DefaultClient, "POST", url+"/classify", string(body)); code != 200 || !strings.Contains(answer, `"label":"`+labels[best]+`"`) {
				t.Errorf("%d %s, want %s", code, answer, labels[best])
			}
		})
	}
}

// checkRanking asks for the documents of all pairs in their order for the first one's query.
func checkRanking(t *testing.T, url string, g *classifierGolden) {
	t.Helper()
	var pairs [][2]string
	var documents []string
	for _, p := range g.Pairs {
		pairs, documents = append(pairs, [2]string{g.Pairs[0][0], p[1]}), append(documents, p[1])
	}
	scores, _ := askScores(t, url, pairs, nil)
	body, _ := json.Marshal(map[string]any{"query": g.Pairs[0][0], "documents": documents})
	code, answer, _ := do(t, http.DefaultClient, "POST", url+"/rerank", string(body))
	var got struct {
		Results []struct {
			Index int     `json:"index"`
			Score float64 `json:"relevance_score"`
		} `json:"results"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != 200 || len(got.Results) != len(documents) {
		t.Fatalf("%d %v %s", code, err, answer)
	}
	for i, r := range got.Results {
		if r.Score != scores[r.Index] || i > 0 && r.Score > got.Results[i-1].Score {
			t.Errorf("place %d: document %d with %v, whose score is %v", i, r.Index, r.Score, scores[r.Index])
		}
	}
}

// TestServeGGUFReranker: a GGUF file of Qwen3-Reranker, which has two rows of the head and a form for pairs in place of a chat template,
// gives the scores of the folder with that form as a template. It has no head to generate with.
func TestServeGGUFReranker(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"causal", "plain"} {
		dir, g := readReranker(t, name)
		file := storedModel(t, "reranker-"+name, dir)
		form := ""
		for _, k := range file.Keys {
			if k.Key == "tokenizer.chat_template.rerank" {
				form, _ = k.Value.(string)
			}
		}
		template := strings.NewReplacer("{query}", "{{ messages[0].content }}", "{document}", "{{ messages[1].content }}").Replace(form)
		path := filepath.Join(t.TempDir(), "form.jinja")
		if err := os.WriteFile(path, []byte(strings.TrimSuffix(template, "\n")+"{{ '\\n' }}"), 0o644); err != nil || !strings.Contains(template, "messages[1]") {
			t.Fatalf("%v %q", err, form)
		}
		bare := copyFolder(t, dir, "modules.json", "1_LogitScore", "sentence_bert_config.json", "config_sentence_transformers.json")
		scores := func(args ...string) []float64 {
			t.Helper()
			url, stop := startServe(t, append(args, exact...)...)
			defer stop()
			got, _ := askScores(t, url, g.Pairs, nil)
			return got
		}
		stored := writeGGUF(t, "reranker.gguf", file)
		want := scores(bare, "--hf-overrides", original, "--chat-template", path)
		compareScores(t, name, scores(stored), want)
		if slices.Max(want)-slices.Min(want) < 0.01 {
			t.Errorf("%s: the scores %v tell nothing apart", name, want)
		}
		if code, _, errOut := runWeir("serve", "--port", "0", "--data-dir", "", "--runner", "generate", stored); code != 2 || !strings.Contains(errOut, "has no head") {
			t.Errorf("%d %s", code, errOut)
		}
	}
}

// TestPairTemplate: the template that is made of a form is the form with the texts in place of their names, whatever is in it.
func TestPairTemplate(t *testing.T) {
	t.Parallel()
	document := "a {query} <b> \"c\" {{ d }}"
	for form, want := range map[string]string{
		"Q: {query}\nD: {document}\n":                             "Q: what\nD: " + document + "\n",
		"{document}{query}{document}":                             document + "what" + document,
		"{{ x }}{% raw %}\"'\\n{# a #}\t<|im_end|>{query}é\u2028": "{{ x }}{% raw %}\"'\\n{# a #}\t<|im_end|>whaté\u2028",
		"{queries} {document":                                     "{queries} {document",
		"":                                                        "",
	} {
		text, err := pairTemplate(form)
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := jinja.Compile(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		messages, err := jinja.FromJSON([]byte(`[{"role":"system","content":"x"},{"role":"query","content":"what"},{"role":"document","content":` + strconv.Quote(document) + `}]`))
		if err != nil {
			t.Fatal(err)
		}
		vars := jinja.NewDict(1)
		vars.Set("messages", messages)
		if got, err := compiled.Render(vars, jinja.Options{}); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", form, got, err, want)
		}
	}
}

// TestServeGGUFHeadsRefused: a head that is not whole, or one that nobody knows, is refused with a sentence before any port opens.
func TestServeGGUFHeadsRefused(t *testing.T) {
	t.Parallel()
	const folders = "../../model/testdata/classifiers/"
	drop := func(tensor string) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) {
			g.Tensors = slices.DeleteFunc(g.Tensors, func(t testkit.GGUFTensor) bool { return t.Name == tensor })
		}
	}
	set := func(key string, value any) func(*testkit.GGUF) { return func(g *testkit.GGUF) { g.Set(key, value) } }
	reshape := func(tensor string, shape ...uint64) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) {
			i := slices.IndexFunc(g.Tensors, func(t testkit.GGUFTensor) bool { return t.Name == tensor })
			g.Tensors[i].Shape = shape
		}
	}
	for _, c := range []struct {
		name, folder string
		change       func(*testkit.GGUF)
		want         string
	}{
		{"cross-bert", folders + "cross-bert", nil, "which llama.cpp's converter leaves out of BERT's"},
		{"cross-roberta", folders + "cross-roberta", drop("cls.bias"), "there is no tensor cls.bias"},
		{"cross-roberta", folders + "cross-roberta", set("bert.pooling_type", uint32(9)), `the key "bert.pooling_type" is 9 (supported: 0 to 4`},
		{"cross-roberta", folders + "cross-roberta", set("bert.pooling_type", "rank"), "the key bert.pooling_type is"},
		{"cross-roberta", folders + "cross-roberta", reshape("cls.output.weight", 96), "the tensor cls.output.weight has the shape [96]"},
		{"cross-roberta", folders + "cross-roberta", set("bert.attention.causal", true), "the key bert.attention.causal is true (supported: false)"},
		{"cross-modernbert", folders + "cross-modernbert", drop("cls.norm.weight"), "there is no tensor cls.norm.weight"},
		{"cross-modernbert", folders + "cross-modernbert", set("modern-bert.classifier.pooling_type", uint32(3)), `the key "modern-bert.classifier.pooling_type" is 3`},
		{"cross-modernbert", folders + "cross-modernbert", set("modern-bert.attention.sliding_window", uint32(0)), "modern-bert.attention.sliding_window is missing"},
		{"roberta", encoderFolders + "/roberta", set("bert.context_length", uint32(514)), "were not cut off, as by llama.cpp's converter of CamemBERT"},
		{"minilm", encoderFolders + "/minilm", set("bert.pooling_type", uint32(4)), "leaves out of BERT's"},
		{"minilm", encoderFolders + "/minilm", set("bert.context_length", uint32(1<<31)), "max_position_embeddings"},
		{"minilm", encoderFolders + "/minilm", set("bert.context_length", uint32(97)), "position_embd.weight"},
		{"embeddinggemma", encoderFolders + "/embeddinggemma", reshape("dense_2.weight", 48, 32), "the tensor dense_2.weight has the shape [32 48]"},
		{"reranker-plain", "testdata/rerankers/plain", drop("cls.output.weight"), "there is no tensor cls.output.weight"},
		{"reranker-plain", "testdata/rerankers/plain", reshape("cls.output.weight", 8, 4), "the tensor cls.output.weight has the shape [4 8]"},
	} {
		g := storedModel(t, c.name, c.folder)
		if c.change != nil {
			c.change(g)
		}
		code, _, errOut := runWeir("serve", "--port", "0", "--data-dir", "", writeGGUF(t, "x.gguf", g))
		if code != 1 || !strings.Contains(errOut, c.want) || strings.Count(errOut, "\n") > 1 {
			t.Errorf("%s: %d %s, which does not say %q", c.name, code, errOut, c.want)
		}
	}
}
