package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// file is a parsed tokenizer.json. Truncation and padding are left out: they are
// defaults of whoever wrote the file, and the reference's callers reset them too.
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
		Prefix       string   `json:"continuing_subword_prefix"`
		Suffix       string   `json:"end_of_word_suffix"`
		FuseUnk      bool     `json:"fuse_unk"`
		ByteFallback bool     `json:"byte_fallback"`
		IgnoreMerges bool     `json:"ignore_merges"`
	} `json:"model"`

	// The members of the model that encoding/json is too slow for.
	vocab  []vocabItem // in the order of the file
	spell  []byte      // what the items spell, one after another
	merges *scanner    // at the array; nil if there is none
}

// vocabItem is a member of the vocabulary; it is spelled spell[start:end].
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
	Prepend          string                   `json:"prepend"`
	Content          string                   `json:"content"`
	Start            int                      `json:"start"`
	Stop             int                      `json:"stop"`
	Replacement      string                   `json:"replacement"`
	PrependScheme    string                   `json:"prepend_scheme"`
	AddPrefixSpace   *bool                    `json:"add_prefix_space"`
	Split            *bool                    `json:"split"`
	UseRegex         *bool                    `json:"use_regex"`
	IndividualDigits bool                     `json:"individual_digits"`
	Single           []templatePiece          `json:"single"`
	SpecialTokens    map[string]templateToken `json:"special_tokens"`
}

type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

type templatePiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

type templateToken struct {
	IDs []int32 `json:"ids"`
}

// maxFile bounds a file; offsets into it fit 32 bits.
const maxFile = 1 << 30

// Load reads a tokenizer.json. It keeps nothing of data. What the package does
// not do exactly is an error that wraps ErrUnsupported and names the component;
// anything else wrong with the file wraps ErrInvalid.
func Load(data []byte) (*Tokenizer, error) {
	f, err := parse(data)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{cache: newWordCache()}
	for _, step := range []func(*file) error{
		t.loadModelOptions, t.loadNormalizers, t.loadPreTokenizers, t.loadDecoder,
		t.loadVocabulary, t.loadSymbols, t.loadMerges, t.loadAddedTokens, t.loadPostProcessor,
	} {
		if err := step(f); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// parse reads the file: the vocabulary by hand, the merges not yet, and the rest
// by encoding/json from a copy that leaves both out.
func parse(data []byte) (*file, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%w: a file of more than %d bytes", ErrUnsupported, maxFile)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%w: not UTF-8", ErrInvalid)
	}
	f := &file{}
	s := &scanner{b: data}
	var rest []byte
	member := func(key, value []byte) {
		if len(rest) > 1 && rest[len(rest)-1] != '{' {
			rest = append(rest, ',')
		}
		name, _ := json.Marshal(string(key))
		rest = append(append(append(rest, name...), ':'), value...)
	}
	rest = append(rest, '{')
	err := s.members(func(key []byte) error {
		switch string(key) {
		case "model":
			if s.peek() != '{' {
				return s.fail("the model")
			}
			member(key, []byte{'{'})
			err := s.members(func(key []byte) error {
				isVocab, isMerges := string(key) == "vocab", string(key) == "merges"
				if isVocab && s.peek() == '{' {
					return f.readVocab(s)
				}
				if isMerges {
					f.merges = &scanner{s.b, s.i}
				}
				value, err := s.value()
				if err == nil && !isVocab && !isMerges {
					member(key, value)
				}
				return err
			})
			rest = append(rest, '}')
			return err
		case "version", "normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens":
			value, err := s.value()
			if err == nil {
				member(key, value)
			}
			return err
		}
		_, err := s.value()
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.peek(); s.i < len(data) {
		return nil, s.fail("the end")
	}
	if err := json.Unmarshal(append(rest, '}'), f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return f, nil
}

func (f *file) readVocab(s *scanner) error {
	if f.vocab != nil {
		return fmt.Errorf("%w: two vocabularies", ErrInvalid)
	}
	// An entry of a vocabulary takes about 16 bytes of the file.
	f.vocab = make([]vocabItem, 0, (len(s.b)-s.i)/32)
	f.spell = make([]byte, 0, (len(s.b)-s.i)/4)
	if err := s.expect('{'); err != nil {
		return err
	}
	return s.list('}', func() (err error) {
		item := vocabItem{start: uint32(len(f.spell))}
		if f.spell, err = s.text(f.spell); err != nil {
			return err
		}
		if err = s.expect(':'); err != nil {
			return err
		}
		item.end = uint32(len(f.spell))
		item.id, err = s.id()
		f.vocab = append(f.vocab, item)
		return err
	})
}

// loadModelOptions checks what has to be known before the vocabulary is read.
func (t *Tokenizer) loadModelOptions(f *file) error {
	m := &f.Model
	switch {
	case f.Version != "" && f.Version != "1.0":
		return fmt.Errorf("%w: tokenizer.json version %q", ErrUnsupported, f.Version)
	case m.Type != "" && m.Type != "BPE":
		return fmt.Errorf("%w: model %q; only BPE is", ErrUnsupported, m.Type)
	case f.vocab == nil || f.merges == nil:
		return fmt.Errorf("%w: the model has no vocab and merges", ErrInvalid)
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("%w: BPE dropout", ErrUnsupported)
	case m.Prefix != "":
		return fmt.Errorf("%w: BPE continuing_subword_prefix", ErrUnsupported)
	case m.Suffix != "":
		return fmt.Errorf("%w: BPE end_of_word_suffix", ErrUnsupported)
	}
	t.ignoreMerges = m.IgnoreMerges
	return nil
}
