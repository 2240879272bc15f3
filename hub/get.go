package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"weir/internal/plainfile"
)

// A Part says what of a repository is wanted.
type Part int

// Parts of a repository.
const (
	Whole     Part = iota // a model: configuration, tokenizer, weights
	Tokenizer             // configurations, tokenizer and chat templates
)

// Options say how Get gets a model.
type Options struct {
	Part Part
	// Fresh asks the hub what a revision is now, and compares the size of each file, also where the
	// cache has everything that a commit needs.
	Fresh bool
	// Verify reads each file that is there already, and compares its hash with the hub's. What is
	// damaged is downloaded again.
	Verify bool
	// Progress is told how the download goes, by one goroutine at a time. nil: nobody.
	Progress func(Progress)
}

// Progress is how far a download is.
type Progress struct {
	File    string // that is worked on
	Number  int    // of the file, from 1
	Files   int    // to be downloaded, as far as is known
	Done    int64  // bytes of all these files
	Total   int64
	Waiting bool // for another process, which downloads the file
	Check   bool // the file is there, and is read to be compared
	Ended   bool // the file is there
}

// A Model is a model in the cache.
type Model struct {
	Reference
	Commit string
	Folder string // the snapshot
	GGUF   string // the file of it, for a model in GGUF the first one; ""
}

// Path is the folder or the GGUF file that is to be opened.
func (m Model) Path() string {
	if m.GGUF != "" {
		return filepath.Join(m.Folder, filepath.FromSlash(m.GGUF))
	}
	return m.Folder
}

// certain tells whether the files of a repository that are not in the cache cannot change which
// model is meant: where no type is given, another file may be the one.
func (m Model) certain() bool {
	return m.GGUF == "" || m.Variant != "" || label(strings.TrimSuffix(split.ReplaceAllString(m.GGUF, "$1"), ".gguf")) == DefaultVariant
}

// Get finds a model in the cache, and downloads what is missing. Where the hub cannot be reached,
// and where HF_HUB_OFFLINE is set, it is content with what is in the cache, if that is whole. A
// commit that is in the cache is used without asking the hub.
func (h *Hub) Get(ctx context.Context, ref Reference, o Options) (Model, error) {
	r := h.repository(ref.Repo)
	cached, incomplete := h.cached(ref, o.Part)
	whole := incomplete == nil
	switch {
	case h.config.Offline && !whole:
		return Model{}, fail(ErrOffline, "%s is not in the cache %s, and the hub is not asked because HF_HUB_OFFLINE is set: %v", ref, h.config.Cache, incomplete)
	case h.config.Offline && o.Verify:
		return cached, h.verifyOffline(ctx, cached, o)
	case h.config.Offline:
		return cached, nil
	case whole && !o.Fresh && !o.Verify && ref.Revision == cached.Commit && cached.certain():
		return cached, nil
	}
	m, err := h.getFromHub(ctx, r, ref, o, whole)
	if err != nil && whole && !o.Fresh && !o.Verify && recoverable(err) && ctx.Err() == nil {
		h.config.Log.Warn("the hub does not say what the model is now; what is in the cache is used", "model", ref.String(), "commit", cached.Commit, "error", err)
		return cached, nil
	}
	return m, err
}

// getFromHub asks the hub for a revision and gets what is missing of it. whole tells that the cache
// has a commit of the revision, so that it is not worth while to ask again and again.
func (h *Hub) getFromHub(ctx context.Context, r repository, ref Reference, o Options, whole bool) (m Model, err error) {
	commit, tries := ref.Revision, firstTries
	if whole && !o.Fresh {
		tries = 1
	}
	if !commitHash.MatchString(commit) {
		if commit, err = h.commitOf(ctx, ref.Repo, ref.revision(), tries); err != nil {
			return m, err
		}
	}
	files, err := h.listFiles(ctx, ref.Repo, commit, tries)
	if err != nil {
		return m, err
	}
	p, err := choose(ref, files, o.Part)
	if err != nil {
		return m, err
	}
	g := &getter{h: h, r: r, ref: ref, commit: commit, files: files, options: o}
	if err := g.get(ctx, p.first); err != nil {
		return m, err
	}
	if p.index != "" {
		if p.large, err = h.readIndex(r, commit, func(name string) bool { _, ok := files[name]; return ok }); err != nil {
			return m, fmt.Errorf("%s: %w", ref.Repo, err)
		}
	}
	if err := g.get(ctx, p.large); err != nil {
		return m, err
	}
	for _, name := range noted {
		if _, ok := files[name]; !ok {
			r.noteMissing(commit, name)
		}
	}
	if err := r.setRef(ref.revision(), commit); err != nil {
		h.config.Log.Warn("the commit of a revision could not be noted", "error", err)
	}
	return Model{ref, commit, r.snapshot(commit), p.gguf}, nil
}

