package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/plainfile"
)

// repository is the folder of a repository in the cache.
type repository struct {
	cache string
	name  string // of the folder: models--org--name
}

// repoFolder is the name of the folder of a repository of models.
func repoFolder(repo string) string { return "models--" + strings.ReplaceAll(repo, "/", "--") }

func (h *Hub) repository(repo string) repository {
	return repository{h.config.Cache, repoFolder(repo)}
}

func (r repository) dir() string             { return filepath.Join(r.cache, r.name) }
func (r repository) blob(etag string) string { return filepath.Join(r.dir(), "blobs", etag) }
func (r repository) snapshots() string       { return filepath.Join(r.dir(), "snapshots") }
func (r repository) snapshot(commit string) string {
	return filepath.Join(r.snapshots(), commit)
}

// pointer is a file of a snapshot. The name has been checked.
func (r repository) pointer(commit, name string) string {
	return filepath.Join(r.snapshot(commit), filepath.FromSlash(name))
}

func (r repository) ref(revision string) string {
	return filepath.Join(r.dir(), "refs", filepath.FromSlash(revision))
}

func (r repository) lock(etag string) string {
	return filepath.Join(r.cache, ".locks", r.name, etag+".lock")
}

// commit finds the commit that a revision was when it was asked for last; "" if that is unknown.
func (r repository) commit(revision string) string {
	if commitHash.MatchString(revision) {
		return revision
	}
	text, err := readSmall(r.ref(revision))
	if err != nil {
		return ""
	}
	if commit := strings.TrimSpace(string(text)); commitHash.MatchString(commit) {
		return commit
	}
	return ""
}

// readSmall reads a file that has next to nothing in it.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > 4096) {
		err = fmt.Errorf("%s: %w", path, plainfile.ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	return plainfile.Read(path)
}

// setRef notes what commit a revision is now.
func (r repository) setRef(revision, commit string) error {
	if revision == commit || r.commit(revision) == commit {
		return nil
	}
	path := r.ref(revision)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return writeAside(path, []byte(commit))
}

// writeAside writes a file so that others see all of it or nothing.
func writeAside(path string, text []byte) error {
	aside := fmt.Sprintf("%s.%s.tmp", path, randomHex())
	err := os.WriteFile(aside, text, 0o666)
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err != nil {
		_ = os.Remove(aside)
	}
	return err
}

// noteMissing notes that a commit has no such file, for those who ask for it without the hub
// (transformers). It is a help, so that it fails is no failure.
func (r repository) noteMissing(commit, name string) {
	path := filepath.Join(r.dir(), ".no_exist", commit, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return
	}
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o666); err == nil {
		_ = f.Close()
	}
}

// missingNoted tells whether somebody has noted that a commit has no such file.
func (r repository) missingNoted(commit, name string) bool {
	info, err := os.Stat(filepath.Join(r.dir(), ".no_exist", commit, filepath.FromSlash(name)))
	return err == nil && info.Mode().IsRegular()
}

// size is the size of a file in a snapshot; -1 if it is not there, also as a link to a blob
// that is not there.
func (r repository) size(commit, name string) int64 {
	info, err := os.Stat(r.pointer(commit, name))
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	return info.Size()
}

// point puts a blob into a snapshot: as a relative symlink, or, where there are none, as the file
// itself. A blob that is new is then moved, and one that may be in another snapshot copied, as
// huggingface_hub does.
func (r repository) point(commit, name, etag string, isNew, symlinks bool) error {
	path, blob := r.pointer(commit, name), r.blob(etag)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if symlinks {
		target, err := filepath.Rel(filepath.Dir(path), blob)
		if err != nil {
			return err
		}
		if now, err := os.Readlink(path); err == nil && now == target {
			return nil
		}
		aside := fmt.Sprintf("%s.%s.tmp", path, randomHex())
		if err := os.Symlink(target, aside); err == nil {
			if err := os.Rename(aside, path); err != nil {
				_ = os.Remove(aside)
				return err
			}
			return nil
		}
	}
	if isNew {
		return os.Rename(blob, path)
	}
	return copyFile(blob, path)
}

// copyFile copies a file to a name that others see with all of it or not at all.
func copyFile(from, to string) error {
	src, err := plainfile.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	aside := fmt.Sprintf("%s.%s.tmp", to, randomHex())
	dst, err := os.OpenFile(aside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = dst.ReadFrom(src)
	if err = errors.Join(err, dst.Close()); err == nil {
		err = os.Rename(aside, to)
	}
	if err != nil {
		_ = os.Remove(aside)
	}
	return err
}

// cacheTag is what huggingface_hub writes into the folder of the cache, so that programs for
// backups leave it out (https://bford.info/cachedir/).
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n" +
	"# This file is a cache directory tag created by huggingface_hub.\n" +
	"# For information about cache directory tags, see:\n" +
	"#\thttps://bford.info/cachedir/\n"

// tagCache marks the folder of the cache as one.
func tagCache(dir string) {
	path := filepath.Join(dir, "CACHEDIR.TAG")
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		_ = writeAside(path, []byte(cacheTag))
	}
}

// pollLock is how often a lock that another process has is tried.
const pollLock = 100 * time.Millisecond

// lockBlob takes the lock of a blob. waiting is called once if another process has it. locks is
// false where the file system has no locks; nothing is held then.
func (r repository) lockBlob(ctx context.Context, etag string, waiting func()) (unlock func(), locks bool, err error) {
	path := r.lock(etag)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, false, err
	}
	for first := true; ; first = false {
		unlock, err := tryLock(path)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return func() {}, false, nil
		case err != nil || unlock != nil:
			return unlock, true, err
		}
		if first {
			waiting()
		}
		if err := sleep(ctx, pollLock); err != nil {
			return nil, false, err
		}
	}
}
