package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/hub/hubtest"
	"weir/internal/testkit"
	"weir/weights"
)

// editModel copies a folder of a model to another one, with other tensors.
func editModel(t *testing.T, from string, edit func([]weights.Tensor) []weights.Tensor) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	c, err := weights.OpenFS(os.DirFS(from))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var list []weights.Tensor
	for _, name := range c.Names() {
		x, _ := c.Tensor(name)
		list = append(list, x)
	}
	data := testkit.Safetensors(edit(list))
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// isHead reports whether a tensor is of the head of a classifier, or of the pooler before it.
func isHead(name string) bool {
	return slices.ContainsFunc([]string{"classifier", "pre_classifier", "score", "head"}, func(part string) bool { return strings.HasPrefix(name, part+".") }) || strings.Contains(name, "pooler.dense.")
}

// headTensors are the names of the tensors of a classifier's head.
func headTensors(t *testing.T, dir string) (names []string) {
	t.Helper()
	editModel(t, dir, func(list []weights.Tensor) []weights.Tensor {
		for _, x := range list {
			if isHead(x.Name) {
				names = append(names, x.Name)
			}
		}
		return list
	})
	if len(names) == 0 {
		t.Errorf("%s has no head", dir)
	}
	return names
}

// TestInspectHeads: whatever is wrong with the head of a classifier is said by inspect as it is by serve, and nothing is said of one that
// is right.
func TestInspectHeads(t *testing.T) {
	t.Parallel()
	list, err := filepath.Glob("../../model/testdata/classifiers/*")
	if err != nil || len(list) < 10 {
		t.Fatalf("%d folders, %v", len(list), err)
	}
	for _, from := range list {
		if code, out, errOut := runWeir("inspect", from); code != 0 || strings.Contains(out, "UNSUPPORTED") {
			t.Errorf("%s: exit %d: %s", from, code, errOut)
		}
		for _, name := range headTensors(t, from) {
			optional := strings.HasPrefix(name, "head.") && strings.HasSuffix(name, ".bias") // not all ModernBERTs have them
			if !optional {
				refusedHead(t, from, name, func(list []weights.Tensor, i int) []weights.Tensor { return slices.Delete(list, i, i+1) })
			}
			refusedHead(t, from, name, func(list []weights.Tensor, i int) []weights.Tensor {
				list[i] = zeros(name, 3, 5, 7)
				return list
			})
		}
	}
}

// refusedHead changes a tensor of a head and sees what inspect and serve say.
func refusedHead(t *testing.T, from, name string, change func(list []weights.Tensor, i int) []weights.Tensor) {
	t.Helper()
	dir := editModel(t, from, func(list []weights.Tensor) []weights.Tensor {
		return change(list, slices.IndexFunc(list, func(x weights.Tensor) bool { return x.Name == name }))
	})
	end := name[max(strings.Index(name, "pooler."), 0):] // what is before it differs between those who wrote a file
	code, out, errOut := runWeir("inspect", dir)
	if code != 1 || !strings.Contains(out, "UNSUPPORTED\n"+dir+": ") || !strings.Contains(errOut, "tensor ") || strings.Count(out, end) != 1 {
		t.Errorf("%s with another %s: exit %d\n%s%s", from, name, code, out, errOut)
	}
	served, _, why := runWeir("serve", "--port", "0", dir)
	if want := strings.TrimPrefix(errOut, "weir: the model cannot be served: "); served != 1 || !strings.HasSuffix(why, want) {
		t.Errorf("serve says %s, and inspect %s", why, errOut)
	}
}

// TestInspectEmbedding: what follows the network of a model that embeds is looked at, too, and its context is that of its texts.
func TestInspectEmbedding(t *testing.T) {
	t.Parallel()
	const from = "../../model/testdata/encoders/embeddinggemma"
	code, out, errOut := runWeir("inspect", "--json", "../../model/testdata/encoders/minilm")
	var x inspection
	if err := json.Unmarshal([]byte(out), &x); code != 0 || err != nil || errOut != "" || x.Context != 64 {
		t.Errorf("exit %d, context %d, %v: %s", code, x.Context, err, errOut)
	}
	dir := editModel(t, from, func(list []weights.Tensor) []weights.Tensor { return list })
	if err := os.Remove(filepath.Join(dir, "3_Dense", "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := runWeir("inspect", dir); code != 1 || !strings.Contains(out, "UNSUPPORTED\n"+dir+": pooling: ") || !strings.Contains(out, "3_Dense") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestInspectHeadsOnHub: of a classifier that is only on the hub the head's headers are read, so that one that is whole is not refused, and
// one that lacks a tensor is.
func TestInspectHeadsOnHub(t *testing.T) {
	s, getenv := tinyOnHub(t)
	t.Setenv("TMPDIR", t.TempDir())
	add := func(name, from string) {
		repo := &hubtest.Repo{Commit: hubCommit, Refs: []string{"main"}, Files: map[string]string{}, Large: []string{"model.safetensors"}}
		err := fs.WalkDir(os.DirFS(from), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(filepath.Join(from, path))
			repo.Files[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Add("org/"+name, repo)
	}
	const whole = "../../model/testdata/classifiers/cross-roberta"
	add("whole", whole)
	add("dense", "../../model/testdata/encoders/embeddinggemma")
	add("headless", editModel(t, whole, func(list []weights.Tensor) []weights.Tensor {
		return slices.DeleteFunc(list, func(x weights.Tensor) bool { return x.Name == "classifier.out_proj.weight" })
	}))
	for name, want := range map[string]string{"whole": "", "dense": "", "headless": "org/headless: pooling: the head of RobertaForSequenceClassification: there is no tensor classifier.out_proj.weight"} {
		code, out, errOut := runWith(getenv, "", "inspect", "org/"+name)
		if (code == 1) != (want != "") || strings.Contains(out, "UNSUPPORTED") != (want != "") || !strings.Contains(out, want) || !strings.Contains(out, "org/"+name+" is not on this machine") {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errOut)
		}
	}
}
