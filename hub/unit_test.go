package hub

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestParse: the names of models, and what is none.
func TestParse(t *testing.T) {
	for text, want := range map[string]Reference{
		"org/name":                                  {"org/name", "", ""},
		"Qwen/Qwen2.5-0.5B-Instruct-GGUF:q8_0":      {"Qwen/Qwen2.5-0.5B-Instruct-GGUF", "", "q8_0"},
		"org/name@v1.0:Q4_K_M":                      {"org/name", "v1.0", "Q4_K_M"},
		"org/name@refs/pr/3":                        {"org/name", "refs/pr/3", ""},
		"org/name:folder/m.gguf":                    {"org/name", "", "folder/m.gguf"},
		"gpt2":                                      {"gpt2", "", ""},
		"hf://org/name":                             {"org/name", "", ""},
		"hf://models/org/name@main":                 {"org/name", "main", ""},
		"hf://org/name@refs/pr/3":                   {"org/name", "refs/pr/3", ""},
		"hf://org/name@refs/pr/3/a/m-Q8_0.gguf":     {"org/name", "refs/pr/3", "a/m-Q8_0.gguf"},
		"hf://org/name/m.GGUF":                      {"org/name", "", "m.GGUF"},
		"hf://org/name@feature%2Fx:Q8_0":            {"org/name", "feature/x", "Q8_0"},
		"hf://org/name@" + commitA + "/m-Q8_0.gguf": {"org/name", commitA, "m-Q8_0.gguf"},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%s: written as %s it is %+v, %v", text, got, again, err)
		}
	}
	for text, why := range map[string]string{
		"": "name of letters", "/x": "letters", "a/b/c": "letters", "../x": "letters", "org/..": "..", "org/-x": "letters", "org/x-": "letters", "org/a--b": "--",
		"org/name.git": ".git", "org/name@": "no revision", "org/name:": "the colon", "org/name@../x": "leads out", "org/name:../x": "leads out", "org/name@a\\b": "backslash",
		"hf://org/name/config.json": ".gguf file", "hf://org/name/m.gguf:Q8_0": ".gguf file", "org/na me": "letters", "org/" + strings.Repeat("x", 97): "letters", "hf://org/name@%zz": "escape",
		"datasets/org/name": "letters",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, why)
		}
	}
	for text, want := range map[string]bool{"org/name": true, "org/name:Q4_0": true, "org/name@x/y": true, "hf://x": true, "name": false, "a/b/c": false, "./a/b": false, "/a/b": false,
		"~/a": false, "a/b.gguf": false, "../a": false, "a/": false, "a\\b/c": false, "org/name.": false} {
		if Looks(text) != want {
			t.Errorf("Looks(%q) is not %v", text, want)
		}
	}
}

