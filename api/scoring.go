package api

import (
	"slices"
	"strconv"

	"weir/internal/jsontext"
)

// ScoreRequest is a decoded body of POST /score or POST /rerank (docs/interface/scoring.md): pairs of texts.
type ScoreRequest struct {
	ChatRequest          // of it what identifies a request, and the arguments of a template
	Queries     []string // at least one: for each of Documents its own, or one for all
	Documents   []string // at least one

	Rank      bool // /rerank: the answer is in the order of the scores
	TopN      int  // of /rerank: so many results; 0: all
	NoTexts   bool // of /rerank: return_documents is false
	Raw       bool // no activation
	Side      bool // truncation_side was given, so that all tokens are cut as one text
	MostQuery int  // max_tokens_per_query; 0: any number
	MostDoc   int  // max_tokens_per_doc; 0: any number

	instruction Raw
}

// Query is the text to which document i is compared.
func (r *ScoreRequest) Query(i int) string { return r.Queries[min(i, len(r.Queries)-1)] }

// scoringFields are those that both functions have.
var scoringFields = slices.Concat(lift(pick(fields, "model", "chat_template_kwargs", "mm_processor_kwargs", "truncate_prompt_tokens", "truncation_side", "priority", "request_id",
	"cache_salt", "user"), func(r *ScoreRequest) *ChatRequest { return &r.ChatRequest }), []field[*ScoreRequest]{
	{"instruction", nullable, func(r *ScoreRequest, v Raw, _ *Limits) (f *fault) {
		_, f = text(v)
		r.instruction = v
		return f
	}},
	{"max_tokens_per_query", notNull, func(r *ScoreRequest, v Raw, _ *Limits) (f *fault) { r.MostQuery, f = natural(v); return }},
	{"max_tokens_per_doc", notNull, func(r *ScoreRequest, v Raw, _ *Limits) (f *fault) { r.MostDoc, f = natural(v); return }},
	{"use_activation", nullable, func(r *ScoreRequest, v Raw, _ *Limits) *fault {
		on, f := boolean(v)
		r.Raw = !on
		return f
	}},
})

// pairNames are the names that /score has for the two sides, each with those that may stand beside it, the first
// pair that is there counts.
var pairNames = [][2]string{{"queries", "documents"}, {"queries", "items"}, {"data_1", "data_2"}, {"text_1", "text_2"}}

var scoreFields = slices.Concat(scoringFields, []field[*ScoreRequest]{
	{"queries", notNull, decodeQueries}, {"documents", notNull, decodeScored}, {"items", notNull, decodeScored},
	{"data_1", notNull, decodeQueries}, {"data_2", notNull, decodeScored},
	{"text_1", notNull, decodeQueries}, {"text_2", notNull, decodeScored},
})

var rerankFields = slices.Concat(scoringFields, []field[*ScoreRequest]{
	{"query", required, func(r *ScoreRequest, v Raw, _ *Limits) *fault {
		q, f := scored(v)
		r.Queries = []string{q}
		return f
	}},
	{"documents", required, decodeScored},
	{"top_n", nullable, func(r *ScoreRequest, v Raw, _ *Limits) (f *fault) { r.TopN, f = natural(v); return }},
	{"return_documents", nullable, func(r *ScoreRequest, v Raw, _ *Limits) *fault {
		on, f := boolean(v)
		r.NoTexts = !on
		return f
	}},
})

var scoreIndex, rerankIndex = index(scoreFields), index(rerankFields)

// natural reads an integer that is 0 or more.
func natural(v Raw) (int, *fault) {
	n, f := integer(v)
	if f == nil && n < 0 {
		f = faultf("must be 0 or more, got %s", clip(v))
	}
	return n, f
}

// scored reads a text, or an object that has one as Jina's and Cohere's documents may. It shares the memory of the body.
func scored(v Raw) (string, *fault) {
	if v.Kind() != jsontext.Object {
		s, f := sharedText(v)
		if f != nil {
			f = faultf("must be a string or an object with text, not %s", v.Kind())
		}
		return s, f
	}
	var found Raw
	for key, value := range v.Members() {
		if string(key) == "text" {
			found = value
		}
	}
	if found == nil {
		return "", faultf("has no text: this server takes texts alone")
	}
	s, f := sharedText(found)
	return s, f.in("text")
}

// scoredList reads one text or a list of texts.
func scoredList(v Raw, lim *Limits) ([]string, *fault) {
	if v.Kind() != jsontext.Array {
		s, f := scored(v)
		return []string{s}, f
	}
	return list(v, lim.Prompts, scored)
}

func decodeQueries(r *ScoreRequest, v Raw, lim *Limits) (f *fault) {
	r.Queries, f = scoredList(v, lim)
	return f
}

func decodeScored(r *ScoreRequest, v Raw, lim *Limits) (f *fault) {
	r.Documents, f = scoredList(v, lim)
	return f
}

// DecodeScore reads a body of POST /score, as DecodeChat does. The texts share the memory of the body.
func DecodeScore(body []byte, lim Limits) (*ScoreRequest, *Error) {
	r := &ScoreRequest{ChatRequest: ChatRequest{Options: defaultOptions()}}
	values, err := decode(body, r, scoreFields, scoreIndex, &lim)
	if err != nil {
		return nil, err
	}
	sent := func(name string) Raw { return values[scoreIndex[name]] }
	for _, names := range pairNames {
		first, second := sent(names[0]), sent(names[1])
		if first == nil || second == nil {
			continue
		}
		r.Queries, _ = scoredList(first, &lim) // another pair of names may have been read behind it
		r.Documents, _ = scoredList(second, &lim)
		return r, r.check(names, sent("truncation_side"))
	}
	for _, names := range pairNames {
		for i, name := range names {
			if sent(name) != nil {
				return nil, faultf("field required").in(names[1-i]).error()
			}
		}
	}
	return nil, faultf("field required").in(pairNames[0][0]).error()
}

