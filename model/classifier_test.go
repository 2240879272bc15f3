package model_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"weir/model"
	"weir/pooling"
)

// classifierGolden is what the cross-encoder of sentence-transformers makes of pairs of texts (tools/golden/encoders.py).
type classifierGolden struct {
	Pairs  [][2]string `json:"pairs"`
	Tokens [][]int32   `json:"tokens"`
	Types  [][]int32   `json:"types"`
	Logits [][]float64 `json:"logits"`
	Scores [][]float64 `json:"scores"`
}

func classifiers(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("testdata/classifiers/*/golden.json")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d folders, %v", len(list), err)
	}
	for i := range list {
		list[i] = filepath.Dir(list[i])
	}
	return list
}

// TestClassifiers: the logits and scores of pairs are those of sentence-transformers.
func TestClassifiers(t *testing.T) {
	eachExact(t, func(t *testing.T, open func() model.Device) {
		for _, dir := range classifiers(t) {
			t.Run(filepath.Base(dir), func(t *testing.T) {
				var g classifierGolden
				b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
				if err == nil {
					err = json.Unmarshal(b, &g)
				}
				if err != nil || len(g.Scores) != len(g.Pairs) || len(g.Pairs) < 4 {
					t.Fatalf("%d pairs, %v", len(g.Pairs), err)
				}
				m := openModel(t, os.DirFS(dir))
				plan, err := pooling.Classifier(os.DirFS(dir), m.Config.Architecture, m.Config.Hidden, m.Extra)
				if err != nil {
					t.Fatal(err)
				}
				h := newHarness(t, m, open(), model.Options{MaxTokens: m.Config.MaxSeqTokens}, 1)
				for i, tokens := range g.Tokens {
					x := typed{tokens: tokens}
					if m.Config.Network.NumTypes > 1 {
						x.types = g.Types[i]
					}
					v := pool(plan.Kind, h.vectors(x)[0])
					comparePooled(t, g.Pairs[i][0]+": logits", plan.Apply(nil, v, pooling.Options{Raw: true}), g.Logits[i])
					comparePooled(t, g.Pairs[i][0]+": scores", plan.Apply(nil, v, pooling.Options{}), g.Scores[i])
				}
			})
		}
	})
}

// TestExtra: a tensor that is not the network's is read if it is there, and one that is not finite or no numbers is refused.
func TestExtra(t *testing.T) {
	const dir = "testdata/classifiers/cross-qwen3"
	m := openModel(t, os.DirFS(dir))
	x, shape, err := m.Extra("score.weight")
	if err != nil || len(x) != m.Config.Hidden || shape[0] != 1 || shape[1] != len(x) {
		t.Errorf("%d numbers, shape %v, %v", len(x), shape, err)
	}
	if _, _, err := m.Extra("score.bias"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no tensor: %v", err)
	}
}

// TestHeadless: a network without its head is known by the names that transformers gives it, and no other.
func TestHeadless(t *testing.T) {
	for architecture, known := range map[string]bool{"Qwen3Model": true, "Qwen3ForSequenceClassification": true, "Gemma3TextModel": true, "Gemma3TextForSequenceClassification": true,
		"GraniteModel": true, "NoSuchModel": false, "Qwen3ForTokenClassification": false, "Model": false} {
		folder := "encoders/qwen3"
		if architecture[0] == 'G' {
			folder = "encoders/embeddinggemma"
		}
		c, err := model.ParseConfig(editConfig(t, folder, func(doc map[string]any) { doc["architectures"] = []string{architecture} }))
		if known && (err != nil || c.Network.Head != model.NoHead || c.TiedHead || c.Architecture != architecture) || !known && !errors.Is(err, model.ErrUnsupported) {
			t.Errorf("%s: %s, head %q, tied %v, %v", architecture, c.Architecture, c.Network.Head, c.TiedHead, err)
		}
	}
}

