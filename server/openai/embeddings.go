package openai

import (
	"context"
	"fmt"
	"math"

	"weir/api"
	"weir/engine"
	"weir/pooling"
	"weir/sampler"
	"weir/server/transport"
)

// pooled is a request for vectors that is ready for the engine.
type pooled struct {
	id       string
	requests []engine.Request // one for each input
	prompt   int              // tokens of all
	size     int64            // bytes of the vectors and of the answer
	// encode makes the answer of the vectors of the network, one for each request.
	encode func(meta api.Meta, vectors [][]float32) []byte
}

// Embeddings answers POST /v1/embeddings.
func (s *Service) Embeddings(c *transport.Call) { s.pool(c, s.prepareEmbeddings) }

// prepareEmbeddings does for /v1/embeddings what prepareChat does for chats.
func (s *Service) prepareEmbeddings(ctx context.Context, m *Model, in *input) (*pooled, error) {
	from := in.from
	q, bad := api.DecodeEmbedding(in.body, s.limits(ctx))
	if bad != nil {
		return nil, bad
	}
	if bad := m.admits(q.Model, from.who); bad != nil {
		return nil, bad
	}
	if err := setID(&q.Options, &from); err != nil {
		return nil, err
	}
	if bad := m.checkEmbedding(q); bad != nil {
		return nil, bad
	}
	inputs, err := s.inputs(ctx, m, q, in)
	if err != nil {
		return nil, err
	}
	options := pooling.Options{Raw: q.Raw}
	size := m.Pooling.Size()
	if q.Dimensions != nil {
		options.Dimensions = *q.Dimensions
		size = options.Dimensions
	}
	p := s.pooled(m, &q.Options, from, inputs)
	answer := api.Embeddings{Base64: q.Base64, Prompt: p.prompt}
	p.size += int64(len(inputs)) * int64(4*(m.Pooling.Size()+size)+64+api.FloatSize*size)
	p.encode = func(meta api.Meta, vectors [][]float32) []byte {
		answer.Meta = meta
		answer.Vectors = make([][]float32, len(vectors))
		for i, v := range vectors {
			answer.Vectors[i] = m.Pooling.Apply(make([]float32, 0, m.Pooling.Size()), v, options)
		}
		return api.AppendEmbeddings(make([]byte, 0, answer.Size()), &answer)
	}
	return p, nil
}

// checkEmbedding refuses a request for reasons that can be found without tokenizing it.
func (m *Model) checkEmbedding(q *api.EmbeddingRequest) *api.Error {
	p := m.Pooling
	switch {
	case p == nil:
		return api.ErrTask("The model " + m.Names[0] + " does not support the Embeddings API: it generates.")
	case p.Labels > 0:
		return api.ErrTask("The model " + m.Names[0] + " does not support the Embeddings API: it classifies.")
	case q.Dimensions != nil && p.Dimensions != nil && !p.MayCut(*q.Dimensions):
		return api.ErrDimensions(*q.Dimensions, fmt.Sprintf("The vectors of this model may be cut to these numbers of dimensions only: %v.", p.Dimensions))
	case q.Dimensions != nil && !p.MayCut(*q.Dimensions):
		return api.ErrDimensions(*q.Dimensions, fmt.Sprintf("The vectors of this model have %d dimensions.", p.Size()))
	case q.Priority != 0 && !m.Priority:
		return api.ErrPriority(q.Priority)
	case q.Inputs != nil:
		return nil
	}
	if bad := q.CheckPrompt(); bad != nil {
		return bad
	}
	if q.HasMedia() {
		return api.ErrNotMultimodal(m.Names[0])
	}
	return nil
}

// inputs returns the tokens of each input.
func (s *Service) inputs(ctx context.Context, m *Model, q *api.EmbeddingRequest, in *input) ([][]int32, error) {
	limit, bad := m.pooledLimit(&q.Options)
	if bad != nil {
		return nil, bad
	}
	texts := q.Inputs
	if texts == nil {
		p, bad := m.render(ctx, &q.ChatRequest, in)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if bad != nil {
			return nil, bad
		}
		texts = []api.TextPrompt{{Text: p.Text}}
	}
	if !in.memory.more(preparingPrompt * int64(len(texts)-preparingAny/preparingPrompt/2)) {
		return nil, context.Cause(ctx)
	}
	all := make([][]int32, 0, len(texts))
	for i := range texts {
		tokens, bad := m.inputTokens(ctx, q, &texts[i], limit, in)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if bad != nil {
			return nil, bad
		}
		all = append(all, tokens)
	}
	return all, nil
}

