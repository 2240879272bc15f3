package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
	"weir/server/openai"
)

// answerOptions say how requests of the OpenAI interface are answered. The names are vLLM's.
type answerOptions struct {
	promptDetails bool
	tools         openai.Tools
	constraint    string // --tool-constraint
	seed          seed
	structured    structuredConfig
}

func (o *answerOptions) bind(f *flagSet, reasoningParser *string) {
	f.BoolVar(&o.promptDetails, "enable-prompt-tokens-details", true, "say in the usage how many tokens of the prompt the prefix cache had")
	f.oneOf(&o.constraint, "tool-constraint", "what calls of tools obey that nobody has demanded: lazy, their tools' schemas, from the mark on that begins a call; off, nothing, unless the tool is strict", "lazy", "off")
	f.BoolVar(&o.tools.ExcludeTools, "exclude-tools-when-tool-choice-none", false, "do not show a request's tools to the template if its tool_choice is \"none\"")
	f.Var(&o.seed, "seed", "`number` from which the seeds of requests are made that give none; the same requests in the same order then have the same answers (default: such seeds are random)")
	o.structured.reasoningParser = reasoningParser
	f.Var(&o.structured, "structured-outputs-config", "`JSON` object with disable_any_whitespace, which makes all constrained JSON compact, one_of_any, by which a oneOf that cannot be kept exactly is read as anyOf, enable_in_reasoning, by which constraints hold for thoughts, too, and reasoning_parser; also as --structured-outputs-config.KEY. vLLM's backend and disable_additional_properties are accepted and change nothing")
	for _, key := range slices.Sorted(maps.Keys(structuredKeys)) {
		f.VarPF(member{&o.structured, key}, "structured-outputs-config."+strings.ReplaceAll(key, "_", "-"), "", "").Hidden = true
	}
}

// apply sets what the flags decide.
func (o *answerOptions) apply(c *openai.Config) {
	c.NoPromptDetails = !o.promptDetails
	c.Tools, c.Constrained = o.tools, o.structured.Constrained
	c.UnconstrainedCalls = o.constraint == "off"
	if o.seed.given {
		c.Seed = &o.seed.value
	}
}

// seed is a whole number that need not be given. Negative numbers are seeds, too.
type seed struct {
	value uint64
	given bool
}

func (s *seed) Type() string { return "int" }

func (s *seed) String() string {
	if !s.given {
		return ""
	}
	return strconv.FormatInt(int64(s.value), 10)
}

func (s *seed) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", text)
	}
	s.value, s.given = uint64(v), true
	return nil
}

// structuredConfig is the value of --structured-outputs-config.
type structuredConfig struct {
	openai.Constrained
	reasoningParser *string // --reasoning-parser
	text            string
}

func (c *structuredConfig) Type() string   { return "JSON" }
func (c *structuredConfig) String() string { return c.text }

func (c *structuredConfig) Set(text string) error {
	values := map[string]any{}
	if err := jsontext.Decode([]byte(text), &values); err != nil {
		return fmt.Errorf("%q is not a JSON object: %w", text, err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := c.set(key, fmt.Sprint(values[key])); err != nil {
			return err
		}
	}
	c.text = text
	return nil
}

// backends are the names that vLLM has for its compilers of constraints. weir has one
// compiler.
var backends = []string{"auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer"}

// structuredKeys are the members of the object, with what each of them does.
var structuredKeys = map[string]func(c *structuredConfig, value string) error{
	"backend": func(_ *structuredConfig, value string) error {
		if !slices.Contains(backends, value) {
			return fmt.Errorf("backend %q is none of %v", value, backends)
		}
		return nil
	},
	"disable_any_whitespace":        func(c *structuredConfig, value string) error { return parseBool(&c.NoWhitespace, value) },
	"one_of_any":                    func(c *structuredConfig, value string) error { return parseBool(&c.OneOfAny, value) },
	"enable_in_reasoning":           func(c *structuredConfig, value string) error { return parseBool(&c.InThoughts, value) },
	"disable_additional_properties": func(_ *structuredConfig, value string) error { return parseBool(new(bool), value) },
	"disable_fallback":              func(_ *structuredConfig, value string) error { return parseBool(new(bool), value) },
	"reasoning_parser": func(c *structuredConfig, value string) error {
		if value != "" {
			*c.reasoningParser = value
		}
		return nil
	},
}

func (c *structuredConfig) set(key, value string) error {
	f, ok := structuredKeys[key]
	if !ok {
		return fmt.Errorf("%q is none of %v", key, slices.Sorted(maps.Keys(structuredKeys)))
	}
	if err := f(c, value); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func parseBool(into *bool, text string) (err error) {
	if *into, err = strconv.ParseBool(text); err != nil {
		err = fmt.Errorf("%q is neither true nor false", text)
	}
	return err
}

// member is the value of a flag --structured-outputs-config.KEY.
type member struct {
	config *structuredConfig
	key    string
}

func (m member) Type() string          { return "value" }
func (m member) String() string        { return "" }
func (m member) Set(text string) error { return m.config.set(m.key, text) }
