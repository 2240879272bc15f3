package openai

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/pooling"
	"weir/server/failure"
	"weir/server/transport"
	"weir/tokenizer"
)

// Score answers POST /score: how well the texts of each pair go together.
func (s *Service) Score(c *transport.Call) {
	s.pool(c, func(ctx context.Context, m *Model, in *input) (*pooled, error) {
		return s.prepareScores(ctx, m, in, api.DecodeScore)
	})
}

// Rerank answers POST /rerank: documents in the order in which they fit a query.
func (s *Service) Rerank(c *transport.Call) {
	s.pool(c, func(ctx context.Context, m *Model, in *input) (*pooled, error) {
		return s.prepareScores(ctx, m, in, api.DecodeRerank)
	})
}

// scorer is a request for scores that is being prepared.
type scorer struct {
	m     *Model
	q     *api.ScoreRequest
	in    *input
	limit promptLimit
	bytes int // of the texts of all pairs, each with its query, of a cross-encoder
}

// prepareScores does for /score and /rerank what prepareChat does for chats.
func (s *Service) prepareScores(ctx context.Context, m *Model, in *input, decode func([]byte, api.Limits) (*api.ScoreRequest, *api.Error)) (*pooled, error) {
	from := in.from
	q, bad := decode(in.body, s.limits(ctx))
	if bad != nil {
		return nil, bad
	}
	if bad := m.admits(q.Model, from.Who); bad != nil {
		return nil, bad
	}
	if err := setID(&q.Options, &from); err != nil {
		return nil, err
	}
	x := scorer{m: m, q: q, in: in}
	if err := x.check(s.cfg.Limits.Prompts, s.cfg.MaxEcho); err != nil {
		return nil, err
	}
	var inputs []promptTokens
	if m.Pooling.Labels > 0 {
		inputs, bad = x.pairs(ctx)
	} else {
		inputs, bad = x.texts(ctx)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if bad != nil {
		return nil, bad
	}
	p := s.pooled(m, &q.Options, from, "score", inputs, poolings[m.Pooling.Kind])
	if q.Rank {
		p.encode = x.ranked(p)
	} else {
		p.encode = x.scored(p)
	}
	p.size += int64(len(q.Documents)) * int64(4*m.Pooling.Size()+64+api.FloatSize)
	return p, nil
}

// check refuses a request for reasons that can be found without tokenizing it. It may have so many prompts, and its
// pairs so many bytes.
func (x *scorer) check(prompts, most int) error {
	m, q := x.m, x.q
	if bad := m.checkTask("score", ""); bad != nil {
		return bad
	}
	if q.Priority != 0 && !m.Priority {
		return api.ErrPriority(q.Priority)
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"max_tokens_per_query", q.MostQuery}, {"max_tokens_per_doc", q.MostDoc}} {
		if f.n >= m.MaxLen {
			return api.ErrTokensPer(f.name, f.n, m.MaxLen)
		}
	}
	if n := len(q.Queries) + len(q.Documents); m.Pooling.Labels == 0 && n > prompts {
		return failure.BadRequest("", "A model that embeds computes a vector for each of %d texts, but a request may have at most %d.", n, prompts)
	}
	for i, d := range q.Documents {
		x.bytes += len(q.Query(i)) + len(d)
	}
	if m.Pooling.Labels > 0 && x.bytes > most {
		return failure.BadRequest("", "The texts of all pairs, the query with each document, are %d bytes, but together they may have at most %d.", x.bytes, most)
	}
	var bad *api.Error
	if x.limit, bad = m.pooledLimit(&q.Options, q.Side); bad != nil {
		return bad
	}
	return nil
}

// texts returns the tokens of all queries and then of all documents, for a model that makes a vector of each.
// If ctx has ended it may return neither tokens nor an error.
func (x *scorer) texts(ctx context.Context) ([]promptTokens, *api.Error) {
	all := make([]promptTokens, 0, len(x.q.Queries)+len(x.q.Documents))
	if !x.in.memory.more(preparingPrompt * int64(cap(all))) {
		return nil, nil
	}
	for i, list := range [][]string{x.q.Queries, x.q.Documents} {
		for _, text := range list {
			text, bad := x.shortened(ctx, text, [...]int{x.q.MostQuery, x.q.MostDoc}[i])
			if bad != nil || ctx.Err() != nil {
				return nil, bad
			}
			ids, bad := x.m.encodePooled(ctx, &x.q.Options, text, x.limit, x.in)
			if bad != nil || ctx.Err() != nil {
				return nil, bad
			}
			all = append(all, promptTokens{ids: ids})
		}
	}
	return all, nil
}

