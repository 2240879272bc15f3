package queues

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testkit"
	"weir/store"
	"weir/store/storetest"
)

func TestMain(m *testing.M) {
	testkit.Main(m, map[string]func(args []string){"write": writeUntilKilled})
}

// openCrash opens a store whose files are so small that they are often replaced.
func openCrash(dir string) (*Store, *store.DB, error) {
	db, err := store.Open(storetest.Small(dir))
	return New(db), db, err
}

// crashBatch is the number of calls that are added at once.
const crashBatch = 150

// writeUntilKilled is the process that is killed. It prints a line for each request that was
// acknowledged:
//
//	<kind> <queue> <number>
func writeUntilKilled(args []string) {
	s, _, err := openCrash(args[0])
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for range 3 {
		go crashWriter(s)
	}
	select {}
}

// crashWriter makes queues. It adds calls to each in batches and completes one item of each
// batch, and deletes every other queue.
func crashWriter(s *Store) {
	ctx := context.Background()
	for n := 0; ; n++ {
		name := "n"
		id, err := s.Create(ctx, "u", &Request{Project: "p/q", name: &name})
		for batch := range 4 {
			r := &Request{Project: "p/q", fields: []string{strings.Repeat("f", batch*500)}, state: Completed}
			found := map[string]Call{}
			for i := range crashBatch {
				c := callNumbered(batch*crashBatch + i)
				r.calls, found[c.ID] = append(r.calls, c.ID), c
			}
			if err == nil {
				_, err = s.Add(ctx, "u", id, r, found)
			}
			if err != nil {
				fmt.Println("error", err)
				return
			}
			fmt.Println("batch", id, batch)
		}
		if n%2 == 1 {
			if _, err := s.Delete(ctx, "p/q", id); err != nil {
				fmt.Println("error", err)
				return
			}
			fmt.Println("deleted", id, 0)
		}
	}
}

// TestKill kills a process that writes with SIGKILL, again and again on one store. What was
// acknowledged is there, and what is added at once is there as a whole or not at all
// (docs/interface/weave.md, W-310).
func TestKill(t *testing.T) {
	dir := t.TempDir()
	batches, deleted := map[string]int{}, map[string]bool{}
	for round := range testkit.CrashRounds(5) {
		testkit.Crash{Role: "write", Args: []string{dir}, Lines: 10 + 37*round%60}.Run(t, func(line string) {
			f := strings.Fields(line)
			if len(f) != 3 {
				t.Fatalf("round %d: %q", round, line)
			}
			n, err := strconv.Atoi(f[2])
			if err != nil {
				t.Fatalf("round %d: %q", round, line)
			}
			if f[0] == "deleted" {
				deleted[f[1]] = true
			} else {
				batches[f[1]] = n + 1
			}
		})
		s, db, err := openCrash(dir)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		checkCrash(t, s, batches, deleted)
		if m := db.Damage(); len(m) > 0 || t.Failed() {
			t.Fatalf("round %d: damage: %v", round, m)
		}
		if round%4 == 3 { // many queues would make many rounds slow, and be too many
			if _, err := s.Expire(context.Background(), "p/q", 1<<50); err != nil || keysOf(t, s) != 0 {
				t.Fatalf("round %d: %v; %d keys are left", round, err, keysOf(t, s))
			}
			clear(batches)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func checkCrash(t *testing.T, s *Store, batches map[string]int, deleted map[string]bool) {
	t.Helper()
	if err := s.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
	intact(t, s)
	for id, n := range batches {
		q, err := s.Get("p/q", id)
		switch {
		case deleted[id] && !isNotFound(err):
			t.Errorf("%s was deleted and is there: %v", id, err)
		case deleted[id]:
		case isNotFound(err) && n == 4: // its deletion was not acknowledged, and happened
		case err != nil:
			t.Errorf("%s: %v", id, err)
		case q.Items < n*crashBatch || q.Items%crashBatch != 0 || q.Items > (n+1)*crashBatch:
			t.Errorf("%s has %d items; %d batches were acknowledged", id, q.Items, n)
		}
	}
}
