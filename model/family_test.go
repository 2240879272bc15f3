package model_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/device/cpu"
	"weir/model"
)

// familyGolden is what transformers computes from a small checkpoint of a family, in float32 with
// eager attention (tools/golden/families.py).
type familyGolden struct {
	Prompt         []int32   `json:"prompt"`
	PromptLogprobs []float64 `json:"prompt_logprobs"` // of each token but the first
	Greedy         []int32   `json:"greedy"`
	GreedyLogprobs []float64 `json:"greedy_logprobs"`

	Hidden *hiddenGolden `json:"hidden"` // nil: of a network of several streams
}

// familyTolerance bounds the distance of a log-probability from that of transformers, which round
// every operation to float32 in an order of their own.
const familyTolerance = 1e-3

// families are the names of the folders of checkpoints, each of which is a family's or a form of it.
func families(t testing.TB) []string {
	t.Helper()
	list, err := filepath.Glob("testdata/families/*/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range list {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	if len(names) == 0 {
		t.Fatal("there is no checkpoint")
	}
	return names
}

func readFamily(t testing.TB, name string) (g familyGolden) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/families", name, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.PromptLogprobs) != len(g.Prompt)-1 || len(g.Greedy) < 48 || len(g.GreedyLogprobs) != len(g.Greedy) {
		t.Fatalf("%d log-probabilities of %d tokens, and %d of %d", len(g.PromptLogprobs), len(g.Prompt), len(g.GreedyLogprobs), len(g.Greedy))
	}
	distinct := map[int32]bool{}
	for _, token := range g.Greedy {
		distinct[token] = true
	}
	if len(distinct) < 12 {
		t.Fatalf("only %d greedy tokens are distinct", len(distinct))
	}
	return g
}

// TestFamilies: a prompt in one step, and greedy tokens one by one, have the log-probabilities
// that transformers computes, and the greedy tokens are equal.
func TestFamilies(t *testing.T) {
	for _, name := range families(t) {
		t.Run(name, func(t *testing.T) {
			g := readFamily(t, name)
			as := cpu.Auto
			if name == "gpt_oss_mxfp4" {
				as = cpu.F32 // rows are rounded to 8 bits otherwise
			}
			eachExactAs(t, as, func(t *testing.T, open func() model.Device) {
				m := openModel(t, os.DirFS(filepath.Join("testdata/families", name)))
				h := newHarness(t, m, open(), model.Options{MaxSeqTokens: min(256, m.Config.MaxSeqTokens), MaxTokens: 256}, 1)
				s := &sequence{tokens: g.Prompt}
				last := g.comparePrompt(t, h, s)
				for i, want := range g.Greedy {
					if best, got := greatestLogit(last), logprob(last, want); best != want || !(math.Abs(got-g.GreedyLogprobs[i]) <= familyTolerance) {
						t.Fatalf("greedy token %d is %d (%v) instead of %d (%v, here %v)", i, best, logprob(last, best), want, g.GreedyLogprobs[i], got)
					}
					s.tokens = append(s.tokens, want)
					if h.b.Spec().LongAfter == len(s.tokens)-1 { // all of it is rotated in another way from now on
						h.release(s)
					}
					n := len(s.tokens) - s.computed
					last = h.step(chunk{s, n, positions(s.computed+n-1, s.computed+n)})[0]
				}
			})
		})
	}
}

// comparePrompt computes the prompt in one step, and returns the logits of its last token.
func (g *familyGolden) comparePrompt(t *testing.T, h *harness, s *sequence) []float32 {
	t.Helper()
	rows := h.step(chunk{s, len(g.Prompt), positions(0, len(g.Prompt))})
	for i, want := range g.PromptLogprobs {
		if got := logprob(rows[i], g.Prompt[i+1]); !(math.Abs(got-want) <= familyTolerance) {
			t.Fatalf("position %d: %v instead of %v", i, got, want)
		}
	}
	return rows[len(rows)-1]
}

func greatestLogit(row []float32) int32 {
	best := 0
	for v := range row {
		if row[v] > row[best] {
			best = v
		}
	}
	return int32(best)
}

