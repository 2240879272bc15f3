package feedback

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"weir/internal/memory"
)

// TestQueriesReserve: a query reserves the rows that it sorts, and statistics the values that
// they keep for percentiles, their buckets and their answer; each ends with the error of a
// reservation that is refused.
func TestQueriesReserve(t *testing.T) {
	const records = 1000
	s := newStore(t)
	payload := json.RawMessage(`{"n":1,"s":"` + strings.Repeat("x", 256) + `"}`)
	var list []*Request
	for range records {
		r, err := request(t, map[string]any{"payload": payload})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if _, err := s.CreateAll(t.Context(), Author{User: "u"}, list, Once{}); err != nil {
		t.Fatal(err)
	}
	query := func(rest string) (string, func(context.Context) error) {
		body := []byte(`{"project_id":"acme/support"` + rest + `}`)
		return rest, func(ctx context.Context) error {
			q, err := s.DecodeQuery(ctx, body, ForQuery, false)
			if err != nil {
				return err
			}
			return s.Query(ctx, q, io.Discard)
		}
	}
	stats := func(rest string) (string, func(context.Context) error) {
		body := []byte(`{"project_id":"acme/support","start":"2020-01-01"` + rest + `}`)
		return rest, func(ctx context.Context) error {
			q, err := s.DecodeStats(ctx, body, false)
			if err != nil {
				return err
			}
			_, err = s.Stats(ctx, q)
			return err
		}
	}
	check := func(what string, run func(context.Context) error) func(least, most int64) {
		return func(least, most int64) {
			t.Helper()
			sum := int64(0)
			if err := run(memory.With(t.Context(), func(n int64) error { sum += n; return nil })); err != nil || sum < least || sum > most {
				t.Errorf("%s: %v, %d bytes reserved, want %d to %d", what, err, sum, least, most)
			}
			if least == 0 {
				return
			}
			full, now := errors.New("full"), int64(0)
			if err := run(memory.With(t.Context(), func(n int64) error {
				if now += n; now >= sum {
					return full
				}
				return nil
			})); !errors.Is(err, full) {
				t.Errorf("%s: the last reservation is refused, and the error is %v", what, err)
			}
		}
	}
	check(query(``))(0, 4<<10)
	check(query(`,"sort_by":[{"field":"payload.s","direction":"asc"}],"limit":10`))(10*256, 80<<10)
	check(query(`,"sort_by":[{"field":"payload.s","direction":"asc"}],"limit":1000`))(records*256, 3*records*512)
	month := int64(30 * 24 * 3600)
	check(stats(`,"end":"2020-01-31","granularity":86400,"metrics":[{"json_path":"n"}]`))(30*100, 30*1000)
	check(stats(`,"end":"2020-01-31","granularity":300,"metrics":[{"json_path":"n"}]`))(month/300*100, month/300*1000)
	metrics := strings.Repeat(`{"json_path":"n","percentiles":[50]},`, 4) + `{"json_path":"n","percentiles":[50]}`
	check(stats(`,"granularity":8640000,"metrics":[`+metrics+`]`))(5*2*records*16, 5*2*records*48)
}
