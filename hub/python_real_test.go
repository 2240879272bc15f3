package hub

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/hub/hubtest"
	"weir/internal/jsontext"
	"weir/internal/testkit"
)

// pythonVar names a Python that has huggingface_hub. make clients-hub sets it.
const pythonVar = "WEIR_HUB_PYTHON"

// python is huggingface_hub on a cache.
type python struct {
	t       *testing.T
	program string
	env     []string
}

// withPython starts a hub and opens a cache for both sides.
func withPython(t *testing.T) (*hubtest.Server, *python, func(change ...func(*Config)) *Hub) {
	t.Helper()
	program := os.Getenv(pythonVar)
	if program == "" {
		t.Skip(pythonVar + " is not set: make clients-hub")
	}
	s := hubtest.Start()
	t.Cleanup(s.Close)
	cache := filepath.Join(t.TempDir(), "hub")
	p := &python{t, program, append(os.Environ(), "HF_ENDPOINT="+s.HubURL, "HF_HUB_CACHE="+cache, "HF_HOME="+t.TempDir(), "HF_TOKEN=")}
	return s, p, func(change ...func(*Config)) *Hub {
		t.Helper()
		c := Config{Endpoint: s.HubURL, Cache: cache, Connections: 2}
		for _, f := range change {
			f(&c)
		}
		h, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		return h
	}
}

// command is a call of tools/hubclients/client.py.
func (p *python) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.program, append([]string{"../tools/hubclients/client.py"}, args...)...)
	cmd.Env, cmd.Stderr = p.env, os.Stderr
	return cmd
}

