//go:build cuda && linux && amd64

package cuda

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gorgonia.org/cu"

	"weir/device/cuda/kernels"
	"weir/internal/cudrv"
)

// library holds the modules that were loaded, and their kernels.
type library struct {
	modules []cu.Module
	kernels map[string]*kernel
}

// smallShared is the dynamic shared memory that a launch has without asking.
const smallShared = 48 << 10

// load compiles the PTX of one flavour, or takes it from the cache, and finds
// its kernels. Functions are looked up here, because a graph can only be captured with
// code that is loaded.
func (l *library) load(cfg *Config, f kernels.Flavour, info Info) error {
	ptx := kernels.PTX(f)
	began := time.Now()
	code, cached, err := machineCode(cfg, ptx, info)
	if err != nil {
		return err
	}
	m, err := cu.LoadData(string(code))
	if err != nil && cached {
		// It was made by another driver, or is damaged: compile it again.
		_ = os.Remove(cachePath(cfg, ptx, info))
		if code, _, err = machineCode(cfg, ptx, info); err != nil {
			return err
		}
		m, err = cu.LoadData(string(code))
	}
	if err != nil {
		return deviceError("load kernels", err)
	}
	l.modules = append(l.modules, m)
	for i := range kernels.Entries {
		e := &kernels.Entries[i]
		if e.Flavour != f {
			continue
		}
		k := &kernel{entry: e}
		if k.fn, err = m.Function(e.Name); err != nil {
			return deviceError("find kernel "+e.Name, err)
		}
		if e.Shared > smallShared {
			if err := cudrv.AllowShared(k.fn, e.Shared); err != nil {
				return deviceError(fmt.Sprintf("allow %s %d bytes of shared memory", e.Name, e.Shared), err)
			}
		}
		l.kernels[e.Name] = k
	}
	cfg.note("kernels loaded", "ptx", len(ptx), "code", len(code), "cached", cached, "ms", time.Since(began).Milliseconds())
	return nil
}

func (l *library) close() error {
	var err error
	for _, m := range l.modules {
		err = errors.Join(err, cudrv.Wrap(m.Unload()))
	}
	*l = library{}
	return err
}

func (c *Config) note(message string, args ...any) {
	if c.Note != nil {
		c.Note(message, args...)
	}
}

// cachePath names machine code by all that it depends on.
func cachePath(cfg *Config, ptx []byte, info Info) string {
	return filepath.Join(cfg.CacheDir, fmt.Sprintf("%x-sm%d%d-%d", sha256.Sum256(ptx), info.Major, info.Minor, cu.Version()))
}

// machineCode is what the driver's compiler makes of ptx, or made before.
func machineCode(cfg *Config, ptx []byte, info Info) (code []byte, cached bool, err error) {
	if cfg.CacheDir != "" {
		if code, err := os.ReadFile(cachePath(cfg, ptx, info)); err == nil && len(code) > 0 {
			return code, true, nil
		}
	}
	made, err := compile(ptx)
	if err != nil {
		return nil, false, err
	}
	if cfg.CacheDir != "" {
		if err := keep(cachePath(cfg, ptx, info), []byte(made)); err != nil {
			cfg.note("the kernels' machine code is not kept", "error", err) // so they are compiled at every start
		}
	}
	return []byte(made), false, nil
}

func compile(ptx []byte) (string, error) {
	complaints := &cu.JITErrorLogBuffer{Buffer: make([]byte, 16<<10)}
	link, err := cu.NewLink(complaints)
	if err != nil {
		return "", deviceError("start the driver's compiler", err)
	}
	defer link.Destroy()
	if err = link.AddData(cu.JITInputPTX, string(ptx), "kernels"); err == nil {
		var code string
		if code, err = link.Complete(); err == nil {
			return code, nil
		}
	}
	err = deviceError("compile kernels", err)
	text, _, _ := bytes.Cut(complaints.Buffer, []byte{0})
	if log := strings.TrimSpace(string(text)); log != "" {
		err = fmt.Errorf("%w: %s", err, log)
	}
	return "", err
}

// keep writes a file so that it exists completely or not at all.
func keep(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
