//go:build linux

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fakeDisk records what a database has synced. It can say what a loss of power would
// leave of the logs: the contents that were synced, of the files whose names were synced.
type fakeDisk struct {
	sync.Mutex
	dir    string
	files  map[string][]byte
	names  map[string]bool
	end    map[string]int // of the records of a memtable's log, when it was synced
	wrong  []string       // violations of the order: values first, then pointers to them
	broken func(name string) error
	syncs  map[string]int
}

// dirName is the directory, where a fakeDisk speaks of files.
const dirName = "directory"

// newFakeDisk returns a disk and the configuration of a database on it, with value logs
// small enough that there are several.
func newFakeDisk(t *testing.T) (*fakeDisk, Config) {
	p := &fakeDisk{dir: t.TempDir(), files: map[string][]byte{}, names: map[string]bool{}, end: map[string]int{}, syncs: map[string]int{}}
	cfg := testConfig(p.dir)
	cfg.ValueLogFile = 1 << 20
	cfg.datasync, cfg.syncDir = p.syncFile, p.syncNames
	return p, cfg
}

func (p *fakeDisk) syncFile(f *os.File) error {
	name := filepath.Base(f.Name())
	if err := p.count(name); err != nil {
		return err
	}
	b, err := contents(f)
	if err != nil {
		return err
	}
	p.Lock()
	defer p.Unlock()
	p.files[name] = b
	if strings.HasSuffix(name, ".mem") {
		p.end[name] = endOfLog(b)
		return nil
	}
	for _, mem := range globbed(p.dir, "*.mem") {
		if end := endOfFile(filepath.Join(p.dir, mem)); end > max(p.end[mem], logHeader) {
			p.wrong = append(p.wrong, fmt.Sprintf("%s is synced when %s has %d bytes, %d synced", name, mem, end, p.end[mem]))
		}
	}
	return nil
}

func (p *fakeDisk) syncNames(string) error {
	if err := p.count(dirName); err != nil {
		return err
	}
	p.Lock()
	defer p.Unlock()
	for _, name := range append(globbed(p.dir, "*.mem"), globbed(p.dir, "*.vlog")...) {
		p.names[name] = true
	}
	return nil
}

// count counts a sync and returns its error.
func (p *fakeDisk) count(name string) error {
	p.Lock()
	defer p.Unlock()
	p.syncs[name]++
	if p.broken != nil {
		return p.broken(name)
	}
	return nil
}

// breaks makes f decide the errors of syncs.
func (p *fakeDisk) breaks(f func(name string) error) {
	p.Lock()
	defer p.Unlock()
	p.broken = f
}

// contents is a file without the zeros at its end.
func contents(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, dataEnd(f, info.Size())))
	return trimZeros(b), err
}

// endOfLog is where the records of a log end.
func endOfLog(b []byte) int {
	at := logHeader
	for {
		r, ok := recordAt(b, at)
		if !ok {
			return at
		}
		at = r.end
	}
}

// endOfFile is endOfLog of a file, or 0 if badger has just removed it.
func endOfFile(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	b, err := contents(f)
	if err != nil {
		return 0
	}
	return endOfLog(b)
}

