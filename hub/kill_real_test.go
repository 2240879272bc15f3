package hub

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"weir/hub/hubtest"
	"weir/internal/testkit"
)

// pullUntilKilled is a process that downloads a model and prints a line for each piece.
func pullUntilKilled(args []string) {
	c := Config{Endpoint: args[0], Cache: args[1], Connections: 3}
	h, err := New(c)
	if err == nil {
		h.leastPart, h.buffer = 64<<10, 16<<10
		ref, _ := Parse("org/name")
		_, err = h.Get(context.Background(), ref, Options{Progress: func(p Progress) {
			fmt.Println(p.Done)
			time.Sleep(time.Millisecond) // so that it is killed before all is there
		}})
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	time.Sleep(time.Minute) // to be killed
}

// TestKilled: a process that is killed with SIGKILL in the middle of a download leaves what the
// next one goes on with, until all is there and right.
func TestKilled(t *testing.T) {
	s := hubtest.Start()
	defer s.Close()
	repo := ggufRepo()
	const size = 8 << 20
	repo.Files["m-Q4_K_M.gguf"] = noise(size, 5)
	s.Add("org/name", repo)
	for rounds := testkit.CrashRounds(6); rounds > 0; rounds -= 6 {
		cache := t.TempDir()
		for i := range min(6, rounds) {
			testkit.Crash{Role: "pull", Args: []string{s.HubURL, cache}, Lines: 5 + 9*i%40}.Run(t, func(string) {})
		}
		finish(t, s, cache, repo)
	}
}

// finish downloads the rest.
func finish(t *testing.T, s *hubtest.Server, cache string, repo *hubtest.Repo) {
	t.Helper()
	s.Calls()
	h, err := New(Config{Endpoint: s.HubURL, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ref, _ := Parse("org/name")
	m, err := h.Get(context.Background(), ref, Options{})
	if err != nil {
		t.Fatal(err)
	}
	size := len(repo.Files["m-Q4_K_M.gguf"])
	if came := asked(s.Calls()); came >= size || came < size/4 {
		t.Errorf("%d bytes of %d were asked for at last", came, size)
	}
	if text, err := os.ReadFile(m.Path()); err != nil || string(text) != repo.Files["m-Q4_K_M.gguf"] {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