// shortened returns the beginning of a text that has at most so many tokens; 0: all of it.
func (x *scorer) shortened(ctx context.Context, text string, most int) (string, *api.Error) {
	if most == 0 {
		return text, nil
	}
	ids, bad := x.m.tokens(ctx, text, false, promptLimit{keep: most}, x.in)
	if bad != nil || len(ids) <= most {
		return text, bad
	}
	// Where the cut is in a character, that character goes too.
	return strings.TrimRight(x.m.Tokenizer.Decode(ids[:most], tokenizer.DecodeOptions{}), "\uFFFD"), nil
}

// pairs returns what a cross-encoder reads of each pair. If ctx has ended it may return neither tokens nor an error.
func (x *scorer) pairs(ctx context.Context) ([]promptTokens, *api.Error) {
	// The texts of the body are counted once, and here each pair has its query.
	held := preparingPrompt*int64(len(x.q.Documents)) + preparingByte*int64(x.bytes)
	if !x.in.memory.more(held) {
		return nil, nil
	}
	if x.m.Scoring.Form == PairJoined {
		return x.joined(ctx)
	}
	all := make([]promptTokens, 0, len(x.q.Documents))
	var query string
	for i, document := range x.q.Documents {
		var bad *api.Error
		if i < len(x.q.Queries) {
			if query, bad = x.shortened(ctx, x.q.Queries[i], x.q.MostQuery); bad != nil || ctx.Err() != nil {
				return nil, bad
			}
		}
		if document, bad = x.shortened(ctx, document, x.q.MostDoc); bad != nil || ctx.Err() != nil {
			return nil, bad
		}
		text, bad := x.text(ctx, query, document)
		if bad != nil || ctx.Err() != nil || !x.in.memory.more(held+tokenizingByte*int64(len(text))) {
			return nil, bad
		}
		ids, bad := x.m.encodePooled(ctx, &x.q.Options, text, x.limit, x.in)
		if bad != nil || ctx.Err() != nil {
			return nil, bad
		}
		held += 4 * int64(len(ids)) // of what the template adds
		all = append(all, promptTokens{ids: ids})
	}
	return all, nil
}

// text is the text of a pair.
func (x *scorer) text(ctx context.Context, query, document string) (string, *api.Error) {
	sc := &x.m.Scoring
	if sc.Form == PairTexts {
		return sc.Prompt + query + document, nil
	}
	q := x.q.ChatRequest
	q.AddGenerationPrompt, q.ChatTemplateKwargs = sc.Generation, withKwargs(sc.Kwargs, q.ChatTemplateKwargs)
	if sc.Prompt != "" {
		q.Messages = append(q.Messages, messageOf("system", sc.Prompt))
	}
	q.Messages = append(q.Messages, messageOf("query", query), messageOf("document", document))
	p, bad := x.m.render(ctx, &q, x.in)
	return p.Text, bad
}

// messageOf is a message with a text.
func messageOf(role, text string) api.Message {
	return api.Message{Role: role, Content: api.Content{Kind: api.ContentText, Text: text}}
}

// withKwargs returns the arguments of a template from two objects, of which the second wins; nil: none.
func withKwargs(own jsontext.RawMessage, sent api.Raw) api.Raw {
	switch {
	case own == nil:
		return sent
	case len(sent) == 0:
		return api.Raw(own)
	}
	list := append([]byte(nil), jsontext.Trim(own)...)
	inner := jsontext.Trim(jsontext.Trim(sent)[1:])
	if len(inner) == 1 { // the end of an empty object
		return list
	}
	return append(append(list[:len(list)-1], ','), inner...) // of members with the same name the last one counts
}

// joined returns the pairs in the tokenizer's template. Each text is tokenized once.
func (x *scorer) joined(ctx context.Context) ([]promptTokens, *api.Error) {
	all := make([]promptTokens, 0, len(x.q.Documents))
	var query []int32
	for i, document := range x.q.Documents {
		var bad *api.Error
		if i < len(x.q.Queries) {
			if query, bad = x.part(ctx, x.m.Scoring.Prompt, x.q.Queries[i], x.q.MostQuery); bad != nil || ctx.Err() != nil {
				return nil, bad
			}
		}
		second, bad := x.part(ctx, "", document, x.q.MostDoc)
		if bad != nil || ctx.Err() != nil {
			return nil, bad
		}
		pair, bad := x.join(query, second)
		if bad != nil {
			return nil, bad
		}
		all = append(all, pair)
	}
	return all, nil
}

