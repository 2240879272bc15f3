package model_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"weir/backend"
	"weir/device/cpu"
	"weir/model"
	"weir/pooling"
)

// encoderGolden is what sentence-transformers computes from a small folder of its own (tools/golden/encoders.py).
type encoderGolden struct {
	Texts   []string    `json:"texts"`
	Tokens  [][]int32   `json:"tokens"`
	Vectors [][]float64 `json:"vectors"`
}

// TestDistanceBuckets: the distances at which MPNet's next bucket begins are those of transformers (MPNetEncoder.relative_position_bucket).
func TestDistanceBuckets(t *testing.T) {
	begins := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}
	list := model.DistanceBuckets(32, 128)
	for d := -128; d <= 128; d++ {
		want := int32(-1)
		for _, n := range begins {
			if n <= max(d, -d) {
				want++
			}
		}
		if d > 0 {
			want += 16
		}
		if got := list[128+d]; got != want {
			t.Errorf("distance %d is in bucket %d instead of %d", d, got, want)
		}
	}
}

// vectorTolerance bounds the distance of a component from that of sentence-transformers.
const vectorTolerance = 1e-5

// eachEncoder runs f for each golden folder.
func eachEncoder(t *testing.T, f func(t *testing.T, m *model.Model, plan *pooling.Plan, g encoderGolden)) {
	list, err := filepath.Glob("testdata/encoders/*/golden.json")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d folders, %v", len(list), err)
	}
	for _, path := range list {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var g encoderGolden
			b, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(b, &g)
			}
			if err != nil || len(g.Vectors) != len(g.Tokens) || len(g.Tokens) == 0 {
				t.Fatalf("%d vectors of %d texts, %v", len(g.Vectors), len(g.Tokens), err)
			}
			m := openModel(t, os.DirFS(dir))
			plan, err := pooling.Load(os.DirFS(dir), m.Config.Hidden)
			if err != nil {
				t.Fatal(err)
			}
			f(t, m, plan, g)
		})
	}
}

// typed is a text with the types of its tokens; nil: all 0.
type typed struct{ tokens, types []int32 }

// vectors computes texts in one step, and returns the vectors of all of their tokens.
func (h *harness) vectors(texts ...typed) [][][]float32 {
	h.t.Helper()
	var chunks []chunk
	for _, x := range texts {
		chunks = append(chunks, chunk{&sequence{tokens: x.tokens}, len(x.tokens), positions(0, len(x.tokens))})
	}
	h.begin(chunks...)
	for _, x := range texts {
		types := x.types
		if types == nil {
			types = make([]int32, len(x.tokens))
		}
		h.batch.Types = append(h.batch.Types, types...)
	}
	for i := range h.draws.Rows {
		h.draws.Rows[i] = backend.Draw{Hidden: true, Mask: -1, Allow: -1, Target: -1}
	}
	hidden := h.b.Spec().Hidden
	h.out.Logits, h.out.Hidden = nil, make([]float32, len(h.draws.Rows)*hidden)
	for _, err := range []error{h.b.Begin(&h.batch), h.b.Draw(&h.draws), h.b.End(&h.out)} {
		if err != nil {
			h.t.Fatal(err)
		}
	}
	var all [][][]float32
	at := 0
	for i, x := range texts {
		var rows [][]float32
		for range x.tokens {
			rows = append(rows, h.out.Hidden[at:at+hidden:at+hidden])
			at += hidden
		}
		all = append(all, rows)
		h.release(chunks[i].seq)
	}
	return all
}

// pool makes one vector of those of a text, as the engine does.
func pool(kind pooling.Kind, rows [][]float32) []float32 {
	v := slices.Clone(rows[0])
	for _, row := range rows[1:] {
		for i, x := range row {
			switch kind {
			case pooling.Mean:
				v[i] += x
			case pooling.Max:
				v[i] = max(v[i], x)
			case pooling.Last:
				v[i] = x
			}
		}
	}
	if kind == pooling.Mean {
		for i := range v {
			v[i] /= float32(len(rows))
		}
	}
	return v
}

// TestEncoders: every component of every vector is that of sentence-transformers, whose texts are far from each other.
func TestEncoders(t *testing.T) {
	eachExact(t, func(t *testing.T, open func() model.Device) {
		eachEncoder(t, func(t *testing.T, m *model.Model, plan *pooling.Plan, g encoderGolden) {
			for i, a := range g.Vectors {
				for _, b := range g.Vectors[:i] {
					if c := cosine(a, b); c >= 0.9 {
						t.Fatalf("two texts have a cosine of %v: a wrong network could pass", c)
					}
				}
			}
			h := newHarness(t, m, open(), model.Options{MaxTokens: m.Config.MaxSeqTokens}, 1)
			for i, tokens := range g.Tokens {
				rows := h.vectors(typed{tokens: tokens})[0]
				got := plan.Apply(nil, pool(plan.Kind, rows), pooling.Options{})
				comparePooled(t, g.Texts[i], got, g.Vectors[i])
			}
		})
	})
}

func comparePooled(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d components instead of %d", what, len(got), len(want))
	}
	for k, w := range want {
		if !(math.Abs(float64(got[k])-w) <= vectorTolerance) {
			t.Fatalf("%s: component %d is %v instead of %v", what, k, got[k], w)
		}
	}
}

