package query

import (
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/pace"
)

// textRow is a row whose fields all have one text.
type textRow string

func (r textRow) Value(*Field, *pace.Meter) Value { return Value{Kind: Text, Text: string(r)} }

// TestSearch compares the search for texts and tokens with simple ones.
func TestSearch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	random := func(n int) string {
		b := make([]string, rnd.IntN(n))
		for i := range b {
			b[i] = []string{"a", "b", ".", "é", "A"}[rnd.IntN(2+rnd.IntN(4))]
		}
		return strings.Join(b, "")
	}
	token := func(text, sub string) bool {
		for i := 0; sub != "" && i+len(sub) <= len(text); i++ {
			if text[i:i+len(sub)] == sub && !isWord(lastRune(text[:i])) && !isWord(firstRune(text[i+len(sub):])) {
				return true
			}
		}
		return false
	}
	for range 20_000 {
		text, sub := random(14), random(5)
		r := textRow(text)
		for _, fold := range []bool{false, true} {
			a, b := text, sub
			if fold {
				a, b = FoldText(text, nil), FoldText(sub, nil)
			}
			n := &Expr{Op: "$contains", Fold: fold, search: newSearch(b), Args: []*Expr{{Op: "$getField"}}}
			if got, want := n.Truth(r, nil), strings.Contains(a, b); got != want {
				t.Fatalf("%q in %q, fold %v: %v", sub, text, fold, got)
			}
			n.Op = "$containsToken"
			if got, want := n.Truth(r, nil), token(a, b); got != want {
				t.Fatalf("the token %q in %q, fold %v: %v", sub, text, fold, got)
			}
		}
	}
	// Folding goes piece by piece, and a piece ends where a character does.
	text := strings.Repeat("Éa", searchGrain)
	if got, want := FoldText(text, nil), strings.Map(foldRune, text); got != want {
		t.Error("folding a long text")
	}
}
