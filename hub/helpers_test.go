package hub

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/hub/hubtest"
	"weir/internal/testkit"
)

const commitA, commitB = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

// noise is a text that compresses badly, the same for the same number.
func noise(n int, seed uint64) string {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// folderRepo is a model in safetensors, with files that weir does not need.
func folderRepo() *hubtest.Repo {
	return &hubtest.Repo{Commit: commitA, Refs: []string{"main", "v1.0", "refs/pr/1"}, Xet: true,
		Large: []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "tokenizer.json", "pytorch_model.bin"},
		Files: map[string]string{
			"README.md": "# a model", ".gitattributes": "*.safetensors filter=lfs", "config.json": `{"architectures":["LlamaForCausalLM"]}`,
			"generation_config.json": `{}`, "tokenizer.json": noise(3000, 1), "tokenizer_config.json": `{"a":1}`,
			"chat_template.jinja": "{{ messages }}", "additional_chat_templates/tool use.jinja": "{{ tools }}",
			"model.safetensors.index.json":     `{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00001-of-00002.safetensors"}}`,
			"model-00001-of-00002.safetensors": noise(70_000, 2), "model-00002-of-00002.safetensors": noise(50_001, 3),
			"pytorch_model.bin": "pickle", "original/consolidated.00.pth": "pickle", "onnx/model.onnx": "onnx",
		}}
}

// ggufRepo has models in GGUF of several types.
func ggufRepo() *hubtest.Repo {
	r := &hubtest.Repo{Commit: commitA, Refs: []string{"main"}, Files: map[string]string{"README.md": "x", "config.json": "{}"}}
	for i, name := range []string{"m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-UD-Q4_K_XL.gguf", "mmproj-F16.gguf", "m-imatrix.gguf",
		"BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"} {
		r.Files[name] = noise(20_000+i, uint64(10+i))
		r.Large = append(r.Large, name)
	}
	return r
}

// world is a hub in memory, a cache, and what was logged.
type world struct {
	*hubtest.Server
	t     *testing.T
	cache string
	log   bytes.Buffer
	close []func()
}

// inBubble runs a test with a hub in memory and a clock that runs as fast as all wait.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{Server: hubtest.StartInMemory(), t: t, cache: filepath.Join(t.TempDir(), "hub")}
		defer func() {
			for _, f := range w.close {
				f()
			}
			w.Close()
			synctest.Wait()
		}()
		f(t, w)
	})
}

// hub opens the hub with a configuration that may be changed.
func (w *world) hub(change ...func(*Config)) *Hub {
	w.t.Helper()
	c := Config{Endpoint: w.HubURL, Cache: w.cache, Connections: 4, Transport: w.Transport(), Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	for _, f := range change {
		f(&c)
	}
	h, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	h.leastPart, h.buffer = 8<<10, 1<<10
	w.close = append(w.close, h.Close)
	return h
}

func offline(c *Config) { c.Offline = true }

func withToken(t string) func(*Config) { return func(c *Config) { c.Token = t } }

// get gets a model that is expected to come.
func (w *world) get(h *Hub, ref string, o Options) Model {
	w.t.Helper()
	m, err := h.Get(context.Background(), w.ref(ref), o)
	if err != nil {
		w.t.Fatalf("%s: %v", ref, err)
	}
	return m
}

func (w *world) ref(text string) Reference {
	w.t.Helper()
	ref, err := Parse(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return ref
}

// refused gets a model that is expected not to come, for a reason, with a text in the sentence.
func (w *world) refused(h *Hub, ref string, reason error, text string) {
	w.t.Helper()
	m, err := h.Get(context.Background(), w.ref(ref), Options{})
	if err == nil || reason != nil && !errors.Is(err, reason) || !strings.Contains(err.Error(), text) {
		w.t.Errorf("%s: %v, %q; want %v with %q", ref, m.Folder, err, reason, text)
	}
}

// same compares the files of a model with those of the repository, and tells of wrong ones.
func (w *world) same(m Model, repo *hubtest.Repo, names ...string) {
	w.t.Helper()
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(m.Folder, name))
		if err != nil || string(got) != repo.Files[name] {
			w.t.Errorf("%s: %d bytes, %v; want %d bytes", name, len(got), err, len(repo.Files[name]))
		}
	}
}

// left lists the files below the cache that a finished download should not leave.
func (w *world) left() (names []string) {
	_ = filepath.WalkDir(w.cache, func(path string, d os.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".incomplete") || strings.HasSuffix(path, ".tmp")) {
			names = append(names, filepath.Base(path))
		}
		return nil
	})
	return names
}

// answered counts the calls of a kind since the last count.
func count(calls []hubtest.Call, method, host string) (n int) {
	for _, c := range calls {
		if c.Method == method && c.Host == host {
			n++
		}
	}
	return n
}

// after lets so many requests of a kind pass and then gives one to a fault.
func after(n int, of func(host string, r *http.Request) bool, fault func(w http.ResponseWriter, r *http.Request)) func(string, http.ResponseWriter, *http.Request) bool {
	var seen = make(chan int, 1)
	seen <- 0
	return func(host string, w http.ResponseWriter, r *http.Request) bool {
		if !of(host, r) {
			return false
		}
		i := <-seen
		seen <- i + 1
		if i != n {
			return false
		}
		fault(w, r)
		return true
	}
}

func storeGET(host string, r *http.Request) bool { return host == hubtest.Store && r.Method == "GET" }

// since runs f and returns how long it took by the clock of the bubble.
func since(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestMain(m *testing.M) {
	testkit.Main(m, roles)
}

// roles are what a child of the tests does.
var roles = map[string]func([]string){"pull": pullUntilKilled}

func sorted(list []string) []string { slices.Sort(list); return list }