// readIndex reads the names of the shards from the index of a snapshot.
func (h *Hub) readIndex(r repository, commit string, known func(string) bool) ([]string, error) {
	path := r.pointer(commit, indexName)
	if size := r.size(commit, indexName); size > maxIndex {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", indexName, size, maxIndex)
	}
	text, err := plainfile.Read(path)
	if err != nil {
		return nil, err
	}
	return shards(text, known)
}

// cached finds a model in the cache alone. The error says what is missing.
func (h *Hub) cached(ref Reference, part Part) (Model, error) {
	r := h.repository(ref.Repo)
	commit := r.commit(ref.revision())
	if commit == "" {
		return Model{}, fmt.Errorf("revision %s was never downloaded", ref.revision())
	}
	names, err := r.snapshotFiles(commit)
	if err != nil {
		return Model{}, fmt.Errorf("nothing is there of the commit %s", commit)
	}
	files := map[string]remoteFile{}
	for _, name := range names {
		files[name] = remoteFile{Name: name}
	}
	p, err := choose(ref, files, part)
	if err != nil {
		return Model{}, err
	}
	if p.index != "" {
		if p.large, err = h.readIndex(r, commit, func(string) bool { return true }); err != nil {
			return Model{}, err
		}
	}
	if p.gguf == "" && part == Whole && !slices.ContainsFunc(p.first, func(n string) bool { return slices.Contains(vocabularies, n) }) {
		return Model{}, errors.New("the tokenizer is missing")
	}
	listed := r.tree(commit)
	for _, name := range slices.Concat(p.first, p.large) {
		size := r.size(commit, name)
		if size < 0 {
			return Model{}, fmt.Errorf("%s is missing", name)
		}
		if f, ok := listed[name]; ok && f.Size != size {
			return Model{}, fmt.Errorf("%s has %d bytes instead of %d", name, size, f.Size)
		}
	}
	return Model{ref, commit, r.snapshot(commit), p.gguf}, nil
}

// verifyOffline compares the hashes of a model's files with the names of their blobs.
func (h *Hub) verifyOffline(ctx context.Context, m Model, o Options) error {
	r := h.repository(m.Repo)
	names, err := r.snapshotFiles(m.Commit)
	if err != nil {
		return err
	}
	g := &getter{h: h, r: r, ref: m.Reference, commit: m.Commit, options: o}
	for _, name := range names {
		good, err := g.intact(ctx, name, &remoteFile{Name: name, Size: r.size(m.Commit, name)})
		if err != nil {
			return err
		}
		if !good {
			return fail(ErrChecksum, "%s of %s is damaged; without HF_HUB_OFFLINE it is downloaded again", name, m.Repo)
		}
	}
	return nil
}

// A getter gets files of one commit.
type getter struct {
	h       *Hub
	r       repository
	ref     Reference
	commit  string
	files   map[string]remoteFile
	options Options

	mu       sync.Mutex
	progress Progress
}

// tell tells of the progress after a change of it.
func (g *getter) tell(change func(p *Progress)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.progress)
	if g.options.Progress != nil {
		g.options.Progress(g.progress)
	}
}

