package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Removal is what Remove deletes.
type Removal struct {
	Reference
	Commits []string // whose files are deleted
	Files   []string // of them; nil: all
	Whole   bool     // nothing of the repository is left
	Size    int64    // of the blobs that nothing else needs, and of what has come of unfinished ones

	blobs []string // paths
	links []string // paths of the files in snapshots
}

// PlanRemoval finds what a reference means among what is in the cache: a repository, one of its
// commits, by a branch or tag or by its hash or the beginning of it, or one of its models in GGUF.
func (h *Hub) PlanRemoval(ref Reference) (Removal, error) {
	r := h.repository(ref.Repo)
	all, err := os.ReadDir(r.snapshots())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Removal{}, err
	}
	var commits []string
	for _, c := range all {
		if c.IsDir() {
			commits = append(commits, c.Name())
		}
	}
	if info, err := os.Stat(r.dir()); err != nil || !info.IsDir() {
		return Removal{}, fmt.Errorf("%s is not in the cache %s; weir list lists what is", ref.Repo, r.cache)
	}
	x := Removal{Reference: ref, Commits: commits}
	if ref.Revision != "" {
		commit, err := r.findCommit(ref, commits)
		if err != nil {
			return x, err
		}
		x.Commits = []string{commit}
	}
	kept := map[string]bool{} // blobs
	for _, commit := range commits {
		if err := r.planCommit(&x, commit, kept); err != nil {
			return x, err
		}
	}
	if ref.Variant != "" && len(x.links) == 0 {
		return x, fmt.Errorf("%s has no %s in the cache", ref.Repo, ref.Variant)
	}
	x.Whole = ref.Variant == "" && len(x.Commits) == len(commits) || ref.Variant != "" && len(kept) == 0
	slices.Sort(x.blobs)
	x.blobs = slices.DeleteFunc(slices.Compact(x.blobs), func(b string) bool { return kept[b] })
	for _, blob := range x.blobs {
		x.Size += r.freed(blob, x.blobs)
	}
	if x.Whole {
		x.Size += r.unfinishedSize()
	}
	return x, nil
}

// unfinishedSize is how many bytes have come of files whose download was interrupted.
func (r repository) unfinishedSize() (size int64) {
	entries, _ := os.ReadDir(r.blob(""))
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".incomplete")
		info, err := entry.Info()
		if !ok || err != nil || strings.HasSuffix(name, ".parts") {
			continue
		}
		journal := r.blob(name + ".parts.incomplete")
		if _, err := os.Stat(journal); err == nil {
			size += total(readJournal(journal, info.Size(), info.Size()))
		} else {
			size += info.Size() // huggingface_hub's, without holes
		}
	}
	return size
}

// findCommit finds a commit of the cache by the revision of a reference.
func (r repository) findCommit(ref Reference, commits []string) (string, error) {
	if commit := r.commit(ref.Revision); slices.Contains(commits, commit) {
		return commit, nil
	}
	var found []string
	for _, commit := range commits {
		if len(ref.Revision) >= 4 && strings.HasPrefix(commit, ref.Revision) {
			found = append(found, commit)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("%s has no revision %s in the cache; weir list lists what is", ref.Repo, ref.Revision)
	}
	return "", fmt.Errorf("%s: %s may be any of %s", ref.Repo, ref.Revision, strings.Join(found, ", "))
}

// planCommit adds what is deleted of a commit to a plan, and the blobs that stay to kept.
func (r repository) planCommit(x *Removal, commit string, kept map[string]bool) error {
	names, err := r.snapshotFiles(commit)
	if err != nil {
		return err
	}
	chosen := func(string) bool { return slices.Contains(x.Commits, commit) }
	if x.Variant != "" && chosen("") {
		list, _ := variants(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !isModelGGUF(n) }))
		var files []string
		for _, v := range match(list, x.Variant) {
			files = append(files, v.files...)
		}
		chosen = func(name string) bool { return slices.Contains(files, name) }
	}
	for _, name := range names {
		link := r.pointer(commit, name)
		blob := r.target(link)
		if !chosen(name) {
			kept[blob] = true
			continue
		}
		x.blobs = append(x.blobs, blob)
		if x.Variant != "" {
			x.links = append(x.links, link)
			if !slices.Contains(x.Files, name) {
				x.Files = append(x.Files, name)
			}
		}
	}
	return nil
}

