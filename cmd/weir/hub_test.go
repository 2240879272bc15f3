package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/hub"
	"weir/hub/hubtest"
	"weir/internal/jsontext"
	"weir/models"
)

const hubCommit = "0123456789abcdef0123456789abcdef01234567"

// tinyOnHub is a hub that has the bundled model, as org/tiny, and a repository in GGUF, org/small.
func tinyOnHub(t *testing.T) (s *hubtest.Server, getenv func(string) string) {
	t.Helper()
	s = hubtest.Start()
	t.Cleanup(s.Close)
	repo := &hubtest.Repo{Commit: hubCommit, Refs: []string{"main", "v1"}, Files: map[string]string{"README.md": "tiny"}, Large: []string{"model.safetensors"}}
	err := fs.WalkDir(models.Bundled(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(models.Bundled(), path)
		repo.Files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Add("org/tiny", repo)
	s.Add("org/small", &hubtest.Repo{Commit: hubCommit, Refs: []string{"main"}, Large: []string{"s-Q4_K_M.gguf", "s-Q8_0.gguf"},
		Files: map[string]string{"s-Q4_K_M.gguf": "GGUF 4", "s-Q8_0.gguf": "GGUF 8"}})
	env := map[string]string{"HF_ENDPOINT": s.HubURL, "HF_HUB_CACHE": filepath.Join(t.TempDir(), "hub"), "HOME": t.TempDir()}
	return s, func(name string) string { return env[name] }
}

// runWith runs a command with an environment and a text to read.
func runWith(getenv func(string) string, in string, args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = run(args, getenv, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// TestPullListRemove: the commands of the cache, from the first download to the last deletion.
func TestPullListRemove(t *testing.T) {
	_, getenv := tinyOnHub(t)
	cache := getenv("HF_HUB_CACHE")
	folder := filepath.Join(cache, "models--org--tiny", "snapshots", hubCommit)
	gguf := filepath.Join(cache, "models--org--small", "snapshots", hubCommit, "s-Q4_K_M.gguf")
	want := func(code int, out, errOut string, args ...string) {
		t.Helper()
		c, o, e := runWith(getenv, "n\n", args...)
		if c != code || o != out || !strings.Contains(e, errOut) || errOut == "" && e != "" {
			t.Errorf("weir %q: exit %d, %q, %q; want %d, %q, %q", args, c, o, e, code, out, errOut)
		}
	}
	want(0, "MODEL  REVISION  SIZE  FILES  LAST USED\n", "", "list")
	want(0, "[]\n", "", "list", "--json")
	want(0, folder+"\n", "downloading model.safetensors (6 of 6)", "pull", "org/tiny")
	want(0, folder+"\n", "", "pull", "hf://org/tiny@v1")
	want(0, folder+"\n", "checking model.safetensors", "pull", "org/tiny", "--revision", hubCommit, "--verify")
	if _, _, errOut := runWith(getenv, "", "pull", "org/tiny", "--verify"); strings.Contains(errOut, "downloading") {
		t.Errorf("nothing is downloaded:\n%s", errOut)
	}
	want(0, gguf+"\n", "s-Q4_K_M.gguf (1 of 1), 0 B of 6 B", "pull", "org/small")
	want(0, filepath.Join(filepath.Dir(gguf), "s-Q8_0.gguf")+"\n", "downloading", "pull", "org/small:Q8_0")
	want(1, "", "weir: org/small has no Q6_K: choose one of its GGUF files, as in org/small:Q4_K_M; there are Q4_K_M, Q8_0\n", "pull", "org/small:Q6_K")
	want(1, "", "weir: org/none does not exist on http", "pull", "org/none")
	want(2, "", "is not the name of a model on the hub", "pull", "../x")
	want(2, "", "pull takes one model", "pull")
	want(2, "", "--revision another one", "pull", "org/tiny@v1", "--revision", "main")

	code, out, _ := runWith(getenv, "", "list", "--json")
	var rows []listedRevision
	if err := jsontext.Decode([]byte(out), &rows); err != nil || code != 0 || len(rows) != 2 {
		t.Fatalf("list --json: %d, %s, %v", code, out, err)
	}
	if r := rows[1]; r.Repo != "org/tiny" || r.Commit != hubCommit || len(r.Refs) != 2 || r.Folder != folder || r.Missing != 0 || r.Files < 4 || r.Size < 1<<20 || time.Since(r.LastUsed) > time.Hour {
		t.Errorf("%+v", r)
	}
	if r := rows[0]; r.Repo != "org/small" || r.Size != 12 || r.Files != 2 {
		t.Errorf("%+v", r)
	}
	if _, out, _ := runWith(getenv, "", "list"); !strings.Contains(out, "org/small  main (0123456789ab)      12 B     2 ") {
		t.Errorf("list:\n%s", out)
	}

	want(0, "org/small\norg/tiny\n", "", completeCommand, "rm", "org/")
	want(0, ":file\norg/tiny\n", "", completeCommand, "serve", "--device", "cpu", "org/t")
	want(1, "", "Delete org/small: s-Q8_0.gguf, and free 6 B? [y/N] weir: org/small:Q8_0: nothing was deleted", "rm", "org/small:Q8_0")
	want(0, "deleted org/small: s-Q8_0.gguf, 6 B freed\n", "", "rm", "--yes", "org/small:Q8_0")
	want(1, "", "org/small has no Q8_0 in the cache", "rm", "--yes", "org/small:Q8_0")
	want(0, "deleted org/small: 1 revisions, 6 B freed\n", "", "rm", "--yes", "org/small")
	want(1, "", "org/small is not in the cache", "rm", "--yes", "org/small")
	if c, o, _ := runWith(getenv, "y\n", "rm", "org/tiny@v1"); c != 0 || !strings.HasPrefix(o, "deleted org/tiny: revision "+hubCommit) {
		t.Errorf("rm: %d, %s", c, o)
	}
	want(0, "[]\n", "", "list", "--json")
}

// TestChatWithHub: a model of the hub is downloaded and used; the second time the hub is not needed; a
// path that exists wins.
func TestChatWithHub(t *testing.T) {
	s, getenv := tinyOnHub(t)
	code, out, errOut := runWith(getenv, "Hello\n", "chat", "org/tiny", "--max-tokens", "3", "--temperature", "0", "--log-level", "info")
	if code != 0 || out == "" || !strings.Contains(errOut, "msg=downloading file=model.safetensors") || !strings.Contains(errOut, "model=org/tiny commit="+hubCommit) {
		t.Errorf("exit %d, %q, %s", code, out, errOut)
	}
	s.Calls()
	offline := func(name string) string {
		if name == "HF_HUB_OFFLINE" {
			return "1"
		}
		return getenv(name)
	}
	if c, o, e := runWith(offline, "Hello\n", "chat", "org/tiny", "--max-tokens", "3", "--temperature", "0"); c != 0 || o != out || len(s.Calls()) != 0 {
		t.Errorf("offline: exit %d, %q, %s", c, o, e)
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("org/tiny", 0o700); err != nil {
		t.Fatal(err)
	}
	if c, _, e := runWith(getenv, "", "chat", "org/tiny"); c != 1 || !strings.Contains(e, "config.json") || len(s.Calls()) != 0 {
		t.Errorf("a folder of this name: exit %d, %s", c, e)
	}
	if c, _, e := runWith(getenv, "", "chat", "org/nothing"); c != 1 || !strings.Contains(e, "weir: org/nothing is no path on this machine; on the hub: org/nothing does not exist on ") {
		t.Errorf("no such model: exit %d, %s", c, e)
	}
}

// TestChatWithGGUFOfHub: a GGUF file of the hub is found by its type, downloaded and used.
func TestChatWithGGUFOfHub(t *testing.T) {
	s, getenv := tinyOnHub(t)
	file := writeGGUF(t, "m.gguf", tinyGGUF(t))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.Add("org/gguf", &hubtest.Repo{Commit: hubCommit, Refs: []string{"main"}, Large: []string{"m-bf16.gguf"}, Files: map[string]string{"m-bf16.gguf": string(text), "m-q4_0.gguf": "x"}})
	args := []string{"--max-tokens", "3", "--temperature", "0"}
	_, want, _ := runWith(getenv, "Hello\n", append([]string{"chat", file}, args...)...)
	if code, out, errOut := runWith(getenv, "Hello\n", append([]string{"chat", "org/gguf:BF16"}, args...)...); code != 0 || out != want || want == "" {
		t.Errorf("exit %d, %q, want %q, %s", code, out, want, errOut)
	}
	s.Calls()
	if code, out, errOut := runWith(getenv, "", "inspect", "org/gguf:BF16"); code != 0 || !strings.Contains(out, "Qwen3ForCausalLM") || len(s.Calls()) != 0 {
		t.Errorf("inspect: exit %d, %q, %s", code, out, errOut)
	}
}

// TestServedName: a model of the hub has its name there, also with a tokenizer of the hub.
func TestServedName(t *testing.T) {
	_, getenv := tinyOnHub(t)
	env := &environment{getenv: getenv, errOut: &bytes.Buffer{}}
	log, err := newLog(env.errOut, "error")
	if err != nil {
		t.Fatal(err)
	}
	o := modelOptions{tokenizer: "org/tiny@v1", hub: hubOptions{revision: hubCommit}}
	path, err := o.locate("org/tiny", env, log)
	if err != nil || len(o.names) != 1 || o.names[0] != "org/tiny" || filepath.Base(path) != hubCommit || o.tokenizer != path {
		t.Errorf("%s, %v, %v, %s", path, o.names, err, o.tokenizer)
	}
	o = modelOptions{names: []string{"mine"}}
	if path, err := o.locate("org/small:Q8_0", env, log); err != nil || filepath.Base(path) != "s-Q8_0.gguf" || o.names[0] != "mine" {
		t.Errorf("%s, %v, %v", path, o.names, err)
	}
	for _, name := range []string{"", ".", "/x/y", "./x/y", "x", "x/y.gguf", "x/y/z"} {
		if onHub(name) {
			t.Errorf("%q is a path", name)
		}
	}
}

// TestProgressLines: what a terminal shows, what a file gets, and the rate.
func TestProgressLines(t *testing.T) {
	at := time.Unix(0, 0)
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, "downloading a (1 of 2), 0 B of 4.0 GB\ndownloading a (1 of 2), 1.0 GB of 4.0 GB, 100 MB/s, 30s left\ndownloading b (2 of 2), 2.0 GB of 4.0 GB, 100 MB/s, 20s left\n"},
		{100, "\r\x1b[K1/2 a [                        ]   0 %  0 B of 4.0 GB" +
			"\r\x1b[K1/2 a [======                  ]  25 %  1.0 GB of 4.0 GB  100 MB/s  30s left" +
			"\r\x1b[K2/2 b [============            ]  50 %  2.0 GB of 4.0 GB  100 MB/s  20s left\n"},
		{40, "\r\x1b[K [                        ]   0 %  0 B " +
			"\r\x1b[K [======                  ]  25 %  1.0 " +
			"\r\x1b[K [============            ]  50 %  2.0 \n"},
	} {
		var out bytes.Buffer
		p := newPullProgress(&out, nil)
		p.width, p.now = c.width, func() time.Time { return at }
		for _, step := range []hub.Progress{{File: "a", Number: 1}, {File: "a", Number: 1, Done: 1e9}, {File: "b", Number: 2, Done: 2e9}} {
			step.Files, step.Total = 2, 4e9
			p.show(step)
			at = at.Add(10 * time.Second)
		}
		p.end()
		if got := out.String(); got != c.want {
			t.Errorf("width %d:\n%q\nwant\n%q", c.width, got, c.want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 99_949: "99.9 kB", 99_951: "100 kB", 4_683_073_184: "4.7 GB", 2e13: "20.0 TB"} {
		if got := decimal(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
