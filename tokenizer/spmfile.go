package tokenizer

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// spmModel is a SentencePiece model. (sentencepiece, src/sentencepiece_model.proto.)
type spmModel struct {
	pieces []spmPiece

	modelType    uint64 // trainer_spec
	byteFallback bool
	spaceSuffix  bool
	unkID, bosID int64
	eosID        int64

	charsmap          []byte // normalizer_spec
	prefix, merge     bool
	escape            bool
	denormalizerRules bool

	specs [2]bool // there is a trainer_spec, a normalizer_spec
}

type spmPiece struct {
	text  []byte
	score float32
	kind  uint64
}

// The types of pieces.
const (
	spmNormal  = 1
	spmUnknown = 2
	spmControl = 3
	spmUser    = 4
	spmUnused  = 5
	spmByte    = 6
)

// The types of models.
const (
	spmUnigram = 1
	spmBPE     = 2
)

// eachField calls take for each field of a message. number is the value of a number, or the
// bits of a float; bytes is what a message, a text or bytes holds.
func eachField(message []byte, name string, take func(field protowire.Number, number uint64, bytes []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: %s of the model is cut off or damaged", ErrInvalid, name)
		}
		message = message[n:]
		var number uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(message)
			number = uint64(v)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(message)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
		default:
			n = -1
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d in %s of the model is cut off or damaged", ErrInvalid, field, name)
		}
		message = message[n:]
		if err := take(field, number, bytes); err != nil {
			return err
		}
	}
	return nil
}

// parseSPM reads a SentencePiece model. The texts in it are parts of data.
func parseSPM(data []byte) (*spmModel, error) {
	m := &spmModel{modelType: spmUnigram, unkID: 0, bosID: 1, eosID: 2, prefix: true, merge: true, escape: true}
	err := eachField(data, "the whole", func(field protowire.Number, _ uint64, bytes []byte) error {
		switch field {
		case 1:
			return m.addPiece(bytes)
		case 2:
			m.specs[0] = true
			return eachField(bytes, "trainer_spec", m.trainer)
		case 3:
			m.specs[1] = true
			return eachField(bytes, "normalizer_spec", m.normalizer)
		case 5:
			return eachField(bytes, "denormalizer_spec", func(field protowire.Number, _ uint64, bytes []byte) error {
				m.denormalizerRules = m.denormalizerRules || field == 2 && len(bytes) > 0
				return nil
			})
		}
		return nil
	})
	return m, err
}

func (m *spmModel) addPiece(message []byte) error {
	p := spmPiece{kind: spmNormal}
	err := eachField(message, "a piece", func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case 1:
			p.text = bytes
		case 2:
			p.score = math.Float32frombits(uint32(number))
		case 3:
			p.kind = number
		}
		return nil
	})
	if err == nil && len(m.pieces) >= maxIDs-1 {
		err = fmt.Errorf("%w: a model of more than %d pieces", ErrUnsupported, maxIDs-1)
	}
	m.pieces = append(m.pieces, p)
	return err
}

func (m *spmModel) trainer(field protowire.Number, number uint64, _ []byte) error {
	switch field {
	case 3:
		m.modelType = number
	case 24:
		m.spaceSuffix = number != 0
	case 35:
		m.byteFallback = number != 0
	case 40:
		m.unkID = int64(int32(number))
	case 41:
		m.bosID = int64(int32(number))
	case 42:
		m.eosID = int64(int32(number))
	}
	return nil
}

func (m *spmModel) normalizer(field protowire.Number, number uint64, bytes []byte) error {
	switch field {
	case 2:
		m.charsmap = bytes
	case 3:
		m.prefix = number != 0
	case 4:
		m.merge = number != 0
	case 5:
		m.escape = number != 0
	}
	return nil
}

// name returns the text of the piece with an id, or "".
func (m *spmModel) name(id int64) string {
	if id < 0 || id >= int64(len(m.pieces)) {
		return ""
	}
	return string(m.pieces[id].text)
}

// pieces reads tokenizer.model: a SentencePiece model, or ranks in the form of tiktoken.
func (d *folder) pieces(data []byte) (*file, error) {
	if looksLikeRanks(data) {
		return d.tiktoken(data)
	}
	m, err := parseSPM(data)
	if err != nil {
		return nil, err
	}
	f := &file{vocab: make([]vocabItem, 0, len(m.pieces))}
	switch {
	case m.modelType != spmUnigram && m.modelType != spmBPE:
		return nil, fmt.Errorf("%w: a SentencePiece model of type %d; 1 (Unigram) and 2 (BPE) are", ErrUnsupported, m.modelType)
	case len(m.pieces) == 0:
		return nil, fmt.Errorf("%w: a SentencePiece model without pieces", ErrInvalid)
	case m.denormalizerRules:
		return nil, fmt.Errorf("%w: a SentencePiece model with a denormalizer_spec", ErrUnsupported)
	case !m.specs[0] || !m.specs[1]:
		// Both follow the pieces, so that a file that was cut between two pieces is known by that.
		return nil, fmt.Errorf("%w: the model has no trainer_spec or no normalizer_spec: the file is cut off", ErrInvalid)
	case m.unkID < 0 || m.unkID >= int64(len(m.pieces)):
		return nil, fmt.Errorf("%w: unk_id of the model is %d, and it has %d pieces", ErrInvalid, m.unkID, len(m.pieces))
	}
	unknown, id := m.name(m.unkID), int(m.unkID)
	f.Model.UnkToken, f.Model.UnkID, f.Model.ByteFallback, f.Model.FuseUnk = &unknown, &id, m.byteFallback, true
	if err := m.vocabulary(f); err != nil {
		return nil, err
	}
	d.bos, d.eos = m.name(m.bosID), m.name(m.eosID)
	// Without a tokenizer_config.json it is taken for what the first models of its kind were:
	// Llama and T5.
	d.addBOS = m.modelType == spmBPE && !d.configured
	d.addEOS = m.modelType == spmUnigram && (!d.configured || d.class == "T5Tokenizer")
	return f, d.normalizePieces(m, f)
}

