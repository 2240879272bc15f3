package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// A Span is the bytes [From, To) of a file.
type Span struct{ From, To int64 }

// Wanted is what Outline asks for of a file with weights.
type Wanted struct {
	Begin int64  // so many bytes of the beginning; if that is more than there are, it is asked again with more
	Spans []Span // what else
}

// Bounds of what Outline reads.
const (
	firstBegin = 256 << 10 // bytes of the beginning of a file, before it is known how many are wanted
	maxBegin   = 128 << 20 // of them; the header of a safetensors file may have 100 MB
	maxOutline = 1 << 30   // bytes of one model
)

// Outline makes a folder of a model that is not in the cache, for somebody who only looks at it: the
// small files, and of those with weights only what want asks for, by HTTP ranges. These have their
// full size, and holes in which nothing was read. want is given the name of such a file and its
// first bytes, by several goroutines. Nothing is written into the cache, and no file of the folder
// must ever be taken for a whole one. The folder is empty before; after an error as well it is the
// caller's to remove.
func (h *Hub) Outline(ctx context.Context, ref Reference, part Part, dir string, want func(name string, begin []byte) Wanted) (m Model, err error) {
	commit := ref.Revision
	if !commitHash.MatchString(commit) {
		if commit, err = h.commitOf(ctx, ref.Repo, ref.revision(), firstTries); err != nil {
			return m, err
		}
	}
	files, err := h.listFiles(ctx, ref.Repo, commit, firstTries)
	if err != nil {
		return m, err
	}
	p, err := choose(ref, files, part)
	if err != nil {
		return m, err
	}
	o := &outline{h: h, repo: ref.Repo, commit: commit, files: files, dir: dir, want: want, left: maxOutline}
	if err := o.each(ctx, p.first, o.small); err != nil {
		return m, err
	}
	if p.index != "" {
		text, err := os.ReadFile(o.path(p.index))
		if err == nil {
			p.large, err = shards(text, func(name string) bool { _, ok := files[name]; return ok })
		}
		if err != nil {
			return m, fmt.Errorf("%s: %w", ref.Repo, err)
		}
	}
	if err := o.each(ctx, p.large, o.large); err != nil {
		return m, err
	}
	return Model{ref, commit, dir, p.gguf}, nil
}

// An outline is the work on the folder of one model.
type outline struct {
	h            *Hub
	repo, commit string
	files        map[string]remoteFile
	dir          string
	want         func(name string, begin []byte) Wanted

	mu   sync.Mutex
	left int64 // of maxOutline
}

// path is a file of the folder. The name has been checked when the files were listed.
func (o *outline) path(name string) string { return filepath.Join(o.dir, filepath.FromSlash(name)) }

// each does something with files, several at a time, and returns the first error.
func (o *outline) each(ctx context.Context, names []string, do func(ctx context.Context, f *remoteFile) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan string)
	var workers sync.WaitGroup
	for range min(o.h.config.Connections, len(names)) {
		workers.Go(func() {
			for name := range next {
				f := o.files[name]
				if err := do(ctx, &f); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		next <- name
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// small gets a file that is needed whole.
func (o *outline) small(ctx context.Context, f *remoteFile) error {
	d, err := o.open(ctx, f)
	if err != nil {
		return err
	}
	err = o.fetch(ctx, d, []Span{{0, f.Size}})
	if err = errors.Join(err, d.a.close()); err != nil {
		return err
	}
	want := digestOf(d.meta.etag, f)
	good, err := want.checkFile(ctx, o.path(f.Name), func(int) {})
	if err == nil && !good {
		err = fail(ErrChecksum, "%s of %s is damaged: the hub says that its hash is %s, and what came has another one", f.Name, o.repo, want.hex)
	}
	return err
}

// large gets what is wanted of a file with weights.
func (o *outline) large(ctx context.Context, f *remoteFile) (err error) {
	d, err := o.open(ctx, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.a.close()) }()
	for have, begin := int64(0), min(firstBegin, f.Size); ; {
		if err := o.fetch(ctx, d, []Span{{have, begin}}); err != nil {
			return err
		}
		text := make([]byte, begin)
		if _, err := d.a.file.ReadAt(text, 0); err != nil {
			return err
		}
		w := o.want(f.Name, text)
		have, begin = begin, min(w.Begin, f.Size, maxBegin)
		if begin <= have {
			return o.fetch(ctx, d, slices.DeleteFunc(w.Spans, func(s Span) bool { return s.From < have && s.To <= have }))
		}
	}
}

// open makes a file of the folder, which is a hole.
func (o *outline) open(ctx context.Context, f *remoteFile) (*download, error) {
	meta, err := o.h.resolve(ctx, o.repo, o.commit, f.Name, f)
	if err != nil {
		return nil, err
	}
	path := o.path(f.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	a, err := openAssembly(path, path+".parts", f.Size)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(path + ".parts") // nobody goes on with it
	return &download{h: o.h, repo: o.repo, commit: o.commit, name: f.Name, listed: f, meta: meta, address: meta.location, arrived: func(int64) {}, outline: true, a: a}, nil
}

// fetch gets spans of a file, as far as they are in it.
func (o *outline) fetch(ctx context.Context, d *download, spans []Span) error {
	var missing []span
	for _, s := range spans {
		missing = add(missing, span{max(s.From, 0), min(s.To, d.meta.size)})
	}
	o.mu.Lock()
	o.left -= total(missing)
	left := o.left
	o.mu.Unlock()
	if left < 0 {
		return fail(ErrAnswer, "more than %d MB of %s would have to be read to look at it", maxOutline>>20, o.repo)
	}
	d.a.only(missing)
	return d.fetchParts(ctx)
}

// only makes an assembly one of some spans: all others count as written.
func (a *assembly) only(spans []span) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.have, a.taken = gaps(spans, span{0, a.size}), nil
}

// noRanges is the error for a server that sends all of a file where a part was asked for.
func (d *download) noRanges(resp *http.Response) error {
	return fail(ErrAnswer, "%s sends all of %s where a part was asked for, so nobody can look at it without downloading it: weir pull does that", resp.Request.URL.Host, d.name)
}
