package grammar

import "slices"

// A chat template writes marks around the calls of tools, such as <tool_call>, that are
// special tokens in some vocabularies and ordinary ones, or several, in others. A tag can name
// special tokens (tag_token.go), but who writes it does not know the vocabulary. So a tag can
// say that texts which are names of special tokens stand for these tokens. Where they are
// spelled by other tokens, they are no such text, and free text does not have them. End tokens
// read nothing: the text is over where they come.

// specialTexts finds the names of special tokens in texts. nil finds none.
type specialTexts struct {
	voc     *Vocabulary
	lengths []int // of the names, the longest first
}

func newSpecialTexts(b *builder) *specialTexts {
	if b.voc == nil {
		return nil
	}
	s := &specialTexts{voc: b.voc}
	for name := range b.voc.names {
		if len(name) > 0 {
			s.lengths = append(s.lengths, len(name))
		}
	}
	b.spend(1 + len(s.lengths)/16)
	slices.Sort(s.lengths)
	s.lengths = slices.Compact(s.lengths)
	slices.Reverse(s.lengths)
	return s
}

// at returns the special token whose name text begins with, and the length of the name; of
// several the longest.
func (s *specialTexts) at(text string) (id int32, n int, ok bool) {
	if s == nil {
		return 0, 0, false
	}
	for _, n := range s.lengths {
		if n <= len(text) {
			if id, ok := s.voc.names[text[:n]]; ok {
				return id, n, true
			}
		}
	}
	return 0, 0, false
}

// lit reads text, in which names of special tokens stand for these.
func (t *tags) lit(from int32, text string) int32 {
	start := 0
	for i := 0; i < len(text); {
		t.b.spend(1)
		id, n, ok := t.special.at(text[i:])
		if !ok {
			i++
			continue
		}
		from = t.b.lit(from, text[start:i])
		if !slices.Contains(t.b.voc.eos, id) {
			from = t.b.token(from, tokenSet{ranges: []idRange{{id, id}}}, "")
		}
		i += n
		start = i
	}
	return t.b.lit(from, text[start:])
}

// divide takes the triggers that begin with a special token apart. Their texts, spelled by
// other tokens, are excluded.
func (s *specialTexts) divide(excludes []string, tr triggers) ([]string, triggers, triggers) {
	if s == nil {
		return excludes, tr, triggers{}
	}
	rest, tokens := triggers{once: tr.once}, triggers{once: tr.once}
	for i, text := range tr.texts {
		if _, n, ok := s.at(text); ok {
			tokens.texts, tokens.after = append(tokens.texts, text), append(tokens.after, tr.after[i])
			if spelled := text[:n]; !slices.Contains(excludes, spelled) {
				excludes = append(slices.Clip(excludes), spelled)
			}
		} else {
			rest.texts, rest.after = append(rest.texts, text), append(rest.after, tr.after[i])
		}
	}
	return excludes, rest, tokens
}
