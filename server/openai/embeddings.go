package openai

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"weir/api"
	"weir/engine"
	"weir/pooling"
	"weir/sampler"
	"weir/server/failure"
	"weir/server/transport"
)

// pooled is a request for vectors or scores that is ready for the engine.
type pooled struct {
	kind     string // what the answer is, in its id
	id       string
	requests []engine.Request // one for each input
	prompt   int              // tokens of all
	size     int64            // bytes of the vectors and of the answer
	// encode makes the answer of the vectors of the network, one for each request.
	encode func(ctx context.Context, meta api.Meta, vectors [][]float32) ([]byte, error)
	binary bool // the answer is no JSON
	// metadata is a header of a binary answer, which encode sets; "": there is none.
	metadata string
}

// Embeddings answers POST /v1/embeddings.
func (s *Service) Embeddings(c *transport.Call) {
	s.pool(c, func(ctx context.Context, m *Model, in *input) (*pooled, error) {
		return s.prepareVectors(ctx, m, in, "embd", api.DecodeEmbedding)
	})
}

// Pooling answers POST /pooling with what the model makes of each input: a vector, or a number for each class.
func (s *Service) Pooling(c *transport.Call) {
	s.pool(c, func(ctx context.Context, m *Model, in *input) (*pooled, error) {
		return s.prepareVectors(ctx, m, in, "pooling", api.DecodePooling)
	})
}

// Classify answers POST /classify.
func (s *Service) Classify(c *transport.Call) { s.pool(c, s.prepareClassify) }

// decodeInputs reads a body whose inputs are pooled each by itself.
type decodeInputs = func(body []byte, lim api.Limits) (*api.EmbeddingRequest, *api.Error)

// decodePooled reads the body of a request for vectors, and refuses what can be refused without tokenizing it.
func (s *Service) decodePooled(ctx context.Context, m *Model, in *input, kind string, decode decodeInputs) (*api.EmbeddingRequest, Sender, error) {
	from := in.from
	q, bad := decode(in.body, s.limits(ctx))
	if bad != nil {
		return nil, from, bad
	}
	if bad := m.admits(q.Model, from.Who); bad != nil {
		return nil, from, bad
	}
	if err := setID(&q.Options, &from); err != nil {
		return nil, from, err
	}
	if bad := m.checkTask(kind, q.Task); bad != nil {
		return nil, from, bad
	}
	if bad := m.checkEmbedding(q); bad != nil {
		return nil, from, bad
	}
	return q, from, nil
}

// prepareVectors does for /v1/embeddings and /pooling what prepareChat does for chats.
func (s *Service) prepareVectors(ctx context.Context, m *Model, in *input, kind string, decode decodeInputs) (*pooled, error) {
	q, from, err := s.decodePooled(ctx, m, in, kind, decode)
	if err != nil {
		return nil, err
	}
	inputs, err := s.inputs(ctx, m, q, in)
	if err != nil {
		return nil, err
	}
	options := pooling.Options{Raw: q.Raw, Token: strings.HasPrefix(q.Task, "token_")}
	size, pool := m.Pooling.Size(), poolings[m.Pooling.Kind]
	if q.Dimensions != nil {
		options.Dimensions = *q.Dimensions
		size = options.Dimensions
	}
	if options.Token {
		pool = engine.PoolAll
	}
	p := s.pooled(m, &q.Options, from, kind, inputs, pool)
	answer := api.Embeddings{Pooling: kind == "pooling", Encoding: q.Encoding, Prompt: p.prompt}
	rows := len(inputs)
	if options.Token {
		answer.Columns, rows = size, p.prompt
	}
	p.size += int64(rows)*int64(4*(m.Pooling.Size()+size)+api.FloatSize*size) + 128*int64(len(inputs))
	p.binary = q.Encoding.Format.Binary()
	if q.Encoding.Format == api.BytesVectors {
		described := api.Meta{ID: api.PooledID(kind, p.id), Model: m.Names[0]}
		n := described.MetadataSize(len(inputs))
		if n > maxMetadata {
			return nil, failure.BadRequest("encoding_format", "encoding_format is 'bytes', whose header metadata would be longer than %d bytes with %d inputs. Send fewer, or use 'bytes_only'.", maxMetadata, len(inputs))
		}
		p.size += 3 * int64(n)
	}
	p.encode = func(ctx context.Context, meta api.Meta, vectors [][]float32) (_ []byte, err error) {
		answer.Meta = meta
		if answer.Vectors, err = m.applyAll(ctx, vectors, options); err != nil {
			return nil, err
		}
		if in.answer != nil {
			return in.answer(make([]byte, 0, answer.Size()+1<<10), &answer), nil
		}
		if !p.binary {
			return api.AppendEmbeddings(make([]byte, 0, answer.Size()), &answer), nil
		}
		if answer.Encoding.Format == api.BytesVectors {
			p.metadata = string(api.AppendVectorMetadata(nil, &answer))
		}
		return api.AppendVectorBytes(make([]byte, 0, rows*size*answer.Encoding.Type.Size()), &answer), nil
	}
	if in.answer != nil {
		p.size += 1 << 10
	}
	return p, nil
}