// TestFamilyInvariance is TestBatchInvariance for every family: windows and chunks of positions,
// experts, recurrent states that move to another slot with each chunk, latent attention.
func TestFamilyInvariance(t *testing.T) {
	impls := cpu.Impls()
	for i, impl := range impls {
		if underRace && impl == plainGo && len(impls) > 1 {
			continue
		}
		// The kernels of each tier have tests of their own: the best tier, the one before plain Go, and that.
		if 0 < i && i < len(impls)-2 && os.Getenv("WEIR_TEST_ALL") == "" {
			continue
		}
		t.Run(impl, func(t *testing.T) {
			for _, name := range families(t) {
				t.Run(name, func(t *testing.T) {
					m := openModel(t, os.DirFS(filepath.Join("testdata/families", name)))
					c := cuttings{checkpoint: name, length: min(150, m.Config.MaxSeqTokens), sequences: 3, rounds: 3, open: newCPU(t, impl, cpu.F32)}
					if underRace {
						c.length, c.sequences, c.rounds = 60, 2, 1
					}
					c.runModel(t, m)
					if isLatent(m) && impl != plainGo {
						c.open = newCPU(t, impl, cpu.Int8) // the parts of keys have scales of their own
						c.runModel(t, m)
					}
				})
			}
		})
	}
}

// isLatent reports whether a cache of m has values in its keys.
func isLatent(m *model.Model) bool {
	return slices.ContainsFunc(m.Config.Shape().KV, func(kv model.KVShape) bool { return kv.ValueInKey })
}

// TestLatentInt8: with keys and values of 8 bits, latent attention has log-probabilities near those of
// transformers, because latents and rotated parts have scales of their own. Half of them are compared, because a
// router whose scores are close chooses other experts for some tokens.
func TestLatentInt8(t *testing.T) {
	tested := 0
	for _, name := range families(t) {
		m := openModel(t, os.DirFS(filepath.Join("testdata/families", name)))
		if !isLatent(m) || m.Config.Shape().Pieces&model.PieceSelect != 0 {
			continue
		}
		tested++
		g, off := readFamily(t, name), []float64(nil)
		h := newHarness(t, m, newCPU(t, "", cpu.Int8)(), model.Options{MaxSeqTokens: 256, MaxTokens: 256}, 1)
		rows := h.step(chunk{&sequence{tokens: g.Prompt}, len(g.Prompt), positions(0, len(g.Prompt))})
		for i, want := range g.PromptLogprobs {
			off = append(off, math.Abs(logprob(rows[i], g.Prompt[i+1])-want))
		}
		slices.Sort(off)
		if median := off[len(off)/2]; !(median < 0.05) {
			t.Errorf("%s: log-probabilities are off by %.3f", name, median)
		} else {
			t.Logf("%s: off by %.3f, and at most by %.3f", name, median, off[len(off)-1])
		}
	}
	if tested < 3 {
		t.Errorf("%d families have latent attention", tested)
	}
}

// TestFamilyAllocations: a step of no family allocates anything.
func TestFamilyAllocations(t *testing.T) {
	if underRace {
		t.Skip("the race detector allocates")
	}
	for _, name := range families(t) {
		m := openModel(t, os.DirFS(filepath.Join("testdata/families", name)))
		h := newHarness(t, m, newCPU(t, "", cpu.F32)(), model.Options{MaxTokens: 16, MaxSeqTokens: 64}, 1)
		h.step(chunk{&sequence{tokens: []int32{5, 6, 7}}, 3, []int{2}})
		h.draws.Rows[0].Host = false // the harness has taken the logits
		n := testing.AllocsPerRun(10, func() {
			if h.b.Begin(&h.batch) != nil || h.b.Draw(&h.draws) != nil || h.b.End(&h.out) != nil {
				t.Error("a step failed")
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations per step", name, n)
		}
	}
}

// TestModelsAreListed: docs/models.md, which messages name, has every architecture.
func TestModelsAreListed(t *testing.T) {
	text, err := os.ReadFile("../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range model.Architectures() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/models.md does not list %s", name)
		}
	}
}

