package hub

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/hub/hubtest"
)

// shardSize is that of the large files below: more than is read of their beginnings at first.
const shardSize = 3 * firstBegin

// outlineRepo is a model in two large files.
func outlineRepo() *hubtest.Repo {
	r := folderRepo()
	for i, name := range []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
		r.Files[name] = noise(shardSize, uint64(20+i))
	}
	return r
}

// outlined asks for a longer beginning and for spans: two overlap, one is in the beginning, one reaches over the
// end of the file, one is empty.
func outlined(_ string, begin []byte) Wanted {
	return Wanted{Begin: firstBegin + 1000, Spans: []Span{{shardSize - 10, shardSize + 50}, {-5, 3}, {firstBegin + 5000, firstBegin + 5010}, {firstBegin + 5005, firstBegin + 5020}, {9, 9}}}
}

// pieces are the spans that outlined leads to.
var pieces = []Span{{0, firstBegin + 1000}, {firstBegin + 5000, firstBegin + 5020}, {shardSize - 10, shardSize}}

// outline makes an outline that is expected to succeed, and checks what is in it.
func (w *world) outline(h *Hub, repo *hubtest.Repo) {
	w.t.Helper()
	dir := w.t.TempDir()
	m, err := h.Outline(context.Background(), w.ref("org/name"), Whole, dir, outlined)
	if err != nil {
		w.t.Fatal(err)
	}
	if m.Path() != dir || m.Commit != commitA {
		w.t.Errorf("%+v", m)
	}
	for name, text := range repo.Files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case strings.HasPrefix(name, "model-"):
			want := make([]byte, len(text))
			for _, s := range pieces {
				copy(want[s.From:s.To], text[s.From:s.To])
			}
			if err != nil || string(got) != string(want) {
				w.t.Errorf("%s has %d bytes, which are wrong, %v", name, len(got), err)
			}
		case strings.HasPrefix(name, "chat_template") || strings.HasPrefix(name, "token") || name == "config.json" || name == indexName:
			if err != nil || string(got) != text {
				w.t.Errorf("%s has %d bytes, %v; want %d bytes", name, len(got), err, len(text))
			}
		}
	}
	if _, err := os.Stat(w.cache); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("there is a cache: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.parts")); len(left) > 0 {
		w.t.Errorf("%v are left", left)
	}
}

// TestOutline: small files whole, and of large ones what is asked for and nothing else, which is in no
// cache.
func TestOutline(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		repo := outlineRepo()
		w.Add("org/name", repo)
		w.outline(w.hub(), repo)
		came := 0
		for _, c := range w.Calls() {
			if c.Host == hubtest.Store && c.Method == "GET" && strings.Contains(c.Path, "model-") {
				if c.Range == "" {
					t.Errorf("%s was asked for as a whole", c.Path)
				}
				came += asked([]hubtest.Call{c})
			}
		}
		if want := 2 * (firstBegin + 1000 + 20 + 10); came != want {
			t.Errorf("%d bytes of large files were asked for, want %d", came, want)
		}
	})
}

// TestOutlineFaults: an outline survives what a download survives.
func TestOutlineFaults(t *testing.T) {
	model := func(host string, r *http.Request) bool {
		return storeGET(host, r) && strings.Contains(r.URL.Path, "model-")
	}
	for name, fault := range map[string]func(w *world) func(http.ResponseWriter, *http.Request){
		"cut": func(*world) func(http.ResponseWriter, *http.Request) {
			return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		},
		"expired": func(s *world) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) {
				s.Expire()
				http.Error(w, "Request has expired", http.StatusForbidden)
			}
		},
		"busy": func(*world) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				http.Error(w, "slow down", http.StatusTooManyRequests)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				repo := outlineRepo()
				w.Add("org/name", repo)
				for i := range 3 {
					w.SetFault(after(i, model, fault(w)))
					w.outline(w.hub(), repo)
				}
			})
		})
	}
}

// TestOutlineRefused: what cannot be looked at is one sentence with its reason.
func TestOutlineRefused(t *testing.T) {
	all := func(string, []byte) Wanted { return Wanted{} }
	for _, c := range []struct {
		name   string
		change func(w *world, repo *hubtest.Repo, c *Config)
		reason error
		text   string
	}{
		{"offline", func(_ *world, _ *hubtest.Repo, c *Config) { c.Offline = true }, ErrOffline, "HF_HUB_OFFLINE is set"},
		{"ranges are ignored", func(w *world, _ *hubtest.Repo, _ *Config) {
			w.SetFault(func(host string, _ http.ResponseWriter, r *http.Request) bool {
				r.Header.Del("Range")
				return false
			})
		}, ErrAnswer, "sends all of model-0000"},
		{"a small file is damaged", func(w *world, repo *hubtest.Repo, _ *Config) {
			w.SetFault(func(host string, rw http.ResponseWriter, r *http.Request) bool {
				if !storeGET(host, r) || !strings.HasSuffix(r.URL.Path, "tokenizer.json") {
					return false
				}
				_, _ = rw.Write([]byte(strings.Repeat("x", len(repo.Files["tokenizer.json"]))))
				return true
			})
		}, ErrChecksum, "tokenizer.json of org/name is damaged"},
		{"an index that leads out", func(_ *world, repo *hubtest.Repo, _ *Config) {
			repo.Files[indexName] = `{"weight_map":{"a":"../x.safetensors"}}`
		}, nil, "leads out of its folder"},
		{"gated", func(_ *world, repo *hubtest.Repo, _ *Config) { repo.Gated = true }, ErrGated, "accept its conditions"},
		{"gone", func(w *world, _ *hubtest.Repo, c *Config) { w.Add("org/name", nil) }, ErrNoRepository, "does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				repo := outlineRepo()
				w.Add("org/name", repo)
				h := w.hub(func(config *Config) { c.change(w, repo, config) })
				if _, err := h.Outline(context.Background(), w.ref("org/name"), Whole, t.TempDir(), all); err == nil || c.reason != nil && !errors.Is(err, c.reason) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%v; want %v with %q", err, c.reason, c.text)
				}
				if _, err := os.Stat(w.cache); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("there is a cache: %v", err)
				}
			})
		})
	}
}
