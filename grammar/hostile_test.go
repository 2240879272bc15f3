package grammar

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hostileSpecs are constraints whose size grows with n, which a client might send by
// mistake or to do harm.
var hostileSpecs = map[string]func(n size) Spec{
	"required": func(n size) Spec { return schema(`{"type":"object","required":[` + n.list(`"n%d"`) + `]}`) },
	"properties": func(n size) Spec {
		return schema(`{"type":"object","properties":{` + n.list(`"n%d":{"type":"string"}`) + `}}`)
	},
	"required properties": func(n size) Spec {
		return schema(`{"type":"object","properties":{` + n.list(`"n%d":{"type":"string"}`) + `},"required":[` + n.list(`"n%d"`) + `]}`)
	},
	"counted properties": func(n size) Spec {
		return schema(`{"type":"object","maxProperties":5,"properties":{` + n.list(`"n%d":{"type":"string"}`) + `}}`)
	},
	"patternProperties": func(n size) Spec {
		return schema(`{"type":"object","patternProperties":{` + n.list(`"^n%d":{"type":"string"}`) + `}}`)
	},
	"both properties": func(n size) Spec {
		return schema(`{"type":"object","properties":{` + n.list(`"n%d":true`) + `},"patternProperties":{` + n.list(`"^n%d":{"type":"string"}`) + `}}`)
	},
	"enum":            func(n size) Spec { return schema(`{"enum":[` + n.list(`"word %d"`) + `]}`) },
	"enum of numbers": func(n size) Spec { return schema(`{"enum":[` + n.list(`%d`) + `],"minimum":3}`) },
	"enum of objects": func(n size) Spec { return schema(`{"enum":[` + n.list(`{"a":%d}`) + `]}`) },
	"anyOf":           func(n size) Spec { return schema(`{"anyOf":[` + n.list(`{"type":"string","const":"w%d"}`) + `]}`) },
	"oneOf":           func(n size) Spec { return schema(`{"oneOf":[` + n.list(`{"type":"string","const":"w%d"}`) + `]}`) },
	"allOf":           func(n size) Spec { return schema(`{"type":"string","allOf":[` + n.list(`{"maxLength":1%d}`) + `]}`) },
	"prefixItems": func(n size) Spec {
		return schema(`{"type":"array","prefixItems":[` + n.list(`{"type":"string"}`) + `]}`)
	},
	"definitions": func(n size) Spec {
		return schema(`{"$defs":{` + n.list(`"d%d":{"$ref":"#/$defs/d%d"}`) + `},"anyOf":[` + n.list(`{"$ref":"#/$defs/d%d"}`) + `]}`)
	},
	"different elements": func(n size) Spec {
		return schema(`{"type":"array","uniqueItems":true,"items":{"enum":[` + n.list(`"word %d"`) + `]}}`)
	},
	"different objects": func(n size) Spec {
		return schema(`{"type":"array","uniqueItems":true,"items":{"type":"object","properties":{` + n.list(`"n%d":{"type":"string"}`) + `}}}`)
	},
	"types": func(n size) Spec { return schema(`{"type":[` + n.list(`"string"`) + `]}`) },
	"tags": func(n size) Spec {
		return tag(`{"format":{"type":"triggered_tags","triggers":["<"],"tags":[` + n.list(`{"type":"tag","begin":"<t%d>","content":{"type":"any_text"},"end":"</t%d>"}`) + `]}}`)
	},
	"structures": func(n size) Spec {
		return tag(`{"structures":[` + n.list(`{"begin":"<t%d>","schema":{},"end":"</t%d>"}`) + `],"triggers":[` + n.list(`"<t%d"`) + `]}`)
	},
	"separated tags": func(n size) Spec {
		return tag(`{"format":{"type":"tags_with_separator","separator":",","tags":[` + n.list(`{"type":"tag","begin":"<t%d>","content":{"type":"any_text"},"end":"</t%d>"}`) + `]}}`)
	},
	"excludes":     func(n size) Spec { return tag(`{"format":{"type":"any_text","excludes":[` + n.list(`"x%d"`) + `]}}`) },
	"choices":      func(n size) Spec { return Spec{Kind: Choice, Choices: n.words()} },
	"alternatives": func(n size) Spec { return Spec{Kind: Regex, Text: strings.Join(n.words(), "|")} },
	"characters":   func(n size) Spec { return Spec{Kind: Regex, Text: "[" + strings.Repeat("a-z0-9é", int(n)) + "]"} },
	"groups":       func(n size) Spec { return Spec{Kind: Regex, Text: strings.Repeat("(a|b)?", int(n))} },
	"rules": func(n size) Spec {
		return Spec{Kind: Notation, Text: "root ::= r0\n" + strings.ReplaceAll(n.list(`r%d ::= "a" r%d`), ",", "\n")}
	},
	"rules in a row": func(n size) Spec { return Spec{Kind: Notation, Text: "root ::= " + strings.Repeat(`"a"? `, int(n))} },
	"alternative rules": func(n size) Spec {
		return Spec{Kind: Notation, Text: `root ::= "` + strings.Join(n.words(), `" | "`) + `"`}
	},
}

type size int

// list is each, n times with commas between, and with the number in place of %d.
func (n size) list(each string) string {
	var b strings.Builder
	for i := range int(n) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(each, "%d", strconv.Itoa(i)))
	}
	return b.String()
}

func (n size) words() []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint("word", i)
	}
	return words
}

