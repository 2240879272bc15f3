package openai

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"weir/api"
	"weir/auth"
	"weir/chat/reasoning"
	"weir/engine"
	"weir/sampler"
	"weir/server/failure"
	"weir/tokenizer"
)

// prepared is a request that is ready for the engine.
type prepared struct {
	requests   []engine.Request // one for each prompt
	reply      reply
	options    *api.Options     // keeps the body; nil after detach
	constraint *api.Constraint  // of the options; set by detach
	asked      string           // the name that the client has for the model; set by detach
	bounded    bool             // the client says how many tokens it wants; set by detach
	recorded   int64            // bytes of the request that its recording keeps; set by detach
	output     reasoning.Start  // what every choice begins with
	marks      *reasoning.Marks // around thoughts
	calls      *calling         // nil: nothing is called
	transfer   *transferParams  // nil: no other server has to do with it; set by detach
	given      string           // with a constraint: the beginning of the constrained text, which the choices continue
}

// Sender is what the headers say about the sender of a request.
type Sender struct {
	ID      string // X-Request-Id; "": none was sent
	Project string // "<team>/<project>"; "": none
	Who     *auth.Identity
}

// admit refuses a request that is not for this model, whose key is not for this model, or
// whose id is too long. If the headers gave no id, it sets from.ID to the one of the body.
func (m *Model) admit(ctx context.Context, q *api.Options, from *Sender) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if bad := m.admits(q.Model, from.Who); bad != nil {
		return bad
	}
	if m.Pooling != nil {
		return api.ErrTask("The model " + m.Names[0] + " does not support generation: it embeds or scores.")
	}
	return setID(q, from)
}

// setID sets from.ID to the one of the body if the headers gave none, and refuses one that is too long.
func setID(q *api.Options, from *Sender) error {
	if from.ID == "" && q.RequestID != nil {
		from.ID = *q.RequestID
	}
	if len(from.ID) > maxID {
		return failure.BadRequest("request_id", "request_id has more than %d bytes.", maxID)
	}
	return nil
}

// admits refuses a request for another model, and one whose key is not for this model.
func (m *Model) admits(name string, who *auth.Identity) *api.Error {
	if !m.serves(name) {
		return api.ErrModelNotFound(name)
	}
	if !slices.ContainsFunc(m.Names, who.MayUse) {
		return api.ErrPermission("The key is not for the model " + m.Names[0] + ".")
	}
	return nil
}

// request makes the request of the engine for one prompt.
func (s *Service) request(m *Model, q *api.Options, params sampler.Params, tokens []int32, from Sender) (engine.Request, *api.Error) {
	most, bad := m.outputLimit(q, len(tokens), s.http.Limits(from.Who))
	if bad != nil {
		return engine.Request{}, bad
	}
	r := engine.Request{
		Tokens: tokens, N: q.N, Priority: int64(q.Priority),
		Limits: m.limits(q, most), Sampling: params,
		Stop: q.Stop, IncludeStop: q.IncludeStop,
		KeepSpecial: !q.SkipSpecialTokens, JoinSpecial: !q.SpacesBetweenSpecial,
	}
	if r.LogprobIDs, bad = m.chosen(q); bad != nil {
		return engine.Request{}, bad
	}
	salt := ""
	if q.CacheSalt != nil {
		salt = *q.CacheSalt
	}
	r.Salt = s.salts.salt(from.Who, from.Project, salt)
	if n := q.PromptLogprobs; n != nil {
		top := *n
		if top < 0 {
			top = m.VocabSize
		}
		r.Prompt = &engine.PromptScores{Top: min(top, m.VocabSize), Mode: engine.RawLogprobs}
	}
	return r, nil
}

// maxID bounds a request's id in bytes: every chunk of a stream repeats it.
const maxID = 512

// checkOptions refuses options that are out of range by themselves, for the model or by the
// settings.
func (s *Service) checkOptions(m *Model, q *api.Options) *api.Error {
	if bad := q.CheckSampling(); bad != nil {
		return bad
	}
	if q.Priority != 0 && !m.Priority {
		return api.ErrPriority(q.Priority)
	}
	if n := q.PromptLogprobs; n != nil {
		return s.logprobLimit(m, *n, api.ErrMaxPromptLogprobs)
	}
	return nil
}

// promptLimit says how many tokens a prompt may have.
type promptLimit struct {
	keep  int  // a longer prompt is cut to so many tokens; -1: it is not cut
	right bool // it is the first tokens that are kept, not the last ones
	inner bool // the tokens that the tokenizer puts around a text are kept whatever is cut
}

// promptLimit returns the limit of the prompts of a request.
func (m *Model) promptLimit(q *api.Options) (promptLimit, *api.Error) {
	r := promptLimit{keep: -1, right: q.TruncateRight}
	if q.TruncatePrompt != nil {
		if r.keep = *q.TruncatePrompt; r.keep < 0 {
			r.keep = m.MaxLen - 1 // one token of output has to fit
		}
		if r.keep > m.MaxLen {
			return r, api.ErrTruncate(r.keep, m.MaxLen)
		}
	}
	return r, nil
}

