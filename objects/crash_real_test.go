package objects

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

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
	dir := t.TempDir()
	said := map[string]bool{} // all lines since the store was emptied
	for round := range testkit.CrashRounds(6) {
		crash := testkit.Crash{Role: "write", Args: []string{dir, strconv.Itoa(round)}, Lines: 30 + 47*round%300}
		crash.Run(t, func(line string) { said[line] = true })
		if err := crashCheck(t, dir, said, round%3 == 2); err != nil || t.Failed() {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// crashCheck opens the store after the process was killed and looks for all that was said.
// Much content would make many rounds slow, so now and then everything expires.
func crashCheck(t *testing.T, dir string, said map[string]bool, empty bool) error {
	s, db, err := openCrash(dir)
	if err != nil {
		return err
	}
	for line := range said {
		var kind, project string
		var i int
		if _, err := fmt.Sscanf(line, "%s %s %d", &kind, &project, &i); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		if err := crashLook(s, project, kind, i); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	intact(t, s)
	if m := db.Damage(); len(m) > 0 {
		return fmt.Errorf("a crash was reported as damage: %v", m)
	}
	if empty {
		clear(said)
		err = errors.Join(s.Projects(func(project string) {
			if _, err := s.Expire(context.Background(), project, time.Now().Add(time.Hour).UnixMilli()); err != nil {
				t.Error(err)
			}
		}), s.Projects(func(project string) { t.Errorf("of %s something is left: %s", project, contentOf(t, s, project)) }))
	}
	return errors.Join(err, db.Close())
}

// crashLook looks for one thing that was acknowledged.
func crashLook(s *Store, project, kind string, i int) error {
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
		if i%3 == 0 { // the deletion may be there without its acknowledgement
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
