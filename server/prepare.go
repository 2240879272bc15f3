package server

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"weir/api"
	"weir/auth"
	"weir/chat"
	"weir/chat/reasoning"
	"weir/engine"
	"weir/sampler"
	"weir/server/failure"
)

// prepared is a request that is ready for the engine.
type prepared struct {
	requests []engine.Request // one for each prompt
	reply    reply
	options  *api.Options
}

// sender is what the headers say of who sends a request.
type sender struct {
	id      string // X-Request-Id
	project string
	who     *auth.Identity
}

// prepare does everything that a request needs before the engine sees it: it
// decodes, checks, renders and tokenizes. Whatever the client did wrong is
// found here, so that it gets its 4xx before a status has been sent. The order
// is that of spec chat-completions 1.2, except that cheap checks come before
// costly ones: where both fail the answer is the cheap one's. It may go on for
// a moment after ctx has ended.
func (s *Server) prepare(ctx context.Context, m *Model, body []byte, from sender) (*prepared, error) {
	q, bad := api.DecodeChat(body, s.cfg.Limits)
	if bad != nil {
		return nil, bad
	}
	if err := m.admit(ctx, &q.Options, &from); err != nil {
		return nil, err
	}
	if bad := s.check(m, q); bad != nil {
		return nil, bad
	}
	params, bad := s.sampling(m, &q.Options)
	if bad != nil {
		return nil, bad
	}
	recording, bad := s.recording(m, body, q, from.project)
	if bad != nil {
		return nil, bad
	}
	prompt, tokens, bad := m.prompt(ctx, q)
	if bad != nil {
		return nil, bad
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r, bad := s.request(m, &q.Options, params, tokens, from)
	if bad != nil {
		return nil, bad
	}
	p := &prepared{requests: []engine.Request{r}, reply: s.reply(m, &q.Options, from.id), options: &q.Options}
	p.reply.meta.ID = api.ChatID(p.reply.meta.ID)
	p.reply.prompt, p.reply.role = tokens, prompt.ResponseRole
	if q.Echo {
		p.reply.echo, p.reply.echoThought = prompt.EchoText, prompt.EchoThought
		if n := len(p.reply.echo) + len(p.reply.echoThought); n > s.cfg.MaxBody/q.N {
			return nil, failure.BadRequest("", "The echo of %d bytes in %d choices is larger than %d bytes.", n, q.N, s.cfg.MaxBody)
		}
	}
	if q.Stream { // a stream has no place for them
		p.requests[0].Prompt = nil
	}
	p.reply.scored = p.requests[0].Prompt != nil
	if p.reply.output = prompt.Output; p.reply.output != reasoning.Content {
		p.requests[0].Show = m.thinkTags()
	}
	if !q.IncludeReasoning {
		p.reply.hideThoughts, p.reply.echoThought = true, ""
	}
	if recording != nil {
		p.requests[0].Sampling.Logprobs = engine.RawLogprobs
		recording.follow(&p.reply)
		p.reply.recording = recording
	}
	return p, nil
}

// admit finds out whether the request is for this model, and its id.
func (m *Model) admit(ctx context.Context, q *api.Options, from *sender) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !m.serves(q.Model) {
		return api.ErrModelNotFound(q.Model)
	}
	if !slices.ContainsFunc(m.Names, from.who.MayUse) {
		return api.ErrPermission("The key is not for the model " + m.Names[0] + ".")
	}
	if from.id == "" && q.RequestID != nil {
		from.id = *q.RequestID
	}
	if len(from.id) > maxID {
		return failure.BadRequest("request_id", "request_id has more than %d bytes.", maxID)
	}
	return nil
}

