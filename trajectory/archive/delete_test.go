package archive

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDelete deletes random selections. What is selected is gone, and the rest is as it was
// (docs/interface/trajectories.md, case T#30).
func TestDelete(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 6 {
		s := newTestArchive(t)
		all := logRandom(s, r)
		f := randomFilter(r, all)
		var rest []string
		selected := 0
		for _, o := range all {
			if o.selected(f) {
				selected++
			} else {
				rest = append(rest, o.text)
			}
		}
		trajectories := func() (list []string) {
			for _, text := range s.texts("t", "m", &Filter{}) {
				if at, text, _ := strings.Cut(text, " "); at != "group" {
					list = append(list, text)
				}
			}
			return list
		}
		before := len(trajectories())
		if n, err := s.Archive.Delete(t.Context(), "t", "m", f, true); err != nil || n != selected || len(trajectories()) != before {
			t.Fatalf("dry: %d %v, want %d", n, err, selected)
		}
		if n, err := s.Archive.Delete(t.Context(), "t", "m", f, false); err != nil || n != selected {
			t.Fatalf("%d %v, want %d", n, err, selected)
		}
		equal(t, trajectories(), rest)
		s.until("swept", func() bool { return s.keys(tagMarker) == 0 })
		s.reopen()
		equal(t, trajectories(), rest)
	}
}

// TestDeleteBatchAndModel deletes a batch and a model, of one tenant only.
func TestDeleteBatchAndModel(t *testing.T) {
	s := newTestArchive(t)
	a := s.mustLog("t", "m", bigBody(1))
	s.mustLog("t", "m", batch("train", group("", `{"reward":5}`)))
	s.mustLog("t", "n", batch("train", group("", `{"reward":6}`)))
	s.mustLog("u", "m", batch("train", group("", `{"reward":7}`)))
	if _, err := s.DeleteBatch(t.Context(), "u", "m", a.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if n, err := s.DeleteBatch(t.Context(), "t", "m", a.ID); err != nil || n != a.Counts {
		t.Errorf("%+v %v", n, err)
	}
	if _, err := s.DeleteBatch(t.Context(), "t", "m", a.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	equal(t, s.texts("t", "m", &Filter{}), []string{"group 0 {}", `0/0 {"reward":5}`})
	s.until("swept", func() bool { return s.keys(tagMarker) == 0 && s.keys(tagBlock) == 9 })

	for range removeAtOnce/100 + 3 {
		s.mustLog("t", "m", batch("train", group("", `{}`)))
	}
	if n, err := s.DeleteModel(t.Context(), "t", "m"); err != nil || n.Trajectories != removeAtOnce/100+4 {
		t.Errorf("%+v %v", n, err)
	}
	if _, err := s.DeleteModel(t.Context(), "t", "m"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if len(s.texts("t", "m", &Filter{})) != 0 || len(s.texts("t", "n", &Filter{})) != 2 || len(s.texts("u", "m", &Filter{})) != 2 {
		t.Error("too much or too little is gone")
	}
	s.until("swept", func() bool { return s.keys(tagMarker) == 0 && s.keys(tagBlock) == 6 })
	if _, err := s.Archive.Delete(t.Context(), "t", "m", &Filter{}, false); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
