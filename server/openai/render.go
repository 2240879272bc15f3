package openai

import (
	"context"
	"strconv"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/transport"
)

// RenderChat answers POST /v1/chat/completions/render with the request of the engine that
// the same body would cause at /v1/chat/completions. Nothing is generated.
func (s *Service) RenderChat(c *transport.Call) {
	s.prepareJSON(c, s.renderChat)
}

func (s *Service) renderChat(ctx context.Context, m *Model, in *input) ([]byte, error) {
	p, err := s.prepareChat(ctx, m, in)
	if err != nil {
		return nil, err
	}
	return in.encode(ctx, p, p.rendered(0))
}

// RenderTexts answers POST /v1/completions/render with a list, one entry for
// each prompt.
func (s *Service) RenderTexts(c *transport.Call) {
	s.prepareJSON(c, s.renderTexts)
}

func (s *Service) renderTexts(ctx context.Context, m *Model, in *input) ([]byte, error) {
	p, err := s.prepareTexts(ctx, m, in)
	if err != nil {
		return nil, err
	}
	list := make([]api.Rendered, len(p.requests))
	for i := range list {
		list[i] = p.rendered(i)
		list[i].RequestID += "-" + strconv.Itoa(i)
	}
	return in.encode(ctx, p, list)
}

// renderedID is what a token takes while the answer is encoded: up to eight characters, in a
// buffer that grows, and in the answer.
const renderedID = 16

// encode encodes what p was rendered to.
func (in *input) encode(ctx context.Context, p *prepared, v any) ([]byte, error) {
	tokens := 0
	for i := range p.requests {
		tokens += len(p.requests[i].Tokens)
	}
	if !in.memory.answer(renderedID * int64(tokens)) {
		return nil, context.Cause(ctx)
	}
	return jsontext.Encode(v)
}

// rendered describes request i of the engine.
func (p *prepared) rendered(i int) api.Rendered {
	r, q := &p.requests[i], p.options
	out := api.Rendered{
		RequestID: p.reply.meta.ID, TokenIDs: r.Tokens, Model: p.reply.meta.Model,
		Stream: q.Stream, CacheSalt: q.CacheSalt, Priority: q.Priority, KVTransferParams: jsontext.RawMessage(q.KVTransferParams),
		Sampling: api.RenderedSampling{
			N: q.N, Temperature: plain(r.Sampling.Temperature), TopP: plain(r.Sampling.TopP), TopK: r.Sampling.TopK, MinP: plain(r.Sampling.MinP),
			Presence: q.PresencePenalty, Frequency: q.FrequencyPenalty, Repetition: plain(r.Sampling.Repetition),
			Seed: q.Seed, Stop: notNull(q.Stop), StopTokenIDs: notNull(q.StopTokenIDs), IncludeStop: q.IncludeStop, IgnoreEOS: q.IgnoreEOS,
			MaxTokens: r.Limits.MaxTokens, MinTokens: q.MinTokens, PromptLogprobs: q.PromptLogprobs,
			AllowedTokenIDs: q.AllowedTokenIDs, BadWords: notNull(q.BadWords),
			SkipSpecialTokens: q.SkipSpecialTokens, SpacesBetweenSpecial: q.SpacesBetweenSpecial,
		},
	}
	out.Sampling.StructuredOutputs = q.Constraint.Render()
	if d := q.RepetitionDetection; d != nil {
		out.Sampling.RepetitionDetection = &api.RenderedRepetition{MaxSize: d.MaxSize, MinSize: d.MinSize, Count: d.Count}
	}
	out.Sampling.LogprobTokenIDs, out.Sampling.ThinkingBudget = q.LogprobTokenIDs, q.ThinkingBudget
	if q.StreamInterval > 0 {
		out.Sampling.StreamInterval = &q.StreamInterval
	}
	if q.Logprobs {
		out.Sampling.Logprobs = &q.TopLogprobs
	}
	if q.IncludeUsage {
		out.StreamOptions = &api.RenderedStream{IncludeUsage: true, ContinuousUsage: q.ContinuousUsage}
	}
	if len(q.LogitBias) > 0 {
		out.Sampling.LogitBias = make(map[string]float64, len(q.LogitBias))
		for _, b := range q.LogitBias {
			out.Sampling.LogitBias[strconv.Itoa(b.Token)] = b.Bias
		}
	}
	return out
}

// plain converts x by way of its shortest decimal form, so that 0.7 stays 0.7.
func plain(x float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64) // FormatFloat writes valid digits
	return v
}

// notNull returns l, or an empty list for nil, which would be null in JSON.
func notNull[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// TokenizerInfo answers GET /tokenizer_info.
func (s *Service) TokenizerInfo(c *transport.Call) {
	m, err := s.Serving()
	if err != nil {
		c.Fail(err)
		return
	}
	if bad := m.admits("", c.Who); bad != nil {
		c.Fail(bad)
		return
	}
	info := m.TokenizerInfo
	if info == "" {
		info = `{"tokenizer_class":"PreTrainedTokenizerFast"}`
	}
	c.Answer(fasthttp.StatusOK, info)
}
