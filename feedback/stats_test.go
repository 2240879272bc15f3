package feedback

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// statsSample is a store with five records, one in each of the first hours of March 4th.
func statsSample(t *testing.T) *Store {
	t.Helper()
	s := newStore(t)
	var at time.Time
	s.now = func() time.Time { return at }
	for i, p := range []string{`{"s":{"x":1},"b":true}`, `{"s":{"x":3},"b":false}`, `{"s":{"x":"5"},"b":true}`, `{"s":{"x":"no"}}`, `{}`} {
		at = time.Date(2026, 3, 4, i, 0, 0, 0, time.UTC)
		f := map[string]any{"payload": json.RawMessage(p)}
		if i == 0 {
			f["trigger_ref"] = "weave:///acme/support/object/m:v1"
		}
		add(t, s, f)
	}
	return s
}

// TestStats checks statistics (docs/interface/feedback.md, section 8.5).
func TestStats(t *testing.T) {
	s := statsSample(t)
	stats := func(rest string) string {
		t.Helper()
		q, err := s.DecodeStats(context.Background(), []byte(`{"project_id":"acme/support","start":"2026-03-04"`+rest+`}`), false)
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Stats(context.Background(), q)
		if err != nil || !json.Valid(out) {
			t.Fatalf("%s: %v", out, err)
		}
		return string(out)
	}
	const head = `{"start":"2026-03-04T00:00:00.000Z","end":"2026-03-04T06:00:00.000Z","granularity":7200,"timezone":"UTC","buckets":[`
	if got, want := stats(`,"end":"2026-03-04T06:00:00Z","granularity":7200,"metrics":[{"json_path":"s.x","percentiles":[50]},{"json_path":"b","value_type":"boolean"}]`), head+
		`{"timestamp":"2026-03-04T00:00:00.000Z","count":2,"avg_s_x":2,"min_s_x":1,"max_s_x":3,"p50_s_x":2,"count_true_b":1,"count_false_b":1},`+
		`{"timestamp":"2026-03-04T02:00:00.000Z","count":2,"avg_s_x":5,"min_s_x":5,"max_s_x":5,"p50_s_x":5,"count_true_b":1,"count_false_b":0},`+
		`{"timestamp":"2026-03-04T04:00:00.000Z","count":1,"avg_s_x":null,"min_s_x":null,"max_s_x":null,"p50_s_x":null,"count_true_b":null,"count_false_b":null}],`+
		`"window_stats":{"s_x":{"avg":3,"min":1,"max":5,"p50":3},"b":{"count_true":2,"count_false":1}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := stats(`,"end":"2026-03-04T06:00:00Z","granularity":7200`); got != head+`],"window_stats":{}}` {
		t.Errorf("no metrics: %s", got)
	}
	for rest, want := range map[string]string{
		`,"trigger_ref":"weave:///acme/support/object/m:*"`:  `"count":1`,
		`,"trigger_ref":"weave:///acme/support/object/m:v1"`: `"count":1`,
		`,"trigger_ref":"weave:///acme/support/object/m:v2"`: `"count":0`,
		`,"feedback_type":"other"`:                           `"count":0`,
		`,"feedback_type":"custom"`:                          `"count":5`,
	} {
		if got := stats(`,"end":"2026-03-05","granularity":86400,"metrics":[{"json_path":"s.x","aggregations":["count"]}]` + rest); !strings.Contains(got, want) {
			t.Errorf("%s: %s", rest, got)
		}
	}
	if got := stats(`,"granularity":9223372036854775807,"metrics":[{"json_path":"b","value_type":"categorical","aggregations":["count"]}]`); !strings.Contains(got, `"count_b":3`) {
		t.Error(got)
	}
}

// TestGranularity checks the length of buckets, by the length of the window and as asked for.
func TestGranularity(t *testing.T) {
	for hours, want := range map[int64]int64{1: 300, 2: 300, 3: 3600, 12: 3600, 13: 21600, 72: 21600, 73: 43200, 14 * 24: 43200, 14*24 + 1: 86400, 100 * 365 * 24: 315360} {
		if got := granularity(0, hours*3600_000, maxBuckets); got != want {
			t.Errorf("%d h: %d s", hours, got)
		}
	}
	if got := granularity(1, 86400_000, maxBuckets); got != 9 {
		t.Errorf("no more than 10000 buckets: %d s", got)
	}
}

// TestMalformedStats checks what is wrong with a request for statistics.
func TestMalformedStats(t *testing.T) {
	s := newStore(t)
	for _, rest := range []string{`,"end":"2026-03-03"`, `,"timezone":"Mars/Olympus"`} {
		var f *Refusal
		if _, err := s.DecodeStats(context.Background(), []byte(`{"project_id":"a/b","start":"2026-03-04"`+rest+`}`), false); !errors.As(err, &f) {
			t.Errorf("%s: %v", rest, err)
		}
	}
	for _, body := range []string{`{"project_id":"a/b"}`, `{"project_id":"a/b","start":"x"}`, `{"project_id":"a/b","start":"2026-03-04","metrics":[{"json_path":"a","aggregations":["mean"]}]}`,
		`{"project_id":"a/b","start":"2026-03-04","metrics":[{"json_path":"a","percentiles":[101]}]}`, `{"project_id":"a/b","start":"2026-03-04","metrics":[{"json_path":"a","value_type":"x"}]}`} {
		var f Invalid
		if _, err := s.DecodeStats(context.Background(), []byte(body), false); !errors.As(err, &f) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestPayloadSchema checks the paths in payloads (docs/interface/feedback.md, section 8.6).
func TestPayloadSchema(t *testing.T) {
	s := statsSample(t)
	q, err := s.DecodeStats(context.Background(), []byte(`{"project_id":"acme/support","start":"2026-03-04","end":"2026-03-05","sample_limit":100}`), true)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.PayloadSchema(context.Background(), q); string(got) != `{"paths":[{"json_path":"b","value_type":"boolean"},{"json_path":"s.x","value_type":"categorical"}]}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
