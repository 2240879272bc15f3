package kvstore

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/kvcache"
)

// keyOf is a key that a number names.
func keyOf(n int) kvcache.Key {
	sum := sha256.Sum256(fmt.Append(nil, n))
	return kvcache.Key{Hash: kvcache.Hash(sum[:]), State: n%3 == 2}
}

// dataOf is what is saved under it.
func dataOf(n, size int) []byte {
	b := make([]byte, size)
	g := rand.NewPCG(uint64(n), 1)
	for i := range b {
		b[i] = byte(g.Uint64())
	}
	return b
}

// logText is a log that several goroutines write.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// harness is a store with a way to wait for what it does.
type harness struct {
	*Store
	t   *testing.T
	log *logText
	now chan struct{} // the store has called wake
}

func config(dir string) Config {
	return Config{Identity: "one", Dir: dir, Size: 1 << 20, Queue: 1 << 20}
}

func open(t *testing.T, cfg Config) *harness {
	t.Helper()
	h := &harness{t: t, log: &logText{}, now: make(chan struct{}, 1)}
	cfg.Log = slog.New(slog.NewTextHandler(h.log, nil))
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Store = s
	s.Notify(func() { signal(h.now) })
	h.until(func() bool { return s.mu.indexed })
	return h
}

// until waits until something is so that the store calls wake for.
func (h *harness) until(is func() bool) {
	h.t.Helper()
	limit := time.After(time.Minute)
	for {
		h.mu.Lock()
		ok := is()
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-h.now:
		case <-time.After(10 * time.Millisecond): // wake may have been called before Notify
		case <-limit:
			h.t.Fatal("the store does not come to an end")
		}
	}
}

// written waits until nothing is left to be written.
func (h *harness) written() {
	h.t.Helper()
	h.until(func() bool { return len(h.mu.writes.pending) == 0 })
}

func (h *harness) save(n, size int) {
	h.t.Helper()
	b := h.Buffer(size)
	for b == nil {
		h.written()
		b = h.Buffer(size)
	}
	copy(b, dataOf(n, size))
	h.Save(keyOf(n), b)
}

// load fetches a copy; nil: there is none.
func (h *harness) load(n, size int) []byte {
	h.t.Helper()
	if !h.Fetch(keyOf(n), size) {
		h.t.Fatal("nothing can be fetched")
	}
	var got []kvcache.Content
	for len(got) == 0 {
		h.until(func() bool { return len(h.mu.reads.done) > 0 })
		got = h.Fetched(got, 1<<30)
	}
	if len(got) != 1 || got[0].Key != keyOf(n) {
		h.t.Fatalf("fetched %v", got)
	}
	return bytes.Clone(got[0].Data)
}

func (h *harness) mustHave(n, size int) {
	h.t.Helper()
	if !h.Has(keyOf(n)) || !bytes.Equal(h.load(n, size), dataOf(n, size)) {
		h.t.Fatalf("copy %d is not there, or wrong", n)
	}
}

func (h *harness) close() {
	h.t.Helper()
	if err := h.Close(time.Minute); err != nil {
		h.t.Fatal(err)
	}
}

