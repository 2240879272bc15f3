package openai

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"weir/api"
	"weir/grammar"
	"weir/server/failure"
)

// TestConstraintsOfABusyMachine: a constraint that takes too much work is the client's fault
// and is refused everywhere (400). One that was not compiled in time is the server's (503).
func TestConstraintsOfABusyMachine(t *testing.T) {
	var tokens [][]byte
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	v, err := grammar.NewVocabulary(append(tokens, nil), []int32{256})
	if err != nil {
		t.Fatal(err)
	}
	inline := func(_ context.Context, _ bool, f func()) error { f(); return nil }
	compile := func(change func(*grammar.Config)) error {
		cfg := grammar.DefaultConfig()
		change(&cfg)
		compiler, err := grammar.NewCompiler(v, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &constraints{}
		c.ready.Store(&grammarSet{lexicon: &lexicon{scratch: make([]uint32, 9)}, compiler: compiler})
		try := compilation{c, new(use), inline}
		_, _, err = try.constraint(t.Context(), api.ConstraintRegex, grammar.Spec{Kind: grammar.Regex, Text: strings.Repeat("(a|b)?", 100)})
		return err
	}
	if err := compile(func(*grammar.Config) {}); err != nil {
		t.Fatal(err)
	}
	if err := compile(func(c *grammar.Config) { c.Deadline = time.Nanosecond }); !errors.Is(err, failure.ErrCompiling) {
		t.Errorf("late: %v", err)
	}
	refused := (*api.Error)(nil)
	if err := compile(func(c *grammar.Config) { c.MaxWork = 1000 }); !errors.As(err, &refused) {
		t.Errorf("too much work: %v", err)
	}
}
