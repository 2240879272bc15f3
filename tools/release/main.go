// Command release builds the files of a release: for every platform an archive with the
// binary, its licences, manual page and completion scripts, and a software bill of materials
// in CycloneDX; and the SHA-256 sums of them all.
//
//	go run ./tools/release -version v1.2.3 -out build/release
//
// Equal sources, version and Go toolchain give byte-equal files on every machine: binaries
// are built without paths, build IDs and stamps of the working tree, and every time in an
// archive is that of the commit, or SOURCE_DATE_EPOCH.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platforms are those that binaries are released for.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal("release: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	r := &release{ctx: ctx}
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	fs.StringVar(&r.version, "version", "", "version of the release, as weir version prints it")
	fs.StringVar(&r.out, "out", "build/release", "folder for the files; it is emptied first")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if r.version == "" || strings.ContainsAny(r.version, " /\\") || fs.NArg() > 0 {
		return fmt.Errorf("usage: release -version VERSION [-out FOLDER]; the version is %q", r.version)
	}
	var err error
	if r.date, err = r.sourceDate(); err != nil {
		return err
	}
	return r.make()
}

// release is what is being built.
type release struct {
	ctx     context.Context
	version string
	out     string
	date    time.Time
	work    string // temporary folder
}

// sourceDate is the time that all files of the release have.
func (r *release) sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := r.command("git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("the time of the commit: %w", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of the release: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func (r *release) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

func (r *release) make() (err error) {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "weir-release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	common, err := r.documents()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if err := r.makePlatform(p, common); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return r.writeSums()
}

// documents returns the files that every archive has. The manual page and the completion
// scripts come from a weir for this machine.
func (r *release) documents() ([]file, error) {
	weir, err := r.build(platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	var files []file
	for _, name := range []string{"LICENSE", "README.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, data: text})
	}
	for name, args := range map[string][]string{
		"man/weir.1":            {"man"},
		"completions/weir.bash": {"completion", "bash"},
		"completions/_weir":     {"completion", "zsh"},
		"completions/weir.fish": {"completion", "fish"},
	} {
		text, err := r.command(weir, args...).Output()
		if err != nil {
			return nil, fmt.Errorf("weir %s: %w", strings.Join(args, " "), err)
		}
		files = append(files, file{name: name, data: text})
	}
	return files, nil
}

// build builds the binary for a platform and returns its path.
func (r *release) build(p platform) (string, error) {
	path := filepath.Join(r.work, p.String(), "weir")
	cmd := r.command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+r.version, "-o", path, "./cmd/weir")
	// The level of the architecture is set, because the environment may have another.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=")
	return path, cmd.Run()
}

// makePlatform writes the archive and the bill of materials for a platform.
func (r *release) makePlatform(p platform, common []file) error {
	log.Printf("building %s %s", r.version, p)
	path, err := r.build(p)
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	modules, err := modulesOf(path)
	if err != nil {
		return err
	}
	licenses, err := r.licenses(modules)
	if err != nil {
		return err
	}
	name := "weir_" + r.version + "_" + p.String()
	files := append(slices.Clone(common), file{name: "weir", data: binary, executable: true}, file{name: "THIRD_PARTY_LICENSES", data: licenses})
	archive, err := tarball(name, files, r.date)
	if err != nil {
		return err
	}
	sbom, err := billOfMaterials(r.version, p, binary, modules, r.date)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(r.out, name+".tar.gz"), archive, 0o644),
		os.WriteFile(filepath.Join(r.out, name+".cdx.json"), sbom, 0o644))
}

// writeSums writes the sums of all files, in the format of sha256sum.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.out) // sorted by name
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
