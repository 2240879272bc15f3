package sampler

import (
	"slices"

	"weir/backend"
	"weir/internal/invariants"
)

// State is the sampling state of one sequence: what its draws need beside the
// logits. It is a function of the parameters, the prompt and the output tokens
// accepted so far, so neither preemption nor the other sequences of a batch change
// it. The engine calls Accept for each committed output token, in order.
type State struct {
	draw backend.Draw // the fields that are the same for every token

	// A token with a bias, a penalty, or a ban that always holds has an entry either in
	// edits, if it had one before the first output token, or in added. Plan copies both.
	fixed  *edits         // where a token is in edits
	edits  []backend.Edit // fixed.list, or with penalties a copy of it
	added  []backend.Edit
	index  map[int32]int32 // where a token is in added
	counts []int32         // with penalties, the occurrences in the output: first of edits, then of added

	frequency, presence, repetition float32
	penalties                       bool // any of the three is on

	bans      *bans
	banAt     []int32  // [len(bans.tokens)] where the token is in the edits that Plan copies, or -1
	banned    []uint32 // [len(bans.tokens)] the last call of Plan that banned the token, so that a row has one edit for it
	minTokens int      // length of the output from which on stops are allowed
	plans     uint32   // number of calls of Plan

	allow []uint32 // mask row of the allowed tokens; nil: all
}

// edits has an entry for each token that is edited before the first output token. It does not
// change, so the choices of a request share it: a request with 16,384 biases and 128 choices
// would otherwise take 80 MB and a quarter of a second to make.
type edits struct {
	list  []backend.Edit
	at    map[int32]int32 // index in list, by token
	banAt []int32         // [len(bans.tokens)] the same by ban; -1: not there
}

// newEdits skips prompt ids outside the vocabulary, because they cannot be drawn.
func newEdits(p *Params, vocab int, prompt []int32, bans *bans) *edits {
	s := &edits{at: make(map[int32]int32)}
	for _, b := range p.Bias {
		s.edit(b.Token).Bias = b.Bias
	}
	if p.Repetition != 1 {
		for _, t := range prompt {
			if t >= 0 && int(t) < vocab {
				s.edit(t).Repeat = p.Repetition
			}
		}
	}
	for _, w := range p.BadWords {
		if len(w) == 1 {
			s.edit(w[0]).Bias = backend.Forbid
		}
	}
	s.list = slices.Clip(s.list)
	s.banAt = make([]int32, len(bans.tokens))
	for ban, t := range bans.tokens {
		s.banAt[ban] = -1
		if i, ok := s.at[t]; ok {
			s.banAt[ban] = i
		}
	}
	return s
}

// edit returns the entry of a token, which it creates if there is none. It is valid until
// the next call.
func (s *edits) edit(token int32) *backend.Edit {
	i, ok := s.at[token]
	if !ok {
		i = int32(len(s.list))
		s.at[token] = i
		s.list = append(s.list, backend.Edit{Token: token, Repeat: 1})
	}
	return &s.list[i]
}

// NewState returns the state of a sequence before its first output token. p must be
// valid for vocab. Prompt ids outside the vocabulary are skipped, because they cannot
// be drawn.
func NewState(p *Params, vocab int, prompt []int32) *State {
	s := &State{
		draw:       fixedDraw(p, vocab),
		frequency:  p.Frequency,
		presence:   p.Presence,
		repetition: p.Repetition,
		penalties:  p.Frequency != 0 || p.Presence != 0 || p.Repetition != 1,
		minTokens:  p.MinTokens,
	}
	made := *p
	if made.edits == nil || made.shared == nil {
		made.PrepareFor(vocab, prompt)
	}
	s.fixed, s.bans, s.allow, s.banAt = made.edits, made.shared.bans, made.shared.allow, made.edits.banAt
	if s.edits = s.fixed.list; s.penalties {
		s.edits = slices.Clone(s.edits)
		s.counts = make([]int32, len(s.edits), len(s.edits)+64)
		s.index = make(map[int32]int32)
		s.banAt = slices.Clone(s.banAt)
	}
	s.banned = make([]uint32, len(s.bans.tokens))
	return s
}