// do runs an action and decodes what it prints.
func (p *python) do(into any, args ...string) {
	p.t.Helper()
	out, err := p.command(args...).Output()
	if err == nil && into != nil {
		err = jsontext.Decode(bytes.TrimSpace(out), into)
	}
	if err != nil {
		p.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

type scanned struct {
	Warnings   []string
	Incomplete []string
	Repos      map[string]map[string]struct {
		Refs, Files []string
		Size        int64
	}
}

func mustGet(t *testing.T, h *Hub, name string, o Options) Model {
	t.Helper()
	ref, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := h.Get(context.Background(), ref, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// TestPythonReads: huggingface_hub finds in its cache what weir has downloaded, deletes it, and has
// nothing to complain about.
func TestPythonReads(t *testing.T) {
	s, p, open := withPython(t)
	repo := folderRepo()
	s.Add("org/name", repo)
	h := open()
	m := mustGet(t, h, "org/name@refs/pr/1", Options{})
	mustGet(t, h, "org/name", Options{})
	s.Calls()
	var read struct {
		Folder string
		Files  map[string]string
	}
	names := append([]string{"special_tokens_map.json", "model.safetensors", "pytorch_model.bin"}, neededFiles...)
	for _, revision := range []string{"main", "refs/pr/1", commitA} {
		p.do(&read, append([]string{"read", "org/name", revision}, names...)...)
		if read.Folder != m.Folder {
			t.Errorf("%s: the folder is %s, want %s", revision, read.Folder, m.Folder)
		}
		want := map[string]string{"special_tokens_map.json": "no_exist", "model.safetensors": "no_exist", "pytorch_model.bin": ""}
		for _, name := range neededFiles {
			want[name] = filepath.Join(m.Folder, name)
		}
		if !maps.Equal(read.Files, want) {
			t.Errorf("%s: %q\nwant %q", revision, read.Files, want)
		}
	}
	var got scanned
	p.do(&got, "scan")
	r := got.Repos["org/name"][commitA]
	list, err := h.List()
	if err != nil || len(list) != 1 || len(got.Warnings) != 0 || len(got.Repos) != 1 || len(got.Incomplete) != 0 {
		t.Fatalf("%+v, %+v, %v", got, list, err)
	}
	if !slices.Equal(r.Refs, []string{"main", "refs/pr/1"}) || !slices.Equal(sorted(r.Files), neededFiles) || r.Size != list[0].Size || !slices.Equal(sorted(list[0].Refs), r.Refs) {
		t.Errorf("%+v, %+v", r, list[0])
	}
	var path string
	p.do(&path, append([]string{"download", "org/name"}, neededFiles...)...)
	if path != m.Folder || count(s.Calls(), "GET", hubtest.Store) != 0 {
		t.Errorf("it has downloaded our files to %s", path)
	}
	p.do(nil, "delete", commitA)
	if list, err := h.List(); err != nil || len(list) != 0 {
		t.Errorf("after its deletion: %+v, %v", list, err)
	}
}

// TestPythonWrites: weir finds in the cache what huggingface_hub has downloaded, down to the last
// entry the same that it would have written, and deletes it.
func TestPythonWrites(t *testing.T) {
	s, p, open := withPython(t)
	repo := folderRepo()
	repo.Xet = false
	s.Add("org/name", repo)
	var path string
	p.do(&path, append([]string{"download", "org/name"}, neededFiles...)...)
	s.Calls()
	h := open(offline)
	if m := mustGet(t, h, "org/name", Options{Verify: true}); m.Folder != path {
		t.Errorf("%s, want %s", m.Folder, path)
	}
	if m := mustGet(t, open(), "org/name", Options{Fresh: true}); m.Folder != path {
		t.Errorf("%s, want %s", m.Folder, path)
	}
	if calls := s.Calls(); len(calls) != 1 {
		t.Errorf("%+v: its list of files should do", calls)
	}
	theirs := layout(t, h.config.Cache)
	testkit.Golden(t, "testdata/huggingface_hub.txt", []byte(theirs))
	x, err := h.PlanRemoval(Reference{Repo: "org/name"})
	if err == nil {
		err = h.Remove(x)
	}
	var got scanned
	p.do(&got, "scan")
	if err != nil || len(got.Repos) != 0 || len(got.Warnings) != 0 {
		t.Errorf("%v, %+v", err, got)
	}
}

// layout writes down what a cache has, without what only one of the two sides writes: lists of
// files and notes of missing files.
func layout(t *testing.T, cache string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(cache, path)
		if d.IsDir() && (d.Name() == "trees" || d.Name() == ".no_exist") {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		fmt.Fprintf(&b, "%s %s", info.Mode().Type()|info.Mode().Perm()&0o700, filepath.ToSlash(name))
		if to, err := os.Readlink(path); err == nil {
			fmt.Fprintf(&b, " -> %s", to)
		} else if text, err := os.ReadFile(path); err == nil && len(text) < 1000 && strings.Contains(name, "refs/") {
			fmt.Fprintf(&b, " %q", text)
		} else {
			fmt.Fprintf(&b, " %d", len(text))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPythonLocks: each side waits for the other's lock, and a file that both want comes once.
func TestPythonLocks(t *testing.T) {
	s, p, open := withPython(t)
	repo := ggufRepo()
	const name = "m-Q4_K_M.gguf"
	etag := hubtest.SHA256(repo.Files[name])
	s.Add("org/name", repo)
	h := open()
	path := h.repository("org/name").lock(etag)

	hold := p.command("hold", "org/name", etag)
	in, _ := hold.StdinPipe()
	out, _ := hold.StdoutPipe()
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "locked" {
		t.Fatalf("it says %q", lines.Text())
	}
	if unlock, err := tryLock(path); unlock != nil || err != nil {
		t.Errorf("we have its lock: %v", err)
	}
	fmt.Fprintln(in)
	if !lines.Scan() || lines.Text() != "unlocked" || hold.Wait() != nil {
		t.Fatalf("it says %q", lines.Text())
	}
	unlock, err := tryLock(path)
	if unlock == nil || err != nil {
		t.Fatalf("the lock is free: %v", err)
	}
	var free bool
	if p.do(&free, "try_lock", "org/name", etag); free {
		t.Error("it has our lock")
	}
	unlock()
	if p.do(&free, "try_lock", "org/name", etag); !free {
		t.Error("it cannot have the free lock")
	}

	begun, waiting := make(chan struct{}), make(chan struct{})
	s.SetFault(after(0, storeGET, func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-waiting
		_, _ = w.Write([]byte(repo.Files[name]))
	}))
	other := p.command("download", "org/name", name)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	<-begun
	waited := false
	m := mustGet(t, h, "org/name", Options{Progress: func(p Progress) {
		if p.Waiting && !waited {
			waited = true
			close(waiting)
		}
	}})
	if err := other.Wait(); err != nil || !waited || count(s.Calls(), "GET", hubtest.Store) != 1 {
		t.Errorf("%v, waited %v", err, waited)
	}
	if text, err := os.ReadFile(m.Path()); err != nil || string(text) != repo.Files[name] {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestPythonShares: a blob that huggingface_hub has moved to its shared store is read, and goes with
// its last link.
func TestPythonShares(t *testing.T) {
	s, p, open := withPython(t)
	repo := ggufRepo()
	etag := hubtest.SHA256(repo.Files["m-Q4_K_M.gguf"])
	h := open()
	hash := strings.Repeat("0123456789abcdef", 4)
	for _, name := range []string{"org/a", "org/b"} {
		s.Add(name, repo)
		mustGet(t, h, name, Options{})
		var done bool
		if p.do(&done, "share", name, etag, hash); !done || sharedBlob(h.config.Cache, h.repository(name).blob(etag)) == "" {
			t.Fatalf("%s is not shared", name)
		}
	}
	for i, name := range []string{"org/a", "org/b"} {
		mustGet(t, open(offline), name, Options{Verify: true})
		x, err := h.PlanRemoval(Reference{Repo: name})
		if err == nil {
			err = h.Remove(x)
		}
		if err != nil || (x.Size > 0) != (i == 1) {
			t.Errorf("%+v, %v", x, err)
		}
		var got scanned
		if p.do(&got, "scan"); len(got.Repos) != 1-i || len(got.Warnings) != 0 {
			t.Errorf("%+v", got)
		}
	}
	if _, err := os.Stat(filepath.Join(h.config.Cache, "blobs", hash[:2], hash)); !os.IsNotExist(err) {
		t.Errorf("the shared blob is left: %v", err)
	}
}

// TestPythonSeesUnfinished: what weir has left of a download is known as that, and in nobody's way.
func TestPythonSeesUnfinished(t *testing.T) {
	s, p, open := withPython(t)
	repo := ggufRepo()
	repo.Files["m-Q4_K_M.gguf"] = noise(3<<20, 7)
	s.Add("org/name", repo)
	ctx, cancel := context.WithCancel(context.Background())
	h := open()
	h.leastPart, h.buffer = 64<<10, 16<<10
	ref, _ := Parse("org/name")
	if _, err := h.Get(ctx, ref, Options{Progress: func(p Progress) {
		if p.Done > 1<<20 {
			cancel()
		}
	}}); err == nil {
		t.Fatal("the download has ended")
	}
	var got scanned
	if p.do(&got, "scan"); len(got.Incomplete) != 2 {
		t.Errorf("%+v", got)
	}
	var path string
	p.do(&path, "download", "org/name", "m-Q4_K_M.gguf")
	if text, err := os.ReadFile(filepath.Join(path, "m-Q4_K_M.gguf")); err != nil || string(text) != repo.Files["m-Q4_K_M.gguf"] {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	mustGet(t, h, "org/name", Options{Fresh: true})
}
