package hub

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/hub/hubtest"
)

var neededFiles = []string{"additional_chat_templates/tool use.jinja", "chat_template.jinja", "config.json", "generation_config.json", "model-00001-of-00002.safetensors",
	"model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json"}

// TestGetFolder: of a repository in safetensors the files that are needed come, and no other; the
// layout is that of huggingface_hub; a second time nothing comes.
func TestGetFolder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := folderRepo()
		w.Add("org/name", repo)
		w.PageSize = 3
		h := w.hub()
		m := w.get(h, "org/name", Options{})
		w.same(m, repo, neededFiles...)
		r := h.repository("org/name")
		if names, err := r.snapshotFiles(commitA); err != nil || !slices.Equal(names, neededFiles) {
			t.Errorf("%q, %v", names, err)
		}
		if m.Path() != filepath.Join(w.cache, "models--org--name", "snapshots", commitA) || m.Commit != commitA {
			t.Errorf("%+v", m)
		}
		if !r.missingNoted(commitA, "special_tokens_map.json") || r.missingNoted(commitA, "config.json") {
			t.Error("missing files are noted wrongly")
		}
		if left := w.left(); left != nil {
			t.Errorf("%q is left", left)
		}
		calls := w.Calls()
		if n := count(calls, "GET", hubtest.Store); n < 8 {
			t.Errorf("%d requests for large files: there should be several for each", n)
		}
		w.get(h, "org/name", Options{})
		if calls := w.Calls(); len(calls) != 6 {
			t.Errorf("a second time: %v", calls) // the revision and five pages of the list
		}
	})
}

// TestRevisions: a tag, a pull request and a commit lead to the commit; a commit that is in the cache
// asks the hub nothing.
func TestRevisions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Add("org/name", folderRepo())
		h := w.hub()
		for _, revision := range []string{"v1.0", "refs/pr/1", commitA} {
			if m := w.get(h, "org/name@"+revision, Options{}); m.Commit != commitA {
				t.Errorf("%s: %+v", revision, m)
			}
		}
		w.Calls()
		w.get(h, "org/name@"+commitA, Options{})
		if calls := w.Calls(); len(calls) != 0 {
			t.Errorf("a known commit: %v", calls)
		}
		for _, revision := range []string{"v1.0", "refs/pr/1"} {
			if got := h.repository("org/name").commit(revision); got != commitA {
				t.Errorf("refs/%s is %q", revision, got)
			}
		}
		w.refused(h, "org/name@v2", ErrNoRevision, "has no such revision")
	})
}

// TestGetGGUF: one type comes, the default where nothing is said, and all files of a split model.
func TestGetGGUF(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := ggufRepo()
		w.Add("org/name", repo)
		for ref, want := range map[string][]string{
			"org/name":                     {"m-Q4_K_M.gguf"},
			"org/name:q8_0":                {"m-Q8_0.gguf"},
			"org/name:Q4_K_XL":             {"m-UD-Q4_K_XL.gguf"},
			"org/name:m-Q8_0.gguf":         {"m-Q8_0.gguf"},
			"hf://org/name/m-Q8_0.gguf":    {"m-Q8_0.gguf"},
			"org/name@main:BF16":           {"BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"},
			"org/name@" + commitA + ":F32": nil,
		} {
			w.cache = filepath.Join(t.TempDir(), "hub")
			h := w.hub()
			if want == nil {
				w.refused(h, ref, nil, "org/name has no F32: choose one of its GGUF files, as in org/name:BF16; there are BF16, Q4_K_M, Q8_0, UD-Q4_K_XL")
				continue
			}
			m := w.get(h, ref, Options{})
			names, err := h.repository("org/name").snapshotFiles(commitA)
			if err != nil || !slices.Equal(names, want) || m.GGUF != want[0] || m.Path() != filepath.Join(m.Folder, want[0]) {
				t.Errorf("%s: %q, %v, %+v", ref, names, err, m)
			}
			w.same(m, repo, want...)
		}
	})
}

// TestTokenizerAlone: only what is small comes.
func TestTokenizerAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Add("org/name", folderRepo())
		m := w.get(w.hub(), "org/name", Options{Part: Tokenizer})
		names, err := w.hub().repository("org/name").snapshotFiles(m.Commit)
		if err != nil || len(names) != 6 {
			t.Errorf("%q, %v", names, err)
		}
	})
}

