package reasoning

import (
	"fmt"
	"strings"
)

// The tags of the think block. Most reasoning models use these. The output of models with
// other ones ([THINK], <seed:think>, channels) is not split.
const (
	Open  = "<think>"
	Close = "</think>"
)

// Kind says how thoughts are recognized. The zero value is Auto.
type Kind uint8

const (
	// Auto splits if the chat template contains Close. The output is content if neither
	// the prompt nor the output opens the block, because a template may know the tags
	// although the model was not asked to think.
	Auto Kind = iota
	// None does not split; tags are content.
	None
	// Qwen3 takes the output for thought from its first byte, with or without a tag,
	// unless the prompt has closed the block or enable_thinking is false.
	Qwen3
	// DeepSeekR1 is the same, but ignores enable_thinking.
	DeepSeekR1
)

var kinds = []struct {
	name string
	kind Kind
}{
	{"auto", Auto}, {"none", None}, {"qwen3", Qwen3}, {"deepseek_r1", DeepSeekR1},
	// These are vLLM's names of further parsers for the same tags.
	{"deepseek_v3", DeepSeekR1}, {"minimax_m2", DeepSeekR1}, {"olmo3", DeepSeekR1}, {"step3", DeepSeekR1}, {"step3p5", DeepSeekR1},
	{"glm45", Qwen3}, {"holo2", Qwen3}, {"nemotron_v3", Qwen3},
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

// For returns the kind to use with a template: Auto becomes None if the template does not
// contain Close.
func (k Kind) For(template string) Kind {
	if k == Auto && !strings.Contains(template, Close) {
		return None
	}
	return k
}

// Block is the state of the think block where a prompt ends.
type Block uint8

const (
	Absent Block = iota // the prompt says nothing
	Opened
	Closed
)

// AtEnd returns the state of the block at the end of a generation prompt. Only tags at the
// very end count: those further up belong to earlier messages, or a user wrote them.
func AtEnd(prompt string) Block {
	prompt = strings.TrimRight(prompt, blanks)
	switch {
	case strings.HasSuffix(prompt, Close):
		return Closed
	case strings.HasSuffix(prompt, Open):
		return Opened
	}
	return Absent
}

// Within returns the state of the block after the last tag of a text. Tags that end at or
// before byte from do not count.
func Within(text string, from int) Block {
	opened, closed := strings.LastIndex(text, Open), strings.LastIndex(text, Close)
	if opened >= 0 && opened+len(Open) <= from {
		opened = -1
	}
	if closed >= 0 && closed+len(Close) <= from {
		closed = -1
	}
	switch {
	case opened < 0 && closed < 0:
		return Absent
	case opened > closed:
		return Opened
	}
	return Closed
}

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
	case b == Absent && k == Auto:
		return Either
	}
	return Thought
}
