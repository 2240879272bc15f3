package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// TestLoadRefusesByName: what is not supported is an error that names it.
func TestLoadRefusesByName(t *testing.T) {
	seq := func(key string, list ...any) object { return object{"type": "Sequence", key: list} }
	typed := func(name string) object { return object{"type": name} }
	split := func(re string) object {
		return object{"type": "Split", "pattern": object{"Regex": re}, "behavior": "Isolated"}
	}
	byteLevel := object{"type": "ByteLevel", "add_prefix_space": false}
	unigram := func(options object, pieces ...any) object {
		model := object{"type": "Unigram", "vocab": pieces}
		maps.Copy(model, options)
		return object{"model": model}
	}
	withPre := func(pre ...any) object { return tinyBytes(object{"pre_tokenizer": seq("pretokenizers", pre...)}) }
	withDecoder := func(list ...any) object { return tinyChars(object{"decoder": seq("decoders", list...)}) }
	for name, c := range map[string]struct {
		file any
		kind error
		say  string
	}{
		"version":               {tinyBytes(object{"version": "2.0"}), ErrUnsupported, `version "2.0"`},
		"other model":           {object{"model": object{"type": "Unigrams", "vocab": object{"a": 0}}}, ErrUnsupported, `model "Unigrams"`},
		"no unk_id":             {unigram(nil, []any{"a", -1.5}), ErrUnsupported, "without unk_id and byte_fallback"},
		"unk_id elsewhere":      {unigram(object{"unk_id": 1}, []any{"a", -1.5}), ErrInvalid, "unk_id is 1"},
		"no score":              {unigram(object{"unk_id": 0}, []any{"a"}), ErrInvalid, "piece 0"},
		"two scores":            {unigram(object{"unk_id": 0}, []any{"a", 1, 2}), ErrInvalid, "piece 0"},
		"score of text":         {unigram(object{"unk_id": 0}, []any{"a", "b"}), ErrInvalid, "piece 0"},
		"huge score":            {json.RawMessage(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",1e999]]}}`), ErrInvalid, "score"},
		"piece twice":           {unigram(object{"unk_id": 0}, []any{"a", -1}, []any{"a", -2}), ErrInvalid, `"a" is listed twice`},
		"Unigram of names":      {object{"model": object{"type": "Unigram", "vocab": object{"a": 0}}}, ErrInvalid, "of the wrong kind"},
		"BPE of pieces":         {object{"model": object{"type": "BPE", "vocab": []any{[]any{"a", -1}}, "merges": []any{}}}, ErrInvalid, "of the wrong kind"},
		"WordPiece unknown":     {object{"model": object{"type": "WordPiece", "vocab": object{"a": 0}}}, ErrInvalid, `unk_token "[UNK]"`},
		"long words":            {object{"model": object{"type": "WordPiece", "vocab": object{"a": 0}, "unk_token": "a", "max_input_chars_per_word": 1 << 30}}, ErrUnsupported, "max_input_chars_per_word"},
		"ByteLevel WordLevel":   {object{"model": object{"type": "WordLevel", "vocab": object{"a": 0}, "unk_token": "a"}, "pre_tokenizer": byteLevel, "decoder": byteLevel}, ErrUnsupported, `ByteLevel with model "WordLevel"`},
		"charsmap base64":       {tinyChars(object{"normalizer": object{"type": "Precompiled", "precompiled_charsmap": "?"}}), ErrUnsupported, "precompiled_charsmap"},
		"charsmap cut":          {tinyChars(object{"normalizer": object{"type": "Precompiled", "precompiled_charsmap": "////f2EA"}}), ErrInvalid, "precompiled_charsmap"},
		"BertNormalizer":        {tinyChars(object{"normalizer": typed("BertNormalizers")}), ErrUnsupported, `normalizer "BertNormalizers"`},
		"long replacement":      {withDecoder(object{"type": "Replace", "pattern": object{"String": "a"}, "content": strings.Repeat("b", 300)}), ErrUnsupported, "300 bytes"},
		"FixedLength":           {withPre(object{"type": "FixedLength", "length": 0}), ErrUnsupported, "length 0"},
		"delimiter":             {withPre(object{"type": "CharDelimiterSplit", "delimiter": "ab"}), ErrUnsupported, `delimiter "ab"`},
		"cls":                   {tinyBytes(object{"post_processor": object{"type": "BertProcessing", "cls": []any{"a", 999}, "sep": []any{"a", 65}}}), ErrInvalid, "cls of"},
		"CTC and more":          {withDecoder(typed("CTC"), object{"type": "Strip", "content": " ", "start": 1}), ErrUnsupported, "has to be the only one"},
		"BPEDecoder second":     {withDecoder(typed("ByteFallback"), typed("BPEDecoder")), ErrUnsupported, "not the only one"},
		"WordPiece of bytes":    {withDecoder(typed("ByteFallback"), typed("WordPiece")), ErrUnsupported, `decoder "WordPiece": after ByteFallback`},
		"bytes of WordPiece":    {withDecoder(typed("WordPiece"), typed("ByteFallback")), ErrUnsupported, `decoder "ByteFallback": after WordPiece`},
		"WordPiece after Fuse":  {withDecoder(typed("Fuse"), typed("WordPiece")), ErrUnsupported, `decoder "WordPiece": after Fuse`},
		"dropout":               {withModel(tinyBytes(nil), object{"dropout": 0.1}), ErrUnsupported, "dropout"},
		"subword prefix":        {withModel(tinyBytes(nil), object{"continuing_subword_prefix": "##"}), ErrUnsupported, "continuing_subword_prefix"},
		"word suffix":           {withModel(tinyBytes(nil), object{"end_of_word_suffix": "</w>"}), ErrUnsupported, "end_of_word_suffix"},
		"no model":              {object{"version": "1.0"}, ErrInvalid, "no vocab"},
		"no merges":             {object{"model": object{"type": "BPE", "vocab": object{"a": 0}}}, ErrInvalid, "no vocab and merges"},
		"bytes twice":           {withModel(tinyBytes(nil), object{"byte_fallback": true, "vocab": object{"a": 0}, "merges": []any{}}), ErrUnsupported, "lacks bytes"},
		"unknown byte":          {withModel(tinyBytes(nil), object{"unk_token": "?", "vocab": object{"a": 0}, "merges": []any{}}), ErrInvalid, `"?"`},
		"missing byte":          {withModel(tinyChars(nil), object{"vocab": object{"<unk>": 0, "<0x41>": 1}, "merges": []any{}}), ErrUnsupported, "<0x00>"},
		"untyped":               {withPre(object{"pattern": object{}}), ErrUnsupported, `pre-tokenizer ""`},
		"ByteLevel first":       {withPre(byteLevel, object{"type": "Digits", "individual_digits": true}), ErrUnsupported, "ByteLevel has to be the last"},
		"behavior":              {withPre(object{"type": "Split", "pattern": object{"String": " "}, "behavior": "Sideways"}, byteLevel), ErrUnsupported, `"Sideways"`},
		"empty Split":           {withPre(object{"type": "Split", "pattern": object{"String": ""}, "behavior": "Isolated"}, byteLevel), ErrUnsupported, "empty pattern"},
		"look-behind":           {withPre(split(`(?<=a)b`), byteLevel), ErrUnsupported, "this kind of group"},
		"anchor":                {withPre(split(`\Ga`), byteLevel), ErrUnsupported, `\G`},
		"anchors alone":         {withPre(split(`^$`), byteLevel), ErrUnsupported, "may match nothing"},
		"anchor repeated":       {withPre(split(`^+a`), byteLevel), ErrUnsupported, "an anchor"},
		"lazy":                  {withPre(split(`a+?`), byteLevel), ErrUnsupported, "lazy"},
		"back-reference":        {withPre(split(`(a)\1`), byteLevel), ErrUnsupported, `\1`},
		"matches nothing":       {withPre(split(`a*`), byteLevel), ErrUnsupported, "may match nothing"},
		"unknown property":      {withPre(split(`\p{Klingon}`), byteLevel), ErrUnsupported, `"Klingon"`},
		"Metaspace scheme":      {tinyChars(object{"pre_tokenizer": object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "last"}}), ErrUnsupported, `"last"`},
		"template without text": {tinyBytes(object{"post_processor": object{"type": "TemplateProcessing", "single": []any{}}}), ErrUnsupported, "0 times"},
		"template token": {tinyBytes(object{"post_processor": object{"type": "TemplateProcessing",
			"single": []any{object{"SpecialToken": object{"id": "<s>"}}}}}), ErrInvalid, `"<s>"`},
		"long template": {tinyBytes(object{"post_processor": object{"type": "TemplateProcessing", "single": []any{object{"Sequence": object{"id": "A"}},
			object{"SpecialToken": object{"id": "a"}}}, "special_tokens": object{"a": object{"ids": make([]int, 1025)}}}}), ErrUnsupported, "more than 1024 tokens around the text"},
		"ByteLevel mismatch": {withDecoder(typed("ByteLevel")), ErrUnsupported, "without the other"},
		"no unknown":         {withModel(tinyChars(nil), object{"byte_fallback": false, "unk_token": nil}), ErrUnsupported, "unk_token"},
		"unknown unknown":    {withModel(tinyChars(nil), object{"byte_fallback": false, "unk_token": "?"}), ErrInvalid, `"?"`},
		"merge of bytes":     {withModel(tinyChars(nil), object{"vocab": withBytePair(), "merges": []string{"<0xE4> <0xB8>"}}), ErrUnsupported, "<0xE4>"},
		"merge of nothing":   {withModel(tinyBytes(nil), object{"merges": []string{"z z"}}), ErrInvalid, `"z"`},
		"merge of three":     {withModel(tinyBytes(nil), object{"merges": []string{"a b c"}}), ErrInvalid, "two tokens"},
		"merge list":         {withModel(tinyBytes(nil), object{"merges": [][]string{{"a", "b", "c"}}}), ErrInvalid, "3 tokens"},
		"same id":            {withModel(tinyBytes(nil), object{"vocab": object{"a": 1, "b": 1}}), ErrInvalid, "id 1"},
		"sparse ids":         {withModel(tinyBytes(nil), object{"vocab": object{"a": 2000000}}), ErrUnsupported, "2000000"},
		"huge id":            {withModel(tinyBytes(nil), object{"vocab": object{"a": int64(1) << 40}}), ErrUnsupported, "token id"},
		"negative id":        {withModel(tinyBytes(nil), object{"vocab": object{"a": -1}}), ErrInvalid, "token id"},
		"added id elsewhere": {tinyBytes(object{"added_tokens": []any{object{"id": 300, "content": "<x>"}}}), ErrInvalid, "by its place"},
		"added over another": {tinyBytes(object{"added_tokens": []any{object{"id": 65, "content": "<x>"}}}), ErrInvalid, "id 65"},
		"added twice":        {tinyBytes(object{"added_tokens": []any{object{"id": 260, "content": "<x>"}, object{"id": 260, "content": "<x>", "special": true}}}), ErrInvalid, "listed twice"},
		"added the same": {tinyBytes(object{"normalizer": typed("NFC"), "added_tokens": []any{
			object{"id": 260, "content": "<é>", "normalized": true}, object{"id": 261, "content": "<e\u0301>", "normalized": true}}}), ErrInvalid, "the same text"},
	} {
		t.Run(name, func(t *testing.T) {
			tok, err := Load(marshal(t, c.file))
			if tok != nil || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("got %v, want %v that says %q", err, c.kind, c.say)
			}
		})
	}
}

