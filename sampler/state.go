package sampler

import (
	"slices"

	"weir/backend"
	"weir/internal/invariants"
)

// State is one sequence's sampling state: what its draws need beside the
// logits. It is a function of the parameters, the prompt and the output tokens
// accepted so far, so preemption and batch mates do not show in it. The engine
// calls Accept once for each committed output token, in order.
type State struct {
	draw backend.Draw // every field that stays the same

	// edits has one entry per token with a bias, a static ban or a penalty, in
	// order of first mention; at finds a token's entry. Plan copies it.
	edits []backend.Edit
	at    map[int32]int32
	seen  []int32 // occurrences in the output, beside edits

	frequency, presence, repetition float32
	penalties                       bool

	bans      []ban
	stops     []int32 // places of the stop ids in dynamic
	minTokens int
	dynamic   []dynamic
	plans     uint32 // calls of Plan

	allow []uint32 // mask row, or nil
}

// A ban forbids a token after a sequence of output tokens.
type ban struct {
	after []int32 // not empty; single tokens are static
	place int32   // of the token in dynamic
}

// dynamic is a token that some steps forbid. marked is the last Plan that
// did, so that a row names the token once.
type dynamic struct {
	token  int32
	marked uint32
}

// NewState starts a sequence. p must be valid for vocab; prompt ids outside the
// vocabulary are passed over, as nothing can be drawn there.
func NewState(p *Params, vocab int, prompt []int32) *State {
	s := &State{
		draw: backend.Draw{
			Seed:        p.Seed,
			Temperature: p.Temperature,
			TopP:        1,
			Mask:        -1,
			Allow:       -1,
			Target:      -1,
			Logprobs:    p.Logprobs,
			Top:         int32(p.TopLogprobs),
		},
		at:         make(map[int32]int32),
		frequency:  p.Frequency,
		presence:   p.Presence,
		repetition: p.Repetition,
		penalties:  p.Frequency != 0 || p.Presence != 0 || p.Repetition != 1,
		minTokens:  p.MinTokens,
	}
	if p.TopLogprobs < 0 {
		s.draw.Top = int32(vocab)
	}
	if p.Temperature > 0 { // greedy turns the filters off
		s.draw.Temperature = max(p.Temperature, MinTemperature)
		s.draw.TopP, s.draw.MinP = p.TopP, p.MinP
		if p.TopK > 0 && p.TopK < vocab {
			s.draw.TopK = int32(p.TopK)
		}
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
	places := make(map[int32]int32)
	place := func(token int32) int32 {
		i, ok := places[token]
		if !ok {
			i = int32(len(s.dynamic))
			places[token] = i
			s.dynamic = append(s.dynamic, dynamic{token: token})
		}
		return i
	}
	for _, w := range p.BadWords {
		last := w[len(w)-1]
		if len(w) == 1 {
			s.edit(last).Bias = backend.Forbid
			continue
		}
		s.bans = append(s.bans, ban{slices.Clone(w[:len(w)-1]), place(last)})
	}
	if p.MinTokens > 0 {
		for _, t := range p.StopIDs {
			s.stops = append(s.stops, place(t))
		}
	}
	if p.Allowed != nil {
		s.allow = make([]uint32, (vocab+31)/32)
		for _, t := range p.Allowed {
			s.allow[t/32] |= 1 << (t % 32)
		}
	}
	return s
}

// edit is the entry of a token, made if need be; valid until the next call.
func (s *State) edit(token int32) *backend.Edit {
	i, ok := s.at[token]
	if !ok {
		i = int32(len(s.edits))
		s.at[token] = i
		s.edits = append(s.edits, backend.Edit{Token: token, Repeat: 1})
		s.seen = append(s.seen, 0)
	}
	return &s.edits[i]
}

// Accept books an output token. It allocates only when a token is new.
func (s *State) Accept(token int32) {
	if !s.penalties {
		return
	}
	e := s.edit(token)
	n := &s.seen[s.at[token]]
	*n++
	e.Repeat = s.repetition
	e.Minus = float32(s.frequency*float32(*n)) + s.presence
}

// Plan appends the draw of output token len(output) to d: its row, its edits
// and its row of allowed tokens, maskWords long. output holds all output tokens
// so far. Mask is left at -1 for whoever owns the grammar.
func (s *State) Plan(d *backend.Draws, maskWords int, output []int32) {
	first := len(d.Edits)
	d.Edits = append(d.Edits, s.edits...)
	s.plans++
	for _, b := range s.bans {
		if n := len(output) - len(b.after); n >= 0 && slices.Equal(output[n:], b.after) {
			s.forbid(d, first, b.place)
		}
	}
	if len(output) < s.minTokens {
		for _, place := range s.stops {
			s.forbid(d, first, place)
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

// Legal reports whether token may follow output, as far as the parameters
// decide: neither an edit nor the allowed tokens forbid it.
func (s *State) Legal(token int32, output []int32) bool {
	if i, ok := s.at[token]; ok && s.edits[i].Bias == backend.Forbid {
		return false
	}
	for _, b := range s.bans {
		if n := len(output) - len(b.after); s.dynamic[b.place].token == token && n >= 0 && slices.Equal(output[n:], b.after) {
			return false
		}
	}
	if len(output) < s.minTokens {
		for _, place := range s.stops {
			if s.dynamic[place].token == token {
				return false
			}
		}
	}
	return s.allow == nil || s.allow[token/32]>>(token%32)&1 != 0
}

// forbid bans a token of dynamic in the row whose edits start at first.
func (s *State) forbid(d *backend.Draws, first int, place int32) {
	t := &s.dynamic[place]
	if t.marked == s.plans {
		return
	}
	t.marked = s.plans
	if i, ok := s.at[t.token]; ok {
		d.Edits[first+int(i)].Bias = backend.Forbid
		return
	}
	d.Edits = append(d.Edits, backend.Edit{Token: t.token, Bias: backend.Forbid, Repeat: 1})
}
