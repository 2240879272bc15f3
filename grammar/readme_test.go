package grammar

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The worked example of README.md: a schema, a vocabulary of ten tokens, and a text.
const exampleSchema = `{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}`

var exampleTokens = []string{`{`, `"`, `n`, `{"n`, `":`, `-`, `7`, `7}`, `}`, `<end>`}

const exampleEnd = 9

// TestReadme: the blocks of README.md that show the worked example are what this
// version of the program does.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([][]byte, len(exampleTokens))
	for i, s := range exampleTokens {
		tokens[i] = []byte(s)
	}
	v, err := NewVocabulary(tokens, []int32{exampleEnd})
	if err != nil {
		t.Fatal(err)
	}
	s := schema(exampleSchema)
	s.DisableAnyWhitespace = true
	g := mustCompile(t, s, v)
	for name, block := range map[string]string{
		"the schema":                  exampleSchema + "\n",
		"the vocabulary":              exampleVocabulary(),
		"the network":                 drawNetwork(g),
		"the trie":                    drawTrie(v),
		"a shape":                     drawShape(g, `{"n":`),
		"the text, token after token": drawText(t, g, []int32{0, 1, 2, 4, 5, 6, 8, exampleEnd}),
	} {
		if !strings.Contains(string(readme), "```\n"+block+"```\n") {
			t.Errorf("README.md does not have this block of the worked example, %s:\n%s", name, block)
		}
	}
	list := schema(`{"type": "array", "items": {"type": "integer"}, "minItems": 1}`)
	list.DisableAnyWhitespace = true
	if shapeAfter(g, `{"n":`) != shapeAfter(mustCompile(t, list, v), `[`) {
		t.Error("README.md says that integers of two grammars share a shape")
	}
}

func relativeAfter(g *Grammar, text string) *position {
	return g.m.splitOf(g.m.run(g.m.root, []byte(text))).rel
}

func shapeAfter(g *Grammar, text string) *shape { return g.m.shapeOf(relativeAfter(g, text), nil) }

func exampleVocabulary() string {
	var ids, texts strings.Builder
	for i, s := range exampleTokens {
		fmt.Fprintf(&ids, "%-6d", i)
		fmt.Fprintf(&texts, "%-6s", s)
	}
	return "id    " + strings.TrimRight(ids.String(), " ") + "\ntext  " + strings.TrimRight(texts.String(), " ") + "\n"
}

// stateNames names the states that the root of g can reach, in the order of a search:
// r0, r1 and so on in the grammar's own rules, i0 and so on in the rule for integers.
func stateNames(g *Grammar) (order []int32, names map[int32]string) {
	n := g.m.net
	names = make(map[int32]string)
	count := map[string]int{}
	visit := func(s int32) {
		if names[s] != "" {
			return
		}
		prefix := "r"
		if s < n.common {
			prefix = "i"
		}
		names[s] = fmt.Sprint(prefix, count[prefix])
		count[prefix]++
		order = append(order, s)
	}
	visit(n.starts[n.root])
	for i := 0; i < len(order); i++ {
		st := n.at(order[i])
		for _, e := range st.edges {
			visit(e.to)
		}
		for _, s := range st.steps {
			visit(s.to)
			if s.kind == stepCall {
				visit(n.starts[s.rule])
			}
		}
	}
	return order, names
}

func drawNetwork(g *Grammar) string {
	order, names := stateNames(g)
	var b strings.Builder
	for _, s := range order {
		st := g.m.net.at(s)
		fmt.Fprintf(&b, "%-3s", names[s])
		for _, e := range st.edges {
			if e.lo == e.hi {
				fmt.Fprintf(&b, "  %c to %s", e.lo, names[e.to])
			} else {
				fmt.Fprintf(&b, "  %c-%c to %s", e.lo, e.hi, names[e.to])
			}
		}
		for _, p := range st.steps {
			fmt.Fprintf(&b, "  call %s, then %s", names[g.m.net.starts[p.rule]], names[p.to])
			if p.tail {
				b.WriteString(" (tail)")
			}
		}
		if st.accept {
			b.WriteString("  accept")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func drawTrie(v *Vocabulary) string {
	var b strings.Builder
	b.WriteString("node  byte    token  skip\n")
	for i, n := range v.nodes {
		token := ""
		if n.token >= 0 {
			token = fmt.Sprint(n.token)
		}
		fmt.Fprintf(&b, "%-4d  %-6s  %-5s  %d\n", i, strings.Repeat("  ", int(n.depth)-1)+string(n.b), token, n.skip)
	}
	return b.String()
}

// drawStacks draws the stacks of p, each with its bottom on the left: * for the
// symbolic bottom, and nothing for the end of the text.
func drawStacks(p *position, names map[int32]string) string {
	var stacks []string
	if p.accept {
		stacks = append(stacks, "[]")
	}
	for _, f := range p.tops {
		var path []string
		for ; f.depth > 0; f = f.parent {
			path = append(path, names[f.st])
		}
		if f == symbolicBottom {
			path = append(path, "*")
		}
		slices.Reverse(path)
		stacks = append(stacks, "["+strings.Join(path, " ")+"]")
	}
	return strings.Join(stacks, " ")
}

func drawShape(g *Grammar, after string) string {
	_, names := stateNames(g)
	p := g.m.run(g.m.root, []byte(after))
	sp := g.m.splitOf(p)
	sh := g.m.shapeOf(sp.rel, nil)
	var b strings.Builder
	fmt.Fprintf(&b, "position    %s\n", drawStacks(p, names))
	fmt.Fprintf(&b, "relative    %s\n", drawStacks(sp.rel, names))
	fmt.Fprintf(&b, "base        %s\n", names[sp.base.st])
	fmt.Fprintf(&b, "after a pop %s\n", drawStacks(sp.cont, names))
	mask := make([]uint32, g.m.voc.words())
	sh.load(mask)
	fmt.Fprintf(&b, "legal       %s\n", drawMask(mask))
	for _, n := range sh.suffix {
		for _, tok := range sh.tokens[n.from:n.to] {
			fmt.Fprintf(&b, "pops        %s, then %c\n", exampleTokens[tok], n.b)
		}
	}
	return b.String()
}

// drawMask draws a bit for each token.
func drawMask(mask []uint32) string {
	var b strings.Builder
	for i := range exampleTokens {
		b.WriteByte(".1"[mask[0]>>i&1])
	}
	return b.String()
}

func drawText(t *testing.T, g *Grammar, tokens []int32) string {
	t.Helper()
	_, names := stateNames(g)
	m := g.NewMatcher()
	mask := make([]uint32, g.m.voc.words())
	text := ""
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s  %-14s  %-10s  %-6s  %s\n", "text", "position", "mask", "forced", "next token")
	for _, tok := range tokens {
		if err := m.Fill(mask); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%-8s  %-14s  %-10s  %-6s  %s\n", text, drawStacks(m.at, names), drawMask(mask), m.Forced(nil), exampleTokens[tok])
		if !m.Accept(tok) {
			t.Fatalf("after %q: %q is not legal", text, exampleTokens[tok])
		}
		text += exampleTokens[tok]
	}
	return b.String()
}
