package sinks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/feedback"
	"weir/internal/testkit"
	"weir/store"
	"weir/store/outbox"
	"weir/store/storetest"
)

func TestMain(m *testing.M) {
	testkit.Main(m, map[string]func(args []string){"write": writeUntilKilled})
}

// lineSink appends messages to a file, as a system does that is killed with the server. Every fifth
// call fails in the middle.
type lineSink struct {
	path string
	n    int
}

func (s *lineSink) Name() string { return "lines" }
func (s *lineSink) Limits() outbox.Limits {
	return outbox.Limits{Messages: 16, Bytes: 1 << 20, Body: 1 << 20}
}
func (s *lineSink) Close() error { return nil }

func (s *lineSink) Send(_ context.Context, list []outbox.Message) error {
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	s.n++
	for i := range list {
		line, err := json.Marshal(list[i])
		if err != nil {
			return err
		}
		if _, err := f.Write(append(line, '\n')); err != nil {
			return err
		}
		if s.n%5 == 0 && i == len(list)/2 {
			return errors.New("half of it is stored")
		}
	}
	return nil
}

// read returns what is in the file, without repetitions. A line that was cut off is not there.
func (s *lineSink) read(t *testing.T) (list []outbox.Message) {
	t.Helper()
	f, err := os.Open(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]string{}
	for in := bufio.NewScanner(f); in.Scan(); {
		var m outbox.Message
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		text := fmt.Sprint(m.Key, m.Gone, string(m.Body))
		if before, again := seen[m.ID]; !again {
			list = append(list, m)
		} else if before != text {
			t.Errorf("%s stands for two messages: %s, %s", m.ID, before, text)
		}
		seen[m.ID] = text
	}
	return list
}

const (
	crashWriters = 4
	crashKeys    = 5
)

func crashFeeds(dir string) (*feedback.Store, *store.DB, *outbox.Log, error) {
	db, err := store.Open(storetest.Small(dir + "/f"))
	if err != nil {
		return nil, nil, nil, err
	}
	book, log := feedback.New(db, feedback.DefaultConfig()), outbox.New(db, 'f', true)
	book.SetChanges(log)
	return book, db, log, nil
}

func crashGroup(dir string, book *feedback.Store, db *store.DB, log *outbox.Log) *Group {
	return Start(Config{
		Sinks: []Sink{&lineSink{path: dir + "/lines"}}, Backlog: 1 << 20, Log: slog.New(slog.DiscardHandler), TrimEvery: 20 * time.Millisecond, PauseMost: 10 * time.Millisecond,
		Feeds: []Feed{{"feedback", log, book.Changes(), db.Ready()}},
	})
}

// writeUntilKilled is the process that is killed. It prints a line for each change that was
// acknowledged: the project, the key, and the number of the version, or "gone" and the number.
func writeUntilKilled(args []string) {
	book, db, log, err := crashFeeds(args[0])
	if err != nil {
		fmt.Println("error", err)
		return
	}
	crashGroup(args[0], book, db, log)
	first, _ := strconv.Atoi(args[1])
	for w := range crashWriters {
		go func() {
			project := fmt.Sprintf("p/%d", w)
			for i := first; ; i++ {
				key := uuid(i % crashKeys)
				if err := putRecord(book, project, key, strconv.Itoa(i)); err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println("put", project, key, i)
				if i%7 == 3 {
					if err := book.Purge(context.Background(), project, []string{key}); err != nil {
						fmt.Println("error", err)
						return
					}
					fmt.Println("gone", project, key, i)
				}
			}
		}()
	}
	select {}
}

// TestKilled: a server and its sink are killed under load, again and again. In the end the sink has what
// the store has and everything that was acknowledged, the versions of each key in order, and none
// of them twice without being told so by its id.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	newest := map[string]int{} // versions that were acknowledged, by key
	lines := 0
	for round := range testkit.CrashRounds(4) {
		testkit.Crash{Role: "write", Args: []string{dir, strconv.Itoa(round * 1_000_000)}, Lines: 60, After: time.Duration(round%5) * 7 * time.Millisecond}.Run(t, func(line string) {
			part := strings.Fields(line)
			n, err := strconv.Atoi(part[3])
			if err != nil {
				t.Fatal(line)
			}
			newest[part[1]+"/"+part[2]] = n
			lines++
		})
	}
	book, db, log, err := crashFeeds(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := crashGroup(dir, book, db, log)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		if stats := g.Stats(); len(stats) == 1 && stats[0].Lag == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", g.Stats())
		}
	}
	want := map[string]string{}
	if err := book.Each(func(rec *feedback.Record) error {
		want[rec.Project+"/"+rec.ID] = string(rec.AppendAll(nil))
		return nil
	}, func(_ []byte, err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	g.Close(0)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	checkLines(t, (&lineSink{path: dir + "/lines"}).read(t), want, newest)
	t.Logf("%d changes were acknowledged", lines)
}

func checkLines(t *testing.T, list []outbox.Message, want map[string]string, newest map[string]int) {
	t.Helper()
	got, version, reached := map[string]string{}, map[string]int{}, map[string]int{}
	for _, m := range list {
		if m.Gone {
			delete(got, m.Key)
			continue
		}
		var body struct{ Payload struct{ Text string } }
		if err := json.Unmarshal(m.Body, &body); err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(body.Payload.Text)
		if err != nil {
			t.Fatal(err)
		}
		if n < version[m.Key] {
			t.Errorf("%s has version %d after %d", m.Key, n, version[m.Key])
		}
		version[m.Key], reached[m.Key], got[m.Key] = n, n, string(m.Body)
	}
	for key, n := range newest {
		if reached[key] < n && want[key] != "" {
			t.Errorf("%s: version %d was acknowledged, and %d arrived", key, n, reached[key])
		}
	}
	for key, body := range want {
		if got[key] != body {
			t.Errorf("%s: %s, want %s", key, got[key], body)
		}
	}
	for key := range got {
		if want[key] == "" {
			t.Errorf("%s was deleted", key)
		}
	}
}
