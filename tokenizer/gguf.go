package tokenizer

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Metadata is what FromGGUF needs of the metadata of a GGUF file. found is false for a key that
// the file lacks, and for one whose value is not of the kind that is asked for.
type Metadata interface {
	String(key string) (value string, found bool)
	Bool(key string) (value, found bool)
	Int(key string) (value int64, found bool) // of any type of integers
	// Strings gives the length of an array of texts, and the texts. A text need not stay
	// valid when the next one is taken.
	Strings(key string) (count int, texts iter.Seq[[]byte], found bool)
	Ints(key string) (values []int32, found bool) // of any type of integers
	Floats(key string) (values []float32, found bool)
}

// GGUF is what a GGUF file says of its tokens beside the vocabulary. The id of a token that it
// does not have is -1.
type GGUF struct {
	BOS, EOS, EOT, EOM, UNK, SEP, PAD int32
	// AddBOS, AddEOS and AddSEP say whether they are put around a text. SEP is so by a vocabulary of model bert alone; in others it
	// stands between two texts.
	AddBOS, AddEOS, AddSEP bool
	// Ends are the tokens that end an answer: EOS, EOT, EOM, and those that are known by
	// their names. EOS is the first, if there is one.
	Ends []int32
}

// FromGGUF makes the tokenizer that is embedded in a GGUF file, and tells which tokens are
// special. The kinds of vocabularies are gpt2 (byte-level BPE), gemma4 (BPE of characters),
// llama (SentencePiece BPE with scores), t5 (SentencePiece Unigram) and bert (WordPiece). The words of a byte-level vocabulary are cut as the
// name in tokenizer.ggml.pre says.
//
// Texts become the same ids as in llama.cpp, with these differences: words are cut by the
// regular expression that was published with the model, where llama.cpp has a simpler one; of
// special tokens that overlap in a text the leftmost is found, not the longest; with addSpecial
// a text that begins with the BOS token gets no second one; and a word of more than 100
// characters is unknown to a model of kind bert, as it was in training.
//
// If the file asks for something that the package does not do exactly, the error wraps
// ErrUnsupported; if it contradicts itself, ErrInvalid. Both name the key.
// (llama.cpp, src/llama-vocab.cpp; ggml, docs/gguf.md.)
func FromGGUF(meta Metadata) (*Tokenizer, *GGUF, error) {
	g := &ggufFile{meta: meta, info: &GGUF{BOS: -1, EOS: -1, EOT: -1, EOM: -1, UNK: -1, SEP: -1, PAD: -1}}
	for _, step := range []func() error{g.readTokens, g.readModel, g.readSpecial} {
		if err := step(); err != nil {
			return nil, nil, fmt.Errorf("%w (in the metadata tokenizer.ggml of the GGUF file)", err)
		}
	}
	g.addTokens()
	t, err := build(&g.file)
	if err != nil {
		return nil, nil, fmt.Errorf("%w (in the metadata tokenizer.ggml of the GGUF file)", err)
	}
	g.surround(t)
	return t, g.info, nil
}

// The types of tokens, of tokenizer.ggml.token_type. 1 is a normal token.
const (
	ggufUnknown = 2
	ggufControl = 3
	ggufUser    = 4
	ggufUnused  = 5
	ggufByte    = 6
)

type ggufFile struct {
	meta  Metadata
	info  *GGUF
	file  file
	types []int32          // by id; nil: all tokens are normal
	names map[string]int32 // the tokens that have a meaning by their names
	strip bool             // special tokens take the white space after them
}

func (g *ggufFile) typeOf(id int32) int32 {
	if int(id) >= len(g.types) {
		return 1
	}
	return g.types[id]
}

func (g *ggufFile) spelled(id int32) []byte {
	item := g.file.vocab[id]
	return g.file.spell[item.start:item.end]
}

func missing(key, kind string) error {
	return fmt.Errorf("%w: the key tokenizer.ggml.%s is missing, or it is not %s", ErrInvalid, key, kind)
}

