package api

import (
	"slices"
	"strconv"
)

// EmbeddingRequest is a decoded body of POST /v1/embeddings (docs/interface/embeddings.md), POST /pooling or
// POST /classify (docs/interface/scoring.md): texts or lists of token ids, or a chat whose prompt is rendered as
// POST /v1/chat/completions would.
type EmbeddingRequest struct {
	ChatRequest              // of it what makes a prompt; the chat form alone has messages
	Inputs      []TextPrompt // at least one, none empty; nil: the chat form
	Encoding    VectorEncoding
	Dimensions  *int   // at least 1; nil: all
	Raw         bool   // no normalization, or no activation
	Task        string // of /pooling; "": what the model is for
	Side        bool   // truncation_side was given, so that the tokens around a text are cut like others
}

// inputFields are those that all three functions have.
var inputFields = slices.Concat(lift(pick(fields, "messages", "model", "add_generation_prompt", "continue_final_message", "add_special_tokens", "chat_template",
	"chat_template_kwargs", "mm_processor_kwargs", "truncate_prompt_tokens", "truncation_side", "priority", "request_id", "cache_salt", "user"),
	func(r *EmbeddingRequest) *ChatRequest { return &r.ChatRequest }), []field[*EmbeddingRequest]{
	{"input", notNull, decodeInputs},
	{"normalize", nullable, decodeActivation},
	{"use_activation", nullable, decodeActivation},
})

var embeddingFields = slices.Concat(inputFields, []field[*EmbeddingRequest]{
	{"encoding_format", nullable, decodeEncodingFormat},
	{"dimensions", nullable, func(r *EmbeddingRequest, v Raw, _ *Limits) (f *fault) {
		if r.Dimensions, f = optional(v, integer); f == nil && *r.Dimensions < 1 {
			f = faultf("must be 1 or more, got %s", clip(v))
		}
		return f
	}},
	{"embed_dtype", nullable, decodeNumberType},
	{"endianness", nullable, decodeEndianness},
})

var poolingFields = slices.Concat(embeddingFields, []field[*EmbeddingRequest]{
	{"task", nullable, func(r *EmbeddingRequest, v Raw, _ *Limits) (f *fault) {
		if r.Task, f = text(v); f == nil && !slices.Contains(poolingTasks, r.Task) {
			f = faultf("must be 'embed', 'classify', 'token_embed' or 'token_classify', got %s", clip(v))
		}
		return f
	}},
})

// poolingTasks are the tasks that /pooling may name.
var poolingTasks = []string{"embed", "classify", "token_embed", "token_classify"}

var inputIndex, embeddingIndex, poolingIndex = index(inputFields), index(embeddingFields), index(poolingFields)

func decodeActivation(r *EmbeddingRequest, v Raw, _ *Limits) *fault {
	on, f := boolean(v)
	r.Raw = !on
	return f
}

// decodeInputs reads what /v1/completions calls prompts.
func decodeInputs(r *EmbeddingRequest, v Raw, lim *Limits) *fault {
	var c CompletionRequest
	f := decodePrompts(&c, v, lim)
	r.Inputs = c.Prompts
	return f
}

// DecodeEmbedding reads a body of POST /v1/embeddings, as DecodeChat does. Of the chat form CheckPrompt has the
// rest to say. The inputs share the memory of the body.
func DecodeEmbedding(body []byte, lim Limits) (*EmbeddingRequest, *Error) {
	return decodePooled(body, embeddingFields, embeddingIndex, &lim)
}

// DecodePooling reads a body of POST /pooling, as DecodeEmbedding does.
func DecodePooling(body []byte, lim Limits) (*EmbeddingRequest, *Error) {
	return decodePooled(body, poolingFields, poolingIndex, &lim)
}

// DecodeClassify reads a body of POST /classify, as DecodeEmbedding does.
func DecodeClassify(body []byte, lim Limits) (*EmbeddingRequest, *Error) {
	return decodePooled(body, inputFields, inputIndex, &lim)
}

