package main

import (
	"runtime"
	"strings"
	"testing"

	"weir/device/cpu"
)

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{nil, 2, "weir serve [MODEL]"},
		{[]string{"help"}, 0, "weir chat"},
		{[]string{"--help"}, 0, "weir chat"},
		{[]string{"help", "bench", "serve"}, 0, "--request-rate"},
		{[]string{"help", "bench"}, 0, "weir bench store"},
		{[]string{"help", "bogus"}, 2, `no command "bogus"`},
		{[]string{"bench", "--help"}, 0, "weir bench engine"},
		{[]string{"version"}, 0, "weir " + version + " " + runtime.Version()},
		{[]string{"--version"}, 0, "instructions: " + cpu.Impls()[0] + " (of "},
		{[]string{"version", "x"}, 2, "takes no arguments"},
		{[]string{"serve", "--help"}, 0, "--max-model-len"},
		{[]string{"serve", "--cpu", "sse9"}, 2, `implementation "sse9" is not available here; there are ` + strings.Join(cpu.Impls(), ", ")},
		{[]string{"serve", "--threads", "2", "--cpu-pin", "8191"}, 2, "2 threads are to be bound to the 1 processors 8191"},
		{[]string{"serve", "--threads", "2000"}, 2, "threads 2000 is not in [0, 1024]"},
		{[]string{"chat", "--help"}, 0, "--url"},
		{[]string{"bogus"}, 2, `unknown command "bogus"`},
		{[]string{"chat", "a", "b"}, 2, "one model"},
	} {
		code, out, errOut := runWeir(c.args...)
		if out += errOut; code != c.code || !strings.Contains(out, c.out) {
			t.Errorf("%q: exit %d: %s", c.args, code, out)
		}
	}
}

// TestHelp: every command is in the overview and has a help text, in lines that fit a
// terminal, with every flag that it takes and an explanation of each.
func TestHelp(t *testing.T) {
	_, overview, _ := runWeir("help")
	for _, c := range commands() {
		if !strings.Contains(overview, "weir "+c.name) || !strings.Contains(overview, c.summary) {
			t.Errorf("weir help does not list %s", c.name)
		}
		code, help, errOut := runWeir(append(strings.Fields(c.name), "--help")...)
		if code != 0 || errOut != "" || !strings.HasPrefix(help, "Usage: weir "+c.name) {
			t.Errorf("weir %s --help: exit %d: %s%s", c.name, code, help, errOut)
		}
		_, groups := documentedFlags(c)
		for _, flags := range groups {
			for _, flag := range flags {
				if d := describe(flag); !strings.Contains(help, "\n  "+d.written()+"\n") || len(d.text) < 10 {
					t.Errorf("weir %s --help does not explain --%s", c.name, flag.Name)
				}
			}
		}
		for line := range strings.Lines(help) {
			if n := len([]rune(line)); n > helpWidth+1 && !strings.HasPrefix(line, "  --") {
				t.Errorf("weir %s --help: a line of %d characters: %s", c.name, n, line)
			}
		}
	}
}

// TestDescribe: what help says about a flag's value and its default.
func TestDescribe(t *testing.T) {
	f := newFlagSet("test")
	f.Int("plain", 3, "a `number`")
	f.Bool("on", true, "is on")
	f.Bool("off", false, "is off")
	f.String("own", "x", "a text (default: its own words)")
	f.StringSlice("list", []string{"a", "b"}, "`names`")
	var c string
	f.oneOf(&c, "choice", "a choice", "a", "b")
	var s size
	f.Var(&s, "size", "how much")
	for name, want := range map[string]string{
		"plain":  "plain number: a number (default: 3)",
		"on":     "on: is on (default: on; --no-on turns it off)",
		"off":    "off: is off",
		"own":    "own string: a text (default: its own words)",
		"list":   "list names: names (default: a,b)",
		"choice": "choice a|b: a choice (default: a)",
		"size":   "size size: how much",
	} {
		d := describe(f.Lookup(name))
		if got := d.synopsis() + ": " + d.text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
