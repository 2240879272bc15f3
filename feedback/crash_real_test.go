package feedback

import (
	"context"
	"encoding/json"
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

// openSmall opens a store whose files are so small that they are often replaced.
func openSmall(dir string) (*Store, *store.DB, error) {
	db, err := store.Open(storetest.Small(dir))
	return New(db, DefaultConfig()), db, err
}

// batchSize is the number of records of a batch, which is larger than a transaction.
const batchSize = 300

// writeUntilKilled is the process that is killed. Its arguments are a folder and a number
// of the round. It prints a line for each request that was acknowledged:
//
//	<kind> <project> <id> <number>
func writeUntilKilled(args []string) {
	s, _, err := openSmall(args[0])
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for i := range 8 {
		w := crashWriter{s: s, project: fmt.Sprintf("p/%s-%d", args[1], i), fixed: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), moving: "none"}
		go w.run()
	}
	select {}
}

// crashWriter keeps two records in a project of its own and replaces them again and
// again: one under a fixed id, and one that gets another id each time. Now and then it
// writes a batch to another project.
type crashWriter struct {
	s             *Store
	project       string
	fixed, moving string // ids
}

func (w *crashWriter) run() {
	for i := 0; ; i++ {
		if err := w.write(i); err != nil {
			fmt.Println("error", err)
			return
		}
	}
}

// write makes the requests with number i.
func (w *crashWriter) write(i int) (err error) {
	if _, err := w.replace(w.fixed, w.fixed, i); err != nil {
		return err
	}
	fmt.Println("fixed", w.project, w.fixed, i)
	if w.moving, err = w.replace(w.moving, "", i); err != nil {
		return err
	}
	fmt.Println("moving", w.project, w.moving, i)
	if i%20 != 10 {
		return nil
	}
	var items []string
	for j := range batchSize {
		items = append(items, string(crashBody(w.project+"b", "", "", fmt.Sprint(i, " ", j))))
	}
	batch, err := DecodeBatch(context.Background(), []byte(`{"batch":[`+strings.Join(items, ",")+`]}`))
	if err != nil {
		return err
	}
	if _, err := w.s.CreateAll(context.Background(), Author{User: "u"}, batch, Once{}); err != nil {
		return err
	}
	fmt.Println("batch", w.project+"b", "-", i)
	return nil
}

// replace writes a record with the text of number i, and returns its id.
func (w *crashWriter) replace(replaces, id string, i int) (string, error) {
	r, err := DecodeRequest(context.Background(), crashBody(w.project, replaces, id, crashText(i)), Replace)
	if err != nil {
		return "", err
	}
	answer, err := w.s.Replace(context.Background(), Author{User: "u"}, r, Once{})
	if err != nil {
		return "", err
	}
	var got struct{ ID string }
	err = json.Unmarshal(answer, &got)
	return got.ID, err
}

// crashText is the text of the payload with number i; its lengths are on both sides of
// the store's threshold for the value log.
func crashText(i int) string { return fmt.Sprint(i, " ", strings.Repeat("x", i%5*4000)) }

