package feedback

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/store"
)

// TestMain lets the test binary be its own victim.
func TestMain(m *testing.M) {
	if dir := os.Getenv("FEEDBACK_TEST_DIR"); dir != "" {
		victim(dir)
		return
	}
	os.Exit(m.Run())
}

func openVictim(dir string) (*Store, *store.DB, error) {
	cfg := store.DefaultConfig(dir)
	cfg.MemTable, cfg.ValueThreshold, cfg.ValueLogFile = 1<<20, 8<<10, 8<<20 // files come and go
	cfg.MinFree, cfg.MaintainEvery = 0, 0
	cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	db, err := store.Open(cfg)
	return New(db, DefaultConfig()), db, err
}

// victim writes until it is killed: every worker keeps one record under its own
// id, replacing it over and over, one that gets a new id each time, and now and
// then a batch that is larger than a transaction. It prints what was acknowledged.
func victim(dir string) {
	s, _, err := openVictim(dir)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	round := os.Getenv("FEEDBACK_TEST_ROUND")
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, format+"\n", args...)
	}
	body := func(project, replaces, id, text string) []byte {
		m := map[string]any{"project_id": project, "trace_ref": "weave:///" + project + "/call/1", "feedback_type": "custom", "payload": map[string]any{"text": text}}
		if replaces != "" {
			m["feedback_id"] = replaces
		}
		if id != "" {
			m["id"] = id
		}
		out, _ := json.Marshal(m)
		return out
	}
	for w := range 8 {
		go func() {
			project, moving := fmt.Sprintf("p/%s-%d", round, w), "none"
			fixed := fmt.Sprintf("00000000-0000-4000-8000-%012d", w)
			fail := func(err error) bool {
				if err != nil {
					say("error %v", err)
				}
				return err != nil
			}
			replace := func(replaces, id, text string) (string, error) {
				r, err := DecodeRequest(body(project, replaces, id, text), Replace)
				if err != nil {
					return "", err
				}
				answer, err := s.Replace(context.Background(), Author{User: "u"}, r, Once{})
				var got struct{ ID string }
				if err == nil {
					err = json.Unmarshal(answer, &got)
				}
				return got.ID, err
			}
			for i := 0; ; i++ {
				text := fmt.Sprint(i, " ", strings.Repeat("x", i%5*4000))
				if _, err := replace(fixed, fixed, text); fail(err) {
					return
				}
				say("fixed %s %s %d", project, fixed, i)
				var err error
				if moving, err = replace(moving, "", text); fail(err) {
					return
				}
				say("moving %s %s %d", project, moving, i)
				if i%20 == 10 {
					var items []string
					for j := range 300 {
						items = append(items, string(body(project+"b", "", "", fmt.Sprint(i, " ", j))))
					}
					batch, err := DecodeBatch([]byte(`{"batch":[` + strings.Join(items, ",") + `]}`))
					if fail(err) {
						return
					}
					if _, err := s.CreateAll(context.Background(), Author{User: "u"}, batch, Once{}); fail(err) {
						return
					}
					say("batch %sb - %d", project, i)
				}
			}
		}()
	}
	select {}
}

