package feedbackapi_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"weir/server/servertest"
)

// TestFeedbackReplace: each step goes on with the records that the steps before have left
// (docs/interface/feedback.md, F-20 to F-25, F-30, F-31, F#1 to F#5 and F#7 to F#9).
func TestFeedbackReplace(t *testing.T) {
	s := newServer(t, nil)
	first := s.replaceUnknown(t)
	row := s.replaceUnderItsOwnID(t, s.replaceWithANewID(t, first))
	given := s.replaceAgain(t, s.replaceWithATakenID(t, row))
	s.replaceInAnotherProject(t, given)
	s.replaceAsAnotherAuthor(t)
	s.replaceWithEmptyFields(t)
}

// replaceUnknown replaces what does not exist, which creates a record (F#1).
func (s *feedbackServer) replaceUnknown(t *testing.T) (id string) {
	t.Helper()
	id, answer := s.replace("creator", "Ann")
	if !uuid7.MatchString(id) || s.count() != 1 {
		t.Fatalf("F#1: id %s, %d rows", id, s.count())
	}
	if len(answer) != 4 || answer["platform_user_id"] != "u-17" || fmt.Sprint(answer["payload"]) != "map[n:1]" {
		t.Errorf("F-31: %v", answer)
	}
	at := answer["created_at"].(string)
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) || s.row(id)["created_at"] != at {
		t.Errorf("created_at %s, then %v", at, s.row(id)["created_at"])
	}
	return id
}

// replaceWithANewID replaces a record without an id for the new one, which gets a new id
// and nothing of the old one (F#2, F#8).
func (s *feedbackServer) replaceWithANewID(t *testing.T, old string) (id string) {
	t.Helper()
	id, _ = s.replace("feedback_id", strings.ToUpper(old))
	if id == old || s.count() != 1 || s.row(old) != nil {
		t.Fatalf("F#2: %s to %s, %d rows", old, id, s.count())
	}
	if row := s.row(id); row["creator"] != nil {
		t.Errorf("F#8: creator %v", row["creator"])
	}
	return id
}

// replaceUnderItsOwnID replaces a record under its own id, twice (F#3). Its payload is
// {"n":2} then.
func (s *feedbackServer) replaceUnderItsOwnID(t *testing.T, id string) string {
	t.Helper()
	id1, first := s.replace("feedback_id", id, "id", strings.ToUpper(id))
	id2, second := s.replace("feedback_id", id, "id", id, "payload", map[string]any{"n": 2})
	if id1 != id || id2 != id || s.count() != 1 || !(first["created_at"].(string) < second["created_at"].(string)) {
		t.Errorf("F#3: %v, %v, %d rows", first, second, s.count())
	}
	return id
}

// replaceWithATakenID replaces a record under the id of another one, which changes neither
// (F#4), and returns that other id.
func (s *feedbackServer) replaceWithATakenID(t *testing.T, id string) (other string) {
	t.Helper()
	other, _ = s.replace("payload", map[string]any{"row": "x"})
	status, _, text := s.post("replace", servertest.Item("feedback_id", id, "id", other))
	if status != 409 || text != `{"reason":"Feedback id already exists"}` || s.count() != 2 || fmt.Sprint(s.row(id)["payload"]) != "map[n:2]" || fmt.Sprint(s.row(other)["payload"]) != "map[row:x]" {
		t.Errorf("F#4: %d %s", status, text)
	}
	return other
}

// replaceAgain sends one replacement twice, which changes nothing the second time (F#5),
// and two that only resemble it. It returns the id that the request gives.
func (s *feedbackServer) replaceAgain(t *testing.T, old string) (given string) {
	t.Helper()
	given = "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"
	_, once := s.replace("feedback_id", old, "id", given)
	_, again := s.replace("feedback_id", old, "id", given)
	if fmt.Sprint(once) != fmt.Sprint(again) || s.count() != 2 {
		t.Errorf("F#5: %v, %v, %d rows", once, again, s.count())
	}
	if status, _, _ := s.post("replace", servertest.Item("feedback_id", old, "id", given, "payload", map[string]any{"n": 3})); status != 409 {
		t.Errorf("F-25: a replay with another payload: %d", status)
	}
	there, _ := s.replace("payload", map[string]any{"row": "y"})
	if status, _, _ := s.post("replace", servertest.Item("feedback_id", there, "id", given)); status != 409 || s.row(there) == nil {
		t.Errorf("F-25: the record to replace exists, so it is no replay: %d", status)
	}
	s.post("purge", `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"`+there+`"}]}}}`)
	return given
}