// maxMetadata is the most bytes of the header metadata. Python's HTTP client takes no longer lines than 65536.
const maxMetadata = 60_000

// prepareClassify does for /classify what prepareChat does for chats.
func (s *Service) prepareClassify(ctx context.Context, m *Model, in *input) (*pooled, error) {
	q, from, err := s.decodePooled(ctx, m, in, "classify", api.DecodeClassify)
	if err != nil {
		return nil, err
	}
	inputs, err := s.inputs(ctx, m, q, in)
	if err != nil {
		return nil, err
	}
	p := s.pooled(m, &q.Options, from, "classify", inputs, poolings[m.Pooling.Kind])
	answer := api.Classes{Labels: m.Scoring.Labels, Prompt: p.prompt}
	p.size += int64(len(inputs)) * int64(4*m.Pooling.Size()+128+api.FloatSize*m.Pooling.Size()+m.Scoring.longest())
	p.encode = func(_ context.Context, meta api.Meta, vectors [][]float32) (_ []byte, err error) {
		answer.Meta = meta
		if answer.Probs, err = m.apply(vectors, pooling.Options{Raw: q.Raw}); err != nil {
			return nil, err
		}
		return api.AppendClasses(make([]byte, 0, answer.Size()), &answer), nil
	}
	return p, nil
}