// TestChoose: which files are meant, for the names that people publish.
func TestChoose(t *testing.T) {
	files := func(names ...string) map[string]remoteFile {
		m := map[string]remoteFile{}
		for _, n := range names {
			m[n] = remoteFile{Name: n}
		}
		return m
	}
	qwen := []string{"qwen2.5-0.5b-instruct-fp16.gguf", "qwen2.5-0.5b-instruct-q4_0.gguf", "qwen2.5-0.5b-instruct-q4_k_m.gguf", "qwen2.5-0.5b-instruct-q8_0.gguf"}
	bartowski := []string{"L-3-IQ4_XS.gguf", "L-3-Q4_K_M.gguf", "L-3-Q4_K_S.gguf", "L-3-Q6_K.gguf", "L-3-Q6_K_L.gguf", "L-3-f16.gguf", "L-3.imatrix", "mmproj-L-3-f16.gguf"}
	unsloth := []string{"Q-UD-Q4_K_XL.gguf", "Q-UD-IQ1_S.gguf", "Q-Q4_1.gguf", "UD-Q4_K_M/Q-UD-Q4_K_M-00001-of-00002.gguf", "UD-Q4_K_M/Q-UD-Q4_K_M-00002-of-00002.gguf", "Q-MXFP4_MOE.gguf", "config.json"}
	two := []string{"a/m-Q4_K_M.gguf", "b/m-Q4_K_M.gguf"}
	for _, c := range []struct {
		names   []string
		variant string
		want    string // the large files, or a part of the error
	}{
		{qwen, "", "qwen2.5-0.5b-instruct-q4_k_m.gguf"},
		{qwen, "Q8_0", "qwen2.5-0.5b-instruct-q8_0.gguf"},
		{qwen, "q4_0", "qwen2.5-0.5b-instruct-q4_0.gguf"},
		{qwen, "Q5_K_M", "has no Q5_K_M: choose one of its GGUF files, as in o/n:Q4_0; there are Q4_0, Q4_K_M, Q8_0, qwen2.5-0.5b-instruct-fp16"},
		{qwen, "qwen2.5-0.5b-instruct-fp16", "qwen2.5-0.5b-instruct-fp16.gguf"},
		{bartowski, "", "L-3-Q4_K_M.gguf"},
		{bartowski, "Q6_K", "L-3-Q6_K.gguf"},
		{bartowski, "q6_k_l", "L-3-Q6_K_L.gguf"},
		{bartowski, "F16", "L-3-f16.gguf"},
		{bartowski, "IQ4_XS", "L-3-IQ4_XS.gguf"},
		{unsloth, "", "UD-Q4_K_M/Q-UD-Q4_K_M-00001-of-00002.gguf UD-Q4_K_M/Q-UD-Q4_K_M-00002-of-00002.gguf"},
		{unsloth, "UD-Q4_K_XL", "Q-UD-Q4_K_XL.gguf"},
		{unsloth, "MXFP4_MOE", "Q-MXFP4_MOE.gguf"},
		{unsloth, "Q-UD-Q4_K_M-00001-of-00002.gguf", "UD-Q4_K_M/Q-UD-Q4_K_M-00001-of-00002.gguf UD-Q4_K_M/Q-UD-Q4_K_M-00002-of-00002.gguf"},
		{two, "", "several models that Q4_K_M, which is taken where nothing is said may mean: choose one by the name of its file, as in o/n:a/m-Q4_K_M.gguf; there are a/m-Q4_K_M.gguf, b/m-Q4_K_M.gguf"},
		{two, "b/m-Q4_K_M.gguf", "b/m-Q4_K_M.gguf"},
		{[]string{"only.gguf"}, "", "only.gguf"},
		{[]string{"m-Q8_0.gguf", "m-F16.gguf"}, "", "has no Q4_K_M, which is taken where nothing is said: choose one of its GGUF files, as in o/n:F16; there are F16, Q8_0"},
		{[]string{"m-00002-of-00003.gguf", "m-00003-of-00003.gguf", "m-00001-of-00003.gguf"}, "", "m-00001-of-00003.gguf m-00002-of-00003.gguf m-00003-of-00003.gguf"},
		{[]string{"config.json", "model.safetensors", "x.gguf"}, "", "model.safetensors"},
		{[]string{"config.json", "model.safetensors", "x.gguf"}, "x", "x.gguf"},
		{[]string{"config.json", "model.safetensors"}, "Q4_0", "has no GGUF file, so there is no Q4_0 to choose"},
		{[]string{"model.safetensors"}, "", "but no config.json"},
		{[]string{"config.json", indexName, "model.safetensors"}, "", ""},
	} {
		p, err := choose(Reference{Repo: "o/n", Variant: c.variant}, files(c.names...), Whole)
		if err != nil && c.want != "" && strings.Contains(err.Error(), c.want) {
			continue
		}
		if got := strings.Join(p.large, " "); err != nil || got != c.want {
			t.Errorf("%q:%s: %q, %v; want %q", c.names, c.variant, got, err, c.want)
		}
	}
}

