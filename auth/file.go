package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"weir/internal/plainfile"
)

// fileKey is a key as it is written in the file.
type fileKey struct {
	ID       string   `yaml:"id"`
	Hash     string   `yaml:"hash"`
	User     string   `yaml:"user"`
	Tenant   string   `yaml:"tenant"`
	Username string   `yaml:"username"`
	Projects []string `yaml:"projects"`
	Models   []string `yaml:"models"`
	Rights   []string `yaml:"rights"`
	Expires  string   `yaml:"expires"`
	Project  string   `yaml:"default_project"`

	Weight         *float64           `yaml:"weight"`
	ProjectWeights map[string]float64 `yaml:"project_weights"`
	MaxPriority    any                `yaml:"max_priority"` // a whole number; the package would cut off what is behind a point

	Limits *fileLimits `yaml:"limits"`
}

// stamp distinguishes versions of the file without reading them.
type stamp struct {
	at   time.Time
	size int64
}

// marker is the last line of a file whose end is to be recognized. Without it a file that was
// cut between two lines looks whole: it has fewer keys, or a last key without its bounds.
const marker = "# end"

// errCut is the error for a file that has lost its end.
var errCut = fmt.Errorf("the last line is not %q, as it was in the file before: the file was cut", marker)

// errNoKeys is the error for a file that is empty, has only comments, or was cut before its
// first key. Such a file revokes nothing.
var errNoKeys = errors.New(`there is no list of keys: the file is empty or was cut; "keys: []" revokes all keys`)

// Reload reads the file again. If there is any error in it, or its end is missing, the keys
// stay as they are.
func (k *Keyring) Reload() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.reload()
	k.stale.Store(err != nil)
	return err
}

func (k *Keyring) reload() error {
	k.stamp = stamp{}
	info, err := os.Stat(k.file)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	src, err := plainfile.Read(k.file)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	k.stamp = stamp{info.ModTime(), info.Size()}
	all, err := parse(src)
	ends := marked(src)
	if err == nil && k.marked && !ends {
		err = errCut
	}
	if err != nil {
		return fmt.Errorf("auth: %s: %w", k.file, err)
	}
	k.marked = ends || k.marked
	all.entries = append(slices.Clone(k.fixed), all.entries...)
	k.all.Store(&all)
	limits := limitsByKey(all.entries)
	k.limits.Store(&limits)
	return nil
}

// Stale reports whether the credentials file could not be used when it was last looked at, so
// that the keys are those of an earlier version of it.
func (k *Keyring) Stale() bool { return k.stale.Load() }

// changed reports whether the file is another one than the one that was read last, or could
// not be read then.
func (k *Keyring) changed() bool {
	info, err := os.Stat(k.file)
	k.mu.Lock()
	defer k.mu.Unlock()
	return err != nil || k.stamp != stamp{info.ModTime(), info.Size()}
}

// Watch reloads the file when it has changed, until ctx ends. It looks once per interval, and
// logs each outcome once.
func (k *Keyring) Watch(ctx context.Context, every time.Duration, log *slog.Logger) {
	if k.file == "" {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !k.changed() {
			continue
		}
		err := k.Reload()
		if err == nil {
			said = ""
			log.Info("the credentials file was read anew", "file", k.file, "keys", len(k.all.Load().entries))
			continue
		}
		if text := err.Error(); text != said {
			said = text
			log.Error("the credentials file is not used; the keys before it stay valid", "error", err)
		}
	}
}

// marked reports whether the last line that is not blank is the marker.
func marked(src []byte) bool {
	src = bytes.TrimSpace(src)
	return string(bytes.TrimSpace(src[bytes.LastIndexByte(src, '\n')+1:])) == marker
}

// parse reads a credentials file.
func parse(src []byte) (out keys, err error) {
	var file struct {
		Keys *[]fileKey `yaml:"keys"`
	}
	d := yaml.NewDecoder(bytes.NewReader(src), yaml.Strict())
	err = d.Decode(&file)
	switch {
	case errors.Is(err, io.EOF) || err == nil && file.Keys == nil:
		return out, errNoKeys
	case err != nil:
		return out, errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
	case !errors.Is(d.Decode(new(any)), io.EOF):
		return out, errors.New("there is more than one document in the file")
	}
	if err := complete(src); err != nil {
		return out, err
	}
	type secret struct {
		username string
		hash     [sha256.Size]byte
	}
	seen, ids := map[secret]int{}, map[string]int{}
	out = keys{entries: make([]entry, 0, len(*file.Keys)), sharing: map[string]*sharing{}}
	for i := range *file.Keys {
		f := &(*file.Keys)[i]
		e, err := f.entry()
		if err == nil {
			err = f.weigh(out.sharing, e.Share)
		}
		if err != nil {
			return keys{}, fmt.Errorf("key %d (%s): %w", i+1, f.ID, err)
		}
		same := secret{e.username, e.hash}
		if other, ok := seen[same]; ok {
			return keys{}, fmt.Errorf("key %d (%s): it is the same key as key %d (%s), so it is not clear what it may do", i+1, f.ID, other+1, out.entries[other].Key)
		}
		seen[same] = i
		if other, ok := ids[e.Key]; ok && (e.Limits != nil || out.entries[other].Limits != nil) {
			return keys{}, fmt.Errorf("key %d (%s): it has the id of key %d, and limits are counted by id; give it another", i+1, f.ID, other+1)
		} else if !ok {
			ids[e.Key] = i
		}
		out.entries = append(out.entries, e)
	}
	return out, nil
}

