package feedback

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestExpire checks that Expire deletes what is older, and only in the project.
func TestExpire(t *testing.T) {
	s := sample(t)
	n, err := s.Expire(context.Background(), "acme/support", time.Date(2026, 3, 4, 12, 15, 27, 412e6, time.UTC).UnixMilli())
	if n != 2 || err != nil || letters(t, s, "") != "cdefghijklmnop" {
		t.Errorf("%d, %v: %s", n, err, letters(t, s, ""))
	}
	var projects []string
	if err := s.Projects(func(p string) { projects = append(projects, p) }); err != nil || fmt.Sprint(projects) != "[acme/other acme/support]" {
		t.Errorf("%v, %v", projects, err)
	}
}
