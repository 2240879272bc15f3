package grammar

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// textSchema draws a schema about strings with many choices.
func textSchema(r *randomSchema, depth int) obj {
	if depth == 0 || r.one(4) {
		switch r.n(6) {
		case 0:
			return obj{"maxLength": r.n(3)}
		case 1:
			return obj{"minLength": 1 + r.n(3)}
		case 2:
			return obj{"enum": []any{pick[any](r, "", "a", "ab", 1), pick[any](r, "b", "ba", "bab", nil)}}
		case 3:
			return obj{"type": pick(r, "string", "integer")}
		}
		return obj{"pattern": pick(r, "a", "^a", "b$", "ab", "^(ab)*$", "aa", "^.b")}
	}
	var l []any
	for range 2 + r.n(2) {
		l = append(l, textSchema(r, depth-1))
	}
	switch r.n(5) {
	case 0:
		return obj{"not": l[0]}
	case 1:
		return obj{"allOf": l}
	case 2:
		return obj{"oneOf": l}
	case 3:
		return obj{"if": l[0], "then": l[1]}
	}
	return obj{"anyOf": l}
}

// TestTexts: choices about strings are kept exactly, whether they are multiplied out or put
// into one automaton.
func TestTexts(t *testing.T) {
	words := []string{""}
	for i := 0; len(words) < 63; i++ {
		words = append(words, words[i]+"a", words[i]+"b")
	}
	valid, merged, seeds := 0, 0, 600
	if slow || testing.Short() {
		seeds = 150
	}
	for seed := range seeds {
		r := &randomSchema{rng: rand.New(rand.NewPCG(uint64(seed), 13))}
		text := mustMarshal(t, obj{"type": "string", "allOf": []any{textSchema(r, 3), textSchema(r, 3), textSchema(r, 2)}})
		b := newBuilder(commonRules(), 400_000, &meter{left: DefaultConfig().MaxWork})
		s := newSchemas(b, mustParse(t, []byte(text)), "", Options{})
		g, err := compileFor(schema(text), testVocabulary)
		if err != nil && !errors.Is(err, ErrUnsatisfiable) {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		if s.value([]any{s.d.root}); len(s.texts) > 0 {
			merged++
		}
		v := validator(t, text)
		for _, w := range words {
			want := isValid(t, v, `"`+w+`"`)
			if got := g != nil && g.accepts(`"`+w+`"`); got != want {
				t.Fatalf("seed %d: %s: %q is accepted: %t, want %t", seed, text, w, got, want)
			}
			if want {
				valid++
			}
		}
	}
	t.Logf("%d valid texts; %d of %d schemas have merged choices", valid, merged, seeds)
	if valid < 5*seeds || merged < seeds/5 {
		t.Errorf("%d valid texts; %d of %d schemas have merged choices", valid, merged, seeds)
	}
}