// TestChooseModules: a model of sentence-transformers comes with its modules, and with nothing else that lies in folders.
func TestChooseModules(t *testing.T) {
	names := []string{"modules.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin", "config.json",
		"model.safetensors", "onnx/model.onnx", "onnx/config.json", "config_sentence_transformers.json", "sentence_bert_config.json", "tokenizer.json"}
	files := map[string]remoteFile{}
	for _, n := range names {
		files[n] = remoteFile{Name: n}
	}
	p, err := choose(Reference{Repo: "o/n"}, files, Whole)
	const want = "1_Pooling/config.json 2_Dense/config.json 2_Dense/model.safetensors config.json config_sentence_transformers.json modules.json sentence_bert_config.json tokenizer.json"
	if got := strings.Join(p.first, " "); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// TestEnvironment: the variables of huggingface_hub say what they say there.
func TestEnvironment(t *testing.T) {
	home := t.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(home+"/.cache/huggingface/token", " hf_file\n")
	write(home+"/other", "hf_other")
	write(home+"/bad", "hf other")
	for _, c := range []struct {
		env  string
		want string // cache token endpoint offline
	}{
		{"", "~/.cache/huggingface/hub hf_file https://huggingface.co false"},
		{"XDG_CACHE_HOME=/x", "/x/huggingface/hub  https://huggingface.co false"},
		{"XDG_CACHE_HOME=/x HF_HOME=~/h", "~/h/hub  https://huggingface.co false"},
		{"HF_HOME=$HOME/h HUGGINGFACE_HUB_CACHE=/c", "/c  https://huggingface.co false"},
		{"HUGGINGFACE_HUB_CACHE=/c HF_HUB_CACHE=${HOME}/d", "~/d hf_file https://huggingface.co false"},
		{"HF_TOKEN=hf_env HF_ENDPOINT=https://mirror/hf/", "~/.cache/huggingface/hub hf_env https://mirror/hf false"},
		{"HUGGING_FACE_HUB_TOKEN=hf_old TRANSFORMERS_OFFLINE=yes", "~/.cache/huggingface/hub hf_old https://huggingface.co true"},
		{"HF_TOKEN_PATH=~/other HF_HUB_OFFLINE=1", "~/.cache/huggingface/hub hf_other https://huggingface.co true"},
		{"HF_TOKEN=hf_env HF_HUB_DISABLE_IMPLICIT_TOKEN=ON HF_HUB_OFFLINE=0", "~/.cache/huggingface/hub  https://huggingface.co false"},
		{"HF_TOKEN=a\u00e9", "what HF_TOKEN holds is not a token"},
		{"HF_TOKEN_PATH=~/bad", "/bad holds is not a token"},
		{"HF_ENDPOINT=huggingface.co", "is not the address of a hub"},
		{"HF_HUB_DOWNLOAD_TIMEOUT=soon", "HF_HUB_DOWNLOAD_TIMEOUT=soon is not a number of seconds"},
	} {
		env := map[string]string{"HOME": home}
		for _, v := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		cfg, err := FromEnvironment(func(name string) string { return env[name] })
		if err == nil {
			_, err = cfg.check()
		}
		got := fmt.Sprint(cfg.Cache, " ", cfg.Token, " ", cfg.Endpoint, " ", cfg.Offline)
		if err != nil {
			got = err.Error()
		}
		if want := strings.ReplaceAll(c.want, "~", home); got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %q, want %q", c.env, got, want)
		}
	}
}

// TestRetryAfter: the ways in which a hub asks to wait.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"Retry-After: 7": 7 * time.Second, "Retry-After: Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Retry-After: Thu, 01 Jan 2026 03:05:05 GMT": 0,
		"Retry-After: -1": 0, "Retry-After: soon": 0, "Retry-After: 99999999999999": 0, `RateLimit: "api";r=0;t=55`: 56 * time.Second, `RateLimit: "api"; r = 0 ; t = 5`: 6 * time.Second,
		`RateLimit: "api";r=3;t=55`: 0, `RateLimit: x`: 0, "X: y": 0,
	} {
		name, value, _ := strings.Cut(header, ": ")
		if got := retryAfter(http.Header{http.CanonicalHeaderKey(name): {value}}, now); got != want {
			t.Errorf("%s: %v, want %v", header, got, want)
		}
	}
}

// TestSameOrigin: where the token may go.
func TestSameOrigin(t *testing.T) {
	hub, _ := url.Parse("https://huggingface.co")
	for address, want := range map[string]bool{"https://huggingface.co/x": true, "https://HuggingFace.co:443/y": true, "http://huggingface.co/": false, "https://huggingface.co:8443/": false,
		"https://cdn.huggingface.co/": false, "https://huggingface.co.evil.org/": false, "https://evil.org/huggingface.co": false} {
		if u, err := url.Parse(address); err != nil || sameOrigin(u, hub) != want {
			t.Errorf("%s: not %v", address, want)
		}
	}
}

// bits are the bytes of spans, one by one.
func bits(list ...span) (set [40]bool) {
	for _, s := range list {
		for at := s.from; at < s.to; at++ {
			set[at] = true
		}
	}
	return set
}