// TestClassifierErrors: a head that is not whole, or settings that are not known, are refused with their name.
func TestClassifierErrors(t *testing.T) {
	const dir = "testdata/classifiers/"
	for what, c := range map[string]struct {
		folder string
		tensor string // is left out
		field  string
		value  any
		text   string
	}{
		"no pooler":       {folder: "cross-bert", tensor: "bert.pooler.dense.weight", text: "there is no tensor pooler.dense.weight"},
		"no bias":         {folder: "cross-roberta", tensor: "classifier.out_proj.bias", text: "there is no tensor classifier.out_proj.bias"},
		"no score":        {folder: "cross-llama", tensor: "score.weight", text: "there is no tensor score.weight"},
		"no norm":         {folder: "cross-modernbert", tensor: "head.norm.weight", text: "there is no tensor head.norm.weight"},
		"labels":          {folder: "cross-llama", field: "id2label", value: map[string]string{"0": "a"}, text: "names 1 labels, but the head of LlamaForSequenceClassification has 4 rows"},
		"pooling":         {folder: "cross-modernbert", field: "classifier_pooling", value: "max", text: "is neither cls nor mean"},
		"activation":      {folder: "cross-modernbert", field: "classifier_activation", value: "mish", text: "is none of gelu, relu and tanh"},
		"last activation": {folder: "cross-bert", field: "sentence_transformers", value: map[string]string{"activation_fn": "torch.nn.modules.activation.ELU"}, text: "is unknown"},
	} {
		m := openModel(t, os.DirFS(dir+c.folder))
		config := editConfig(t, "classifiers/"+c.folder, func(doc map[string]any) {
			if c.field != "" {
				doc[c.field] = c.value
			}
		})
		extra := func(name string) ([]float32, []int, error) {
			if name == c.tensor {
				return nil, nil, fs.ErrNotExist
			}
			return m.Extra(name)
		}
		_, err := pooling.Classifier(fstest.MapFS{"config.json": {Data: config}}, m.Config.Architecture, m.Config.Hidden, extra)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestClassifierActivations: what the last layer does to logits, by what the folder says.
func TestClassifierActivations(t *testing.T) {
	for _, c := range []struct {
		folder string
		field  string
		value  any
		saved  string // the activation_fn of config_sentence_transformers.json
		want   pooling.Activation
	}{
		{folder: "cross-qwen3", want: pooling.Sigmoid},
		{folder: "cross-llama", want: pooling.Softmax},
		{folder: "cross-llama", field: "problem_type", value: "multi_label_classification", want: pooling.Sigmoid},
		{folder: "cross-llama", field: "problem_type", value: "single_label_classification", want: pooling.Softmax},
		{folder: "cross-qwen3", field: "problem_type", value: "regression", want: pooling.Identity},
		{folder: "cross-qwen3", field: "sbert_ce_default_activation_function", value: "torch.nn.modules.linear.Identity", want: pooling.Identity},
		{folder: "cross-qwen3", field: "sentence_transformers", value: map[string]string{"activation_fn": "torch.nn.modules.linear.Identity"}, want: pooling.Identity},
		{folder: "cross-qwen3", field: "sentence_transformers", value: map[string]string{"activation_fn": "torch.nn.Tanh"}, saved: "torch.nn.modules.linear.Identity", want: pooling.Identity},
		{folder: "cross-qwen3", field: "sentence_transformers", value: map[string]string{"activation_fn": "my.own.Function"}, want: pooling.Sigmoid},
	} {
		dir := "testdata/classifiers/" + c.folder
		m := openModel(t, os.DirFS(dir))
		fsys := fstest.MapFS{"config.json": {Data: editConfig(t, "classifiers/"+c.folder, func(doc map[string]any) {
			if c.field != "" {
				doc[c.field] = c.value
			}
		})}}
		if c.saved != "" {
			fsys["config_sentence_transformers.json"] = &fstest.MapFile{Data: []byte(`{"model_type": "CrossEncoder", "activation_fn": "` + c.saved + `"}`)}
		}
		plan, err := pooling.Classifier(fsys, m.Config.Architecture, m.Config.Hidden, m.Extra)
		if err != nil || plan.Layers[len(plan.Layers)-1].Activation != c.want || plan.Labels != len(plan.Apply(nil, make([]float32, m.Config.Hidden), pooling.Options{})) {
			t.Errorf("%+v: %+v, %v", c, plan, err)
		}
	}
	if pooling.IsClassifier("BertModel") {
		t.Error("BertModel has no head of a classifier")
	}
}
