package hub

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/hub/hubtest"
)

// blobsLeft lists the blobs of a repository.
func blobsLeft(h *Hub, repo string) (names []string) {
	entries, _ := os.ReadDir(h.repository(repo).blob(""))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return sorted(names)
}

func (w *world) remove(h *Hub, ref string) Removal {
	w.t.Helper()
	x, err := h.PlanRemoval(w.ref(ref))
	if err == nil {
		err = h.Remove(x)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", ref, err)
	}
	return x
}

// TestRemove: a commit goes with what it alone needs, then the rest.
func TestRemove(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, second := folderRepo(), folderRepo()
		second.Commit, second.Refs = commitB, []string{"main"}
		second.Files["config.json"] = `{"x":1}`
		w.Add("org/name", first)
		h := w.hub()
		w.get(h, "org/name", Options{})
		w.get(h, "org/name@v1.0", Options{})
		w.Add("org/name", second)
		w.get(h, "org/name", Options{})
		before := blobsLeft(h, "org/name")
		for ref, want := range map[string]string{"org/name@v2": "has no revision v2", "org/other": "is not in the cache", "org/name:Q8_0": "has no Q8_0"} {
			if _, err := h.PlanRemoval(w.ref(ref)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", ref, err)
			}
		}
		x := w.remove(h, "org/name@v1.0")
		old := hubtest.GitSHA1(first.Files["config.json"])
		if x.Whole || x.Size != int64(len(first.Files["config.json"])) || !slices.Equal(x.Commits, []string{commitA}) {
			t.Errorf("%+v", x)
		}
		if got, want := blobsLeft(h, "org/name"), slices.DeleteFunc(slices.Clone(before), func(b string) bool { return b == old }); !slices.Equal(got, want) {
			t.Errorf("%q are left of %q", got, before)
		}
		r := h.repository("org/name")
		if r.commit("v1.0") != "" || r.commit("main") != commitB || r.missingNoted(commitA, "added_tokens.json") || !r.missingNoted(commitB, "added_tokens.json") {
			t.Error("refs and notes are wrong")
		}
		w.same(w.get(w.hub(offline), "org/name", Options{}), second, neededFiles...)
		if x := w.remove(h, "org/name@bbbbb"); !x.Whole || x.Size < 120_000 {
			t.Errorf("%+v", x)
		}
		if _, err := os.Stat(r.dir()); !os.IsNotExist(err) {
			t.Errorf("the folder is left: %v", err)
		}
	})
}

// TestRemoveWhileDownloading: nothing is deleted while somebody has a lock.
func TestRemoveWhileDownloading(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Add("org/name", ggufRepo())
		h := w.hub()
		w.get(h, "org/name", Options{})
		unlock, err := tryLock(h.repository("org/name").lock(hubtest.SHA256("other")))
		if err != nil || unlock == nil {
			t.Fatal(err)
		}
		x, err := h.PlanRemoval(w.ref("org/name"))
		if err == nil {
			err = h.Remove(x)
		}
		if err == nil || !strings.Contains(err.Error(), "another process downloads") {
			t.Errorf("%v", err)
		}
		unlock()
		w.remove(h, "org/name")
	})
}

// TestRemoveStays: a link that leads out of the cache is removed, and what it leads to stays.
func TestRemoveStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Add("org/name", folderRepo())
		h := w.hub()
		m := w.get(h, "org/name", Options{})
		precious := filepath.Join(t.TempDir(), "precious")
		if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(precious, filepath.Join(m.Folder, "link")); err != nil {
			t.Fatal(err)
		}
		if x := w.remove(h, "org/name"); x.Size > 200_000 {
			t.Errorf("%+v", x)
		}
		if _, err := os.Stat(precious); err != nil {
			t.Error(err)
		}
	})
}

// share moves the blob of repositories to the store that they share, as huggingface_hub does.
func (w *world) share(h *Hub, etag string, repos ...string) (store string) {
	w.t.Helper()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	hash := strings.Repeat("ab", 32)
	store = filepath.Join(w.cache, "blobs", "ab", hash)
	must(os.MkdirAll(filepath.Dir(store), 0o700))
	var refs strings.Builder
	for _, r := range repos {
		w.get(h, r, Options{})
		blob := h.repository(r).blob(etag)
		must(os.Rename(blob, store))
		must(os.Symlink("../../blobs/ab/"+hash, blob))
		refs.WriteString(repoFolder(r) + "/blobs/" + etag + "\n../../etc/passwd\n")
	}
	must(os.WriteFile(store+".refs", []byte(refs.String()), 0o600))
	must(os.WriteFile(filepath.Join(w.cache, "blobs", sharedMarker), []byte(sharedVersion), 0o600))
	return store
}

// TestSharedBlobs: a blob in the store that repositories share goes with the last link to it.
func TestSharedBlobs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := ggufRepo()
		const name = "m-Q4_K_M.gguf"
		w.Add("org/a", repo)
		w.Add("org/b", repo)
		h := w.hub()
		etag := hubtest.SHA256(repo.Files[name])
		store := w.share(h, etag, "org/a", "org/b")
		w.Calls()
		w.same(w.get(h, "org/a", Options{}), repo, name)
		if n := count(w.Calls(), "GET", hubtest.Store); n != 0 {
			t.Errorf("a shared blob came again")
		}
		if list, err := h.List(); err != nil || len(list) != 2 || list[0].Size != int64(len(repo.Files[name])) {
			t.Errorf("%+v, %v", list, err)
		}
		if x := w.remove(h, "org/a"); x.Size != 0 {
			t.Errorf("%+v: the other repository still needs it", x)
		}
		if text, err := os.ReadFile(store + ".refs"); err != nil || string(text) != "models--org--b/blobs/"+etag+"\n" {
			t.Errorf("%q, %v", text, err)
		}
		w.same(w.get(w.hub(offline), "org/b", Options{}), repo, name)
		if x := w.remove(h, "org/b"); x.Size != int64(len(repo.Files[name])) {
			t.Errorf("%+v", x)
		}
		_ = filepath.WalkDir(filepath.Dir(store), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".lock") {
				t.Errorf("%s is left", path)
			}
			return nil
		})
	})
}

// TestRemoveUnfinished: a refused download leaves nothing that is listed; one that was interrupted is
// listed, and what its deletion frees is what has come.
func TestRemoveUnfinished(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := ggufRepo()
		repo.Gated, repo.Tokens = true, []string{"member"}
		w.Add("org/name", repo)
		w.refused(w.hub(), "org/name", ErrGated, "is gated")
		if list, err := w.hub(offline).List(); err != nil || len(list) != 0 {
			t.Errorf("after a refusal: %+v, %v", list, err)
		}
		h := w.hub(withToken("member"))
		ctx, cancel := context.WithCancel(context.Background())
		_, err := h.Get(ctx, w.ref("org/name"), Options{Progress: func(p Progress) {
			if p.Done > 5000 {
				cancel()
			}
		}})
		if list, wrong := h.List(); err == nil || wrong != nil || len(list) != 1 {
			t.Errorf("after an interruption: %+v, %v, %v", list, err, wrong)
		}
		x, err := h.PlanRemoval(w.ref("org/name"))
		if err != nil || !x.Whole || x.Size < 1000 || x.Size > 20_000 {
			t.Errorf("%+v, %v", x, err)
		}
		if err := h.Remove(x); err != nil {
			t.Error(err)
		}
		if left := w.left(); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}