// request is what the engine is told of one prompt.
func (s *Server) request(m *Model, q *api.Options, params sampler.Params, tokens []int32, from sender) (engine.Request, *api.Error) {
	most, bad := m.outputLimit(q, len(tokens))
	if bad != nil {
		return engine.Request{}, bad
	}
	if q.KVTransferParams != nil {
		s.log.Debug("kv_transfer_params ignored: there is no connector", "id", from.id)
	}
	r := engine.Request{
		Tokens: tokens, N: q.N, Priority: int64(q.Priority),
		Limits: m.limits(q, most), Sampling: params,
		Stop: q.Stop, IncludeStop: q.IncludeStop,
		KeepSpecial: !q.SkipSpecialTokens, JoinSpecial: !q.SpacesBetweenSpecial,
	}
	salt := ""
	if q.CacheSalt != nil {
		salt = *q.CacheSalt
	}
	r.Salt = s.salts.salt(from.project, salt)
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

// check finds what the body alone, the model and the settings refuse.
func (s *Server) check(m *Model, q *api.ChatRequest) *api.Error {
	if bad := q.CheckPrompt(); bad != nil {
		return bad
	}
	if q.HasMedia() {
		return api.ErrNotMultimodal(m.Names[0])
	}
	return s.checkOptions(m, &q.Options)
}

func (s *Server) checkOptions(m *Model, q *api.Options) *api.Error {
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

// prompt renders the messages, tokenizes and truncates them (spec 10).
func (m *Model) prompt(ctx context.Context, q *api.ChatRequest) (chat.Prompt, []int32, *api.Error) {
	room, bad := m.room(&q.Options)
	if bad != nil {
		return chat.Prompt{}, nil, bad
	}
	p, bad := m.render(q)
	if bad != nil {
		return p, nil, bad
	}
	tokens, bad := m.encode(ctx, &q.Options, p.Text, room)
	return p, tokens, bad
}

// space is how many tokens a prompt may have.
type space struct {
	most   int // beside the output asked for
	keep   int // of a longer one the last so many are kept; -1: none is cut
	output int // asked for
}

// room finds out how long prompts may be.
func (m *Model) room(q *api.Options) (space, *api.Error) {
	output, param, _ := q.MaxOutput()
	r := space{most: m.MaxLen - output, keep: -1, output: output}
	if output > m.MaxLen {
		return r, api.ErrOverContext(param, output, m.MaxLen)
	}
	if q.TruncatePrompt != nil {
		if r.keep = *q.TruncatePrompt; r.keep < 0 {
			r.keep = r.most
		}
		if r.keep > r.most {
			return r, api.ErrTruncate(r.keep, r.most)
		}
	}
	return r, nil
}

// encode tokenizes a text and fits it into room. If ctx ends it may return
// nothing: nobody waits for it.
func (m *Model) encode(ctx context.Context, q *api.Options, text string, room space) ([]int32, *api.Error) {
	// Text of so many characters is too many tokens however it is cut:
	// tokenizing it would only cost time.
	if most := room.most * m.Tokenizer.MaxTokenBytes(); room.keep < 0 && len(text) > most {
		if n := utf8.RuneCountInString(text); n > most {
			return nil, api.ErrCharacters(m.MaxLen, room.output, n, most)
		}
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	tokens, err := m.Tokenizer.Encode(nil, text, q.AddSpecialTokens)
	if err != nil {
		return nil, api.ErrTooComplex()
	}
	return m.fit(tokens, room)
}

// fit cuts a prompt to its place, or refuses it.
func (m *Model) fit(tokens []int32, room space) ([]int32, *api.Error) {
	if room.keep >= 0 && len(tokens) > room.keep {
		tokens = tokens[len(tokens)-room.keep:]
	}
	switch {
	case len(tokens) > room.most:
		return nil, api.ErrContextLength(m.MaxLen, room.output, len(tokens), false)
	case len(tokens) == 0:
		return nil, api.ErrEmptyPrompt()
	}
	return tokens, nil
}

// render makes the prompt's text. Every failure is the request's (spec 3).
func (m *Model) render(q *api.ChatRequest) (chat.Prompt, *api.Error) {
	in := chat.Input{
		Messages: q.Messages, Tools: q.Tools, Documents: q.Documents,
		AddGenerationPrompt: &q.AddGenerationPrompt, ContinueFinalMessage: q.ContinueFinalMessage,
		ChatTemplate: q.ChatTemplate, ChatTemplateKwargs: q.ChatTemplateKwargs,
	}
	if q.ReasoningEffort != "" {
		in.ReasoningEffort = &q.ReasoningEffort
	}
	p, err := m.Chat.Render(in)
	if err != nil {
		text := err.Error()
		if e := (*chat.Error)(nil); errors.As(err, &e) {
			text = e.Text
		}
		return p, api.ErrTemplate(text)
	}
	return p, nil
}

// outputLimit is how many tokens a request with a prompt of so many may put out.
func (m *Model) outputLimit(q *api.Options, prompt int) (int, *api.Error) {
	most := m.MaxLen - prompt
	if n, _, ok := q.MaxOutput(); ok {
		most = min(most, n)
	} else if d := m.Generation.MaxNewTokens; d != nil {
		most = min(most, *d)
	}
	if limit := m.Generation.MaxTokens; limit != nil {
		most = min(most, *limit)
	}
	switch {
	case most < 1:
		return 0, api.ErrMaxTokens(most)
	case q.MinTokens > most:
		return 0, api.ErrMinTokens(most, q.MinTokens)
	}
	return most, nil
}

// reply is the part of the answer that is settled before its first token. Its id
// lacks the prefix.
func (s *Server) reply(m *Model, q *api.Options, id string) reply {
	if id == "" && q.RequestID == nil {
		id = s.cfg.NewID()
	}
	r := reply{
		meta: api.Meta{ID: id, Created: s.http.Now().Unix(), Model: m.Names[0], Fingerprint: m.Fingerprint},
		form: api.Form{Reasoning: s.cfg.ReasoningField, TokensAsIDs: s.cfg.TokensAsIDs, TokenIDs: q.ReturnTokenIDs, ContinuousUsage: q.ContinuousUsage},
		tok:  m.Tokenizer, n: q.N,
		logprobs: q.Logprobs, top: q.TopLogprobs,
		stream: q.Stream, usage: q.IncludeUsage || s.cfg.ForceUsage,
	}
	if q.ReturnTokensAsIDs != nil {
		r.form.TokensAsIDs = *q.ReturnTokensAsIDs
	}
	if r.top < 0 {
		r.top = m.VocabSize
	}
	return r
}