// part returns the tokens of a text of a pair, behind a prompt.
func (x *scorer) part(ctx context.Context, prompt, text string, most int) ([]int32, *api.Error) {
	text, bad := x.shortened(ctx, text, most)
	if bad != nil || ctx.Err() != nil {
		return nil, bad
	}
	return x.m.tokens(ctx, prompt+text, false, x.limit, x.in)
}

// join puts the tokens of two texts together. Of too many the longest text loses its end, unless the request says
// at which side of all the tokens.
func (x *scorer) join(query, document []int32) (promptTokens, *api.Error) {
	most := x.limit.keep
	if x.q.Side {
		most = -1
	}
	ids, types, err := x.m.Tokenizer.JoinPair(query, document, most)
	if err != nil {
		return promptTokens{}, api.ErrTask("The tokenizer of the model " + x.m.Names[0] + " puts no two texts together.")
	}
	ids, bad := x.m.fit(ids, x.limit)
	switch {
	case bad != nil || x.m.Scoring.Types <= 1:
		return promptTokens{ids: ids}, bad
	case x.limit.right:
		types = types[:len(ids)]
	default:
		types = types[len(types)-len(ids):]
	}
	return promptTokens{ids: ids, types: slices.Clone(types)}, nil
}

// scores returns the score of each document.
func (x *scorer) scores(vectors [][]float32) ([]float32, error) {
	all, err := x.m.apply(vectors, pooling.Options{Raw: x.q.Raw})
	if err != nil {
		return nil, err
	}
	scores := make([]float32, len(x.q.Documents))
	queries := len(x.q.Queries)
	for i := range scores {
		if x.m.Pooling.Labels > 0 {
			scores[i] = all[i][0]
		} else {
			scores[i] = pooling.Cosine(all[min(i, queries-1)], all[queries+i])
		}
	}
	return scores, finite(0, scores)
}

// scored returns what makes the answer of /score.
func (x *scorer) scored(p *pooled) func(context.Context, api.Meta, [][]float32) ([]byte, error) {
	x.release()
	return func(_ context.Context, meta api.Meta, vectors [][]float32) ([]byte, error) {
		scores, err := x.scores(vectors)
		if err != nil {
			return nil, err
		}
		answer := api.Scores{Meta: meta, Scores: scores, Prompt: p.prompt}
		return api.AppendScores(make([]byte, 0, answer.Size()), &answer), nil
	}
}

// ranked returns what makes the answer of /rerank.
func (x *scorer) ranked(p *pooled) func(context.Context, api.Meta, [][]float32) ([]byte, error) {
	var texts []string
	if !x.q.NoTexts {
		texts = make([]string, len(x.q.Documents))
		for i, d := range x.q.Documents {
			texts[i] = strings.Clone(d) // it shares the body's memory
			p.size += 16 + int64(len(d)+jsontext.MaxLen(d))
		}
	}
	p.size += 128 * int64(len(x.q.Documents))
	x.release()
	return func(_ context.Context, meta api.Meta, vectors [][]float32) ([]byte, error) {
		scores, err := x.scores(vectors)
		if err != nil {
			return nil, err
		}
		answer := api.Ranking{Meta: meta, Order: order(scores, x.q.TopN), Scores: scores, Texts: texts, Prompt: p.prompt}
		return api.AppendRanking(make([]byte, 0, answer.Size()), &answer), nil
	}
}

// release lets go of the body, which the texts share. How many there were is still known.
func (x *scorer) release() {
	q := *x.q
	x.q = &api.ScoreRequest{Queries: make([]string, len(q.Queries)), Documents: make([]string, len(q.Documents)), TopN: q.TopN, Raw: q.Raw}
	x.in = nil
}

// order returns the numbers of the n best scores, the greatest first; of equal ones the first is first. 0: all.
func order(scores []float32, n int) []int {
	all := make([]int, len(scores))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	if n > 0 {
		all = all[:min(n, len(all))]
	}
	return all
}