// readTokens reads the texts and the types of all tokens.
func (g *ggufFile) readTokens() error {
	count, texts, ok := g.meta.Strings("tokenizer.ggml.tokens")
	if !ok {
		return missing("tokens", "a list of texts")
	}
	if count >= maxIDs {
		return fmt.Errorf("%w: %d tokens in tokenizer.ggml.tokens; %d are the most", ErrUnsupported, count, maxIDs-1)
	}
	if types, ok := g.meta.Ints("tokenizer.ggml.token_type"); ok {
		if len(types) < count {
			return fmt.Errorf("%w: tokenizer.ggml.token_type has %d types for %d tokens", ErrInvalid, len(types), count)
		}
		g.types = slices.Clone(types[:count])
	}
	f := &g.file
	f.vocab = make([]vocabItem, 0, count)
	g.names = map[string]int32{}
	for text := range texts {
		if len(f.spell)+len(text) > maxFile || len(f.vocab) == count {
			return fmt.Errorf("%w: tokenizer.ggml.tokens has more than %d bytes, or more texts than it says", ErrInvalid, maxFile)
		}
		item := vocabItem{start: uint32(len(f.spell)), id: int32(len(f.vocab))}
		if len(text) == 0 {
			f.spell = fmt.Appendf(f.spell, "[EMPTY_%d]", item.id) // as llama.cpp calls it
		} else {
			f.spell = append(f.spell, text...)
		}
		if meansEnd[string(text)] {
			g.names[string(text)] = item.id
		}
		item.end = uint32(len(f.spell))
		f.vocab = append(f.vocab, item)
	}
	if len(f.vocab) != count {
		return fmt.Errorf("%w: tokenizer.ggml.tokens has %d texts, not the %d that it says", ErrInvalid, len(f.vocab), count)
	}
	return nil
}

// readModel reads how texts become tokens.
func (g *ggufFile) readModel() error {
	kind, ok := g.meta.String("tokenizer.ggml.model")
	if !ok {
		return missing("model", "a text")
	}
	pre, _ := g.meta.String("tokenizer.ggml.pre")
	g.file.Model.Type = "BPE"
	switch kind {
	case "gemma4":
		return g.newlineBPE()
	case "gpt2":
		if newlineCuts[pre] {
			return g.newlineBPE()
		}
		return g.byteBPE(pre)
	case "llama":
		return g.scored()
	case "t5":
		return g.unigram()
	case "bert":
		return g.wordPiece()
	}
	return fmt.Errorf("%w: tokenizer.ggml.model %.200q; gpt2, llama, gemma4, t5 and bert are", ErrUnsupported, kind)
}

func sequence(kind string, list ...component) *component {
	switch kind {
	case "normalizers":
		return &component{Type: "Sequence", Normalizers: list}
	case "pretokenizers":
		return &component{Type: "Sequence", PreTokenizers: list}
	}
	return &component{Type: "Sequence", Decoders: list}
}

func splitAt(regex string) component {
	return component{Type: "Split", Pattern: pattern{Regex: &regex}, Behavior: "Isolated"}
}

func replaceText(from, to string) component {
	return component{Type: "Replace", Pattern: pattern{String: &from}, Content: to}
}

// byteBPE is model gpt2.
func (g *ggufFile) byteBPE(pre string) error {
	cut, ok := wordCuts[pre]
	if !ok {
		return fmt.Errorf("%w: tokenizer.ggml.pre %.200q: it is not known how such a vocabulary cuts a text into words", ErrUnsupported, pre)
	}
	var list []component
	for _, p := range cut.patterns {
		list = append(list, splitAt(p))
	}
	f, no := &g.file, false
	byteLevel := component{Type: "ByteLevel", UseRegex: &no}
	f.PreTokenizer, f.Decoder = sequence("pretokenizers", append(list, byteLevel)...), &byteLevel
	f.Model.IgnoreMerges = cut.ignoreMerges
	g.info.AddBOS = cut.addBOS
	return g.readMerges()
}

// newlineBPE is a vocabulary of characters with a list of merges, in which a text is cut only
// at line ends.
func (g *ggufFile) newlineBPE() error {
	f := &g.file
	f.Normalizer = sequence("normalizers", replaceText(" ", "▁"))
	f.PreTokenizer = sequence("pretokenizers", splitAt(`[^\n]+|[\n]+`))
	f.Decoder = sequence("decoders", replaceText("▁", " "), component{Type: "ByteFallback"}, component{Type: "Fuse"})
	f.Model.ByteFallback = true
	g.info.AddBOS = true
	return g.readMerges()
}