// TestOffline: without the hub what is whole in the cache is used, and nothing is sent where that is
// asked for.
func TestOffline(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Add("org/name", folderRepo())
		w.refused(w.hub(offline), "org/name", ErrOffline, "revision main was never downloaded")
		w.get(w.hub(), "org/name", Options{})
		w.Calls()
		m := w.get(w.hub(offline), "org/name", Options{})
		if len(w.Calls()) != 0 || m.Commit != commitA {
			t.Errorf("%+v", m)
		}
		// The hub is away: the cache is used, with a line in the log.
		w.HubURL = "http://nowhere.test"
		if m := w.get(w.hub(), "org/name", Options{}); m.Commit != commitA || !strings.Contains(w.log.String(), "what is in the cache is used") {
			t.Errorf("%+v, %s", m, w.log.String())
		}
		if _, err := w.hub().Get(context.Background(), w.ref("org/name"), Options{Fresh: true}); err == nil {
			t.Error("a fresh answer cannot come from the cache")
		}
		if err := os.Remove(filepath.Join(m.Folder, "model-00002-of-00002.safetensors")); err != nil {
			t.Fatal(err)
		}
		w.refused(w.hub(offline), "org/name", ErrOffline, "model-00002-of-00002.safetensors is missing")
		w.refused(w.hub(), "org/name", ErrUnreachable, "nowhere.test cannot be reached for revision main of org/name")
	})
}

// TestNextCommit: what two commits share comes once, and the branch moves when all is there.
func TestNextCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, second := folderRepo(), folderRepo()
		w.Add("org/name", first)
		h := w.hub()
		w.get(h, "org/name", Options{})
		second.Commit = commitB
		second.Files["config.json"] = `{"architectures":["Qwen3ForCausalLM"]}`
		w.Add("org/name", second)
		w.Calls()
		m := w.get(h, "org/name", Options{})
		if calls := w.Calls(); m.Commit != commitB || count(calls, "GET", hubtest.Store) != 0 {
			t.Errorf("%+v: %v", m, calls)
		}
		w.same(m, second, neededFiles...)
		if got := h.repository("org/name").commit("main"); got != commitB {
			t.Errorf("refs/main is %s", got)
		}
	})
}

// TestDamage: a file that has another size is found at once, and one with another content by
// Verify. Both come again.
func TestDamage(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := folderRepo()
		w.Add("org/name", repo)
		h := w.hub()
		m := w.get(h, "org/name", Options{})
		damage := func(name string, change func([]byte) []byte) {
			text, err := os.ReadFile(filepath.Join(m.Folder, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(m.Folder, name), change(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		damage("tokenizer.json", func(b []byte) []byte { return b[:100] })
		damage("config.json", func(b []byte) []byte { return append(b, ' ') })
		w.get(h, "org/name", Options{})
		w.same(m, repo, neededFiles...)
		damage("model-00002-of-00002.safetensors", func(b []byte) []byte { b[7]++; return b })
		damage("chat_template.jinja", func(b []byte) []byte { b[3]++; return b })
		if _, err := w.hub(offline).Get(context.Background(), w.ref("org/name"), Options{Verify: true}); err == nil || !strings.Contains(err.Error(), "chat_template.jinja of org/name is damaged") {
			t.Errorf("offline: %v", err)
		}
		w.get(h, "org/name", Options{Verify: true})
		w.same(m, repo, neededFiles...)
		if _, err := w.hub(offline).Get(context.Background(), w.ref("org/name"), Options{Verify: true}); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(w.cache, "models--org--name", "blobs", hubtest.SHA256(repo.Files["tokenizer.json"]))); err != nil {
			t.Fatal(err)
		}
		w.get(h, "org/name", Options{})
		w.same(m, repo, neededFiles...)
	})
}

// TestWithoutSymlinks: the snapshot has the files themselves.
func TestWithoutSymlinks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := folderRepo()
		w.Add("org/name", repo)
		h := w.hub(func(c *Config) { c.NoSymlinks = true })
		m := w.get(h, "org/name", Options{})
		w.same(m, repo, neededFiles...)
		for _, name := range neededFiles {
			if info, err := os.Lstat(filepath.Join(m.Folder, name)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		w.Calls()
		w.get(h, "org/name", Options{Verify: true})
		if n := count(w.Calls(), "GET", hubtest.Store); n != 0 {
			t.Errorf("%d files came again", n)
		}
	})
}

// TestLayout: the cache has what huggingface_hub 2.4.0 writes for the same files, which
// TestPythonWrites records.
func TestLayout(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Add("org/name", folderRepo())
		w.get(w.hub(), "org/name", Options{})
		want, err := os.ReadFile("testdata/huggingface_hub.txt")
		if got := layout(t, w.cache); err != nil || got != string(want) {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	})
}
