package server

import (
	"context"
	"errors"
	"unicode/utf8"

	"weir/api"
	"weir/chat"
	"weir/chat/reasoning"
	"weir/engine"
)

// prepared is a request that is ready for the engine.
type prepared struct {
	request engine.Request
	reply   reply
}

// prepare does everything that a request needs before the engine sees it: it
// decodes, checks, renders and tokenizes. Whatever the client did wrong is
// found here, so that it gets its 4xx before a status has been sent. The order
// is that of spec chat-completions 1.2, except that cheap checks come before
// costly ones: where both fail the answer is the cheap one's. It may go on for
// a moment after ctx has ended.
func (s *Server) prepare(ctx context.Context, m *Model, body []byte, id, project string) (*prepared, error) {
	q, bad := api.DecodeChat(body, s.cfg.Limits)
	if bad != nil {
		return nil, bad
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !m.serves(q.Model) {
		return nil, api.ErrModelNotFound(q.Model)
	}
	if id == "" && q.RequestID != nil {
		id = *q.RequestID
	}
	if len(id) > maxID {
		return nil, badRequest("request_id", "request_id has more than %d bytes.", maxID)
	}
	if bad := s.check(m, q); bad != nil {
		return nil, bad
	}
	params, bad := s.sampling(m, q)
	if bad != nil {
		return nil, bad
	}
	recording, bad := s.recording(m, body, q, project)
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
	most, bad := m.outputLimit(q, len(tokens))
	if bad != nil {
		return nil, bad
	}
	if q.KVTransferParams != nil {
		s.log.Debug("kv_transfer_params ignored: there is no connector", "id", id)
	}
	p := &prepared{
		request: engine.Request{
			Tokens: tokens, N: q.N, Priority: int64(q.Priority),
			Limits: m.limits(q, most), Sampling: params,
			Stop: q.Stop, IncludeStop: q.IncludeStop,
			KeepSpecial: !q.SkipSpecialTokens, JoinSpecial: !q.SpacesBetweenSpecial,
		},
		reply: s.reply(m, q, id),
	}
	p.reply.prompt, p.reply.role = tokens, prompt.ResponseRole
	if q.Echo {
		p.reply.echo, p.reply.echoThought = prompt.EchoText, prompt.EchoThought
		if n := len(p.reply.echo) + len(p.reply.echoThought); n > s.cfg.MaxBody/q.N {
			return nil, badRequest("", "The echo of %d bytes in %d choices is larger than %d bytes.", n, q.N, s.cfg.MaxBody)
		}
	}
	if p.reply.output = prompt.Output; p.reply.output != reasoning.Content {
		p.request.Show = m.thinkTags()
	}
	if !q.IncludeReasoning {
		p.reply.hideThoughts, p.reply.echoThought = true, ""
	}
	if recording != nil {
		p.request.Sampling.Logprobs = engine.RawLogprobs
		recording.follow(&p.reply)
		p.reply.recording = recording
	}
	salt := ""
	if q.CacheSalt != nil {
		salt = *q.CacheSalt
	}
	p.request.Salt = s.salts.salt(project, salt)
	if n := q.PromptLogprobs; n != nil && !q.Stream { // a stream has no place for them
		top := *n
		if top < 0 {
			top = m.VocabSize
		}
		p.request.Prompt = &engine.PromptScores{Top: min(top, m.VocabSize), Mode: engine.RawLogprobs}
		p.reply.scored = true
	}
	return p, nil
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
	if bad := q.CheckSampling(); bad != nil {
		return bad
	}
	if q.Priority != 0 && !m.Priority {
		return api.ErrPriority(q.Priority)
	}
	if q.Constraint != nil {
		return api.ErrConstraint(q.Constraint.Kind, "this build does not constrain outputs yet")
	}
	if n := q.PromptLogprobs; n != nil {
		return s.logprobLimit(m, *n, api.ErrMaxPromptLogprobs)
	}
	return nil
}

// prompt renders the messages, tokenizes and truncates them (spec 10).
func (m *Model) prompt(ctx context.Context, q *api.ChatRequest) (chat.Prompt, []int32, *api.Error) {
	output, param, _ := q.MaxOutput()
	if output > m.MaxLen {
		return chat.Prompt{}, nil, api.ErrOverContext(param, output, m.MaxLen)
	}
	room := m.MaxLen - output // tokens of prompt
	keep := -1
	if q.TruncatePrompt != nil {
		if keep = *q.TruncatePrompt; keep < 0 {
			keep = room
		}
		if keep > room {
			return chat.Prompt{}, nil, api.ErrTruncate(keep, room)
		}
	}
	p, bad := m.render(q)
	if bad != nil {
		return p, nil, bad
	}
	// Text of so many characters is too many tokens however it is cut:
	// tokenizing it would only cost time.
	if most := room * m.Tokenizer.MaxTokenBytes(); keep < 0 && len(p.Text) > most {
		if n := utf8.RuneCountInString(p.Text); n > most {
			return p, nil, api.ErrCharacters(m.MaxLen, output, n, most)
		}
	}
	if ctx.Err() != nil {
		return p, nil, nil // nobody waits for the rest
	}
	tokens := m.Tokenizer.Encode(nil, p.Text, q.AddSpecialTokens)
	if keep >= 0 && len(tokens) > keep {
		tokens = tokens[len(tokens)-keep:]
	}
	switch {
	case len(tokens) > room:
		return p, nil, api.ErrContextLength(m.MaxLen, output, len(tokens), false)
	case len(tokens) == 0:
		return p, nil, api.ErrEmptyPrompt()
	}
	return p, tokens, nil
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
func (m *Model) outputLimit(q *api.ChatRequest, prompt int) (int, *api.Error) {
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

// reply is the part of the answer that is settled before its first token.
func (s *Server) reply(m *Model, q *api.ChatRequest, id string) reply {
	if id == "" && q.RequestID == nil {
		id = s.newID()
	}
	r := reply{
		meta: api.Meta{ID: api.ChatID(id), Created: s.now().Unix(), Model: m.Names[0], Fingerprint: m.Fingerprint},
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