// TestHostileSpecs: whatever grows in a constraint, compiling it ends when its budget
// of work is spent or when nobody waits for it any more.
func TestHostileSpecs(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxWork, cfg.Deadline = 150_000, time.Hour
	for name, spec := range hostileSpecs {
		t.Run(name, func(t *testing.T) {
			s := spec(1500)
			_, err := compile(s, testVocabulary, cfg, nil)
			if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
				t.Errorf("within a budget: %v", err)
			}
			asked := 0
			_, err = compile(s, testVocabulary, cfg, func() bool { asked++; return asked == 2 })
			if asked > 2 || asked == 2 && !errors.Is(err, ErrAbandoned) {
				t.Errorf("abandoned: %v, after %d questions", err, asked)
			}
		})
	}
}

// ambiguousRules is a grammar of n rules that can all read the same texts, and count
// them differently: small to compile, but most tokens lead to a position of their own.
func ambiguousRules(n size) Spec {
	var b strings.Builder
	b.WriteString("root ::= x2")
	for i := 3; i < int(n); i++ {
		fmt.Fprintf(&b, " | x%d", i)
	}
	for i := 2; i < int(n); i++ {
		fmt.Fprintf(&b, "\nx%d ::= ([a-zA-Z] [a-zA-Z0-9 ]{0,%d} | [ ,.;:_0-9é-ﬀ]){0,%d} \"!\"", i, i, 10*i)
	}
	return notation(b.String())
}

// TestFirstMaskIsPartOfCompiling: the first mask of a very ambiguous grammar is spent
// from the budget of compiling, and is not built any further when nobody waits for it.
// With 128,256 tokens and 200 rules, each mask of this grammar takes 0.3 to 0.6 s.
func TestFirstMaskIsPartOfCompiling(t *testing.T) {
	voc := syntheticVocabulary(t, 20_000, false)
	s := ambiguousRules(40)
	cfg := DefaultConfig()
	asked := 0
	if _, err := compile(s, voc, cfg, func() bool { asked++; return false }); err != nil {
		t.Fatal(err)
	}
	cfg.MaxWork = 100_000
	if _, err := compile(s, testVocabulary, cfg, nil); err != nil {
		t.Fatalf("this budget should be enough to compile without a mask of many tokens: %v", err)
	}
	if _, err := compile(s, voc, cfg, nil); !errors.Is(err, ErrTooComplex) {
		t.Errorf("the budget is spent: %v", err)
	}
	left := asked - 1
	if _, err := compile(s, voc, DefaultConfig(), func() bool { left--; return left == 0 }); !errors.Is(err, ErrAbandoned) {
		t.Errorf("nobody waits any more: %v", err)
	}
}

// TestManyRequiredNames: a list of 100,000 required names is refused for its size, and
// not because the time is over. It took 23 seconds when each name was looked up in the
// list of those before it.
func TestManyRequiredNames(t *testing.T) {
	_, err := compileFor(hostileSpecs["required"](100_000), testVocabulary)
	if e := (*Error)(nil); !errors.As(err, &e) || e.Msg != "too many properties" {
		t.Errorf("%v", err)
	}
}

// TestAbandonedCompilation: a compilation goes on while anybody waits for it and ends
// when the last caller has left.
func TestAbandonedCompilation(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxWork, cfg.Deadline, cfg.MaxStates = 1<<50, time.Hour, 1<<30
	c := testCompiler(t, testVocabulary, cfg)
	endless := hostileSpecs["groups"](30_000) // states grow with the square of the groups
	left := errors.New("the client has left")
	first := startCompile(t, c, endless)
	awaitCallers(c, 1)
	second := startCompile(t, c, endless)
	awaitCallers(c, 2)
	first.leave(left) // this call compiles, and has to go on for the second
	awaitCallers(c, 1)
	select {
	case err := <-first.ended:
		t.Fatalf("the compilation ended although somebody waits: %v", err)
	default:
	}
	second.leave(left)
	for _, call := range []compileCall{first, second} {
		if err := <-call.ended; !errors.Is(err, left) {
			t.Errorf("%v", err)
		}
	}
	if c.mu.Lock(); len(c.entries) != 0 {
		t.Errorf("%d entries are kept", len(c.entries))
	}
	c.mu.Unlock()
}

// TestCompileAfterLeaving: a caller who has left before the call gets the reason, and
// the next caller gets the grammar.
func TestCompileAfterLeaving(t *testing.T) {
	c := testCompiler(t, testVocabulary, DefaultConfig())
	left := errors.New("the client has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	if _, err := c.Compile(ctx, re("a")); !errors.Is(err, left) {
		t.Errorf("a caller who has left: %v", err)
	}
	if _, err := c.Compile(t.Context(), re("a")); err != nil {
		t.Errorf("the next caller: %v", err)
	}
}

// compileCall is a call of Compile in another goroutine.
type compileCall struct {
	leave context.CancelCauseFunc
	ended chan error
}

func startCompile(t *testing.T, c *Compiler, s Spec) compileCall {
	ctx, leave := context.WithCancelCause(t.Context())
	call := compileCall{leave, make(chan error, 1)}
	go func() {
		_, err := c.Compile(ctx, s)
		call.ended <- err
	}()
	return call
}

// awaitCallers waits until n calls wait for results of c.
func awaitCallers(c *Compiler, n int) {
	for waiting := -1; waiting != n; runtime.Gosched() {
		waiting = 0
		c.mu.Lock()
		for el := c.recent.Front(); el != nil; el = el.Next() {
			waiting += el.Value.(*entry).users
		}
		c.mu.Unlock()
	}
}
