package feedback

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkTruth is a query whose expression needs the records, not only their keys.
func BenchmarkTruth(b *testing.B) {
	book := newStore(b)
	ctx := context.Background()
	const rows = 2000
	var list []*Request
	for i := range rows {
		r, err := request(b, map[string]any{"payload": map[string]any{"score": i, "ok": true, "output": map[string]any{"reason": "the answer cites its sources", "rank": i % 11}}, "creator": fmt.Sprint("visitor ", i%100), "queue_id": "queue"})
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, r)
	}
	if _, err := book.CreateAll(ctx, Author{User: "u"}, list, Once{}); err != nil {
		b.Fatal(err)
	}
	q, err := book.DecodeQuery([]byte(`{"project_id":"acme/support","sort_by":[{"field":"payload.score","direction":"desc"}],"limit":1}`), ForQuery, false)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := book.Query(ctx, q, discard{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