// DecodeRerank reads a body of POST /rerank, as DecodeChat does. The texts share the memory of the body.
func DecodeRerank(body []byte, lim Limits) (*ScoreRequest, *Error) {
	r := &ScoreRequest{ChatRequest: ChatRequest{Options: defaultOptions()}, Rank: true}
	values, err := decode(body, r, rerankFields, rerankIndex, &lim)
	if err != nil {
		return nil, err
	}
	return r, r.check([2]string{"query", "documents"}, values[rerankIndex["truncation_side"]])
}

// check applies the rules between fields.
func (r *ScoreRequest) check(names [2]string, side Raw) *Error {
	r.AddSpecialTokens = true
	r.Side = side.Given()
	for i, n := range []int{len(r.Queries), len(r.Documents)} {
		if n == 0 {
			return faultf("must not be empty").in(names[i]).error()
		}
	}
	if n := len(r.Queries); n > 1 && n != len(r.Documents) {
		return newError(causeSchema, "Input lengths must be either 1:1, 1:N or N:N", nil)
	}
	r.addInstruction()
	return nil
}

// addInstruction adds the instruction to the arguments of the template, which win over it.
func (r *ScoreRequest) addInstruction() {
	if r.instruction == nil {
		return
	}
	for key := range r.ChatTemplateKwargs.Members() {
		if string(key) == "instruction" {
			return
		}
	}
	merged := append([]byte(`{"instruction":`), r.instruction...)
	if inner := jsontext.Trim(r.ChatTemplateKwargs); len(inner) > 0 && len(jsontext.Trim(inner[1:len(inner)-1])) > 0 {
		merged = append(append(merged, ','), inner[1:]...)
	} else {
		merged = append(merged, '}')
	}
	r.ChatTemplateKwargs = merged
}

// ErrTokensPer answers a max_tokens_per_query or max_tokens_per_doc that is not below the context.
func ErrTokensPer(field string, n, context int) *Error {
	return newError(causeSchema, field+": must be less than the context of "+strconv.Itoa(context)+" tokens, got "+strconv.Itoa(n), nil)
}

// Scores is the answer of POST /score.
type Scores struct {
	Meta
	Scores []float32 // one for each pair
	Prompt int       // tokens
}

// AppendScores appends the body of the answer.
func AppendScores(dst []byte, s *Scores) []byte {
	dst = appendList(dst, &s.Meta)
	for i, x := range s.Scores {
		dst = appendEntry(dst, i, "score")
		dst = append(dst, `,"score":`...)
		dst = appendFloat(dst, x)
		dst = append(dst, '}')
	}
	return appendListEnd(dst, s.Prompt)
}

// Size returns the number of bytes that the answer takes at most.
func (s *Scores) Size() int { return s.Meta.listSize() + len(s.Scores)*(64+FloatSize) }

// Ranking is the answer of POST /rerank.
type Ranking struct {
	Meta
	Order  []int     // the documents in their order, by their numbers
	Scores []float32 // of each document
	Texts  []string  // of each document; nil: the answer has none
	Prompt int       // tokens
}

// Size returns the number of bytes that the answer takes at most.
func (r *Ranking) Size() int {
	n := r.Meta.listSize() + len(r.Order)*(128+FloatSize)
	if r.Texts != nil {
		for _, i := range r.Order {
			n += jsontext.MaxLen(r.Texts[i])
		}
	}
	return n
}

// AppendRanking appends the body of the answer, whose results have the form of Jina's and Cohere's.
func AppendRanking(dst []byte, r *Ranking) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, r.ID)
	dst = append(dst, `,"model":`...)
	dst = AppendString(dst, r.Model)
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.Prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(r.Prompt), 10)
	dst = append(dst, `},"results":[`...)
	for n, i := range r.Order {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		if r.Texts != nil {
			dst = append(dst, `,"document":{"text":`...)
			dst = AppendString(dst, r.Texts[i])
			dst = append(dst, `,"multi_modal":null}`...)
		}
		dst = append(dst, `,"relevance_score":`...)
		dst = appendFloat(dst, r.Scores[i])
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}

// Classes is the answer of POST /classify.
type Classes struct {
	Meta
	Labels []string    // the names of the classes; shorter than a vector: the others have none
	Probs  [][]float32 // one for each input: a number for each class
	Prompt int         // tokens
}

// Size returns the number of bytes that the answer takes at most.
func (c *Classes) Size() int {
	label := 0
	for _, l := range c.Labels {
		label = max(label, jsontext.MaxLen(l))
	}
	n := c.Meta.listSize()
	for _, p := range c.Probs {
		n += 128 + label + len(p)*FloatSize
	}
	return n
}

// AppendClasses appends the body of the answer. The label is that of the first of the greatest numbers.
func AppendClasses(dst []byte, c *Classes) []byte {
	dst = appendList(dst, &c.Meta)
	for i, p := range c.Probs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"label":`...)
		if best := slices.Index(p, slices.Max(p)); best < len(c.Labels) {
			dst = AppendString(dst, c.Labels[best])
		} else {
			dst = append(dst, "null"...)
		}
		dst = append(dst, `,"probs":`...)
		dst = AppendFloats(dst, p)
		dst = append(dst, `,"num_classes":`...)
		dst = strconv.AppendInt(dst, int64(len(p)), 10)
		dst = append(dst, '}')
	}
	return appendListEnd(dst, c.Prompt)
}
