package kernels

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func ptxOf(t *testing.T, f Flavour) string {
	t.Helper()
	packed, err := os.ReadFile("ptx/" + f.String() + ".ptx.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPTXIsFresh: the committed PTX was compiled from the committed sources.
func TestPTXIsFresh(t *testing.T) {
	files, err := filepath.Glob("src/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no sources", err)
	}
	slices.Sort(files)
	h := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(f), len(b))
		h.Write(b)
	}
	for _, f := range []Flavour{SM80, SM90a} {
		line, _, _ := strings.Cut(ptxOf(t, f), "\n")
		if want := fmt.Sprintf("// weir kernels %s, sources %x", f, h.Sum(nil)); line != want {
			t.Errorf("ptx/%s.ptx.gz says %q, the sources are %q: make kernels", f, line, want)
		}
	}
}

var (
	entryRE  = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)\n(.*?)\{`)
	paramRE  = regexp.MustCompile(`\.param (?:\.align \d+ )?\.(\w+)(?: \.ptr[^_]*?(?:\.align \d+)?)? \w+(?:\[(\d+)\])?`)
	threadRE = regexp.MustCompile(`\.maxntid (\d+)`)
)

// TestPTXMatchesTable: every entry has the parameters and the block size that
// the launch table says, and nothing is missing on either side.
func TestPTXMatchesTable(t *testing.T) {
	for _, f := range []Flavour{SM80, SM90a} {
		found := map[string]bool{}
		for _, m := range entryRE.FindAllStringSubmatch(ptxOf(t, f), -1) {
			name := m[1]
			found[name] = true
			i := slices.IndexFunc(Entries, func(e Entry) bool { return e.Name == name && e.Flavour == f })
			if i < 0 {
				t.Errorf("%s: %s is not in the launch table", f, name)
				continue
			}
			if got, want := ptxParams(m[2]), tableParams(Entries[i]); !slices.Equal(got, want) {
				t.Errorf("%s: %s takes %v, the table says %v", f, name, got, want)
			}
			threads := threadRE.FindStringSubmatch(m[3])
			if threads == nil || threads[1] != strconv.Itoa(Entries[i].Threads) {
				t.Errorf("%s: %s has %v, the table says %d threads", f, name, threads, Entries[i].Threads)
			}
		}
		for _, e := range Entries {
			if e.Flavour == f && !found[e.Name] {
				t.Errorf("%s: %s is in the launch table alone", f, e.Name)
			}
		}
	}
}

// ptxParams are the types of an entry's parameters, without signs.
func ptxParams(list string) (types []string) {
	for _, p := range paramRE.FindAllStringSubmatch(list, -1) {
		s := p[1]
		if p[2] != "" {
			s += "[" + p[2] + "]"
		}
		types = append(types, unsigned.Replace(s))
	}
	return types
}

var unsigned = strings.NewReplacer("b64", "u64", "s32", "u32", "b32", "u32")

// tableParams are the same as the launch table has them.
func tableParams(e Entry) (types []string) {
	names := map[Type]string{Ptr: "u64", I32: "u32", I64: "u64", F32: "f32", TMap: "b8[128]"}
	for _, p := range e.Params {
		types = append(types, names[p.Type])
	}
	return types
}

// A multiplication or addition that does not say how it rounds may be fused
// into the next by the driver's assembler.
var looseRE = regexp.MustCompile(`\b(mul|add|sub|mad)\.(ftz\.)?f(32|64)`)

// TestPTXLint: no local memory, no calls, the versions that old drivers take,
// and no arithmetic that an assembler may fuse; in pick none that is fused, since
// package sampler rounds every operation.
func TestPTXLint(t *testing.T) {
	for f, version := range map[Flavour]string{SM80: "7.0", SM90a: "8.0"} {
		ptx := ptxOf(t, f)
		for _, want := range []string{"\n.version " + version + "\n", "\n.target " + f.String() + "\n"} {
			if !strings.Contains(ptx, want) {
				t.Errorf("%s: no line %q", f, strings.TrimSpace(want))
			}
		}
		entry := ""
		for i, line := range strings.Split(ptx, "\n") {
			if name, ok := strings.CutPrefix(line, ".visible .entry "); ok {
				entry = strings.TrimSuffix(name, "(")
			}
			if strings.Contains(line, ".local") || strings.Contains(line, "call") && !strings.HasPrefix(line, "//") {
				t.Errorf("%s line %d, %s: %s", f, i+1, entry, strings.TrimSpace(line))
			}
			if looseRE.MatchString(line) || entry == "pick" && strings.Contains(line, "fma.") {
				t.Errorf("%s line %d, %s may round otherwise than the source: %s", f, i+1, entry, strings.TrimSpace(line))
			}
		}
	}
}
