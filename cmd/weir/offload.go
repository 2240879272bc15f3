package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"weir/kvstore"
	"weir/metrics"
	"weir/server"
)

// offloadOptions say where copies of the prefix cache are kept.
type offloadOptions struct {
	dir    string // "": not on a disk
	limit  size
	memory size
	log    *slog.Logger // nil: nothing is logged
}

func (o *offloadOptions) bind(f *flagSet) {
	o.limit = 64 << 30
	f.StringVar(&o.dir, "kv-offload-dir", "", "`folder` for copies of the prefix cache, which are read back after their eviction, and after a restart or a crash, where that is quicker than to compute them; one server at a time uses it (default: there are none)")
	f.Var(&o.limit, "kv-offload-size", "most bytes of all files in --kv-offload-dir; those that were used longest ago are removed")
	f.Var(&o.memory, "kv-offload-memory", "memory of the machine for copies of the prefix cache of a GPU, such as 16GiB (default: none)")
}

const (
	// offloadQueue is the memory of the copies that wait to be written, and as much again is for those that are being read.
	offloadQueue = 64 << 20
	// offloadClose is how long the end of the server waits for copies to be written.
	offloadClose = 10 * time.Second
)

// held is how much memory of the machine copies take.
func (o *offloadOptions) held() int64 {
	if o.dir == "" && o.memory == 0 {
		return 0
	}
	return 2*offloadQueue + int64(o.memory)
}

// check refuses copies that would be of no use.
func (o *offloadOptions) check(e *engineOptions, onGPU bool) error {
	switch {
	case o.held() == 0:
		return nil
	case !e.caching:
		return errors.New("--kv-offload-dir and --kv-offload-memory keep the prefix cache, which --no-enable-prefix-caching turns off")
	case e.device == "sim":
		return errors.New("--kv-offload-dir and --kv-offload-memory: the simulated device has no keys and values to keep")
	case o.memory > 0 && !onGPU:
		return errors.New("--kv-offload-memory: without a GPU the KV cache is in the memory of the machine already; raise --kv-cache-memory")
	case o.dir != "" && o.limit <= 0:
		return fmt.Errorf("--kv-offload-size %d: it takes more than 0", o.limit)
	}
	return nil
}

// open opens what keeps copies for a device whose blocks hold what identity says; nil: there is nothing of the kind.
func (o *offloadOptions) open(identity string) (*kvstore.Store, error) {
	if o.held() == 0 {
		return nil, nil
	}
	log := o.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s, err := kvstore.Open(kvstore.Config{Identity: identity, Dir: o.dir, Size: int64(o.limit), MinFree: leastFree, Memory: int64(o.memory), Queue: offloadQueue, Log: log})
	if err != nil {
		return nil, fmt.Errorf("--kv-offload-dir: %w", err)
	}
	return s, nil
}

// identity is everything but salt and tokens that decides the bits of a block of KV cache.
func (e *preparedEngine) identity(blockTokens int) string {
	return fmt.Sprintf("%s %s, blocks of %d, groups %v", e.fingerprint, programFile(), blockTokens, e.spec.Groups)
}

// programFile tells programs apart that were built of changed files, so that all they know of themselves is equal.
func programFile() string {
	info, ok := debug.ReadBuildInfo()
	known := false
	if ok {
		for _, s := range info.Settings {
			known = known || s.Key == "vcs.modified" && s.Value == "false"
		}
	}
	if known {
		return ""
	}
	path, err := os.Executable()
	if err != nil {
		return strconv.FormatInt(time.Now().UnixNano(), 10) // equal to none
	}
	file, err := os.Stat(path)
	if err != nil {
		return strconv.FormatInt(time.Now().UnixNano(), 10)
	}
	return fmt.Sprint(file.Size(), " ", file.ModTime().UnixNano())
}

// prefixes are what the HTTP server has to know of copies and events.
func (e *preparedEngine) prefixes(o *offloadOptions, to *eventOptions) (p server.Prefixes, err error) {
	if e.events != nil || e.copies != nil && o.dir != "" {
		p.SaltKey = new([32]byte)
		_, _ = rand.Read(p.SaltKey[:]) // never fails (crypto/rand)
	}
	if s := e.copies; s != nil {
		p.Erase = s.Erase
		p.Stats = func() metrics.Copies {
			st := s.Stats()
			return metrics.Copies{FileBytes: st.FileBytes, MemoryBytes: st.MemoryBytes, Files: st.Files, Dropped: st.Dropped, WriteErrors: st.WriteErrors,
				Damaged: st.Damaged, Evicted: st.Evicted, FromMemory: st.FromMemory, Reading: st.ReadSeconds, Writing: st.WriteSeconds}
		}
	}
	if e.transfers.node != nil {
		p.SaltKey, p.Transfers = e.transfers.salt, e.transferred
	} else if e.copies != nil && o.dir != "" {
		if *p.SaltKey, err = kvstore.Secret(o.dir); err != nil {
			return p, fmt.Errorf("--kv-offload-dir: %w", err)
		}
	}
	e.tellEvents(&p, to)
	return p, nil
}

// closeCopies writes what waits to be written.
func (e *preparedEngine) closeCopies() error {
	if e.copies == nil {
		return nil
	}
	return e.copies.Close(offloadClose)
}
