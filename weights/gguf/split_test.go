package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/testkit"
	"weir/weights"
)

// parts is a model in three files.
func parts() map[string]*testkit.GGUF {
	files := map[string]*testkit.GGUF{}
	for i := range 3 {
		g := &testkit.GGUF{Keys: []testkit.GGUFKey{
			{Key: "split.no", Value: uint16(i)}, {Key: "split.count", Value: uint16(3)}, {Key: "split.tensors.count", Value: int32(4)},
		}}
		if i == 0 {
			g.Set("general.architecture", "llama")
			g.Set("general.name", "parts")
		}
		for j := range 2 * i % 3 { // 0, 2, 1
			g.Tensors = append(g.Tensors, testkit.GGUFTensor{Name: fmt.Sprintf("t%d.%d", i, j), Type: 0, Shape: []uint64{2}, Data: numbers(10*i+j, 8)})
		}
		files[fmt.Sprintf("m-%05d-of-00003.gguf", i+1)] = g
	}
	files["m-00001-of-00003.gguf"].Tensors = []testkit.GGUFTensor{{Name: "first", Type: 0, Shape: []uint64{2}, Data: numbers(99, 8)}}
	return files
}

func encode(files map[string]*testkit.GGUF) map[string][]byte {
	all := map[string][]byte{}
	for name, g := range files {
		all[name] = g.Bytes()
	}
	return all
}

// TestSplit: any part opens all, in the order of their numbers.
func TestSplit(t *testing.T) {
	files := encode(parts())
	names := slices.Sorted(maps.Keys(files))
	dir := write(t, files)
	fsys := fstest.MapFS{}
	for name, b := range files {
		fsys["in/"+name] = &fstest.MapFile{Data: b}
	}
	for _, name := range names {
		f, err := Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		embedded, err := OpenFS(fsys, "in/"+name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, f := range []*File{f, embedded} {
			var tensors []string
			for _, x := range f.Tensors() {
				tensors = append(tensors, x.Name)
			}
			if !slices.Equal(tensors, []string{"first", "t1.0", "t1.1", "t2.0"}) || f.Tensors()[2].Data[0] != 11 {
				t.Errorf("%s: tensors %q", name, tensors)
			}
			if v, _ := f.Metadata.String("general.name"); v != "parts" {
				t.Errorf("%s: name %q", name, v)
			}
			if len(f.Parts) != 3 || filepath.Base(f.Parts[1]) != names[1] {
				t.Errorf("%s: parts %q", name, f.Parts)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestHostileSplits: parts that are missing or do not belong together are one sentence.
func TestHostileSplits(t *testing.T) {
	const one, two, three = "m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"
	for _, c := range []struct {
		name   string
		change func(files map[string]*testkit.GGUF)
		open   string
		want   []string
	}{
		{"missing", func(f map[string]*testkit.GGUF) { delete(f, two) }, one, []string{two, "is missing, which is part 2 of 3"}},
		{"first missing", func(f map[string]*testkit.GGUF) { delete(f, one) }, three, []string{one, "is missing, which is part 1 of 3"}},
		{"circle", func(f map[string]*testkit.GGUF) { f[one], f[two] = f[two], f[one] }, one,
			[]string{one, "is called part 1 of 3, but its keys split.no and split.count say that it is part 2 of 3"}},
		{"circle behind", func(f map[string]*testkit.GGUF) { f[three] = f[one] }, one, []string{three, "has split.no 0, split.count 3", "they are not of one model"}},
		{"other count", func(f map[string]*testkit.GGUF) { f[two].Set("split.count", uint16(4)) }, one, []string{two, "has split.no 1, split.count 4"}},
		{"other total", func(f map[string]*testkit.GGUF) { f[two].Set("split.tensors.count", int32(5)) }, one, []string{two, "split.tensors.count 5"}},
		{"wrong total", func(f map[string]*testkit.GGUF) {
			for _, g := range f {
				g.Set("split.tensors.count", int32(5))
			}
		}, one, []string{one, "split.tensors.count is 5, but the 3 parts have 4 tensors"}},
		{"other architecture", func(f map[string]*testkit.GGUF) { f[three].Set("general.architecture", "qwen2") }, one, []string{three, one, `its general.architecture is "qwen2", not "llama"`}},
		{"other name", func(f map[string]*testkit.GGUF) { f[two].Set("general.name", "x") }, three, []string{two, one, `its general.name is "x", not "parts"`}},
		{"tensor twice", func(f map[string]*testkit.GGUF) { f[three].Tensors[0].Name = "t1.0" }, one, []string{`the tensor "t1.0" is in`, two, three}},
		{"a whole model as a part", func(f map[string]*testkit.GGUF) { f[two] = small() }, one, []string{two, "has split.no 0, split.count 0"}},
		{"no number", func(f map[string]*testkit.GGUF) { f[one].Keys = f[one].Keys[1:] }, one, []string{one, "is one of 3 parts, but has no key split.no"}},
		{"no total", func(f map[string]*testkit.GGUF) { f[one].Keys[2].Key = "other" }, one, []string{one, "is one of 3 parts, but has no key split.tensors.count"}},
		{"count of text", func(f map[string]*testkit.GGUF) { f[one].Set("split.count", "3") }, one, []string{one, `the key split.count is "3" (string), not an integer`}},
		{"negative", func(f map[string]*testkit.GGUF) { f[one].Set("split.count", int32(-3)) }, one, []string{one, `the key split.count is -3 (int32), not a count`}},
		{"60000 parts", func(f map[string]*testkit.GGUF) { f[one].Set("split.count", uint16(60000)) }, one, []string{one, "the key split.count is 60000, more than the 1024 allowed"}},
		{"renamed", func(f map[string]*testkit.GGUF) { f["model.gguf"] = f[two] }, "model.gguf", []string{"model.gguf", "is part 2 of 3, and its name does not say how the others are called"}},
		{"damaged behind", func(f map[string]*testkit.GGUF) { f[three].Tensors[0].Type = 1000 }, one, []string{three, `the tensor "t2.0" is of the unknown type 1000`}},
	} {
		files := parts()
		c.change(files)
		dir := write(t, encode(files))
		f, err := Open(filepath.Join(dir, c.open))
		if err == nil {
			t.Errorf("%s: opened %q", c.name, f.Parts)
			continue
		}
		if !errors.Is(err, weights.ErrDamaged) && !errors.Is(err, ErrUnsupported) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, which does not say %q", c.name, err, want)
			}
		}
	}
}

// TestLinkedParts: parts may be links to files of other names, as in a cache of a model hub.
func TestLinkedParts(t *testing.T) {
	dir, blobs := t.TempDir(), t.TempDir()
	for name, b := range encode(parts()) {
		blob := filepath.Join(blobs, fmt.Sprintf("%x", name))
		if err := errors.Join(os.WriteFile(blob, b, 0o600), os.Symlink(blob, filepath.Join(dir, name))); err != nil {
			t.Skip(err)
		}
	}
	f, err := Open(filepath.Join(dir, "m-00002-of-00003.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Tensors()) != 4 || !bytes.Equal(f.Tensors()[0].Data, numbers(99, 8)) {
		t.Errorf("%d tensors", len(f.Tensors()))
	}
}
