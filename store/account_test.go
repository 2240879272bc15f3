package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestAccountText: an account is read as it was written, and a changed one is not.
func TestAccountText(t *testing.T) {
	a := &account{format: accountFormat, serial: 7, written: time.Unix(1e9, 5).UTC(), state: stateRunning,
		manifest: manifestEntry{172, 1, 2, 3}, tables: map[uint64]tableEntry{5: {1, 20, 30}, 4: {0, 9, 8}},
		logs: []logEntry{{"00002.mem", 50, 100, 0}, {"000001.vlog", 60, 60, 9}}, going: []string{"000003.vlog"}}
	text := a.text()
	b, err := parseAccount(text)
	if err != nil || len(text)%4096 != 0 || !bytes.Equal(b.text(), text) {
		t.Fatalf("%v: %+v", err, b)
	}
	for i := range len(bytes.TrimRight(text, "\n")) {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		if _, err := parseAccount(bad); !errors.Is(err, errAccount) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := parseAccount(text[:i]); !errors.Is(err, errAccount) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
}

// TestAccountCopies: one copy of the account is enough, two damaged ones are refused, and so is
// a newer format. A database without an account, as older versions left it, gets one.
func TestAccountCopies(t *testing.T) {
	cfg := testConfig(t.TempDir())
	write := func() {
		d := open(t, cfg)
		set(t, d, "k", "v")
		closeDB(t, d)
	}
	check := func(want error) {
		t.Helper()
		d, err := Open(cfg)
		if !errors.Is(err, want) {
			t.Fatalf("opening: %v, want %v", err, want)
		}
		if err == nil {
			if got := get(t, d, "k"); got != "v" {
				t.Errorf("k = %s", got)
			}
			closeDB(t, d)
		}
	}
	path := func(i int) string { return filepath.Join(cfg.Dir, accountNames[i]) }
	write()
	for i := range accountNames {
		for _, damage := range []func() error{
			func() error { return os.Remove(path(i)) },
			func() error { return os.Truncate(path(i), 100) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			check(nil)
		}
	}
	newer := &account{format: accountFormat + 1}
	if err := os.WriteFile(path(0), newer.text(), 0o600); err != nil {
		t.Fatal(err)
	}
	check(ErrFormat)
	for i := range accountNames {
		if err := os.WriteFile(path(i), []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check(ErrDamaged)
	for i := range accountNames {
		if err := os.Remove(path(i)); err != nil {
			t.Fatal(err)
		}
	}
	check(nil)
	if a, err := readAccount(cfg.Dir); err != nil || a.state != stateClosed || len(a.tables) == 0 {
		t.Errorf("the account of an older database: %+v, %v", a, err)
	}
}

// TestLostManifest: a MANIFEST that is missing or cut, with an account or without, destroys
// nothing: the database is refused, and repair brings back everything.
func TestLostManifest(t *testing.T) {
	for _, withAccount := range []bool{true, false} {
		for _, left := range []int64{-1, 0, 18, 40} {
			testLostManifest(t, withAccount, left)
		}
	}
}

// testLostManifest leaves so many bytes of the MANIFEST, or with -1 none and no file.
func testLostManifest(t *testing.T, withAccount bool, left int64) {
	t.Helper()
	cfg := testConfig(filepath.Join(t.TempDir(), "db"))
	d := open(t, cfg)
	set(t, d, "a", "1")
	set(t, d, "gone", "1")
	closeDB(t, d)
	d = open(t, cfg)
	if err := d.Update(t.Context(), func(tx *Tx) error { tx.Delete([]byte("gone")); return nil }); err != nil {
		t.Fatal(err)
	}
	set(t, d, "b", strings.Repeat("x", 10_000))
	closeDB(t, d)
	path := filepath.Join(cfg.Dir, manifestName)
	if left < 0 {
		must(0, os.Remove(path))
	} else {
		must(0, os.Truncate(path, left))
	}
	if !withAccount {
		must(0, os.Remove(filepath.Join(cfg.Dir, accountNames[0])))
		must(0, os.Remove(filepath.Join(cfg.Dir, accountNames[1])))
	}
	tables := len(globbed(cfg.Dir, "*.sst"))
	if _, err := Open(cfg); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), manifestName) {
		t.Fatalf("%d bytes left: opening: %v", left, err)
	}
	if n := len(globbed(cfg.Dir, "*.sst")); n != tables || n == 0 {
		t.Errorf("%d tables of %d are left", n, tables)
	}
	if rep, err := Repair(cfg); err != nil || rep.Rows != 2 || len(rep.Lost) > 0 {
		t.Fatalf("%d bytes left: repair: %+v, %v", left, rep, err)
	}
	d = open(t, cfg)
	if get(t, d, "a") != "1" || len(get(t, d, "b")) != 10_000 || get(t, d, "gone") != "-" {
		t.Errorf("%d bytes left: not everything is there", left)
	}
}

// TestNothingToRepair: repair leaves a database alone that is whole.
func TestNothingToRepair(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "db"))
	d := open(t, cfg)
	set(t, d, "a", "1")
	closeDB(t, d)
	rep, err := Repair(cfg)
	if err != nil || rep.Rows != 1 || rep.Aside != "" || len(rep.Faults) > 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	open(t, cfg)
	if _, err := Repair(cfg); !errors.Is(err, ErrLocked) {
		t.Errorf("beside a server: %v", err)
	}
}

// TestIdleAccount: while nothing changes, the account is not written.
func TestIdleAccount(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.accountEvery = 1 << 40
	d := open(t, cfg)
	serial := func() uint64 {
		t.Helper()
		if err := d.keeper.tick(); err != nil {
			t.Fatal(err)
		}
		return d.keeper.last.serial
	}
	before := serial()
	if serial() != before {
		t.Error("it was written although nothing had changed")
	}
	set(t, d, "k", "v")
	if serial() != before+1 {
		t.Error("it was not written after an update")
	}
}

// TestRotatedEnds: the account has the right ends of logs that were closed since it was
// written last, and finds them without reading the logs from their beginnings.
func TestRotatedEnds(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.accountEvery = time.Hour
	d := open(t, cfg)
	for i := 0; ; i++ {
		if mem, _ := d.logs.positions(); mem.id > 2 {
			break
		}
		set(t, d, fmt.Sprint("k", i), strings.Repeat("v", 500))
	}
	closed := 0
	mem, _ := d.logs.positions()
	for _, path := range globbed(cfg.Dir, "*.mem") { // badger deletes them one after the other
		name := filepath.Base(path)
		id, err := strconv.Atoi(strings.TrimSuffix(name, ".mem"))
		f, opened := os.Open(path)
		if err != nil || opened != nil || id == mem.id {
			continue
		}
		end := walk(f, logHeader)
		_ = f.Close()
		if end == logHeader {
			continue // badger empties a file before it deletes it
		}
		closed++
		if got := d.logs.rotatedEnd(id); got != end {
			t.Errorf("%s ends at %d when it is closed, want %d", name, got, end)
		}
		if l := d.keeper.describeMemtable(name, &mem); l.end != end {
			t.Errorf("%s ends at %d in the account, want %d", name, l.end, end)
		}
	}
	if closed == 0 && d.logs.rotatedEnd(mem.id-1) <= logHeader {
		t.Error("no end of a closed log is known")
	}
}
