package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"weir/internal/plainfile"
)

// A flagSet is the flags of one command, in groups. What --help, the manual page
// and shell completion say about flags all comes from here.
type flagSet struct {
	*pflag.FlagSet
	groups []flagGroup

	config string          // --config: the YAML file that may hold values
	given  map[string]bool // after parse: settings that are not left to their defaults; --no-x is the setting x
}

// A flagGroup is a run of flags that are printed under one title.
type flagGroup struct {
	title string
	first int // index, in the order of definition, of the group's first flag
}

func newFlagSet(name string) *flagSet {
	f := &flagSet{FlagSet: pflag.NewFlagSet(name, pflag.ContinueOnError)}
	f.SortFlags = false // so that VisitAll goes in the order of definition
	return f
}

// group puts the flags that are defined from now on under a title.
func (f *flagSet) group(title string) {
	f.groups = append(f.groups, flagGroup{title, f.count()})
}

func (f *flagSet) count() (n int) {
	f.VisitAll(func(*pflag.Flag) { n++ })
	return n
}

// visible lists the flags that are documented, by group. Flags that were defined
// before any group come first, under no title.
func (f *flagSet) visible() (titles []string, flags [][]*pflag.Flag) {
	titles, flags = []string{""}, [][]*pflag.Flag{nil}
	i, next := 0, 0
	f.VisitAll(func(flag *pflag.Flag) {
		for next < len(f.groups) && f.groups[next].first <= i {
			titles, flags = append(titles, f.groups[next].title), append(flags, nil)
			next++
		}
		if i++; !flag.Hidden {
			flags[len(flags)-1] = append(flags[len(flags)-1], flag)
		}
	})
	return titles, flags
}

// addCommon adds the flags that every command has: --config, and for every
// boolean flag --x its opposite --no-x, as in vLLM's command line.
func (f *flagSet) addCommon() {
	f.group("Configuration file")
	f.StringVar(&f.config, "config", "", "YAML `file` whose keys are names of flags, for example max-model-len: 4096")
	var switches []*pflag.Flag
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Value.Type() == "bool" {
			switches = append(switches, flag)
		}
	})
	for _, flag := range switches {
		no := f.VarPF(opposite{flag}, "no-"+flag.Name, "", "")
		no.NoOptDefVal, no.Hidden = "true", true
	}
}

// parse reads flags from the command line, the environment and a YAML file, in
// this order of precedence, and returns the arguments that are not flags.
func (f *flagSet) parse(args []string, getenv func(string) string) ([]string, error) {
	if err := f.Parse(fromVLLM(args)); err != nil {
		if err == pflag.ErrHelp {
			return nil, err
		}
		return nil, usageError{f.explain(err)}
	}
	given := map[string]bool{}
	f.given = given
	f.Visit(func(flag *pflag.Flag) { given[setting(flag.Name)] = true })
	if err := f.fromEnvironment(getenv, given); err != nil {
		return nil, usageError{err}
	}
	if f.config != "" {
		if err := f.fromFile(f.config, given); err != nil {
			return nil, usageError{fmt.Errorf("--config: %w", err)}
		}
	}
	return f.Args(), nil
}

// setting is what a flag sets: --no-x sets the same as --x.
func setting(flag string) string { return strings.TrimPrefix(flag, "no-") }

// fromEnvironment sets the flags that have a variable in the environment and are
// not given yet, and adds them to given.
func (f *flagSet) fromEnvironment(getenv func(string) string, given map[string]bool) error {
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		value := getenv(envName(flag.Name))
		if value == "" || given[setting(flag.Name)] {
			return
		}
		given[setting(flag.Name)] = true
		if err := flag.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w", envName(flag.Name), err))
		}
	})
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}

// fromFile sets the flags that a YAML file names and that are not given yet.
func (f *flagSet) fromFile(path string, given map[string]bool) error {
	src, err := plainfile.Read(path)
	if err != nil {
		return err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(src, &values); err != nil {
		return fmt.Errorf("%s is not a YAML mapping: %w", path, err)
	}
	var set []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name := strings.ReplaceAll(key, "_", "-")
		flag := f.Lookup(name)
		if flag == nil || name == "config" {
			return fmt.Errorf("%s: there is no flag --%s%s", path, name, f.suggestion(name))
		}
		if given[setting(flag.Name)] || values[key] == nil {
			continue
		}
		set = append(set, setting(flag.Name))
		if err := setAll(flag, values[key]); err != nil {
			return fmt.Errorf("%s: %s: %w", path, key, err)
		}
	}
	for _, name := range set {
		given[name] = true
	}
	return nil
}

// setAll sets a flag to a value from a YAML file. A list sets it once for each
// element, like a flag that is repeated, and a mapping to the JSON object that it is.
func setAll(flag *pflag.Flag, value any) error {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		text := fmt.Sprint(v)
		if _, ok := v.(map[string]any); ok {
			text = asJSON(v)
		}
		if err := flag.Value.Set(text); err != nil {
			return err
		}
	}
	return nil
}

// settings returns the values of all flags except secret ones, for /server_info.
func (f *flagSet) settings() map[string]string {
	out := make(map[string]string)
	f.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "api-key" {
			out[flag.Name] = flag.Value.String()
		}
	})
	return out
}

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// noArguments refuses arguments of a command that takes none.
func noArguments(command string, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments: %q", command, args)}
	}
	return nil
}

// optionalModel returns the only argument of a command that takes at most one
// model, or "".
func optionalModel(command string, args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", nil
	case 1:
		return args[0], nil
	}
	return "", usageError{fmt.Errorf("%s takes one model, not %d: %q", command, len(args), args)}
}

// usageError is a mistake in how weir was called. The exit status is 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func isUsageError(err error) bool { return errors.As(err, new(usageError)) }
