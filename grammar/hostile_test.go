package grammar

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostileSpecs are constraints whose size grows with n: what a client might send by
// mistake or to do harm.
func hostileSpecs(n int) map[string]Spec {
	list := func(each string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strings.ReplaceAll(each, "%d", fmt.Sprint(i)))
		}
		return b.String()
	}
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint("word", i)
	}
	tag := func(s string) Spec { return Spec{Kind: Tag, Schema: []byte(s)} }
	return map[string]Spec{
		"required":            schema(`{"type":"object","required":[` + list(`"n%d"`) + `]}`),
		"properties":          schema(`{"type":"object","properties":{` + list(`"n%d":{"type":"string"}`) + `}}`),
		"required properties": schema(`{"type":"object","properties":{` + list(`"n%d":{"type":"string"}`) + `},"required":[` + list(`"n%d"`) + `]}`),
		"counted properties":  schema(`{"type":"object","maxProperties":5,"properties":{` + list(`"n%d":{"type":"string"}`) + `}}`),
		"patternProperties":   schema(`{"type":"object","patternProperties":{` + list(`"^n%d":{"type":"string"}`) + `}}`),
		"both properties":     schema(`{"type":"object","properties":{` + list(`"n%d":true`) + `},"patternProperties":{` + list(`"^n%d":{"type":"string"}`) + `}}`),
		"enum":                schema(`{"enum":[` + list(`"word %d"`) + `]}`),
		"enum of numbers":     schema(`{"enum":[` + list(`%d`) + `],"minimum":3}`),
		"enum of objects":     schema(`{"enum":[` + list(`{"a":%d}`) + `]}`),
		"anyOf":               schema(`{"anyOf":[` + list(`{"type":"string","const":"w%d"}`) + `]}`),
		"oneOf":               schema(`{"oneOf":[` + list(`{"type":"string","const":"w%d"}`) + `]}`),
		"allOf":               schema(`{"type":"string","allOf":[` + list(`{"maxLength":1%d}`) + `]}`),
		"prefixItems":         schema(`{"type":"array","prefixItems":[` + list(`{"type":"string"}`) + `]}`),
		"definitions":         schema(`{"$defs":{` + list(`"d%d":{"$ref":"#/$defs/d%d"}`) + `},"anyOf":[` + list(`{"$ref":"#/$defs/d%d"}`) + `]}`),
		"types":               schema(`{"type":[` + list(`"string"`) + `]}`),
		"tags":                tag(`{"format":{"type":"triggered_tags","triggers":["<"],"tags":[` + list(`{"type":"tag","begin":"<t%d>","content":{"type":"any_text"},"end":"</t%d>"}`) + `]}}`),
		"structures":          tag(`{"structures":[` + list(`{"begin":"<t%d>","schema":{},"end":"</t%d>"}`) + `],"triggers":[` + list(`"<t%d"`) + `]}`),
		"separated tags":      tag(`{"format":{"type":"tags_with_separator","separator":",","tags":[` + list(`{"type":"tag","begin":"<t%d>","content":{"type":"any_text"},"end":"</t%d>"}`) + `]}}`),
		"excludes":            tag(`{"format":{"type":"any_text","excludes":[` + list(`"x%d"`) + `]}}`),
		"choices":             {Kind: Choice, Choices: words},
		"alternatives":        {Kind: Regex, Text: strings.Join(words, "|")},
		"characters":          {Kind: Regex, Text: "[" + strings.Repeat("a-z0-9é", n) + "]"},
		"groups":              {Kind: Regex, Text: strings.Repeat("(a|b)?", n)},
		"rules":               {Kind: Notation, Text: "root ::= r0\n" + strings.ReplaceAll(list(`r%d ::= "a" r%d`), ",", "\n")},
		"rules in a row":      {Kind: Notation, Text: "root ::= " + strings.Repeat(`"a"? `, n)},
		"alternative rules":   {Kind: Notation, Text: `root ::= "` + strings.Join(words, `" | "`) + `"`},
	}
}

// TestHostileSpecs: whatever grows in a specification, compiling it ends when its
// budget of work is spent or when nobody waits for it any more.
func TestHostileSpecs(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxWork, cfg.Deadline = 300_000, time.Hour
	for name, s := range hostileSpecs(3000) {
		t.Run(name, func(t *testing.T) {
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

// TestManyRequiredNames: a list of 100,000 required names, which took 23 seconds when
// each was looked up in the list of those before it, is refused for its size and not
// because the time is over.
func TestManyRequiredNames(t *testing.T) {
	_, err := compileFor(hostileSpecs(100_000)["required"], testVocabulary)
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
	endless := hostileSpecs(30_000)["groups"] // states grow with the square of the groups
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
			waiting += el.Value.(*entry).waiting
		}
		c.mu.Unlock()
	}
}
