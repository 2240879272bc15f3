package tokenizer

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// goldenFolder is a folder of a model, and what the library that it is for makes of texts
// (tools/tokenizer-goldens/folders.py).
type goldenFolder struct {
	Name    string            `json:"name"`
	Files   map[string][]byte `json:"files"`
	Texts   []string          `json:"texts"`
	IDs     [][]int32         `json:"ids"`
	Special [][]int32         `json:"special"` // of the first texts, with what is put around them
	Text    []string          `json:"text"`    // what the ids are decoded to
}

func goldenFolders(tb testing.TB) (list []goldenFolder) {
	tb.Helper()
	readJSON(tb, "testdata/folders.json.gz", &list)
	return list
}

func (g *goldenFolder) fs() fstest.MapFS {
	files := fstest.MapFS{}
	for name, data := range g.Files {
		files[name] = &fstest.MapFile{Data: data}
	}
	return files
}

// TestOpen: the ids and texts of folders without a tokenizer.json are those of the libraries
// that these are for: sentencepiece, transformers, tiktoken and mistral-common.
func TestOpen(t *testing.T) {
	for _, g := range goldenFolders(t) {
		t.Run(g.Name, func(t *testing.T) {
			tok, err := Open(g.fs())
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range g.Texts {
				if got := encode(tok, text, false); !slices.Equal(got, g.IDs[i]) {
					t.Errorf("%+q\n got %q\nwant %q", text, spell(tok, got), spell(tok, g.IDs[i]))
				}
			}
			for i, want := range g.Special {
				if got := encode(tok, g.Texts[i], true); !slices.Equal(got, want) {
					t.Errorf("%+q with special tokens\n got %q\nwant %q", g.Texts[i], spell(tok, got), spell(tok, want))
				}
			}
			for i, want := range g.Text {
				checkText(t, tok, g.IDs[i], want)
			}
		})
	}
}

func checkText(t *testing.T, tok *Tokenizer, ids []int32, want string) {
	t.Helper()
	if got := tok.Decode(ids, DecodeOptions{}); got != want {
		t.Errorf("%q\n got %q\nwant %q", spell(tok, ids), got, want)
	}
	if got := decodeByPieces(tok, nil, ids, DecodeOptions{}); !strings.HasPrefix(want, got) {
		t.Errorf("%q one by one\n got %q\nwant %q", spell(tok, ids), got, want)
	}
}

// TestNormalizedAddedToken: an added token of a SentencePiece model is found as it is written,
// whatever its flag says, because the model puts a space in front of each text.
func TestNormalizedAddedToken(t *testing.T) {
	for _, g := range goldenFolders(t) {
		if g.Name != "SentencePiece BPE" {
			continue
		}
		g.Files["tokenizer_config.json"] = []byte(`{"added_tokens_decoder":{"600":{"content":"<q>","normalized":true}},"legacy":true}`)
		tok, err := Open(g.fs())
		if err != nil {
			t.Fatal(err)
		}
		id, ok := tok.ID("<q>")
		if got := encode(tok, "a<q>b", false); !ok || !slices.Contains(got, id) {
			t.Errorf("%q without %d", spell(tok, got), id)
		}
	}
}

