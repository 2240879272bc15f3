package feedback

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkTruth is a query whose expression needs the records, not only their keys.
func BenchmarkTruth(b *testing.B) {
	s := newStore(b)
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
	if _, err := s.CreateAll(ctx, Author{User: "u"}, list, Once{}); err != nil {
		b.Fatal(err)
	}
	q, err := s.DecodeQuery(context.Background(), []byte(`{"project_id":"acme/support","sort_by":[{"field":"payload.score","direction":"desc"}],"limit":1}`), ForQuery, false)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Query(ctx, q, discard{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkReplace measures acknowledged writes by a number of clients at a time. Each write
// is on stable storage when it is acknowledged.
func BenchmarkReplace(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) { benchmarkReplace(b, clients) })
	}
}

func benchmarkReplace(b *testing.B, clients int) {
	s := newStore(b)
	r, err := request(b, map[string]any{"feedback_type": "wandb.note.1", "payload": map[string]any{"note": "A note of a usual length, which is a sentence or two."}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	next := make(chan struct{})
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for range next {
				if _, err := s.Create(context.Background(), Author{User: "u"}, r, Once{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range b.N {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	if c := s.db.Stats(); c.Commits > 0 {
		b.ReportMetric(float64(c.Updates)/float64(c.Commits), "writes/commit")
	}
}