// readScores reads the score of each token.
func (g *ggufFile) readScores() ([]float32, error) {
	scores, ok := g.meta.Floats("tokenizer.ggml.scores")
	if !ok {
		var whole []int32
		whole, ok = g.meta.Ints("tokenizer.ggml.scores")
		for _, v := range whole {
			scores = append(scores, float32(v))
		}
	}
	if !ok || len(scores) < len(g.file.vocab) {
		return nil, missing("scores", "a list of a number for each token")
	}
	for i, s := range scores[:len(g.file.vocab)] {
		if s != s {
			return nil, fmt.Errorf("%w: the score of token %d in tokenizer.ggml.scores is not a number", ErrInvalid, i)
		}
	}
	return scores[:len(g.file.vocab)], nil
}

// scored is model llama.
func (g *ggufFile) scored() (err error) {
	f := &g.file
	if f.scores, err = g.readScores(); err != nil {
		return err
	}
	prefix, ok := g.meta.Bool("tokenizer.ggml.add_space_prefix")
	prefix = prefix || !ok
	decoders := []component{replaceText("▁", " "), {Type: "ByteFallback"}, {Type: "Fuse"}}
	f.Normalizer = sequence("normalizers", replaceText(" ", "▁"))
	if prefix {
		f.Normalizer = sequence("normalizers", component{Type: "Prepend", normalizerOptions: normalizerOptions{Prepend: "▁"}}, replaceText(" ", "▁"))
		decoders = append(decoders, stripSpace)
	}
	f.Decoder = sequence("decoders", decoders...)
	f.Model.ByteFallback, f.Model.FuseUnk = g.hasBytes(), true
	g.info.AddBOS = true
	g.info.BOS, g.info.EOS, g.info.UNK = g.inRange(1), g.inRange(2), g.inRange(0)
	return nil
}

// stripSpace takes away the space that a text begins with.
var stripSpace = component{Type: "Strip", Content: " ", decoderOptions: decoderOptions{Start: 1}}

// unigram is model t5.
func (g *ggufFile) unigram() error {
	f := &g.file
	scores, err := g.readScores()
	if err != nil {
		return err
	}
	f.Model.Type = "Unigram"
	f.pieceScores, f.kinds = make([]float64, len(scores)), make([]pieceKind, len(scores))
	for i, s := range scores {
		switch f.pieceScores[i] = float64(s); g.typeOf(int32(i)) {
		case ggufUser:
			f.pieceScores[i], f.kinds[i] = 0, userPiece
		case ggufUnused:
			f.kinds[i] = userPiece
		case ggufUnknown, ggufControl, ggufByte:
			f.kinds[i] = hiddenPiece
		}
	}
	blob, err := g.charsmap()
	if err != nil {
		return err
	}
	m, err := parseCharsmap(blob)
	if err != nil {
		return err
	}
	prefix, _ := g.meta.Bool("tokenizer.ggml.add_space_prefix")
	merge, _ := g.meta.Bool("tokenizer.ggml.remove_extra_whitespaces")
	f.normalize = &pieceNormalizer{charsmap: m, prefix: prefix, merge: merge, escape: true}
	f.Decoder = sequence("decoders", replaceText("▁", " "), component{Type: "Fuse"})
	if prefix {
		f.Decoder = sequence("decoders", replaceText("▁", " "), component{Type: "Fuse"}, stripSpace)
	}
	g.info.AddEOS = true
	g.info.EOS, g.info.UNK, g.info.PAD = g.inRange(1), g.inRange(2), g.inRange(0)
	return nil
}

// charsmap returns the map of characters, or nil.
func (g *ggufFile) charsmap() ([]byte, error) {
	values, ok := g.meta.Ints("tokenizer.ggml.precompiled_charsmap")
	if !ok {
		return nil, nil
	}
	blob := make([]byte, len(values))
	for i, v := range values {
		if v < -128 || v > 255 {
			return nil, fmt.Errorf("%w: tokenizer.ggml.precompiled_charsmap is not bytes", ErrInvalid)
		}
		blob[i] = byte(v)
	}
	return blob, nil
}

