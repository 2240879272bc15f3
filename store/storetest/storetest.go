// Package storetest has the configurations of databases in tests.
package storetest

import (
	"log/slog"

	"weir/store"
)

// Config is the usual configuration of a database in dir, without its log, its maintenance and
// its room to be kept free.
func Config(dir string) store.Config {
	cfg := store.DefaultConfig(dir)
	cfg.MinFree, cfg.MaintainEvery = 0, 0
	cfg.Log = slog.New(slog.DiscardHandler)
	return cfg
}

// Small is Config with files so small that they are often replaced, for tests that kill the
// process. Values of 8 KiB and more are in the value log.
func Small(dir string) store.Config {
	cfg := Config(dir)
	cfg.MemTable, cfg.ValueThreshold, cfg.ValueLogFile = 1<<20, 8<<10, 8<<20
	return cfg
}