// inputTokens returns the tokens of one input.
func (m *Model) inputTokens(ctx context.Context, q *api.EmbeddingRequest, p *api.TextPrompt, limit promptLimit, in *input) ([]int32, *api.Error) {
	if p.IDs == nil {
		return m.encode(ctx, &q.Options, p.Text, limit, in)
	}
	tokens, outside := ids(p.IDs, m.VocabSize)
	if outside != nil {
		return nil, api.ErrPromptIDs(outside, m.VocabSize)
	}
	return m.fit(tokens, limit)
}

// pooledLimit returns the limit of inputs from which nothing is generated, so that they may fill the context.
func (m *Model) pooledLimit(q *api.Options) (promptLimit, *api.Error) {
	r := promptLimit{keep: -1, right: q.TruncateRight}
	if q.TruncatePrompt == nil {
		return r, nil
	}
	if r.keep = *q.TruncatePrompt; r.keep < 0 {
		r.keep = m.MaxLen
	}
	if r.keep > m.MaxLen {
		return r, api.ErrTruncate(r.keep, m.MaxLen)
	}
	return r, nil
}

// poolings are the engine's names of what a plan wants.
var poolings = [...]engine.Pooling{pooling.Last: engine.PoolLast, pooling.First: engine.PoolFirst, pooling.Mean: engine.PoolMean, pooling.Max: engine.PoolMax}

// pooled makes the requests of the engine for inputs. Their answer is the caller's affair.
func (s *Service) pooled(m *Model, q *api.Options, from sender, inputs [][]int32) *pooled {
	p := &pooled{id: from.id, requests: make([]engine.Request, len(inputs)), size: 512 + 6*int64(len(from.id)+len(m.Names[0]))}
	if p.id == "" && q.RequestID == nil {
		p.id = s.cfg.NewID()
	}
	salt := ""
	if q.CacheSalt != nil {
		salt = *q.CacheSalt
	}
	for i, tokens := range inputs {
		p.requests[i] = engine.Request{
			Tokens: tokens, Pool: poolings[m.Pooling.Kind], Priority: int64(q.Priority),
			Salt: s.salts.salt(from.who, from.project, salt), Sampling: sampler.DefaultParams(),
		}
		p.prompt += len(tokens)
		p.size += preparingPrompt + engineSize(&p.requests[i], m.VocabSize) + 4*int64(m.Pooling.Hidden)
	}
	return p
}

// pool prepares a request, submits it to the engine and answers with what is made of the vectors.
func (s *Service) pool(c *transport.Call, prepare preparation[*pooled]) {
	s.track(c)
	w, err := prepareBody(s, c, prepare)
	if err != nil {
		c.Fail(err)
		return
	}
	p, m := w.made, w.model
	held := min(p.size, w.memory.memory.Held())
	w.memory.keep(c.Memory(), held)
	if err := c.Memory().Grow(c.Context(), p.size-held); err != nil {
		c.Fail(err)
		return
	}
	for i := range p.requests {
		r := &p.requests[i]
		r.Arrived, r.Tenant, r.Project = c.Begun, c.Tenant(), c.Project
	}
	st, err := m.Engine.SubmitAll(p.requests)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Accepted(api.EmbeddingID(p.id), p.prompt, st)
	vectors, err := vectors(c.Context(), st, len(p.requests))
	if err != nil {
		st.Cancel()
		c.Fail(err)
		return
	}
	c.ReplyReserved(p.encode(api.Meta{ID: api.EmbeddingID(p.id), Created: s.http.Now().Unix(), Model: m.Names[0]}, vectors))
}

// vectors waits for the vectors of n requests.
func vectors(ctx context.Context, st *engine.Stream, n int) ([][]float32, error) {
	var events engine.Events
	for live := n; live > 0; live -= len(events.Items) { // each has one event
		if _, err := await(ctx, st, &events, nil); err != nil {
			return nil, err
		}
		for i := range events.Items {
			if err := failed(&events.Items[i]); err != nil {
				return nil, err
			}
		}
	}
	all := make([][]float32, n)
	for i := range all {
		all[i] = st.Pooled(i)
		for _, v := range all[i] {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return nil, fmt.Errorf("server: input %d has a vector with the component %v, which JSON has no number for", i, v)
			}
		}
	}
	return all, nil
}
