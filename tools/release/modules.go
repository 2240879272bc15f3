package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// modules are what a binary is built from, according to the binary itself.
type modules struct {
	goVersion string // without "go"
	deps      []*debug.Module
}

func modulesOf(binary string) (*modules, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	m := &modules{goVersion: strings.TrimPrefix(info.GoVersion, "go")}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		m.deps = append(m.deps, d)
	}
	return m, nil
}

// licenseName matches files with the conditions under which a module may be distributed.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|authors)([._-].*)?$`)

// licenses returns the licences and notices of all modules, as their conditions ask for
// where a binary is distributed, and that of the Go standard library.
func (r *release) licenses(m *modules) ([]byte, error) {
	out, err := r.command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("weir is distributed under the terms in LICENSE. It contains code of the projects below.\n")
	if err := appendLicenses(&b, "Go standard library "+m.goVersion, strings.TrimSpace(string(out))); err != nil {
		return nil, err
	}
	for _, d := range m.deps {
		out, err := r.command("go", "list", "-m", "-f", "{{.Dir}}", d.Path+"@"+d.Version).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Path, err)
		}
		if err := appendLicenses(&b, d.Path+" "+d.Version, strings.TrimSpace(string(out))); err != nil {
			return nil, err
		}
	}
	if out, err = r.command("go", "list", "-m", "-f", "{{.Dir}}").Output(); err != nil {
		return nil, fmt.Errorf("this module: %w", err)
	}
	for _, v := range vendored {
		if err := appendLicenses(&b, v.title, filepath.Join(strings.TrimSpace(string(out)), v.dir)); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// vendored are projects whose files are in this repository and in the binary.
var vendored = []struct{ title, dir string }{
	{"uPlot 1.6.32 (https://github.com/leeoniya/uPlot)", "bench/uplot"},
}

// appendLicenses appends the licence files in the folder of a module. A module without one
// is an error: its code could not be distributed.
func appendLicenses(b *bytes.Buffer, title, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return e.IsDir() || !licenseName.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go"
	})
	if len(entries) == 0 {
		return fmt.Errorf("%s has no licence in %s", title, dir)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		line := strings.Repeat("=", 80)
		fmt.Fprintf(b, "\n%s\n%s: %s\n%s\n\n%s\n", line, title, e.Name(), line, bytes.TrimSpace(text))
	}
	return nil
}