// replaceInAnotherProject replaces by an id, and under an id, of another project, neither
// of which touches that project's record (F#7).
func (s *feedbackServer) replaceInAnotherProject(t *testing.T, id string) {
	t.Helper()
	s.replace("project_id", "acme/b", "feedback_id", id, "trace_ref", "weave:///acme/b/call/x")
	s.replace("project_id", "acme/b", "feedback_id", "y", "id", id, "trace_ref", "weave:///acme/b/call/x")
	if s.row(id) == nil || s.count() != 2 {
		t.Error("F#7: a row of another project was touched")
	}
}

// replaceAsAnotherAuthor: the author is whoever sends the request, whatever it says (F#9),
// and whoever may write may replace, and is the author from then on (F-30).
func (s *feedbackServer) replaceAsAnotherAuthor(t *testing.T) {
	t.Helper()
	id, answer := s.replace("platform_user_id", "somebody else")
	if answer["platform_user_id"] != "u-17" || s.row(id)["platform_user_id"] != "u-17" {
		t.Errorf("F#9: %v", answer)
	}
	status, answer, _ := s.post("replace", servertest.Item("feedback_id", id, "id", id), servertest.Basic("alice", "pass:word"))
	if status != 200 || answer["platform_user_id"] != "alice" || s.row(id)["platform_user_id"] != "alice" {
		t.Errorf("F-30: %d %v", status, answer)
	}
}

// replaceWithEmptyFields: an optional field that is null or empty counts as not given
// (F-13).
func (s *feedbackServer) replaceWithEmptyFields(t *testing.T) {
	t.Helper()
	id, _ := s.replace("annotation_ref", "", "queue_id", "", "creator", json.RawMessage("null"), "id", json.RawMessage("null"), "call_ref", json.RawMessage("null"))
	for _, name := range []string{"annotation_ref", "queue_id", "creator", "call_ref"} {
		if v := s.row(id)[name]; v != nil {
			t.Errorf("F-13: %s is %v", name, v)
		}
	}
}

// TestFeedbackChecksFirst: a replacement that is refused changes nothing
// (docs/interface/feedback.md, F-26, F#6, F#14).
func TestFeedbackChecksFirst(t *testing.T) {
	s := newServer(t, nil)
	id, _ := s.replace()
	before := fmt.Sprint(s.row(id))
	for _, fields := range [][]any{
		{"feedback_type", "wandb.note.1", "payload", map[string]any{"note": strings.Repeat("x", 1025)}},
		{"feedback_type", "wandb.reaction.1", "payload", map[string]any{"emoji": "👍👍"}},
		{"trace_ref", "nonsense"}, {"project_id", "acme"}, {"creator", strings.Repeat("x", 257)},
	} {
		status, _, text := s.post("replace", servertest.Item(append([]any{"feedback_id", id}, fields...)...))
		if status != 400 || !strings.HasPrefix(text, `{"reason":"`) {
			if fields[0] != "project_id" || status != 403 { // which is nobody's project
				t.Errorf("%v: %d %s", fields[:1], status, text)
			}
		}
	}
	if fmt.Sprint(s.row(id)) != before || s.count() != 1 {
		t.Error("the old row has changed")
	}
	if status, _, text := s.post("replace", servertest.Item("feedback_type", "wandb.note.1", "payload", map[string]any{"note": strings.Repeat("😀", 1024)})); status != 200 {
		t.Errorf("F#14: %d %s", status, text)
	}
}

// TestFeedbackConcurrentReplace: of replacements of one record at the same time, one after
// the other succeeds, and one record is left (docs/interface/feedback.md, F-29, F#21).
func TestFeedbackConcurrentReplace(t *testing.T) {
	s := newServer(t, nil)
	const id = "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"
	s.replace("feedback_id", id, "id", id)
	// Whoever reads meanwhile sees one row, never none nor two (F-27).
	over := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			if n := len(s.query(`{"project_id":"acme/support"}`)); n != 1 {
				t.Errorf("F-27: %d rows are seen", n)
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if status, _, text := s.post("replace", servertest.Item("feedback_id", id, "id", id, "payload", map[string]any{"n": i})); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	wg.Wait()
	close(over)
	reading.Wait()
	if s.count() != 1 || len(s.query(`{"project_id":"acme/support"}`)) != 1 {
		t.Errorf("%d rows", s.count())
	}
	for _, index := range []string{`{"$eq":[{"$getField":"trace_ref"},{"$literal":"` + servertest.CallRef + `"}]}`, `{"$eq":[{"$getField":"feedback_type"},{"$literal":"custom"}]}`} {
		if n := len(s.query(`{"project_id":"acme/support","query":{"$expr":` + index + `}}`)); n != 1 {
			t.Errorf("%d rows by %s", n, index)
		}
	}
}
