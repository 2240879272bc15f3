package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/testkit"
)

// TestFlagsDocument: docs/flags.md lists the flags of all commands with the texts of
// their help. What precedes the mark in the file is written by hand.
func TestFlagsDocument(t *testing.T) {
	const path = "../../docs/flags.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "-run TestFlagsDocument -rewrite -->\n"
	byHand, _, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s lacks its mark %q", path, mark)
	}
	var b strings.Builder
	b.WriteString(byHand + mark)
	for _, c := range commands() {
		writeFlagTables(&b, c)
	}
	writeFlagsWithoutEffect(&b)
	testkit.Golden(t, path, []byte(b.String()))
}

// writeFlagsWithoutEffect writes a section about flags of vLLM that weir serve accepts and
// does not need, and about values that it refuses.
func writeFlagsWithoutEffect(b *strings.Builder) {
	b.WriteString("\n## Flags of vLLM without effect\n\n`weir serve` accepts these, too, with a line in the log, so that scripts for `vllm serve` run as they are. Where values are given, others are refused with a sentence that says why.\n" +
		"\n| Flags | Values | |\n|---|---|---|\n")
	for _, v := range vllmFlags {
		values := strings.Join(v.takes, ", ")
		switch {
		case v.takes == nil || values == anyValue[0]:
			values = "any"
		case v.isSwitch():
			values = "off"
		case values == impossible[0]:
			values = "none"
		}
		fmt.Fprintf(b, "| `--%s` | %s | %s |\n", strings.ReplaceAll(v.names, " ", "` `--"), strings.Trim(values, ", "), v.reason)
	}
}

// writeFlagTables writes a section with a table for each group of a command's flags.
func writeFlagTables(b *strings.Builder, c *command) {
	titles, groups := documentedFlags(c)
	if len(groups) == 0 || len(groups) == 1 && len(groups[0]) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## weir %s\n\n%s.\n", c.name, strings.ToUpper(c.summary[:1])+c.summary[1:])
	for i, flags := range groups {
		if len(flags) == 0 {
			continue
		}
		if titles[i] != "" {
			fmt.Fprintf(b, "\n### %s\n", titles[i])
		}
		b.WriteString("\n| Flag | |\n|---|---|\n")
		for _, flag := range flags {
			d := describe(flag)
			fmt.Fprintf(b, "| `%s` | %s |\n", cell(d.written()), cell(d.text))
		}
	}
}

// cell escapes what would end a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
