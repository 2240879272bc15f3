package archive

import (
	"errors"
	"testing"

	"weir/trajectory"
)

// TestChangedByOthers changes a batch while another change of it is being prepared. The
// second change fails, and nothing is lost.
func TestChangedByOthers(t *testing.T) {
	s := newTestArchive(t)
	r := s.mustLog("t", "m", batch("train", group("", `{"reward":1}`, `{"reward":2}`)))
	var old *Batch
	if err := s.View("t", func(v *View) (err error) {
		old, err = v.Batch("m", r.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	one := 1.0
	if n, err := s.Archive.Delete(t.Context(), "t", "m", &Filter{MaxReward: &one}, false); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	all := func(*Contents, *Row, *trajectory.Trajectory) (bool, error) { return true, nil }
	if err := s.rewrite(t.Context(), "t", old, all); !errors.Is(err, ErrChanged) && !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err) // ErrDamaged: its blocks are removed already
	}
	equal(t, s.texts("t", "m", &Filter{}), []string{"group 0 {}", `0/1 {"reward":2}`})
}

// TestReplacedIsSweptLater ends the process after a change and before the sweeper. The next
// start removes the old blocks.
func TestReplacedIsSweptLater(t *testing.T) {
	s := newTestArchive(t)
	r := s.mustLog("t", "m", batch("train", group("", `{"reward":1}`, `{"reward":2}`)))
	s.Archive.stop()
	s.Archive.ended.Wait() // no sweeper
	one := 1.0
	if n, err := s.Archive.Delete(t.Context(), "t", "m", &Filter{MaxReward: &one}, false); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if s.keys(tagBlock) != 6 || s.keys(tagMarker) != 1 {
		t.Errorf("%d blocks, %d markers", s.keys(tagBlock), s.keys(tagMarker))
	}
	s.reopen()
	s.until("swept", func() bool { return s.keys(tagBlock) == 3 && s.keys(tagMarker) == 0 })
	equal(t, s.texts("t", "m", &Filter{}), []string{"group 0 {}", `0/1 {"reward":2}`})
	s.Archive.stop()
	s.Archive.ended.Wait()
	if _, err := s.DeleteBatch(t.Context(), "t", "m", r.ID); err != nil {
		t.Fatal(err)
	}
	s.reopen()
	s.until("swept", func() bool { return s.keys(tagBlock) == 0 && s.keys(tagMarker) == 0 })
}
