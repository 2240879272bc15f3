package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"weir/hub"
)

// hubOptions say how the hub is asked. All else is in the environment, in the variables of
// huggingface_hub.
type hubOptions struct {
	revision string
	cache    string // --download-dir
	token    string // --hf-token
	offline  bool   // the cache alone is looked into
}

func (o *hubOptions) bind(f *flagSet) {
	f.StringVar(&o.revision, "revision", "", "`branch`, tag or commit of a model on the hub; the same as MODEL@revision (default: main)")
	o.bindCache(f)
	f.StringVar(&o.token, "hf-token", "", "`token` for the hub; every user of the machine can read it in the list of processes, unlike HF_TOKEN (default: HF_TOKEN, or the token that huggingface_hub keeps)")
}

// bindCache adds the flag of commands that only look into the cache.
func (o *hubOptions) bindCache(f *flagSet) {
	f.StringVar(&o.cache, "download-dir", "", "`folder` of the cache for models of the hub (default: HF_HUB_CACHE, or ~/.cache/huggingface/hub)")
}

// open opens the hub. Nothing is sent.
func (o *hubOptions) open(getenv func(string) string, log *slog.Logger) (*hub.Hub, error) {
	c, err := hub.FromEnvironment(getenv)
	if err != nil {
		return nil, err
	}
	c.Cache = cmp.Or(o.cache, c.Cache)
	if o.token != "" && o.token != "true" { // vLLM's --hf-token without a value means the usual one
		c.Token = o.token
	}
	c.Offline = c.Offline || o.offline
	c.UserAgent, c.Log = "weir/"+version, log
	return hub.New(c)
}

// reference reads the name of a model, with the revision of --revision.
func (o *hubOptions) reference(name string) (hub.Reference, error) {
	ref, err := hub.Parse(name)
	if err != nil {
		return ref, usageError{err}
	}
	if o.revision != "" {
		if ref.Revision != "" && ref.Revision != o.revision {
			return ref, usageError{fmt.Errorf("%s names the revision %s, and --revision another one, %s", name, ref.Revision, o.revision)}
		}
		if ref, err = hub.Parse(hub.Reference{Repo: ref.Repo, Revision: o.revision, Variant: ref.Variant}.String()); err != nil {
			return ref, usageError{fmt.Errorf("--revision: %w", err)}
		}
	}
	return ref, nil
}

// onHub tells whether a name that a user gives for a model means one on the hub: a path that exists
// wins, and what cannot be the name of a repository is a path as well.
func onHub(name string) bool {
	if name == "" {
		return false
	}
	_, err := os.Lstat(name)
	return err != nil && hub.Looks(name)
}

// download gets a model of the hub, or only its tokenizer. An interrupt or SIGTERM ends it, and what
// has come is kept.
func (o *hubOptions) download(name string, opt hub.Options, getenv func(string) string, log *slog.Logger) (m hub.Model, err error) {
	return o.ask(name, getenv, log, func(ctx context.Context, h *hub.Hub, ref hub.Reference) (hub.Model, error) {
		m, err := h.Get(ctx, ref, opt)
		if ctx.Err() != nil {
			err = fmt.Errorf("the download of %s was interrupted; what has come is kept, and the same command goes on with it", ref)
		}
		return m, err
	})
}

// ask opens the hub for a question about a model. An interrupt or SIGTERM ends it.
func (o *hubOptions) ask(name string, getenv func(string) string, log *slog.Logger, question func(context.Context, *hub.Hub, hub.Reference) (hub.Model, error)) (m hub.Model, err error) {
	ref, err := o.reference(name)
	if err != nil {
		return m, err
	}
	h, err := o.open(getenv, log)
	if err != nil {
		return m, err
	}
	defer h.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m, err = question(ctx, h, ref)
	if err != nil && ctx.Err() == nil && !strings.HasPrefix(name, hub.Scheme) && !errors.Is(err, hub.ErrNoSpace) {
		return m, fmt.Errorf("%s is no path on this machine; on the hub: %w", name, err)
	}
	return m, err
}

// locate returns the path of a model that may be on the hub, and downloads what is missing. It also
// replaces a tokenizer that is on the hub by its folder, and sets the model's name.
func (o *modelOptions) locate(path string, env *environment, log *slog.Logger) (string, error) {
	p := newPullProgress(env.errOut, log)
	if onHub(o.tokenizer) {
		from := o.hub
		from.revision = "" // it is the model's
		m, err := from.download(o.tokenizer, hub.Options{Part: hub.Tokenizer, Progress: p.show}, env.getenv, log)
		p.end()
		if err != nil {
			return "", fmt.Errorf("--tokenizer: %w", err)
		}
		o.tokenizer = m.Folder
	}
	if !onHub(path) {
		return path, nil
	}
	m, err := o.hub.download(path, hub.Options{Progress: p.show}, env.getenv, log)
	p.end()
	if err != nil {
		return "", err
	}
	if len(o.names) == 0 {
		o.names = []string{m.Repo}
	}
	log.Info("the model is in the cache of the hub", "model", m.Reference.String(), "commit", m.Commit, "path", m.Path())
	return m.Path(), nil
}
