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
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// platter is what a loss of power would leave of the logs of a database: what was
// synced, under names that were synced.
type platter struct {
	sync.Mutex
	files  map[string][]byte
	names  map[string]bool
	end    map[string]int // of the records of a memtable's log, when it was synced
	wrong  []string
	broken func(name string) error // of a sync; "" is the directory
	syncs  map[string]int
}

func (p *platter) config(dir string) Config {
	cfg := testConfig(dir)
	cfg.ValueLogFile = 1 << 20
	p.files, p.names, p.end, p.syncs = map[string][]byte{}, map[string]bool{}, map[string]int{}, map[string]int{}
	cfg.datasync = func(f *os.File) error {
		name := filepath.Base(f.Name())
		if err := p.sync(name); err != nil {
			return err
		}
		b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
		if err != nil {
			return err
		}
		p.Lock()
		defer p.Unlock()
		p.files[name] = bytes.TrimRight(b, "\x00")
		if strings.HasSuffix(name, ".mem") {
			p.end[name] = endOfLog(b)
			return nil
		}
		// Nothing may point to values before they last.
		for _, mem := range globbed(dir, "*.mem") {
			b, err := os.ReadFile(filepath.Join(dir, mem))
			if err == nil && endOfLog(b) > max(p.end[mem], logHeader) {
				p.wrong = append(p.wrong, fmt.Sprintf("%s is synced when %s has %d bytes, %d synced", name, mem, endOfLog(b), p.end[mem]))
			}
		}
		return nil
	}
	cfg.syncDir = func(string) error {
		if err := p.sync(""); err != nil {
			return err
		}
		p.Lock()
		defer p.Unlock()
		for _, name := range append(globbed(dir, "*.mem"), globbed(dir, "*.vlog")...) {
			p.names[name] = true
		}
		return nil
	}
	return cfg
}

func (p *platter) sync(name string) error {
	p.Lock()
	defer p.Unlock()
	p.syncs[name]++
	if p.broken != nil {
		return p.broken(name)
	}
	return nil
}

func (p *platter) breaks(f func(name string) error) {
	p.Lock()
	defer p.Unlock()
	p.broken = f
}

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

