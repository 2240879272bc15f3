package openai

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	"weir/api"
	"weir/engine"
	"weir/sampler"
	"weir/server/failure"
)

// sampling turns the request's fields, and the model's defaults for those that
// are absent, into sampling parameters. Ranges that need no model are checked
// already (api.Options.CheckSampling). If ctx ends, the result does not matter.
func (s *Service) sampling(ctx context.Context, m *Model, q *api.Options) (sampler.Params, *api.Error) {
	g := &m.Generation
	p := sampler.Params{
		Temperature: float32(or(q.Temperature, g.Temperature, 1)),
		// Conversion to 32 bits must not turn a value above 0 into 0, nor a finite one
		// into infinity.
		TopP:       max(float32(or(q.TopP, g.TopP, 1)), math.SmallestNonzeroFloat32),
		TopK:       or(q.TopK, g.TopK, 0),
		MinP:       float32(or(q.MinP, g.MinP, 0)),
		Repetition: float32(min(max(or(q.RepetitionPenalty, g.RepetitionPenalty, 1), math.SmallestNonzeroFloat32), math.MaxFloat32)),
		Frequency:  float32(q.FrequencyPenalty),
		Presence:   float32(q.PresencePenalty),
		MinTokens:  q.MinTokens,
	}
	if q.Seed != nil {
		p.Seed = uint64(*q.Seed)
	} else {
		p.Seed = s.newSeed()
	}
	if p.Temperature == 0 && q.N > 1 { // also when the model's default says so
		return p, api.ErrGreedyN(q.N)
	}
	if q.Logprobs {
		p.Logprobs, p.TopLogprobs = engine.RawLogprobs, q.TopLogprobs
		if s.cfg.ProcessedLogprobs {
			p.Logprobs = engine.ProcessedLogprobs
		}
		if q.LogprobTokenIDs != nil {
			p.Logprobs, p.TopLogprobs = engine.RawLogprobs, 0
		} else if err := s.logprobLimit(m, q.TopLogprobs, api.ErrMaxLogprobs); err != nil {
			return p, err
		}
		p.TopLogprobs = min(p.TopLogprobs, m.VocabSize)
	}
	var outside []int
	for _, b := range q.LogitBias {
		if b.Token < 0 || b.Token >= m.VocabSize {
			outside = append(outside, b.Token)
			continue
		}
		p.Bias = append(p.Bias, sampler.TokenBias{Token: int32(b.Token), Bias: float32(b.Bias)})
	}
	if outside != nil {
		return p, api.ErrLogitBias(outside, m.VocabSize)
	}
	var bad []int
	if p.Allowed, bad = ids(q.AllowedTokenIDs, min(m.VocabSize, m.Tokenizer.VocabSize())); bad != nil {
		return p, api.ErrAllowedTokenID(bad)
	}
	stops, bad := ids(q.StopTokenIDs, m.VocabSize)
	if bad != nil {
		return p, api.ErrStopTokenIDs(bad, m.VocabSize)
	}
	p.StopIDs = append(stops, g.Stop...)
	if g.EOS >= 0 {
		p.StopIDs = append(p.StopIDs, g.EOS)
	}
	var err *api.Error
	if p.BadWords, err = m.badWords(ctx, q.BadWords); err == nil {
		p.Prepare(m.VocabSize) // not once for each prompt
	}
	return p, err
}

// maxLogprobTokens is the most tokens that logprob_token_ids may name, as in vLLM.
const maxLogprobTokens = 128

// chosen returns the tokens of logprob_token_ids; nil: there are none.
func (m *Model) chosen(q *api.Options) ([]int32, *api.Error) {
	if n := len(q.LogprobTokenIDs); n > maxLogprobTokens {
		return nil, api.ErrLogprobTokens(n, maxLogprobTokens)
	}
	out, outside := ids(q.LogprobTokenIDs, m.VocabSize)
	if outside != nil {
		return nil, api.ErrLogprobTokenIDs(outside, m.VocabSize)
	}
	return out, nil
}