// get gets the files that are not there.
func (g *getter) get(ctx context.Context, names []string) error {
	var missing []remoteFile
	var bytes int64
	for _, name := range names {
		f := g.files[name]
		good, err := g.there(ctx, &f)
		if err != nil {
			return err
		}
		if !good {
			missing = append(missing, f)
			bytes += f.Size
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := g.room(missing); err != nil {
		return err
	}
	if err := os.MkdirAll(g.r.cache, 0o777); err != nil {
		return g.full(err, missing)
	}
	tagCache(g.r.cache)
	g.tell(func(p *Progress) {
		p.Files += len(missing)
		p.Total += bytes
	})
	for i, f := range missing {
		g.tell(func(p *Progress) { p.File, p.Number, p.Ended = f.Name, p.Number+1, false })
		if err := g.getFile(ctx, &f); err != nil {
			return g.full(err, missing[i:])
		}
		g.tell(func(p *Progress) { p.Ended, p.Waiting = true, false })
	}
	return nil
}

// there tells whether a file is in the snapshot with the right size and, if that is asked for, the
// right hash.
func (g *getter) there(ctx context.Context, f *remoteFile) (bool, error) {
	if g.r.size(g.commit, f.Name) != f.Size {
		return false, nil
	}
	if !g.options.Verify {
		return true, nil
	}
	return g.intact(ctx, f.Name, f)
}

// intact reads a file of the snapshot and compares its hash.
func (g *getter) intact(ctx context.Context, name string, f *remoteFile) (bool, error) {
	path := g.r.pointer(g.commit, name)
	etag := ""
	if target, err := os.Readlink(path); err == nil {
		etag = filepath.Base(target)
	}
	want := digestOf(etag, f)
	if want.hex == "" {
		return true, nil
	}
	g.tell(func(p *Progress) { p.File, p.Check, p.Done, p.Total = name, true, 0, f.Size })
	good, err := want.checkFile(ctx, path, func(n int) { g.tell(func(p *Progress) { p.Done += int64(n) }) })
	g.tell(func(p *Progress) { p.File, p.Check, p.Done, p.Total = "", false, 0, 0 })
	if err == nil && !good {
		g.h.config.Log.Warn("a file in the cache is damaged", "file", path)
	}
	return good, err
}

// leastFree is what a download leaves free on the disk.
const leastFree = 64 << 20

// room returns an error if the disk has too little room for the files.
func (g *getter) room(missing []remoteFile) error {
	need := g.toCome(missing)
	free, known := freeSpace(existing(g.r.cache))
	if known && need > 0 && free-leastFree < need {
		return fail(ErrNoSpace, "%s needs %d MB more on the disk of %s, and %d MB are free: make room (weir list, weir rm), or set HF_HUB_CACHE to a folder on another disk",
			g.ref, (need+leastFree)/1e6+1, g.r.cache, free/1e6)
	}
	return nil
}

// toCome is how many bytes of the files are not on the disk yet.
func (g *getter) toCome(missing []remoteFile) (bytes int64) {
	for _, f := range missing {
		bytes += f.Size
		etag := f.etag()
		if checkEtag(etag) != nil {
			continue
		}
		if info, err := os.Stat(g.r.blob(etag)); err == nil && info.Size() == f.Size {
			bytes -= f.Size
			continue
		}
		path, journal := g.r.unfinished(etag, mark)
		if info, err := os.Stat(path); err == nil {
			bytes -= total(readJournal(journal, f.Size, info.Size()))
		}
	}
	return bytes
}

// full says in words that the disk got full in spite of room: somebody else has filled it, or a
// quota that is not that of the disk is used up. missing are the files that have not come.
func (g *getter) full(err error, missing []remoteFile) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fail(ErrNoSpace, "the disk of %s is full: %d MB of %s are still missing, and what has come is kept; make room (weir list, weir rm) and start again (%v)",
		g.r.cache, g.toCome(missing)/1e6+1, g.ref, err)
}

// existing is the nearest folder above a path that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// getFile gets one file: the blob may be there already, or another process may be at it.
func (g *getter) getFile(ctx context.Context, f *remoteFile) error {
	meta, err := g.h.resolve(ctx, g.ref.Repo, g.commit, f.Name, f)
	if errors.Is(err, ErrNoFile) {
		g.r.noteMissing(g.commit, f.Name)
	}
	if err != nil {
		return err
	}
	// A download that is interrupted from here on is listed; one that the hub refuses is not.
	if err := os.MkdirAll(g.r.snapshot(g.commit), 0o777); err != nil {
		return err
	}
	unlock, locks, err := g.r.lockBlob(ctx, meta.etag, func() {
		g.h.config.Log.Info("another process downloads a file; waiting for it", "file", f.Name)
		g.tell(func(p *Progress) { p.Waiting = true })
	})
	if err != nil {
		return err
	}
	defer unlock()
	g.tell(func(p *Progress) { p.Waiting = false })
	isNew := false
	if there, err := g.haveBlob(ctx, meta, f); err != nil {
		return err
	} else if there {
		g.tell(func(p *Progress) { p.Done += f.Size })
	} else {
		isNew = true
		d := &download{h: g.h, repo: g.ref.Repo, commit: g.commit, name: f.Name, listed: f, meta: meta, address: meta.location,
			arrived: func(n int64) { g.tell(func(p *Progress) { p.Done += n }) }}
		if err := d.fetchBlob(ctx, locks); err != nil {
			return err
		}
	}
	return g.r.point(g.commit, f.Name, meta.etag, isNew, !g.h.config.NoSymlinks)
}

// haveBlob tells whether a blob is there. It is read if that was asked for: it may be damaged, or
// another commit may have brought it.
func (g *getter) haveBlob(ctx context.Context, meta metadata, f *remoteFile) (bool, error) {
	path := g.r.blob(meta.etag)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != meta.size {
		return false, nil
	}
	want := digestOf(meta.etag, f)
	if !g.options.Verify || want.hex == "" {
		return true, nil
	}
	return want.checkFile(ctx, path, func(int) {})
}
