package quantconfig

import (
	"regexp"
	"slices"
	"strings"
)

// matcher reports whether a name is one of a list.
type matcher func(name string) bool

// head is a matrix that most methods leave alone, whether their lists name it or not.
const head = "lm_head"

// anchored compiles a pattern that begins where the name begins, as Python's re.match has it.
// The patterns of lists are RE2's but for look-around, which has no such form.
func anchored(pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile("^(?:" + pattern + ")")
	if err != nil {
		return nil, unsupported("the pattern %.200q: %v", pattern, err)
	}
	return re, nil
}

// moduleList is how transformers reads modules_to_not_convert: an entry matches a name from its
// beginning up to a border of the path, as text or as a regular expression, or the end of it
// (quantizers/quantizers_utils.py, should_convert_module).
func moduleList(list []string) matcher {
	var patterns []*regexp.Regexp
	for _, entry := range list {
		if re, err := regexp.Compile("^(?:" + entry + `)(?:$|\.)`); err == nil {
			patterns = append(patterns, re)
		}
	}
	return func(name string) bool {
		for _, entry := range list {
			if rest, ok := strings.CutPrefix(name, entry); ok && (rest == "" || rest[0] == '.' || strings.HasSuffix(entry, ".")) || strings.HasSuffix(name, entry) {
				return true
			}
		}
		return slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	}
}

// partList is how AutoAWQ reads modules_to_not_convert: an entry is any part of a name
// (awq/utils/module.py, exclude_layers_to_not_quantize).
func partList(list []string) matcher {
	return func(name string) bool {
		return slices.ContainsFunc(list, func(entry string) bool { return strings.Contains(name, entry) })
	}
}

// wildcardList is how ModelOpt's exclude_modules are read: * is any text, ? any character, and an
// entry without them is any part of a name (vLLM, modelopt.py, is_layer_excluded).
func wildcardList(list []string) matcher {
	var patterns []*regexp.Regexp
	for _, entry := range list {
		text := regexp.QuoteMeta(entry)
		text = strings.ReplaceAll(strings.ReplaceAll(text, `\*`, ".*"), `\?`, ".")
		patterns = append(patterns, regexp.MustCompile("^(?:"+text+")$"))
	}
	parts := partList(list)
	return func(name string) bool {
		return parts(name) || slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	}
}

// targets is a list of compressed-tensors: an entry is a name, a class, or a regular expression
// after "re:" (utils/match.py, is_match).
type targets struct {
	exact    map[string]bool
	patterns []*regexp.Regexp
}

func parseTargets(list []string) (targets, error) {
	t := targets{exact: map[string]bool{}}
	for _, entry := range list {
		pattern, ok := strings.CutPrefix(entry, "re:")
		if !ok {
			t.exact[entry] = true
			continue
		}
		re, err := anchored(pattern)
		if err != nil {
			return t, err
		}
		t.patterns = append(t.patterns, re)
	}
	return t, nil
}

// closeness is how closely a list names a module: a name counts before a pattern, and a pattern
// before a class (utils/match.py, match_targets).
type closeness uint8

const (
	byName closeness = iota + 1
	byPattern
	byClass
)

// match is 0 if the list does not name the module.
func (t *targets) match(name, class string) closeness {
	switch {
	case t.exact[name]:
		return byName
	case slices.ContainsFunc(t.patterns, func(re *regexp.Regexp) bool { return re.MatchString(name) }):
		return byPattern
	case t.exact[class]:
		return byClass
	}
	return 0
}