// maxBadWordTokens bounds the tokens of bad_words, because the choices of a request look them
// up for every token.
const maxBadWordTokens = 65_536

// badWords returns the token sequences of words, each as it is tokenized at the start of a
// text and as it is tokenized after a space, without duplicates. Both are banned, of
// whatever length (docs/interface/chat-completions.md, section 4.5).
func (m *Model) badWords(ctx context.Context, words []string) (sequences [][]int32, _ *api.Error) {
	known := make(map[string]bool)
	tokens := 0
	var key []byte
	for _, w := range words {
		bare := strings.TrimLeft(w, " \t\n\v\f\r")
		for _, form := range [2]string{bare, " " + bare} {
			seq, err := m.Tokenizer.EncodeUntil(ctx.Done(), nil, form, false)
			if err != nil {
				return nil, api.ErrTooComplex()
			}
			key = key[:0]
			for _, id := range seq {
				if int(id) >= m.VocabSize {
					return nil, api.ErrBadWord(w)
				}
				key = binary.LittleEndian.AppendUint32(key, uint32(id))
			}
			if len(seq) == 0 {
				return nil, api.ErrBadWord(w)
			}
			if !known[string(key)] {
				known[string(key)] = true
				if tokens += len(seq); tokens > maxBadWordTokens {
					return nil, failure.BadRequest("bad_words", "bad_words have more than %d tokens in all their forms together.", maxBadWordTokens)
				}
				sequences = append(sequences, seq)
			}
		}
	}
	return sequences, nil
}

// limits returns the stop rules of a request with at most the given number of output
// tokens.
func (m *Model) limits(q *api.Options, tokens int) engine.Limits {
	g := &m.Generation
	l := engine.Limits{MaxTokens: tokens, MinTokens: q.MinTokens, EOS: -1}
	l.StopIDs, _ = ids(q.StopTokenIDs, m.VocabSize)
	if !q.IgnoreEOS {
		l.EOS = g.EOS
		l.StopIDs = append(l.StopIDs, g.Stop...)
	}
	if d := q.RepetitionDetection; d != nil {
		l.Repetition = engine.Repetition{MaxPattern: d.MaxSize, MinPattern: d.MinSize, MinCount: d.Count}
	}
	return l
}

// logprobLimit checks a number of alternatives; -1 asks for the vocabulary.
func (s *Service) logprobLimit(m *Model, n int, tooMany func(n, most int) *api.Error) *api.Error {
	if s.cfg.MaxLogprobs < 0 || n <= s.cfg.MaxLogprobs && n >= 0 || n < 0 && s.cfg.MaxLogprobs >= m.VocabSize {
		return nil
	}
	if n < 0 {
		n = m.VocabSize
	}
	return tooMany(n, s.cfg.MaxLogprobs)
}

// ids converts token ids to 32 bits. bad are those outside [0, n), which out lacks. For nil
// both are nil.
func ids(in []int, n int) (out []int32, bad []int) {
	if in == nil {
		return nil, nil
	}
	out = make([]int32, 0, len(in))
	for _, id := range in {
		if id < 0 || id >= n {
			bad = append(bad, id)
			continue
		}
		out = append(out, int32(id))
	}
	return out, bad
}

// or returns the value of the request, of the model, or otherwise, whichever is given first.
func or[T any](request, model *T, otherwise T) T {
	switch {
	case request != nil:
		return *request
	case model != nil:
		return *model
	}
	return otherwise
}

// newSeed returns the seed of a request that gives none: a random number, or the next one of
// those that Config.Seed leads to.
func (s *Service) newSeed() uint64 {
	if s.cfg.Seed == nil {
		return rand.Uint64()
	}
	// Without the mixing, the requests of two servers with seeds that are next to each other
	// would share seeds. (SplitMix64: Steele, Lea and Flood, OOPSLA 2014.)
	x := *s.cfg.Seed + s.seeds.Add(1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
