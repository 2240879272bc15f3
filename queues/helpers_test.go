package queues

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// newStore opens a store in a temporary folder.
func newStore(t testing.TB) *Store {
	s, db, err := openCrash(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return s
}

// intact checks the index, the records and the numbers.
func intact(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Check(func(what string) { t.Error(what) }); err != nil {
		t.Error(err)
	}
}

// got is a value without its error, which must be nil.
func got[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func create(t testing.TB, s *Store, user, name string) string {
	t.Helper()
	r := got(DecodeCreate(context.Background(), fmt.Appendf(nil, `{"project_id":"p/q","name":%q,"scorer_refs":[]}`, name)))
	return got(s.Create(context.Background(), user, r))
}

// callNumbered is a call that exists.
func callNumbered(n int) Call {
	return Call{ID: fmt.Sprint("c", n), Op: fmt.Sprint("op", n%3), Trace: fmt.Sprint("t", n%5), Started: int64(1e15) + int64(n*7%11)}
}

// add adds calls by their numbers.
func add(t testing.TB, s *Store, user, queue string, numbers ...int) Added {
	t.Helper()
	var ids []string
	found := map[string]Call{}
	for _, n := range numbers {
		c := callNumbered(n)
		ids = append(ids, `"`+c.ID+`"`)
		found[c.ID] = c
	}
	r := got(DecodeAdd(context.Background(), []byte(`{"project_id":"p/q","display_fields":["inputs.a"],"call_ids":[`+strings.Join(ids, ",")+`]}`)))
	return got(s.Add(context.Background(), user, queue, r, found))
}

func setState(s *Store, user, queue, item string, state State) error {
	r, err := DecodeProgress(context.Background(), []byte(`{"project_id":"p/q","annotation_state":"`+string(state)+`"}`))
	if err == nil {
		_, err = s.SetProgress(context.Background(), user, queue, item, r)
	}
	return err
}

// answered is an item in an answer.
type answered struct {
	ID       string `json:"id"`
	Call     string `json:"call_id"`
	State    State  `json:"annotation_state"`
	User     string `json:"annotator_user_id"`
	AddedBy  string `json:"added_by"`
	Position int    `json:"position_in_queue"`
}

// queryItems answers a query for items; members are those beside the project.
func queryItems(t testing.TB, s *Store, queue, members string) []answered {
	t.Helper()
	q := got(DecodeItemQuery(context.Background(), []byte(`{"project_id":"p/q"`+members+`}`), queue))
	var out bytes.Buffer
	if err := s.WriteItems(context.Background(), q, &out); err != nil {
		t.Fatal(err)
	}
	var answer struct{ Items []answered }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	return answer.Items
}

// stats returns the numbers of a queue.
func stats(t testing.TB, s *Store, queue string) (total, done int) {
	t.Helper()
	answer := got(s.Stats(context.Background(), &Request{Project: "p/q", ids: []string{queue}}))
	var a struct {
		Stats []struct {
			Total int `json:"total_items"`
			Done  int `json:"completed_items"`
		}
	}
	if err := json.Unmarshal(answer, &a); err != nil || len(a.Stats) != 1 {
		t.Fatalf("%s: %v", answer, err)
	}
	return a.Stats[0].Total, a.Stats[0].Done
}
