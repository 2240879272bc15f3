package calls

import (
	"context"
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

// crashBatch is the number of calls of a batch, which is larger than a transaction.
const crashBatch = 120

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
	for i := range 6 {
		go crashWriter(s, fmt.Sprintf("p/%s-%d", args[1], i))
	}
	select {}
}

// crashWriter writes a call in two parts, of which the end comes first in every other case,
// and now and then a batch of calls, and deletes a call that it wrote before.
func crashWriter(s *Store, project string) {
	for i := 0; ; i++ {
		parts := []string{"start", "end"}
		if i%2 == 1 {
			parts = []string{"end", "start"}
		}
		for _, part := range parts {
			if !crashWrite(s, crashPart(project, part, i)) {
				return
			}
			fmt.Println(part, project, i)
		}
		if i%10 == 5 {
			var items []string
			for j := range crashBatch {
				items = append(items, crashPart(project, "complete", i*1000+j).body)
			}
			if !crashWrite(s, crashRequest{FormComplete, `{"batch":[` + strings.Join(items, ",") + `]}`}) {
				return
			}
			fmt.Println("batch", project, i)
		}
		if i%10 == 9 {
			if _, err := s.Delete(context.Background(), project, []string{fmt.Sprint("c", i-5)}); err != nil {
				fmt.Println("error", err)
				return
			}
			fmt.Println("deleted", project, i-5)
		}
	}
}

type crashRequest struct {
	form Form
	body string
}

func crashWrite(s *Store, r crashRequest) bool {
	_, err := tryWrite(s, r.form, r.body)
	if err != nil {
		fmt.Println("error", err)
	}
	return err == nil
}

// crashText is the text of the call with number i; its lengths are on both sides of the
// store's threshold for the value log.
func crashText(i int) string { return fmt.Sprint(i, " ", strings.Repeat("x", i%5*4000)) }

// crashPart is a request with a part of the call with number i, or only the call if it is one
// of a batch.
func crashPart(project, part string, i int) crashRequest {
	head := fmt.Sprintf(`{"project_id":"%s","id":"c%d"`, project, i)
	begin := fmt.Sprintf(`,"op_name":"op%d","trace_id":"t%d","started_at":%d,"attributes":{},"inputs":{"text":"%s"}`, i%7, i/10, 1_700_000_000+i, crashText(i))
	finish := fmt.Sprintf(`,"ended_at":%d,"summary":{},"output":"%s"`, 1_700_000_001+i, crashText(i))
	switch part {
	case "start":
		return crashRequest{FormStart, `{"start":` + head + begin + `}}`}
	case "end":
		return crashRequest{FormEnd, `{"end":` + head + finish + `}}`}
	}
	return crashRequest{FormComplete, head + begin + finish + `}`}
}

// TestKill kills a process that writes with SIGKILL, again and again on one store. What was
// acknowledged is there, a batch is there as a whole or not at all, and the indexes and counts
// are those of the records (docs/interface/weave.md, W-100).
func TestKill(t *testing.T) {
	k := crashTest{t: t, dir: t.TempDir(), acknowledged: map[string]map[string]bool{}}
	for k.round = range testkit.CrashRounds(6) {
		testkit.Crash{Role: "write", Args: []string{k.dir, strconv.Itoa(k.round)}, Lines: 30 + 47*k.round%300}.Run(t, func(line string) {
			f := strings.Fields(line)
			if len(f) != 3 {
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
		k.project(s, project, said)
	}
	if err := s.Check(func(what string) { k.t.Errorf("round %d: %s", k.round, what) }); err != nil || k.t.Failed() {
		k.t.Fatal(err)
	}
	if m := db.Damage(); len(m) > 0 {
		k.t.Fatalf("round %d: a crash was reported as damage: %v", k.round, m)
	}
	if k.round%3 == 2 { // many calls would make many rounds slow
		for project := range k.acknowledged {
			if _, err := s.Expire(context.Background(), project, time.Now().Add(time.Hour).UnixMilli()); err != nil {
				k.t.Fatal(err)
			}
			if left := there(k.t, s, project); len(left) > 0 {
				k.t.Fatalf("round %d: %d calls of %s are left", k.round, len(left), project)
			}
		}
		clear(k.acknowledged)
	}
	if err := db.Close(); err != nil {
		k.t.Fatal(err)
	}
}

// project looks for everything of a project that was acknowledged.
func (k *crashTest) project(s *Store, project string, said map[string]bool) {
	batches := map[int]int{}
	for _, id := range there(k.t, s, project) {
		if n, _ := strconv.Atoi(id[1:]); n >= 1000 {
			batches[n/1000]++
		}
	}
	for i, n := range batches {
		if n != crashBatch {
			k.t.Fatalf("round %d: batch %d of %s has %d calls of %d", k.round, i, project, n, crashBatch)
		}
	}
	for line := range said {
		what, number, _ := strings.Cut(line, " ")
		i, err := strconv.Atoi(number)
		if err != nil {
			k.t.Fatalf("round %d: %q", k.round, line)
		}
		if what == "batch" {
			if batches[i] == 0 {
				k.t.Fatalf("round %d: batch %d of %s was acknowledged and is not there", k.round, i, project)
			}
			continue
		}
		var rec *Record
		if err := s.db.View(func(r *store.Reader) error {
			rec, err = get(r, project, "c"+number)
			return err
		}); err != nil || rec == nil {
			k.t.Fatalf("round %d: %s of %s was acknowledged and is not there: %v", k.round, line, project, err)
		}
		gone := rec.flags&isDeleted != 0
		ok := map[string]bool{
			"start": gone || rec.flags&hasStart != 0 && strings.Contains(string(rec.Bytes(Inputs)), crashText(i)),
			"end":   gone || rec.flags&hasEnd != 0 && strings.Contains(string(rec.Bytes(Output)), crashText(i)), "deleted": gone,
		}
		if !ok[what] {
			k.t.Fatalf("round %d: %s of %s was acknowledged and is not there", k.round, line, project)
		}
	}
}
