package store

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4/table"
)

// audit compares the files of a directory, which nobody has open, with its account and with
// each other, before badger sees them. doc.go ("The account") has the reasons for each rule.
type audit struct {
	dir      string
	account  *account // nil: an older version of weir wrote the files, or there are none
	manifest manifest
	// rewritten says that badger has written the MANIFEST anew since the account.
	rewritten bool
	logs      []logEntry // as they were found
	faults    []string   // records are lost
	notes     []string   // records that were written after the account may be lost
	strays    []string   // tables of which the MANIFEST knows nothing
	// trusted says that the MANIFEST goes on where the account ends, so that it lists all
	// tables that there are.
	trusted bool
}

// damaged is the error for files that cannot be opened without loss.
func damaged(dir string, faults []string) error {
	return fmt.Errorf("%w: %s: %s; stop the server and run weir store repair, or restore a backup", ErrDamaged, dir, strings.Join(faults, "; "))
}

func (a *audit) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *audit) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// since is the time of the account, for messages.
func (a *audit) since() string { return a.account.written.Format(time.RFC3339) }

// auditDir checks a directory. The error is ErrFormat, ErrDamaged, or that of a file
// that cannot be read. With ErrDamaged the audit is returned too.
func auditDir(dir string) (*audit, error) {
	a := &audit{dir: dir}
	var err error
	if a.account, err = readAccount(dir); errors.Is(err, errAccount) {
		a.fault("%s and %s cannot be read", accountNames[0], accountNames[1])
	} else if err != nil {
		return a, err
	}
	for _, check := range []func() error{a.checkManifest, a.checkTables, a.checkMemtables, a.checkValues} {
		if err := check(); err != nil {
			return a, fmt.Errorf("store: %w", err)
		}
	}
	a.noteCrash()
	if len(a.faults) > 0 {
		return a, damaged(dir, a.faults)
	}
	return a, nil
}

// fresh says that badger has never written to the directory.
func (a *audit) fresh() bool {
	if a.account != nil {
		return a.account.manifest.length == 0
	}
	for _, pattern := range []string{"*.sst", "*.mem", "*.vlog"} {
		if names, _ := filepath.Glob(filepath.Join(a.dir, pattern)); len(names) > 0 {
			return false
		}
	}
	return true
}

