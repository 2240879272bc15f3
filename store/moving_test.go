package store

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// A collection does not begin while the disk has too little space for the values that it moves,
// and less space is enough when more of them were deleted.
func TestMovingNeedsSpace(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.ValueLogFile, cfg.MinFree = 1<<20, 32<<20 // 8 MiB are for deletions
	var free atomic.Uint64
	free.Store(1 << 40)
	cfg.free = func(string) (uint64, error) { return free.Load(), nil }
	d := open(t, cfg)
	const size, n = 50_000, 100 // some value logs
	for i := range n {
		set(t, d, fmt.Sprintf("k%03d", i), strings.Repeat("x", size))
	}
	remove := func(from, to int) {
		t.Helper()
		if err := d.Update(t.Context(), func(tx *Tx) error {
			for i := from; i < to; i++ {
				tx.Delete(fmt.Appendf(nil, "k%03d", i))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Compact(); err != nil { // the newest log becomes an older one
		t.Fatal(err)
	}
	before := globbed(cfg.Dir, "*.vlog")
	remove(0, 1)
	moves := uint64(cfg.ValueLogFile) - 4*size // but for what was deleted, and the last value of the log
	free.Store(cfg.MinFree/4 + moves)
	if err := d.Compact(); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "to move the values") {
		t.Errorf("with space for less than one log: %v", err)
	}
	if after := globbed(cfg.Dir, "*.vlog"); after[0] != before[0] {
		t.Errorf("values were moved: there were %v, now %v", before, after)
	}
	if err := d.collect(0.9); err != nil {
		t.Errorf("a collection that moves nothing, because there is too little garbage: %v", err)
	}
	remove(1, 10)
	if err := d.Compact(); err != nil {
		t.Errorf("with space for what is left of the log: %v", err)
	}
	if after := globbed(cfg.Dir, "*.vlog"); after[0] == before[0] {
		t.Errorf("no values were moved: there were %v, now %v", before, after)
	}
	if got := get(t, d, "k011"); len(got) != size {
		t.Errorf("what was not deleted has %d bytes", len(got))
	}
}

// Writes are refused while the disk has too little space for the compaction that they may bring
// about, whatever Config.MinFree says. Deletions are accepted.
func TestWritesNeedSpaceToCompact(t *testing.T) {
	cfg := testConfig(t.TempDir())
	var free atomic.Uint64
	free.Store(1 << 40)
	cfg.free = func(string) (uint64, error) { return free.Load(), nil }
	d := open(t, cfg)
	for i := range 1000 {
		set(t, d, fmt.Sprintf("k%03d", i), strings.Repeat(fmt.Sprint(i), 500))
	}
	if err := d.Compact(); err != nil { // the memtables become tables
		t.Fatal(err)
	}
	upper := uint64(d.keeper.upper.Load())
	if upper == 0 {
		t.Fatal("there are no tables")
	}
	write := func(set bool) error {
		return d.Update(t.Context(), func(tx *Tx) error {
			if set {
				tx.Set([]byte("k"), []byte("v"))
			} else {
				tx.Delete([]byte("k001"))
			}
			return nil
		})
	}
	free.Store(4*uint64(cfg.MemTable) + upper - 1)
	if err := write(true); !errors.Is(err, ErrFull) {
		t.Errorf("a write: %v", err)
	}
	if err := write(false); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	free.Store(1 << 40)
	if err := write(true); err != nil {
		t.Errorf("a write with space: %v", err)
	}
}
