package feedback

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"weir/internal/pace"
)

// TestStopInOneBody: reading a large body asks all the time whether it is to go on, whatever
// is in the body, and if not it ends at once with the reason.
func TestStopInOneBody(t *testing.T) {
	const size = 4 << 20
	s := newStore(t)
	many := func(s string) string { return strings.Repeat(s, size/len(s)) }
	nested := `{"project_id":"a/b","query":{"$expr":` + strings.Repeat(`{"$and":[`, 30) + many(`{"$literal":1},`) + `{"$literal":1}` + strings.Repeat(`]}`, 30) + `}}`
	stop := errors.New("stop")
	for name, c := range map[string]struct {
		body   string
		decode func(context.Context, []byte) error
	}{
		"query": {nested, func(ctx context.Context, b []byte) error {
			_, err := s.DecodeQuery(ctx, b, ForQuery, false)
			return err
		}},
		"unknown": {`{"project_id":"a/b","x":[` + many("[1],") + `1]}`, func(ctx context.Context, b []byte) error {
			_, err := s.DecodeQuery(ctx, b, ForExport, false)
			return err
		}},
		"stats": {`{"project_id":"a/b","start":"2026-01-01","metrics":[` + many(`{"json_path":"a"},`) + `{}]}`, func(ctx context.Context, b []byte) error {
			_, err := s.DecodeStats(ctx, b, false)
			return err
		}},
		"create": {`{"project_id":"a/b","payload":{"x":[` + many("[1],") + `1]}}`, func(ctx context.Context, b []byte) error { _, err := DecodeRequest(ctx, b, Create); return err }},
		"batch":  {`{"batch":[` + many("{},") + `{}]}`, func(ctx context.Context, b []byte) error { _, err := DecodeBatch(ctx, b); return err }},
		"purge":  {nested, func(ctx context.Context, b []byte) error { _, _, err := DecodePurge(ctx, b); return err }},
		"erase":  {`{"project_id":"a/b","x":[` + many("[1],") + `1]}`, func(ctx context.Context, b []byte) error { _, err := DecodeErasure(ctx, b); return err }},
	} {
		// decode stops at the n-th question, if n is not 0.
		decode := func(n int) (asked int, longest time.Duration, err error) {
			last := time.Now()
			err = c.decode(pace.With(t.Context(), func() error {
				longest, last = max(longest, time.Since(last)), time.Now()
				if asked++; asked == n {
					return stop
				}
				return nil
			}), []byte(c.body))
			return asked, max(longest, time.Since(last)), err
		}
		asked, longest, err := decode(0)
		t.Logf("%s: asked %d times, at most %v apart: %.60v", name, asked, longest, err)
		if asked < size/(64<<10) || errors.Is(err, stop) {
			t.Errorf("%s: asked %d times, %v", name, asked, err)
		}
		for _, n := range []int{1, asked / 2, asked} {
			if again, _, err := decode(n); !errors.Is(err, stop) || again != n {
				t.Errorf("%s: stopped at question %d of %d: %v after %d", name, n, asked, err, again)
			}
		}
	}
}