// TestOpenRefuses: what is wrong with a folder is one sentence that names the file.
func TestOpenRefuses(t *testing.T) {
	var spm, ranks, tekken, vocab, merges []byte
	for _, g := range goldenFolders(t) {
		switch g.Name {
		case "SentencePiece BPE":
			spm = g.Files["tokenizer.model"]
		case "tiktoken Kimi":
			ranks = g.Files["tiktoken.model"]
		case "tekken v3":
			tekken = g.Files["tekken.json"]
		case "transformers GPT-2":
			vocab, merges = g.Files["vocab.json"], g.Files["merges.txt"]
		}
	}
	text := func(s string) []byte { return []byte(s) }
	piece := func(parts ...[]byte) []byte { // field 1 of a model, with its length
		body := slices.Concat(parts...)
		return append([]byte{1<<3 | 2, byte(len(body))}, body...)
	}
	letter := piece([]byte{1<<3 | 2, 1, 'a'})
	specs := []byte{2<<3 | 2, 0, 3<<3 | 2, 0} // a trainer_spec and a normalizer_spec that say nothing
	for name, c := range map[string]struct {
		files map[string][]byte
		say   string
	}{
		"nothing":               {nil, "none of tokenizer.json"},
		"broken json":           {map[string][]byte{"tokenizer.json": text("{")}, "tokenizer.json: "},
		"config":                {map[string][]byte{"tokenizer.model": spm, "tokenizer_config.json": text("[]")}, "tokenizer_config.json beside it"},
		"deep config":           {map[string][]byte{"tokenizer.model": spm, "tokenizer_config.json": text(strings.Repeat("[", 1<<16))}, "tokenizer_config.json beside it"},
		"added id":              {map[string][]byte{"tokenizer.model": spm, "tokenizer_config.json": text(`{"added_tokens_decoder":{"x":{"content":"y"}}}`)}, `"x" in added_tokens_decoder`},
		"added id far away":     {map[string][]byte{"tokenizer.model": spm, "tokenizer_config.json": text(`{"added_tokens_decoder":{"1999999":{"content":"yy"}}}`)}, "token ids up to 1999999"},
		"added id enormous":     {map[string][]byte{"tokenizer.model": spm, "tokenizer_config.json": text(`{"added_tokens_decoder":{"2147483647":{"content":"y"}}}`)}, `"y" of tokenizer_config.json or added_tokens.json has id 2147483647`},
		"added twice":           {map[string][]byte{"tokenizer.model": spm, "tokenizer_config.json": text(`{"added_tokens_decoder":{"900":{"content":"<s>"}}}`)}, `"<s>" of tokenizer_config.json or added_tokens.json has id 900, and 1`},
		"added_tokens.json":     {map[string][]byte{"tokenizer.model": spm, "added_tokens.json": text(`{"a":"b"}`)}, "added_tokens.json beside it"},
		"no BOS":                {map[string][]byte{"tokenizer.model": spm, "tokenizer_config.json": text(`{"add_bos_token":true,"bos_token":"<q>"}`)}, `there is no token "<q>"`},
		"empty model":           {map[string][]byte{"tokenizer.model": nil}, "without pieces"},
		"cut model":             {map[string][]byte{"tokenizer.model": spm[:len(spm)-3]}, "cut off or damaged"},
		"cut behind a piece":    {map[string][]byte{"tokenizer.model": letter}, "the file is cut off"},
		"cut before its end":    {map[string][]byte{"tokenizer.model": append(slices.Clone(letter), 2<<3|2, 0)}, "the file is cut off"},
		"long length":           {map[string][]byte{"tokenizer.model": {1<<3 | 2, 0xff, 0xff, 0xff, 0xff, 0x0f}}, "cut off or damaged"},
		"type of model":         {map[string][]byte{"tokenizer.model": append(slices.Clone(letter), 2<<3|2, 2, 3<<3, 3)}, "model of type 3"},
		"type of piece":         {map[string][]byte{"tokenizer.model": slices.Concat(piece([]byte{1<<3 | 2, 1, 'a', 3 << 3, 9}), specs)}, "unknown type 9"},
		"NaN":                   {map[string][]byte{"tokenizer.model": slices.Concat(piece([]byte{1<<3 | 2, 1, 'a', 2<<3 | 5, 0, 0, 0xc0, 0x7f}), specs)}, "score of piece 0"},
		"infinite score":        {map[string][]byte{"tokenizer.model": slices.Concat(piece([]byte{1<<3 | 2, 1, 'a', 2<<3 | 5, 0, 0, 0x80, 0x7f}), specs)}, "score of token 0"},
		"pieces twice":          {map[string][]byte{"tokenizer.model": slices.Concat(letter, letter, specs)}, `"a" is listed twice`},
		"unk_id":                {map[string][]byte{"tokenizer.model": slices.Concat(append(slices.Clone(letter), 2<<3|2, 3, 0xc0, 2, 7), specs)}, "unk_id of the model is 7"},
		"charsmap":              {map[string][]byte{"tokenizer.model": slices.Concat(append(slices.Clone(letter), 3<<3|2, 4, 2<<3|2, 2, 1, 2), specs)}, "precompiled_charsmap"},
		"unused piece":          {map[string][]byte{"tokenizer.model": slices.Concat(slices.Concat(piece([]byte{1<<3 | 2, 1, 'a', 3 << 3, 5}), []byte{2<<3 | 2, 2, 3 << 3, 2}), specs)}, "piece 0 of a BPE model is unused"},
		"rank":                  {map[string][]byte{"tiktoken.model": text("YQ== 0\nYg== x\n")}, "Yg== x"},
		"rank twice":            {map[string][]byte{"tiktoken.model": text("YQ== 0\nYg== 0\n")}, "both have id 0"},
		"text twice":            {map[string][]byte{"tiktoken.model": text("YQ== 0\nYQ== 1\n")}, "is listed twice"},
		"base64":                {map[string][]byte{"tiktoken.model": text("YQ=! 0\n")}, "not in base64"},
		"rank far away":         {map[string][]byte{"tiktoken.model": append(slices.Clone(ranks), "emVicmE= 1999999\n"...)}, "token ids up to 1999999"},
		"no ranks":              {map[string][]byte{"tiktoken.model": text("\n\n")}, "without tokens"},
		"tekken of nothing":     {map[string][]byte{"tekken.json": text("{}")}, "tekken.json: "},
		"tekken sizes":          {map[string][]byte{"tekken.json": text(strings.Replace(string(tekken), `"default_vocab_size": `, `"default_vocab_size": 9`, 1))}, "the config says"},
		"tekken pattern":        {map[string][]byte{"tekken.json": text(`{"config":{"pattern":"(a","default_vocab_size":1,"default_num_special_tokens":0},"vocab":[{"token_bytes":"YQ=="}],"special_tokens":[]}`)}, "regular expression"},
		"tekken special":        {map[string][]byte{"tekken.json": text(`{"config":{"pattern":"a","default_vocab_size":2,"default_num_special_tokens":1},"vocab":[{"token_bytes":"YQ=="}],"special_tokens":[{"rank":5,"token_str":"x"}]}`)}, "no rank of its own"},
		"no merges.txt":         {map[string][]byte{"vocab.json": vocab}, "no merges.txt"},
		"merge of three":        {map[string][]byte{"vocab.json": vocab, "merges.txt": append(slices.Clone(merges), "a b c\n"...)}, "is not two tokens"},
		"class":                 {map[string][]byte{"vocab.json": vocab, "merges.txt": merges, "tokenizer_config.json": text(`{"tokenizer_class":"CLIPTokenizer"}`)}, `class "CLIPTokenizer"`},
		"vocab.json":            {map[string][]byte{"vocab.json": text(`["a"]`), "merges.txt": merges}, "vocab.json: "},
		"vocab.txt":             {map[string][]byte{"vocab.txt": text("a\nb\n")}, `unk_token "[UNK]"`},
		"empty vocab.txt":       {map[string][]byte{"vocab.txt": nil}, "without tokens"},
		"vocab.txt twice":       {map[string][]byte{"vocab.txt": text("[UNK]\na\na\n")}, `"a" is listed twice`},
		"long user-defined one": {map[string][]byte{"tokenizer.model": slices.Concat(longPiece(), specs)}, "2000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			g := goldenFolder{Files: c.files}
			_, err := Open(g.fs())
			if err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v, want %s", err, c.say)
			}
		})
	}
}

