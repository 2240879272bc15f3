package main

import "fmt"

// engine takes schemas and judges instances.
type engine interface {
	name() string
	measure(c *testCase) (*result, error) // an error means that the engine itself has failed
	close() error
}

// The engines: weir in two modes, and llguidance.
const (
	plainName  = "weir, as JSON Schema says"
	servedName = "weir, as served"
	peerName   = "llguidance"
)

var engineNames = []string{plainName, servedName, peerName}

// result is what an engine did with one schema. Times are nanoseconds.
type result struct {
	Error   string   `json:"error"`     // why the schema is refused; "": it is not
	Tests   []answer `json:"tests"`     // by instance
	First   int64    `json:"first_ns"`  // compiling and the first mask
	Masks   []int64  `json:"mask_ns"`   // of every token of every instance, until it was rejected
	Commits []int64  `json:"commit_ns"` // of every token that was accepted
}

// answer is what an engine says about an instance.
type answer struct {
	Accepted bool   `json:"accepted"` // all tokens, and the text may end there
	At       int    `json:"at"`       // how many tokens were accepted
	Error    string `json:"error"`    // "": nothing went wrong; otherwise the instance is not accepted
}

// outcome is what became of a schema.
type outcome string

const (
	passed     outcome = "passed"     // every instance is judged rightly
	undeclared outcome = "undeclared" // every instance but valid ones with properties that the schema does not declare
	refused    outcome = "refused"    // the schema is
	rejected   outcome = "rejected"   // a valid instance is rejected
	accepted   outcome = "accepted"   // an invalid instance is accepted
)

// verdict is the outcome of a schema, with a reason.
type verdict struct {
	Outcome    outcome `json:"outcome"`
	Why        string  `json:"why,omitempty"`
	Undeclared int     `json:"undeclared,omitempty"` // valid instances that are rejected for undeclared properties
	Wrong      int     `json:"wrong,omitempty"`      // other instances that are judged wrongly
}

// judge compares answers with what the instances are. apart reports whether a valid instance
// may be rejected, because the engine never produces undeclared properties; nil: none may.
func judge(c *testCase, r *result, apart func(i int) bool) verdict {
	if r.Error != "" {
		return verdict{Outcome: refused, Why: r.Error}
	}
	v := verdict{Outcome: passed}
	for i, t := range c.tests {
		a := r.Tests[i]
		switch {
		case a.Accepted == t.valid:
		case a.Accepted:
			v.Wrong++
			if v.Outcome != accepted {
				v.Outcome, v.Why = accepted, fmt.Sprintf("INVALID instance %d is accepted: %s", i, cut(t.text))
			}
		case apart != nil && apart(i):
			v.Undeclared++
			if v.Outcome == passed {
				v.Outcome, v.Why = undeclared, fmt.Sprintf("instance %d has undeclared properties, at token %d of %s", i, a.At, cut(t.text))
			}
		default:
			v.Wrong++
			if v.Outcome == passed || v.Outcome == undeclared {
				v.Outcome, v.Why = rejected, fmt.Sprintf("valid instance %d is rejected at token %d of %s", i, a.At, cut(t.text))
				if a.Error != "" {
					v.Why = fmt.Sprintf("valid instance %d, token %d: %s", i, a.At, a.Error)
				}
			}
		}
	}
	return v
}

func cut(text string) string {
	if len(text) > 2000 {
		return text[:2000] + "…"
	}
	return text
}

// judgeAll judges what the engines did with the i-th case of a turn.
func judgeAll(c *testCase, engines []engine, results [][]*result, i int) []verdict {
	var plain *result
	for at, e := range engines {
		if e.name() == plainName {
			plain = results[at][i]
		}
	}
	verdicts := make([]verdict, len(engines))
	for at, e := range engines {
		r := results[at][i]
		var apart func(int) bool
		if w, ok := e.(*weirEngine); ok && w.options.Strict && r.Error == "" {
			apart = w.undeclared(c, plain)
		}
		verdicts[at] = judge(c, r, apart)
	}
	return verdicts
}

// inMembers reports whether byte at of a JSON text is a part of an object that says that a
// member follows, or which: the comma or space before a member, or its name.
func inMembers(text string, at int) bool {
	type level struct{ object, value bool } // value: after the colon of a member
	var open []level
	inString := false
	for i := 0; i < len(text); i++ {
		b := text[i]
		if !inString && b == ',' && len(open) > 0 {
			open[len(open)-1].value = false
		}
		closes := !inString && (b == '}' || b == ']')
		if i == at {
			return len(open) > 0 && open[len(open)-1].object && !open[len(open)-1].value && !closes && !(b == '{' && !inString)
		}
		switch {
		case inString && b == '\\':
			if i++; i == at {
				return open[len(open)-1].object && !open[len(open)-1].value
			}
		case b == '"':
			inString = !inString
		case inString:
		case b == '{' || b == '[':
			open = append(open, level{object: b == '{'})
		case closes:
			open = open[:len(open)-1]
		case b == ':':
			open[len(open)-1].value = true
		}
	}
	return false
}
