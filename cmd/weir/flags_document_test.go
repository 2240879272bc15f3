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
	testkit.Golden(t, path, []byte(b.String()))
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
			fmt.Fprintf(b, "| `--%s` | %s |\n", cell(d.synopsis()), cell(d.text))
		}
	}
}

// cell escapes what would end a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
