package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestAddedScanMatchesReference: the trie finds, leftmost and longest first, what trying
// every token at every position finds.
func TestAddedScanMatchesReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	contents := []string{"ab", "abc", "b", "bca", "cc", "aab", "<", "<<a", "é", "éa"}
	set := newAddedSet()
	for i, s := range contents {
		if err := set.add(s, addedToken{ID: int32(i), Content: s}); err != nil {
			t.Fatal(err)
		}
	}
	for range rounds(5000) {
		var b strings.Builder
		for range rng.IntN(16) {
			b.WriteString([]string{"a", "b", "c", "<", "é", "x"}[rng.IntN(6)])
		}
		text := b.String()
		if got, want := scanAdded(set, text), referenceScan(contents, text); !slices.Equal(got, want) {
			t.Fatalf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

// scanAdded lists what an addedScan finds: "token ab", "text xx".
func scanAdded(set *addedSet, text string) (found []string) {
	scan := addedScan{set: set, text: text}
	for {
		stretch, _, tok, ok := scan.next()
		switch {
		case !ok:
			return found
		case tok != nil:
			found = append(found, "token "+tok.Content)
		default:
			found = append(found, "text "+stretch)
		}
	}
}

// referenceScan lists the same by trying every token at every position.
func referenceScan(contents []string, text string) (found []string) {
	gap := ""
	flush := func() {
		if gap != "" {
			found = append(found, "text "+gap)
		}
		gap = ""
	}
	for i := 0; i < len(text); {
		best := ""
		for _, c := range contents {
			if strings.HasPrefix(text[i:], c) && len(c) > len(best) {
				best = c
			}
		}
		if best == "" {
			gap += text[i : i+1]
			i++
			continue
		}
		flush()
		found = append(found, "token "+best)
		i += len(best)
	}
	flush()
	return found
}
