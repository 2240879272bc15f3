package tilecache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// content is tiles of two keys, pieces of which are 100 and 64 bytes.
var content = []kept{{"one", 100, pattern(1, 334)}, {"two", 64, pattern(2, 128)}}

func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i/256*seed + seed)
	}
	return b
}

// config is a cache in dir, and its log.
func config(dir string) (Config, *bytes.Buffer) {
	var log bytes.Buffer
	return Config{Dir: dir, Limit: 1 << 20, Log: slog.New(slog.NewTextHandler(&log, nil))}, &log
}

// load reads everything that there is. found says for each of content whether it was there and
// right; what was read and is wrong fails the test.
func load(t *testing.T, c *Cache) (found []bool) {
	t.Helper()
	for _, k := range content {
		read := c.Find(k.key, k.piece, len(k.tiles))
		ok := read != nil
		for i := 0; ok && i*k.piece < len(k.tiles); i++ {
			want := k.tiles[i*k.piece:][:min(k.piece, len(k.tiles)-i*k.piece)]
			got := make([]byte, len(want))
			if ok = read(i, got); ok && !bytes.Equal(got, want) {
				t.Errorf("piece %d of %s is wrong", i, k.key)
			}
		}
		found = append(found, ok)
		c.Keep(k.key, k.piece, k.tiles)
	}
	return found
}

// save writes content into a file, as a first start does.
func save(t *testing.T, cfg Config, identity string) (path string) {
	t.Helper()
	c := Open(cfg, identity)
	load(t, c)
	c.Save()
	c.Wait()
	c.Close()
	return c.path
}

// TestSecondStart: what a first start keeps, a second one finds, and writes nothing.
func TestSecondStart(t *testing.T) {
	cfg, log := config(filepath.Join(t.TempDir(), "a", "b"))
	c := Open(cfg, "id")
	if found := load(t, c); found[0] || found[1] {
		t.Error("an empty cache has something")
	}
	c.Save()
	c.Wait()
	c.Close()
	before, err := os.Stat(c.path)
	if err != nil || !strings.Contains(log.String(), "are kept for the next start") {
		t.Fatal(err, log)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(c.path, old, old); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	c = Open(cfg, "id")
	if found := load(t, c); !found[0] || !found[1] {
		t.Errorf("found %v", found)
	}
	if c.Find("three", 64, 128) != nil || c.Find("two", 32, 128) != nil || c.Find("two", 64, 64) != nil {
		t.Error("tiles of another key or size")
	}
	c.missed.Store(false) // of the three
	c.Save()
	c.Wait()
	c.Close()
	after, err := os.Stat(c.path)
	if err != nil || !os.SameFile(before, after) || log.Len() > 0 || after.ModTime().Before(old.Add(time.Minute)) {
		t.Errorf("the file was written again, or not noted as used: %v %s", err, log)
	}
	if other := Open(cfg, "another id"); other.file != nil {
		t.Error("other weights find the file")
	}
}

// TestDamage: whatever bit of a file is wrong, and wherever it is cut, nothing wrong is read, the log
// says so, and the next start has a whole file again.
func TestDamage(t *testing.T) {
	cfg, log := config(t.TempDir())
	path := save(t, cfg, "id")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{"empty": {}, "foreign": []byte("not a cache of packed weights at all"), "longer": append(bytes.Clone(whole), 0), "moved": whole[1:]}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		damage[fmt.Sprint("bit of byte ", i)] = flipped
	}
	for i := 1; i < len(whole); i += 37 {
		damage[fmt.Sprint("cut at ", i)] = whole[:i]
	}
	n := 0
	for name, b := range damage {
		n++
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		c := Open(cfg, "id")
		if found := load(t, c); found[0] && found[1] {
			t.Errorf("%s: everything is found", name)
		}
		if n := strings.Count(log.String(), "is damaged, and they are packed anew"); n != 1 {
			t.Errorf("%s: the log says so %d times:\n%s", name, n, log)
		}
		if strings.HasPrefix(name, "bit") && n%50 != 0 { // writing waits for the disk
			c.Close()
			continue
		}
		c.Save()
		c.Wait()
		c.Close()
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, whole) {
			t.Errorf("%s: the file is not whole again: %v", name, err)
		}
	}
	// A file under the name of other weights.
	other := Open(cfg, "other")
	if err := os.WriteFile(other.path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := Open(cfg, "other"); c.file != nil {
		t.Error("a renamed file is taken for that of other weights")
	}
}