// fixedDraw is the part of a draw that is the same for every token.
func fixedDraw(p *Params, vocab int) backend.Draw {
	d := backend.Draw{
		Seed:        p.Seed,
		Temperature: p.Temperature,
		TopP:        1,
		Mask:        -1,
		Allow:       -1,
		Target:      -1,
		Logprobs:    p.Logprobs,
		Top:         int32(p.TopLogprobs),
	}
	if p.TopLogprobs < 0 {
		d.Top = int32(vocab)
	}
	if p.Temperature > 0 { // a greedy draw ignores the filters
		d.Temperature = max(p.Temperature, MinTemperature)
		d.TopP, d.MinP = p.TopP, p.MinP
		if p.TopK > 0 && p.TopK < vocab {
			d.TopK = int32(p.TopK)
		}
	}
	return d
}

// find returns where a token is in the edits that Plan copies.
func (s *State) find(token int32) (i int, ok bool) {
	if i, ok := s.fixed.at[token]; ok {
		return int(i), true
	}
	j, ok := s.index[token]
	return len(s.edits) + int(j), ok
}

// Accept counts an output token. It allocates only when the token is new to the
// sequence.
func (s *State) Accept(token int32) {
	if !s.penalties {
		return
	}
	i, ok := s.find(token)
	if !ok {
		i = len(s.edits) + len(s.added)
		s.index[token] = int32(len(s.added))
		s.added = append(s.added, backend.Edit{Token: token, Repeat: 1})
		s.counts = append(s.counts, 0)
		if ban, ok := s.bans.index[token]; ok {
			s.banAt[ban] = int32(i)
		}
	}
	e := s.at(i)
	s.counts[i]++
	e.Repeat = s.repetition
	e.Minus = float32(s.frequency*float32(s.counts[i])) + s.presence
}

// at returns the edit that find has found.
func (s *State) at(i int) *backend.Edit {
	if i < len(s.edits) {
		return &s.edits[i]
	}
	return &s.added[i-len(s.edits)]
}

// Plan appends the draw of the next output token to d: its row, its edits, and a
// mask row of maskWords words if only some tokens are allowed. output is all output
// tokens so far. Draw.Mask is left at -1 for the caller to set.
func (s *State) Plan(d *backend.Draws, maskWords int, output []int32) {
	first := len(d.Edits)
	d.Edits = append(append(d.Edits, s.edits...), s.added...)
	s.plans++
	s.bans.each(output, func(words []badWord) bool {
		for i := range words {
			s.forbid(d, first, words[i].last)
		}
		return true
	})
	if len(output) < s.minTokens {
		for _, stop := range s.bans.stops {
			s.forbid(d, first, stop)
		}
	}
	row := s.draw
	row.Index = uint32(len(output))
	row.EditEnd = int32(len(d.Edits))
	if s.allow != nil {
		invariants.Check(len(s.allow) == maskWords, "sampler: mask rows of %d words for a vocabulary of %d words", maskWords, len(s.allow))
		row.Allow = int32(len(d.Masks) / maskWords)
		d.Masks = append(d.Masks, s.allow...)
	}
	d.Rows = append(d.Rows, row)
}

// Top is the number of alternatives that a row of the sequence reports.
func (s *State) Top() int { return int(s.draw.Top) }

// forbid bans the token bans.tokens[ban] in the row whose edits start at first.
func (s *State) forbid(d *backend.Draws, first int, ban int32) {
	if s.banned[ban] == s.plans {
		return
	}
	s.banned[ban] = s.plans
	if i := s.banAt[ban]; i >= 0 {
		d.Edits[first+int(i)].Bias = backend.Forbid
		return
	}
	d.Edits = append(d.Edits, backend.Edit{Token: s.bans.tokens[ban], Bias: backend.Forbid, Repeat: 1})
}

// banWork is what a ban costs in edits, which are copied: it has to be found.
const banWork = 2

// Work is what Plan costs at most, in edits, if output is the number of output tokens so far
// and at most pending more come before. It takes constant time.
func (s *State) Work(output, pending int) int {
	n := len(s.edits) + len(s.added) + banWork*s.bans.most
	if s.penalties {
		n += pending
	}
	if output < s.minTokens {
		n += banWork * len(s.bans.stops)
	}
	return n
}

// Legal reports whether the parameters let token follow output: neither a ban nor
// the allowed tokens forbid it.
func (s *State) Legal(token int32, output []int32) bool {
	if i, ok := s.find(token); ok && s.at(i).Bias == backend.Forbid {
		return false
	}
	if s.bans.forbid(token, output) || len(output) < s.minTokens && s.bans.isStop(token) {
		return false
	}
	return s.allow == nil || s.allow[token/32]>>(token%32)&1 != 0
}
