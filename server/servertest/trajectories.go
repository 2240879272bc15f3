package servertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/jsontext"
	"weir/store"
	"weir/trajectory/archive"
)

// NewDB opens an empty database, which is closed when the test ends.
func NewDB(t testing.TB) *store.DB {
	t.Helper()
	cfg := store.DefaultConfig(t.TempDir())
	cfg.Log = slog.New(slog.DiscardHandler)
	cfg.MinFree = 0 // the disk of a test machine may be nearly full
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// KeysIn counts the keys of db that begin with a tag.
func KeysIn(t testing.TB, db *store.DB, tag byte) (n int) {
	t.Helper()
	if err := db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tag}, Keys: true}, func([]byte, []byte) bool { n++; return true })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// Spoil replaces the value of the first key of a table that fits by one that nobody wrote.
func Spoil(t testing.TB, db *store.DB, tag byte, fits func(key []byte) bool) {
	t.Helper()
	var found []byte
	err := db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tag}, Keys: true}, func(key, _ []byte) bool {
			if fits(key) {
				found = bytes.Clone(key)
			}
			return found == nil
		})
	})
	if err == nil && found != nil {
		err = db.Update(context.Background(), func(tx *store.Tx) error { tx.Set(found, []byte("nonsense")); return nil })
	}
	if err != nil || found == nil {
		t.Fatal("no value was replaced: ", err)
	}
}

// Archive is an archive of trajectories in a database of its own.
type Archive struct {
	*archive.Archive
	DB *store.DB
}

// NewArchive opens an empty archive, which is closed when the test ends.
func NewArchive(t testing.TB) *Archive {
	t.Helper()
	db := NewDB(t)
	opened, err := archive.New(db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a := &Archive{Archive: opened, DB: db}
	t.Cleanup(a.Close)
	WaitFor(t, "opening", func() bool { return a.Err() == nil })
	return a
}

// Close closes the archive and its database, as a server that has lost its disk would find
// them. A second call does nothing.
func (a *Archive) Close() {
	if a.DB == nil {
		return
	}
	a.Archive.Close()
	_ = a.DB.Close() // a test has failed already if this does
	a.DB = nil
}

// Keys counts what is stored with one of the archive's table tags: 'B' has the batches,
// 'D' the blocks of their texts, 'U' what is staged or is to be removed, and 'C' the
// completions that wait for rewards.
func (a *Archive) Keys(t testing.TB, tag byte) int {
	t.Helper()
	return KeysIn(t, a.DB, tag)
}

// NewTrajectories starts a server with an archive.
func NewTrajectories(t testing.TB, change func(*Setup)) (*Server, *Archive) {
	t.Helper()
	a := NewArchive(t)
	h := New(t, func(s *Setup) {
		s.Config.Trajectories.Archive = a.Archive
		s.Config.Trajectories.Spool = t.TempDir()
		if change != nil {
			change(s)
		}
	})
	return h, a
}

// NewRecording starts a server that records the completions of the projects acme/* and
// solo/one in an archive, a millisecond after they have ended.
func NewRecording(t testing.TB, change func(*Setup)) (*Server, *Archive) {
	t.Helper()
	return NewTrajectories(t, func(s *Setup) {
		s.Config.Trajectories.Record = []string{"acme/*", "solo/one"}
		s.Config.Trajectories.RecordEvery = time.Millisecond
		if change != nil {
			change(s)
		}
	})
}

// AgentPath is the path of a model whose trajectories are logged.
const AgentPath = "/v1/preview/models/m"

// Group is the body of a log request with one group of the trajectories given.
func Group(trajectories ...string) string {
	return `{"split":"train","trajectory_groups":[{"trajectories":[` + strings.Join(trajectories, ",") + `]}]}`
}

// ExampleLog is the example body of a log request in docs/interface/trajectories.md.
func ExampleLog(t testing.TB) string {
	t.Helper()
	root := ""
	for range 4 { // a test runs in the folder of its package
		if _, err := os.Stat(root + "go.mod"); err == nil {
			break
		}
		root += "../"
	}
	b, err := os.ReadFile(root + "trajectory/testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// LogGroups logs a body for the model of a path, which has to succeed, and returns the
// receipt.
func (h *Server) LogGroups(t testing.TB, path, body string, headers ...string) map[string]any {
	t.Helper()
	status, answer, _ := h.Get("POST", path+"/log", body, headers...)
	if status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	return Object(t, answer)
}

// List asks for a list, which has to succeed, and returns its entries and the whole answer.
func (h *Server) List(t testing.TB, path string, headers ...string) (entries []map[string]any, whole map[string]any) {
	t.Helper()
	status, answer, _ := h.Get("GET", path, "", headers...)
	if status != 200 {
		t.Fatalf("%s: %d %s", path, status, answer)
	}
	whole = Object(t, answer)
	for _, e := range whole["data"].([]any) {
		entries = append(entries, e.(map[string]any))
	}
	return entries, whole
}

// Recorded waits until n trajectories of a model are recorded and returns them, the oldest
// first. It fails if there are more.
func (h *Server) Recorded(t testing.TB, model string, n int) (entries []map[string]any) {
	t.Helper()
	path := "/v1/preview/models/" + model + "/trajectories?limit=1000&order=asc&include=raw,messages,logprobs"
	WaitFor(t, "recording", func() bool {
		status, answer, _ := h.Get("GET", path, "")
		return status == 200 && len(Object(t, answer)["data"].([]any)) >= n
	})
	entries, _ = h.List(t, path)
	if len(entries) != n {
		t.Fatalf("%d trajectories, want %d", len(entries), n)
	}
	return entries
}

// Object decodes a JSON object.
func Object(t testing.TB, text string) (m map[string]any) {
	t.Helper()
	if err := jsontext.Decode([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// KeyHash is the hash of a key, as the file of keys has it.
func KeyHash(key string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key))) }
