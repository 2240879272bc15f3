package server

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"weir/api"
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
// costly ones: where both fail the answer is the cheap one's.
func (s *Server) prepare(m *Model, body []byte, id, project string) (*prepared, error) {
	q, bad := api.DecodeChat(body, s.cfg.Limits)
	if bad != nil {
		return nil, bad
	}
	if !m.serves(q.Model) {
		return nil, api.ErrModelNotFound(q.Model)
	}
	if id == "" && q.RequestID != nil {
		id = *q.RequestID
	}
	if len(id) > maxID {
		return nil, tooLongID()
	}
	if bad := s.check(m, q); bad != nil {
		return nil, bad
	}
	params, bad := s.sampling(m, q)
	if bad != nil {
		return nil, bad
	}
	tokens, bad := m.prompt(q)
	if bad != nil {
		return nil, bad
	}
	most, bad := m.outputLimit(q, len(tokens))
	if bad != nil {
		return nil, bad
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
	p.reply.prompt = tokens
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

func tooLongID() *api.Error {
	e := httpError(400, fmt.Sprintf("request_id has more than %d bytes.", maxID))
	param := "request_id"
	e.Param = &param
	return e
}

// check finds what the body alone, the model and the settings refuse.
func (s *Server) check(m *Model, q *api.ChatRequest) *api.Error {
	if bad := q.CheckPrompt(); bad != nil {
		return bad
	}
	if bad := m.checkTemplate(q); bad != nil {
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
func (m *Model) prompt(q *api.ChatRequest) ([]int32, *api.Error) {
	output, param, _ := q.MaxOutput()
	if output > m.MaxLen {
		return nil, api.ErrOverContext(param, output, m.MaxLen)
	}
	room := m.MaxLen - output // tokens of prompt
	keep := -1
	if q.TruncatePrompt != nil {
		if keep = *q.TruncatePrompt; keep < 0 {
			keep = room
		}
		if keep > room {
			return nil, api.ErrTruncate(keep, room)
		}
	}
	text, bad := m.render(q)
	if bad != nil {
		return nil, bad
	}
	if keep < 0 {
		// Text of so many characters is too many tokens however it is cut:
		// tokenizing it would only cost time.
		most := room * m.Tokenizer.MaxTokenBytes()
		if len(text) > most {
			if n := utf8.RuneCountInString(text); n > most {
				return nil, api.ErrCharacters(m.MaxLen, output, n, most)
			}
		}
	}
	tokens := m.Tokenizer.Encode(nil, text, q.AddSpecialTokens)
	if keep >= 0 && len(tokens) > keep {
		tokens = tokens[len(tokens)-keep:]
	}
	switch {
	case len(tokens) > room:
		return nil, api.ErrContextLength(m.MaxLen, output, len(tokens), false)
	case len(tokens) == 0:
		return nil, api.ErrEmptyPrompt()
	}
	return tokens, nil
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
		form: api.Form{TokensAsIDs: s.cfg.TokensAsIDs, TokenIDs: q.ReturnTokenIDs, ContinuousUsage: q.ContinuousUsage},
		tok:  m.Tokenizer, role: "assistant", n: q.N,
		logprobs: q.Logprobs, top: q.TopLogprobs,
		stream: q.Stream, usage: q.IncludeUsage || s.cfg.ForceUsage,
	}
	if q.ReturnTokensAsIDs != nil {
		r.form.TokensAsIDs = *q.ReturnTokensAsIDs
	}
	if r.top < 0 {
		r.top = m.VocabSize
	}
	last := &q.Messages[len(q.Messages)-1]
	if !q.AddGenerationPrompt {
		r.role = last.Role // the output goes on with its message, or stands in its place
	}
	if q.Echo && last.Role == r.role {
		r.echo, r.echoes = contentText(&last.Content), true
	}
	return r
}

// contentText is a message's text: parts are joined by newlines (spec 3.6, 3.8).
func contentText(c *api.Content) string {
	if c.Kind != api.ContentParts {
		return c.Text
	}
	parts := make([]string, len(c.Parts))
	for i := range c.Parts {
		parts[i] = c.Parts[i].Text
	}
	return strings.Join(parts, "\n")
}
