package reasoning

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// The tags of the think block, which most reasoning models use.
const (
	Open  = "<think>"
	Close = "</think>"
)

// Kind says how thoughts are recognized. The zero value is Auto.
type Kind uint8

const (
	// Auto goes by the chat template (For). The output is content if neither the prompt nor
	// the output opens the thoughts, because a template may know the marks although the
	// model was not asked to think.
	Auto Kind = iota
	// None does not split; marks are content.
	None
	// Qwen3 takes the output for thought from its first byte, with or without a tag,
	// unless the prompt has closed the block or enable_thinking is false.
	Qwen3
	// DeepSeekR1 is the same, but ignores enable_thinking.
	DeepSeekR1
	// These have other marks. The output is content if nothing opens the thoughts.
	Mistral
	Kimi
	Apertus
	Gemma4
	Cohere
	Granite
	Hunyuan
	Response // thoughts and <response>
	GPTOSS
	Seed
	MiniMaxM3
	Plamo
	Tagged // think tags
	// These have other marks and take the output for thought from its first byte.
	SeedOSS
	Ernie45
	Plamo3
)

// marks are those of each Kind; nil: think tags.
var marks = [...]*Marks{
	Mistral: Brackets, Kimi: Triangles, Apertus: Inner, Gemma4: ThoughtChannel, Cohere: Command, Granite: Sentences,
	Hunyuan: ThinkAnswer, Response: ThinkResponse, GPTOSS: Harmony, Seed: SeedThink, Tagged: Think, SeedOSS: SeedThink, Ernie45: ThinkResponse,
	MiniMaxM3: MiniMaxThink, Plamo: PlamoThink, Plamo3: PlamoThink,
}

// Marks returns the marks of a Kind.
func (k Kind) Marks() *Marks { return marks[k].orThink() }

var kinds = []struct {
	name string
	kind Kind
}{
	{"auto", Auto}, {"none", None}, {"qwen3", Qwen3}, {"deepseek_r1", DeepSeekR1},
	// These are vLLM's names (vllm/reasoning/__init__.py of 0.33). Those of formats with messages of several
	// kinds (inkling, kimi_k3, muse, muse_glimmer, musespark1x), with tags that depend on the request
	// (k2_horizon), that a checkpoint describes itself (beam, hf), and the one that puts a tag into the answer
	// (minimax_m2_append_think) are left out.
	{"deepseek_v3", DeepSeekR1}, {"minimax_m2", DeepSeekR1}, {"olmo3", DeepSeekR1}, {"step3", DeepSeekR1}, {"step3p5", DeepSeekR1}, {"kimi_k2", DeepSeekR1}, {"step5", DeepSeekR1},
	{"glm45", Qwen3}, {"glm47", Qwen3}, {"holo2", Qwen3}, {"nemotron_v3", Qwen3}, {"mimo", Qwen3}, {"ling3", Qwen3}, {"granite_thinking_parser", Qwen3},
	{"hy_v3", Tagged}, {"hy_v4", Tagged}, {"deepseek_v4", Tagged}, {"deepseek_v41", Tagged}, {"minicpmv", Tagged}, {"poolside_v1", Tagged},
	{"cohere_command3", Cohere}, {"cohere_command4", Cohere}, {"ernie45", Ernie45}, {"gemma4", Gemma4}, {"granite", Granite},
	{"hunyuan_a13b", Hunyuan}, {"mistral", Mistral}, {"openai_gptoss", GPTOSS}, {"seed_oss", SeedOSS},
	{"minimax_m3", MiniMaxM3}, {"plamo3", Plamo3},
}

// Parse reads the value of --reasoning-parser.
func Parse(name string) (Kind, error) {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		if k.name == name {
			return k.kind, nil
		}
		names[i] = k.name
	}
	return 0, fmt.Errorf("reasoning: parser %q is none of %s", name, strings.Join(names, ", "))
}

// templates are the texts by which a chat template shows its format, the more special ones
// first. All texts of one must be in the template.
var templates = []struct {
	kind  Kind
	texts []string
}{
	{GPTOSS, []string{"<|channel|>analysis<|message|>"}},
	{GPTOSS, []string{"<|channel|>", "<|message|>", "<|start|>"}},
	{Hunyuan, []string{Close, "<answer>"}},
	{Response, []string{Close, "<response>"}},
	{Auto, []string{Close}},
	{Mistral, []string{"[/THINK]"}},
	{Seed, []string{"</seed:think>"}},
	{MiniMaxM3, []string{"</mm:think>"}},
	{Plamo, []string{"<|plamo:end_think:plamo|>"}},
	{Cohere, []string{"<|END_THINKING|>"}},
	{Gemma4, []string{"<channel|>"}},
	{Apertus, []string{"<|inner_suffix|>"}},
	{Kimi, []string{"◁/think▷"}},
	{Granite, []string{"Here is my thought process:"}},
}

// For returns the kind to use with a template: Auto becomes that of the marks which the
// template contains, or None if it has none.
func (k Kind) For(template string) Kind {
	if k != Auto {
		return k
	}
	for _, t := range templates {
		if !slices.ContainsFunc(t.texts, func(text string) bool { return !strings.Contains(template, text) }) {
			return t.kind
		}
	}
	return None
}

// Suffix finds what the think tags of a vocabulary have before their ">", such as ":opensource" in
// <think:opensource> of Hunyuan 3 (hy_v3_reasoning_parser.py and hy_v4_reasoning_parser.py in vLLM). tokens
// yields the texts of all tokens. It is "" if the tags are tokens without a suffix, or no tokens.
func Suffix(tokens iter.Seq[string]) string {
	const opening, closing = "<think:", "</think:"
	opens, closes := map[string]bool{}, ""
	for t := range tokens {
		switch {
		case t == Close:
			return ""
		case !strings.HasSuffix(t, ">") || strings.ContainsAny(t, " \t\r\n"):
		case strings.HasPrefix(t, opening) && len(t) > len(opening)+1:
			opens[t[len(opening)-1:len(t)-1]] = true
		case strings.HasPrefix(t, closing) && len(t) > len(closing)+1 && closes == "":
			closes = t[len(closing)-1 : len(t)-1]
		}
	}
	if !opens[closes] {
		return ""
	}
	return closes
}

// Block is the state of the think block where a prompt ends.
type Block uint8

const (
	Absent Block = iota // the prompt says nothing
	Opened
	Closed
)

// AtEnd is that of the tags of Think.
func AtEnd(prompt string) Block { return Think.AtEnd(prompt) }

// Within is that of the tags of Think.
func Within(text string, from int) Block { return Think.Within(text, from) }

// Start is what an output begins with.
type Start uint8

const (
	// Content: the whole output is content, whatever tags it has.
	Content Start = iota
	// Either: the output begins with thought if it begins with Open, otherwise it is all
	// content.
	Either
	// Thought: the output is thought up to Close or its end. An Open at its beginning is
	// dropped.
	Thought
)

// Start returns what an output begins with after a prompt that ends with the block in state
// b. off says that the request or the server has set enable_thinking to false.
func (k Kind) Start(b Block, off bool) Start {
	switch {
	case k == None, b == Closed, k == Qwen3 && off:
		return Content
	case b == Absent && (k == Auto || k >= Mistral && k <= Tagged):
		return Either
	}
	return Thought
}
