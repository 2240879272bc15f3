package openai

import (
	"context"

	"weir/api"
	"weir/server/transport"
)

// A VectorSurface is another interface through which the vectors of texts are asked for.
type VectorSurface interface {
	// Translate returns the body of the request for embeddings that a request asks for, as
	// Surface.Translate does for chats.
	Translate(m *Model, body []byte) ([]byte, error)
	// Append appends the answer. Beside the numbers of the vectors, of api.FloatSize bytes each at
	// most, it has at most 64 bytes for a vector and 1 KiB in all.
	Append(dst []byte, a *api.Embeddings) []byte
}

// AnswerBody answers a request of another interface with what answer makes of its body.
func (s *Service) AnswerBody(c *transport.Call, answer func(m *Model, body []byte) ([]byte, error)) {
	s.prepareJSON(c, func(_ context.Context, m *Model, in *input) ([]byte, error) { return answer(m, in.body) })
}

// Embed answers a request of another interface, as Embeddings does for its own.
func (s *Service) Embed(c *transport.Call, surface VectorSurface) {
	s.pool(c, func(ctx context.Context, m *Model, in *input) (*pooled, error) {
		body, err := surface.Translate(m, in.body)
		if err != nil {
			return nil, err
		}
		if !in.memory.translated(body) {
			return nil, context.Cause(ctx)
		}
		own := *in
		own.body, own.answer = body, surface.Append
		return s.prepareVectors(ctx, m, &own, "embd", api.DecodeEmbedding)
	})
}
