package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/hub"
	"weir/hub/hubtest"
	"weir/internal/testkit"
	"weir/weights"
)

// addGGUF puts a model in a GGUF file on the hub, as org/NAME, and in a second file that is only there to
// be chosen from. It returns the size of the first.
func addGGUF(t *testing.T, s *hubtest.Server, name string) int {
	t.Helper()
	g := tinyGGUF(t)
	g.Set("tokenizer.note", strings.Repeat("x", 600<<10)) // a header that is longer than what is read at first
	text, err := os.ReadFile(writeGGUF(t, "m.gguf", g))
	if err != nil {
		t.Fatal(err)
	}
	s.Add("org/"+name, &hubtest.Repo{Commit: hubCommit, Refs: []string{"main"}, Large: []string{"m-bf16.gguf", "m-q4_0.gguf"},
		Files: map[string]string{"m-bf16.gguf": string(text), "m-q4_0.gguf": "x"}})
	return len(text)
}

// read is how many bytes of large files were asked for, and whether only parts of them were.
func read(calls []hubtest.Call) (bytes int, parts bool) {
	parts = true
	for _, c := range calls {
		if c.Host != hubtest.Store || c.Method != "GET" {
			continue
		}
		from, to, ok := strings.Cut(strings.TrimPrefix(c.Range, "bytes="), "-")
		a, err := strconv.Atoi(from)
		b, wrong := strconv.Atoi(to)
		parts = parts && ok && err == nil && wrong == nil
		bytes += b + 1 - a
	}
	return bytes, parts
}

