package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"weir/hub"
	"weir/weights"
	"weir/weights/gguf"
)

// inspectNamed inspects a model that may be one of the hub. One that is in the cache is looked at
// there, and the hub is asked nothing; of another one the headers are read into a folder that is
// gone afterwards.
func (o *inspectOptions) inspectNamed(name string, env *environment) (x *inspection, err error) {
	log, err := newLog(env.errOut, "warn")
	if err != nil {
		return nil, err
	}
	g := &glance{env: env, log: log}
	defer func() { err = errors.Join(err, g.remove()) }()
	if onHub(o.model.tokenizer) {
		own := o.model.hub
		own.revision = "" // it is the model's
		m, err := g.find(o.model.tokenizer, &own, hub.Tokenizer)
		if err != nil {
			return nil, fmt.Errorf("--tokenizer: %w", err)
		}
		o.model.tokenizer = m.Folder
	}
	path := name
	if onHub(name) {
		m, err := g.find(name, &o.model.hub, hub.Whole)
		if err != nil {
			return nil, err
		}
		path = m.Path()
	}
	if x, err = o.inspect(path); err != nil {
		return nil, g.named(err)
	}
	g.rename(x)
	return x, nil
}

// A glance is a look at models of the hub.
type glance struct {
	env     *environment
	log     *slog.Logger
	folders []string // of models that are not in the cache
	names   []string // folders and what they are called, in turn
	notes   []string
}

// find finds a model in the cache, or makes a folder with its headers.
func (g *glance) find(name string, options *hubOptions, part hub.Part) (hub.Model, error) {
	cached := *options
	cached.offline = true
	m, err := cached.download(name, hub.Options{Part: part}, g.env.getenv, g.log)
	if !errors.Is(err, hub.ErrOffline) {
		return m, err
	}
	dir, failed := os.MkdirTemp("", "weir-inspect-")
	if failed != nil {
		return m, failed
	}
	g.folders = append(g.folders, dir)
	m, asked := options.ask(name, g.env.getenv, g.log, func(ctx context.Context, h *hub.Hub, ref hub.Reference) (hub.Model, error) {
		g.names = append(g.names, dir, ref.Repo)
		m, err := h.Outline(ctx, ref, part, dir, wanted)
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		return m, err
	})
	switch {
	case errors.Is(asked, hub.ErrOffline):
		return m, err // which says what the cache lacks
	case errors.Is(asked, syscall.ENOSPC), errors.Is(asked, syscall.EDQUOT):
		return m, fmt.Errorf("the disk of %s is full, into which the headers of %s are read: make room, or set TMPDIR to a folder on another disk", os.TempDir(), name)
	case asked != nil:
		return m, g.named(asked)
	}
	g.notes = append(g.notes, fmt.Sprintf("%s is not on this machine: headers were read from the hub, of its commit %s", m.Repo, m.Commit))
	return m, nil
}

// remove removes the folders.
func (g *glance) remove() (err error) {
	for _, dir := range g.folders {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// rename puts the names of models into an inspection, in the place of folders that nobody knows.
func (g *glance) rename(x *inspection) {
	r := strings.NewReplacer(g.names...)
	x.Model = r.Replace(x.Model)
	for _, list := range [][]string{x.Notes, x.Unsupported} {
		for i := range list {
			list[i] = r.Replace(list[i])
		}
	}
	x.Notes = append(x.Notes, g.notes...)
}

// named is rename for an error.
func (g *glance) named(err error) error {
	if text := strings.NewReplacer(g.names...).Replace(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// wanted says what a look at a model reads of a file with weights: the header, and the numbers
// without which the model cannot be opened. A header that is damaged is described by who opens it.
func wanted(_ string, begin []byte) (w hub.Wanted) {
	places := weights.Places
	if gguf.Magic(begin) {
		places = gguf.Places
	}
	list, header, _ := places(begin)
	w.Begin = header
	for _, p := range list {
		if decides(p) {
			w.Spans = append(w.Spans, hub.Span{From: p.From, To: p.To})
		}
	}
	if len(w.Spans) > tooManySpans {
		w.Spans = nil
	}
	return w
}

// tooManySpans is more than a file of any network has that weir knows: one with a scale for each of
// thousands of experts is not opened anyway, and a hub should not be asked thousands of times.
const tooManySpans = 4000

// decides tells whether the numbers of a tensor decide whether a model can be opened: the groups of
// columns of GPTQ, the factors of Llama's and Phi's positions, and scales that are one number, except those of
// activations, which are not used.
func decides(p weights.Place) bool {
	const number = 8 // bytes at most
	return p.To-p.From <= number && !strings.Contains(p.Name, ".input_") || strings.HasSuffix(p.Name, "g_idx") || p.Name == "rope_freqs.weight" || strings.HasPrefix(p.Name, "rope_factors_")
}
