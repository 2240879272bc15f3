package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// helpWidth is the width of a line of help.
const helpWidth = 100

const overviewHead = `weir serves language models.

`

const overviewTail = `
` + modelArgument + `

weir COMMAND --help lists the flags of a command. Every flag can also be set in the environment (--max-model-len as WEIR_MAX_MODEL_LEN) and in a YAML file (--config FILE, with the names of flags as keys). The command line wins over the environment, and the environment over the file.
`

// writeOverview writes what weir help prints.
func writeOverview(w io.Writer) {
	fmt.Fprint(w, overviewHead)
	writeCommands(w, "")
	fmt.Fprint(w, wrapParagraphs(overviewTail, helpWidth))
}

// writeCommands writes a line for every command whose name begins with prefix.
func writeCommands(w io.Writer, prefix string) {
	var list []*command
	width := 0
	for _, c := range commands() {
		if strings.HasPrefix(c.name, prefix) {
			list = append(list, c)
			width = max(width, len(c.overviewUsage()))
		}
	}
	for _, c := range list {
		fmt.Fprintf(w, "  %-*s   %s\n", width, c.overviewUsage(), c.summary)
	}
}

// overviewUsage is the usage line without the details of long argument lists.
func (c *command) overviewUsage() string {
	if len(c.words) > 0 {
		return "weir " + c.name + " " + strings.ToUpper(wordsName(c))
	}
	return strings.TrimSuffix(c.usage(), " [-- FLAGS OF SERVE]")
}

// wordsName says what the first argument is of a command that takes a fixed word.
func wordsName(c *command) string {
	if c.name == "completion" {
		return "shell"
	}
	return "command"
}

func (c *command) usage() string { return strings.TrimSpace("weir " + c.name + " " + c.args) }

// writeHelp writes what the command's --help prints.
func (c *command) writeHelp(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s\n\n%s\n", c.usage(), wrapParagraphs(c.about, helpWidth))
	titles, groups := documentedFlags(c)
	for i, flags := range groups {
		if len(flags) == 0 {
			continue
		}
		if titles[i] == "" {
			titles[i] = "Flags"
		}
		fmt.Fprintf(w, "\n%s:\n", titles[i])
		for _, flag := range flags {
			d := describe(flag)
			fmt.Fprintf(w, "  %s\n%s\n", d.written(), indent(wrap(d.text, helpWidth-8), 8))
		}
	}
}

// documentedFlags returns the flags of a command by group, for help, the manual
// page and completion.
func documentedFlags(c *command) (titles []string, groups [][]*pflag.Flag) {
	f, _ := c.flags(&environment{getenv: func(string) string { return "" }, in: strings.NewReader(""), out: io.Discard, errOut: io.Discard})
	return f.visible()
}

// flagDoc is what is said about a flag.
type flagDoc struct {
	name     string
	short    string   // of one letter; "": there is none
	argument string   // "" for a flag without a value
	choices  []string // the values it takes, if they are few
	text     string   // with the default
}

func describe(flag *pflag.Flag) flagDoc {
	d := flagDoc{name: flag.Name, short: flag.Shorthand}
	d.argument, d.text = pflag.UnquoteUsage(flag)
	if strings.Contains(flag.Value.Type(), "|") {
		d.choices = strings.Split(flag.Value.Type(), "|")
		d.argument = flag.Value.Type()
	}
	switch v := flag.DefValue; {
	case v == "", v == "0", v == "0s", v == "[]", v == "false", strings.Contains(d.text, "(default"):
	case v == "true":
		d.text += fmt.Sprintf(" (default: on; --no-%s turns it off)", d.name)
	default:
		d.text += fmt.Sprintf(" (default: %s)", strings.Trim(v, "[]"))
	}
	return d
}

func (d *flagDoc) synopsis() string {
	if d.argument == "" {
		return d.name
	}
	return d.name + " " + d.argument
}

// written is the synopsis with the dashes, and the short name in front if there is one.
func (d *flagDoc) written() string {
	if d.short == "" {
		return "--" + d.synopsis()
	}
	return "-" + d.short + ", --" + d.synopsis()
}

// wrapParagraphs wraps each line of a text by itself. A line that begins with a
// space is left as it is.
func wrapParagraphs(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, " ") {
			lines[i] = wrap(line, width)
		}
	}
	return strings.Join(lines, "\n")
}

// wrap breaks a text into lines of at most width characters, where words allow it.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch n := len([]rune(word)); {
		case column == 0:
			column = n
		case column+1+n > width:
			b.WriteByte('\n')
			column = n
		default:
			b.WriteByte(' ')
			column += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

func indent(text string, by int) string {
	space := strings.Repeat(" ", by)
	return space + strings.ReplaceAll(text, "\n", "\n"+space)
}
