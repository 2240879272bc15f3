package hub

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// snapshotFiles lists the files of a commit that are in the cache, with slashes, sorted. What a
// link leads to need not exist.
func (r repository) snapshotFiles(commit string) (names []string, err error) {
	root := r.snapshot(commit)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || strings.HasSuffix(d.Name(), ".tmp") {
			return nil
		}
		if len(names) >= maxFiles {
			return errors.New("too many files")
		}
		name, err := filepath.Rel(root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	slices.Sort(names)
	return names, err
}

// A Revision is a commit of a repository in the cache.
type Revision struct {
	Repo   string
	Commit string
	Refs   []string // branches and tags that were this commit when they were asked for last
	Folder string
	Size   int64 // of its files; those that other commits have too count for each
	Files  int
	Broken int       // of these, links that lead nowhere
	Used   time.Time // when one of its files was read last, as far as the file system notes that
}

// List lists the models in the cache, by name and commit. Files that it cannot make sense of are
// passed over.
func (h *Hub) List() ([]Revision, error) {
	entries, err := os.ReadDir(h.config.Cache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Revision
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), "models--")
		repo := strings.ReplaceAll(name, "--", "/")
		if !ok || checkRepo(repo) != nil {
			continue
		}
		list = append(list, h.repository(repo).revisions(repo)...)
	}
	return list, nil
}

// revisions lists the commits of a repository that are in the cache.
func (r repository) revisions(repo string) (list []Revision) {
	refs := r.refs()
	commits, _ := os.ReadDir(r.snapshots())
	for _, c := range commits {
		if !c.IsDir() {
			continue
		}
		rev := Revision{Repo: repo, Commit: c.Name(), Folder: r.snapshot(c.Name()), Refs: refs[c.Name()]}
		names, err := r.snapshotFiles(c.Name())
		if err != nil {
			continue
		}
		rev.Files = len(names)
		for _, name := range names {
			info, err := os.Stat(r.pointer(c.Name(), name))
			if err != nil {
				rev.Broken++
				continue
			}
			rev.Size += info.Size()
			if used := usedAt(info); used.After(rev.Used) {
				rev.Used = used
			}
		}
		list = append(list, rev)
	}
	return list
}

// refs reads which revisions are which commits.
func (r repository) refs() map[string][]string {
	refs := map[string][]string{}
	root := filepath.Join(r.dir(), "refs")
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".tmp") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return nil
		}
		if name = filepath.ToSlash(name); checkName(name) == nil {
			if commit := r.commit(name); commit != "" {
				refs[commit] = append(refs[commit], name)
			}
		}
		return nil
	})
	return refs
}
