package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/jsontext"
)

// withMembers rewrites the members of JSON objects that vLLM takes as flags of their own:
// --compilation-config.mode 3 --compilation-config.a.b=true becomes --compilation-config with
// {"a":{"b":true},"mode":3}. Members are added to an object that is given as well.
func withMembers(args []string) []string {
	objects := map[string]map[string]any{}
	var order []string
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			out = append(out, args[i:]...)
			break
		}
		name, value, hasValue := strings.Cut(longName(args[i]), "=")
		flag, path, isMember := strings.Cut(name, ".")
		if !isMember || !strings.HasPrefix(flag, "--") || flag == structuredFlag {
			out = append(out, args[i])
			continue
		}
		switch {
		case hasValue:
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			i++
			value = args[i]
		default:
			value = "true"
		}
		if objects[flag] == nil {
			objects[flag], order = map[string]any{}, append(order, flag)
		}
		setMember(objects[flag], strings.Split(path, "."), value)
	}
	for _, flag := range order {
		out = withObject(out, flag, objects[flag])
	}
	return out
}

// setMember sets the member of an object that a path names. A value that is no JSON text is a
// text. As in YAML and in vLLM, underscores are part of a key, so that they stay.
func setMember(object map[string]any, path []string, text string) {
	for _, key := range path[:len(path)-1] {
		inner, ok := object[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[key] = inner
		}
		object = inner
	}
	var value any
	if err := jsontext.Decode([]byte(text), &value); err != nil {
		value = text
	}
	object[path[len(path)-1]] = value
}

// withObject gives flag the members of object, besides those of a value that it has already.
func withObject(args []string, flag string, object map[string]any) []string {
	for i := range args {
		name, value, hasValue := strings.Cut(args[i], "=")
		if longName(name) != flag || !hasValue && i+1 == len(args) {
			continue
		}
		at := i
		if !hasValue {
			at, value = i+1, args[i+1]
		}
		given := map[string]any{}
		if jsontext.Decode([]byte(value), &given) != nil {
			break // the flag says what is wrong with it
		}
		for key, v := range object {
			given[key] = v
		}
		if args[at] = asJSON(given); hasValue {
			args[at] = flag + "=" + args[at]
		}
		return args
	}
	return append([]string{flag + "=" + asJSON(object)}, args...)
}

// asJSON encodes what was decoded from JSON or YAML.
func asJSON(v any) string {
	text, err := jsontext.Encode(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// explain makes the errors of pflag helpful: an unknown flag is answered with the closest
// names, and a flag that asks for what this server does not have with the reason alone.
func (f *flagSet) explain(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("%w: names of flags begin with two dashes (%s --help lists them)", err, f.Name())
		}
		return fmt.Errorf("%w%s (%s --help lists all flags)", err, f.suggestion(name), f.Name())
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		if v, ok := flag.Value.(*ignored); ok {
			return fmt.Errorf("--%s%s: %w", flag.Name, v.shown(invalid.GetValue()), errors.Unwrap(invalid))
		}
	}
	return err
}

// suggestion completes the error of a flag that there is not by the names closest to it.
func (f *flagSet) suggestion(name string) string {
	if names := f.closest(name); len(names) > 0 {
		return ", did you mean --" + strings.Join(names, " or --") + "?"
	}
	return ""
}

// shown is the value of a flag in an error, if it was written.
func (v *ignored) shown(value string) string {
	if v.isSwitch() {
		return ""
	}
	return " " + value
}

// closest lists at most three flags whose names are like a name that is none: a few letters
// differ, or they have all of its words.
func (f *flagSet) closest(name string) []string {
	type near struct {
		name     string
		distance int
	}
	var found []near
	words := strings.Split(name, "-")
	f.VisitAll(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.Name, "no-") && !strings.HasPrefix(name, "no-") {
			return
		}
		has := 0
		for _, w := range words {
			if slices.Contains(strings.Split(flag.Name, "-"), w) {
				has++
			}
		}
		d := editDistance(name, flag.Name)
		if flag.Hidden {
			d++ // rather a flag that has an effect
		}
		switch {
		case d <= max(2, len(name)/5):
			found = append(found, near{flag.Name, d})
		case has == len(words) || has >= 2 && has >= len(words)-1:
			if flag.Hidden {
				d += 100
			}
			found = append(found, near{flag.Name, 100 + d})
		}
	})
	slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
	names := []string{}
	for _, n := range found[:min(3, len(found))] {
		names = append(names, n.name)
	}
	return names
}

// editDistance is the number of letters that must be added, removed or replaced to make b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// tokens is a number of tokens, with an optional unit as in vLLM: 32k is 32,000 and 32K is
// 32,768. If auto is set, "auto" and -1 mean the default, which is 0.
type tokens struct {
	value *int
	auto  bool
}

func (n tokens) Type() string { return "int" }
func (n tokens) String() string {
	if n.value == nil {
		return "0"
	}
	return strconv.Itoa(*n.value)
}

func (n tokens) Set(text string) error {
	text = strings.TrimSpace(text)
	if n.auto && (text == "-1" || strings.EqualFold(text, "auto")) {
		*n.value = 0
		return nil
	}
	if v, err := strconv.Atoi(text); err == nil {
		*n.value = v
		return nil
	}
	units := map[byte]float64{'k': 1e3, 'm': 1e6, 'g': 1e9, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
	last := len(text) - 1
	if last > 0 && units[text[last]] > 0 {
		if v, err := strconv.ParseFloat(text[:last], 64); err == nil && v >= 0 && v*units[text[last]] < 1<<40 {
			*n.value = int(v * units[text[last]])
			return nil
		}
	}
	return fmt.Errorf("%q is not a number such as 4096, 32k (32000) or 32K (32768)", text)
}

// span is a time such as 30s or 2m. A number without a unit is in seconds, as vLLM has it.
type span time.Duration

func (s *span) Type() string   { return "duration" }
func (s *span) String() string { return time.Duration(*s).String() }

func (s *span) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e9 {
		*s = span(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a time such as 30s or 2m", text)
	}
	*s = span(d)
	return nil
}
