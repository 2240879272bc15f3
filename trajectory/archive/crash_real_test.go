package archive

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/store"
	"weir/trajectory"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("WEIR_ARCHIVE_VICTIM"); dir != "" {
		victim(dir)
		return
	}
	os.Exit(m.Run())
}

// The text of a victim's batch follows from its number.
func victimBody(n uint64) string {
	r := rand.New(rand.NewPCG(n, 9))
	var gs []string
	for g := range 3 {
		var ts []string
		for i := range 4 {
			ts = append(ts, fmt.Sprintf(`{"reward":%d,"metadata":{"n":"%d"},"logs":["%s"]}`, i, n, randomText(r, r.IntN(100_000))))
		}
		gs = append(gs, group(fmt.Sprintf(`"metadata":{"n":%d,"g":%d}`, n, g), ts...))
	}
	return batch(fmt.Sprintf("split%d", n), gs...)
}

// victim logs batches from two goroutines and says which are acknowledged, until it dies.
func victim(dir string) {
	log := slog.New(slog.DiscardHandler)
	cfg := store.DefaultConfig(dir)
	cfg.Log = log
	db, err := store.Open(cfg)
	if err != nil {
		panic(err)
	}
	a, err := New(db, log)
	if err != nil {
		panic(err)
	}
	for a.Err() != nil {
		time.Sleep(time.Millisecond)
	}
	begin := uint64(time.Now().UnixNano())
	for w := range uint64(2) {
		go func() {
			for n := begin + w; ; n += 2 {
				u, err := a.Begin(context.Background(), "t", "m")
				if err != nil {
					panic(err)
				}
				if _, err := trajectory.Read(strings.NewReader(victimBody(n)), trajectory.DefaultLimits(), u); err != nil {
					panic(err)
				}
				if n%5 == 0 {
					u.Abort()
					continue
				}
				r, err := u.Commit(Meta{Split: fmt.Sprintf("split%d", n), Key: fmt.Sprint(n), Digest: []byte("d")})
				if err != nil {
					panic(err)
				}
				fmt.Fprintf(os.Stdout, "%d %v\n", n, r.ID)
			}
		}()
	}
	select {}
}

// kill -9 in the middle of uploads: what was acknowledged is there, whole;
// what is there is whole; and nothing else is left (checklist 20).
func TestKill(t *testing.T) {
	dir := t.TempDir()
	acknowledged := map[string]uint64{}
	r := rand.New(rand.NewPCG(7, 8))
	rounds := 20
	if n, err := strconv.Atoi(os.Getenv("WEIR_CRASH_ROUNDS")); err == nil {
		rounds = n
	} else if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "WEIR_ARCHIVE_VICTIM="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n, most := 0, 2+r.IntN(5); n < most && lines.Scan(); n++ {
			note(t, acknowledged, lines.Text())
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			note(t, acknowledged, lines.Text())
		}
		_ = cmd.Wait() // killed

		s := &testArchive{t: t, dir: dir}
		s.start()
		s.until("swept", func() bool { return s.keys(tagMarker) == 0 })
		seen, blocks := map[string]bool{}, 0
		err = s.View("t", func(v *View) error {
			return v.Batches("m", ID{}, false, func(b *Batch) bool {
				var n uint64
				if _, err := fmt.Sscanf(b.Split, "split%d", &n); err != nil {
					t.Error(err)
				}
				seen[b.ID.String()] = true
				for _, size := range b.size {
					blocks += int((size + blockSize - 1) / blockSize)
				}
				h := textSink{}
				if _, err := trajectory.Read(strings.NewReader(victimBody(n)), trajectory.DefaultLimits(), &h); err != nil {
					t.Error(err)
				}
				c := v.Open(b)
				i := 0
				if err := c.Visit(&Filter{}, Visitor{Trajectory: func(r *Row) error {
					text, err := c.Text(r)
					if err == nil && string(text) != h[i] {
						t.Errorf("batch %d, trajectory %d is not what it was", n, i)
					}
					i++
					return err
				}}); err != nil || i != len(h) {
					t.Errorf("batch %d: %d of %d, %v", n, i, len(h), err)
				}
				return true
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		for id, n := range acknowledged {
			if !seen[id] {
				t.Errorf("round %d: batch %d (%s) was acknowledged and is lost", round, n, id)
			}
		}
		if n := s.keys(tagBlock); n != blocks {
			t.Errorf("%d blocks, the batches have %d", n, blocks)
		}
		if len(acknowledged) == 0 {
			t.Error("nothing was acknowledged: the test shows nothing")
		}
		s.close()
	}
}

func note(t *testing.T, acknowledged map[string]uint64, line string) {
	var n uint64
	var id string
	if _, err := fmt.Sscanf(line, "%d %s", &n, &id); err != nil || len(id) != 36 {
		return // cut by the kill
	}
	acknowledged[id] = n
}

// kept is a sink of texts.
type textSink []string

func (k *textSink) Trajectory(t *trajectory.Trajectory) error {
	*k = append(*k, string(t.Text))
	return nil
}
func (k *textSink) Group(*trajectory.Group) error { return nil }