// TestWrappers: the part for text of a model that sees or hears is found in its config.json and among
// its tensors, whose names begin in one of several ways; towers and heads for several tokens are passed over.
func TestWrappers(t *testing.T) {
	for _, c := range []struct{ family, class, modelType string }{
		{"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5"},
		{"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"},
		{"gemma3", "Gemma3ForConditionalGeneration", "gemma3"},
		{"gemma3n", "Gemma3nForConditionalGeneration", "gemma3n"},
		{"gemma4_e", "Gemma4ForConditionalGeneration", "gemma4"},
		{"ministral3", "Mistral3ForConditionalGeneration", "mistral3"},
		{"mistral4", "Mistral3ForConditionalGeneration", "mistral3"},
		{"llama4", "Llama4ForConditionalGeneration", "llama4"},
		{"deepseek_v3", "KimiK25ForConditionalGeneration", "kimi_k25"},
		{"granite", "LlavaNextForConditionalGeneration", "llava_next"},
		{"iquestcoder", "SmolVLMForConditionalGeneration", "smolvlm"},
		{"lfm2", "Lfm2VlForConditionalGeneration", "lfm2_vl"},
	} {
		for _, prefix := range []string{"model.language_model.", "language_model.model.", "model.text_model.", ""} {
			t.Run(c.family+" "+prefix, func(t *testing.T) {
				config, err := os.ReadFile(filepath.Join("testdata/families", c.family, "config.json"))
				if err != nil {
					t.Fatal(err)
				}
				fsys := fstest.MapFS{
					"config.json": {Data: fmt.Appendf(nil, `{"architectures": [%q], "model_type": %q, "vision_config": {"depth": 1}, "text_config": %s}`, c.class, c.modelType, config)},
					"model.safetensors": {Data: renamed(t, filepath.Join("testdata/families", c.family, "model.safetensors"), func(name string) string {
						if name == "lm_head.weight" && strings.HasPrefix(prefix, "language_model.") {
							return "language_model.lm_head.weight"
						}
						if rest, ok := strings.CutPrefix(name, "model."); ok {
							return prefix + rest
						}
						return name
					}, "model.visual.patch.weight", "vision_tower.patch.weight", "mtp.head.weight")},
				}
				g := readFamily(t, c.family)
				h := newHarness(t, openModel(t, fsys), newCPU(t, "", cpu.F32)(), model.Options{MaxSeqTokens: 128}, 1)
				g.comparePrompt(t, h, &sequence{tokens: g.Prompt})
			})
		}
	}
}

// TestFlatWrapper: a config.json in which older versions of transformers wrote the fields of the part for text among the others, with
// the names of tensors that they had.
func TestFlatWrapper(t *testing.T) {
	const dir = "testdata/families/qwen2_5_vl"
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Text   map[string]any `json:"text_config"`
		Vision any            `json:"vision_config"`
	}
	if err := json.Unmarshal(b, &whole); err != nil {
		t.Fatal(err)
	}
	flat := whole.Text
	flat["architectures"], flat["model_type"], flat["vision_config"] = []string{"Qwen2_5_VLForConditionalGeneration"}, "qwen2_5_vl", whole.Vision
	delete(flat, "rope_parameters")
	flat["rope_theta"], flat["rope_scaling"] = 10000, map[string]any{"type": "mrope", "mrope_section": []int{1, 1, 1}}
	config, err := json.Marshal(flat)
	if err != nil {
		t.Fatal(err)
	}
	data := renamed(t, filepath.Join(dir, "model.safetensors"), func(name string) string {
		return strings.Replace(strings.Replace(name, "model.language_model.", "model.", 1), "model.visual.", "visual.", 1)
	})
	m := openModel(t, fstest.MapFS{"config.json": {Data: config}, "model.safetensors": {Data: data}})
	h := newHarness(t, m, newCPU(t, "", cpu.F32)(), model.Options{MaxSeqTokens: 128}, 1)
	g := readFamily(t, "qwen2_5_vl")
	g.comparePrompt(t, h, &sequence{tokens: g.Prompt})
}

// TestWrapperOfUnknownText: a part for text that is not known is refused by its name, and not taken for another one.
func TestWrapperOfUnknownText(t *testing.T) {
	_, err := model.ParseConfig([]byte(`{"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "florence", "hidden_size": 8}}`))
	if !errors.Is(err, model.ErrUnsupported) || !strings.Contains(err.Error(), "text_config.model_type florence") {
		t.Error(err)
	}
}