// vocabulary fills in the pieces.
func (m *spmModel) vocabulary(f *file) error {
	f.Model.Type = "BPE"
	if m.modelType == spmUnigram {
		f.Model.Type = "Unigram"
		f.pieceScores, f.kinds = make([]float64, len(m.pieces)), make([]pieceKind, len(m.pieces))
	} else {
		f.scores = make([]float32, len(m.pieces))
	}
	for i, p := range m.pieces {
		item := vocabItem{start: uint32(len(f.spell)), id: int32(i)}
		f.spell = append(f.spell, p.text...)
		item.end = uint32(len(f.spell))
		f.vocab = append(f.vocab, item)
		if p.score != p.score {
			return fmt.Errorf("%w: the score of piece %d is not a number", ErrInvalid, i)
		}
		switch p.kind {
		case spmNormal, spmUnknown, spmControl, spmUser, spmUnused, spmByte:
		default:
			return fmt.Errorf("%w: piece %d is of the unknown type %d", ErrInvalid, i, p.kind)
		}
		if p.kind == spmControl || p.kind == spmUnknown {
			f.AddedTokens = append(f.AddedTokens, addedToken{ID: item.id, Content: string(p.text), Special: true})
		}
		if p.kind == spmUser && len(p.text) > maxPiece {
			return fmt.Errorf("%w: piece %d has %d bytes; %d is the most", ErrUnsupported, i, len(p.text), maxPiece)
		}
		if p.kind == spmUser && len(p.text) > 0 {
			f.user = append(f.user, item.id)
		}
		if m.modelType == spmUnigram {
			f.pieceScores[i] = float64(p.score)
			if p.kind != spmNormal {
				f.kinds[i] = hiddenPiece
			}
			continue
		}
		f.scores[i] = p.score
		if p.kind == spmUnused {
			return fmt.Errorf("%w: piece %d of a BPE model is unused", ErrUnsupported, i)
		}
		if p.kind != spmNormal {
			f.scores[i] = noScore
		}
	}
	return nil
}

// noScore is the score of a piece that no merge makes.
var noScore = float32(math.NaN())

// normalizePieces sets how a text is normalized before it is cut into pieces, and how pieces
// become a text again.
//
// SentencePiece puts a space in front of a text. Where added tokens cut a text, transformers
// puts one in front of the first part only, unless the tokenizer is a legacy one.
func (d *folder) normalizePieces(m *spmModel, f *file) error {
	charsmap, err := parseCharsmap(m.charsmap)
	if err != nil {
		return err
	}
	n := pieceNormalizer{charsmap: charsmap, prefix: m.prefix, suffix: m.spaceSuffix, merge: m.merge, escape: m.escape}
	if d.config.PrefixSpace != nil && !*d.config.PrefixSpace {
		n.prefix = false
	}
	decoders := []component{replaceText("▁", " ")}
	if m.byteFallback {
		decoders = append(decoders, component{Type: "ByteFallback"})
	}
	decoders = append(decoders, component{Type: "Fuse"})
	if n.prefix && !n.suffix {
		decoders = append(decoders, stripSpace)
	}
	f.Decoder = sequence("decoders", decoders...)
	if len(f.user) > 0 {
		n.user = newUserPieces(f)
		if m.modelType == spmBPE { // in a Unigram model they have scores
			f.userPieces = n.user
		}
	}
	legacy := d.class != "LlamaTokenizer" && d.class != "CodeLlamaTokenizer"
	if d.config.Legacy != nil {
		legacy = *d.config.Legacy
	}
	if !legacy && n.prefix && !n.suffix {
		whole := false
		n.prefix = false
		f.PreTokenizer = &component{Type: "Metaspace", Replacement: string(spaceMark), PrependScheme: "first", Split: &whole}
	}
	f.normalize = &n
	return nil
}

// userPieces are the pieces that a SentencePiece model always takes whole. They are not
// normalized.
type userPieces struct {
	trie *byteTrie
	ids  map[string]int32
}

func newUserPieces(f *file) *userPieces {
	size := 0
	for _, id := range f.user {
		size += int(f.vocab[id].end - f.vocab[id].start)
	}
	u := &userPieces{newByteTrie(size), make(map[string]int32, len(f.user))}
	for _, id := range f.user {
		text := string(f.spell[f.vocab[id].start:f.vocab[id].end])
		u.trie.add(text, id)
		u.ids[text] = id
	}
	return u
}

// match returns the end of the longest such piece at s[i], or i.
func (u *userPieces) match(s string, i int, _ *allowance) int {
	end, node := i, int32(0)
	for k := i; k < len(s); k++ {
		if node = u.trie.child(node, s[k]); node < 0 {
			break
		}
		if u.trie.tokens[node] >= 0 {
			end = k + 1
		}
	}
	return end
}

func (u *userPieces) find(s string, i int, allow *allowance) int {
	for i < len(s) && u.match(s, i, allow) == i {
		i = skipRunes(s, i, 1)
	}
	return i
}
