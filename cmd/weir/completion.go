package main

import (
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const completionAbout = `Prints a script that completes the commands, flags and values of weir in a shell. To try it in the running shell:

  bash   source <(weir completion bash)
  zsh    source <(weir completion zsh)
  fish   weir completion fish | source

To have it in every shell, save the script to:

  bash   ~/.local/share/bash-completion/completions/weir
  zsh    a file _weir in a folder of $fpath
  fish   ~/.config/fish/completions/weir.fish`

// The scripts know nothing about weir's flags. They run weir with completeCommand,
// which answers from the table of commands, so a script never gets out of date.
var (
	//go:embed completion/weir.bash
	bashScript string
	//go:embed completion/weir.zsh
	zshScript string
	//go:embed completion/weir.fish
	fishScript string
)

// completeCommand is the command that the scripts run, with the words of the command
// line up to the one that is being completed.
const completeCommand = "__complete"

func setupCompletion(_ *flagSet, env *environment) action {
	return func(args []string) error {
		scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
		if len(args) != 1 || scripts[args[0]] == "" {
			return usageError{fmt.Errorf("completion takes the name of a shell, bash, zsh or fish: %q", args)}
		}
		_, err := io.WriteString(env.out, scripts[args[0]])
		return err
	}
}

// complete prints the words that may stand in place of the last of args, one per line
// with a tab and a description where there is one. A line that begins with a colon
// asks the script to complete file names (:file) or names of folders (:folder).
func complete(args []string, env *environment) error {
	if len(args) == 0 {
		args = []string{""}
	}
	word := args[len(args)-1]
	list := completions(args[:len(args)-1], word)
	if i := slices.Index(list, ofHub); i >= 0 {
		list = slices.Replace(list, i, i+1, cachedModels(word, env)...)
	}
	for _, candidate := range list {
		if _, err := fmt.Fprintln(env.out, candidate); err != nil {
			return err
		}
	}
	return nil
}

// ofHub stands for the models in the cache of the hub among what completions returns.
const ofHub = ":hub"

// cachedModels are the models in the cache of the hub whose names begin with a word. A cache that
// cannot be read has none.
func cachedModels(word string, env *environment) (names []string) {
	h, err := new(hubOptions).open(env.getenv, nil)
	if err != nil {
		return nil
	}
	list, _ := h.List()
	for _, r := range list {
		if strings.HasPrefix(r.Repo, word) && !slices.Contains(names, r.Repo) {
			names = append(names, r.Repo)
		}
	}
	return names
}

// completions returns what may stand in place of word, after the words before it.
func completions(before []string, word string) []string {
	c, rest := findCommand(before)
	if c == nil {
		return completeName(before, word)
	}
	if dash := slices.Index(rest, "--"); dash >= 0 && strings.Contains(c.args, "FLAGS OF SERVE") {
		c, _ = findCommand([]string{"serve"})
		rest = rest[dash+1:]
	}
	flags := c.flagDocs()
	// Bash treats = as a word of its own: --flag, =, value.
	if n := len(rest); n > 0 && word == "=" {
		return c.values(flags[rest[n-1]], "", "")
	} else if n > 1 && rest[n-1] == "=" {
		return c.values(flags[rest[n-2]], "", word)
	}
	if name, value, ok := strings.Cut(word, "="); ok && flags[name].name != "" {
		return c.values(flags[name], name+"=", value)
	}
	if n := len(rest); n > 0 && flags[rest[n-1]].argument != "" {
		return c.values(flags[rest[n-1]], "", word)
	}
	if strings.HasPrefix(word, "-") {
		return completeFlag(flags, word)
	}
	return c.argument(rest, word)
}

// completeName completes the name of a command, which may have two words.
func completeName(before []string, word string) (list []string) {
	seen := map[string]bool{}
	for _, c := range commands() {
		names := strings.Fields(c.name)
		if len(before) >= len(names) || !slices.Equal(names[:len(before)], before) {
			continue
		}
		name := names[len(before)]
		if !strings.HasPrefix(name, word) || seen[name] {
			continue
		}
		seen[name] = true
		about := c.summary
		if len(names) > len(before)+1 {
			about = "measure: start, serve, engine, store"
		}
		list = append(list, name+"\t"+about)
	}
	return list
}

// flagDocs returns what is known of the command's flags, by --name.
func (c *command) flagDocs() map[string]flagDoc {
	docs := map[string]flagDoc{}
	_, groups := documentedFlags(c)
	for _, flag := range slices.Concat(groups...) {
		docs["--"+flag.Name] = describe(flag)
	}
	if len(docs) > 0 {
		docs["--help"] = describe(&pflag.Flag{Name: "help", Usage: "print the help of this command", Value: opposite{}})
	}
	return docs
}

func completeFlag(flags map[string]flagDoc, word string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if strings.HasPrefix(name, word) {
			list = append(list, name+"\t"+firstClause(flags[name].text))
		}
	}
	return list
}

// firstClause shortens the text about a flag for a list of candidates.
func firstClause(text string) string {
	text, _, _ = strings.Cut(text, "; ")
	text, _, _ = strings.Cut(text, ": ")
	text, _, _ = strings.Cut(text, " (default")
	return text
}

// values completes the value of a flag, after what stands before it in the same word.
func (c *command) values(d flagDoc, before, word string) (list []string) {
	for _, v := range d.choices {
		if strings.HasPrefix(v, word) {
			list = append(list, before+v)
		}
	}
	switch d.argument {
	case "file", "path", "program", "interpreter":
		return []string{":file"}
	case "folder":
		return []string{":folder"}
	}
	return list
}

// argument completes an argument of the command that is not a flag.
func (c *command) argument(rest []string, word string) (list []string) {
	switch first := !slices.ContainsFunc(rest, func(s string) bool { return slices.Contains(c.words, s) }); {
	case c.name == "help":
		return completeName(rest, word)
	case c.model:
		return []string{":file", ofHub}
	case c.name == "pull", c.name == "rm":
		return []string{ofHub}
	case len(c.words) > 0 && first:
		for _, w := range c.words {
			if strings.HasPrefix(w, word) {
				list = append(list, w)
			}
		}
		return list
	case c.name == "store":
		return []string{":file"}
	}
	return nil
}
