package openai

import (
	"context"
	"errors"

	"weir/api"
	"weir/chat"
	"weir/engine"
	"weir/server/failure"
	"weir/server/transport"
)

// ChatCompletions answers POST /v1/chat/completions.
func (s *Service) ChatCompletions(c *transport.Call) {
	operation(c, "chat")
	s.generate(c, s.prepareChat)
}

// generationTokens is how many tokens at the end of a prompt are taken for the generation prompt of its
// chat template, which the next turn of the conversation may not repeat: it begins with the answer
// instead, and most templates leave out the thoughts of earlier turns. That is a bit more than those of
// published templates have. The state of a network is kept before it.
const generationTokens = 16

// prepareChat does everything that a request needs before the engine sees it: it
// decodes, checks, renders and tokenizes. Every mistake of the client is found here, so
// that it gets its 4xx before a status has been sent. The order is that of
// docs/interface/chat-completions.md, section 1.2, except that cheap checks come before
// costly ones: if both fail, the answer is the error of the cheap one. prepareChat may go
// on for a moment after ctx has ended.
func (s *Service) prepareChat(ctx context.Context, m *Model, in *input) (*prepared, error) {
	from := in.from
	q, bad := api.DecodeChat(in.body, s.limits(ctx))
	if bad != nil {
		return nil, bad
	}
	if err := m.admit(ctx, &q.Options, &from); err != nil {
		return nil, err
	}
	in.hideTools(q)
	if bad := s.check(m, q); bad != nil {
		return nil, bad
	}
	params, bad := s.sampling(ctx, m, &q.Options)
	if bad != nil {
		return nil, bad
	}
	recording, bad := s.recorder.Begin(m.Names[0], in.body, q, from.Project)
	if bad != nil {
		return nil, bad
	}
	prompt, tokens, bad := m.prompt(ctx, q, in)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if bad != nil {
		return nil, bad
	}
	r, bad := s.request(m, &q.Options, params, tokens, from)
	if bad != nil {
		return nil, bad
	}
	if q.AddGenerationPrompt {
		r.Suffix = min(generationTokens, len(tokens))
	}
	p := &prepared{requests: []engine.Request{r}, reply: s.reply(m, &q.Options, from.ID), options: &q.Options, output: prompt.Output, marks: prompt.Marks}
	s.ignore(&q.Options, &p.reply)
	if q.Constraint != nil {
		p.given = s.given(&prompt)
	}
	name := api.ChatID
	if in.id != nil {
		name = in.id
	}
	p.reply.meta.ID = name(p.reply.meta.ID)
	a := &chatAnswer{prompt: tokens, role: prompt.ResponseRole, output: prompt.Output, marks: prompt.Marks, hideThoughts: !q.IncludeReasoning}
	p.reply.form.Thoughts = prompt.Divided
	if q.ThinkingBudget != nil && !prompt.Divided {
		return nil, errNoThoughts()
	}
	if bad := m.think(&q.Options, &p.requests[0], prompt.Output, prompt.Marks); bad != nil {
		return nil, bad
	}
	if q.ReturnPromptText {
		p.reply.form.PromptText = &prompt.Text
	}
	if q.Echo {
		a.echo, a.echoThought = prompt.EchoText, prompt.EchoThought
		if n := len(a.echo) + len(a.echoThought); n > s.cfg.MaxEcho/q.N {
			return nil, failure.BadRequest("", "The echo of %d bytes in %d choices is larger than %d bytes.", n, q.N, s.cfg.MaxEcho)
		}
	}
	if q.Stream { // a stream has no field for prompt_logprobs
		p.requests[0].Prompt = nil
	}
	a.scored = p.requests[0].Prompt != nil
	if prompt.Divided && a.marks.Rewrites(a.output) {
		p.requests[0].Show = m.special(a.marks.Tokens())
	}
	if a.calls, bad = s.calls(q, &prompt, &p.reply); bad != nil {
		return nil, bad
	}
	if p.calls = a.calls; a.calls != nil {
		p.requests[0].Show = append(p.requests[0].Show, m.special(a.calls.format.Tokens())...)
	}
	if a.hideThoughts {
		a.echoThought = ""
		p.hideThoughts(prompt.Divided)
	}
	p.reply.answer = a
	if recording != nil {
		p.requests[0].Sampling.Logprobs = engine.RawLogprobs
		recording.Settings = recordedSettings(m, &q.Options, r.Limits.MaxTokens)
		p.reply.recorded = newTranscript(recording, &p.reply, a)
	}
	return p, nil
}

// hideThoughts leaves out what would tell the thoughts of a model whose thoughts are told apart: the
// ids and log-probabilities of all tokens, as vLLM does.
func (p *prepared) hideThoughts(divided bool) {
	if divided {
		p.reply.form.HideOutputIDs, p.reply.logprobs = true, false
	}
}

// check refuses a request for reasons that can be found without rendering it: its fields,
// the model and the settings.
func (s *Service) check(m *Model, q *api.ChatRequest) *api.Error {
	if s.cfg.ExcludeTools && q.ToolChoice.Given && q.ToolChoice.Mode == api.ChoiceNone {
		q.Tools = nil
	}
	if bad := q.CheckPrompt(); bad != nil {
		return bad
	}
	if q.HasMedia() {
		return api.ErrNotMultimodal(m.Names[0])
	}
	return s.checkOptions(m, &q.Options)
}

// prompt renders the messages, tokenizes and truncates them
// (docs/interface/chat-completions.md, section 10).
func (m *Model) prompt(ctx context.Context, q *api.ChatRequest, in *input) (chat.Prompt, []int32, *api.Error) {
	limit, bad := m.promptLimit(&q.Options)
	if bad != nil {
		return chat.Prompt{}, nil, bad
	}
	switch {
	case in.plain != nil:
		return m.plain(ctx, q, in, limit)
	case in.past != nil && in.past.IDs != nil:
		return m.continued(ctx, q, in, limit)
	}
	p, bad := m.render(ctx, q, in)
	if bad != nil {
		return p, nil, bad
	}
	tokens, bad := m.encode(ctx, &q.Options, p.Text, limit, in)
	return p, tokens, bad
}

// render renders the messages to the text of the prompt
// (docs/interface/chat-completions.md, section 3). Every error of a template is an error of
// the request.
//
// If ctx ends, the rendering stops with an error that nobody reads.
func (m *Model) render(ctx context.Context, q *api.ChatRequest, in *input) (chat.Prompt, *api.Error) {
	of := chat.Input{
		Messages: q.Messages, Tools: q.Tools, Documents: q.Documents,
		AddGenerationPrompt: &q.AddGenerationPrompt, ContinueFinalMessage: q.ContinueFinalMessage,
		ChatTemplate: q.ChatTemplate, ChatTemplateKwargs: q.ChatTemplateKwargs, Done: ctx.Done(), Reserve: in.memory.render,
	}
	if q.ReasoningEffort != "" {
		of.ReasoningEffort = &q.ReasoningEffort
	}
	p, err := m.Chat.Render(of)
	if err != nil {
		text := err.Error()
		if e := (*chat.Error)(nil); errors.As(err, &e) {
			text = e.Text
		}
		return p, api.ErrTemplate(text)
	}
	return p, nil
}
