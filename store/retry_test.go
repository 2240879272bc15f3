package store

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOpeningAgainTakesItsTime: a database whose directory another process holds is tried ever more
// rarely, also when it could not be opened from the start. It used to be tried without a pause, which
// kept a processor busy for as long as the other process lived.
func TestOpeningAgainTakesItsTime(t *testing.T) {
	dir := t.TempDir()
	open(t, testConfig(dir)) // holds the lock
	synctest.Test(t, func(t *testing.T) {
		tries, many := 0, make(chan struct{})
		cfg := testConfig(dir)
		cfg.free = func(string) (uint64, error) {
			if tries++; tries == 200 {
				close(many)
			}
			return 1 << 40, nil
		}
		d, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		select {
		case <-time.After(time.Minute):
		case <-many:
			t.Error("200 tries at once")
		}
		synctest.Wait()
		if tries < 20 || tries > 60 {
			t.Errorf("%d tries in a minute", tries)
		}
	})
}
