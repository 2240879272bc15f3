package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"weir/internal/jsontext"
)

// Structured makes prompts whose answers are constrained, as a schema or a set of tools does.
type Structured struct {
	Kind      string  // one of StructuredKinds
	InputLen  int     // words of a prompt
	OutputLen int     // tokens of an answer at most
	Ratio     float64 // of the requests that have a constraint, in [0, 1]
}

// StructuredKinds are the kinds of constraints: one JSON schema for all requests, a schema of its own for each,
// a regular expression, a choice, a grammar, and tools that must be called.
func StructuredKinds() []string {
	return []string{"json", "json-unique", "regex", "choice", "grammar", "tools"}
}

// DefaultStructured is one schema for all requests.
func DefaultStructured() Structured {
	return Structured{Kind: "json", InputLen: 128, OutputLen: 128, Ratio: 1}
}

func (s Structured) validate() error {
	if !slices.Contains(StructuredKinds(), s.Kind) {
		return fmt.Errorf("bench: structured output of the kind %q", s.Kind)
	}
	if !(s.Ratio >= 0 && s.Ratio <= 1) || s.InputLen < 1 || s.OutputLen < 1 {
		return fmt.Errorf("bench: a share of %v of constrained answers of %d tokens, and prompts of %d", s.Ratio, s.OutputLen, s.InputLen)
	}
	return checkLengths("structured", s.InputLen, s.OutputLen)
}

func (s Structured) draw(n int, d *drawing) ([]Prompt, error) {
	rnd, chosen := d.words(), d.lengths()
	list := make([]Prompt, n)
	for i := range list {
		list[i] = Prompt{Text: "Answer in the form that is asked for. " + string(appendWords(nil, s.InputLen, rnd)), OutputLen: s.OutputLen}
		constrained, own := chosen.Float64() < s.Ratio, chosen.Uint64()
		if !constrained {
			continue
		}
		if s.Kind != "json-unique" {
			own = d.seed
		}
		if err := s.constrain(&list[i], rand.New(rand.NewPCG(own, promptStream))); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	return list, nil
}

// constrain adds the fields of a constraint that rnd decides.
func (s Structured) constrain(p *Prompt, rnd *rand.Rand) error {
	var fields map[string]any
	switch s.Kind {
	case "json", "json-unique":
		fields = map[string]any{"response_format": map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "answer", "schema": randomSchema(rnd, 2), "strict": true}}}
	case "regex":
		fields = structuredOutputs("regex", fmt.Sprintf(`[A-Z]{2}-\d{%d} [a-z]{3,%d}`, 2+rnd.IntN(6), 5+rnd.IntN(20)))
	case "choice":
		fields = structuredOutputs("choice", wordList(rnd, 4+rnd.IntN(12)))
	case "grammar":
		fields = structuredOutputs("grammar", "root ::= term (\" + \" term)*\nterm ::= [0-9]+ | \"(\" root \")\"\n")
	case "tools":
		fields = map[string]any{"tools": randomTools(rnd), "tool_choice": "required"}
	}
	for name, v := range fields {
		text, err := jsontext.Encode(v)
		if err != nil {
			return err
		}
		p.field(name, text)
	}
	return nil
}

func structuredOutputs(kind string, value any) map[string]any {
	return map[string]any{"structured_outputs": map[string]any{kind: value}}
}

// wordList is a list of n different words.
func wordList(rnd *rand.Rand, n int) []string {
	list := make([]string, 0, n)
	for _, i := range rnd.Perm(len(words))[:n] {
		list = append(list, words[i])
	}
	return list
}

// randomSchema is the schema of an object of a few members, some of which are objects again.
func randomSchema(rnd *rand.Rand, depth int) map[string]any {
	members := map[string]any{}
	names := wordList(rnd, 3+rnd.IntN(3))
	for _, name := range names {
		members[name] = randomMember(rnd, depth)
	}
	return map[string]any{"type": "object", "properties": members, "required": names, "additionalProperties": false}
}

func randomMember(rnd *rand.Rand, depth int) map[string]any {
	switch kinds := 5; rnd.IntN(kinds + min(depth, 1)) {
	case 0:
		return map[string]any{"type": "string", "maxLength": 8 + rnd.IntN(24)}
	case 1:
		return map[string]any{"type": "integer", "minimum": 0, "maximum": 10 + rnd.IntN(1000)}
	case 2:
		return map[string]any{"type": "boolean"}
	case 3:
		return map[string]any{"enum": wordList(rnd, 2+rnd.IntN(6))}
	case 4:
		return map[string]any{"type": "array", "items": map[string]any{"enum": wordList(rnd, 2+rnd.IntN(6))}, "maxItems": 1 + rnd.IntN(4)}
	}
	return randomSchema(rnd, depth-1)
}

// randomTools are a few functions that a model can call.
func randomTools(rnd *rand.Rand) []any {
	var list []any
	for _, name := range wordList(rnd, 2+rnd.IntN(4)) {
		list = append(list, map[string]any{"type": "function", "function": map[string]any{
			"name": "tool_" + name, "description": "Does what " + name + " means.", "parameters": randomSchema(rnd, 1)}})
	}
	return list
}