func decodePooled(body []byte, fields []field[*EmbeddingRequest], index map[string]int, lim *Limits) (*EmbeddingRequest, *Error) {
	r := &EmbeddingRequest{ChatRequest: ChatRequest{Options: defaultOptions()}}
	values, err := decode(body, r, fields, index, lim)
	if err != nil {
		return nil, err
	}
	sent := func(name string) Raw { return values[index[name]] }
	switch chat := sent("messages") != nil; {
	case chat && sent("input") != nil:
		return nil, faultf("a request has either input or messages").in("input").error()
	case chat:
	case sent("input") == nil:
		return nil, faultf("field required").in("input").error()
	case len(r.Inputs) == 0:
		return nil, faultf("must not be empty").in("input").error()
	}
	for i := range r.Inputs {
		if p := &r.Inputs[i]; p.IDs == nil && p.Text == "" {
			return nil, faultf("must not be empty").index(i).in("input").error()
		}
	}
	if r.Inputs != nil && sent("add_special_tokens") == nil {
		r.AddSpecialTokens = true // unlike a chat, whose template spells them out
	}
	if err := r.checkGenerationPrompt(sent("add_generation_prompt")); err != nil {
		return nil, err
	}
	r.Side = sent("truncation_side").Given()
	return r, nil
}

// ErrTask answers a request for something that the model was not made for.
func ErrTask(text string) *Error { return newError(causeTask, text, nil) }

// ErrDimensions answers a size to which the model's vectors cannot be cut.
func ErrDimensions(n int, text string) *Error { return newError(causeDimensions, text, n) }

// Embeddings is the answer of POST /v1/embeddings and of POST /pooling.
type Embeddings struct {
	Meta
	Pooling  bool // that of /pooling, which has other names
	Encoding VectorEncoding
	Vectors  [][]float32 // one for each input
	Columns  int         // of each of the vectors that Vectors have one after the other for each input; 0: they have one
	Prompt   int         // tokens
}

// Size returns the number of bytes that the answer takes at most.
func (e *Embeddings) Size() int {
	n := e.Meta.listSize()
	for _, v := range e.Vectors {
		n += 64 + len(v)*FloatSize
		if e.Columns > 0 {
			n += 3 * len(v) / e.Columns
		}
	}
	return n
}

// FloatSize is the length of the longest float32 in decimal digits, with a comma: -1.1754944e-38.
const FloatSize = 15

// AppendEmbeddings appends the body of an answer that is JSON.
func AppendEmbeddings(dst []byte, e *Embeddings) []byte {
	object, member := "embedding", "embedding"
	if e.Pooling {
		object, member = "pooling", "data"
	}
	dst = appendList(dst, &e.Meta)
	for i, v := range e.Vectors {
		dst = appendEntry(dst, i, object)
		dst = append(dst, `,"`...)
		dst = append(dst, member...)
		dst = append(dst, `":`...)
		switch {
		case e.Encoding.Format == Base64Vectors:
			dst = e.Encoding.appendBase64(dst, v)
		case e.Columns > 0:
			dst = appendRows(dst, v, e.Columns)
		default:
			dst = AppendFloats(dst, v)
		}
		dst = append(dst, '}')
	}
	return appendListEnd(dst, e.Prompt)
}

// listSize is what the members of a list around its entries take at most.
func (m *Meta) listSize() int { return 512 + 6*(len(m.ID)+len(m.Model)) }

// appendList appends the beginning of a list, as all functions of poolers answer with one.
func appendList(dst []byte, m *Meta) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, m.ID)
	dst = append(dst, `,"object":"list","created":`...)
	dst = strconv.AppendInt(dst, m.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = AppendString(dst, m.Model)
	return append(dst, `,"data":[`...)
}

// appendEntry appends the beginning of entry i of a list.
func appendEntry(dst []byte, i int, object string) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	return append(dst, '"')
}

// appendListEnd appends the end of a list.
func appendListEnd(dst []byte, prompt int) []byte {
	dst = append(dst, `],"usage":`...)
	dst = appendPoolingUsage(dst, prompt)
	return append(dst, '}')
}

// appendPoolingUsage appends the usage of a request that generates nothing.
func appendPoolingUsage(dst []byte, prompt int) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(prompt), 10)
	return append(dst, `,"completion_tokens":0,"prompt_tokens_details":null}`...)
}

// AppendFloats appends a vector as a list, with the shortest digits that give the same float32 back.
func AppendFloats(dst []byte, v []float32) []byte {
	dst = append(dst, '[')
	for i, x := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendFloat(dst, x)
	}
	return append(dst, ']')
}

// appendRows writes a list of vectors of so many components.
func appendRows(dst []byte, v []float32, columns int) []byte {
	dst = append(dst, '[')
	for i := 0; i < len(v); i += columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendFloats(dst, v[i:i+columns])
	}
	return append(dst, ']')
}

// appendFloat writes the shortest digits that give the same float32 back.
func appendFloat(dst []byte, x float32) []byte {
	return strconv.AppendFloat(dst, float64(x), 'g', -1, 32)
}
