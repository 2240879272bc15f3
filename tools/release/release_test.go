package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var date = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// TestTarball: an archive has all files in a folder, sorted, with the time of the release
// and without the user who made it; the order of the files does not change it.
func TestTarball(t *testing.T) {
	files := []file{{name: "weir", data: []byte("binary"), executable: true}, {name: "LICENSE", data: []byte("text")}, {name: "man/weir.1", data: nil}}
	one, err := tarball("weir_1", slices.Clone(files), date)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	if two, err := tarball("weir_1", files, date); err != nil || !bytes.Equal(one, two) {
		t.Errorf("another order gives another archive, %v", err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil || !h.ModTime.Equal(date) || h.Uid != 0 || h.Uname != "root" {
			t.Errorf("%+v %v", h, err)
		}
		got = append(got, fmt.Sprintf("%s %o %s", h.Name, h.Mode, data))
	}
	if want := []string{"weir_1/LICENSE 644 text", "weir_1/man/weir.1 644 ", "weir_1/weir 755 binary"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// ownModules are the modules of this test binary.
func ownModules(t *testing.T) *modules {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m, err := modulesOf(self)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.deps) == 0 {
		t.Skip("this build does not record its modules")
	}
	return m
}

// TestBillOfMaterials: the bill is valid by the published schema, names every module, and is
// the same each time.
func TestBillOfMaterials(t *testing.T) {
	m := ownModules(t)
	bom, err := billOfMaterials("v1.2.3", platforms[0], []byte("binary"), m, date)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := billOfMaterials("v1.2.3", platforms[0], []byte("binary"), m, date); err != nil || !bytes.Equal(bom, again) {
		t.Errorf("a second one differs, %v", err)
	}
	for _, d := range m.deps {
		if !bytes.Contains(bom, []byte(`"pkg:golang/`+strings.ToLower(d.Path)+"@"+d.Version)) {
			t.Errorf("%s is not there", d.Path)
		}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(bom))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema(t).Validate(document); err != nil {
		t.Errorf("%v\n%s", err, bom)
	}
}

// schema is the schema of CycloneDX 1.6, which the library brings along.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Skip("the library's folder is not known: ", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "schema")
	c := jsonschema.NewCompiler()
	for url, name := range map[string]string{
		"http://cyclonedx.org/schema/bom-1.6.schema.json":  "bom-1.6.schema.json",
		"http://cyclonedx.org/schema/spdx.schema.json":     "spdx.schema.json",
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Skip(err)
		}
		document, err := jsonschema.UnmarshalJSON(f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(url, document); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLicenses: every module's licence is found.
func TestLicenses(t *testing.T) {
	m := ownModules(t)
	r := &release{ctx: t.Context()}
	text, err := r.licenses(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range m.deps {
		if !bytes.Contains(text, []byte("\n"+d.Path+" "+d.Version+": ")) {
			t.Errorf("no licence of %s", d.Path)
		}
	}
	if !bytes.Contains(text, []byte("uPlot 1.6.32")) || !bytes.Contains(text, []byte("Leon Sorokin")) {
		t.Error("no licence of uPlot")
	}
	dir := t.TempDir()
	if err := appendLicenses(&bytes.Buffer{}, "a module", dir); err == nil {
		t.Error("a module without a licence is accepted")
	}
	if err := os.WriteFile(filepath.Join(dir, "COPYING.txt"), []byte("Do as you like.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var one bytes.Buffer
	if err := appendLicenses(&one, "a module", dir); err != nil || !strings.HasSuffix(one.String(), "\n\nDo as you like.\n") || !strings.Contains(one.String(), "\na module: COPYING.txt\n") {
		t.Errorf("%v\n%s", err, &one)
	}
}

// TestRefuses: mistakes in the arguments.
func TestRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"-version", "../x"}, {"-version", "v1", "x"}} {
		if err := run(t.Context(), args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run(t.Context(), []string{"-version", "v1", "-out", t.TempDir()}); err == nil || !strings.Contains(err.Error(), "time of the release") {
		t.Errorf("SOURCE_DATE_EPOCH: %v", err)
	}
	if _, err := moduleHash("h2:abc"); err == nil {
		t.Error("an unknown kind of sum is accepted")
	}
}
