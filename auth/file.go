package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"weir/internal/plainfile"
)

// fileKey is a key as it is written in the file.
type fileKey struct {
	ID       string     `yaml:"id"`
	Hash     string     `yaml:"hash"`
	User     string     `yaml:"user"`
	Tenant   string     `yaml:"tenant"`
	Username string     `yaml:"username"`
	Projects []string   `yaml:"projects"`
	Models   []string   `yaml:"models"`
	Rights   []string   `yaml:"rights"`
	Expires  string     `yaml:"expires"`
	Limits   fileLimits `yaml:"limits"`
	Weight   *float64   `yaml:"weight"`
	Priority *int       `yaml:"max_priority"`
}

type fileLimits struct {
	Requests    int `yaml:"requests_per_minute"`
	Tokens      int `yaml:"tokens_per_minute"`
	Concurrency int `yaml:"concurrency"`
}

// stamp distinguishes versions of the file without reading them.
type stamp struct {
	at   time.Time
	size int64
}

// Reload reads the file again. If there is any error in it, the keys stay as they are.
func (k *Keyring) Reload() error {
	info, err := os.Stat(k.file)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	src, err := plainfile.Read(k.file)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	k.stamp.Store(&stamp{info.ModTime(), info.Size()})
	entries, err := parse(src)
	if err != nil {
		return fmt.Errorf("auth: %s: %w", k.file, err)
	}
	all := append(slices.Clone(k.fixed), entries...)
	k.all.Store(&all)
	return nil
}

// Watch reloads the file when it has changed, until ctx ends. It looks once per interval, and
// logs each outcome once.
func (k *Keyring) Watch(ctx context.Context, every time.Duration, log *slog.Logger) {
	if k.file == "" {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	gone := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		info, err := os.Stat(k.file)
		if err != nil {
			if !gone {
				log.Error("the credentials file cannot be read; its keys stay valid", "error", err)
			}
			gone = true
			continue
		}
		gone = false
		if *k.stamp.Load() == (stamp{info.ModTime(), info.Size()}) {
			continue
		}
		if err := k.Reload(); err != nil {
			k.stamp.Store(&stamp{info.ModTime(), info.Size()}) // so that the error is logged once
			log.Error("the credentials file is not used; the keys before it stay valid", "error", err)
			continue
		}
		log.Info("the credentials file was read anew", "file", k.file, "keys", len(*k.all.Load()))
	}
}

// parse reads a credentials file.
func parse(src []byte) (out []entry, err error) {
	var file struct {
		Keys []fileKey `yaml:"keys"`
	}
	if err := yaml.UnmarshalWithOptions(src, &file, yaml.Strict()); err != nil {
		return nil, errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	for i := range file.Keys {
		e, err := file.Keys[i].entry()
		if err != nil {
			return nil, fmt.Errorf("key %d (%s): %w", i+1, file.Keys[i].ID, err)
		}
		out = append(out, e)
	}
	return out, nil
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
	e.Identity = Identity{Key: f.ID, User: f.ID, Projects: f.Projects, Models: f.Models, Rights: Read | Write, Limits: Limits{
		RequestsPerMinute: f.Limits.Requests, TokensPerMinute: f.Limits.Tokens, Concurrency: f.Limits.Concurrency, Weight: 1, MaxPriority: f.Priority,
	}}
	id := &e.Identity
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
	if f.Weight != nil {
		id.Limits.Weight = *f.Weight
	}
	if l := id.Limits; l.RequestsPerMinute < 0 || l.TokensPerMinute < 0 || l.Concurrency < 0 || !(l.Weight > 0) {
		return e, errors.New("a limit is negative, or weight is not above 0")
	}
	return e, nil
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
		default:
			return 0, fmt.Errorf("right %q is not read, write or admin", r)
		}
	}
	return rights, nil
}
