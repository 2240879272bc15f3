package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// BenchmarkUpdate measures acknowledged updates of the size of a record of feedback with
// its index entries, by several numbers of clients. sync-ns/op is the part of the time in
// which files are synced.
func BenchmarkUpdate(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			d := open(b, DefaultConfig(b.TempDir()))
			set(b, d, "begin", "")
			var wg sync.WaitGroup
			before := d.Stats()
			b.ResetTimer()
			for c := range clients {
				wg.Go(func() {
					for i := c; i < b.N; i += clients {
						if err := writeRow(b.Context(), d, i); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			after := d.Stats()
			b.ReportMetric(float64(after.Syncing-before.Syncing)/float64(b.N), "sync-ns/op")
			b.ReportMetric(float64(b.N)/float64(after.Commits-before.Commits), "updates/commit")
		})
	}
}

var benchRow = make([]byte, 400)

// writeRow writes row number i/2, so each row twice, with six index entries.
func writeRow(ctx context.Context, d *DB, i int) error {
	return d.Update(ctx, func(tx *Tx) error {
		key := fmt.Appendf(nil, "r/project/%08x-%08x", uint32(i/2)*2654435761, i/2)
		if _, err := tx.Has(key); err != nil {
			return err
		}
		tx.Set(key, benchRow)
		for j := range 6 {
			tx.Set(fmt.Appendf(nil, "%c/project/value/%016x/%s", 'a'+j, i, key), key)
		}
		return nil
	})
}
