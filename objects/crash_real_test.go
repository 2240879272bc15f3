package objects

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/store"
)

func TestMain(m *testing.M) {
	testkit.Main(m, map[string]func(args []string){"write": writeUntilKilled})
}

// openCrash opens a store whose files are so small that they are often replaced.
func openCrash(dir string) (*Store, *store.DB, error) {
	cfg := store.DefaultConfig(dir)
	cfg.MemTable, cfg.ValueThreshold, cfg.ValueLogFile = 1<<20, 8<<10, 8<<20
	cfg.MinFree, cfg.MaintainEvery = 0, 0
	cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	db, err := store.Open(cfg)
	return New(db), db, err
}

// writeUntilKilled is the process that is killed. Its arguments are a folder and a number of
// the round. It prints a line for each request that was acknowledged:
//
//	<kind> <project> <number>
func writeUntilKilled(args []string) {
	s, _, err := openCrash(args[0])
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for i := range 4 {
		go crashWriter(s, fmt.Sprintf("p/%s-%d", args[1], i))
	}
	select {}
}

// crashText is the text of the thing with number i; its lengths are on both sides of the
// store's threshold for the value log.
func crashText(i int) string { return fmt.Sprint(i, " ", strings.Repeat("x", i%5*4000)) }

// crashRows are the rows of the table with number i, of which some are in all tables.
func crashRows(i int) (rows []string) {
	for j := range 20 {
		n := j
		if j%2 == 0 {
			n = 1000*i + j
		}
		rows = append(rows, fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, crashText(j%3)))
	}
	return rows
}

// crashWriter publishes versions of one object, tables and files, and now and then deletes an
// object of its own.
func crashWriter(s *Store, project string) {
	for i := 0; ; i++ {
		for _, step := range []struct {
			kind string
			do   func() error
		}{
			{"version", func() error { _, err := tryPublish(s, "u", project, "o", `"`+crashText(i)+`"`); return err }},
			{"file", func() error { _, err := tryFile(s, "u", project, crashText(i)); return err }},
			{"table", func() error { _, err := tryTable(s, "u", project, crashRows(i)...); return err }},
			{"object", func() error { _, err := tryPublish(s, "u", project, fmt.Sprint("d", i), "1"); return err }},
			{"deleted", func() error {
				_, err := s.Delete(context.Background(), &Selection{Project: project, ID: fmt.Sprint("d", i)})
				return err
			}},
		} {
			if step.kind == "deleted" && i%3 != 0 {
				continue
			}
			if err := step.do(); err != nil {
				fmt.Println("error", err)
				return
			}
			fmt.Println(step.kind, project, i)
		}
	}
}

// TestKill kills a process that writes with SIGKILL, again and again on one store. What was
// acknowledged is there, a table is there with all its rows, and the counts are those of the
// content (docs/interface/weave.md, W-233).
func TestKill(t *testing.T) {
	k := crashTest{t: t, dir: t.TempDir(), acknowledged: map[string]map[string]bool{}}
	for k.round = range testkit.CrashRounds(6) {
		testkit.Crash{Role: "write", Args: []string{k.dir, strconv.Itoa(k.round)}, Lines: 30 + 47*k.round%300}.Run(t, func(line string) {
			f := strings.Fields(line)
			if len(f) != 3 || f[0] == "error" {
				t.Fatalf("round %d: %q", k.round, line)
			}
			if k.acknowledged[f[1]] == nil {
				k.acknowledged[f[1]] = map[string]bool{}
			}
			k.acknowledged[f[1]][f[0]+" "+f[2]] = true
		})
		k.check()
	}
}

type crashTest struct {
	t            *testing.T
	dir          string
	round        int
	acknowledged map[string]map[string]bool // by project: what was printed
}

// check opens the store after the process was killed and looks at all that is in it.
func (k *crashTest) check() {
	s, db, err := openCrash(k.dir)
	if err != nil {
		k.t.Fatalf("round %d: %v", k.round, err)
	}
	for project, said := range k.acknowledged {
		for line := range said {
			kind, number, _ := strings.Cut(line, " ")
			i, _ := strconv.Atoi(number)
			if err := crashLook(s, project, kind, i, said); err != nil {
				k.t.Fatalf("round %d: %s of %s: %v", k.round, line, project, err)
			}
		}
	}
	if err := s.Check(func(what string) { k.t.Errorf("round %d: %s", k.round, what) }); err != nil || k.t.Failed() {
		k.t.Fatal(err)
	}
	if m := db.Damage(); len(m) > 0 {
		k.t.Fatalf("round %d: a crash was reported as damage: %v", k.round, m)
	}
	if k.round%3 == 2 { // much content would make many rounds slow
		for project := range k.acknowledged {
			if _, err := s.Expire(context.Background(), project, time.Now().Add(time.Hour).UnixMilli()); err != nil {
				k.t.Fatal(err)
			}
			if left := contentOf(k.t, s, project); left != " values=0 tables=0 rows=0 files=0" {
				k.t.Fatalf("round %d: %s of %s is left", k.round, left, project)
			}
		}
		clear(k.acknowledged)
	}
	if err := db.Close(); err != nil {
		k.t.Fatal(err)
	}
}

// crashLook looks for one thing that was acknowledged.
func crashLook(s *Store, project, kind string, i int, said map[string]bool) error {
	text := crashText(i)
	switch kind {
	case "version":
		answer, err := s.Read(context.Background(), &Selection{Project: project, ID: "o", Digests: []string{Digest([]byte(`"` + text + `"`))}})
		if err == nil && !strings.Contains(string(answer), `"val":"`+text+`"`) {
			err = fmt.Errorf("%.100s", answer)
		}
		return err
	case "file":
		content, err := s.File(project, Digest([]byte(text)))
		if err == nil && string(content) != text {
			err = fmt.Errorf("%.100q", content)
		}
		return err
	case "object":
		if said[fmt.Sprint("deleted ", i)] || i%3 == 0 { // the deletion may be there without its acknowledgement
			return nil
		}
		_, err := s.Read(context.Background(), &Selection{Project: project, ID: fmt.Sprint("d", i), Digests: []string{"v0"}})
		return err
	case "deleted":
		_, err := s.Read(context.Background(), &Selection{Project: project, ID: fmt.Sprint("d", i), Digests: []string{"v0"}})
		if _, ok := err.(*Deleted); !ok {
			return fmt.Errorf("it is not deleted: %v", err)
		}
		return nil
	}
	var digests []string
	for _, row := range crashRows(i) {
		digests = append(digests, valueDigest([]byte(row), nil))
	}
	var out strings.Builder
	err := s.Rows(context.Background(), &TableQuery{Project: project, Digest: tableDigest(digests), limit: -1}, &out, true)
	if n := strings.Count(out.String(), "\n"); err == nil && n != len(digests) {
		err = fmt.Errorf("%d rows of %d", n, len(digests))
	}
	return err
}
