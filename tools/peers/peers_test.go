package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit"
)

// The test binary takes the place of the compared programs if it is started under their
// names. It appends a line for every run to the file that this variable names.
const logVar = "TEST_PEERS_LOG"

func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if os.Getenv(logVar) == "" || strings.HasSuffix(name, ".test") {
		log.SetOutput(io.Discard)
		os.Exit(m.Run())
	}
	if err := pretend(name, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pretend answers as the named program does, with the numbers in testdata.
func pretend(name string, args []string) error {
	who := filepath.Base(filepath.Dir(os.Args[0])) // the folder
	f, err := os.OpenFile(os.Getenv(logVar), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	fmt.Fprintln(f, who, name, strings.Join(args, " "))
	f.Close()
	after := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 {
			return args[i+1]
		}
		return ""
	}
	switch {
	case slices.Contains(args, "3") && name != "weir":
		return fmt.Errorf("three threads are too many")
	case name == "weir":
		canned := "weir-single.json"
		if after("--prefill") == "none" {
			canned = "weir-streams.json"
		}
		src, err := os.ReadFile(filepath.Join("testdata", canned))
		if err != nil {
			return err
		}
		if g := os.Getenv("GODEBUG"); strings.Contains(g, "avx512f") {
			src = bytes.ReplaceAll(src, []byte(`"version": "v1"`), []byte(`"version": "slow"`))
		}
		return os.WriteFile(after("--json"), src, 0o644)
	case name == "llama-bench":
		src, err := os.ReadFile(filepath.Join("testdata", who+"-bench.json"))
		fmt.Printf("%s", src)
		return err
	}
	src, err := os.ReadFile(filepath.Join("testdata", who+"-batched.txt"))
	if who == "ik" { // its table goes to stderr
		fmt.Fprintf(os.Stderr, "%s", src)
	} else {
		fmt.Printf("%s", src)
	}
	return err
}

// fakePrograms makes folders with the programs, and returns the flags that name them.
func fakePrograms(t *testing.T) (dir string, flags []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, path := range []string{"own/weir", "llama/llama-bench", "llama/llama-batched-bench", "ik/llama-bench", "ik/llama-batched-bench"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(self, path); err != nil {
			t.Fatal(err)
		}
	}
	runs := filepath.Join(dir, "log")
	if err := os.WriteFile(runs, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(logVar, runs)
	return dir, []string{"--weir", filepath.Join(dir, "own/weir"), "--llama", filepath.Join(dir, "llama"), "--ik", filepath.Join(dir, "ik"), "--models", "models",
		"--results", filepath.Join(dir, "results"), "--shapes", "llama-3.2-1b", "--types", "q8", "--ik-version", "abc"}
}

// ran returns the programs that were run since the last call.
func ran(t *testing.T, dir string) []string {
	t.Helper()
	path := filepath.Join(dir, "log")
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(src), func(r rune) bool { return r == '\n' })
}

// TestAlternation: the order of the engines changes from round to round, each run is one
// process, and the table has all results.
func TestAlternation(t *testing.T) {
	dir, flags := fakePrograms(t)
	var out bytes.Buffer
	if err := run(t.Context(), append(flags, "--threads", "2", "--rounds", "2", "--only", "/(single|streams)$"), &out); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, line := range ran(t, dir) {
		f := strings.Fields(line)
		order = append(order, f[0]+" "+f[1])
	}
	want := []string{
		"own weir", "llama llama-bench", "ik llama-bench", "llama llama-bench", "ik llama-bench", "own weir",
		"own weir", "llama llama-batched-bench", "ik llama-batched-bench", "llama llama-batched-bench", "ik llama-batched-bench", "own weir",
	}
	if !slices.Equal(order, want) {
		t.Errorf("ran %q", order)
	}
	for _, row := range []string{
		"| prefill 128 | 310 (310–310) | 88.0 (88.0–88.0) | 207 (207–207) | 3.52 | 1.50 | 7 % | 67 % | 63 % |",
		"| decode, 64 streams | 226 (226–226) | 100 (100–100) | 186 (186–186) | 2.26 | 1.22 |",
		"weir v1, llama.cpp 0c1e570, ik_llama.cpp abc; 2 rounds.",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("%q is not in\n%s", row, &out)
		}
	}
	// The estimate now comes from the runs that were measured, which took no time.
	out.Reset()
	if err := run(t.Context(), append(flags, "--threads", "2", "--rounds", "3", "--only", "single$", "--list"), &out); err != nil || !strings.Contains(out.String(), "single") || !strings.Contains(out.String(), "  3 runs, about ") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// TestGodebug: weir runs with the GODEBUG of --godebug, and the table says so.
func TestGodebug(t *testing.T) {
	_, flags := fakePrograms(t)
	var out bytes.Buffer
	if err := run(t.Context(), append(flags, "--threads", "2", "--rounds", "1", "--only", "single$", "--godebug", "cpu.avx512f=off"), &out); err != nil {
		t.Fatal(err)
	}
	if want := "weir slow with GODEBUG=cpu.avx512f=off, llama.cpp"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in\n%s", want, &out)
	}
}

