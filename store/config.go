package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

var (
	// ErrOpening: the database is being opened, or could not be and is tried again.
	ErrOpening = errors.New("store: not open yet")
	// ErrClosed: Close has been called.
	ErrClosed = errors.New("store: closed")
	// ErrBusy: too many updates wait for the writer.
	ErrBusy = errors.New("store: too many writes are waiting")
	// ErrFull: there is too little space left on the disk to write.
	ErrFull = errors.New("store: too little space left on the disk")
	// ErrFailed: the disk did not take a write. Whether the update has happened shows
	// when the database has been opened again, which happens by itself.
	ErrFailed = errors.New("store: writing failed")
	// ErrLocked: another process has the directory.
	ErrLocked = errors.New("store: another process uses the directory")
	// ErrNotFound: there is no such key.
	ErrNotFound = errors.New("store: not found")
	// ErrCorrupt: a value is not what was written.
	ErrCorrupt = errors.New("store: a value is damaged")
	// ErrTooLarge: an update holds more than Config.MaxUpdate bytes.
	ErrTooLarge = errors.New("store: the update is too large")
	// ErrDamaged: files are missing, cut or damaged, so that acknowledged records are lost.
	// The database is not opened before Repair has been called.
	ErrDamaged = errors.New("store: files are damaged")
	// ErrUnopened: the database cannot be opened for another reason, and is tried again.
	ErrUnopened = errors.New("store: cannot be opened")
	// ErrFormat: the files were written by a newer version of weir.
	ErrFormat = errors.New("store: the format of the files is newer")
)

// Config is the configuration of a DB. Start with DefaultConfig.
type Config struct {
	Dir string // its directory; created if need be
	// Lazy leaves a directory that holds nothing alone until it is needed. An open
	// database costs a little under one percent of a core even when idle.
	Lazy bool

	// MemTable is how many bytes of records are collected in memory before they become
	// a table on disk. There may be three memtables at a time. Each has a log file, whose
	// size is twice as large.
	MemTable int64
	// ValueThreshold is the size in bytes from which on values go to the value log,
	// where compaction does not copy them.
	ValueThreshold int64
	// ValueLogFile is the size of a file of the value log in bytes.
	ValueLogFile int64

	MaxQueue  int   // updates that may wait; more get ErrBusy
	MaxUpdate int64 // keys and values of one update in bytes; more is ErrTooLarge
	// MinFree is the free space in bytes below which nothing is written, so that enough
	// is left for badger's compaction. Down to a quarter of it deletions are accepted, which
	// are then compacted away at once. With less space the database is opened for reading
	// alone. Twice MemTable is the least that counts for either, because badger needs it, and for
	// writes four times MemTable and the newest tables, which badger compacts. The bytes of the
	// write itself come on top, twice.
	MinFree uint64

	// MaintainEvery is how often the value log is searched for garbage, CompactEvery how
	// often everything deleted is removed from the files, if something was. 0 is never.
	MaintainEvery, CompactEvery time.Duration

	Log *slog.Logger // nil: slog.Default()

	// tests replace these
	free     func(dir string) (uint64, error)
	datasync func(*os.File) error
	syncDir  func(dir string) error
	messages messages
	// accountEvery is how often the account is written while something changes
	accountEvery time.Duration
	drainTime    time.Duration // how long new readers may be kept waiting for one that does not finish
}

// DefaultConfig returns the configuration of a database in dir.
func DefaultConfig(dir string) Config {
	return Config{
		Dir:            dir,
		MemTable:       16 << 20,
		ValueThreshold: 32 << 10,
		ValueLogFile:   64 << 20,
		MaxQueue:       4096,
		MaxUpdate:      128 << 20,
		MinFree:        256 << 20,
		MaintainEvery:  10 * time.Minute,
		CompactEvery:   12 * time.Hour,
	}
}

// Validate reports the first value that makes no sense.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("store: Config.Dir is empty")
	case c.MemTable < 1<<20 || c.MemTable > 1<<30:
		return fmt.Errorf("store: Config.MemTable is %d, want 1 MiB to 1 GiB", c.MemTable)
	case c.ValueThreshold < 1 || c.ValueThreshold > min(c.MemTable/16, 1<<20):
		return fmt.Errorf("store: Config.ValueThreshold is %d, want 1 to %d", c.ValueThreshold, min(c.MemTable/16, 1<<20))
	case c.ValueLogFile < 1<<20 || c.ValueLogFile > 1<<30:
		return fmt.Errorf("store: Config.ValueLogFile is %d, want 1 MiB to 1 GiB", c.ValueLogFile)
	case c.MaxQueue < 1:
		return fmt.Errorf("store: Config.MaxQueue is %d, want at least 1", c.MaxQueue)
	case c.MaxUpdate < 1:
		return fmt.Errorf("store: Config.MaxUpdate is %d, want at least 1", c.MaxUpdate)
	case c.MaintainEvery < 0 || c.CompactEvery < 0:
		return errors.New("store: Config.MaintainEvery or CompactEvery is negative")
	}
	return nil
}
