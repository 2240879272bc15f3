package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// unsyncedName is a file in the directory of a database whose logs could not be synced.
// It holds the name of the oldest value log that is affected. All logs of memtables are.
const unsyncedName = "UNSYNCED"

// markUnsynced leaves a note for the next process that opens the directory. The note may
// vanish when the machine goes down, because the pages that were not written do so too.
func markUnsynced(dir, values string) {
	_ = os.WriteFile(filepath.Join(dir, unsyncedName), []byte(filepath.Base(values)), 0o600) // a full disk is one reason to be here
}

// rewriteUnsynced writes the logs again that a failed sync has left in memory only. A
// further sync would not write them, because the kernel marks the pages that it could not
// write as clean.
func rewriteUnsynced(dir string) error {
	marker := filepath.Join(dir, unsyncedName)
	from, err := os.ReadFile(marker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range names {
		name := e.Name()
		if !strings.HasSuffix(name, ".mem") && (!strings.HasSuffix(name, ".vlog") || name < string(from)) {
			continue
		}
		if err := rewriteFile(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return os.Remove(marker)
}

// rewriteFile puts a synced copy of a file in its place.
func rewriteFile(path string) error {
	b, done, err := mapFile(path)
	if err != nil {
		return err
	}
	defer done()
	next := path + ".fresh"
	f, err := os.OpenFile(next, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(trimZeros(b))
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// syncLogs syncs all logs before a database is opened. Their contents will be taken for
// committed, and after a crash of the process alone some may be in memory only.
func syncLogs(dir string) error {
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := syncFile(name); err != nil {
				return err
			}
		}
	}
	return nil
}