// TestInspectOnHub: of a model that is only on the hub the same is said as after its download, except
// where it is; most of its weights are not read, nothing is written into the cache, and nothing is left.
func TestInspectOnHub(t *testing.T) {
	s, getenv := tinyOnHub(t)
	t.Setenv("TMPDIR", t.TempDir())
	sizes := map[string]int{"org/gguf:BF16": addGGUF(t, s, "gguf")}
	info, err := os.Stat(filepath.Join(copyModel(t), "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	sizes["org/tiny"] = int(info.Size())
	for name, size := range sizes {
		s.Calls()
		code, out, errOut := runWith(getenv, "", "inspect", name)
		if came, parts := read(s.Calls()); came == 0 || came > size/2 || !parts {
			t.Errorf("%s: %d bytes of a file of %d were asked for, parts %v", name, came, size, parts)
		}
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
			t.Errorf("%s: %v are left, %v", name, left, err)
		}
		if _, err := os.Stat(getenv("HF_HUB_CACHE")); err == nil {
			t.Errorf("%s: there is a cache", name)
		}
		repo, _, _ := strings.Cut(name, ":")
		note := repo + " is not on this machine: headers were read from the hub, of its commit " + hubCommit
		if code != 0 || errOut != "" || !strings.Contains(out, note) || strings.Contains(out, "weir-inspect-") {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errOut)
		}
		if code, _, errOut := runWith(getenv, "", "pull", name); code != 0 {
			t.Fatal(errOut)
		}
		s.Calls()
		code, whole, _ := runWith(getenv, "", "inspect", name)
		folder := filepath.Join(getenv("HF_HUB_CACHE"), strings.ReplaceAll("models--"+repo, "/", "--"), "snapshots", hubCommit)
		if len(s.Calls()) != 0 || code != 0 || strings.ReplaceAll(whole, folder, repo) != strings.Replace(out, "\nNOTES\n"+note+"\n", "", 1) {
			t.Errorf("%s: exit %d\n%s\nthat was\n%s", name, code, whole, out)
		}
		if err := os.RemoveAll(getenv("HF_HUB_CACHE")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInspectNotOnHub: a model that cannot be looked at is one sentence.
func TestInspectNotOnHub(t *testing.T) {
	s, getenv := tinyOnHub(t)
	addGGUF(t, s, "gguf")
	offline := func(name string) string {
		if name == "HF_HUB_OFFLINE" {
			return "1"
		}
		return getenv(name)
	}
	for _, c := range []struct {
		getenv func(string) string
		name   string
		want   string
	}{
		{offline, "org/tiny", "org/tiny is not in the cache " + getenv("HF_HUB_CACHE") + ", and the hub is not asked because HF_HUB_OFFLINE is set"},
		{getenv, "org/gguf", "org/gguf has no Q4_K_M, which is taken where nothing is said"},
		{getenv, "org/gguf:Q4_0", "org/gguf/m-q4_0.gguf"},
		{getenv, "org/none", "org/none does not exist on "},
	} {
		code, out, errOut := runWith(c.getenv, "", "inspect", c.name)
		if code != 1 || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, c.want) || strings.Contains(errOut, "weir-inspect-") {
			t.Errorf("%s: exit %d, %q, %q; want %q", c.name, code, out, errOut, c.want)
		}
	}
}

// TestWanted: beside the header, those numbers are wanted that decide whether a model can be opened.
func TestWanted(t *testing.T) {
	tensor := func(name string, d weights.DType, n int) weights.Tensor {
		return weights.Tensor{Name: name, DType: d, Shape: []int{n}, Data: make([]byte, n*d.Size())}
	}
	folder := testkit.Safetensors([]weights.Tensor{tensor("a.weight", weights.BF16, 100), tensor("a.weight_scale", weights.F32, 1), tensor("a.g_idx", weights.I32, 50), tensor("b.bias", weights.BF16, 9), tensor("b.input_scale", weights.I32, 1)})
	g := &testkit.GGUF{Tensors: []testkit.GGUFTensor{{Name: "a", Shape: []uint64{32}, Data: make([]byte, 128)}, {Name: "rope_freqs.weight", Shape: []uint64{16}, Data: make([]byte, 64)},
		{Name: "rope_factors_short.weight", Shape: []uint64{16}, Data: make([]byte, 64)}}}
	for _, c := range []struct {
		file []byte
		want []hub.Span // from the beginning of the data on
	}{
		{folder, []hub.Span{{From: 200, To: 204}, {From: 204, To: 404}}},
		{g.Bytes(), []hub.Span{{From: 128, To: 192}, {From: 192, To: 256}}},
	} {
		all := c.want[len(c.want)-1].To + map[bool]int64{true: 22}[c.want[0].From == 200] // what follows is not wanted
		data := int64(len(c.file)) - all
		w := wanted("x", c.file[:data])
		for i := range w.Spans {
			w.Spans[i].From, w.Spans[i].To = w.Spans[i].From-data, w.Spans[i].To-data
		}
		if w.Begin > data || !slices.Equal(w.Spans, c.want) {
			t.Errorf("%+v, want %+v", w, c.want)
		}
		if w := wanted("x", c.file[:data/2]); w.Begin <= data/2 || w.Spans != nil {
			t.Errorf("half a header: %+v", w)
		}
	}
	var many []weights.Tensor
	for i := range tooManySpans + 1 {
		many = append(many, tensor(strconv.Itoa(i), weights.I32, 1), tensor(strconv.Itoa(i)+"x", weights.I32, 10))
	}
	if w := wanted("x", testkit.Safetensors(many)); w.Spans != nil {
		t.Errorf("%d spans", len(w.Spans))
	}
	if w := wanted("x", []byte("GGUF\x09\x00\x00\x00")); w.Begin != 0 || w.Spans != nil {
		t.Errorf("a version that nobody knows: %+v", w)
	}
}

// TestTokenizerOfGGUF: --tokenizer says clearly that it takes no GGUF file.
func TestTokenizerOfGGUF(t *testing.T) {
	file := writeGGUF(t, "m.gguf", tinyGGUF(t))
	code, out, errOut := runWeir("chat", "--tokenizer", file, file)
	if code != 1 || out != "" || !strings.Contains(errOut, "--tokenizer "+file+" is a GGUF file, whose tokenizer serves its own model alone: give a folder") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
}