// kill -9 under load, many times (spec 11.2, checklist 20): what was acknowledged
// is there, nothing is there twice, nothing is half there.
func TestKill(t *testing.T) {
	rounds := 20
	if n, err := strconv.Atoi(os.Getenv("WEIR_CRASH_ROUNDS")); err == nil {
		rounds = n
	}
	dir := t.TempDir()
	type state struct {
		kind string
		i    int
		id   string
	}
	acked := map[string]state{} // by kind and project
	deleted := map[string]bool{}
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FEEDBACK_TEST_DIR="+dir, "FEEDBACK_TEST_ROUND="+strconv.Itoa(round))
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		quota, n := 30+47*round%400, 0
		for out := bufio.NewScanner(pipe); out.Scan(); {
			f := strings.Fields(out.Text())
			if f[0] == "error" {
				t.Fatalf("round %d: %s", round, out.Text())
			}
			i, _ := strconv.Atoi(f[3])
			acked[f[0]+" "+f[1]] = state{f[0], i, f[2]}
			if n++; n == quota {
				_ = cmd.Process.Kill()
			}
		}
		timer.Stop()
		_ = cmd.Wait()
		s, db, err := openVictim(dir)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		rows := map[string][]*Record{}
		if err := s.Each(func(r *Record) error { rows[r.Project] = append(rows[r.Project], r); return nil }, func(key []byte, err error) {
			t.Errorf("round %d: %q: %v", round, key, err)
		}); err != nil {
			t.Fatal(err)
		}
		for project, list := range rows {
			if deleted[project] {
				t.Fatalf("round %d: %s is back, with %d records", round, project, len(list))
			}
			if strings.HasSuffix(project, "b") {
				parts := map[string]int{}
				for _, r := range list {
					parts[strings.Fields(member(r.Payload, "text").Text())[0]]++
				}
				for i, n := range parts {
					if n != 300 {
						t.Fatalf("round %d: batch %s of %s has %d parts of 300", round, i, project, n)
					}
				}
				continue
			}
			if len(list) > 2 {
				t.Fatalf("round %d: %s has %d records: one is doubled", round, project, len(list))
			}
			for _, r := range list {
				text := member(r.Payload, "text").Text()
				i, err := strconv.Atoi(strings.Fields(text)[0])
				if err != nil || text != fmt.Sprint(i, " ", strings.Repeat("x", i%5*4000)) {
					t.Fatalf("round %d: %s is torn: %.40q", round, project, text)
				}
			}
		}
		for key, want := range acked {
			_, project, _ := strings.Cut(key, " ")
			found := false
			for _, r := range rows[project] {
				i, _ := strconv.Atoi(strings.Fields(member(r.Payload, "text").Text())[0])
				fixed := strings.HasPrefix(r.ID, "00000000-")
				// What was under way when it was killed may be there, too.
				found = found || want.kind == "batch" && i == want.i || fixed == (want.kind == "fixed") && (i == want.i && (fixed || r.ID == want.id) || i == want.i+1)
			}
			if !found {
				t.Fatalf("round %d: the acknowledged %s, number %d, is not there: %v", round, key, want.i, rows[project])
			}
		}
		if err := s.Check(func(what string) { t.Errorf("round %d: %s", round, what) }); err != nil || t.Failed() {
			t.Fatal(err)
		}
		if m := db.Damage(); len(m) > 0 {
			t.Fatalf("round %d: a crash is taken for damage: %v", round, m)
		}
		for project := range rows { // batches would make many rounds slow; and what is deleted stays so
			if round%3 == 2 && strings.HasSuffix(project, "b") {
				if _, err := s.Expire(context.Background(), project, time.Now().Add(time.Hour).UnixMilli()); err != nil {
					t.Fatal(err)
				}
				deleted[project] = true
				delete(acked, "batch "+project)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkReplace is acknowledged writes, each on stable storage, by as many
// clients at a time.
func BenchmarkReplace(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			cfg := store.DefaultConfig(b.TempDir())
			cfg.MinFree, cfg.Log = 0, slog.New(slog.NewTextHandler(io.Discard, nil))
			db, err := store.Open(cfg)
			if err != nil {
				b.Fatal(err)
			}
			book := New(db, DefaultConfig())
			r, err := request(b, map[string]any{"feedback_type": "wandb.note.1", "payload": map[string]any{"note": "A note of a usual length, which is a sentence or two."}})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			next := make(chan struct{})
			var wg sync.WaitGroup
			b.ResetTimer()
			for range clients {
				wg.Go(func() {
					for range next {
						if _, err := book.Create(context.Background(), Author{User: "u"}, r, Once{}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for range b.N {
				next <- struct{}{}
			}
			close(next)
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			if s := db.Stats(); s.Commits > 0 {
				b.ReportMetric(float64(s.Updates)/float64(s.Commits), "writes/commit")
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