// longPiece is a model with a user-defined piece of 2000 bytes.
func longPiece() []byte {
	body := append([]byte{1<<3 | 2, 0xd0, 0x0f}, strings.Repeat("x", 2000)...)
	body = append(body, 3<<3, 4)
	return append([]byte{1<<3 | 2, byte(len(body)&0x7f | 0x80), byte(len(body) >> 7)}, body...)
}

// FuzzOpen: whatever the files hold, there is an error or a tokenizer that works.
func FuzzOpen(f *testing.F) {
	for _, g := range goldenFolders(f) {
		for name, data := range g.Files {
			if name != "tokenizer_config.json" && len(data) < 20000 {
				f.Add(name, data, g.Files["tokenizer_config.json"], g.Files["merges.txt"])
			}
		}
	}
	f.Add("tokenizer.model", longPiece(), []byte(`{"added_tokens_decoder":{"1":{"content":"y"}}}`), []byte("a b"))
	f.Fuzz(func(t *testing.T, name string, data, config, merges []byte) {
		files := fstest.MapFS{"tokenizer_config.json": {Data: config}, "merges.txt": {Data: merges}}
		if fs.ValidPath(name) {
			files[name] = &fstest.MapFile{Data: data}
		}
		tok, err := Open(files)
		if err != nil {
			return
		}
		ids, err := tok.Encode(nil, "The e\u0301 <s>  ▁中文's\n\n 12345 \xff!", true)
		if err != nil {
			t.Skip(err)
		}
		for _, id := range ids {
			if tok.vocab.at(id).flags&known == 0 {
				t.Fatalf("the unknown id %d", id)
			}
		}
		tok.Decode(ids, DecodeOptions{})
	})
}
