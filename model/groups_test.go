package model_test

import (
	"fmt"
	"slices"
	"testing"

	"weir/backend"
	"weir/model"
)

// layout describes a shape's groups: how far each sees, and which caches it has.
func layout(s model.Shape) (out []string) {
	for g, group := range s.Spec.Groups {
		caches := make([]int, 0, len(s.KV))
		for i, p := range s.Places {
			if p.Group == g {
				if p.Index != len(caches) {
					return []string{fmt.Sprintf("cache %d is number %d of group %d", i, p.Index, g)}
				}
				caches = append(caches, i)
			}
		}
		out = append(out, fmt.Sprint(group, caches))
	}
	return out
}

// TestGroupKV: layers that look back equally far share block tables, in groups of about equal size.
func TestGroupKV(t *testing.T) {
	all, window, chunk := backend.KVGroup{}, backend.KVGroup{Window: 128}, backend.KVGroup{Chunk: 512}
	repeat := func(pattern []backend.KVGroup, n int) []backend.KVGroup {
		return slices.Repeat(pattern, n/len(pattern)+1)[:n]
	}
	for _, c := range []struct {
		name  string
		sees  []backend.KVGroup
		below int
		want  []string
	}{
		{"one kind that sees all", repeat([]backend.KVGroup{all}, 3), 1000, nil},
		{"windows everywhere", repeat([]backend.KVGroup{window}, 3), 1000, []string{"{128 0} [0 1 2]"}},
		{"windows that see all there is", repeat([]backend.KVGroup{window, all}, 4), 128, nil},
		{"every other layer", repeat([]backend.KVGroup{window, all}, 6), 1000, []string{"{128 0} [0 2 4]", "{0 0} [1 3 5]"}},
		{"three of four", repeat([]backend.KVGroup{chunk, chunk, chunk, all}, 8), 1000,
			[]string{"{0 512} [0 1]", "{0 512} [2 4]", "{0 512} [5 6]", "{0 0} [3 7]"}},
		{"unequal numbers", repeat([]backend.KVGroup{window, window, window, window, window, all}, 26), 1000,
			[]string{"{128 0} [0 1 2 3]", "{128 0} [4 6 7 8]", "{128 0} [9 10 12 13]", "{128 0} [14 15 16 18]", "{128 0} [19 20 21 22]", "{128 0} [24 25]", "{0 0} [5 11 17 23]"}},
		{"three kinds", []backend.KVGroup{all, window, chunk, window}, 1000, []string{"{0 0} [0]", "{128 0} [1]", "{128 0} [3]", "{0 512} [2]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := model.Shape{KV: model.UniformKV(len(c.sees), 4, 2, 8), Sees: c.sees}
			s.GroupKV(c.below)
			if got := layout(s); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
			if (s.Pieces&model.PieceGroups != 0) != (len(c.want) > 0) {
				t.Errorf("pieces %v", s.Pieces)
			}
		})
	}
	// One layer that sees all, among many: not as many tables as layers.
	s := model.Shape{KV: model.UniformKV(60, 4, 2, 8), Sees: repeat([]backend.KVGroup{window}, 60)}
	s.Sees[30] = all
	s.GroupKV(1000)
	if n := len(s.Spec.Groups); n > 16 {
		t.Errorf("%d groups", n)
	}
}
