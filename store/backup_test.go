package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBackup(t *testing.T) {
	from := open(t, testConfig(t.TempDir()))
	for i := range 50 {
		set(t, from, fmt.Sprintf("k%02d", i), strings.Repeat(fmt.Sprint(i), 1+i*1000))
	}
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	if err := from.Update(context.Background(), func(tx *Tx) error { tx.SetUntil([]byte("soon"), []byte("x"), soon); return nil }); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	b := NewBackup(&file)
	if n, err := b.Add("one", from); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := b.Add("two", open(t, testConfig(t.TempDir()))); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	restore := func(data []byte) (*DB, uint64, error) {
		to := map[string]*DB{"one": open(t, testConfig(t.TempDir())), "two": open(t, testConfig(t.TempDir()))}
		n, err := Restore(context.Background(), bytes.NewReader(data), func(name string) (*DB, error) { return to[name], nil })
		return to["one"], n, err
	}
	to, n, err := restore(file.Bytes())
	if n != 51 || err != nil || !slices.Equal(all(t, from, Range{}), all(t, to, Range{})) {
		t.Fatalf("%d records, %v", n, err)
	}
	if err := to.View(func(r *Reader) error {
		item, err := r.txn.Get([]byte("soon"))
		if err == nil && item.ExpiresAt() != uint64(soon.Unix()) {
			t.Errorf("expires at %d", item.ExpiresAt())
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if _, err := Restore(context.Background(), bytes.NewReader(file.Bytes()), func(string) (*DB, error) { return to, nil }); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("into what is not empty: %v", err)
	}
	for _, cut := range []int{0, 5, len(backupMagic), len(backupMagic) + 3, file.Len() / 2, file.Len() - 1, file.Len() - 10} {
		if _, _, err := restore(file.Bytes()[:cut]); !errors.Is(err, ErrBackup) {
			t.Errorf("cut to %d of %d bytes: %v", cut, file.Len(), err)
		}
	}
	bad := bytes.Clone(file.Bytes())
	bad[len(bad)/2] ^= 1
	if _, _, err := restore(bad); !errors.Is(err, ErrBackup) {
		t.Errorf("a flipped bit: %v", err)
	}
}

func TestVerify(t *testing.T) {
	d := open(t, testConfig(t.TempDir()))
	for i := range 10 {
		set(t, d, fmt.Sprint("k", i), "v")
	}
	// A value that is whole for badger, and wrong.
	txn := d.gate.db.NewTransaction(true)
	if err := errors.Join(txn.Set([]byte("k3"), seal([]byte("k4"), []byte("v"))), txn.Commit()); err != nil {
		t.Fatal(err)
	}
	var bad []string
	n, err := d.Verify(func(err error) { bad = append(bad, err.Error()) })
	if n != 9 || err != nil || len(bad) != 1 || !strings.Contains(bad[0], "k3") {
		t.Errorf("%d whole, %v: %q", n, err, bad)
	}
	if err := d.View(func(r *Reader) error { _, err := r.Get([]byte("k3")); return err }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Get: %v", err)
	}
	if err := d.View(func(r *Reader) error {
		return r.Scan(Range{Prefix: []byte("k")}, func(_, _ []byte) bool { return true })
	}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Scan: %v", err)
	}
	damaged := 0
	if err := d.View(func(r *Reader) error {
		return r.Scan(Range{Prefix: []byte("k"), Damaged: func([]byte, error) { damaged++ }}, func(_, _ []byte) bool { return true })
	}); err != nil || damaged != 1 {
		t.Errorf("Damaged: %d, %v", damaged, err)
	}
	var file bytes.Buffer
	b := NewBackup(&file)
	if n, err := b.Add("x", d); n != 1 || err != nil {
		t.Errorf("backup: %d left out, %v", n, err)
	}
}

// TestPanicOfAReader: a panic of a caller is not taken for damage.
func TestPanicOfAReader(t *testing.T) {
	d := open(t, testConfig(t.TempDir()))
	set(t, d, "k", "v")
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v", p)
		}
	}()
	_ = d.View(func(r *Reader) error {
		return r.Scan(Range{Prefix: []byte("k")}, func(_, _ []byte) bool { panic("mine") })
	})
}

func FuzzRestore(f *testing.F) {
	var file bytes.Buffer
	b := NewBackup(&file)
	b.block([]byte("Done"))
	b.block([]byte("R\x01k\x00\x01v"))
	b.rows = 1
	_ = b.Close()
	f.Add(file.Bytes())
	f.Add(file.Bytes()[:30])
	cfg := testConfig(f.TempDir())
	d := open(f, cfg)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Restore(context.Background(), bytes.NewReader(data), func(string) (*DB, error) { return d, nil })
	})
}

// TestReopenBetweenReaders: a reader that stays puts off Compact, and disturbs nobody else.
func TestReopenBetweenReaders(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.drainTime = 20 * time.Millisecond
	d := open(t, cfg)
	set(t, d, "k", "v")
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() { done <- d.View(func(*Reader) error { close(inside); <-leave; return nil }) }()
	<-inside
	if err := d.Compact(); !errors.Is(err, ErrBusy) {
		t.Errorf("with a reader that stays: %v", err)
	}
	set(t, d, "k", "w") // nothing has changed for other readers and writers
	if got := get(t, d, "k"); got != "w" {
		t.Errorf("k = %s", got)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := d.Compact(); err != nil {
		t.Errorf("without: %v", err)
	}
}