// TestLists: the lengths of prompts and the numbers of streams are those of the flags.
func TestLists(t *testing.T) {
	o, err := parseFlags([]string{"--shapes", "qwen3-0.6b", "--types", "q6_k", "--threads", "2", "--prefill", "512", "--streams", "8,32", "--only", "/(single|streams)$"})
	if err != nil {
		t.Fatal(err)
	}
	cells, err := o.cells()
	if err != nil || len(cells) != 2 || !slices.Equal(cells[0].unit.prefills, []int{512}) || !slices.Equal(cells[1].unit.batches, []int{8, 32}) {
		t.Errorf("%+v, %v", cells, err)
	}
}

// TestTypesOfShapes: a shape has its own type, or all types.
func TestTypesOfShapes(t *testing.T) {
	o, err := parseFlags([]string{"--shapes", "gpt-oss-20b:mxfp4,qwen3-0.6b", "--types", "q4_0,q8_0", "--threads", "2", "--only", "/single$"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	cells, err := o.cells()
	for _, c := range cells {
		names = append(names, c.name()+" "+o.programs.file(c))
	}
	if want := []string{"gpt-oss-20b/mxfp4/2T/single models/gpt-oss-20b-mxfp4.gguf", "qwen3-0.6b/q4_0/2T/single models/qwen3-0.6b-q4_0.gguf", "qwen3-0.6b/q8_0/2T/single models/qwen3-0.6b-q8_0.gguf"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v", names, err)
	}
}

// TestResume: after a failure, the comparison continues where it was and measures nothing
// twice.
func TestResume(t *testing.T) {
	dir, flags := fakePrograms(t)
	var out bytes.Buffer
	err := run(t.Context(), append(flags, "--threads", "2,3", "--rounds", "1", "--only", "single$"), &out)
	if err == nil || !strings.Contains(err.Error(), "three threads are too many") || !strings.Contains(err.Error(), "llama-3.2-1b/q8/3T/single, llama.cpp: ") {
		t.Fatal(err)
	}
	if n := len(ran(t, dir)); n != 5 {
		t.Errorf("%d runs, want three with two threads, weir with three threads and the one that failed", n)
	}
	if err := run(t.Context(), append(flags, "--threads", "2", "--rounds", "2", "--only", "single$"), &out); err != nil {
		t.Fatal(err)
	}
	if got := ran(t, dir); len(got) != 3 || !strings.HasPrefix(got[0], "llama llama-bench ") {
		t.Errorf("ran %q: the second round of three", got)
	}
	out.Reset()
	if err := run(t.Context(), append(flags, "--table"), &out); err != nil || strings.Contains(out.String(), "streams") || len(ran(t, dir)) != 0 {
		t.Errorf("%v\n%s", err, &out)
	}
}

// TestCommands: the command line of each program for every unit.
func TestCommands(t *testing.T) {
	p := programs{weir: "weir", llama: "llama", ik: "ik", models: "models"}
	var b bytes.Buffer
	cells, err := allCells([]string{"qwen3-0.6b"}, []string{"q4", "bf16", "q4_k_m"}, []int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		fmt.Fprintln(&b, "#", c.name())
		for _, e := range p.engines() {
			fmt.Fprintln(&b, strings.Join(p.command(c, e, "FILE"), " "))
		}
	}
	testkit.Golden(t, "testdata/commands.txt", b.Bytes())
}

// TestTable: medians, ranges, and ratios within rounds. Cells that were not measured are not in
// the table.
func TestTable(t *testing.T) {
	cells, err := allCells([]string{"llama-3.2-1b"}, []string{"q8", "q4"}, []int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	rs, err := readResults("testdata/results.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeTable(&b, "a machine", cells, rs); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "testdata/table.md", b.Bytes())
	if err := writeTable(&b, "a machine", cells[:1], &results{}); err == nil {
		t.Error("a table of nothing")
	}
}

// TestRefuses: mistakes in the flags and in the file of results.
func TestRefuses(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, []byte("{}\n{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"takes no arguments":          {"x"},
		"--threads":                   {"--threads", "0"},
		"none of bf16, iq4_xs, mxfp4": {"--types", "q5"},
		"--prefill:":                  {"--prefill", "x"},
		"--streams:":                  {"--streams", ""},
		"no cell matches":             {"--only", "nothing"},
		"--only:":                     {"--only", "("},
		"--quick is an --only":        {"--only", "x", "--quick"},
		"damaged: line 2":             {"--results", damaged},
		"none of these cells":         {"--table", "--results", damaged + "2"},
	} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
