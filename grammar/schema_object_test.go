package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// objectCase is a random object schema whose values are all null, so that a text is told by
// the names in it.
type objectCase struct {
	names       []string // declared, in order
	required    []bool
	least, most int  // most -1: no bound
	open        bool // undeclared names are allowed
}

func randomObject(rng *rand.Rand) objectCase {
	pool := []string{"a", "ab", "abc", "b", "", "é", "\"", "a\n"}
	rng.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	c := objectCase{names: pool[:rng.IntN(6)], most: rng.IntN(8) - 2, open: rng.IntN(2) == 0}
	c.most = max(c.most, -1)
	for range c.names {
		c.required = append(c.required, rng.IntN(4) == 0)
	}
	if rng.IntN(3) == 0 {
		c.least = rng.IntN(len(c.names) + 4)
	}
	return c
}

func (c *objectCase) schema() string {
	var s strings.Builder
	s.WriteString(`{"type":"object","properties":{`)
	var required []string
	for i, n := range c.names {
		if i > 0 {
			s.WriteString(",")
		}
		fmt.Fprintf(&s, "%s:{\"type\":\"null\"}", quoteJSON(n))
		if c.required[i] {
			required = append(required, quoteJSON(n))
		}
	}
	fmt.Fprintf(&s, `},"required":[%s],"minProperties":%d`, strings.Join(required, ","), c.least)
	if c.most >= 0 {
		fmt.Fprintf(&s, `,"maxProperties":%d`, c.most)
	}
	if c.open {
		s.WriteString(`,"additionalProperties":{"type":"null"}}`)
	} else {
		s.WriteString(`,"additionalProperties":false}`)
	}
	return s.String()
}

// allows is the rule in plain words: declared names in their order, all that are required,
// then undeclared ones, of which only the first counts for the least number, since they may
// be the same, unless the least number needs more of them: then all of them are different.
func (c *objectCase) allows(names []string) bool {
	at, count, undeclared := 0, 0, 0
	differ := c.least > len(c.names)+1
	var others []string
	seen := make([]bool, len(c.names))
	for _, n := range names {
		i := slices.Index(c.names, n)
		if i < 0 {
			if undeclared++; differ && slices.Contains(others, n) {
				return false
			}
			others = append(others, n)
			continue
		}
		if i < at || undeclared > 0 {
			return false
		}
		at, seen[i] = i+1, true
		count++
	}
	for i := range c.names {
		if c.required[i] && !seen[i] {
			return false
		}
	}
	counting := min(undeclared, 1)
	if differ {
		counting = undeclared
	}
	return (undeclared == 0 || c.open) && count+counting >= c.least && (c.most < 0 || len(names) <= c.most)
}

// TestObjectsTakeEverySelection: for random schemas of objects, all selections of their
// properties and of two undeclared ones, in and out of order, are accepted or not as the
// plain rule says.
func TestObjectsTakeEverySelection(t *testing.T) {
	accepted, rejected, compiled := 0, 0, 0
	for seed := range 400 {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		c := randomObject(rng)
		g, err := compileFor(schema(c.schema()), testVocabulary)
		if err != nil {
			// Nothing satisfies it.
			continue
		}
		compiled++
		for range 60 {
			names := selection(rng, &c)
			text, err := objectText(names)
			if err != nil {
				t.Fatal(err)
			}
			want := c.allows(names)
			if g.accepts(text) != want {
				t.Fatalf("%s\n%s: accepted %t, want %t", c.schema(), text, !want, want)
			}
			if want {
				accepted++
			} else {
				rejected++
			}
		}
	}
	if accepted < 2000 || rejected < 2000 || compiled < 200 {
		t.Errorf("%d schemas, %d texts accepted, %d rejected: too few to tell", compiled, accepted, rejected)
	}
}

// selection is a random list of names, most often one that fits.
func selection(rng *rand.Rand, c *objectCase) []string {
	var names []string
	for i, n := range c.names {
		if c.required[i] && rng.IntN(20) > 0 || rng.IntN(2) == 0 {
			names = append(names, n)
		}
	}
	for _, n := range []string{"z", "ax", "z", "y"} {
		if rng.IntN(3) == 0 {
			names = append(names, n)
		}
	}
	if len(names) > 1 && rng.IntN(6) == 0 {
		i := rng.IntN(len(names) - 1)
		names[i], names[i+1] = names[i+1], names[i]
	}
	return names
}

func objectText(names []string) (string, error) {
	var s strings.Builder
	s.WriteString("{")
	for i, n := range names {
		if i > 0 {
			s.WriteString(", ")
		}
		q, err := json.Marshal(n)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&s, "%s: null", q)
	}
	s.WriteString("}")
	return s.String(), nil
}