// TestAddress: parts of an address stay parts, below an endpoint with a path too.
func TestAddress(t *testing.T) {
	for endpoint, want := range map[string]string{
		"https://hub.test":           "https://hub.test/org/name/resolve/refs%2Fpr%2F1/a%20b/c%25.json",
		"http://mirror:8080/hf%20x/": "http://mirror:8080/hf%20x/org/name/resolve/refs%2Fpr%2F1/a%20b/c%25.json",
	} {
		h, err := New(Config{Endpoint: endpoint, Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.address(escapePath("org/name"), "resolve", url.PathEscape("refs/pr/1"), escapePath("a b/c%.json")).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestRedirect: where a redirect may lead.
func TestRedirect(t *testing.T) {
	from, _ := url.Parse("https://hub.test/a/b")
	for location, want := range map[string]string{"/x": "https://hub.test/x", "c?d": "https://hub.test/a/c?d", "https://store.test/x": "https://store.test/x", "//store.test/x": "https://store.test/x",
		"http://hub.test/x": "from https to http", "ftp://x/y": "of the kind", "https://user@hub.test/": "no address", "": "no address", "http://[": "no address", "https:///x": "no address"} {
		next, err := redirect(&http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {location}}}, from)
		if got := fmt.Sprint(next, err); err == nil && next.String() != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("%q: %v, %v; want %s", location, next, err, want)
		}
	}
	if next, err := redirect(&http.Response{StatusCode: http.StatusOK, Header: http.Header{"Location": {"/x"}}}, from); next != nil || err != nil {
		t.Errorf("%v, %v", next, err)
	}
}

// TestSpans compares the spans with a bit for each byte.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func() span { return span{int64(r.IntN(40)), int64(r.IntN(41))} }
	for range 2000 {
		var given, list []span
		for range r.IntN(12) {
			s := random()
			given, list = append(given, s), add(list, s)
		}
		want := bits(given...)
		if bits(list...) != want || slices.ContainsFunc(list, func(s span) bool { return s.from >= s.to }) {
			t.Fatalf("%v became %v", given, list)
		}
		for i := 1; i < len(list); i++ {
			if list[i-1].to >= list[i].from {
				t.Fatalf("%v is not sorted and merged", list)
			}
		}
		in, n := random(), int64(0)
		free, inside := bits(gaps(list, in)...), bits(in)
		for i, set := range want {
			if free[i] != (inside[i] && !set) {
				t.Fatalf("the gaps of %v in %v are wrong at %d", list, in, i)
			}
			if set {
				n++
			}
		}
		if total(list) != n {
			t.Fatalf("%v has %d bytes, want %d", list, total(list), n)
		}
	}
}

// TestAssembly: parts that come in any order and over several goroutines make the file, and its
// hash; what is interrupted anywhere is known afterwards.
func TestAssembly(t *testing.T) {
	text := noise(50_000, 9)
	dir := t.TempDir()
	path, journal := filepath.Join(dir, "f"), filepath.Join(dir, "j")
	r := rand.New(rand.NewPCG(3, 4))
	for left := int64(len(text)); left > 0; {
		a, err := openAssembly(path, journal, int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		if a.missing() != left {
			t.Fatalf("%d bytes are missing, want %d", a.missing(), left)
		}
		for range 1 + r.IntN(4) {
			writeSome(t, a, text, r)
		}
		if left = a.missing(); left == 0 {
			h := digest{}.start(int64(len(text)))
			if err := a.follow(h); err != nil || fmt.Sprintf("%x", h.Sum(nil)) != digestHex(text) {
				t.Errorf("the hash is wrong, %v", err)
			}
		}
		if err := a.close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// writeSome claims a part and writes some of it.
func writeSome(t *testing.T, a *assembly, text string, r *rand.Rand) {
	t.Helper()
	l := a.claim(1 + r.Int64N(9000))
	if l == nil {
		return
	}
	for l.at < l.part.to && r.IntN(5) > 0 {
		to := min(l.part.to, l.at+1+r.Int64N(3000))
		if err := l.write([]byte(text[l.at:to])); err != nil {
			t.Fatal(err)
		}
	}
	if r.IntN(2) == 0 {
		l.release()
	}
}

func digestHex(text string) string {
	h := digest{}.start(0)
	_, _ = io.WriteString(h, text)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// FuzzJournal: a journal that is damaged in any way promises nothing that cannot be there.
func FuzzJournal(f *testing.F) {
	for _, seed := range []string{"", "weir parts 1 100\n", "weir parts 1 100\n0 10\n20 30\n", "weir parts 1 100\n0 1", "weir parts 1 100\n90 200\n", "weir parts 1 100\n5 -1\n-5 6\n", "weir parts 1 99\n0 1\n",
		"weir parts 1 100\n0 9223372036854775807\n", "weir parts 1 100\n 1 2\n"} {
		f.Add([]byte(seed), int64(100), int64(50))
	}
	f.Fuzz(func(t *testing.T, text []byte, size, length int64) {
		path := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		at := int64(-1)
		for _, s := range readJournal(path, size, length) {
			if s.from <= at || s.from >= s.to || s.to > size || s.to > length {
				t.Fatalf("%v of %d, %d", s, size, length)
			}
			at = s.to
		}
	})
}

// FuzzParse: no text makes a path that leads out of the cache.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"org/name", "hf://org/name@refs/pr/1/x.gguf:y", "a/b@../../c", "a/b:..", "..", "a/..", "hf://%2e%2e/x@%2e%2e%2f", "a/b@\x00", "C:/x", "a/b@C:x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := Parse(text)
		if err != nil {
			return
		}
		r := repository{"/cache", repoFolder(ref.Repo)}
		for _, path := range []string{r.dir(), r.ref(ref.revision()), r.snapshot(commitA)} {
			if path != filepath.Clean(path) || !strings.HasPrefix(path, "/cache/models--") {
				t.Fatalf("%q leads to %s", text, path)
			}
		}
		if again, err := Parse(ref.String()); err != nil || again != ref {
			t.Fatalf("%q is %+v, and written as %s %+v, %v", text, ref, ref, again, err)
		}
	})
}

// hostile answers every request with the same text.
type hostile struct {
	header http.Header
	text   string
	status int
}

func (h hostile) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: h.status, Header: h.header, Body: io.NopCloser(strings.NewReader(h.text)), Request: r, ContentLength: int64(len(h.text))}, nil
}

