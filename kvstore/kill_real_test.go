package kvstore

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/kvcache"
)

func TestMain(m *testing.M) {
	testkit.Main(m, map[string]func([]string){"save": saveForever})
}

// saveForever is a child that saves copies until it is killed.
func saveForever(args []string) {
	first, _ := strconv.Atoi(args[1])
	s, err := Open(Config{Identity: "kill", Dir: args[0], Size: 3 << 20, Queue: 1 << 20, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	more := make(chan struct{}, 1)
	s.Notify(func() { signal(more) })
	for n := first; ; n++ {
		size := killSize(n)
		b := s.Buffer(size)
		for b == nil {
			<-more
			b = s.Buffer(size)
		}
		copy(b, dataOf(n, size))
		s.Save(keyOf(n), b)
		fmt.Println(n)
	}
}

// killSize is the size of copy n.
func killSize(n int) int { return 1 + n*7919%60_000 }

// TestKill kills a process in the middle of its writes, over and over. Whatever is there afterwards under a key is what was
// saved under it, nothing that was left half written stays, and the folder takes no more than it may.
func TestKill(t *testing.T) {
	dir, last := t.TempDir(), 0
	g := rand.New(rand.NewPCG(1, 2))
	there := 0
	for range testkit.CrashRounds(6) {
		testkit.Crash{Role: "save", Args: []string{dir, strconv.Itoa(last + 1)}, Lines: 30 + g.IntN(100), After: time.Duration(g.IntN(3000)) * time.Microsecond}.Run(t, func(line string) {
			n, err := strconv.Atoi(line)
			if err != nil {
				t.Errorf("the child says %q", line)
			}
			last = max(last, n)
		})
		h := open(t, Config{Identity: "kill", Dir: dir, Size: 3 << 20, Queue: 1 << 20})
		numbers := map[kvcache.Key]int{}
		for n := range last + 100 { // some may have been saved and not told
			numbers[keyOf(n)] = n
		}
		files := paths(t, dir)
		for _, path := range files {
			k, ok := parseName(filepath.Base(filepath.Dir(path)), filepath.Base(path))
			n, known := numbers[k]
			if !ok || !known || !h.Has(k) || strings.HasSuffix(path, partEnding) {
				t.Fatalf("%s is left", path)
			}
			if got := h.load(n, killSize(n)); !bytes.Equal(got, dataOf(n, killSize(n))) {
				t.Errorf("copy %d is wrong", n)
			}
			there++
		}
		if st := h.Stats(); st.FileBytes > 3<<20 || st.Damaged > 0 || st.Files != len(files) {
			t.Errorf("%d files: %+v", len(files), st)
		}
		h.close()
	}
	if there == 0 {
		t.Error("nothing was ever written")
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
		t.Error(err)
	}
}
