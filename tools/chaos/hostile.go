package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"weir/internal/growth"
	"weir/internal/jsontext"
)

// hostileCount is how many different constraints hostile has. Each is changed a little each
// time that it is sent, so that none is found in a cache.
const hostileCount = 200

// hostile is an attack with 200 constraints: those of package growth in sizes up to the
// largest that are read, and texts that are small and take much work.
func hostile(at *attacker) func(context.Context, int) {
	c := from(intruder)
	all := hostileConstraints()
	var n atomic.Int64
	return func(ctx context.Context, _ int) {
		id := n.Add(1)
		at.post(ctx, c, chat, chatOf(`"temperature":1,"structured_outputs":`+constrainedBy(all[int(id)%len(all)], id)))
	}
}

// hostileSizes are the sizes of the constraints of package growth.
var hostileSizes = []int{60, 1000, 30_000}

func hostileConstraints() (all []growth.Constraint) {
	for _, n := range hostileSizes {
		for _, c := range growth.Cases {
			all = append(all, c.Of(n))
		}
	}
	for i := 1; len(all) < hostileCount; i++ {
		all = append(all, smallHostile[i%len(smallHostile)](i))
	}
	return all
}

// smallHostile are constraints of a few hundred bytes, or kilobytes, that grow slowly with i.
var smallHostile = []func(i int) growth.Constraint{
	// Regular expressions whose deterministic automata are exponential, or which
	// backtracking matchers take exponential time for.
	func(i int) growth.Constraint { return regexOf(fmt.Sprintf(`(a|b)*a(a|b){%d}`, 8+i%80)) },
	func(i int) growth.Constraint { return regexOf(fmt.Sprintf(`(x+x+)+y{%d}`, i)) },
	func(i int) growth.Constraint { return regexOf(fmt.Sprintf(`(([a-z]+)*[a-z0-9]+)*!{1,%d}`, i)) },
	func(i int) growth.Constraint {
		return regexOf(fmt.Sprintf(`((a{1,%d}b{1,1000}){1,1000}c){1,99}`, 90+i))
	},
	func(i int) growth.Constraint { return regexOf(fmt.Sprintf(`((((a?){%d}b?){50}c?){50}d?){50}`, 10+i)) },
	func(i int) growth.Constraint { return regexOf(fmt.Sprintf(`(.*a.*b.*c.*){1,%d}`, i)) },
	// Grammars that can be read in many ways, or that begin with themselves.
	func(i int) growth.Constraint { return grammarOf(fmt.Sprintf(`root ::= root root | "a" | "b%d"`, i)) },
	func(i int) growth.Constraint {
		return grammarOf(fmt.Sprintf("root ::= s{1,%d}\ns ::= s s | s s s | [a-z ] | \"\"", i))
	},
	func(i int) growth.Constraint {
		return grammarOf("root ::= e\ne ::= e \"+\" e | e \"*\" e | e e | \"(\" e \")\" | [0-9a-z ]{1," + fmt.Sprint(i) + "}")
	},
	func(i int) growth.Constraint {
		return grammarOf("root ::= a\na ::= b \"x\" | a \"y\" | \"a\"\nb ::= c | a b\nc ::= a | b \"z\" | c \"w{" + fmt.Sprint(i) + "}\"")
	},
	func(i int) growth.Constraint {
		return grammarOf(fmt.Sprintf("root ::= ([a-z]{0,%d} [a-z ]{0,300} [a-z.]{0,300})* \"!\"", 100+i))
	},
	// Combinations of schemas.
	func(i int) growth.Constraint {
		// 4^8 combinations.
		three := fmt.Sprintf(`{"properties":{"p%%d":{"maxLength":%d}},"required":["p%%[1]d"]}`, i)
		var all strings.Builder
		for k := range 8 {
			fmt.Fprintf(&all, `%s{"anyOf":[%s,{"required":["q%d"]}]}`, comma(k), list(3, three), k)
		}
		return schemaOf(`{"type":"object","allOf":[` + all.String() + `]}`)
	},
	func(i int) growth.Constraint {
		return schemaOf(`{"type":"object","oneOf":[` + list(10+i%90, `{"required":["a%d"],"properties":{"x":{"type":"string"}}}`) + `]}`)
	},
	func(i int) growth.Constraint {
		return schemaOf(`{"type":"object","properties":{"k":{"type":"integer"}},"allOf":[` + list(5+i%60, `{"if":{"properties":{"k":{"const":%d}},"required":["k"]},"then":{"required":["r%[1]d"]},"else":{"required":["e%[1]d"]}}`) + `]}`)
	},
	func(i int) growth.Constraint {
		return schemaOf(`{"type":"object","patternProperties":{` + list(5+i%40, `"^(a|b)*a(a|b){%d}$":{"type":"string"}`) + `}}`)
	},
	func(i int) growth.Constraint {
		return schemaOf(fmt.Sprintf(`{"type":"object","patternProperties":{"(a+)+$":true,"^x{1,%d}":{"type":"object"}},"minProperties":3,"maxProperties":%[1]d}`, 10+i))
	},
	func(i int) growth.Constraint {
		return schemaOf(fmt.Sprintf(`{"type":"string","pattern":"^(a|b)*a(a|b){%d}$","minLength":%[1]d,"maxLength":5000}`, 5+i%30))
	},
	func(i int) growth.Constraint {
		return schemaOf(`{"$defs":{"n":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"},"minItems":` + fmt.Sprint(i) + `},{"type":"object","additionalProperties":{"$ref":"#/$defs/n"}},{"type":"string"}]}},"$ref":"#/$defs/n"}`)
	},
	func(i int) growth.Constraint {
		return schemaOf(fmt.Sprintf(`{"type":"number","multipleOf":0.0%d,"minimum":-1e15,"maximum":123456789012345}`, 1+2*i))
	},
}

func regexOf(text string) growth.Constraint { return growth.Constraint{Kind: growth.Regex, Text: text} }
func grammarOf(text string) growth.Constraint {
	return growth.Constraint{Kind: growth.Grammar, Text: text}
}
func schemaOf(text string) growth.Constraint {
	return growth.Constraint{Kind: growth.Schema, Text: text}
}

// constrainedBy is a constraint as the value of structured_outputs. The id makes it another
// one than all others, without a change of what it costs: as white space, as a comment, or as
// something that may follow.
func constrainedBy(c growth.Constraint, id int64) string {
	var value []byte
	switch c.Kind {
	case growth.Schema, growth.Tag: // bits of the id as kinds of white space
		value = append(value, c.Text...)
		value = value[:len(value)-1]
		for ; id > 0; id >>= 1 {
			value = append(value, " \n"[id&1])
		}
		value = append(value, '}')
	case growth.Choice:
		value = append(value, '[')
		for _, choice := range c.Choices {
			value = append(jsontext.AppendString(value, choice), ',')
		}
		value = fmt.Appendf(value, `"choice %d"]`, id)
	case growth.Regex:
		value = jsontext.AppendString(value, fmt.Sprintf("(%s)(#%d)?", c.Text, id))
	case growth.Grammar:
		value = jsontext.AppendString(value, c.Text+"\n# "+strings.Repeat(" ", int(id%7))+fmt.Sprint(id))
	}
	return fmt.Sprintf(`{"%s":%s}`, c.Kind, value)
}
