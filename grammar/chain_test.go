package grammar

import "testing"

// TestCountsInAlternatives: what follows alternatives with a counted repetition is read in each
// of them, so that no mask has to look at every token that begins with a part of it.
func TestCountsInAlternatives(t *testing.T) {
	checkTexts(t, []textCase{
		{"two alternatives", re(`(x|y?[a-c]{3,40})z?`), []string{"x", "xz", "abc", "yabcz", "aaaaaaaaaaaaaaaaaaaa"}, []string{"", "z", "ab", "xx", "yx", "abczz"}},
		{"with anchors", schema(`{"type":"string","pattern":"^(?:|\\+?[\\d ]{9,20})$"}`), []string{`""`, `"+123456789"`, `"12345678901234567890"`}, []string{`"12345678"`, `"123456789012345678901"`, `"+"`}},
		{"nested", re(`((a|b{17,20})|c{2,30}(d|e{1,18}f))g`), []string{"ag", "bbbbbbbbbbbbbbbbbg", "ccdg", "cceefg"}, []string{"bg", "cdg", "ccg", "cceeg", "a"}},
	})
	voc := syntheticVocabulary(t, 20_000, false)
	m := mustCompile(t, schema(`{"type":"array","items":{"type":"string","pattern":"^$|^\\+?([\\d ()-]){9,20}$"}}`), voc).NewMatcher()
	m.at = m.m.run(m.at, []byte(`["12345678901`))
	if err := m.Fill(make([]uint32, voc.words())); err != nil {
		t.Fatal(err)
	}
	if n := len(m.m.splitOf(m.at).rel.shape.Load().tokens); n > 1000 {
		t.Errorf("%d tokens depend on what follows the string", n)
	}
}