// FuzzAnswers: whatever a hub answers, nothing panics, and nothing is written beside the cache.
func FuzzAnswers(f *testing.F) {
	page := `[{"type":"file","path":"m-Q4_K_M.gguf","size":3,"oid":"x"}]`
	for _, seed := range []struct {
		status       int
		text         string
		etag, header string
	}{
		{200, `{"sha":"` + commitA + `"}`, `"x"`, "Link: <http://hub.test/next>; rel=\"next\""},
		{200, page, `W/"abc"`, "Location: /x"}, {302, page, `../x`, "Location: http://store.test/a"}, {404, "", "", "X-Error-Code: GatedRepo"},
		{206, "abc", `"x"`, "Content-Range: bytes 0-2/3"}, {302, page, "x", "Location: http://x/%zz"}, {200, `[{"type":"file","path":"../x.gguf","size":-1}]`, "", "Retry-After: 1"}, {200, "[[[[", `"`, "X: y"},
	} {
		f.Add(seed.status, seed.text, seed.etag, seed.header)
	}
	f.Fuzz(func(t *testing.T, status int, text, etag, header string) {
		if retryable(status) {
			return // it waits
		}
		name, value, _ := strings.Cut(header, ": ")
		dir := t.TempDir()
		h, err := New(Config{Endpoint: "http://hub.test", Cache: filepath.Join(dir, "hub"), Token: "t",
			Transport: hostile{http.Header{"Etag": {etag}, http.CanonicalHeaderKey(name): {value}}, text, status}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		_, _ = h.commitOf(ctx, "org/name", "main", 1)
		files, err := h.listFiles(ctx, "org/name", commitA, 1)
		for name, file := range files {
			if err == nil && (checkName(name) != nil || !strings.HasPrefix(h.repository("org/name").pointer(commitA, name), dir)) {
				t.Fatalf("%q", name)
			}
			if m, err := h.resolve(ctx, "org/name", commitA, name, &file); err == nil && filepath.Dir(h.repository("org/name").blob(m.etag)) != h.repository("org/name").blob("") {
				t.Fatalf("%q", m.etag)
			}
		}
		_, _ = h.resolve(ctx, "org/name", commitA, "x", &remoteFile{Name: "x", Size: int64(len(text))})
		outside(t, filepath.Join(dir, "hub"))
	})
}

// FuzzIndex: an index of shards names files of the repository or is refused.
func FuzzIndex(f *testing.F) {
	for _, seed := range []string{`{"weight_map":{"a":"b"}}`, `{"weight_map":{"a":"../b"}}`, `{"weight_map":[]}`, `{}`, `{"weight_map":{"a":1}}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		names, err := shards(text, func(name string) bool { return true })
		if err == nil && (len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return checkName(n) != nil })) {
			t.Fatalf("%q", names)
		}
	})
}
