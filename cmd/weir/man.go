package main

import (
	"fmt"
	"io"
	"strings"
)

func setupMan(_ *flagSet, env *environment) action {
	return func(args []string) error {
		if err := noArguments("man", args); err != nil {
			return err
		}
		return writeManual(env.out)
	}
}

// writeManual writes weir(1) in the man macros of roff, which every reader of manual
// pages understands. It contains no date and nothing about this machine, so that equal
// programs print equal pages.
func writeManual(w io.Writer) error {
	r := &roff{}
	r.macro("TH", "WEIR", "1", "", "weir "+version, "")
	r.macro("SH", "NAME")
	r.text("weir - inference server for language models")
	r.macro("SH", "SYNOPSIS")
	for i, c := range commands() {
		if i > 0 {
			r.macro("br")
		}
		r.macro("B", "weir "+c.name)
		r.text(c.args)
	}
	r.macro("SH", "DESCRIPTION")
	r.text("weir serves language models over HTTP with the OpenAI interface, chats with them in the terminal, and measures how fast all of that is.")
	r.macro("PP")
	r.text(modelArgument)
	r.macro("SH", "COMMANDS")
	for _, c := range commands() {
		r.command(c)
	}
	r.macro("SH", "CONFIGURATION")
	r.text("Every flag can be set in three ways. The first of these that sets it counts:")
	for _, way := range [][2]string{
		{"command line", "--max-model-len 4096"},
		{"environment", "WEIR_MAX_MODEL_LEN=4096"},
		{"YAML file", "max-model-len: 4096, in the file that --config names"},
	} {
		r.macro("TP")
		r.text(way[0])
		r.text(way[1])
	}
	r.macro("PP")
	r.text("A flag --x that is on or off can also be given as --no-x. In the YAML file, a flag that may be repeated takes a list.")
	r.macro("SH", "EXIT STATUS")
	for _, status := range [][2]string{{"0", "Success."}, {"1", "A failure."}, {"2", "weir was called wrongly."}} {
		r.macro("TP")
		r.text(status[0])
		r.text(status[1])
	}
	r.macro("SH", "FILES")
	r.macro("TP")
	r.text("$XDG_DATA_HOME/weir, or ~/.local/share/weir")
	r.text("What weir serve keeps between runs, unless --data-dir says otherwise: counts of usage, feedback and trajectories.")
	r.macro("SH", "EXAMPLES")
	for _, example := range [][2]string{
		{"weir serve", "Serve the model inside the binary on http://127.0.0.1:8000."},
		{"weir serve ./Qwen3-0.6B --quantization q8 --api-key secret", "Serve a model from a folder, with weights of 8 bits, to clients that know a key."},
		{"weir bench serve --binary self --request-rate 10 -- --max-num-seqs 64", "Measure a server that is started for it, with 10 requests per second."},
	} {
		r.macro("TP")
		r.macro("B", example[0])
		r.text(example[1])
	}
	_, err := io.WriteString(w, r.b.String())
	return err
}

// roff builds a manual page.
type roff struct{ b strings.Builder }

// macro writes a request with its arguments.
func (r *roff) macro(name string, args ...string) {
	r.b.WriteString("." + name)
	for _, a := range args {
		fmt.Fprintf(&r.b, ` "%s"`, strings.ReplaceAll(escapeRoff(a), `"`, `\(dq`))
	}
	r.b.WriteByte('\n')
}

// text writes a line of running text.
func (r *roff) text(s string) {
	if s != "" {
		r.b.WriteString(textLine(s) + "\n")
	}
}

// command writes what --help says about a command.
func (r *roff) command(c *command) {
	r.macro("SS", c.usage())
	r.paragraphs(c.about)
	titles, groups := documentedFlags(c)
	for i, flags := range groups {
		if titles[i] != "" && len(flags) > 0 {
			r.macro("PP")
			r.text(titles[i] + ":")
		}
		for _, flag := range flags {
			d := describe(flag)
			r.macro("TP")
			r.b.WriteString(`\fB` + escapeRoff("--"+d.name) + `\fR`)
			if d.argument != "" {
				r.b.WriteString(` \fI` + escapeRoff(d.argument) + `\fR`)
			}
			r.b.WriteByte('\n')
			r.text(d.text)
		}
	}
}

// paragraphs writes a text whose paragraphs are separated by empty lines. A line that
// begins with a space stays a line of its own.
func (r *roff) paragraphs(text string) {
	atStart := true // of a paragraph
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			r.macro("PP")
			atStart = true
			continue
		}
		if strings.HasPrefix(line, " ") && !atStart {
			r.macro("br")
		}
		r.text(strings.Join(strings.Fields(line), " "))
		atStart = false
	}
}

// escapeRoff writes a text so that roff prints it as it is. A plain - would become a
// hyphen, with which a flag cannot be searched for or copied.
func escapeRoff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "'", `\(aq`, "`", `\(ga`, "~", `\(ti`, "^", `\(ha`).Replace(s)
}

// textLine escapes a line of text, which must not be taken for a request.
func textLine(s string) string {
	s = escapeRoff(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
