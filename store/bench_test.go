package store

import (
	"fmt"
	"sync"
	"testing"
)

// What acknowledged updates cost that are as large as a record of feedback with
// its index entries, at some numbers of clients; sync-ns/op is the part of it in
// which files are synced.
func BenchmarkUpdate(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			cfg := DefaultConfig(b.TempDir())
			d := open(b, cfg)
			set(b, d, "begin", "")
			var wg sync.WaitGroup
			before := d.Stats()
			b.ResetTimer()
			for c := range clients {
				wg.Go(func() {
					row := make([]byte, 400)
					for i := c; i < b.N; i += clients {
						err := d.Update(b.Context(), func(tx *Tx) error {
							key := fmt.Appendf(nil, "r/project/%08x-%08x", uint32(i/2)*2654435761, i/2)
							if _, err := tx.Has(key); err != nil {
								return err
							}
							tx.Set(key, row)
							for j := range 6 {
								tx.Set(fmt.Appendf(nil, "%c/project/value/%016x/%s", 'a'+j, i, key), key)
							}
							return nil
						})
						if err != nil {
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
