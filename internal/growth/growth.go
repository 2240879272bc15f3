// Package growth makes constraints of any size: schemas, regular expressions, grammars and
// structural tags in which one thing grows. Tests count what compiling them costs as it grows,
// tools/maskbench measures it beside another engine, and tools/chaos sends them to a server.
package growth

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is the kind of a constraint, by the name of its field in structured_outputs.
type Kind string

const (
	Schema  Kind = "json"
	Regex   Kind = "regex"
	Choice  Kind = "choice"
	Grammar Kind = "grammar"
	Tag     Kind = "structural_tag"
)

// Constraint is a constraint as a client writes it.
type Constraint struct {
	Kind    Kind
	Text    string   // JSON if the kind is Schema or Tag; in a grammar, the notation of GBNF if it has ::= in it, otherwise Lark
	Choices []string // of the kind Choice
}

// Case is a family of constraints.
type Case struct {
	Name string
	Of   func(n int) Constraint // of size n, which is at least 1
}

// Cases are all families, by what grows.
var Cases = []Case{
	// Objects.
	{"required", schema(func(n int) string { return `{"type":"object","required":[` + list(n, `"n%d"`) + `]}` })},
	{"properties", schema(func(n int) string {
		return `{"type":"object","properties":{` + list(n, `"n%d":{"type":"string"}`) + `}}`
	})},
	{"required properties", schema(func(n int) string {
		return `{"type":"object","properties":{` + list(n, `"n%d":{"type":"string"}`) + `},"required":[` + list(n, `"n%d"`) + `]}`
	})},
	{"counted properties", schema(func(n int) string {
		return `{"type":"object","maxProperties":5,"properties":{` + list(n, `"n%d":{"type":"string"}`) + `}}`
	})},
	{"patternProperties", schema(func(n int) string {
		return `{"type":"object","patternProperties":{` + list(n, `"^n%d":{"type":"string"}`) + `}}`
	})},
	{"both properties", schema(func(n int) string {
		return `{"type":"object","properties":{` + list(n, `"n%d":true`) + `},"patternProperties":{` + list(n, `"^n%d":{"type":"string"}`) + `}}`
	})},

	// Values and combinations of schemas.
	{"enum", schema(func(n int) string { return `{"enum":[` + list(n, `"word %d"`) + `]}` })},
	{"enum of numbers", schema(func(n int) string { return `{"enum":[` + list(n, `%d`) + `],"minimum":3}` })},
	{"enum of objects", schema(func(n int) string { return `{"enum":[` + list(n, `{"a":%d}`) + `]}` })},
	{"types", schema(func(n int) string { return `{"type":[` + list(n, `"string"`) + `]}` })},
	{"anyOf", schema(func(n int) string { return `{"anyOf":[` + list(n, `{"type":"string","const":"w%d"}`) + `]}` })},
	{"anyOf of objects", schema(func(n int) string {
		return `{"anyOf":[` + list(n, `{"type":"object","properties":{"a%d":{"type":"string"}},"required":["a%d"],"additionalProperties":false}`) + `]}`
	})},
	{"oneOf", schema(func(n int) string { return `{"oneOf":[` + list(n, `{"type":"string","const":"w%d"}`) + `]}` })},
	{"discriminated oneOf", schema(func(n int) string {
		return `{"oneOf":[` + list(n, `{"type":"object","properties":{"kind":{"const":"k%d"},"v%d":{"type":"string"}},"required":["kind"],"additionalProperties":false}`) + `]}`
	})},
	{"allOf", schema(func(n int) string { return `{"type":"string","allOf":[` + list(n, `{"maxLength":1%d}`) + `]}` })},
	{"prefixItems", schema(func(n int) string { return `{"type":"array","prefixItems":[` + list(n, `{"type":"string"}`) + `]}` })},

	// Conditions and negations.
	{"conditions", schema(func(n int) string {
		return `{"type":"object","properties":{"t":{"type":"string"}},"required":["t"],"allOf":[` + list(n, `{"if":{"properties":{"t":{"const":"v%d"}}},"then":{"required":["x%d"]}}`) + `]}`
	})},
	{"dependencies", schema(func(n int) string { return `{"type":"object","dependentRequired":{` + list(n, `"n%d":["m%d"]`) + `}}` })},
	{"one of required", schema(func(n int) string { return `{"type":"object","oneOf":[` + list(n, `{"required":["n%d"]}`) + `]}` })},
	{"one of patterns", schema(func(n int) string { return `{"type":"string","oneOf":[` + list(n, `{"pattern":"x%d"}`) + `]}` })},
	{"not enum", schema(func(n int) string { return `{"type":"string","not":{"enum":[` + list(n, `"n%d"`) + `]}}` })},
	{"not enum objects", schema(func(n int) string { return `{"not":{"enum":[` + list(n, `{"a":%d}`) + `]}}` })},
	{"not required", schema(func(n int) string { return `{"type":"object","not":{"required":[` + list(n, `"n%d"`) + `]}}` })},
	{"not properties", schema(func(n int) string {
		return `{"type":"object","not":{"properties":{` + list(n, `"n%d":{"type":"string"}`) + `}}}`
	})},
	{"negations", schema(func(n int) string { return `{"allOf":[` + list(n, `{"not":{"const":"n%d"}}`) + `]}` })},

	// Elements that are compared.
	{"different elements", schema(func(n int) string {
		return `{"type":"array","uniqueItems":true,"items":{"enum":[` + list(n, `"word %d"`) + `]}}`
	})},
	{"different objects", schema(func(n int) string {
		return `{"type":"array","uniqueItems":true,"items":{"type":"object","properties":{` + list(n, `"n%d":{"type":"string"}`) + `}}}`
	})},

	// Depth and references.
	{"nested objects", schema(func(n int) string {
		return strings.Repeat(`{"type":"object","properties":{"a":`, n) + `{"type":"string"}` + strings.Repeat(`}}`, n)
	})},
	{"nested arrays", schema(func(n int) string {
		return strings.Repeat(`{"type":"array","items":`, n) + `{"type":"string"}` + strings.Repeat(`}`, n)
	})},
	{"definitions", schema(func(n int) string {
		return `{"$defs":{` + list(n, `"d%d":{"$ref":"#/$defs/d%d"}`) + `},"anyOf":[` + list(n, `{"$ref":"#/$defs/d%d"}`) + `]}`
	})},
	{"$ref chain", schema(func(n int) string {
		return `{"$defs":{` + list(n, `"d%d":{"$ref":"#/$defs/d%+"}`) + `,"d` + strconv.Itoa(n) + `":{"type":"string"}},"$ref":"#/$defs/d0"}`
	})},
	{"depth by $ref", schema(func(n int) string {
		return `{"$defs":{` + list(n, `"d%d":{"type":"array","items":{"$ref":"#/$defs/d%+"}}`) + `,"d` + strconv.Itoa(n) + `":{"type":"string"}},"$ref":"#/$defs/d0"}`
	})},
	{"$ref cycle", schema(func(n int) string {
		return `{"$defs":{` + list(n, `"d%d":{"type":"object","properties":{"next":{"$ref":"#/$defs/d%+"},"v":{"type":"string"}}}`) + `,"d` + strconv.Itoa(n) + `":{"$ref":"#/$defs/d0"}},"$ref":"#/$defs/d0"}`
	})},
	{"$ref cycles", schema(func(n int) string {
		// Each definition leads back to the first one and on to the next: n cycles of all lengths.
		return `{"$defs":{` + list(n, `"d%d":{"type":"object","properties":{"back":{"$ref":"#/$defs/d0"},"on":{"$ref":"#/$defs/d%+"}}}`) + `,"d` + strconv.Itoa(n) + `":{"type":"null"}},"$ref":"#/$defs/d0"}`
	})},

	// Structural tags.
	{"tags", tag(func(n int) string {
		return `{"format":{"type":"triggered_tags","triggers":["<"],"tags":[` + list(n, `{"type":"tag","begin":"<t%d>","content":{"type":"any_text"},"end":"</t%d>"}`) + `]}}`
	})},
	{"structures", tag(func(n int) string {
		return `{"structures":[` + list(n, `{"begin":"<t%d>","schema":{},"end":"</t%d>"}`) + `],"triggers":[` + list(n, `"<t%d>"`) + `]}`
	})},
	{"separated tags", tag(func(n int) string {
		return `{"format":{"type":"tags_with_separator","separator":",","tags":[` + list(n, `{"type":"tag","begin":"<t%d>","content":{"type":"any_text"},"end":"</t%d>"}`) + `]}}`
	})},
	{"excludes", tag(func(n int) string { return `{"format":{"type":"any_text","excludes":[` + list(n, `"x%d"`) + `]}}` })},

	// Choices and regular expressions.
	{"choices", func(n int) Constraint { return Constraint{Kind: Choice, Choices: words(n)} }},
	{"alternatives", regex(func(n int) string { return strings.Join(words(n), "|") })},
	{"characters", regex(func(n int) string { return "[" + strings.Repeat("a-z0-9é", n) + "]" })},
	{"groups", regex(func(n int) string { return strings.Repeat("(a|b)?", n) })},
	{"counted repetition", regex(func(n int) string { return fmt.Sprintf("(ab|c){0,%d}d", n) })},
	{"counted repetitions", regex(func(n int) string { return strings.Repeat("[ab]{2,9}c", n) })},
	{"nested repetition", regex(func(n int) string { return fmt.Sprintf("(([a-z]{0,%d}-){0,%d};){0,%d}", n, n, n) })},

	// Grammars.
	{"rules", grammar(func(n int) string {
		return "root ::= r0\n" + strings.ReplaceAll(list(n, `r%d ::= "a" r%+`), ",", "\n") + "\nr" + strconv.Itoa(n) + ` ::= "b"`
	})},
	{"cyclic rules", grammar(func(n int) string {
		return "root ::= r0\n" + strings.ReplaceAll(list(n, `r%d ::= "a" r%+ | "(" r0 ")"`), ",", "\n") + "\nr" + strconv.Itoa(n) + ` ::= "b"`
	})},
	{"rules in a row", grammar(func(n int) string { return "root ::= " + strings.Repeat(`"a"? `, n) })},
	{"alternative rules", grammar(func(n int) string { return `root ::= "` + strings.Join(words(n), `" | "`) + `"` })},
	{"left recursion", grammar(func(n int) string {
		return "root ::= r0\n" + strings.ReplaceAll(list(n, `r%d ::= r%d "+%d" r%+ | r%+`), ",", "\n") + "\nr" + strconv.Itoa(n) + ` ::= "b"`
	})},
}

func schema(text func(n int) string) func(n int) Constraint  { return of(Schema, text) }
func tag(text func(n int) string) func(n int) Constraint     { return of(Tag, text) }
func regex(text func(n int) string) func(n int) Constraint   { return of(Regex, text) }
func grammar(text func(n int) string) func(n int) Constraint { return of(Grammar, text) }

func of(k Kind, text func(n int) string) func(n int) Constraint {
	return func(n int) Constraint { return Constraint{Kind: k, Text: text(n)} }
}

// list is each, n times with commas between, with the number from 0 in place of %d, and the
// number after it in place of %+.
func list(n int, each string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.NewReplacer("%d", strconv.Itoa(i), "%+", strconv.Itoa(i+1)).Replace(each))
	}
	return b.String()
}

func words(n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint("word", i)
	}
	return words
}

// Lark is the grammar of a case in the notation of Lark. Of the notation of GBNF it knows
// what the cases use: a rule in each line, names, strings, | and ?.
func Lark(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, " ::=", ":"), "root:", "start:")
}

// LarkOfChoices is a grammar in the notation of Lark for one of some choices.
func LarkOfChoices(choices []string) string { return `start: "` + strings.Join(choices, `" | "`) + `"` }
