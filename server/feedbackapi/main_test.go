package feedbackapi_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// feedbackServer is a server with feedback, and its functions as a test calls them.
type feedbackServer struct {
	*servertest.Server
	stored *servertest.Feedback
}

func newServer(t testing.TB, change func(*servertest.Setup)) *feedbackServer {
	t.Helper()
	f := servertest.NewFeedback(t)
	return &feedbackServer{f.Serve(t, change), f}
}

// post sends JSON as the writer, or with the headers given.
func (s *feedbackServer) post(path, body string, headers ...string) (status int, answer map[string]any, text string) {
	s.T.Helper()
	status, text, _ = s.Get("POST", "/feedback/"+path, body, append([]string{servertest.Basic("api", "write")}, headers...)...)
	_ = json.Unmarshal([]byte(text), &answer) // not all answers are objects
	return status, answer, text
}

// replace sends a replace that has to succeed and returns the new id.
func (s *feedbackServer) replace(fields ...any) (id string, answer map[string]any) {
	s.T.Helper()
	status, answer, text := s.post("replace", servertest.Item(fields...))
	if status != 200 {
		s.T.Fatalf("replace %v: %d %s", fields, status, text)
	}
	return answer["id"].(string), answer
}

func (s *feedbackServer) query(body string) []any {
	s.T.Helper()
	status, answer, text := s.post("query", body)
	if status != 200 {
		s.T.Fatalf("query %s: %d %s", body, status, text)
	}
	return answer["result"].([]any)
}

func (s *feedbackServer) count() int {
	s.T.Helper()
	return int(s.query(`{"project_id":"acme/support","fields":["count(*)"]}`)[0].(map[string]any)["count(*)"].(float64))
}

// row is a record as a query shows it; nil if there is none.
func (s *feedbackServer) row(id string) map[string]any {
	s.T.Helper()
	rows := s.query(`{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"` + id + `"}]}}}`)
	if len(rows) == 0 {
		return nil
	}
	return rows[0].(map[string]any)
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
