// Package reasoning tells what a model thinks from what it answers.
//
// A model that thinks writes its thoughts first, between <think> and </think>.
// The opening tag may also stand at the end of the prompt, as may both, where
// thinking is off. So where an output begins is read off the prompt (Kind.Start)
// and the rest off the output (Splitter): a leading <think> is dropped, what
// follows is thought up to the first </think>, the rest is content (spec
// chat-completions 9.1). Every byte but the tags' own, and blanks in front of
// the opening one, is in one of the two.
package reasoning

import (
	"fmt"
	"strings"
)

// The tags. Most of the reasoning models there are have these; models with
// others ([THINK], <seed:think>, channels) are not split.
const (
	Open  = "<think>"
	Close = "</think>"
)

// Kind is the way in which a model thinks. The zero value is Auto.
type Kind uint8

const (
	// Auto splits if the template knows Close. What neither the prompt nor the
	// output opens is content: there are templates that know the tags and
	// models behind them that have not been told to think.
	Auto Kind = iota
	// None splits nothing: tags are content.
	None
	// Qwen3 takes the output for thought from its first byte, tag or not,
	// unless the prompt has closed the block or enable_thinking is false.
	Qwen3
	// DeepSeekR1 is Qwen3 without an eye to enable_thinking.
	DeepSeekR1
)

var kinds = []struct {
	name string
	kind Kind
}{
	{"auto", Auto}, {"none", None}, {"qwen3", Qwen3}, {"deepseek_r1", DeepSeekR1},
	// The reference's names for parsers of the same tags. What its parser
	// classes differ in beyond that is where the output begins, which the prompt
	// tells us.
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

// For is the kind to use with a template: Auto without the tags is None.
func (k Kind) For(template string) Kind {
	if k == Auto && !strings.Contains(template, Close) {
		return None
	}
	return k
}

// Block is the state of the think block where a prompt ends.
type Block uint8

const (
	Absent Block = iota // nothing is said
	Opened
	Closed
)

// AtEnd is the block that a generation prompt leaves. Only its end is looked
// at: tags further up belong to the history, or stand in what a user wrote.
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

// Within is the block that the last tag of a text leaves, among the tags that
// end behind byte from.
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
	// Content: all of it is content, whatever tags it has.
	Content Start = iota
	// Either: thought if it begins with Open, else all content.
	Either
	// Thought: thought, up to Close or the end. A leading Open is dropped.
	Thought
)

// Start is what an output begins with behind a prompt that leaves b; off says
// that the request or the server has set enable_thinking to false.
func (k Kind) Start(b Block, off bool) Start {
	switch {
	case k == None, b == Closed, k == Qwen3 && off:
		return Content
	case b == Absent && k == Auto:
		return Either
	}
	return Thought
}
