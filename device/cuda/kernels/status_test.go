package kernels

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestStatusTable: STATUS.md has one row for each kernel, in the order of the
// launch table, which says where it is emulated, that it is tested there, and what
// a GPU said.
func TestStatusTable(t *testing.T) {
	b, err := os.ReadFile("../STATUS.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 6 && strings.HasPrefix(cells[0], "`") {
			rows = append(rows, cells)
		}
	}
	tests := map[string]string{}
	registers := regexp.MustCompile(`^\d+$`)
	gpu := regexp.MustCompile(`^(–|\[\d{4}-\d{2}-\d{2}\]\(results/\S+\.json\))$`)
	var got, want []string
	for _, r := range rows {
		name := strings.Trim(r[0], "`")
		got = append(got, name)
		if tests[r[1]] == "" {
			src, err := os.ReadFile("emu/test_" + r[1] + ".cc")
			if err != nil {
				t.Errorf("%s: emulated by %q: %v", name, r[1], err)
				continue
			}
			tests[r[1]] = string(src)
		}
		// Entries of a family are launched by a name that is put together.
		stem := regexp.MustCompile(`(bf16|q8|q4|mxfp4)?_?[dhnx]?\d*$`).ReplaceAllString(name, "")
		if !strings.Contains(tests[r[1]], `"`+stem) {
			t.Errorf("%s: emu/test_%s.cc launches nothing that begins with %q", name, r[1], stem)
		}
		if !registers.MatchString(r[2]) || !gpu.MatchString(r[3]) || (r[3] == "–") != (r[4] == "–") {
			t.Errorf("%s: registers %q, GPU %q, error %q", name, r[2], r[3], r[4])
		}
	}
	for _, e := range Entries {
		want = append(want, e.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("STATUS.md has the kernels\n%v,\nthe launch table\n%v", got, want)
	}
}
