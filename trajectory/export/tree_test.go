package export

import (
	"archive/tar"
	"io"
	"reflect"
	"strings"
	"testing"

	"weir/trajectory/archive"
)

// TestART checks the files in the tar and their rows.
func TestART(t *testing.T) {
	a := newArchive(t, first, other, strings.Replace(first, `"step":3,`, "", 1), first, `{"split":"train","step":12345,"trajectory_groups":[{}]}`)
	r := tar.NewReader(strings.NewReader(export(t, a, &archive.Filter{}, Options{Format: ART})))
	files := map[string]string{}
	var names []string
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
		names = append(names, h.Name)
	}
	const dir = "models/a%2Fm/trajectories/"
	// The step is that of the batch, or else of the group's first trajectory that has one.
	if want := []string{dir + "%2E.%2Fval/0004.parquet", dir + "train/0003.parquet", dir + "train/0007.parquet", dir + "train/12345.parquet", dir + "train/unversioned.parquet"}; !reflect.DeepEqual(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	group := `{"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]}: ` + rollout + " " + plain
	for name, want := range map[string][]string{
		"train/0003.parquet":        {group, `{"exceptions":[{}]}:`, group, `{"exceptions":[{}]}:`},
		"train/0007.parquet":        {group},
		"train/unversioned.parquet": {`{"exceptions":[{}]}:`},
		"train/12345.parquet":       {`{}:`},
	} {
		if got := rebuild(t, rows[artRow](t, files[dir+name])); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if n := len(open(t, files[dir+name]).Schema().Columns()); n != 18 {
			t.Errorf("%s: %d columns", name, n)
		}
	}
}

// TestFileName checks docs/interface/trajectories.md, section 2.7.
func TestFileName(t *testing.T) {
	for in, want := range map[string]string{
		"train": "train", "../../x": "%2E.%2F..%2Fx", ".": "%2E", "..": "%2E.", "a/b": "a%2Fb", "🦊": "%F0%9F%A6%8A", "A-z_0.9": "A-z_0.9", "a b\x00%": "a%20b%00%25", "": "",
	} {
		if got := FileName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