// paths are the files of blocks and states in a folder.
func paths(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Dir(path) != dir {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRestart: what was saved is found by the next start with the same identity, and by no other.
func TestRestart(t *testing.T) {
	cfg := config(filepath.Join(t.TempDir(), "a", "b"))
	h := open(t, cfg)
	if h.Has(keyOf(1)) || h.load(1, 100) != nil {
		t.Error("an empty store has something")
	}
	for n := range 50 {
		h.save(n, 1000+n%3)
		h.mustHave(n, 1000+n%3) // perhaps while it is written
	}
	h.close()
	h = open(t, cfg)
	for n := range 50 {
		h.mustHave(n, 1000+n%3)
	}
	if st := h.Stats(); st.Files != 50 || st.Read != 50 || st.ReadBytes == 0 || st.Damaged != 0 || st.BytesPerSecondRead <= 0 || st.FileBytes != 50*4096 {
		t.Errorf("%+v", st)
	}
	if h.load(1, 500) != nil || h.Stats().Damaged != 1 || h.Has(keyOf(1)) {
		t.Error("a file of another size is taken for a copy")
	}
	if _, err := Open(cfg); !errors.Is(err, ErrInUse) {
		t.Errorf("two servers use one folder: %v", err)
	}
	h.close()
	cfg.Identity = "two"
	h = open(t, cfg)
	if h.Has(keyOf(2)) || h.load(2, 1002) != nil {
		t.Error("another identity finds a copy")
	}
	if st := h.Stats(); st.Files != 49 {
		t.Errorf("files of another identity do not count: %+v", st)
	}
	h.save(2, 77)
	h.written()
	h.mustHave(2, 77)
	h.close()
}

// TestDamage: whatever bit of a file is wrong, and wherever it is cut, nothing wrong is given out, the log says so, and
// the file is gone.
func TestDamage(t *testing.T) {
	cfg := config(t.TempDir())
	h := open(t, cfg)
	h.save(1, 90)
	h.written()
	list := paths(t, cfg.Dir)
	if len(list) != 1 {
		t.Fatal(list)
	}
	whole, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{"empty": {}, "longer": append(bytes.Clone(whole), 0), "moved": whole[1:], "zeros": make([]byte, len(whole))}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		damage[fmt.Sprint("bit of byte ", i)], damage[fmt.Sprint("cut at ", i)] = flipped, whole[:i]
		torn := append(bytes.Clone(whole[:i]), make([]byte, len(whole)-i)...)
		if !bytes.Equal(torn, whole) {
			damage[fmt.Sprint("zeros from ", i)] = torn
		}
	}
	h.save(2, 90) // the file of another key
	h.written()
	list = slices.DeleteFunc(paths(t, cfg.Dir), func(p string) bool { return p == list[0] })
	if damage["of another key"], err = os.ReadFile(list[0]); err != nil {
		t.Fatal(err)
	}
	path := h.path(h.folder(), keyOf(1))
	for name, content := range damage {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		h.mu.index.add(place{0, keyOf(1)}, 4096, false)
		h.mu.Unlock()
		before := h.Stats().Damaged
		if got := h.load(1, 90); got != nil {
			t.Errorf("%s: something was read", name)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) || h.Has(keyOf(1)) || h.Stats().Damaged != before+1 {
			t.Errorf("%s: the file is still there", name)
		}
	}
	if n := strings.Count(h.log.String(), "is damaged, and they are computed anew"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	h.save(1, 90)
	h.written()
	h.mustHave(1, 90)
	h.close()
}

// TestRoom: files that were used longest ago make room, over restarts and builds, and the folder never takes more than it may.
func TestRoom(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Size = 10 * 4096
	h := open(t, cfg)
	for n := range 10 {
		h.save(n, 1000)
	}
	h.written()
	h.mustHave(0, 1000)
	h.Has(keyOf(1))
	h.save(10, 1000)
	h.save(11, 1000)
	h.written()
	for n := range 12 {
		if h.Has(keyOf(n)) != (n != 2 && n != 3) {
			t.Errorf("copy %d: %v", n, h.Has(keyOf(n)))
		}
	}
	h.close()
	old := time.Now().Add(-time.Hour)
	for n := 4; n < 7; n++ {
		if err := os.Chtimes(h.path(h.folder(), keyOf(n)), old, old.Add(time.Duration(-n)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Identity = "newer build"
	h = open(t, cfg)
	h.save(0, 5000) // takes as much as two
	h.written()
	var left []int
	for n := range 12 {
		if _, err := os.Stat(filepath.Join(cfg.Dir, (&Store{identity: sha("one")}).folder(), h.path("", keyOf(n))[len(cfg.Dir):])); err == nil {
			left = append(left, n)
		}
	}
	if fmt.Sprint(left) != "[0 1 4 7 8 9 10 11]" || h.Stats().Evicted != 2 {
		t.Errorf("left are %v: %+v", left, h.Stats())
	}
	h.save(1, 100000)
	h.written()
	if st := h.Stats(); h.Has(keyOf(1)) || st.WriteErrors != 1 || st.Files != 9 || !strings.Contains(h.log.String(), "all may take 40960") {
		t.Errorf("what is larger than all may be was kept, or others went for it: %+v\n%s", st, h.log)
	}
	h.close()
	cfg.MinFree = 1 << 60
	h = open(t, cfg)
	h.save(3, 100)
	h.written()
	if st := h.Stats(); h.Has(keyOf(3)) || st.Files != 7 || st.WriteErrors != 1 || !strings.Contains(h.log.String(), "the disk is full") {
		t.Errorf("on a full disk: %+v\n%s", st, h.log)
	}
	h.close()
}

// sha is the identity of a store.
func sha(text string) [16]byte {
	sum := sha256.Sum256([]byte(text))
	return [16]byte(sum[:])
}

// TestErase: no file is left, of no identity, and nothing that was being written or read comes back.
func TestErase(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Memory = 1 << 20
	for _, identity := range []string{"older", "one"} {
		cfg.Identity = identity
		h := open(t, cfg)
		for n := range 20 {
			h.save(n, 1000)
		}
		h.close()
	}
	h := open(t, cfg)
	for n := range 40 {
		h.save(n, 3000)
		if n%2 == 0 {
			h.Fetch(keyOf(n), 1000)
		}
	}
	if err := h.Erase(); err != nil {
		t.Fatal(err)
	}
	for _, f := range h.Fetched(nil, 1<<30) {
		if f.Data != nil {
			t.Error("something was read before, and given out after everything was erased")
		}
	}
	h.until(func() bool { return h.mu.reads.active == 0 })
	for n := range 40 {
		if h.Has(keyOf(n)) {
			t.Errorf("copy %d is still there", n)
		}
	}
	if list := paths(t, cfg.Dir); len(list) > 0 {
		t.Errorf("files are left: %v", list)
	}
	h.Fetched(nil, 1<<30)
	h.save(7, 1000)
	h.written()
	h.mustHave(7, 1000)
	h.close()
	if h.mu.writes.buffers.out != 0 || h.mu.reads.buffers.out != int64(len(h.mu.reads.lent)*1000) {
		t.Errorf("%d and %d bytes of buffers are lost", h.mu.writes.buffers.out, h.mu.reads.buffers.out)
	}
}

// TestQueue: what waits to be written and read has a bound, and what is larger than it is let through alone.
func TestQueue(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Queue = 10_000
	h := open(t, cfg)
	h.files.Lock() // nothing can be written
	var taken [][]byte
	for b := h.Buffer(3000); b != nil; b = h.Buffer(3000) {
		taken = append(taken, b)
	}
	if len(taken) != 3 {
		t.Fatalf("%d buffers", len(taken))
	}
	for n, b := range taken {
		h.Save(keyOf(n), b)
	}
	if h.Buffer(3000) != nil || h.Buffer(1001) != nil {
		t.Error("the queue has no bound")
	}
	h.files.Unlock()
	h.written()
	if b := h.Buffer(50_000); b == nil {
		t.Error("a block that is larger than the queue is never saved")
	} else {
		h.Save(keyOf(9), b)
	}
	h.written()
	n := 0
	for h.Fetch(keyOf(n%3), 3000) {
		n++
	}
	if n != 3 {
		t.Errorf("%d copies are read at a time", n)
	}
	h.until(func() bool { return len(h.mu.reads.done) == 3 })
	if got := h.Fetched(nil, 1); len(got) != 1 || h.Fetch(keyOf(1), 3000) {
		t.Error("there is memory for more before what was fetched is given back")
	}
	if got := h.Fetched(nil, 6000); len(got) != 2 || !h.Fetch(keyOf(1), 3000) {
		t.Error("what was fetched is not given back")
	}
	h.close()
	if h.Buffer(10) != nil || h.Fetch(keyOf(1), 3000) {
		t.Error("a closed store takes something")
	}
}

// TestMemory: without a folder copies are in memory, and those that were used longest ago go.
func TestMemory(t *testing.T) {
	h := open(t, Config{Identity: "one", Memory: 5000, Queue: 5000})
	for n := range 5 {
		h.save(n, 1000)
	}
	h.mustHave(0, 1000)
	h.Has(keyOf(1))
	h.save(5, 1900)
	for n := range 6 {
		if size := map[bool]int{true: 1900, false: 1000}[n == 5]; n == 2 || n == 3 {
			if h.Has(keyOf(n)) || h.load(n, size) != nil {
				t.Errorf("copy %d is still there", n)
			}
		} else {
			h.mustHave(n, size)
		}
	}
	h.save(6, 6000)
	if st := h.Stats(); st.MemoryBytes != 4900 || st.MemoryItems != 4 || st.FromMemory != 5 || h.Has(keyOf(6)) {
		t.Errorf("%+v", st)
	}
	if err := h.Erase(); err != nil || h.Has(keyOf(1)) || h.Stats().MemoryBytes != 0 {
		t.Error("memory is not erased", err)
	}
	h.close()
}

// TestSecret: the secret stays the same, is for one user only, and one that is not is refused.
func TestSecret(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var all [8][32]byte
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = Secret(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range all {
		if s != all[0] || s == [32]byte{} {
			t.Error("two secrets, or none")
		}
	}
	other, err := Secret(t.TempDir())
	if err != nil || other == all[0] {
		t.Error("another folder has the same secret", err)
	}
	path := filepath.Join(dir, "secret")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%v are left, %v", names, err)
	}
	for _, change := range []func() error{
		func() error { return os.Chmod(path, 0o640) },
		func() error { return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("short"), 0o600)) },
		func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, err := Secret(dir); err == nil {
			t.Error("a secret that others can read, or that is none, is used")
		}
	}
}

// FuzzName: a name is that of one key, and of what is no name nothing is known.
func FuzzName(f *testing.F) {
	f.Add("ab", "cdef0123456789abcdef0123456789.kv")
	f.Add("AB", "cdef0123456789abcdef0123456789.state")
	f.Add("", ".kv")
	f.Fuzz(func(t *testing.T, folder, name string) {
		k, ok := parseName(folder, name)
		s := Store{cfg: Config{Dir: "d"}}
		if ok && len(folder) == 2 && s.path("i", k) != filepath.Join("d", "i", folder, name) {
			t.Errorf("%s/%s is %v, whose name is %s", folder, name, k, s.path("i", k))
		}
	})
}