// encode tokenizes a text and fits it into its limit. If ctx has ended it may return
// neither tokens nor an error, because nobody waits for them.
func (m *Model) encode(ctx context.Context, q *api.Options, text string, limit promptLimit, in *input) ([]int32, *api.Error) {
	tokens, bad := m.tokens(ctx, text, q.AddSpecialTokens, limit, in)
	if tokens == nil || bad != nil {
		return nil, bad
	}
	return m.fit(tokens, limit)
}

// tokens tokenizes a text, unless it can have no place in the limit however it is tokenized. If ctx has ended it
// may return nil and no error.
func (m *Model) tokens(ctx context.Context, text string, special bool, limit promptLimit, in *input) ([]int32, *api.Error) {
	// A text of so many characters has too many tokens even if each has the greatest
	// length, so that tokenizing it would only cost time.
	if most := m.MaxLen * m.Tokenizer.MaxTokenBytes(); limit.keep < 0 && len(text) > most {
		if n := utf8.RuneCountInString(text); n > most {
			return nil, api.ErrCharacters(m.MaxLen, n, most)
		}
	}
	if !in.memory.tokenize(len(text)) {
		return nil, nil
	}
	tokens, err := m.Tokenizer.EncodeWithin(ctx.Done(), in.memory.tokenize, nil, text, special)
	if errors.Is(err, tokenizer.ErrStopped) {
		return nil, nil
	}
	if err != nil {
		return nil, api.ErrTooComplex()
	}
	return tokens, nil
}

// encodePooled is encode for a text of which no output is generated.
func (m *Model) encodePooled(ctx context.Context, q *api.Options, text string, limit promptLimit, in *input) ([]int32, *api.Error) {
	if !q.AddSpecialTokens || !limit.inner || limit.keep < 0 {
		return m.encode(ctx, q, text, limit, in)
	}
	ids, bad := m.tokens(ctx, text, false, limit, in)
	if ids == nil || bad != nil {
		return nil, bad
	}
	return m.fit(m.Tokenizer.Surround(ids, limit.keep), limit)
}

// fit cuts a prompt to its limit, or refuses it.
func (m *Model) fit(tokens []int32, limit promptLimit) ([]int32, *api.Error) {
	if limit.keep >= 0 && len(tokens) > limit.keep {
		if limit.right {
			tokens = tokens[:limit.keep]
		} else {
			tokens = tokens[len(tokens)-limit.keep:]
		}
	}
	switch {
	case len(tokens) > m.MaxLen:
		return nil, api.ErrContextLength(m.MaxLen, len(tokens))
	case len(tokens) == 0:
		return nil, api.ErrEmptyPrompt()
	}
	return slices.Clone(tokens), nil // for as long as the request lasts: the list may have room for many more
}

// outputLimit returns the greatest number of output tokens of a request whose prompt has
// the given number of tokens, with a key that has the given limits, or none. One that asks for more
// than the context has room for gets the room: agents ask for as many tokens as their usual model can
// give.
func (m *Model) outputLimit(q *api.Options, prompt int, key *auth.Limits) (int, *api.Error) {
	most := m.MaxLen - prompt
	if n, ok := q.MaxOutput(); ok {
		most = min(most, n)
	} else if d := m.Generation.MaxNewTokens; d != nil {
		most = min(most, *d)
	}
	if limit := m.Generation.MaxTokens; limit != nil {
		most = min(most, *limit)
	}
	if key != nil && key.MaxTokens > 0 {
		most = min(most, int(key.MaxTokens))
	}
	switch {
	case most < 1:
		return 0, api.ErrMaxTokens(most)
	case q.MinTokens > most:
		return 0, api.ErrMinTokens(most, q.MinTokens)
	}
	return most, nil
}

// reply returns the part of the answer that is known before its first token. Its id is
// still without the prefix that says which function was called.
func (s *Service) reply(m *Model, q *api.Options, id string) reply {
	if id == "" && q.RequestID == nil {
		id = s.cfg.NewID()
	}
	r := reply{
		meta: api.Meta{ID: id, Created: s.http.Now().Unix(), Model: m.Names[0], Fingerprint: m.Fingerprint},
		form: api.Form{Reasoning: s.cfg.ReasoningField, TokensAsIDs: s.cfg.TokensAsIDs, TokenIDs: q.ReturnTokenIDs, ContinuousUsage: q.ContinuousUsage || s.cfg.ForceUsage, NoPromptDetails: s.cfg.NoPromptDetails},
		tok:  m.Tokenizer, n: q.N,
		logprobs: q.Logprobs, top: q.TopLogprobs,
		stream: q.Stream, interval: max(q.StreamInterval, s.cfg.StreamInterval), usage: q.IncludeUsage || s.cfg.ForceUsage,
	}
	r.chosen = q.LogprobTokenIDs != nil
	if q.ReturnTokensAsIDs != nil {
		r.form.TokensAsIDs = *q.ReturnTokensAsIDs
	}
	if r.top < 0 {
		r.top = m.VocabSize
	}
	return r
}