func (a *audit) checkManifest() error {
	b, err := os.ReadFile(filepath.Join(a.dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		if !a.fresh() {
			a.fault("%s is missing", manifestName)
		}
		return nil
	}
	if err != nil {
		return err
	}
	a.readManifest(b)
	return nil
}

// readManifest reads the MANIFEST up to where the account knows it, and then the rest.
func (a *audit) readManifest(b []byte) {
	var known manifestEntry
	if a.account != nil {
		known = a.account.manifest
	}
	continues := int64(len(b)) >= known.length && crc32.Checksum(b[:known.length], castagnoli) == known.sum
	from := known.length
	if !continues {
		var m manifest
		_, err := m.read(b)
		a.rewritten = err == nil && m.sets > 0 && m.first != known.first && known.deletions > rewritesAfter
		if !a.rewritten && int64(len(b)) < known.length {
			a.fault("%s is cut: it has %d bytes, and at %s it had %d", manifestName, len(b), a.since(), known.length)
		} else if !a.rewritten {
			a.fault("%s is not what was written", manifestName)
		}
		from = 0
	}
	_, err := a.manifest.read(b[:from])
	a.manifest.flushes = 0 // only those after the account are of interest
	torn := 0
	if err == nil {
		torn, err = a.manifest.read(b[from:])
	}
	a.trusted = err == nil && (continues || a.rewritten)
	switch {
	case len(a.faults) > 0:
	case err != nil:
		a.fault("%s is damaged: %v", manifestName, err)
	case torn > 0 && a.account == nil:
		a.fault("%s is cut: it ends within a set of changes", manifestName)
	case a.account != nil && a.account.state == stateClosed && int64(len(b)) != known.length:
		a.fault("%s has grown from %d to %d bytes since the clean stop at %s", manifestName, known.length, len(b), a.since())
	case torn > 0:
		a.note("the last %d bytes of %s are no whole set of changes", torn, manifestName)
	}
}

// checkTables checks that the tables that the MANIFEST lists are there, as long as the
// account says, and whole, and looks for others.
func (a *audit) checkTables() error {
	if len(a.faults) > 0 && a.manifest.sets == 0 {
		return nil // all tables would be unknown
	}
	checked := int64(0)
	for id := range a.manifest.tables {
		name := table.IDToFilename(id)
		info, err := os.Stat(filepath.Join(a.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			a.fault("the table %s is missing", name)
			continue
		}
		if err != nil {
			return err
		}
		checked += info.Size()
		if err := a.checkTable(id, name, info.Size(), checked <= maxChecked); err != nil {
			return err
		}
	}
	names, err := filepath.Glob(filepath.Join(a.dir, "*.sst"))
	if err != nil {
		return err
	}
	for _, path := range names {
		id, ok := table.ParseFileID(path)
		if _, listed := a.manifest.tables[id]; ok && !listed && !a.manifest.removed[id] {
			a.stray(path)
		}
	}
	return nil
}

func (a *audit) checkTable(id uint64, name string, size int64, wholly bool) error {
	if a.account != nil {
		if t, ok := a.account.tables[id]; ok && size < t.size {
			a.fault("the table %s is cut: it has %d bytes of %d", name, size, t.size)
			return nil
		} else if ok {
			if sum, err := tailSum(filepath.Join(a.dir, name), size); err != nil || sum != t.sum {
				a.fault("the end of the table %s was overwritten", name)
				return nil
			}
		}
	}
	what, err := tableFault(filepath.Join(a.dir, name), wholly)
	if err == nil && what != "" {
		a.fault("the table %s is damaged: %s", name, what)
	}
	return err
}

// stray judges a table of which the MANIFEST has never heard. A crash leaves one
// while badger builds it from others, or from a memtable, which are still there then.
func (a *audit) stray(path string) {
	name := filepath.Base(path)
	switch info, err := os.Stat(path); {
	case err == nil && info.Size() == 0, a.rewritten:
	case a.account == nil:
		a.fault("%s does not list the table %s", manifestName, name)
	default:
		a.strays = append(a.strays, name)
	}
}

// logNames are the logs of a kind, by number.
func logNames(dir, suffix string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range paths {
		name := filepath.Base(path)
		if _, err := strconv.ParseUint(strings.TrimSuffix(name, suffix), 10, 32); err == nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(len(x)-len(y), strings.Compare(x, y)) })
	return names, nil
}

// scanLog reads a log. It returns the zero scan for a file that is not there.
func (a *audit) scanLog(name string) (s scan, size int64, err error) {
	path := filepath.Join(a.dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, -1, nil
	}
	if err != nil {
		return s, 0, err
	}
	b, done, err := mapLog(path)
	if err != nil {
		return s, 0, err
	}
	defer done()
	s = inspect(b, strings.HasSuffix(name, ".mem"))
	if rest := b[min(s.end, len(b)):]; s.end > 0 && leadingZeros(rest) < len(rest) {
		a.note("%s ends in an unfinished record at %d", name, s.end)
	}
	return s, info.Size(), nil
}

// expected are the logs of the account of one kind.
func (a *audit) expected(memtables bool) (list []logEntry) {
	if a.account == nil {
		return nil
	}
	for _, l := range a.account.logs {
		if l.memtable() == memtables {
			list = append(list, l)
		}
	}
	return list
}

func (a *audit) checkMemtables() error {
	names, err := logNames(a.dir, ".mem")
	if err != nil {
		return err
	}
	expected := a.expected(true)
	scans := map[string]scan{}
	for _, name := range names {
		s, size, err := a.scanLog(name)
		if err != nil {
			return err
		}
		scans[name] = s
		a.logs = append(a.logs, logEntry{name: name, end: int64(s.done)})
		at := slices.IndexFunc(expected, func(l logEntry) bool { return l.name == name })
		if s.lost() {
			a.fault("%s is damaged: %s", name, s.where())
			continue
		}
		if at >= 0 && at >= a.manifest.flushes && !a.rewritten && size < expected[at].size {
			a.fault("%s is cut: it has %d bytes of %d", name, size, expected[at].size)
		}
	}
	for i, l := range expected {
		s, there := scans[l.name]
		switch {
		case i < a.manifest.flushes || a.rewritten:
			continue // it has become a table; badger deletes it then
		case int64(s.done) >= l.end || s.lost() || l.end <= logHeader:
			continue // it is whole, or damaged, which was found above, or empty
		}
		if !there {
			a.fault("%s is missing", l.name)
			continue
		}
		a.fault("%s is cut or was overwritten: its records end at %d, and at %s they ended at %d", l.name, s.done, a.since(), l.end)
	}
	return nil
}

// where says where a log is damaged.
func (s *scan) where() string {
	var list []string
	for _, p := range s.patches {
		if p.lost {
			list = append(list, fmt.Sprintf("%d bytes at %d", p.length, p.at))
		}
	}
	if s.stuck {
		list = append(list, fmt.Sprintf("at %d", s.end))
	}
	return strings.Join(list, ", ")
}

func (a *audit) checkValues() error {
	names, err := logNames(a.dir, ".vlog")
	if err != nil {
		return err
	}
	for i, name := range names {
		l := logEntry{name: name}
		if i == len(names)-1 { // badger cuts it off after its records and begins another
			s, _, err := a.scanLog(name)
			if err != nil {
				return err
			}
			l.end = int64(s.end)
		} else {
			info, err := os.Stat(filepath.Join(a.dir, name))
			if err != nil {
				return err
			}
			l.end, l.size = info.Size(), info.Size()
		}
		a.logs = append(a.logs, l)
	}
	for _, l := range a.expected(false) {
		if l.end <= logHeader || slices.Contains(a.account.going, l.name) {
			continue
		}
		if err := a.checkValueLog(l); err != nil {
			return err
		}
	}
	return nil
}

// checkValueLog compares a value log with what the account says of it.
func (a *audit) checkValueLog(l logEntry) error {
	path := filepath.Join(a.dir, l.name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		a.fault("the value log %s is missing", l.name)
		return nil
	}
	if err != nil {
		return err
	}
	if least := max(l.size, l.end); info.Size() < least {
		a.fault("the value log %s is cut: it has %d bytes of %d", l.name, info.Size(), least)
		return nil
	}
	if l.sum != 0 {
		if sum, err := tailSum(path, l.end); err != nil || sum != l.sum {
			a.fault("the end of the value log %s was overwritten", l.name)
		}
		return nil
	}
	b, done, err := mapLog(path)
	if err != nil {
		return err
	}
	defer done()
	end := int64(inspect(b, false).end) // damage before its end is bridged, and reading that value is an error
	if end < l.end {
		a.fault("the value log %s was overwritten: its records end at %d, and at %s they ended at %d", l.name, end, a.since(), l.end)
	}
	return nil
}

// noteCrash says what cannot be known after a crash.
func (a *audit) noteCrash() {
	if a.account == nil || a.account.state != stateRunning {
		return
	}
	for _, l := range a.logs {
		before := int64(logHeader)
		for _, e := range a.account.logs {
			if e.name == l.name {
				before = e.end
			}
		}
		if l.end > before {
			a.note("%s has %d bytes of records more than at %s", l.name, l.end-before, a.since())
		}
	}
}

// tableFault says what is wrong with a table; "" if nothing is. Its blocks are read if
// wholly is set.
func tableFault(path string, wholly bool) (string, error) {
	b, done, err := mapFile(path)
	if err != nil {
		return "", err
	}
	defer done()
	_, bad, ok := readTable(b, wholly)
	switch {
	case !ok:
		return "its index cannot be read", nil
	case len(bad) > 0:
		return fmt.Sprintf("%d of its blocks cannot be read", len(bad)), nil
	}
	return "", nil
}

// tailSum is a checksum of up to 4096 bytes of a file that end at an offset.
func tailSum(path string, end int64) (sum uint32, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	from := max(0, end-4096)
	b := make([]byte, end-from)
	if _, err := f.ReadAt(b, from); err != nil {
		return 0, err
	}
	return max(1, crc32.Checksum(b, castagnoli)), nil // 0 means that there is none
}