// TestPart: what a killed process has left is no cache, and the next one writes over it or removes it. A
// file that another process writes is left alone.
func TestPart(t *testing.T) {
	cfg, log := config(t.TempDir())
	whole, err := os.ReadFile(save(t, cfg, "id"))
	if err != nil {
		t.Fatal(err)
	}
	own := strings.TrimSuffix(Open(cfg, "new").path, ending) + partEnding
	others := filepath.Join(cfg.Dir, "0123"+partEnding)
	for _, path := range []string{own, others} {
		if err := os.WriteFile(path, whole[:len(whole)/2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	busy, err := openPart(own)
	if err != nil {
		t.Fatal(err)
	}
	log.Reset()
	c := Open(cfg, "new")
	load(t, c)
	c.Save()
	c.Wait()
	if _, err := os.Stat(c.path); err == nil || log.Len() > 0 {
		t.Errorf("two processes have written one file: %s", log)
	}
	if err := busy.Close(); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	c.Save()
	c.Wait()
	c.Close()
	left, err := filepath.Glob(filepath.Join(cfg.Dir, "*"+partEnding))
	if err != nil || len(left) != 0 {
		t.Errorf("%v are left: %v", left, err)
	}
	c = Open(cfg, "new")
	if found := load(t, c); !found[0] || !found[1] {
		t.Errorf("found %v", found)
	}
	c.Close()
}

// TestRoom: files that were used longest ago make room, and what does not fit is not written.
func TestRoom(t *testing.T) {
	cfg, log := config(t.TempDir())
	one, err := os.Stat(save(t, cfg, "a"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Limit = 3*one.Size() - 1
	var paths []string
	for i, id := range []string{"a", "b", "c"} {
		paths = append(paths, save(t, cfg, id))
		used := time.Now().Add(time.Duration(i-10) * time.Hour)
		if i == 0 {
			used = used.Add(8 * time.Hour) // the first one was used again
		}
		if err := os.Chtimes(paths[i], used, used); err != nil {
			t.Fatal(err)
		}
	}
	paths = append(paths, save(t, cfg, "d"))
	for i, there := range []bool{true, false, false, true} {
		if _, err := os.Stat(paths[i]); (err == nil) != there {
			t.Errorf("file %d: %v", i, err)
		}
	}
	for name, change := range map[string]func(*Config){
		"the cache may have": func(c *Config) { c.Limit = 100 },
		"MiB free":           func(c *Config) { c.MinFree = 1 << 60 },
	} {
		log.Reset()
		cfg, log := config(t.TempDir())
		change(&cfg)
		if path := save(t, cfg, "x"); !strings.Contains(log.String(), name) || !strings.Contains(log.String(), "are not kept") {
			t.Errorf("%s: %s", path, log)
		}
		if left, _ := os.ReadDir(cfg.Dir); len(left) != 0 {
			t.Errorf("%s: %v are left", name, left)
		}
	}
}

// TestNoFolder: a folder that cannot be made is a line of the log.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, log := config(filepath.Join(file, "cache"))
	save(t, cfg, "id")
	if !strings.Contains(log.String(), "cannot be used") {
		t.Error(log)
	}
}

// TestClose: closing gives up a file that is being written.
func TestClose(t *testing.T) {
	cfg, log := config(t.TempDir())
	c := Open(cfg, "id")
	load(t, c)
	close(c.stop) // as the first thing that Close does
	c.Save()
	c.Wait()
	c.Close()
	c.Close()
	if left, _ := os.ReadDir(cfg.Dir); len(left) != 0 || log.Len() != 0 {
		t.Errorf("%v are left: %s", left, log)
	}
}

// FuzzIndex: no index reads beyond the file or takes more memory than its bytes.
func FuzzIndex(f *testing.F) {
	index := appendText(nil, "id")
	index = appendText(index, "key")
	for _, n := range []uint64{0, 200, 100} {
		index = binary.AppendUvarint(index, n)
	}
	f.Add(append(bytes.Clone(index), 1, 2, 3, 4, 5, 6, 7, 8), int64(200))
	f.Add(append(bytes.Clone(index), 1, 2, 3, 4), int64(200))
	f.Add(index[:5], int64(0))
	f.Fuzz(func(t *testing.T, index []byte, data int64) {
		data = max(data, 0)
		entries, err := parseIndex(index, data, "id")
		if err != nil {
			return
		}
		for key, e := range entries {
			if e.at < 0 || e.size <= 0 || e.piece <= 0 || e.at+e.size > data || int64(len(e.sums)) != (e.size+e.piece-1)/e.piece || 4*len(e.sums) > len(index) {
				t.Errorf("%q: %+v in a file of %d bytes", key, e, data)
			}
		}
	})
}
