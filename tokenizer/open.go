package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
)

// Open makes the tokenizer of a model's folder, out of the first of these that is there:
//
//   - tokenizer.json
//   - tekken.json, of Mistral's models
//   - tokenizer.model: SentencePiece, or the ranks of tiktoken; or tiktoken.model
//   - vocab.json and merges.txt: byte-level BPE
//   - vocab.txt: WordPiece
//
// Beside all but the first, tokenizer_config.json and added_tokens.json say which tokens are
// added and what is put around a text, and some of what only the class that is named there
// knows. The results are those of transformers, and of sentencepiece, tiktoken and
// mistral-common.
//
// An error names the file. If it asks for something that the package does not do exactly it
// wraps ErrUnsupported, if something is wrong with it ErrInvalid.
func Open(files fs.FS) (*Tokenizer, error) {
	for _, kind := range []struct {
		name string
		open func(*folder, []byte) (*file, error)
	}{
		{"tokenizer.json", nil}, {"tekken.json", (*folder).tekken}, {"tokenizer.model", (*folder).pieces}, {"tiktoken.model", (*folder).tiktoken},
		{"vocab.json", (*folder).byteLevel}, {"vocab.txt", (*folder).wordPiece},
	} {
		data, err := fs.ReadFile(files, kind.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(data) > maxFile {
			return nil, fmt.Errorf("%s: %w: a file of more than %d bytes", kind.name, ErrUnsupported, maxFile)
		}
		t, err := openKind(files, data, kind.open)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
		return t, nil
	}
	return nil, errors.New("there is no tokenizer: none of tokenizer.json, tekken.json, tokenizer.model, tiktoken.model, vocab.json and vocab.txt")
}

func openKind(files fs.FS, data []byte, open func(*folder, []byte) (*file, error)) (*Tokenizer, error) {
	if open == nil {
		return Load(data)
	}
	d := &folder{files: files}
	if err := d.readConfig(); err != nil {
		return nil, err
	}
	f, err := open(d, data)
	if err != nil {
		return nil, err
	}
	if err := d.addTokens(f); err != nil {
		return nil, err
	}
	t, err := build(f)
	if err != nil {
		return nil, err
	}
	return t, d.surround(t)
}

// folder is what is beside the vocabulary in a model's folder.
type folder struct {
	files  fs.FS
	config struct {
		Class         string                `json:"tokenizer_class"`
		AutoMap       jsontext.RawMessage   `json:"auto_map"`
		AddBOS        *bool                 `json:"add_bos_token"`
		AddEOS        *bool                 `json:"add_eos_token"`
		Legacy        *bool                 `json:"legacy"`
		PrefixSpace   *bool                 `json:"add_prefix_space"`
		LowerCase     *bool                 `json:"do_lower_case"`
		StripAccents  *bool                 `json:"strip_accents"`
		HandleChinese *bool                 `json:"tokenize_chinese_chars"`
		BOS           namedToken            `json:"bos_token"`
		EOS           namedToken            `json:"eos_token"`
		UNK           namedToken            `json:"unk_token"`
		PAD           namedToken            `json:"pad_token"`
		CLS           namedToken            `json:"cls_token"`
		SEP           namedToken            `json:"sep_token"`
		MASK          namedToken            `json:"mask_token"`
		More          []namedToken          `json:"additional_special_tokens"`
		Added         map[string]addedToken `json:"added_tokens_decoder"`
	}
	configured bool   // there is a tokenizer_config.json
	class      string // tokenizer_class without Fast at its end

	// What the vocabulary itself says, for where the configuration says nothing:
	bos, eos       string
	addBOS, addEOS bool
	special        []namedToken // tokens that are special if the vocabulary has them
}

// namedToken is a token that a configuration names: a text, or an object with the text.
type namedToken string

func (n *namedToken) UnmarshalJSON(data []byte) error {
	var text *string
	if jsontext.Decode(data, &text) == nil {
		if text != nil {
			*n = namedToken(*text)
		}
		return nil
	}
	var token struct {
		Content string `json:"content"`
	}
	err := jsontext.Decode(data, &token)
	*n = namedToken(token.Content)
	return err
}

// readConfig reads tokenizer_config.json, which need not be there.
func (d *folder) readConfig() error {
	data, err := fs.ReadFile(d.files, "tokenizer_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = jsontext.Scan(data, maxDepth)
	}
	if err == nil {
		err = jsontext.Decode(data, &d.config)
	}
	if err != nil {
		return fmt.Errorf("%w: tokenizer_config.json beside it: %w", ErrInvalid, err)
	}
	d.configured = true
	d.class = strings.TrimSuffix(d.config.Class, "Fast")
	return nil
}

// addTokens adds the added tokens that the folder lists. Where it gives a token of the
// vocabulary another name, that is its name.
func (d *folder) addTokens(f *file) error {
	list, err := d.addedTokens()
	if err != nil {
		return err
	}
	byName := make(map[string]int32, len(f.vocab))
	byID := make(map[int32]int, len(f.vocab))
	for i, item := range f.vocab {
		byName[string(f.spell[item.start:item.end])], byID[item.id] = item.id, i
	}
	have := map[string]int{}
	for i, a := range f.AddedTokens {
		have[a.Content] = i
	}
	for _, a := range list {
		// SentencePiece normalizes only what is between added tokens, which transformers sees to.
		a.Normalized = a.Normalized && f.normalize == nil
		if i, ok := have[a.Content]; ok && f.AddedTokens[i].ID == a.ID {
			f.AddedTokens[i] = a
			continue
		}
		if i, ok := byID[a.ID]; ok {
			if _, taken := byName[a.Content]; !taken {
				f.rename(i, a.Content)
				byName[a.Content] = a.ID
			}
		}
		if id, ok := byName[a.Content]; ok && id != a.ID {
			return fmt.Errorf("%w: the added token %.200q of tokenizer_config.json or added_tokens.json has id %d, and %d in the vocabulary", ErrInvalid, a.Content, a.ID, id)
		}
		f.AddedTokens = append(f.AddedTokens, a)
	}
	c := &d.config
	for _, name := range slices.Concat([]namedToken{c.BOS, c.EOS, c.UNK, c.PAD, c.CLS, c.SEP, c.MASK}, c.More, d.special) {
		isSame := func(a addedToken) bool { return a.Content == string(name) }
		if id, ok := byName[string(name)]; ok && name != "" && !slices.ContainsFunc(f.AddedTokens, isSame) {
			f.AddedTokens = append(f.AddedTokens, addedToken{ID: id, Content: string(name), Special: true})
		}
	}
	slices.SortStableFunc(f.AddedTokens, func(a, b addedToken) int { return int(a.ID) - int(b.ID) })
	f.anyIDs = true
	return nil
}

// rename gives the i-th item of the vocabulary another name.
func (f *file) rename(i int, name string) {
	f.vocab[i].start = uint32(len(f.spell))
	f.spell = append(f.spell, name...)
	f.vocab[i].end = uint32(len(f.spell))
}

// addedTokens returns the tokens of added_tokens_decoder and of added_tokens.json.
func (d *folder) addedTokens() (list []addedToken, err error) {
	listed := map[string]bool{}
	for key, a := range d.config.Added {
		id, err := strconv.ParseUint(key, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%w: %.200q in added_tokens_decoder of tokenizer_config.json is not a token id", ErrInvalid, key)
		}
		a.ID = int32(id)
		list, listed[a.Content] = append(list, a), true
	}
	data, err := fs.ReadFile(d.files, "added_tokens.json")
	if err == nil {
		var added map[string]int32
		if err = jsontext.Decode(data, &added); err != nil {
			return nil, fmt.Errorf("%w: added_tokens.json beside it: %w", ErrInvalid, err)
		}
		for name, id := range added {
			if !listed[name] {
				list = append(list, addedToken{ID: id, Content: name, Special: slices.Contains(d.config.More, namedToken(name))})
			}
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	slices.SortFunc(list, func(a, b addedToken) int {
		if a.ID != b.ID {
			return int(a.ID) - int(b.ID)
		}
		return strings.Compare(a.Content, b.Content)
	})
	return list, nil
}

// surround sets what is put around a text.
func (d *folder) surround(t *Tokenizer) error {
	for _, part := range []struct {
		asked *bool
		own   bool
		name  string
		key   string
		to    *[]int32
	}{
		{d.config.AddBOS, d.addBOS, cmp.Or(string(d.config.BOS), d.bos), "add_bos_token", &t.prefix},
		{d.config.AddEOS, d.addEOS, cmp.Or(string(d.config.EOS), d.eos), "add_eos_token", &t.suffix},
	} {
		asked := part.own
		if part.asked != nil {
			asked = *part.asked
		}
		if !asked || len(*part.to) > 0 {
			continue
		}
		id, ok := t.ID(part.name)
		if ok {
			*part.to = append(*part.to, id)
		} else if part.asked != nil {
			return fmt.Errorf("%w: %s of tokenizer_config.json, but there is no token %.200q", ErrInvalid, part.key, part.name)
		}
	}
	return nil
}
