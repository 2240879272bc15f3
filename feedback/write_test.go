package feedback

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestClock checks that created_at does not go back with the clock
// (docs/interface/feedback.md, F-31).
func TestClock(t *testing.T) {
	s := newStore(t)
	at := time.UnixMilli(5000)
	s.now = func() time.Time { return at }
	add(t, s, nil)
	at = time.UnixMilli(1000)
	add(t, s, nil)
	fresh := New(s.db, s.cfg) // as after a start of the process
	fresh.now = s.now
	add(t, fresh, nil)
	if got := ask(t, s, `{"project_id":"acme/support","fields":["created_at"]}`); strings.Count(got, "1970-01-01T00:00:05.000Z") != 3 {
		t.Error(got)
	}
}

// TestReplacedLater checks that a replaced record gets a later time, even within a
// millisecond.
func TestReplacedLater(t *testing.T) {
	s := newStore(t)
	s.now = func() time.Time { return time.UnixMilli(5000) }
	const id = "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"
	for i := range 3 {
		r, err := request(t, map[string]any{"id": id})
		if err != nil {
			t.Fatal(err)
		}
		r.Replaces = id
		answer, err := s.Replace(context.Background(), Author{User: "u"}, r, Once{})
		if want := fmt.Sprintf("1970-01-01T00:00:05.%03dZ", i); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s, %v, want %s", answer, err, want)
		}
	}
}