// crashBody is a request with a text as its payload.
func crashBody(project, replaces, id, text string) []byte {
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

// TestKill kills a process that writes with SIGKILL, again and again on one store. What was
// acknowledged is there, nothing is there twice, and nothing is there in part
// (docs/interface/feedback.md, section 11.2 and case F#20).
func TestKill(t *testing.T) {
	k := crashTest{t: t, dir: t.TempDir(), acknowledged: map[string]crashState{}, deleted: map[string]bool{}}
	for k.round = range testkit.CrashRounds(6) {
		testkit.Crash{Role: "write", Args: []string{k.dir, strconv.Itoa(k.round)}, Lines: 30 + 47*k.round%400}.Run(t, k.acknowledge)
		k.check()
	}
}

// crashState is what was acknowledged last for a kind and project.
type crashState struct {
	kind, project, id string
	i                 int
}

type crashTest struct {
	t            *testing.T
	dir          string
	round        int
	acknowledged map[string]crashState // by kind and project
	deleted      map[string]bool       // projects whose records were deleted
	records      map[string][]*Record  // what is there, by project
}

// acknowledge takes a line that the process printed.
func (k *crashTest) acknowledge(line string) {
	f := strings.Fields(line)
	i, err := strconv.Atoi(f[3])
	if err != nil {
		k.t.Fatalf("round %d: %q", k.round, line)
	}
	k.acknowledged[f[0]+" "+f[1]] = crashState{f[0], f[1], f[2], i}
}

// check opens the store after the process was killed and looks at all that is in it.
func (k *crashTest) check() {
	s, db, err := openSmall(k.dir)
	if err != nil {
		k.t.Fatalf("round %d: %v", k.round, err)
	}
	k.records = map[string][]*Record{}
	if err := s.Each(func(r *Record) error { k.records[r.Project] = append(k.records[r.Project], r); return nil }, func(key []byte, err error) {
		k.t.Errorf("round %d: %q: %v", k.round, key, err)
	}); err != nil {
		k.t.Fatal(err)
	}
	for project, list := range k.records {
		switch {
		case k.deleted[project]:
			k.t.Fatalf("round %d: %s is there again, with %d records", k.round, project, len(list))
		case strings.HasSuffix(project, "b"):
			k.checkBatches(project, list)
		default:
			k.checkRecords(project, list)
		}
	}
	k.checkAcknowledged()
	if err := s.Check(func(what string) { k.t.Errorf("round %d: %s", k.round, what) }); err != nil || k.t.Failed() {
		k.t.Fatal(err)
	}
	if m := db.Damage(); len(m) > 0 {
		k.t.Fatalf("round %d: a crash was reported as damage: %v", k.round, m)
	}
	if k.round%3 == 2 {
		k.deleteBatches(s)
	}
	if err := db.Close(); err != nil {
		k.t.Fatal(err)
	}
}

// crashNumber is the number of the request that wrote a record.
func crashNumber(r *Record) int {
	i, _ := strconv.Atoi(strings.Fields(member(r.Payload, "text").Text())[0])
	return i
}

// checkBatches looks at a project of batches: each is there as a whole.
func (k *crashTest) checkBatches(project string, list []*Record) {
	parts := map[int]int{}
	for _, r := range list {
		parts[crashNumber(r)]++
	}
	for i, n := range parts {
		if n != batchSize {
			k.t.Fatalf("round %d: batch %d of %s has %d records of %d", k.round, i, project, n, batchSize)
		}
	}
}

// checkRecords looks at the two records of a writer.
func (k *crashTest) checkRecords(project string, list []*Record) {
	if len(list) > 2 {
		k.t.Fatalf("round %d: %s has %d records: one is there twice", k.round, project, len(list))
	}
	for _, r := range list {
		if text := member(r.Payload, "text").Text(); text != crashText(crashNumber(r)) {
			k.t.Fatalf("round %d: a record of %s is there in part: %.40q", k.round, project, text)
		}
	}
}

// checkAcknowledged looks for everything that was acknowledged. A later request that was
// not acknowledged yet may be there in its place.
func (k *crashTest) checkAcknowledged() {
	for _, want := range k.acknowledged {
		found := false
		for _, r := range k.records[want.project] {
			found = found || want.isIn(r)
		}
		if !found {
			k.t.Fatalf("round %d: %+v was acknowledged and is not there: %v", k.round, want, k.records[want.project])
		}
	}
}

// isIn reports whether a record is what was acknowledged, or its successor.
func (a crashState) isIn(r *Record) bool {
	i, fixed := crashNumber(r), strings.HasPrefix(r.ID, "00000000-")
	if a.kind == "batch" {
		return i == a.i
	}
	return fixed == (a.kind == "fixed") && (i == a.i+1 || i == a.i && r.ID == a.id)
}

// deleteBatches deletes the records of batches, which would make many rounds slow, and
// which have to stay deleted.
func (k *crashTest) deleteBatches(s *Store) {
	for project := range k.records {
		if !strings.HasSuffix(project, "b") {
			continue
		}
		if _, err := s.Expire(context.Background(), project, time.Now().Add(time.Hour).UnixMilli()); err != nil {
			k.t.Fatal(err)
		}
		k.deleted[project] = true
		delete(k.acknowledged, "batch "+project)
	}
}