// wordPiece is model bert. Its pieces that begin a word have a mark in front, where those of
// other files have ## in front of pieces that do not.
func (g *ggufFile) wordPiece() error {
	f, none, longest := &g.file, "", 100
	lower, ok := g.meta.Bool("tokenizer.ggml.normalizer.lowercase")
	lower = lower || !ok
	accents, ok := g.meta.Bool("tokenizer.ggml.normalizer.strip_accents")
	if !ok {
		accents = lower
	}
	f.Model.Type, f.Model.Prefix, f.Model.MaxWord = "WordPiece", &none, &longest
	f.Normalizer = &component{Type: "BertNormalizer", normalizerOptions: normalizerOptions{Lowercase: &lower, StripAccents: &accents}}
	f.PreTokenizer, f.wordMark = &component{Type: "BertPreTokenizer"}, "▁"
	f.Decoder = sequence("decoders", replaceText("▁", " "), component{Type: "Fuse"}, stripSpace)
	i := g.info
	i.BOS, i.UNK, i.SEP, i.PAD = g.inRange(101), g.inRange(100), g.inRange(102), g.inRange(0)
	if id, ok := g.meta.Int("tokenizer.ggml.cls_token_id"); ok {
		i.BOS = g.inRange(id)
	}
	i.AddBOS, i.AddSEP = true, true
	return nil
}

// hasBytes reports whether some token stands for a byte.
func (g *ggufFile) hasBytes() bool {
	for id := range g.file.vocab {
		if _, ok := byteToken(string(g.spelled(int32(id)))); ok && (g.types == nil || g.typeOf(int32(id)) == ggufByte) {
			return true
		}
	}
	return false
}

func (g *ggufFile) inRange(id int64) int32 {
	if id < 0 || id >= int64(len(g.file.vocab)) {
		return -1
	}
	return int32(id)
}

// readMerges reads the list of merges, each of which is two tokens with a space between. The
// first token may begin with a space.
func (g *ggufFile) readMerges() error {
	count, texts, ok := g.meta.Strings("tokenizer.ggml.merges")
	if !ok {
		return missing("merges", "a list of texts")
	}
	g.file.merges = func(add func(left, right []byte) error) error {
		n := 0
		for text := range texts {
			at := bytes.IndexByte(text[min(1, len(text)):], ' ') + 1
			if at == 0 {
				return fmt.Errorf("%w: merge %d in tokenizer.ggml.merges, %.200q, is not two tokens", ErrInvalid, n, text)
			}
			if err := add(text[:at], text[at+1:]); err != nil {
				return err
			}
			n++
		}
		if n != count {
			return fmt.Errorf("%w: tokenizer.ggml.merges has %d texts, not the %d that it says", ErrInvalid, n, count)
		}
		return nil
	}
	return nil
}

// meansEnd has the names of tokens that end an answer in published models.
// (llama.cpp, src/llama-vocab.cpp.)
var meansEnd = map[string]bool{
	"<|eot_id|>": true, "<|im_end|>": true, "<|end|>": true, "<|return|>": true, "<|call|>": true, "<|flush|>": true, "<|calls|>": true,
	"<end_of_turn>": true, "<|endoftext|>": true, "</s>": true, "<|eom_id|>": true, "<EOT>": true, "_<EOT>": true, "[EOT]": true, "[EOS]": true,
	"<|end_of_text|>": true, "<end_of_utterance>": true, "<eos>": true, "<turn|>": true, "<|tool_response>": true, "<｜end▁of▁sentence｜>": true,
	"[e~[": true,
}