// TestFieldsAroundText: what says something about the whole model may stand around the part for text alone.
func TestFieldsAroundText(t *testing.T) {
	c, err := model.ParseConfig([]byte(`{"architectures": ["LlavaForConditionalGeneration"], "tie_word_embeddings": true, "eos_token_id": 7, "text_config":
		{"model_type": "llama", "vocab_size": 80, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}}`))
	if err != nil || !c.TiedHead || !slices.Equal(c.EOS, []int32{7}) {
		t.Errorf("tied %v, ends %v, %v", c.TiedHead, c.EOS, err)
	}
}

// TestOlderNames: checkpoints of the hub that older versions of transformers wrote lack a prefix, name the head in their own way, and
// keep the masks of their attention.
func TestOlderNames(t *testing.T) {
	for _, c := range []struct {
		family, from, to string
		more             []string
	}{
		{"gpt2", "transformer.", "", []string{"h.0.attn.bias", "h.2.attn.masked_bias"}},
		{"gpt_neo", "transformer.h", "transformer.h", []string{"transformer.h.3.attn.attention.bias", "transformer.h.3.attn.attention.masked_bias"}},
		{"gptj", "transformer.h", "transformer.h", []string{"transformer.h.1.attn.bias", "transformer.h.1.attn.masked_bias"}},
		{"codegen", "transformer.h", "transformer.h", []string{"transformer.h.1.attn.causal_mask"}},
		{"gpt_neox", "embed_out.", "lm_head.", []string{"gpt_neox.layers.1.attention.bias", "gpt_neox.layers.1.attention.masked_bias", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"}},
		{"opt", "model.decoder.", "decoder.", nil},
		{"bloom", "transformer.", "", nil},
		{"mamba", "backbone.", "", nil},
	} {
		t.Run(c.family, func(t *testing.T) {
			dir := filepath.Join("testdata/families", c.family)
			config, err := os.ReadFile(filepath.Join(dir, "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			data := renamed(t, filepath.Join(dir, "model.safetensors"), func(name string) string {
				rest, ok := strings.CutPrefix(name, c.from)
				if found = found || ok; !ok {
					return name
				}
				return c.to + rest
			}, c.more...)
			if !found {
				t.Fatalf("no tensor's name begins with %s", c.from)
			}
			m := openModel(t, fstest.MapFS{"config.json": {Data: config}, "model.safetensors": {Data: data}})
			h := newHarness(t, m, newCPU(t, "", cpu.F32)(), model.Options{MaxSeqTokens: 128}, 1)
			g := readFamily(t, c.family)
			g.comparePrompt(t, h, &sequence{tokens: g.Prompt})
		})
	}
}

// TestNoPrefix: the bundled model, whose architecture is one of the plain ones, has the same weights when its tensors' names lack
// their prefix, as those of models that embed do.
func TestNoPrefix(t *testing.T) {
	const dir = "../models/weir-tiny"
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	bare := renamed(t, filepath.Join(dir, "model.safetensors"), func(name string) string { return strings.TrimPrefix(name, "model.") })
	m := openModel(t, fstest.MapFS{"config.json": {Data: config}, "model.safetensors": {Data: bare}})
	want := openModel(t, os.DirFS(dir))
	if got := m.Matrices(); len(got) != len(want.Matrices()) {
		t.Fatalf("%d matrices, want %d", len(got), len(want.Matrices()))
	}
	for i, x := range m.Matrices() {
		for k, row := range x.Rows {
			if w := want.Matrices()[i].Rows[k]; row.Name != strings.TrimPrefix(w.Name, "model.") || !bytes.Equal(row.Data, w.Data) {
				t.Errorf("%s is not %s", row.Name, w.Name)
			}
		}
	}
}

// renamed is a file of safetensors with other names of tensors, and further tensors of one number.
func renamed(t *testing.T, path string, name func(string) string, more ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.Uint64(b)
	var header map[string]any
	if err := json.Unmarshal(b[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	data := b[8+size:]
	other := map[string]any{}
	for k, v := range header {
		if k != "__metadata__" {
			k = name(k)
		}
		other[k] = v
	}
	for _, k := range more {
		other[k] = map[string]any{"dtype": "F32", "shape": []int{1}, "data_offsets": []int{len(data), len(data) + 4}}
		data = append(data, 0, 0, 0, 0)
	}
	head, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head, data)
}
