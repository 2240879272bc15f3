package tokenizer

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

// pairCase has two texts, the most tokens, and the ids and types of the tokens of both.
type pairCase struct {
	first, second string
	most          int
	ids, types    []int32
}

func (c *pairCase) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&c.first, &c.second, &c.most, &c.ids, &c.types})
}

// join encodes two texts and puts them together.
func join(t *testing.T, tok *Tokenizer, first, second string, most int) (ids, types []int32) {
	t.Helper()
	a, err := tok.Encode(nil, first, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tok.Encode(nil, second, false)
	if err != nil {
		t.Fatal(err)
	}
	if ids, types, err = tok.JoinPair(a, b, most); err != nil {
		t.Fatal(err)
	}
	return ids, types
}

// TestPairs: two texts become the same tokens and types as with Hugging Face's library
// (tools/tokenizer-goldens/pairs.py), whole and cut.
func TestPairs(t *testing.T) {
	var golden []struct {
		Name  string          `json:"name"`
		File  json.RawMessage `json:"file"`
		Cases []pairCase      `json:"cases"`
	}
	readJSON(t, "testdata/pairs.json.gz", &golden)
	if len(golden) != 8 {
		t.Fatalf("%d files", len(golden))
	}
	for _, g := range golden {
		tok := mustLoad(t, g.File)
		if len(g.Cases) < 30 {
			t.Errorf("%s has %d cases", g.Name, len(g.Cases))
		}
		for _, c := range g.Cases {
			if ids, types := join(t, tok, c.first, c.second, c.most); !slices.Equal(ids, c.ids) || !slices.Equal(types, c.types) {
				t.Errorf("%s: %q and %q in %d tokens: %v of types %v, want %v of types %v", g.Name, c.first, c.second, c.most, ids, types, c.ids, c.types)
			}
		}
	}
}

// TestPairTemplates: a template that has not each text once is refused where it is needed, and a file without
// one has the template of one text around both.
func TestPairTemplates(t *testing.T) {
	piece := func(id string) any { return object{"Sequence": object{"id": id}} }
	token := object{"SpecialToken": object{"id": "x"}}
	with := func(pair ...any) *Tokenizer {
		post := object{"type": "TemplateProcessing", "single": []any{token, piece("A")}, "special_tokens": object{"x": object{"ids": []int{3}}}}
		if pair != nil {
			post["pair"] = pair
		}
		data, err := json.Marshal(tinyBytes(object{"post_processor": post}))
		if err != nil {
			t.Fatal(err)
		}
		return mustLoad(t, data)
	}
	for name, tok := range map[string]*Tokenizer{
		"one text": with(piece("A")), "twice": with(piece("A"), piece("B"), piece("B")), "unknown": with(piece("A"), piece("B"), object{"SpecialToken": object{"id": "y"}}),
		"neither": with(piece("A"), piece("B"), object{}), "type": with(piece("A"), object{"Sequence": object{"id": "B", "type_id": -1}}),
	} {
		if ids, _, err := tok.JoinPair([]int32{65}, []int32{66}, -1); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
	}
	if ids, types := join(t, with(), "A", "BC", 4); !slices.Equal(ids, []int32{3, 65, 3, 66}) || !slices.Equal(types, []int32{0, 0, 1, 1}) {
		t.Errorf("without a template for two: %v of types %v", ids, types)
	}
}

// TestSurround: a text keeps the tokens around it when it is cut, and has them once where the file wants that.
func TestSurround(t *testing.T) {
	tok := &Tokenizer{prefix: []int32{1, 2}, suffix: []int32{3}}
	text := []int32{10, 11, 12}
	for most, want := range map[int][]int32{
		-1: {1, 2, 10, 11, 12, 3}, 7: {1, 2, 10, 11, 12, 3}, 6: {1, 2, 10, 11, 12, 3}, 5: {1, 2, 10, 11, 3}, 4: {1, 2, 10, 3}, 3: {1, 2, 3}, 0: {1, 2, 3},
	} {
		if got := tok.Surround(text, most); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", most, got, want)
		}
	}
	for _, once := range []bool{false, true} {
		tok.prefixOnce = once
		want := map[bool][]int32{false: {1, 2, 1, 2, 9, 3}, true: {1, 2, 9, 3}}[once]
		if got := tok.Surround([]int32{1, 2, 9}, -1); !slices.Equal(got, want) {
			t.Errorf("once %v: %v, want %v", once, got, want)
		}
	}
	data, err := json.Marshal(tinyBytes(object{"post_processor": object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "x"}}, object{"Sequence": object{"id": "A"}}},
		"special_tokens": object{"x": object{"ids": []int{3}}}}}))
	if err != nil {
		t.Fatal(err)
	}
	whole := mustLoad(t, data)
	plain, err := whole.Encode(nil, "in the text", false)
	if err != nil {
		t.Fatal(err)
	}
	want, err := whole.Encode(nil, "in the text", true)
	if got := whole.Surround(plain, -1); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want what Encode gives: %v, %v", got, want, err)
	}
}
