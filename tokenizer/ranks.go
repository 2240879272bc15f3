package tokenizer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"weir/internal/jsontext"
)

// rankedVocabulary makes a byte-level vocabulary of texts with ranks: the rank of a text is
// that of the merge that makes it, whatever it is merged from, and its token comes offset after
// it. (tiktoken, src/lib.rs.)
type rankedVocabulary struct {
	*file
	offset int32
}

func newRanked(pattern string, offset int32) *rankedVocabulary {
	no := false
	byteLevel := component{Type: "ByteLevel", UseRegex: &no}
	f := &file{PreTokenizer: sequence("pretokenizers", splitAt(pattern), byteLevel), Decoder: &byteLevel}
	f.Model.Type, f.Model.IgnoreMerges = "BPE", true
	f.vocab, f.scores = []vocabItem{}, []float32{}
	return &rankedVocabulary{f, offset}
}

// add adds a text in base64.
func (r *rankedVocabulary) add(text []byte, rank int) error {
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(raw) == 0 {
		return fmt.Errorf("%w: the token of rank %d, %.200q, is not in base64", ErrInvalid, rank, text)
	}
	if rank < 0 || rank >= maxIDs-int(r.offset) {
		return fmt.Errorf("%w: a token of rank %d", ErrUnsupported, rank)
	}
	item := vocabItem{start: uint32(len(r.spell)), id: int32(rank) + r.offset}
	for _, b := range raw {
		r.spell = append(r.spell, string(byteSpelling[b])...)
	}
	item.end = uint32(len(r.spell))
	r.vocab, r.scores = append(r.vocab, item), append(r.scores, float32(-rank))
	return nil
}

// nextRank cuts a line off a file of tiktoken: a text in base64, a space, and its rank.
func nextRank(data []byte) (text []byte, rank int, rest []byte, err error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	line = bytes.TrimRight(line, "\r ")
	if len(line) == 0 {
		return nil, 0, rest, nil
	}
	text, digits, ok := bytes.Cut(line, []byte(" "))
	id, err := parseID(digits)
	if !ok || len(digits) == 0 || err != nil {
		return nil, 0, nil, fmt.Errorf("%w: the line %.200q is not a token in base64 and its rank", ErrInvalid, line)
	}
	return text, int(id), rest, nil
}

// looksLikeRanks reports whether a file begins as those of tiktoken do. A SentencePiece model
// begins with a byte that no base64 has.
func looksLikeRanks(data []byte) bool {
	text, _, _, err := nextRank(data[:min(len(data), 4096)])
	if err != nil || len(text) == 0 {
		return false
	}
	_, err = base64.StdEncoding.DecodeString(string(text))
	return err == nil
}

// tiktoken reads a file of ranks. Which pattern cuts words is known only to the code that
// comes with a model: that of Kimi's, or Llama 3's, which transformers takes for all others.
func (d *folder) tiktoken(data []byte) (*file, error) {
	pattern := llama3Pattern
	if strings.Contains(strings.ToLower(string(d.config.AutoMap)), "kimi") {
		pattern = kimiPattern
	}
	r := newRanked(pattern, 0)
	highest := -1
	for len(data) > 0 {
		text, rank, rest, err := nextRank(data)
		if err != nil {
			return nil, err
		}
		if data = rest; len(text) == 0 {
			continue
		}
		if err := r.add(text, rank); err != nil {
			return nil, err
		}
		highest = max(highest, rank)
	}
	if len(r.vocab) == 0 {
		return nil, fmt.Errorf("%w: a file without tokens", ErrInvalid)
	}
	return r.file, d.reserve(r.file, int32(highest+1))
}

// reserve adds the special tokens that the configuration does not name between those it does.
func (d *folder) reserve(f *file, from int32) error {
	list, err := d.addedTokens()
	if err != nil || len(list) == 0 {
		return err
	}
	named := map[int32]bool{}
	for _, a := range list {
		named[a.ID] = true
	}
	last := list[len(list)-1].ID
	if int(last-from) > 4*len(f.vocab)+1024 {
		return fmt.Errorf("%w: added tokens up to %d in tokenizer_config.json or added_tokens.json, for %d tokens", ErrUnsupported, last, len(f.vocab))
	}
	for id := from; id < last; id++ {
		if !named[id] {
			f.AddedTokens = append(f.AddedTokens, addedToken{ID: id, Content: fmt.Sprintf("<|reserved_token_%d|>", id), Special: true})
		}
	}
	return nil
}

// tekkenSpecial are the special tokens of a tekken.json that lists none, by their ids.
// (mistral-common, tokens/tokenizers/tekken.py.)
var tekkenSpecial = []string{"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
	"[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"}