// complete returns an error if a member of a key has no value. It would be taken for absent,
// and a key whose list of projects was cut off or commented out would be for all of them.
func complete(src []byte) error {
	var file struct {
		Keys []map[string]any `yaml:"keys"`
	}
	if err := yaml.Unmarshal(src, &file); err != nil {
		return errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	for i, key := range file.Keys {
		for _, name := range slices.Sorted(maps.Keys(key)) {
			if v := key[name]; v == nil || v == "" {
				return fmt.Errorf("key %d (%v): %s has no value; leave it out, or say what it is", i+1, key["id"], name)
			}
		}
		if limits, ok := key["limits"].(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(limits)) {
				if limits[name] == nil {
					return fmt.Errorf("key %d (%v): limits: %s has no value; leave it out, or say what it is", i+1, key["id"], name)
				}
			}
		}
	}
	return nil
}

// entry checks a key and fills in what it leaves out.
func (f *fileKey) entry() (e entry, err error) {
	digest, ok := strings.CutPrefix(f.Hash, "sha256:")
	sum, err := hex.DecodeString(digest)
	if !ok || err != nil || len(sum) != sha256.Size {
		return e, errors.New("hash is not sha256: and 64 hexadecimal digits")
	}
	copy(e.hash[:], sum)
	if f.ID == "" {
		return e, errors.New("id is missing")
	}
	if strings.Contains(f.Username, ":") {
		return e, errors.New("username has a colon")
	}
	e.username = f.Username
	e.Identity = Identity{Key: f.ID, User: f.ID, Projects: f.Projects, Models: f.Models, Rights: Read | Write}
	if e.MaxPriority, err = parsePriority(f.MaxPriority); err != nil {
		return e, err
	}
	id := &e.Identity
	if id.Limits, err = f.Limits.limits(f.ID); err != nil {
		return e, err
	}
	if f.User != "" {
		id.User = f.User
	}
	if id.Tenant = f.Tenant; id.Tenant == "" {
		id.Tenant = id.User
	}
	id.Share = "tenant " + id.Tenant
	if id.Projects == nil {
		id.Projects = []string{"*"}
	}
	for _, p := range id.Projects {
		if !validPattern(p) {
			return e, fmt.Errorf("project %q is not team/project, team/* or *", p)
		}
	}
	if id.Project = f.Project; id.Project != "" && !validProject(id.Project) {
		return e, fmt.Errorf("default_project %q is not team/project", id.Project)
	}
	if id.Project != "" && !id.Covers(id.Project) {
		return e, fmt.Errorf("default_project %q is not among the projects of the key", id.Project)
	}
	if id.Models == nil {
		id.Models = []string{"*"}
	}
	if f.Rights != nil {
		if id.Rights, err = parseRights(f.Rights); err != nil {
			return e, err
		}
	}
	if f.Expires != "" {
		if id.Expires, err = time.Parse(time.RFC3339, f.Expires); err != nil {
			return e, fmt.Errorf("expires: %w", err)
		}
	}
	return e, nil
}

// parsePriority reads a whole number; nil: there is none.
func parsePriority(v any) (*int64, error) {
	switch n := v.(type) {
	case nil:
		return nil, nil
	case int64:
		return &n, nil
	case uint64:
		if n <= math.MaxInt64 {
			p := int64(n)
			return &p, nil
		}
	}
	return nil, fmt.Errorf("max_priority %v is not a whole number of 64 bits", v)
}

func parseRights(names []string) (rights Rights, err error) {
	for _, r := range names {
		switch r {
		case "read":
			rights |= Read
		case "write":
			rights |= Write
		case "admin":
			rights |= Admin
		case "transfer":
			rights |= Transfer
		default:
			return 0, fmt.Errorf("right %q is not read, write, admin or transfer", r)
		}
	}
	return rights, nil
}
