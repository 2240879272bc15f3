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

	// edits has an entry for each token with a bias, a penalty, or a ban that always
	// holds. Plan copies it.
	edits  []backend.Edit
	editOf map[int32]int32 // index in edits, by token
	counts []int32         // [len(edits)] occurrences of the token in the output

	frequency, presence, repetition float32
	penalties                       bool // any of the three is on

	bans      *bans
	banned    []uint32 // [len(bans.tokens)] the last call of Plan that banned the token, so that a row has one edit for it
	minTokens int      // length of the output from which on stops are allowed
	plans     uint32   // number of calls of Plan

	allow []uint32 // mask row of the allowed tokens; nil: all
}

// NewState returns the state of a sequence before its first output token. p must be
// valid for vocab. Prompt ids outside the vocabulary are skipped, because they cannot
// be drawn.
func NewState(p *Params, vocab int, prompt []int32) *State {
	s := &State{
		draw:       fixedDraw(p, vocab),
		editOf:     make(map[int32]int32),
		frequency:  p.Frequency,
		presence:   p.Presence,
		repetition: p.Repetition,
		penalties:  p.Frequency != 0 || p.Presence != 0 || p.Repetition != 1,
		minTokens:  p.MinTokens,
	}
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
	if s.bans = p.bans; s.bans == nil {
		s.bans = newBans(p)
	}
	s.banned = make([]uint32, len(s.bans.tokens))
	if p.Allowed != nil {
		s.allow = make([]uint32, (vocab+31)/32)
		for _, t := range p.Allowed {
			s.allow[t/32] |= 1 << (t % 32)
		}
	}
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

// edit returns the entry of a token in edits, which it creates if there is none. It
// is valid until the next call.
func (s *State) edit(token int32) *backend.Edit {
	i, ok := s.editOf[token]
	if !ok {
		i = int32(len(s.edits))
		s.editOf[token] = i
		s.edits = append(s.edits, backend.Edit{Token: token, Repeat: 1})
		s.counts = append(s.counts, 0)
	}
	return &s.edits[i]
}

// Accept counts an output token. It allocates only when the token is new to the
// sequence.
func (s *State) Accept(token int32) {
	if !s.penalties {
		return
	}
	e := s.edit(token)
	n := &s.counts[s.editOf[token]]
	*n++
	e.Repeat = s.repetition
	e.Minus = float32(s.frequency*float32(*n)) + s.presence
}

// Plan appends the draw of the next output token to d: its row, its edits, and a
// mask row of maskWords words if only some tokens are allowed. output is all output
// tokens so far. Draw.Mask is left at -1 for the caller to set.
func (s *State) Plan(d *backend.Draws, maskWords int, output []int32) {
	first := len(d.Edits)
	d.Edits = append(d.Edits, s.edits...)
	s.plans++
	s.bans.each(output, func(ban int32) bool { s.forbid(d, first, ban); return true })
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
	token := s.bans.tokens[ban]
	if i, ok := s.editOf[token]; ok {
		d.Edits[first+int(i)].Bias = backend.Forbid
		return
	}
	d.Edits = append(d.Edits, backend.Edit{Token: token, Bias: backend.Forbid, Repeat: 1})
}

// Legal reports whether the parameters let token follow output: neither a ban nor
// the allowed tokens forbid it.
func (s *State) Legal(token int32, output []int32) bool {
	if i, ok := s.editOf[token]; ok && s.edits[i].Bias == backend.Forbid {
		return false
	}
	legal := true
	s.bans.each(output, func(ban int32) bool { legal = s.bans.tokens[ban] != token; return legal })
	if !legal {
		return false
	}
	if len(output) < s.minTokens && s.isStop(token) {
		return false
	}
	return s.allow == nil || s.allow[token/32]>>(token%32)&1 != 0
}

func (s *State) isStop(token int32) bool {
	return slices.ContainsFunc(s.bans.stops, func(i int32) bool { return s.bans.tokens[i] == token })
}
