package calls

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkWrite writes batches of 100 calls of about 1.5 KB that have ended, from eight
// clients.
func BenchmarkWrite(b *testing.B) {
	s := newStore(b)
	text := strings.Repeat("The quick brown fox. ", 30)
	var n atomic.Int64
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var body []byte
			body = append(body, `{"batch":[`...)
			for i := range 100 {
				if i > 0 {
					body = append(body, ',')
				}
				k := n.Add(1)
				body = fmt.Appendf(body, `{"project_id":"acme/support","id":"%s","op_name":"weave:///acme/support/op/op%d:abcdef","trace_id":"%s","parent_id":null,"started_at":"2026-01-02T03:04:%02d.%06dZ","ended_at":"2026-01-02T03:05:00Z","attributes":{"weave":{"client_version":"0.54.0","source":"python-sdk"}},"inputs":{"question":"%s","n":%d},"output":"%s","summary":{"usage":{},"status_counts":{"success":1,"error":0}}}`,
					newID(), k%20, newID(), k/1e6%60, k%1e6, text, k, text)
			}
			r, err := DecodeRequest(context.Background(), append(body, "]}"...), FormComplete, "")
			if err == nil {
				_, err = s.Write(context.Background(), Author{"u"}, r)
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkDecode reads a batch of 100 calls.
func BenchmarkDecode(b *testing.B) {
	one := strings.Replace(completeText, `"inputs":{}`, `"inputs":{"question":"`+strings.Repeat("The quick brown fox. ", 60)+`"}`, 1)
	body := []byte(`{"batch":[` + strings.Repeat(one+",", 99) + one + `]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRequest(context.Background(), body, FormComplete, ""); err != nil {
			b.Fatal(err)
		}
	}
}
