package tokenizer

import (
	"errors"
	"fmt"

	"weir/internal/jsontext"
)

// file is a parsed tokenizer.json. The members truncation and padding are not read: they are
// defaults of the program that wrote the file, and transformers overrides them too.
type file struct {
	Version       string       `json:"version"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Decoder       *component   `json:"decoder"`
	AddedTokens   []addedToken `json:"added_tokens"`
	Model         struct {
		Type         string   `json:"type"`
		Dropout      *float64 `json:"dropout"`
		UnkToken     *string  `json:"unk_token"`
		UnkID        *int     `json:"unk_id"`                   // Unigram
		MaxWord      *int     `json:"max_input_chars_per_word"` // WordPiece
		Prefix       *string  `json:"continuing_subword_prefix"`
		Suffix       string   `json:"end_of_word_suffix"`
		FuseUnk      bool     `json:"fuse_unk"`
		ByteFallback bool     `json:"byte_fallback"`
		IgnoreMerges bool     `json:"ignore_merges"`
	} `json:"model"`

	// The large members of the model, up to 35 MB, are not decoded into Go values.
	vocab  []vocabItem // in the order of the file
	spell  []byte      // the spelling of all items, one after the other
	merges mergeList   // nil if there are none
	// Of the items of vocab:
	scores      []float32   // in the place of merges
	pieceScores []float64   // of a Unigram model
	kinds       []pieceKind // of such a model; nil: all are normal

	normalize  *pieceNormalizer // before those of Normalizer; nil: none
	wordMark   string           // goes in front of each word
	user       []int32          // user-defined pieces
	userPieces *userPieces      // the same, to search for; nil: none
	anyIDs     bool             // added tokens may have any ids
}

// pieceKind says what a piece of a Unigram model is for.
type pieceKind uint8

const (
	normalPiece pieceKind = iota
	hiddenPiece           // no text becomes it, and its score does not count
	userPiece             // a text becomes it, but its score does not count
)

// kind returns the kind of the i-th item of the vocabulary.
func (f *file) kind(i int) pieceKind {
	if f.kinds == nil {
		return normalPiece
	}
	return f.kinds[i]
}

// mergeList calls a function for all merges of a file, in their order, with the two tokens as
// they are spelled. They are valid during the call.
type mergeList func(func(left, right []byte) error) error

// vocabItem is a member of the vocabulary. Its spelling is spell[start:end].
type vocabItem struct {
	start, end uint32
	id         int32
}

// component is a normalizer, pre-tokenizer, post-processor or decoder of any type.
type component struct {
	Type             string                   `json:"type"`
	Normalizers      []component              `json:"normalizers"`
	PreTokenizers    []component              `json:"pretokenizers"`
	Processors       []component              `json:"processors"`
	Decoders         []component              `json:"decoders"`
	Pattern          pattern                  `json:"pattern"`
	Behavior         string                   `json:"behavior"`
	Invert           bool                     `json:"invert"`
	Content          string                   `json:"content"`
	Replacement      string                   `json:"replacement"`
	PrependScheme    string                   `json:"prepend_scheme"`
	AddPrefixSpace   *bool                    `json:"add_prefix_space"`
	Split            *bool                    `json:"split"`
	UseRegex         *bool                    `json:"use_regex"`
	IndividualDigits bool                     `json:"individual_digits"`
	Delimiter        string                   `json:"delimiter"` // CharDelimiterSplit
	Length           *int                     `json:"length"`    // FixedLength
	Single           []templatePiece          `json:"single"`
	Pair             []templatePiece          `json:"pair"`
	SpecialTokens    map[string]templateToken `json:"special_tokens"`
	Sep              []jsontext.RawMessage    `json:"sep"` // BertProcessing, RobertaProcessing
	Cls              []jsontext.RawMessage    `json:"cls"`

	normalizerOptions
	decoderOptions
}

// normalizerOptions are the options of normalizers.
type normalizerOptions struct {
	Prepend       string `json:"prepend"`
	Charsmap      string `json:"precompiled_charsmap"` // Precompiled, in base64
	StripLeft     *bool  `json:"strip_left"`           // Strip
	StripRight    *bool  `json:"strip_right"`
	CleanText     *bool  `json:"clean_text"` // BertNormalizer
	HandleChinese *bool  `json:"handle_chinese_chars"`
	StripAccents  *bool  `json:"strip_accents"`
	Lowercase     *bool  `json:"lowercase"`
}

// decoderOptions are the options of decoders.
type decoderOptions struct {
	Start         int     `json:"start"` // Strip
	Stop          int     `json:"stop"`
	Prefix        *string `json:"prefix"` // WordPiece
	Cleanup       *bool   `json:"cleanup"`
	Suffix        *string `json:"suffix"`    // BPEDecoder
	PadToken      *string `json:"pad_token"` // CTC
	WordDelimiter *string `json:"word_delimiter_token"`
}

func orTrue(v *bool) bool { return v == nil || *v }

func orText(v *string, other string) string {
	if v == nil {
		return other
	}
	return *v
}

type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

type templatePiece struct {
	SpecialToken *templatePart `json:"SpecialToken"`
	Sequence     *templatePart `json:"Sequence"`
}

type templatePart struct {
	ID     string `json:"id"`
	TypeID int32  `json:"type_id"`
}

type templateToken struct {
	IDs []int32 `json:"ids"`
}

// maxFile bounds the size of a file, so that offsets into it fit 32 bits.
const maxFile = 1 << 30

// maxDepth bounds its nesting.
const maxDepth = 1000

// Load reads a tokenizer.json. It keeps no reference to data. If the file asks for
// something that the package does not do exactly, the error wraps ErrUnsupported and names
// the component. If anything else is wrong with the file, it wraps ErrInvalid.
func Load(data []byte) (*Tokenizer, error) {
	f, err := parse(data)
	if err != nil {
		return nil, err
	}
	return build(f)
}

// build makes the tokenizer of a file.
func build(f *file) (*Tokenizer, error) {
	t := &Tokenizer{cache: newWordCache()}
	for _, step := range []func(*file) error{
		t.loadModelOptions, t.loadNormalizers, t.loadPreTokenizers, t.loadDecoder,
		t.loadVocabulary, t.loadModel, t.loadAddedTokens, t.loadPostProcessor,
	} {
		if err := step(f); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// parse reads the file. The vocabulary is read as it is scanned and the merges are kept
// as they are written, because both are large; the rest is decoded member by member.
func parse(data []byte) (*file, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%w: a file of more than %d bytes", ErrUnsupported, maxFile)
	}
	r := fileReader{Scanner: jsontext.NewScanner(data, maxDepth), size: len(data)}
	if r.Object(r.member) && r.Over() {
		return &r.file, nil
	}
	err := r.Err()
	if syntax, ok := errors.AsType[*jsontext.SyntaxError](err); ok {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, syntax)
	}
	return nil, err
}

// fileReader reads a file into its embedded struct.
type fileReader struct {
	*jsontext.Scanner
	file
	size    int    // of the file
	options []byte // the members of the model other than vocabulary and merges
}

// member reads a member of the file.
func (r *fileReader) member() bool {
	name, ok := r.RawName()
	if !ok {
		return false
	}
	switch f := &r.file; name.Text() {
	case "version":
		return r.decode(&f.Version)
	case "normalizer":
		return r.decode(&f.Normalizer)
	case "pre_tokenizer":
		return r.decode(&f.PreTokenizer)
	case "post_processor":
		return r.decode(&f.PostProcessor)
	case "decoder":
		return r.decode(&f.Decoder)
	case "added_tokens":
		return r.decode(&f.AddedTokens)
	case "model":
		return r.model()
	}
	return r.Value()
}

// decode reads a value into what into points to.
func (r *fileReader) decode(into any) bool {
	value, ok := r.Raw()
	return ok && r.take(jsontext.Decode(value, into))
}

// take ends the reading if err is an error.
func (r *fileReader) take(err error) bool {
	if err != nil {
		return r.Fail(fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	return true
}

func (r *fileReader) model() bool {
	r.options = append(r.options[:0], '{')
	if !r.Object(r.modelMember) {
		return false
	}
	return r.take(jsontext.Decode(append(r.options, '}'), &r.Model))
}

func (r *fileReader) modelMember() bool {
	name, ok := r.RawName()
	if !ok {
		return false
	}
	switch name.Text() {
	case "vocab":
		if r.Next() == '[' {
			return r.readPieces()
		}
		return r.readVocab()
	case "merges":
		merges, ok := r.Raw()
		r.merges = jsonMerges(merges)
		return ok
	}
	value, ok := r.Raw()
	if len(r.options) > 1 {
		r.options = append(r.options, ',')
	}
	r.options = append(append(append(r.options, name...), ':'), value...)
	return ok
}

// readVocab reads the vocabulary, which is an object.
func (r *fileReader) readVocab() bool {
	if r.vocab != nil {
		return r.take(errors.New("two vocabularies"))
	}
	// An entry of a vocabulary takes about 16 bytes of the file.
	left := r.size - r.Offset()
	r.vocab = make([]vocabItem, 0, left/32)
	r.spell = make([]byte, 0, left/4)
	return r.Object(func() bool {
		item := vocabItem{start: uint32(len(r.spell))}
		name, ok := r.RawName()
		if !ok {
			return false
		}
		var err error
		if r.spell, err = appendSpelled(r.spell, name); err != nil {
			return r.Fail(err)
		}
		value, ok := r.Raw()
		if !ok {
			return false
		}
		if item.id, err = parseID(value); err != nil {
			return r.Fail(err)
		}
		item.end = uint32(len(r.spell))
		r.vocab = append(r.vocab, item)
		return true
	})
}

// readPieces reads the vocabulary of a Unigram model, a list of pieces with their scores.
func (r *fileReader) readPieces() bool {
	if r.vocab != nil {
		return r.take(errors.New("two vocabularies"))
	}
	r.vocab, r.pieceScores = []vocabItem{}, []float64{}
	return r.Array(func(n int) bool {
		value, ok := r.Raw()
		if !ok {
			return false
		}
		if n >= maxIDs {
			return r.Fail(fmt.Errorf("%w: a token id of %d or more", ErrUnsupported, maxIDs))
		}
		return r.take(r.piece(value, n))
	})
}

func (r *fileReader) piece(value jsontext.Value, n int) (err error) {
	item := vocabItem{start: uint32(len(r.spell)), id: int32(n)}
	score, parts := 0.0, 0
	for i, part := range value.Elements() {
		switch {
		case i == 0 && part.Kind() == jsontext.String:
			if r.spell, err = appendSpelled(r.spell, part); err != nil {
				return err
			}
		case i == 1 && part.Kind() == jsontext.Number:
			if score, err = jsontext.ParseFloat(string(part)); err != nil {
				return fmt.Errorf("the score of piece %d of the vocab: %w", n, err)
			}
		default:
			parts = -1
		}
		parts++
	}
	if parts != 2 {
		return fmt.Errorf("the piece %d of the vocab, %.200s, is not a text and a score", n, value)
	}
	item.end = uint32(len(r.spell))
	r.vocab, r.pieceScores = append(r.vocab, item), append(r.pieceScores, score)
	return nil
}

// appendSpelled appends the text of a JSON string.
func appendSpelled(dst []byte, v jsontext.Value) ([]byte, error) {
	dst, paired := v.AppendText(dst)
	if !paired {
		return dst, fmt.Errorf("%w: %.200s has half of a surrogate pair", ErrInvalid, v)
	}
	return dst, nil
}

// parseID reads a token id.
func parseID(v jsontext.Value) (int32, error) {
	id := 0
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%w: %.200s is not a token id", ErrInvalid, v)
		}
		if id = id*10 + int(c-'0'); id >= maxIDs {
			return 0, fmt.Errorf("%w: a token id of %d or more", ErrUnsupported, maxIDs)
		}
	}
	return int32(id), nil
}

// loadModelOptions checks the kind of the model, and that it has what it needs.
func (t *Tokenizer) loadModelOptions(f *file) error {
	m := &f.Model
	if m.Type == "" { // older files do not say it
		m.Type = "BPE"
		if f.merges == nil && f.pieceScores != nil {
			m.Type = "Unigram"
		}
	}
	switch {
	case f.Version != "" && f.Version != "1.0":
		return fmt.Errorf("%w: tokenizer.json version %.200q", ErrUnsupported, f.Version)
	case f.vocab == nil:
		return fmt.Errorf("%w: the model has no vocab", ErrInvalid)
	case (m.Type == "Unigram") != (f.pieceScores != nil):
		return fmt.Errorf("%w: the vocab of model %.200q is of the wrong kind", ErrInvalid, m.Type)
	}
	switch m.Type {
	case "BPE":
		t.ignoreMerges = m.IgnoreMerges
		return f.checkBPE()
	case "Unigram", "WordPiece", "WordLevel":
		return nil
	}
	return fmt.Errorf("%w: model %.200q; BPE, Unigram, WordPiece and WordLevel are", ErrUnsupported, m.Type)
}

func (f *file) checkBPE() error {
	m := &f.Model
	switch {
	case f.merges == nil && f.scores == nil:
		return fmt.Errorf("%w: the model has no vocab and merges", ErrInvalid)
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("%w: BPE dropout", ErrUnsupported)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("%w: BPE continuing_subword_prefix", ErrUnsupported)
	case m.Suffix != "":
		return fmt.Errorf("%w: BPE end_of_word_suffix", ErrUnsupported)
	}
	return nil
}

// loadModel makes the model of the vocabulary.
func (t *Tokenizer) loadModel(f *file) error {
	m := &f.Model
	if t.byteLevel && m.Type != "BPE" {
		return fmt.Errorf("%w: the pre-tokenizer ByteLevel with model %.200q", ErrUnsupported, m.Type)
	}
	switch m.Type {
	case "Unigram":
		return t.loadUnigram(f)
	case "WordPiece", "WordLevel":
		return t.loadWords(f)
	}
	if err := t.loadSymbols(f); err != nil {
		return err
	}
	return t.loadMerges(f)
}