func cosine(a, b []float64) float64 {
	dot, aa, bb := 0.0, 0.0, 0.0
	for i := range a {
		dot, aa, bb = dot+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return dot / math.Sqrt(aa*bb)
}

// TestEncoderInvariance: no bit of a vector depends on the other texts of a batch, on where they stand in it, on the places
// of blocks or on threads; and the types of tokens matter where a network has some.
func TestEncoderInvariance(t *testing.T) {
	for _, impl := range cpu.Impls() {
		t.Run(impl, func(t *testing.T) {
			eachEncoder(t, func(t *testing.T, m *model.Model, _ *pooling.Plan, g encoderGolden) {
				rng := rand.New(rand.NewPCG(3, uint64(len(g.Texts))))
				texts := encoderTexts(rng, m, g)
				total := 0
				for _, x := range texts {
					total += len(x.tokens)
				}
				o := model.Options{MaxTokens: total, NumBlocks: 2 + len(texts) + total/16}
				open := newCPU(t, impl, cpu.F32)
				alone := newHarness(t, m, open(), o, 1)
				var want [][][]float32
				for _, x := range texts {
					want = append(want, alone.vectors(x)[0])
				}
				for round := range 4 {
					shuffledTexts(t, newHarness(t, m, open(), o, uint64(round)), rng.Perm(len(texts)), texts, want)
				}
				last := texts[len(texts)-1]
				other := alone.vectors(typed{tokens: last.tokens})[0]
				if differ := !slices.Equal(other[0], want[len(texts)-1][0]); differ != (m.Config.Network.NumTypes > 1) {
					t.Errorf("token types make a difference: %v", differ)
				}
			})
		})
	}
}

// shuffledTexts computes all texts in one step, in the given order, and compares their vectors with those of each alone.
func shuffledTexts(t *testing.T, h *harness, order []int, texts []typed, want [][][]float32) {
	t.Helper()
	var batch []typed
	for _, i := range order {
		batch = append(batch, texts[i])
	}
	for k, rows := range h.vectors(batch...) {
		for p, row := range rows {
			if !slices.EqualFunc(row, want[order[k]][p], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
				t.Fatalf("text %d, token %d: %v beside others and %v alone", order[k], p, row[:4], want[order[k]][p][:4])
			}
		}
	}
}

// encoderTexts are the golden texts, and others that are as long as the network takes, the last with types.
func encoderTexts(rng *rand.Rand, m *model.Model, g encoderGolden) (texts []typed) {
	for _, tokens := range g.Tokens {
		texts = append(texts, typed{tokens: tokens})
	}
	most := m.Config.MaxSeqTokens
	for _, n := range []int{1, 2, most, most - 1} {
		x := typed{make([]int32, n), make([]int32, n)}
		for i := range x.tokens {
			x.tokens[i] = int32(rng.IntN(m.Config.VocabSize))
			if m.Config.Network.NumTypes > 1 {
				x.types[i] = int32(i % 2)
			}
		}
		texts = append(texts, x)
	}
	return texts
}

// TestEncoderNames: the tensors of BERT are found under each of the prefixes that checkpoints have.
func TestEncoderNames(t *testing.T) {
	const dir = "testdata/encoders/bge"
	want := openModel(t, os.DirFS(dir))
	for _, prefix := range []string{"bert.", "roberta.", ""} {
		config, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		fsys := fstest.MapFS{"config.json": {Data: config}, "model.safetensors": {Data: renamed(t, filepath.Join(dir, "model.safetensors"),
			func(name string) string { return prefix + name }, prefix+"embeddings.position_ids", "cls.predictions.bias")}}
		if got := openModel(t, fsys); got.Parameters() != want.Parameters() {
			t.Errorf("%q: %d parameters instead of %d", prefix, got.Parameters(), want.Parameters())
		}
	}
	for field, value := range map[string]any{"is_decoder": true, "position_embedding_type": "relative_key", "hidden_act": "mish"} {
		config := editConfig(t, "encoders/bge", func(doc map[string]any) { doc[field] = value })
		if _, err := model.ParseConfig(config); err == nil {
			t.Errorf("%s: %v is taken", field, fmt.Sprint(value))
		}
	}
}

// TestGTEScaling: the fixed scaling of gte-multilingual, of which transformers has none: the base is multiplied with the factor,
// and all frequencies are divided by its root (numbers of vLLM's ntk_scaling_rope.py, for heads of 8 and a factor of 8).
func TestGTEScaling(t *testing.T) {
	config := editConfig(t, "encoders/gte", func(doc map[string]any) {
		delete(doc, "rope_parameters")
		doc["architectures"], doc["rope_theta"], doc["rope_scaling"] = []string{"NewModel"}, 20000, map[string]any{"type": "ntk", "factor": 8.0}
	})
	c, err := model.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.594603557501, 0.029730177875, 0.001486508894, 7.4325445e-05} {
		if got := float64(c.Network.Ropes[0].InvFreq[i]); math.Abs(got/want-1) > 1e-6 {
			t.Errorf("frequency %d is %v instead of %v", i, got, want)
		}
	}
	config = editConfig(t, "encoders/gte", func(doc map[string]any) {
		doc["rope_parameters"] = map[string]any{"type": "ntk", "factor": 8.0, "mixed_b": 0.5}
	})
	if _, err := model.ParseConfig(config); err == nil {
		t.Error("mixed_b is taken")
	}
}
