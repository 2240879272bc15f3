package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// classifierGolden is what tools/golden/encoders.py writes of a classifier: for each pair a number for each class.
type classifierGolden struct {
	Pairs  [][2]string `json:"pairs"`
	Tokens [][]int     `json:"tokens"`
	Types  [][]int     `json:"types"`
	Logits [][]float64 `json:"logits"`
	Scores [][]float64 `json:"scores"`
}

// TestServeClassifiers: cross-encoders whose head is in their network give the scores of sentence-transformers for
// pairs of texts, and classifiers those for their tokens.
func TestServeClassifiers(t *testing.T) {
	t.Parallel()
	list, err := filepath.Glob("../../model/testdata/classifiers/*/golden.json")
	if err != nil || len(list) < 6 {
		t.Fatalf("%d folders, %v", len(list), err)
	}
	scored, typed := 0, 0
	for _, name := range list {
		var g classifierGolden
		data, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(data, &g)
		}
		if err != nil || len(g.Pairs) < 4 || len(g.Scores) != len(g.Pairs) {
			t.Fatalf("%s: %v", name, err)
		}
		dir := filepath.Dir(name)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			url, stop := startServe(t, dir)
			defer stop()
			if len(g.Scores[0]) == 1 {
				scored++
				checkPairs(t, url, &g)
			}
			if slices.Max(slices.Concat(g.Types...)) > 0 {
				typed++
				return // tokens that a client sends are all of one type
			}
			probs := askClasses(t, url, g.Tokens)
			for i, want := range g.Scores {
				compareScores(t, fmt.Sprintf("classes of pair %d", i), probs[i], want)
			}
		})
	}
	if scored < 4 || typed == 0 {
		t.Errorf("%d models score, %d have token types", scored, typed)
	}
}

// checkPairs compares the scores and logits of pairs, asked for together, and the scores of each asked for alone.
func checkPairs(t *testing.T, url string, g *classifierGolden) {
	t.Helper()
	got, tokens := askScores(t, url, g.Pairs, nil)
	compareScores(t, "scores", got, slices.Concat(g.Scores...))
	if want := len(slices.Concat(g.Tokens...)); tokens != want {
		t.Errorf("%d tokens, want %d", tokens, want)
	}
	for i := range g.Pairs {
		if alone, _ := askScores(t, url, g.Pairs[i:i+1], nil); alone[0] != got[i] {
			t.Errorf("pair %d has the score %v alone, and %v among others", i, alone[0], got[i])
		}
	}
	got, _ = askScores(t, url, g.Pairs, map[string]any{"use_activation": false})
	compareScores(t, "logits", got, slices.Concat(g.Logits...))
}

// askClasses asks a server for the numbers of the classes of prompts.
func askClasses(t *testing.T, url string, prompts [][]int) (all [][]float64) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"input": prompts})
	code, answer, _ := do(t, http.DefaultClient, "POST", url+"/classify", string(body))
	var got struct {
		Data []struct {
			Probs []float64 `json:"probs"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != 200 || len(got.Data) != len(prompts) {
		t.Fatalf("%d %v %s", code, err, answer)
	}
	for _, d := range got.Data {
		all = append(all, d.Probs)
	}
	return all
}
