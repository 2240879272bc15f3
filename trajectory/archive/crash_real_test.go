package archive

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/store"
	"weir/trajectory"
)

func TestMain(m *testing.M) {
	testkit.Main(m, map[string]func(args []string){"log": logUntilKilled})
}

// crashBody is the body of a batch, which follows from its number. Every fourth is so large
// that some of it is staged before the commit.
func crashBody(n uint64) string {
	r := rand.New(rand.NewPCG(n, 9))
	size := 30_000
	if n%4 == 0 {
		size = 400_000
	}
	var groups []string
	for g := range 3 {
		var list []string
		for i := range 4 {
			list = append(list, fmt.Sprintf(`{"reward":%d,"metadata":{"n":"%d"},"logs":["%s"]}`, i, n, randomText(r, r.IntN(size))))
		}
		groups = append(groups, group(fmt.Sprintf(`"metadata":{"n":%d,"g":%d}`, n, g), list...))
	}
	return batch(fmt.Sprintf("split%d", n), groups...)
}

// logUntilKilled is the process that is killed. Its argument is a folder. It logs batches
// from two goroutines, aborts some, and prints "<number> <id>" for those that are
// acknowledged.
func logUntilKilled(args []string) {
	cfg := store.DefaultConfig(args[0])
	cfg.Log = slog.New(slog.DiscardHandler)
	db, err := store.Open(cfg)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	a, err := New(db, cfg.Log)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	<-a.Ready()
	begin := uint64(time.Now().UnixNano())
	for w := range uint64(2) {
		go func() {
			for n := begin + w; ; n += 2 {
				if err := logNumber(a, n); err != nil {
					fmt.Println("error", err)
					return
				}
			}
		}()
	}
	select {}
}

// logNumber logs the batch with a number, or stages it and aborts.
func logNumber(a *Archive, n uint64) error {
	u, err := a.Begin(context.Background(), "t", "m")
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := trajectory.Read(strings.NewReader(crashBody(n)), trajectory.DefaultLimits(), u); err != nil || n%5 == 0 {
		return err
	}
	r, err := u.Commit(Meta{Split: fmt.Sprintf("split%d", n), Key: fmt.Sprint(n), Digest: []byte("d")})
	if err == nil {
		fmt.Println(n, r.ID)
	}
	return err
}

// TestKill kills a process in the middle of uploads, again and again on one store. What was
// acknowledged is there, what is there is whole, and nothing else is left
// (docs/interface/trajectories.md, case T#20).
func TestKill(t *testing.T) {
	k := crashTest{s: &testArchive{t: t, dir: t.TempDir()}, acknowledged: map[string]uint64{}}
	r := rand.New(rand.NewPCG(7, 8))
	for k.round = range testkit.CrashRounds(5) {
		testkit.Crash{Role: "log", Args: []string{k.s.dir}, Lines: 2 + r.IntN(5), After: time.Duration(r.IntN(60)) * time.Millisecond}.Run(t, k.acknowledge)
		k.check()
	}
}

type crashTest struct {
	s            *testArchive
	round        int
	acknowledged map[string]uint64 // numbers of batches by id
}

// acknowledge takes a line that the process printed.
func (k *crashTest) acknowledge(line string) {
	var n uint64
	var id string
	if _, err := fmt.Sscanf(line, "%d %s", &n, &id); err != nil {
		k.s.t.Fatalf("round %d: %q: %v", k.round, line, err)
	}
	k.acknowledged[id] = n
}

// check opens the archive after the process was killed and looks at all that is in it.
func (k *crashTest) check() {
	t := k.s.t
	k.s.start()
	defer k.s.close()
	k.s.until("swept", func() bool { return k.s.keys(tagMarker) == 0 })
	seen, blocks := map[string]bool{}, 0
	if err := k.s.View("t", func(v *View) error {
		return v.Batches("m", ID{}, false, func(b *Batch) bool {
			seen[b.ID.String()] = true
			for _, size := range b.size {
				blocks += int((size + blockSize - 1) / blockSize)
			}
			k.checkBatch(v.Open(b))
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	for id, n := range k.acknowledged {
		if !seen[id] {
			t.Errorf("round %d: batch %d (%s) was acknowledged and is lost", k.round, n, id)
		}
	}
	if n := k.s.keys(tagBlock); n != blocks {
		t.Errorf("round %d: there are %d blocks, and the batches have %d", k.round, n, blocks)
	}
}

// checkBatch compares a batch with what was logged.
func (k *crashTest) checkBatch(c *Contents) {
	t := k.s.t
	var n uint64
	if _, err := fmt.Sscanf(c.Batch.Split, "split%d", &n); err != nil {
		t.Error(err)
	}
	var want textSink
	if _, err := trajectory.Read(strings.NewReader(crashBody(n)), trajectory.DefaultLimits(), &want); err != nil {
		t.Error(err)
	}
	i := 0
	if err := c.Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
		text, err := c.Text(r)
		if err == nil && string(text) != want[i] {
			t.Errorf("batch %d, trajectory %d is not what was logged", n, i)
		}
		i++
		return err
	}}); err != nil || i != len(want) {
		t.Errorf("batch %d: %d of %d trajectories, %v", n, i, len(want), err)
	}
}

// textSink keeps the texts of trajectories.
type textSink []string

func (k *textSink) Trajectory(t *trajectory.Trajectory) error {
	*k = append(*k, string(t.Text))
	return nil
}

func (k *textSink) Group(*trajectory.Group) error { return nil }
