package feedback

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/jsontext"
	"weir/internal/query"
)

// TestOrderAndPages checks orders, limits and offsets (docs/interface/feedback.md,
// section 8.3, rule 8).
func TestOrderAndPages(t *testing.T) {
	s := sample(t)
	sort := func(s string) string { return `,"sort_by":[` + s + `]` }
	for _, c := range []struct{ rest, want string }{
		{"", "abcdefghijklmnop"},
		{`,"limit":3`, "abc"},
		{`,"limit":3,"offset":14`, "op"},
		{`,"limit":0`, ""},
		{`,"offset":99`, ""},
		{sort(`{"field":"created_at","direction":"desc"}`), "ponmlkjihgfedcba"},
		{sort(`{"field":"created_at","direction":"desc"}`) + `,"limit":2,"offset":1`, "on"},
		{sort(`{"field":"payload.k","direction":"desc"}`) + `,"limit":3`, "pon"},
		// Numbers, texts, booleans, other values, and last the record without the path.
		{sort(`{"field":"payload.v","direction":"asc"}`), "cnabmlodfehgijkp"},
		{sort(`{"field":"payload.v","direction":"desc"}`), "lmbancefdoghijkp"},
		{sort(`{"field":"feedback_type","direction":"asc"},{"field":"created_at","direction":"desc"}`), "pomkigecanljhfdb"},
		{sort(`{"field":"creator","direction":"asc"},{"field":"payload.k","direction":"asc"}`) + `,"limit":9`, "bdfhjlnac"},
	} {
		if got := letters(t, s, c.rest); got != c.want {
			t.Errorf("%s: %s, want %s", c.rest, got, c.want)
		}
	}
	if got := ask(t, s, `{"project_id":"acme/support","fields":["payload.k"],"limit":1,"offset":2}`); got != `{"result":[{"payload.k":"c"}],"total_count":16}` {
		t.Error(got)
	}
	if got := ask(t, s, `{"project_id":"acme/support","fields":["count(*)"]}`); got != `{"result":[{"count(*)":16}],"total_count":16}` {
		t.Error(got)
	}
	if got := ask(t, s, `{"project_id":"acme/nothing"}`); got != `{"result":[],"total_count":0}` {
		t.Error(got)
	}
	s.cfg.MaxRows = 2
	if got := letters(t, s, `,"limit":5`); got != "ab" {
		t.Errorf("with MaxRows: %s", got)
	}
}

// TestPagesAgree checks that the pages of a query, put together, are its whole answer.
func TestPagesAgree(t *testing.T) {
	s := newStore(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	now := time.UnixMilli(1e12)
	s.now = func() time.Time { return now }
	for i := range 200 {
		if rnd.IntN(3) == 0 {
			now = now.Add(time.Millisecond)
		}
		add(t, s, map[string]any{"payload": map[string]any{"k": i, "n": rnd.IntN(5)}, "feedback_type": fmt.Sprint("t", rnd.IntN(3))})
	}
	for _, sort := range []string{
		`{"field":"payload.n","direction":"asc"}`, `{"field":"payload.n","direction":"desc"}`, `{"field":"created_at","direction":"desc"}`,
		`{"field":"created_at","direction":"asc"},{"field":"id","direction":"asc"}`, `{"field":"feedback_type","direction":"desc"},{"field":"payload.n","direction":"asc"}`,
	} {
		full := ask(t, s, `{"project_id":"acme/support","fields":["id"],"sort_by":[`+sort+`]}`)
		var all, pages []string
		collect := func(text string, into *[]string) int {
			var a struct{ Result []map[string]string }
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				t.Fatal(err)
			}
			for _, r := range a.Result {
				*into = append(*into, r["id"])
			}
			return len(a.Result)
		}
		collect(full, &all)
		for offset := 0; ; offset += 7 {
			if collect(ask(t, s, fmt.Sprintf(`{"project_id":"acme/support","fields":["id"],"sort_by":[%s],"limit":7,"offset":%d}`, sort, offset)), &pages) == 0 {
				break
			}
		}
		if !slices.Equal(all, pages) || len(all) != 200 {
			t.Errorf("%s: %d rows, %d on pages", sort, len(all), len(pages))
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		`{"$and":[{"$eq":[{"$getField":"id"},{"$literal":"x"}]},{"$gt":[{"$getField":"payload.v"},{"$literal":1e400}]}]}`,
		`{"$in":[{"$getField":"created_at"},[{"$literal":"2026-01-01"},{"$literal":5}]]}`,
		`{"$containsToken":{"input":{"$convert":{"input":{"$getField":"payload.deep.list.1"},"to":"string"}},"substr":{"$literal":"İ"},"case_insensitive":true}}`,
		`{"$lte":[{"$getField":"created_at"},{"$literal":-1e308}]}`,
		`{"$not":[{"$convert":{"input":{"$literal":1e308},"to":"int"}}]}`,
	} {
		f.Add(s, "payload.v")
	}
	s := sample(f)
	f.Fuzz(func(t *testing.T, where, field string) {
		name := string(jsontext.AppendString(nil, field))
		for _, body := range []string{
			`{"project_id":"acme/support","query":{"$expr":` + where + `}}`,
			`{"project_id":"acme/support","fields":[` + name + `],"sort_by":[{"field":` + name + `,"direction":"desc"}],"query":{"$expr":` + where + `}}`,
			where,
		} {
			q, err := s.DecodeQuery(context.Background(), []byte(body), ForQuery, false)
			if err != nil {
				continue
			}
			var with, without bytes.Buffer
			if err := s.Query(context.Background(), q, &with); err != nil || !json.Valid(with.Bytes()) {
				t.Fatalf("%s: %v: %s", body, err, with.String())
			}
			if q.where == nil {
				continue
			}
			// The same condition in a form that no index answers.
			q.where = &query.Expr{Op: "$not", Args: []*query.Expr{{Op: "$not", Args: []*query.Expr{q.where}}}}
			if err := s.Query(context.Background(), q, &without); err != nil || with.String() != without.String() {
				t.Fatalf("%s: an index changes the answer:\n%s\n%s", body, with.String(), without.String())
			}
		}
	})
}

// TestQueryCanceled checks that a query ends when its client leaves.
func TestQueryCanceled(t *testing.T) {
	s := newStore(t)
	for range 300 {
		add(t, s, nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, rest := range []string{``, `,"sort_by":[{"field":"payload.n","direction":"asc"}]`, `,"fields":["count(*)"]`} {
		q, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"acme/support"`+rest+`}`), ForQuery, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Query(ctx, q, new(bytes.Buffer)); err != context.Canceled {
			t.Errorf("%s: %v", rest, err)
		}
	}
}