// readSpecial reads the ids of special tokens and which of them are put around a text.
func (g *ggufFile) readSpecial() error {
	i := g.info
	for _, s := range []struct {
		key string
		id  *int32
	}{
		{"bos_token_id", &i.BOS}, {"eos_token_id", &i.EOS}, {"eot_token_id", &i.EOT}, {"eom_token_id", &i.EOM},
		{"unknown_token_id", &i.UNK}, {"seperator_token_id", &i.SEP}, {"padding_token_id", &i.PAD},
	} {
		id, ok := g.meta.Int("tokenizer.ggml." + s.key)
		if !ok {
			continue
		}
		if s.id == &i.PAD {
			*s.id = g.inRange(id) // texts are never padded, and some converters write an id that is none
			continue
		}
		if g.inRange(id) < 0 {
			return fmt.Errorf("%w: tokenizer.ggml.%s is %d, and there are %d tokens", ErrInvalid, s.key, id, len(g.file.vocab))
		}
		*s.id = int32(id)
	}
	for _, s := range []struct {
		key string
		add *bool
		id  int32
	}{{"add_bos_token", &i.AddBOS, i.BOS}, {"add_eos_token", &i.AddEOS, i.EOS}, {"add_sep_token", &i.AddSEP, i.SEP}} {
		v, ok := g.meta.Bool("tokenizer.ggml." + s.key)
		if ok {
			*s.add = v
		}
		if v && s.id < 0 {
			return fmt.Errorf("%w: tokenizer.ggml.%s is true, but the file does not say which token that is", ErrInvalid, s.key)
		}
		*s.add = *s.add && s.id >= 0
	}
	g.findEnds()
	name, _ := g.meta.String("general.name")
	name = strings.ToLower(name)
	g.strip = strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	return nil
}

// findEnds collects the tokens that end an answer.
func (g *ggufFile) findEnds() {
	i := g.info
	has := func(name string) bool { _, ok := g.names[name]; return ok }
	// In these vocabularies <|end|> ends a message and not the answer, or </s> is a text.
	if has("<|end|>") && (has("<|return|>") && has("<|call|>") || has("<|calls|>") && has("<|flush|>")) {
		delete(g.names, "<|end|>")
	}
	if has("<|tool_response>") {
		delete(g.names, "</s>")
	}
	for _, id := range []int32{i.EOS, i.EOT, i.EOM} {
		if id >= 0 && !slices.Contains(i.Ends, id) {
			i.Ends = append(i.Ends, id)
		}
	}
	first := len(i.Ends)
	for _, id := range g.names {
		if !slices.Contains(i.Ends, id) {
			i.Ends = append(i.Ends, id)
		}
	}
	slices.Sort(i.Ends[first:])
}

// addTokens lists the added tokens: those that the file calls control, user-defined or unknown
// ones, and those that end an answer. All but user-defined ones are special.
func (g *ggufFile) addTokens() {
	f := &g.file
	if g.info.UNK >= 0 {
		name := string(g.spelled(g.info.UNK))
		f.Model.UnkToken = &name
		id := int(g.info.UNK)
		f.Model.UnkID = &id
	}
	for _, item := range f.vocab {
		kind := g.typeOf(item.id)
		special := kind == ggufControl || kind == ggufUnknown || slices.Contains(g.info.Ends, item.id)
		if !special && kind != ggufUser {
			continue
		}
		name := string(g.spelled(item.id))
		strip := g.strip && name != "<unk>" && name != "<s>" && name != "<|endoftext|>"
		f.AddedTokens = append(f.AddedTokens, addedToken{ID: item.id, Content: name, Special: special, Rstrip: strip})
	}
}

// surround sets what is put around a text.
func (g *ggufFile) surround(t *Tokenizer) {
	i := g.info
	if i.AddBOS {
		t.prefix, t.prefixOnce = append(t.prefix, i.BOS), true
	}
	if i.AddEOS && i.EOS >= 0 {
		t.suffix = append(t.suffix, i.EOS)
	}
	if g.file.Model.Type == "WordPiece" && i.AddSEP {
		t.suffix, t.pair.joined = append(t.suffix, i.SEP), true
		return
	}
	// The second of two texts has what ends a text around it, and nothing that begins one (llama.cpp, tools/server,
	// format_prompt_rerank). Its type is 1 in a vocabulary of BERT; networks with others tell no texts apart.
	var between []int32
	if i.AddSEP {
		between = []int32{i.SEP}
	}
	kind := int32(0)
	if g.file.Model.Type == "WordPiece" {
		kind = 1
	}
	t.pair.pieces = []pairPiece{{noText, t.prefix, 0}, {0, nil, 0}, {noText, t.suffix, 0}, {noText, between, 0}, {1, nil, kind}, {noText, t.suffix, kind}}
}