// TestLoadRefusesInShort: names in a file may be long, and sentences about them are not.
func TestLoadRefusesInShort(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	typed := object{"type": long}
	for name, file := range map[string]object{
		"version":       tinyBytes(object{"version": long}),
		"model":         {"model": object{"type": long, "vocab": object{"a": 0}}},
		"normalizer":    tinyBytes(object{"normalizer": typed}),
		"pre-tokenizer": tinyBytes(object{"pre_tokenizer": typed}),
		"decoder":       tinyBytes(object{"decoder": typed}),
		"behavior":      tinyBytes(object{"pre_tokenizer": object{"type": "Split", "pattern": object{"String": " "}, "behavior": long}}),
		"regex":         tinyBytes(object{"pre_tokenizer": object{"type": "Split", "pattern": object{"Regex": "(" + long}, "behavior": "Isolated"}}),
		"repeat":        tinyBytes(object{"pre_tokenizer": object{"type": "Split", "pattern": object{"Regex": "a{" + long + "}"}, "behavior": "Isolated"}}),
		"merge":         withModel(tinyBytes(nil), object{"merges": []string{long + " " + long}}),
		"same id":       withModel(tinyBytes(nil), object{"vocab": object{"a" + long: 1, "b" + long: 1}}),
		"added":         tinyBytes(object{"added_tokens": []any{object{"id": 300, "content": long}}}),
	} {
		_, err := Load(marshal(t, file))
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %.1200v", name, err)
		}
	}
}

