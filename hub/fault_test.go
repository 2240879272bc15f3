package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/hub/hubtest"
)

// cutOff sends the beginning of a file and cuts the connection.
func cutOff(text string, n int) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			from, to, _ := strings.Cut(from, "-")
			a, _ := strconv.Atoi(from)
			b, _ := strconv.Atoi(to)
			w.Header().Set("Content-Length", strconv.Itoa(b+1-a))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a, b, len(text)))
			w.WriteHeader(http.StatusPartialContent)
			text = text[a : b+1]
		}
		_, _ = w.Write([]byte(text[:min(n, len(text))]))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// TestFaults: what a hub or a line does wrong for a while is gone through, and the file is right.
func TestFaults(t *testing.T) {
	const name = "m-Q4_K_M.gguf"
	repo := ggufRepo()
	text := repo.Files[name]
	hubAPI := func(host string, r *http.Request) bool {
		return host == hubtest.Hub && strings.HasPrefix(r.URL.Path, "/api/")
	}
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for what, c := range map[string]struct {
		fault       func(string, http.ResponseWriter, *http.Request) bool
		least, most time.Duration
		connections int
	}{
		"nothing":                      {nil, 0, 0, 4},
		"a cut connection":             {after(1, storeGET, cutOff(text, 3000)), time.Second, time.Second, 4},
		"a cut connection before data": {after(0, storeGET, cutOff(text, 0)), time.Second, time.Second, 1},
		"a stall":                      {after(0, storeGET, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), 11 * time.Second, 11 * time.Second, 1},
		"a stall within the data": {after(0, storeGET, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write([]byte(text[:5000]))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), 11 * time.Second, 11 * time.Second, 1},
		"429 with Retry-After":  {after(0, hubAPI, status(429, "Retry-After", "37")), 37 * time.Second, 37 * time.Second, 4},
		"429 with RateLimit":    {after(0, hubAPI, status(429, "RateLimit", `"api";r=0;t=55`)), 56 * time.Second, 56 * time.Second, 4},
		"503 of the store":      {after(0, storeGET, status(503)), time.Second, time.Second, 4},
		"502 of the hub, twice": {twice(502), 3 * time.Second, 3 * time.Second, 4},
		"an expired address":    {after(0, storeGET, status(403)), 0, 0, 4},
		"ignored ranges": {func(host string, w http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("Range")
			return false
		}, 0, 0, 4},
		"ignored ranges and a cut": {func() func(string, http.ResponseWriter, *http.Request) bool {
			cut := after(0, storeGET, cutOff(text, 9000))
			return func(host string, w http.ResponseWriter, r *http.Request) bool {
				r.Header.Del("Range")
				return cut(host, w, r)
			}
		}(), time.Second, time.Second, 1},
		"a wrong checksum, once": {after(0, storeGET, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Repeat("x", len(text))))
		}), 0, 0, 1},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.Add("org/name", repo)
				w.Fault = c.fault
				if took := w.getThrough(repo, name, c.connections); took < c.least || took > c.most {
					t.Errorf("it took %v, want %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}

// getThrough gets a file in spite of a fault and returns how long it took. The file has to be right,
// the progress too, nothing may be left, and the token has to stay where it belongs.
func (w *world) getThrough(repo *hubtest.Repo, name string, connections int) time.Duration {
	w.t.Helper()
	h := w.hub(withToken("hf_secret"), func(cfg *Config) { cfg.Connections = connections })
	var m Model
	var last Progress
	took := since(func() { m = w.get(h, "org/name", Options{Progress: func(p Progress) { last = p }}) })
	if last.Done != int64(len(repo.Files[name])) || last.Total != last.Done || !last.Ended {
		w.t.Errorf("the progress ends with %+v", last)
	}
	w.same(m, repo, name)
	if left := w.left(); left != nil {
		w.t.Errorf("%q is left", left)
	}
	for _, call := range w.Calls() {
		if (call.Host == hubtest.Store) != (call.Token == "") {
			w.t.Errorf("%+v: the token goes to the hub and to nobody else", call)
		}
	}
	return took
}

// twice answers a status to the first two calls of the hub's functions.
func twice(code int) func(string, http.ResponseWriter, *http.Request) bool {
	left := make(chan int, 1)
	left <- 2
	return func(host string, w http.ResponseWriter, r *http.Request) bool {
		n := <-left
		left <- max(n-1, 0)
		if n > 0 {
			w.WriteHeader(code)
		}
		return n > 0
	}
}

// TestErrors: what stays wrong ends with a sentence that says what to do.
func TestErrors(t *testing.T) {
	always := func(of func(string, *http.Request) bool, f func(http.ResponseWriter, *http.Request)) func(string, http.ResponseWriter, *http.Request) bool {
		return func(host string, w http.ResponseWriter, r *http.Request) bool {
			if !of(host, r) {
				return false
			}
			f(w, r)
			return true
		}
	}
	api := func(host string, r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }
	head := func(_ string, r *http.Request) bool { return r.Method == "HEAD" }
	for what, c := range map[string]struct {
		change func(repo *hubtest.Repo)
		fault  func(string, http.ResponseWriter, *http.Request) bool
		token  string
		ref    string
		reason error
		text   string
	}{
		"no repository, no token": {ref: "org/other", reason: ErrNoRepository, text: "org/other does not exist on http://hub.test, or it is private or gated: if it is, set HF_TOKEN"},
		"no repository, token":    {ref: "org/other", token: "t", reason: ErrNoRepository, text: "org/other does not exist on http://hub.test, or the token may not read it"},
		"gated, no token": {change: func(r *hubtest.Repo) { r.Gated = true }, reason: ErrGated,
			text: "org/name is gated: accept its conditions at http://hub.test/org/name, make a token at http://hub.test/settings/tokens, and set HF_TOKEN to it"},
		"gated, stranger": {change: func(r *hubtest.Repo) { r.Gated = true }, token: "t", reason: ErrGated,
			text: "org/name is gated, and the account of the token has no access to it: accept its conditions at http://hub.test/org/name"},
		"wrong token": {fault: always(api, func(w http.ResponseWriter, _ *http.Request) {
			hubtest.Refuse(w, 401, "", "Invalid credentials in Authorization header")
		}), token: "t", reason: ErrNoRepository, text: "the hub refuses the token for org/name (HF_TOKEN, or the file that huggingface_hub keeps): Invalid credentials"},
		"forbidden": {fault: always(api, func(w http.ResponseWriter, _ *http.Request) {
			hubtest.Refuse(w, 403, "", "Access is\u009b31m disabled.")
		}), reason: ErrRefused, text: "forbids the access to org/name: Access is 31m disabled; its page is http://hub.test/org/name"},
		"no revision": {ref: "org/name@v9", reason: ErrNoRevision, text: "org/name has no such revision: revision v9 was asked for"},
		"busy": {fault: always(api, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), reason: ErrBusy,
			text: "the hub answers 503 Service Unavailable for revision main of org/name"},
		"asks for too long a wait": {fault: always(api, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(429)
		}), reason: ErrBusy, text: "asks to be left alone for 24h0m0s; try again later"},
		"no hub": {fault: always(api, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>Sign in to the guest network"))
		}),
			reason: ErrAnswer, text: "is not what a hub answers (is HF_ENDPOINT a hub?)"},
		"a redirect in a circle": {fault: always(api, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }),
			reason: ErrAnswer, text: "more than 10 redirects"},
		"a redirect to a file": {fault: always(api, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(302)
		}),
			reason: ErrAnswer, text: `redirects to `},
		"a redirect that is none": {fault: always(api, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(302) }),
			reason: ErrAnswer, text: `redirects to "", which is no address`},
		"a redirect that cannot be read": {fault: always(api, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://store.test/%zz")
			w.WriteHeader(302)
		}), reason: ErrAnswer, text: `redirects to "http://store.test/%zz", which is no address`},
		"a commit that is none": {change: func(r *hubtest.Repo) { r.Commit = "../../../../../../../../../../../../etc" }, reason: ErrAnswer, text: "which is none"},
		"a file that leads out": {change: func(r *hubtest.Repo) { r.Files["../../x.gguf"] = "x" }, reason: ErrAnswer, text: `"../../x.gguf" leads out of its folder`},
		"an absolute file":      {change: func(r *hubtest.Repo) { r.Files["/etc/x.gguf"] = "x" }, reason: ErrAnswer, text: "leads out of its folder"},
		"a file on a drive":     {change: func(r *hubtest.Repo) { r.Files[`C:x.gguf`] = "x" }, reason: ErrAnswer, text: "names a drive"},
		"a backslash":           {change: func(r *hubtest.Repo) { r.Files[`..\x.gguf`] = "x" }, reason: ErrAnswer, text: "backslash"},
		"an etag that leads out": {fault: always(head, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"../../../x"`)
		}), reason: ErrAnswer, text: `the etag "../../../x" cannot be the name of a file`},
		"no etag": {fault: always(head, func(w http.ResponseWriter, _ *http.Request) {}), reason: ErrAnswer, text: `the etag "" cannot be the name of a file`},
		"another commit": {fault: always(head, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Repo-Commit", commitB)
		}), reason: ErrAnswer, text: "it is of the commit"},
		"another size": {fault: always(head, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Content-Length", "5")
		}), reason: ErrAnswer, text: "it has 5 bytes, and the list of files says 20000"},
		"another hash": {fault: always(head, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Linked-Etag", hubtest.SHA256("x"))
			w.Header().Set("X-Linked-Size", "20000")
		}), reason: ErrAnswer, text: "its SHA-256 is " + hubtest.SHA256("x")},
		"a wrong checksum": {fault: always(storeGET, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Repeat("x", 20000)))
		}), reason: ErrChecksum, text: "m-Q4_K_M.gguf of org/name is damaged: the hub says that its hash is " + hubtest.SHA256(ggufRepo().Files["m-Q4_K_M.gguf"])},
		"an address that never is valid": {fault: always(storeGET, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }),
			reason: errExpired, text: "the address of m-Q4_K_M.gguf of org/name is no longer valid: 403 Forbidden"},
		"a file that is gone": {fault: always(head, func(w http.ResponseWriter, _ *http.Request) {
			hubtest.Refuse(w, 404, "EntryNotFound", "Entry not found")
		}), reason: ErrNoFile, text: "org/name has no m-Q4_K_M.gguf"},
		"a wrong part": {fault: always(storeGET, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-99/100")
			w.WriteHeader(206)
		}), reason: ErrAnswer, text: "sends a wrong part"},
		"an encoding": {fault: always(storeGET, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
		}), reason: ErrAnswer, text: "with the encoding br"},
		"weights in pickle": {change: func(r *hubtest.Repo) { r.Files = map[string]string{"pytorch_model.bin": "x", "config.json": "{}"} },
			text: "org/name has no weights that weir reads, model.safetensors or a .gguf file: it has pytorch_model.bin"},
		"a data set": {change: func(r *hubtest.Repo) { r.Files = map[string]string{"a.parquet": "x"} }, text: "org/name has no weights of a language model"},
		"a split model with a hole": {change: func(r *hubtest.Repo) { delete(r.Files, "BF16/m-BF16-00001-of-00002.gguf") }, ref: "org/name:BF16",
			text: "a split model is not complete: BF16/m-BF16-00002-of-00002.gguf is one of 00002 files, of which 1 are there"},
		"an index that leads out": {change: func(r *hubtest.Repo) {
			*r = *folderRepo()
			r.Files[indexName] = `{"weight_map":{"a":"../../../../x.safetensors"}}`
		}, text: `org/name: model.safetensors.index.json: weight_map: the file of a "../../../../x.safetensors" leads out of its folder`},
		"an index with an unknown file": {change: func(r *hubtest.Repo) {
			*r = *folderRepo()
			r.Files[indexName] = `{"weight_map":{"a":"x.safetensors"}}`
		}, text: "weight_map: the file of a, x.safetensors, does not exist"},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				repo := ggufRepo()
				if c.change != nil {
					c.change(repo)
				}
				w.Add("org/name", repo)
				w.Fault = c.fault
				ref := c.ref
				if ref == "" {
					ref = "org/name"
				}
				w.refused(w.hub(withToken(c.token)), ref, c.reason, c.text)
				outside(t, w.cache)
			})
		})
	}
}

// outside fails if something was written beside the cache.
func outside(t *testing.T, cache string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(cache))
	if err != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != filepath.Base(cache) {
		t.Errorf("beside the cache there is %v, %v", entries, err)
	}
}

// TestTokenStays: the token does not follow a redirect to another host, port or scheme.
func TestTokenStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Add("org/name", ggufRepo())
		w.Fault = func(host string, rw http.ResponseWriter, r *http.Request) bool {
			if host == hubtest.Hub && strings.HasPrefix(r.URL.Path, "/api/") && r.Method == "GET" {
				http.Redirect(rw, r, w.StoreURL+r.URL.Path, http.StatusFound)
				return true
			}
			return false
		}
		w.refused(w.hub(withToken("hf_secret")), "org/name", nil, "")
		calls := w.Calls()
		if len(calls) != 2 || calls[0].Token != "hf_secret" || calls[1].Host != hubtest.Store || calls[1].Token != "" {
			t.Errorf("%+v", calls)
		}
	})
}

// TestResume: a download that was cancelled goes on where it was, also over another address.
func TestResume(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := ggufRepo()
		repo.Files["m-Q4_K_M.gguf"] = noise(300_000, 5)
		w.Add("org/name", repo)
		h := w.hub()
		ctx, cancel := context.WithCancelCause(context.Background())
		stop := errors.New("stopped")
		_, err := h.Get(ctx, w.ref("org/name"), Options{Progress: func(p Progress) {
			if p.Done > 150_000 {
				cancel(stop)
			}
		}})
		if !errors.Is(err, stop) || len(w.left()) != 2 {
			t.Fatalf("%v, left %q", err, w.left())
		}
		w.Calls()
		w.Expire()
		m := w.get(h, "org/name", Options{})
		w.same(m, repo, "m-Q4_K_M.gguf")
		if came := asked(w.Calls()); came > 300_000-120_000 {
			t.Errorf("%d bytes were asked for after half of 300,000 had come", came)
		}
		if left := w.left(); left != nil {
			t.Errorf("%q is left", left)
		}
	})
}

// asked is how many bytes the store was asked for.
func asked(calls []hubtest.Call) (n int) {
	for _, c := range calls {
		if from, ok := strings.CutPrefix(c.Range, "bytes="); ok {
			from, to, _ := strings.Cut(from, "-")
			a, _ := strconv.Atoi(from)
			b, _ := strconv.Atoi(to)
			n += b + 1 - a
		}
	}
	return n
}

// TestOldIncomplete: what an old huggingface_hub has left is the beginning of the file; if it is
// wrong, the checksum finds that.
func TestOldIncomplete(t *testing.T) {
	for _, right := range []bool{true, false} {
		inBubble(t, func(t *testing.T, w *world) {
			repo := ggufRepo()
			text := noise(100_000, 5)
			repo.Files["m-Q4_K_M.gguf"] = text
			w.Add("org/name", repo)
			blobs := filepath.Join(w.cache, "models--org--name", "blobs")
			if err := os.MkdirAll(blobs, 0o700); err != nil {
				t.Fatal(err)
			}
			old := []byte(text[:60_000])
			if !right {
				old[100]++
			}
			if err := os.WriteFile(filepath.Join(blobs, hubtest.SHA256(text)+".incomplete"), old, 0o600); err != nil {
				t.Fatal(err)
			}
			w.same(w.get(w.hub(), "org/name", Options{}), repo, "m-Q4_K_M.gguf")
			if came := asked(w.Calls()); right && came != 40_000 || w.left() != nil {
				t.Errorf("%v: %d bytes were asked for, left %q", right, came, w.left())
			}
		})
	}
}

// TestRoom: a disk that is too small is refused before anything comes.
func TestRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Add("org/name", ggufRepo())
		w.Fault = func(_ string, rw http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/tree/") {
				return false
			}
			fmt.Fprintf(rw, `[{"type":"file","path":"m-Q4_K_M.gguf","size":%d,"oid":"x"}]`, int64(1)<<49)
			return true
		}
		w.refused(w.hub(), "org/name", ErrNoSpace, "org/name needs 562950021 MB more on the disk of ")
		if n := count(w.Calls(), "HEAD", hubtest.Hub); n != 0 {
			t.Errorf("%d files were asked for", n)
		}
	})
}

// TestExpired: addresses expire in the middle of a download, again and again.
func TestExpired(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := ggufRepo()
		w.Add("org/name", repo)
		seen := make(chan int, 1)
		seen <- 0
		w.Fault = func(host string, _ http.ResponseWriter, r *http.Request) bool {
			if storeGET(host, r) {
				n := <-seen
				seen <- n + 1
				if n%3 == 1 {
					w.Expire()
				}
			}
			return false
		}
		var m Model
		if took := since(func() {
			m = w.get(w.hub(func(c *Config) { c.Connections = 1 }), "org/name:BF16", Options{})
		}); took != 0 {
			t.Errorf("it took %v", took)
		}
		w.same(m, repo, "BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf")
	})
}

// TestConnections: a large file comes over several connections at the same time, a small one over one.
func TestConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := ggufRepo()
		w.Add("org/name", repo)
		all, arrived := make(chan struct{}), make(chan int, 1)
		arrived <- 0
		w.Fault = func(host string, _ http.ResponseWriter, r *http.Request) bool {
			if storeGET(host, r) {
				n := <-arrived + 1
				arrived <- n
				if n == 2 {
					close(all)
				}
				<-all
			}
			return false
		}
		var m Model
		if took := since(func() { m = w.get(w.hub(), "org/name", Options{}) }); took != 0 {
			t.Errorf("it took %v", took)
		}
		w.same(m, repo, "m-Q4_K_M.gguf")
	})
}

// TestTwoAtOnce: two who want the same model at the same time let it come once.
func TestTwoAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := folderRepo()
		w.Add("org/name", repo)
		done := make(chan Model)
		for range 2 {
			h := w.hub(func(c *Config) { c.Connections = 1 })
			go func() {
				m, err := h.Get(context.Background(), w.ref("org/name"), Options{})
				if err != nil {
					t.Error(err)
				}
				done <- m
			}()
		}
		w.same(<-done, repo, neededFiles...)
		w.same(<-done, repo, neededFiles...)
		seen := map[string]bool{}
		for _, c := range w.Calls() {
			if c.Host == hubtest.Store {
				if seen[c.Path+c.Range] {
					t.Errorf("%s came twice", c.Path)
				}
				seen[c.Path+c.Range] = true
			}
		}
	})
}