// state changes whenever badger flushes or compacts something.
func (p *fakeDisk) state(t *testing.T) string {
	t.Helper()
	info, err := os.Stat(filepath.Join(p.dir, "MANIFEST"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(info.ModTime(), info.Size(), globbed(p.dir, "*.sst"), globbed(p.dir, "*.mem"))
}

// afterPowerLoss returns a directory with what a loss of power would leave, once badger
// has nothing to flush or compact: it syncs tables, and what names them, by itself.
func (p *fakeDisk) afterPowerLoss(t *testing.T) string {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		before := p.state(t)
		time.Sleep(60 * time.Millisecond) // badger looks for something to compact every 50 ms
		if before != p.state(t) || len(globbed(p.dir, "*.mem")) > 1 {
			continue
		}
		to := t.TempDir()
		p.copyTo(t, to)
		if before == p.state(t) {
			return to
		}
	}
	t.Fatal("badger does not come to rest")
	return ""
}

func (p *fakeDisk) copyTo(t *testing.T, to string) {
	t.Helper()
	p.Lock()
	defer p.Unlock()
	for _, name := range globbed(p.dir, "*") {
		info, err := os.Stat(filepath.Join(p.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		log := strings.HasSuffix(name, ".mem") || strings.HasSuffix(name, ".vlog")
		if info.IsDir() || log && !p.names[name] {
			continue
		}
		b := p.files[name]
		if !log {
			if b, err = os.ReadFile(filepath.Join(p.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(to, name)
		if err := errors.Join(os.WriteFile(path, b, 0o600), os.Truncate(path, info.Size())); err != nil {
			t.Fatal(err)
		}
	}
}

// moreLogs returns a function that reports whether another log of a kind has been synced.
func (p *fakeDisk) moreLogs(suffix string) func() bool {
	count := func() (n int) {
		p.Lock()
		defer p.Unlock()
		for name := range p.syncs {
			if strings.HasSuffix(name, suffix) {
				n++
			}
		}
		return n
	}
	before := count()
	return func() bool { return count() > before }
}

// powerTest is a database on a fake disk and what it has acknowledged.
type powerTest struct {
	*testing.T
	disk         *fakeDisk
	db           *DB
	acknowledged map[string]string
}

func (p *powerTest) write(key string, size int) {
	p.Helper()
	value := strings.Repeat(key+",", size/(len(key)+1)+1)[:size]
	set(p, p.db, key, value)
	p.acknowledged[key] = value
}

// writeUntil writes values, a hundred keys in turn, until there is what they are to bring
// about.
func (p *powerTest) writeUntil(key string, size int, there func() bool) {
	p.Helper()
	for i := 0; !there(); i++ {
		if i == 2000 {
			p.Fatalf("%s: after %d values there is no other log", key, i)
		}
		p.write(fmt.Sprint(key, i%100), size)
	}
}

// compact makes badger move values to other files.
func (p *powerTest) compact() {
	p.Helper()
	before := len(globbed(p.disk.dir, "*.vlog"))
	if err := p.db.Compact(); err != nil {
		p.Fatal(err)
	}
	if len(globbed(p.disk.dir, "*.vlog")) >= before {
		p.Error("nothing was collected")
	}
}

// check opens what a loss of power would leave now. Everything acknowledged must be there,
// and the account, which is newer than most syncs, must not ask for more.
func (p *powerTest) check(when string) {
	p.Helper()
	if err := p.db.keeper.tick(); err != nil {
		p.Fatal(err)
	}
	again, err := Open(testConfig(p.disk.afterPowerLoss(p.T)))
	if err != nil {
		p.Fatalf("%s: %v", when, err)
	}
	defer again.Close()
	lost := 0
	for key, value := range p.acknowledged {
		if get(p, again, key) != value {
			lost++
		}
	}
	if lost > 0 || len(again.Damage()) > 0 {
		p.Errorf("%s: %d of %d acknowledged values are lost; damage %v", when, lost, len(p.acknowledged), again.Damage())
	}
}

// TestPowerLoss: everything that was acknowledged is there after a loss of power, be it in
// small values, in values of the value log, in logs that the commit itself has begun, or
// in what a collection has moved.
func TestPowerLoss(t *testing.T) {
	disk, cfg := newFakeDisk(t)
	p := powerTest{t, disk, open(t, cfg), map[string]string{}}
	p.check("at first")
	for i := range 40 {
		p.write(fmt.Sprint("small", i), 100)
	}
	p.check("small values")
	p.writeUntil("more", 3000, disk.moreLogs(".mem"))
	p.check("the first commit of a log")
	for i := range 3 {
		p.write(fmt.Sprint("large", i), 5000)
	}
	p.check("large values")
	p.writeUntil("larger", 5000, disk.moreLogs(".vlog"))
	p.check("the last commit of a value log")
	for i := range 150 {
		p.write(fmt.Sprint("larger", i%100), 5000)
	}
	p.writeLargeUpdate()
	p.check("an update that takes several commits")
	p.compact()
	p.check("after a collection")
	if disk.wrong != nil {
		t.Error(disk.wrong)
	}
}

// writeLargeUpdate is an update that no single transaction can hold.
func (p *powerTest) writeLargeUpdate() {
	p.Helper()
	values := map[string]string{}
	for i := range 600 {
		key := fmt.Sprint("journal", i)
		values[key] = strings.Repeat(key, 10+i)
	}
	err := p.db.Update(context.Background(), func(tx *Tx) error {
		for key, value := range values {
			tx.Set([]byte(key), []byte(value))
		}
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
	for key, value := range values {
		p.acknowledged[key] = value
	}
}

// TestSyncsOfACommit: a commit costs one sync of one file. One more is that of the value
// log, if the commit writes to it, and of the directory, if the commit begins a log.
func TestSyncsOfACommit(t *testing.T) {
	disk, cfg := newFakeDisk(t)
	d := open(t, cfg)
	took := func(size int) string {
		before := map[string]int{}
		for name, n := range disk.syncs {
			before[name] = n
		}
		set(t, d, "k", string(make([]byte, size)))
		var list []string
		for _, name := range []string{"00001.mem", "00002.mem", "000001.vlog", dirName} {
			if n := disk.syncs[name] - before[name]; n > 0 {
				list = append(list, fmt.Sprintf("%s*%d", name, n))
			}
		}
		return fmt.Sprint(list)
	}
	for range 3 {
		if got := took(100); got != "[00001.mem*1]" {
			t.Errorf("a small value: %s", got)
		}
		if got := took(5000); got != "[00001.mem*1 000001.vlog*1]" {
			t.Errorf("a large value: %s", got)
		}
	}
	got := took(4000)
	for i := 0; i < 400 && got == "[00001.mem*1]"; i++ {
		got = took(4000)
	}
	if got != "[00001.mem*1 00002.mem*1 directory*1]" {
		t.Errorf("a commit that begins a log: %s", got)
	}
}

// TestOtherMessages: with a badger whose debug log has other texts, one commit fails.
// Then badger syncs by itself, and what is acknowledged is durable again.
func TestOtherMessages(t *testing.T) {
	for name, m := range map[string]messages{
		"both":    {"other", "texts"},
		"values":  {"other", badgerMessages.entriesWritten},
		"entries": {badgerMessages.valuesWritten, "texts"},
	} {
		t.Run(name, func(t *testing.T) {
			disk, cfg := newFakeDisk(t)
			cfg.messages = m
			d := open(t, cfg)
			if d.options().SyncWrites {
				t.Fatal("badger syncs although nothing is known of its messages yet")
			}
			if err := d.Update(t.Context(), func(tx *Tx) error { tx.Set([]byte("k"), nil); return nil }); !errors.Is(err, ErrFailed) {
				t.Fatalf("the first commit: %v", err)
			}
			waitForOpen(d)
			if !d.options().SyncWrites {
				t.Error("badger does not sync")
			}
			p := powerTest{t, disk, d, map[string]string{}}
			for i := range 5 {
				p.write(fmt.Sprint("k", i), 100+i*2000)
			}
			p.check("with the value log")
			if name != "both" {
				return
			}
			p.writeUntil("l", 4000, disk.moreLogs(".mem"))
			p.check("with another log of a memtable")
			for i := range 120 {
				p.write(fmt.Sprint("v", i%10), 20_000)
			}
			p.compact()
			p.check("after a collection")
		})
	}
}

// failTest is a database with some values, on a disk of which a sync fails.
type failTest struct {
	*testing.T
	disk *fakeDisk
	dir  string
	db   *DB

	mu    sync.Mutex
	tried []string // syncs from the one on that failed
}

// newFailTest opens a database whose syncs fail from now on where fails says so. It is
// not opened again before repair is called.
func newFailTest(t *testing.T, fails func(name string) bool) *failTest {
	disk, cfg := newFakeDisk(t)
	f := &failTest{T: t, disk: disk, dir: cfg.Dir}
	cfg.free = func(string) (uint64, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.tried != nil {
			return 0, errors.New("not yet")
		}
		return 1 << 40, nil
	}
	f.db = open(t, cfg)
	for i := range 20 {
		set(t, f.db, fmt.Sprint("k", i), strings.Repeat("x", 1+i*500))
	}
	disk.breaks(func(name string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.tried != nil || fails(name) {
			f.tried = append(f.tried, name)
			return syscall.EIO
		}
		return nil
	})
	return f
}

// writeUntilItFails writes values that are large enough to begin further logs. It returns
// how many were written, without the last, and the error of that.
func (f *failTest) writeUntilItFails() (n int, err error) {
	for n < 1000 {
		err = f.db.Update(f.Context(), func(tx *Tx) error {
			tx.Set(fmt.Append(nil, "n", n), make([]byte, 3900+200*(n%2)))
			return nil
		})
		if err != nil {
			break
		}
		n++
	}
	return n, err
}

// checkFailed looks at a database whose sync has failed.
func (f *failTest) checkFailed() {
	f.Helper()
	if err := f.db.Update(f.Context(), func(tx *Tx) error { tx.Set([]byte("late"), nil); return nil }); err == nil {
		f.Error("an update after a failed sync")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.tried) != 1 {
		f.Errorf("syncs from the failed one on: %q", f.tried)
	}
	if _, err := os.Stat(filepath.Join(f.dir, unsyncedName)); err != nil {
		f.Errorf("the next process would not know: %v", err)
	}
}

// repair makes the disk take syncs again, and waits for the database to be opened.
func (f *failTest) repair() {
	f.disk.breaks(nil)
	f.mu.Lock()
	f.tried = nil
	f.mu.Unlock()
	waitForOpen(f.db)
}

// checkRepaired looks for the values of newFailTest and for the n of writeUntilItFails.
func (f *failTest) checkRepaired(n int) {
	f.Helper()
	if _, err := os.Stat(filepath.Join(f.dir, unsyncedName)); err == nil {
		f.Error("the logs were not written again")
	}
	set(f, f.db, "again", "1")
	for i := range 20 {
		if got := get(f, f.db, fmt.Sprint("k", i)); len(got) != 1+i*500 {
			f.Errorf("k%d has %d bytes", i, len(got))
		}
	}
	for i := range n {
		if got := get(f, f.db, fmt.Sprint("n", i)); len(got) != 3900+200*(i%2) {
			f.Errorf("n%d has %d bytes", i, len(got))
		}
	}
}

// TestFailedSync: an update whose sync failed is not acknowledged, the sync is not
// repeated, nothing else is written, and when the logs have been written again the
// database goes on.
func TestFailedSync(t *testing.T) {
	for name, fails := range map[string]func(name string) bool{
		"memtable":  func(name string) bool { return strings.HasSuffix(name, ".mem") },
		"value log": func(name string) bool { return strings.HasSuffix(name, ".vlog") },
		dirName:     func(name string) bool { return name == dirName },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFailTest(t, fails)
			n, err := f.writeUntilItFails()
			if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
				t.Fatalf("an update that was not synced: %v", err)
			}
			f.checkFailed()
			f.repair()
			f.checkRepaired(n)
		})
	}
}

// TestRewriteUnsynced: logs that could not be synced are other files afterwards, with the
// same contents.
func TestRewriteUnsynced(t *testing.T) {
	dir := t.TempDir()
	inode := func(name string) uint64 {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	before := map[string]uint64{}
	for _, name := range []string{"00003.mem", "000001.vlog", "000002.vlog", "000003.vlog"} {
		b := append([]byte(name), make([]byte, 10_000)...)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		before[name] = inode(name)
	}
	if err := rewriteUnsynced(dir); err != nil || inode("00003.mem") != before["00003.mem"] {
		t.Errorf("nothing to rewrite: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, unsyncedName), []byte("000002.vlog"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewriteUnsynced(dir); err != nil {
		t.Fatal(err)
	}
	for name, old := range before {
		if fresh := inode(name) != old; fresh != (name != "000001.vlog") {
			t.Errorf("%s was rewritten: %v", name, fresh)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(b, append([]byte(name), make([]byte, 10_000)...)) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if got := globbed(dir, "*"); len(got) != 4 {
		t.Errorf("left: %v", got)
	}
}