func withBytePair() object {
	vocab := tinyChars(nil)["model"].(object)["vocab"].(object)
	vocab["<0xE4><0xB8>"] = len(vocab)
	return vocab
}

// TestLoadRefusesBrokenJSON: whatever the bytes, an error and no panic.
func TestLoadRefusesBrokenJSON(t *testing.T) {
	whole := marshal(t, tinyBytes(nil))
	mustLoad(t, whole)
	for n := range whole {
		if _, err := Load(whole[:n]); !errors.Is(err, ErrInvalid) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	for name, text := range map[string]string{
		"trailing":          string(whole) + "x",
		"not UTF-8":         "\xff",
		"lone surrogate":    `{"model":{"vocab":{"\ud800":1},"merges":[]}}`,
		"half a pair":       `{"model":{"vocab":{"\ud800\u0041":1},"merges":[]}}`,
		"control in text":   "{\"model\":{\"vocab\":{\"a\nb\":1},\"merges\":[]}}",
		"escape":            `{"model":{"vocab":{"\q":1},"merges":[]}}`,
		"two vocabularies":  `{"model":{"vocab":{"a":1},"vocab":{"b":1},"merges":[]}}`,
		"listed twice":      `{"model":{"type":"BPE","vocab":{"a":1,"\u0061":2},"merges":[],"byte_fallback":false},"decoder":{"type":"Fuse"}}`,
		"wrong type":        `{"model":{"vocab":{"a":1},"merges":[]},"normalizer":7}`,
		"merges of numbers": strings.Replace(string(whole), `"merges":[`, `"merges":[1,`, 1),
		"deep":              `{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
	} {
		if _, err := Load([]byte(text)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLoadReadsBothMergeSpellingsAndEscapes: "a b" and ["a","b"] and every way to
// write a string are the same file.
func TestLoadReadsBothMergeSpellingsAndEscapes(t *testing.T) {
	data := readFile(t, filepath.Join("testdata/mini", "bl-gpt2.json.gz"))
	var f object
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	model := f["model"].(object)
	var pairs [][]string
	for _, m := range model["merges"].([]any) {
		a, b, _ := strings.Cut(m.(string), " ")
		pairs = append(pairs, []string{a, b})
	}
	model["merges"] = pairs
	var escaped bytes.Buffer
	for _, r := range string(marshal(t, f)) {
		switch {
		case r == 'Ġ':
			escaped.WriteString(`\u0120`)
		case r == '😀':
			escaped.WriteString(`\ud83d\ude00`)
		default:
			escaped.WriteRune(r)
		}
	}
	one, two := mini(t, "bl-gpt2"), mustLoad(t, escaped.Bytes())
	for _, s := range samples()[:200] {
		a, b := encode(one, s.Text, false), encode(two, s.Text, false)
		if string(marshal(t, a)) != string(marshal(t, b)) {
			t.Fatalf("%q: %v and %v", s.Text, a, b)
		}
	}
	if got := mustLoad(t, []byte(strings.ReplaceAll(string(marshal(t, tinyBytes(object{"added_tokens": []any{object{"id": 260, "content": "<EMOJI>"}}}))), "EMOJI", `\ud83d\ude00\n`))).Token(260); got != "<😀\n>" {
		t.Errorf("a surrogate pair is read as %q", got)
	}
}

// token is what the methods of a Tokenizer say of a token.
type token struct {
	id            int32
	spelled, text string
	bytes         string
	noBytes       bool // Bytes is nil
	special       bool
}

func (want token) check(t *testing.T, tok *Tokenizer) {
	t.Helper()
	raw := tok.Bytes(want.id)
	got := token{want.id, tok.Token(want.id), tok.Text(want.id), string(raw), raw == nil, tok.IsSpecial(want.id)}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if id, ok := tok.ID(want.spelled); !ok || id != want.id {
		t.Errorf("ID(%q) = %d, %v, want %d", want.spelled, id, ok, want.id)
	}
}

func TestTokensOfByteLevel(t *testing.T) {
	tok := mustLoad(t, marshal(t, tinyBytes(object{"added_tokens": []any{
		object{"id": 260, "content": "<|end|>", "special": true},
		object{"id": 261, "content": "<think> ", "special": false},
	}})))
	if got := tok.VocabSize(); got != 262 {
		t.Errorf("VocabSize() = %d, want 262", got)
	}
	for _, want := range []token{
		{256, "Ġt", " t", " t", false, false},
		{258, "Ġthe", " the", " the", false, false},
		{'A', "A", "A", "A", false, false},
		{0xE4, "ä", "\uFFFD", "\xE4", false, false},
		{0x0A, "Ċ", "\n", "\n", false, false},
		{260, "<|end|>", "<|end|>", "", true, true},
		{261, "<think> ", "<think> ", "<think> ", false, false},
	} {
		want.check(t, tok)
	}
	for _, id := range []int32{-1, 262, 1 << 30, -1 << 31} {
		if tok.Token(id) != "" || tok.Text(id) != "" || tok.Bytes(id) != nil || tok.IsSpecial(id) {
			t.Errorf("id %d is not unknown", id)
		}
	}
	for _, name := range []string{"", " t", "nothing", "<|end", "中"} {
		if id, ok := tok.ID(name); ok {
			t.Errorf("ID(%q) = %d", name, id)
		}
	}
	if got := tok.MaxTokenBytes(); got != len("<think> ") {
		t.Errorf("MaxTokenBytes() = %d, want 8", got)
	}
}

func TestTokensOfCharacters(t *testing.T) {
	tok := mustLoad(t, marshal(t, tinyChars(nil)))
	for _, want := range []token{
		{spelled: "▁the", text: " the", bytes: " the"},
		{spelled: "<0x41>", text: "A", bytes: "A"},
		{spelled: "<0xE4>", text: "\uFFFD", bytes: "\xE4"},
		{spelled: "中", text: "中", bytes: "中"},
	} {
		want.id, _ = tok.ID(want.spelled)
		want.check(t, tok)
	}
}

// TestEveryTokenHasItsNameAndID holds for all tokens of all mini tokenizers.
func TestEveryTokenHasItsNameAndID(t *testing.T) {
	for _, name := range miniNames {
		tok := mini(t, name)
		longest := 0
		for id := range int32(tok.VocabSize()) {
			if got, ok := tok.ID(tok.Token(id)); !ok || got != id {
				t.Errorf("%s: id %d is %q, which has id %d, %v", name, id, tok.Token(id), got, ok)
			}
			longest = max(longest, len(tok.Bytes(id)))
		}
		if tok.MaxTokenBytes() < longest {
			t.Errorf("%s: MaxTokenBytes() = %d, but one has %d", name, tok.MaxTokenBytes(), longest)
		}
	}
}
