package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestServeClassifiers: a server with a cross-encoder gives the scores of sentence-transformers for pairs of texts, which
// are put together by its tokenizer, with the same numbers of tokens. A model of several labels has no score for a pair.
func TestServeClassifiers(t *testing.T) {
	t.Parallel()
	list, err := filepath.Glob("../../model/testdata/classifiers/*/golden.json")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d folders, %v", len(list), err)
	}
	scored := 0
	for _, name := range list {
		dir := filepath.Dir(name)
		var g struct {
			Pairs  [][2]string `json:"pairs"`
			Tokens [][]int     `json:"tokens"`
			Scores [][]float64 `json:"scores"`
		}
		b, err := os.ReadFile(name)
		if err = errors.Join(err, json.Unmarshal(b, &g)); err != nil {
			t.Fatal(err)
		}
		if len(g.Scores[0]) > 1 {
			continue
		}
		scored++
		t.Run(filepath.Base(dir), func(t *testing.T) {
			url, stop := startServe(t, append(exact, dir)...)
			defer stop()
			want, tokens := []float64{}, 0
			for i, s := range g.Scores {
				want, tokens = append(want, s[0]), tokens+len(g.Tokens[i])
			}
			got, counted := askScores(t, url, g.Pairs, nil)
			compareScores(t, "together", got, want)
			if counted != tokens {
				t.Errorf("%d tokens, want %d", counted, tokens)
			}
			for i := range g.Pairs {
				alone, _ := askScores(t, url, g.Pairs[i:i+1], nil)
				if alone[0] != got[i] {
					t.Errorf("pair %d has the score %v alone, and %v among others", i, alone[0], got[i])
				}
			}
		})
	}
	if scored < 4 {
		t.Errorf("%d models have a single label", scored)
	}
}