// apply makes of each vector of the network what the plan says.
func (m *Model) apply(vectors [][]float32, o pooling.Options) ([][]float32, error) {
	all := make([][]float32, len(vectors))
	for i, v := range vectors {
		all[i] = m.Pooling.Apply(make([]float32, 0, m.Pooling.Size()), v, o)
		if err := finite(i, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// applyAll is apply for vectors that are, with Options.Token, those of all tokens of an input, one after the other. It ends early
// with ctx.
func (m *Model) applyAll(ctx context.Context, vectors [][]float32, o pooling.Options) ([][]float32, error) {
	if !o.Token {
		return m.apply(vectors, o)
	}
	all := make([][]float32, len(vectors))
	for i, v := range vectors {
		n := len(v) / m.Pooling.Hidden
		all[i] = make([]float32, 0, n*cmp.Or(o.Dimensions, m.Pooling.Size()))
		for t := range n {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			all[i] = m.Pooling.Apply(all[i], v[t*m.Pooling.Hidden:(t+1)*m.Pooling.Hidden], o)
		}
		if err := finite(i, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// finite refuses numbers that JSON does not have.
func finite(input int, v []float32) error {
	for _, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("server: input %d has a vector with the component %v, which JSON has no number for", input, x)
		}
	}
	return nil
}

// functionNames are what messages call the functions, by the kind of their answers.
var functionNames = map[string]string{"embd": "Embeddings", "score": "Score", "classify": "Classification", "pooling": "Pooling"}

// checkTask refuses a function that the model was not made for. A task is what /pooling asks for; "": anything.
func (m *Model) checkTask(kind, task string) *api.Error {
	refuse := func(reason string) *api.Error {
		return api.ErrTask("The model " + m.Names[0] + " does not support the " + functionNames[kind] + " API: " + reason)
	}
	p := m.Pooling
	if p == nil {
		return refuse("it generates.")
	}
	own := "embed"
	if p.Labels > 0 {
		own = "classify"
	}
	switch {
	case kind == "embd" && own != "embed":
		return refuse("it classifies.")
	case kind == "classify" && own != "classify":
		return refuse("it embeds.")
	case kind == "score" && p.Labels > 1:
		return refuse(fmt.Sprintf("it tells %d classes apart, and a score is one number.", p.Labels))
	case task != "" && task != own && task != "token_"+own:
		return api.ErrTask(fmt.Sprintf("Unsupported task: %q. The tasks of the model %s are %q and %q.", task, m.Names[0], own, "token_"+own))
	}
	return nil
}

// checkEmbedding refuses a request for reasons that can be found without tokenizing it.
func (m *Model) checkEmbedding(q *api.EmbeddingRequest) *api.Error {
	p := m.Pooling
	switch {
	case q.Dimensions != nil && p.Labels > 0:
		return api.ErrDimensions(*q.Dimensions, "The numbers for classes cannot be cut.")
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

// promptTokens are the tokens of one input, and their types if the network knows types.
type promptTokens struct{ ids, types []int32 }

// inputs returns the tokens of each input.
func (s *Service) inputs(ctx context.Context, m *Model, q *api.EmbeddingRequest, in *input) ([]promptTokens, error) {
	limit, bad := m.pooledLimit(&q.Options, q.Side)
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
	all := make([]promptTokens, 0, len(texts))
	for i := range texts {
		tokens, bad := m.inputTokens(ctx, q, &texts[i], limit, in)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if bad != nil {
			return nil, bad
		}
		all = append(all, promptTokens{ids: tokens})
	}
	return all, nil
}

// inputTokens returns the tokens of one input.
func (m *Model) inputTokens(ctx context.Context, q *api.EmbeddingRequest, p *api.TextPrompt, limit promptLimit, in *input) ([]int32, *api.Error) {
	if p.IDs == nil {
		return m.encodePooled(ctx, &q.Options, p.Text, limit, in)
	}
	tokens, outside := ids(p.IDs, m.VocabSize)
	if outside != nil {
		return nil, api.ErrPromptIDs(outside, m.VocabSize)
	}
	return m.fit(tokens, limit)
}

// pooledLimit returns the limit of inputs from which nothing is generated, so that they may fill the context. Unless
// the request names a side, texts are cut at their ends, in front of the tokens around them.
func (m *Model) pooledLimit(q *api.Options, side bool) (promptLimit, *api.Error) {
	r := promptLimit{keep: -1, right: q.TruncateRight || !side, inner: !side}
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

// pooled makes the requests of the engine for inputs, of which it wants pool. Their answer is the caller's affair.
func (s *Service) pooled(m *Model, q *api.Options, from Sender, kind string, inputs []promptTokens, pool engine.Pooling) *pooled {
	p := &pooled{kind: kind, id: from.ID, requests: make([]engine.Request, len(inputs)), size: 512 + 6*int64(len(from.ID)+len(m.Names[0]))}
	if p.id == "" && q.RequestID == nil {
		p.id = s.cfg.NewID()
	}
	salt := ""
	if q.CacheSalt != nil {
		salt = *q.CacheSalt
	}
	for i, t := range inputs {
		p.requests[i] = engine.Request{
			Tokens: t.ids, Types: t.types, Pool: pool, Priority: int64(q.Priority),
			Salt: s.salts.salt(from.Who, from.Project, salt), Sampling: sampler.DefaultParams(),
		}
		p.prompt += len(t.ids)
		vectors := 1
		if pool == engine.PoolAll {
			vectors = len(t.ids)
		}
		p.size += preparingPrompt + 4*int64(len(t.types)) + engineSize(&p.requests[i], m.VocabSize) + 4*int64(vectors)*int64(m.Pooling.Hidden)
	}
	return p
}

// pool prepares a request, submits it to the engine and answers with what is made of the vectors.
func (s *Service) pool(c *transport.Call, prepare preparation[*pooled]) {
	s.track(c)
	operation(c, "embeddings")
	w, err := prepareBody(s, c, toCompute, prepare)
	if err != nil {
		c.Fail(err)
		return
	}
	p, m := w.made, w.model
	if span := c.Span(); span != nil {
		span.Model = m.Names[0]
	}
	if err := c.Expect(int64(p.prompt), 0, 0); err != nil {
		w.memory.leave()
		c.Fail(err)
		return
	}
	held := min(p.size, w.memory.memory.Held())
	w.memory.keep(c.Memory(), held)
	if err := c.Memory().Grow(c.Context(), p.size-held); err != nil {
		c.Fail(err)
		return
	}
	for i := range p.requests {
		account(c, &p.requests[i])
		p.requests[i].MaxWait = w.wait
	}
	p.requests[0].Place = w.place
	st, err := m.Engine.SubmitAll(p.requests)
	if err != nil {
		c.Fail(err)
		return
	}
	id := api.PooledID(p.kind, p.id)
	c.Accepted(id, m.Names[0], p.prompt, st)
	vectors, err := vectors(c.Context(), st, len(p.requests))
	if err != nil {
		st.Cancel()
		c.Fail(err)
		return
	}
	answer, err := p.encode(c.Context(), api.Meta{ID: id, Created: s.http.Now().Unix(), Model: m.Names[0]}, vectors)
	if err != nil {
		c.Fail(err)
		return
	}
	if !p.binary {
		c.ReplyReserved(answer)
		return
	}
	if p.metadata != "" {
		c.Response.Header.Set("metadata", p.metadata)
	}
	c.ReplyBinary(answer)
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
		if err := finite(i, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
