package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weir/internal/jsontext"
)

// opposite is the value of --no-x: it sets x to false, or to true if it is false
// itself.
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

// choice is a flag that takes one of a fixed set of values.
type choice struct {
	value   *string
	choices []string
	free    func(s string) bool // which other values it takes as well; nil: none
}

// oneOf adds a flag that takes one of some values, the first by default.
func (f *flagSet) oneOf(value *string, name, usage string, choices ...string) {
	*value = choices[0]
	f.Var(&choice{value: value, choices: choices}, name, usage)
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return strings.Join(c.choices, "|") }
func (c *choice) Set(s string) error {
	if own, ok := synonyms[strings.ToLower(s)]; ok && !slices.Contains(c.choices, s) {
		s = own
	}
	if !slices.Contains(c.choices, s) && (c.free == nil || !c.free(s)) {
		return fmt.Errorf("%q is none of %s", s, strings.Join(c.choices, ", "))
	}
	*c.value = s
	return nil
}

// synonyms are names that vLLM has for values of such flags, in lower case.
var synonyms = map[string]string{
	"half": "float16", "float": "float32",
	"debug": "debug", "notset": "debug", "info": "info", "warning": "warn", "warn": "warn", "error": "error", "critical": "error",
}

// numbers is a flag with a list of integers, separated by commas or given by
// repeating the flag. "none" is the empty list.
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
	if !n.changed { // the list still holds the default
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

// texts is a flag with a list of texts: separated by commas, as a JSON list, which is how
// vLLM takes some of them, or given by repeating the flag. The empty text is the empty list,
// which is not nil.
type texts struct {
	list    *[]string
	changed bool
}

func (t *texts) Type() string { return "list" }
func (t *texts) String() string {
	if t.list == nil {
		return ""
	}
	return strings.Join(*t.list, ",")
}
func (t *texts) Set(text string) error {
	if !t.changed { // the list still holds the default
		*t.list, t.changed = []string{}, true
	}
	var more []string
	switch text = strings.TrimSpace(text); {
	case text == "":
	case text[0] == '[':
		if err := jsontext.Decode([]byte(text), &more); err != nil {
			return fmt.Errorf("%s is not a JSON list of texts", text)
		}
	default:
		more = strings.Split(text, ",")
	}
	for _, one := range more {
		*t.list = append(*t.list, strings.TrimSpace(one))
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

// inUnits prints a number of bytes for people. It rounds up, so that the text can
// be given back as the value of a flag.
func inUnits(n int64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 10<<u.shift {
			return fmt.Sprintf("%d%s", (n+1<<u.shift-1)>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// device is a flag that names what computes.
type device string

// deviceFlag adds --device.
func (f *flagSet) deviceFlag(value *string) {
	*value = "auto"
	f.Var((*device)(value), "device", "what computes: cpu; cuda or cuda:`n`, the first GPU or GPU number n, counted from 0; auto, "+
		"a GPU if there is a usable one and the CPU otherwise; sim, which computes nothing and makes tokens up, for load tests without hardware")
}

func (d *device) String() string { return string(*d) }
func (d *device) Type() string   { return "auto|cpu|cuda|sim" }
func (d *device) Set(s string) error {
	switch s {
	case "auto", "cpu", "cuda", "sim":
	default:
		if _, ok := ordinal(s); !ok {
			return fmt.Errorf("%q is none of auto, cpu, cuda, cuda:N, sim", s)
		}
	}
	*d = device(s)
	return nil
}

// ordinal is the number of the GPU that the name of a device means.
func ordinal(name string) (n int, ok bool) {
	if name == "cuda" || name == "auto" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(name, "cuda:")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}