// tekken reads a tekken.json.
func (d *folder) tekken(data []byte) (*file, error) {
	if err := jsontext.Scan(data, maxDepth); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var in struct {
		Config struct {
			Pattern string `json:"pattern"`
			Size    int    `json:"default_vocab_size"`
			Special int    `json:"default_num_special_tokens"`
		} `json:"config"`
		Vocab []struct {
			Bytes string `json:"token_bytes"`
		} `json:"vocab"`
		Special []struct {
			Rank *int32 `json:"rank"`
			Text string `json:"token_str"`
		} `json:"special_tokens"`
	}
	if err := jsontext.Decode(data, &in); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if in.Special == nil {
		for i, text := range tekkenSpecial {
			id := int32(i)
			in.Special = append(in.Special, struct {
				Rank *int32 `json:"rank"`
				Text string `json:"token_str"`
			}{&id, text})
		}
	}
	c := in.Config
	if c.Special < len(in.Special) || c.Special > 4*len(in.Vocab)+1024 || c.Size < c.Special || c.Size-c.Special > len(in.Vocab) {
		return nil, fmt.Errorf("%w: the config says %d tokens of which %d are special; there are %d in vocab and %d in special_tokens", ErrInvalid, c.Size, c.Special, len(in.Vocab), len(in.Special))
	}
	r := newRanked(c.Pattern, int32(c.Special))
	for rank, token := range in.Vocab[:c.Size-c.Special] {
		if err := r.add([]byte(token.Bytes), rank); err != nil {
			return nil, err
		}
	}
	names := make([]string, c.Special)
	for i, s := range in.Special {
		if s.Rank == nil || *s.Rank < 0 || int(*s.Rank) >= len(names) || names[*s.Rank] != "" || s.Text == "" {
			return nil, fmt.Errorf("%w: special token %d, %.200q, has no rank of its own", ErrInvalid, i, s.Text)
		}
		names[*s.Rank] = s.Text
	}
	for id, name := range names {
		if name == "" {
			name = fmt.Sprintf("<SPECIAL_%d>", id)
		}
		r.AddedTokens = append(r.AddedTokens, addedToken{ID: int32(id), Content: name, Special: true})
	}
	d.bos, d.eos, d.addBOS = "<s>", "</s>", true
	return r.file, nil
}

// byteLevel reads vocab.json and merges.txt.
func (d *folder) byteLevel(data []byte) (*file, error) {
	f := &file{}
	no, isGPT2 := false, false
	byteLevel := component{Type: "ByteLevel"}
	switch d.class {
	case "Qwen2Tokenizer":
		byteLevel.UseRegex, byteLevel.AddPrefixSpace = &no, d.config.PrefixSpace
		f.Normalizer = &component{Type: "NFC"}
		f.PreTokenizer = sequence("pretokenizers", splitAt(qwen2Pattern), byteLevel)
	case "", "GPT2Tokenizer", "GPTNeoXTokenizer", "RobertaTokenizer", "BartTokenizer", "CodeGenTokenizer", "BlenderbotTokenizer", "LongformerTokenizer":
		isGPT2 = true
		byteLevel.AddPrefixSpace = d.config.PrefixSpace
		f.PreTokenizer = &byteLevel
	default:
		return nil, fmt.Errorf("%w: a vocabulary of the class %.200q without a tokenizer.json", ErrUnsupported, d.config.Class)
	}
	d.special = []namedToken{"<|endoftext|>"}
	f.Decoder = &component{Type: "ByteLevel"}
	f.Model.Type = "BPE"
	merges, err := fs.ReadFile(d.files, "merges.txt")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no merges.txt beside it", ErrInvalid)
	} else if err != nil {
		return nil, err
	}
	r := fileReader{Scanner: jsontext.NewScanner(data, maxDepth), file: *f, size: len(data)}
	if !r.readVocab() || !r.Over() {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, r.Err())
	}
	*f = r.file
	f.merges = textMerges(merges)
	if isGPT2 && (d.class == "RobertaTokenizer" || d.class == "BartTokenizer" || d.class == "LongformerTokenizer") {
		d.bos, d.eos, d.addBOS, d.addEOS = "<s>", "</s>", true, true
		d.special = []namedToken{"<s>", "</s>", "<unk>", "<pad>"}
	}
	return f, nil
}

// textMerges are the merges of a merges.txt, one a line.
func textMerges(text []byte) mergeList {
	return func(add func(left, right []byte) error) error {
		for rest, n := text, 1; len(rest) > 0; n++ {
			var line []byte
			line, rest, _ = bytes.Cut(rest, []byte("\n"))
			line = bytes.TrimRight(line, "\r")
			if n == 1 && bytes.HasPrefix(line, []byte("#version")) || len(line) == 0 {
				continue
			}
			left, right, ok := bytes.Cut(line, []byte(" "))
			if !ok || bytes.IndexByte(right, ' ') >= 0 {
				return fmt.Errorf("%w: line %d of merges.txt, %.200q, is not two tokens", ErrInvalid, n, line)
			}
			if err := add(left, right); err != nil {
				return err
			}
		}
		return nil
	}
}

// wordPiece reads vocab.txt.
func (d *folder) wordPiece(data []byte) (*file, error) {
	f := &file{}
	for rest := data; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		if len(f.vocab) >= maxIDs-1 {
			return nil, fmt.Errorf("%w: more than %d tokens", ErrUnsupported, maxIDs-1)
		}
		item := vocabItem{start: uint32(len(f.spell)), id: int32(len(f.vocab))}
		f.spell = append(f.spell, line...)
		item.end = uint32(len(f.spell))
		f.vocab = append(f.vocab, item)
	}
	if len(f.vocab) == 0 {
		return nil, fmt.Errorf("%w: a file without tokens", ErrInvalid)
	}
	c := &d.config
	unknown := string(c.UNK)
	if unknown == "" {
		unknown = "[UNK]"
	}
	f.Model.Type, f.Model.UnkToken = "WordPiece", &unknown
	f.Normalizer = &component{Type: "BertNormalizer", normalizerOptions: normalizerOptions{HandleChinese: c.HandleChinese, StripAccents: c.StripAccents, Lowercase: c.LowerCase}}
	f.PreTokenizer, f.Decoder = &component{Type: "BertPreTokenizer"}, &component{Type: "WordPiece"}
	d.bos, d.eos, d.addBOS, d.addEOS = "[CLS]", "[SEP]", true, true
	d.special = []namedToken{"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}
	c.BOS, c.EOS = c.CLS, c.SEP // BERT has other names for them
	return f, nil
}
