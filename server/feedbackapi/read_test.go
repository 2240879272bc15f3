package feedbackapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestFeedbackLargeAnswer: a large answer is streamed, a client that leaves ends it, and
// the server's log has nothing of a payload (docs/interface/feedback.md, section 11.4).
func TestFeedbackLargeAnswer(t *testing.T) {
	s := newServer(t, nil)
	var items []string
	for i := range 200 {
		items = append(items, servertest.Item("feedback_id", nil, "payload", map[string]any{"i": i, "s": strings.Repeat("secret", 2000)}))
	}
	if status, _, text := s.post("batch/create", `{"batch":[`+strings.Join(items, ",")+`]}`); status != 200 {
		t.Fatal(text)
	}
	if rows := s.query(`{"project_id":"acme/support"}`); len(rows) != 200 || rows[199].(map[string]any)["payload"].(map[string]any)["i"] != 199.0 {
		t.Errorf("%d rows", len(rows))
	}
	_, lines, _ := s.Get("POST", "/feedback/export", `{"project_id":"acme/support","fields":["payload.i"],"sort_by":[{"field":"payload.i","direction":"desc"}]}`, servertest.Basic("api", "read"))
	if n := strings.Count(lines, "\n"); n != 200 || !strings.HasPrefix(lines, `{"payload.i":199}`+"\n") {
		t.Errorf("%d lines: %.100s", n, lines)
	}
	resp := s.Do("POST", "/feedback/export", `{"project_id":"acme/support"}`, servertest.Basic("api", "read"))
	if resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v", resp.Header)
	}
	if _, err := resp.Body.Read(make([]byte, 100)); err != nil {
		t.Error(err)
	}
	resp.Body.Close() // the export must end: servertest looks for leaks
	_, csv, _ := s.Get("POST", "/feedback/export", `{"project_id":"acme/support","fields":["payload.i","creator","payload"],"limit":1}`, servertest.Basic("api", "read"), "Accept: text/csv")
	if !strings.HasPrefix(csv, "payload.i,creator,payload\r\n0,,\"{\"\"i\"\":0,") {
		t.Errorf("%.100s", csv)
	}
	servertest.WaitFor(t, "three exports counted", func() bool {
		return s.Scraped()[`http_requests_total{handler="/feedback/export",method="POST",status="2xx"}`] == "3"
	})
	if strings.Contains(s.Log.Text(), "secret") {
		t.Error("the log has a payload")
	}
}
