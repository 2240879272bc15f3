package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// words are the candidates without their descriptions.
func words(candidates []string) string {
	var list []string
	for _, c := range candidates {
		word, _, _ := strings.Cut(c, "\t")
		list = append(list, word)
	}
	return strings.Join(list, " ")
}

// TestCompletions: what may stand in place of the last word of a command line.
func TestCompletions(t *testing.T) {
	for line, want := range map[string]string{
		"":                                      "serve chat batch inspect pull list rm bench store health gpu-check completion man version help",
		"s":                                     "serve store",
		"x":                                     "",
		"bench ":                                "start serve sweep chat engine sim store",
		"bench s":                               "start serve sweep sim store",
		"serve ":                                ":file :hub",
		"serve ./mo":                            ":file :hub",
		"rm org/a ":                             ":hub",
		"list ":                                 "",
		"rm --y":                                "--yes",
		"serve --kv-cache-":                     "--kv-cache-dtype --kv-cache-memory",
		"serve --dtype ":                        "auto float32 float16 bfloat16",
		"serve --dtype f":                       "float32 float16",
		"serve --dtype=f":                       "--dtype=float32 --dtype=float16",
		"serve --dtype =":                       "auto float32 float16 bfloat16", // bash makes three words of it
		"serve --dtype = b":                     "bfloat16",
		"serve --port ":                         "",
		"serve --config ":                       ":file",
		"serve --config=x":                      ":file",
		"serve --data-dir ":                     ":folder",
		"serve --dev-mode ":                     ":file :hub", // takes no value
		"serve --api-key secret --quantization": "--quantization",
		"chat --dev":                            "--device",
		"store ":                                "backup restore verify repair export",
		"store v":                               "verify",
		"store backup ":                         ":file",
		"store --data-dir x ex":                 "export",
		"bench serve --endpoint ":               "chat completions",
		"bench serve -- --quantization ":        "auto q8 q4 w8a8",
		"completion ":                           "bash zsh fish",
		"completion bash ":                      "",
		"help ":                                 "serve chat batch inspect pull list rm bench store health gpu-check completion man version help",
		"help bench e":                          "engine",
		"version ":                              "",
	} {
		args := strings.Split(line, " ")
		if got := words(completions(args[:len(args)-1], args[len(args)-1])); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := completions([]string{"serve"}, "--ho"); len(got) != 1 || !strings.HasPrefix(got[0], "--host\taddress to listen on") {
		t.Errorf("--host has the description %q", got)
	}
	// Every flag of every command completes to itself.
	for _, c := range commands() {
		for name := range c.flagDocs() {
			if got := completions(strings.Fields(c.name), name); len(got) == 0 || !slices.Contains(strings.Fields(words(got)), name) {
				t.Errorf("weir %s %s: %q", c.name, name, got)
			}
		}
	}
}

// shell starts a shell in a folder where weir is this test binary and model is a
// folder, beside a file.
func shell(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "weir")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "models a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "models.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), mainVar+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir, "TERM=dumb")
	return cmd
}

// shellCases are command lines, and what a shell must offer for each.
var shellCases = []struct {
	line []string
	want string
}{
	{[]string{"s"}, "serve,store"},
	{[]string{"bench", "s"}, "serve,sim,start,store,sweep"},
	{[]string{"serve", "--kv-cache-"}, "--kv-cache-dtype,--kv-cache-memory"},
	{[]string{"serve", "--dtype", "f"}, "float16,float32"},
	{[]string{"serve", "mod"}, "models a,models.yaml"},
	{[]string{"serve", "--data-dir", "mod"}, "models a"},
	{[]string{"serve", "--config", "mod"}, "models a,models.yaml"},
	{[]string{"version", ""}, ""},
}

// offered are the lines of a shell's output, sorted, without descriptions and the
// slash of folders.
func offered(out string) string {
	var list []string
	for line := range strings.Lines(out) {
		if word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); word != "" {
			list = append(list, strings.TrimSuffix(strings.ReplaceAll(word, `\ `, " "), "/"))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// TestBashCompletion runs the script in bash, as readline would.
func TestBashCompletion(t *testing.T) {
	cases := slices.Clone(shellCases)
	cases = append(cases, struct {
		line []string
		want string
	}{[]string{"serve", "--dtype", "=", "f"}, "float16,float32"}) // how bash splits --dtype=f
	for _, c := range cases {
		script := fmt.Sprintf(`source <(weir completion bash) || exit 1
complete -p weir >/dev/null || exit 2
COMP_WORDS=(weir "$@"); COMP_CWORD=%d
_weir
printf '%%s\n' "${COMPREPLY[@]}"`, len(c.line))
		out, err := shell(t, "bash", append([]string{"--norc", "-c", script, "bash"}, c.line...)...).Output()
		if got := offered(string(out)); err != nil || got != c.want {
			t.Errorf("%q: %q, want %q, %v", c.line, got, c.want, err)
		}
	}
}

// TestFishCompletion asks fish what it would offer.
func TestFishCompletion(t *testing.T) {
	for _, c := range shellCases {
		out, err := shell(t, "fish", "-N", "-c", `weir completion fish | source; complete -C "$argv"`, "weir "+strings.Join(c.line, " ")).Output()
		if got := offered(string(out)); err != nil || got != c.want {
			t.Errorf("%q: %q, want %q, %v", c.line, got, c.want, err)
		}
	}
}

// TestZshCompletion runs the script in zsh. In place of zsh's completion system there
// are functions that print what they are given.
func TestZshCompletion(t *testing.T) {
	const script = `
compdef() { registered=$* }
source <(weir completion zsh) || exit 1
[[ $registered == "_weir weir" ]] || exit 2
compadd() { local -a list; list=("${(@P)@[-1]}"); print -rl -- $list }
compset() { }
_files() { if [[ $1 == -/ ]]; then print -rl -- ${PREFIX}*(N/); else print -rl -- ${PREFIX}*(N); fi }
words=(weir "$@"); CURRENT=$#words; PREFIX=${words[-1]}
_weir`
	for _, c := range shellCases {
		out, err := shell(t, "zsh", append([]string{"-f", "-c", script, "zsh"}, c.line...)...).Output()
		if got := offered(string(out)); err != nil || got != c.want {
			t.Errorf("%q: %q, want %q, %v", c.line, got, c.want, err)
		}
	}
}
