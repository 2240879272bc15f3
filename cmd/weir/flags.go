package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

// parse reads a command's flags from the command line, the environment and a
// YAML file, in this order of precedence, and returns the other arguments.
func parse(fs *pflag.FlagSet, args []string, env func(string) string) ([]string, error) {
	file := fs.String("config", "", "YAML `file` with flags as keys, for example max-model-len: 4096")
	booleans(fs)
	if err := fs.Parse(args); err != nil {
		if err == pflag.ErrHelp {
			return nil, err
		}
		return nil, usageError{err}
	}
	given := map[string]bool{} // flags that have their value; --no-x counts as x
	fs.Visit(func(f *pflag.Flag) { given[strings.TrimPrefix(f.Name, "no-")] = true })
	var bad error
	fs.VisitAll(func(f *pflag.Flag) {
		name := envName(f.Name)
		v := env(name)
		if v == "" || given[strings.TrimPrefix(f.Name, "no-")] || bad != nil {
			return
		}
		if err := f.Value.Set(v); err != nil {
			bad = usageError{fmt.Errorf("environment variable %s: %w", name, err)}
		}
		given[strings.TrimPrefix(f.Name, "no-")] = true
	})
	if bad != nil || *file == "" {
		return fs.Args(), bad
	}
	src, err := os.ReadFile(*file)
	if err != nil {
		return nil, usageError{fmt.Errorf("--config: %w", err)}
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(src, &values); err != nil {
		return nil, usageError{fmt.Errorf("--config: %s is not a YAML mapping: %w", *file, err)}
	}
	for _, key := range slices.Sorted(keys(values)) {
		name := strings.ReplaceAll(key, "_", "-")
		f := fs.Lookup(name)
		if f == nil || name == "config" {
			return nil, usageError{fmt.Errorf("--config: %s: there is no flag --%s", *file, name)}
		}
		if given[strings.TrimPrefix(name, "no-")] {
			continue
		}
		list, ok := values[key].([]any)
		if !ok {
			list = []any{values[key]}
		}
		for _, v := range list {
			if err := f.Value.Set(fmt.Sprint(v)); err != nil {
				return nil, usageError{fmt.Errorf("--config: %s: %s: %w", *file, key, err)}
			}
		}
	}
	return fs.Args(), nil
}

func keys(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// settings are the flags with their values, but for what is secret.
func settings(fs *pflag.FlagSet) map[string]string {
	out := make(map[string]string)
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "api-key" {
			out[f.Name] = f.Value.String()
		}
	})
	return out
}

// envName is the environment variable of a flag.
func envName(flag string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// booleans adds the opposite --no-x of every boolean flag --x, as vLLM's
// command line has it.
func booleans(fs *pflag.FlagSet) {
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			names = append(names, f.Name)
		}
	})
	for _, name := range names {
		f := fs.VarPF(opposite{fs.Lookup(name)}, "no-"+name, "", "")
		f.NoOptDefVal, f.Hidden = "true", true
	}
}

// opposite sets a boolean flag to the contrary.
type opposite struct{ flag *pflag.Flag }

func (o opposite) String() string { return "" }
func (o opposite) Type() string   { return "bool" }
func (o opposite) Set(s string) error {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", s)
	}
	return o.flag.Value.Set(strconv.FormatBool(!v))
}

// choice is a flag with a fixed set of values.
type choice struct {
	value *string
	from  []string
}

// oneOf adds a flag that takes one of the values, the first by default.
func oneOf(fs *pflag.FlagSet, name, usage string, values ...string) *string {
	v := values[0]
	fs.Var(&choice{&v, values}, name, usage+": "+strings.Join(values, ", "))
	return &v
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return "name" }
func (c *choice) Set(s string) error {
	if !slices.Contains(c.from, s) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(c.from, ", "))
	}
	*c.value = s
	return nil
}

// numbers is a flag with a list of integers, given with commas or by repeating
// it; none is an empty list.
type numbers struct {
	list    *[]int
	changed bool
}

func (n *numbers) Type() string { return "list" }
func (n *numbers) String() string {
	if n.list == nil || len(*n.list) == 0 {
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*n.list), " ", ","), "[]")
}
func (n *numbers) Set(text string) error {
	if !n.changed { // what was there is the default
		*n.list, n.changed = nil, true
	}
	if text == "none" {
		return nil
	}
	for field := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return fmt.Errorf("%q is not a number", field)
		}
		*n.list = append(*n.list, v)
	}
	return nil
}

// size is a number of bytes, with an optional binary unit: 1536M, 4GiB, 0.5g.
type size int64

func (s *size) String() string {
	switch v := int64(*s); {
	case v == 0:
		return "0"
	case v%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", v>>30)
	case v%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", v>>20)
	default:
		return strconv.FormatInt(v, 10)
	}
}
func (s *size) Type() string { return "size" }
func (s *size) Set(text string) error {
	num := strings.ToLower(strings.TrimSpace(text))
	num = strings.TrimSuffix(strings.TrimSuffix(num, "b"), "i")
	unit := 1.0
	if n := len(num); n > 0 {
		if e := strings.IndexByte("kmgt", num[n-1]); e >= 0 {
			unit, num = float64(int64(1)<<(10*(e+1))), strings.TrimSpace(num[:n-1])
		}
	}
	v, err := strconv.ParseFloat(num, 64)
	if err != nil || !(v >= 0) || v*unit > 1<<60 {
		return fmt.Errorf("%q is not a size such as 4GiB or 512M", text)
	}
	*s = size(v * unit)
	return nil
}