func globbed(dir, pattern string) (names []string) {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// cut is a directory as a loss of power would leave dir, once badger has come to
// rest: its tables and what names them it syncs itself.
func (p *platter) cut(t *testing.T, dir string) string {
	t.Helper()
	manifest := func() string {
		info, err := os.Stat(filepath.Join(dir, "MANIFEST"))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(info.ModTime(), info.Size(), globbed(dir, "*.sst"), globbed(dir, "*.mem"))
	}
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		before := manifest()
		time.Sleep(150 * time.Millisecond) // three ticks of its compaction
		if before != manifest() || len(globbed(dir, "*.mem")) > 1 {
			continue
		}
		to := t.TempDir()
		p.Lock()
		for _, name := range globbed(dir, "*") {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, name))
			if strings.HasSuffix(name, ".mem") || strings.HasSuffix(name, ".vlog") {
				if !p.names[name] {
					continue
				}
				b = append(bytes.Clone(p.files[name]), make([]byte, int(info.Size())-len(p.files[name]))...)
			}
			if err := errors.Join(err, os.WriteFile(filepath.Join(to, name), b, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		p.Unlock()
		if before == manifest() {
			return to
		}
	}
	t.Fatal("badger does not come to rest")
	return ""
}

// Everything that was acknowledged is there after a loss of power: in small values,
// in values of the value log, in logs that were begun by the commit itself, and
// what a collection has moved.
func TestPowerLoss(t *testing.T) {
	p := &platter{}
	cfg := p.config(t.TempDir())
	d := open(t, cfg)
	want := map[string]string{}
	write := func(key string, size int) {
		t.Helper()
		value := strings.Repeat(key+",", size/(len(key)+1)+1)[:size]
		set(t, d, key, value)
		want[key] = value
	}
	check := func(when string) {
		t.Helper()
		dir := p.cut(t, cfg.Dir)
		again, err := Open(testConfig(dir))
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer again.Close()
		lost := 0
		for key, value := range want {
			if get(t, again, key) != value {
				lost++
			}
		}
		if lost > 0 || len(again.Damage()) > 0 {
			t.Errorf("%s: %d of %d acknowledged values are lost; damage %v", when, lost, len(want), again.Damage())
		}
	}
	check("at first")
	for i := range 40 {
		write(fmt.Sprint("small", i), 100)
	}
	check("small values")
	first := p.mems()
	for i := 0; p.mems() == first; i++ {
		write(fmt.Sprint("more", i), 3000)
	}
	check("first commit of a log")
	for i := range 3 {
		write(fmt.Sprint("large", i), 5000)
	}
	check("large values")
	n := len(globbed(cfg.Dir, "*.vlog"))
	for i := 0; len(globbed(cfg.Dir, "*.vlog")) == n; i++ {
		write(fmt.Sprint("larger", i%100), 5000)
	}
	check("last commit of a value log")
	for i := range 150 {
		write(fmt.Sprint("larger", i%100), 5000)
	}
	tx := map[string]string{}
	if err := d.Update(context.Background(), func(u *Tx) error {
		for i := range 600 {
			key := fmt.Sprint("journal", i)
			tx[key] = strings.Repeat(key, 10+i)
			u.Set([]byte(key), []byte(tx[key]))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for key, value := range tx {
		want[key] = value
	}
	check("an update that takes several commits")
	syncs := len(globbed(cfg.Dir, "*.vlog"))
	if err := d.Compact(); err != nil {
		t.Fatal(err)
	}
	check("after a collection")
	if len(globbed(cfg.Dir, "*.vlog")) >= syncs {
		t.Error("nothing was collected")
	}
	if p.wrong != nil {
		t.Error(p.wrong)
	}
}

// mems is how many logs of memtables there have been.
func (p *platter) mems() (n int) {
	p.Lock()
	defer p.Unlock()
	for name := range p.syncs {
		if strings.HasSuffix(name, ".mem") {
			n++
		}
	}
	return n
}

// One sync of one file to a commit; the value log's where it is written, the
// directory's where a log was begun.
func TestSyncsOfACommit(t *testing.T) {
	p := &platter{}
	d := open(t, p.config(t.TempDir()))
	took := func(size int) string {
		before := map[string]int{}
		for name, n := range p.syncs {
			before[name] = n
		}
		set(t, d, "k", string(make([]byte, size)))
		var list []string
		for _, name := range []string{"00001.mem", "00002.mem", "000001.vlog", ""} {
			if n := p.syncs[name] - before[name]; n > 0 {
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
	for i := 0; ; i++ {
		got := took(4000)
		if got == "[00001.mem*1]" && i < 400 {
			continue
		}
		if got != "[00001.mem*1 00002.mem*1 *1]" {
			t.Errorf("a commit that begins a log: %s", got)
		}
		break
	}
}

// A sync that fails: nobody is told that it was written, the sync is not tried
// again, nothing else is written, and once the logs are written anew all goes on.
func TestFailedSync(t *testing.T) {
	for what, fails := range map[string]func(name string) bool{
		"memtable":  func(name string) bool { return strings.HasSuffix(name, ".mem") },
		"value log": func(name string) bool { return strings.HasSuffix(name, ".vlog") },
		"directory": func(name string) bool { return name == "" },
	} {
		t.Run(what, func(t *testing.T) {
			p := &platter{}
			cfg := p.config(t.TempDir())
			d := open(t, cfg)
			for i := range 20 {
				set(t, d, fmt.Sprint("k", i), strings.Repeat("x", 1+i*500))
			}
			var mu sync.Mutex
			var tried []string
			full := cfg.free
			d.cfg.free = func(dir string) (uint64, error) { // keeps it from being opened anew
				mu.Lock()
				defer mu.Unlock()
				if tried != nil {
					return 0, errors.New("not yet")
				}
				if full != nil {
					return full(dir)
				}
				return 1 << 40, nil
			}
			p.breaks(func(name string) error {
				mu.Lock()
				defer mu.Unlock()
				if tried != nil || fails(name) {
					tried = append(tried, name)
					return syscall.EIO
				}
				return nil
			})
			// Values large enough to begin another log sooner or later.
			var err error
			n := 0
			for ; err == nil && n < 1000; n++ {
				err = d.Update(context.Background(), func(tx *Tx) error {
					tx.Set(fmt.Append(nil, "n", n), make([]byte, 3900+200*(n%2)))
					return nil
				})
			}
			if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
				t.Fatalf("an update that was not synced: %v", err)
			}
			if err := d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte("late"), nil); return nil }); err == nil {
				t.Error("an update after a failed sync")
			}
			mu.Lock()
			if len(tried) != 1 {
				t.Errorf("syncs after the one that failed: %q", tried)
			}
			mu.Unlock()
			if _, err := os.Stat(filepath.Join(cfg.Dir, unsyncedName)); err != nil {
				t.Errorf("nobody else would know: %v", err)
			}
			p.breaks(nil)
			mu.Lock()
			tried = nil
			mu.Unlock()
			for d.Err() != nil {
				runtime.Gosched()
			}
			if _, err := os.Stat(filepath.Join(cfg.Dir, unsyncedName)); err == nil {
				t.Error("the logs are not written anew")
			}
			set(t, d, "again", "1")
			for i := range 20 {
				if got := get(t, d, fmt.Sprint("k", i)); len(got) != 1+i*500 {
					t.Errorf("k%d has %d bytes", i, len(got))
				}
			}
			for i := range n - 1 {
				if got := get(t, d, fmt.Sprint("n", i)); len(got) != 3900+200*(i%2) {
					t.Errorf("n%d has %d bytes", i, len(got))
				}
			}
		})
	}
}

// Logs that a sync has failed for are other files afterwards, with what they held.
func TestRefresh(t *testing.T) {
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
	if err := refresh(dir); err != nil || inode("00003.mem") != before["00003.mem"] {
		t.Errorf("without need: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, unsyncedName), []byte("000002.vlog"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := refresh(dir); err != nil {
		t.Fatal(err)
	}
	for name, old := range before {
		if fresh := inode(name) != old; fresh != (name != "000001.vlog") {
			t.Errorf("%s is another file: %v", name, fresh)
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
