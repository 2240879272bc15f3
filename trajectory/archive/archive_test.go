package archive

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"weir/store"
	"weir/trajectory"
)

// TestOpening checks the errors of an archive that is being opened and of one whose store is
// closed.
func TestOpening(t *testing.T) {
	cfg := store.DefaultConfig(t.TempDir())
	cfg.Log = slog.New(slog.DiscardHandler)
	db, err := store.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(db, cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	s := &testArchive{t: t, db: db, Archive: a}
	s.until("open", func() bool {
		err := a.Err()
		if err != nil && !errors.Is(err, store.ErrOpening) {
			t.Fatal(err)
		}
		return err == nil
	})
	u, err := a.Begin(context.Background(), "t", "m")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Group(&trajectory.Group{Text: trajectory.Value("{}")}); err != nil {
		t.Fatal(err)
	}
	s.close()
	if _, err := a.Begin(context.Background(), "t", "m"); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if _, err := u.Commit(Meta{Split: "s"}); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	u.Abort()
	if err := a.View("t", func(*View) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