// target is the blob that a file of a snapshot is a link to, or the file itself. Only the first
// link is followed: a blob may be a link to the store that repositories share.
func (r repository) target(link string) string {
	to, err := os.Readlink(link)
	if err != nil {
		return link
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(link), to)
	}
	return filepath.Clean(to)
}

// own tells whether a path is that of a blob of the repository. Others are never deleted: a link in
// a snapshot may lead anywhere.
func (r repository) own(blob string) bool { return filepath.Dir(blob) == r.blob("") }

// freed is how many bytes the deletion of a blob frees, when others are deleted with it.
func (r repository) freed(blob string, with []string) int64 {
	info, err := os.Stat(blob)
	if err != nil || !r.own(blob) && !strings.HasPrefix(blob, r.snapshots()+string(filepath.Separator)) {
		return 0
	}
	if store := sharedBlob(r.cache, blob); store != "" {
		for _, other := range manifest(r.cache, store) {
			if !slices.Contains(with, other) {
				return 0
			}
		}
	}
	return info.Size()
}

// Remove deletes what a plan says. It fails while another process downloads files of the
// repository. Links go first and blobs last, so that no link leads nowhere if it is interrupted.
func (h *Hub) Remove(x Removal) (err error) {
	r := h.repository(x.Repo)
	unlock, err := r.lockAll()
	if err != nil {
		return err
	}
	defer unlock()
	var stores []string
	for _, blob := range x.blobs {
		if store := sharedBlob(r.cache, blob); store != "" && r.own(blob) {
			stores = append(stores, store)
		}
	}
	switch {
	case x.Whole:
		err = os.RemoveAll(r.dir())
	case x.Variant != "":
		for _, link := range x.links {
			err = errors.Join(err, os.Remove(link))
		}
	default:
		err = r.removeCommits(x.Commits)
	}
	if err != nil {
		return err
	}
	if !x.Whole {
		for _, blob := range x.blobs {
			if r.own(blob) {
				if failed := os.Remove(blob); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
					err = errors.Join(err, failed)
				}
			}
		}
	}
	for _, store := range stores {
		err = errors.Join(err, sweep(r.cache, store))
	}
	return err
}

// removeCommits deletes commits and what is known of them, but no blobs.
func (r repository) removeCommits(commits []string) error {
	refs := r.refs()
	for _, commit := range commits {
		for _, ref := range refs[commit] {
			if err := os.Remove(r.ref(ref)); err != nil {
				return err
			}
		}
		err := errors.Join(os.RemoveAll(r.snapshot(commit)), os.RemoveAll(filepath.Join(r.dir(), ".no_exist", commit)))
		if failed := os.Remove(filepath.Join(r.dir(), "trees", commit+".json")); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lockAll takes the locks of all blobs that were ever downloaded.
func (r repository) lockAll() (unlock func(), err error) {
	var held []func()
	unlock = func() {
		for _, f := range held {
			f()
		}
	}
	dir := filepath.Dir(r.lock(""))
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		if path.Ext(entry.Name()) != ".lock" {
			continue
		}
		f, err := tryLock(filepath.Join(dir, entry.Name()))
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return unlock, nil
		case err != nil:
			unlock()
			return nil, err
		case f == nil:
			unlock()
			return nil, fmt.Errorf("another process downloads files of it now: nothing was deleted")
		}
		held = append(held, f)
	}
	return unlock, nil
}
