package sdktest

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"testing"

	"github.com/openai/openai-go/v3"

	"weir/pooling"
	"weir/server"
)

// TestSDKEmbeddings: the client reads vectors in both formats, which have the same bits, of texts and of tokens.
func TestSDKEmbeddings(t *testing.T) {
	h := newServer(t, false, func(cfg *server.Config) { cfg.APIKeys = []string{"k"} })
	h.model.Pooling = &pooling.Plan{Kind: pooling.Mean, Hidden: h.eng.Spec().Hidden, Normalize: true}
	if err := h.srv.SetModel(h.model); err != nil {
		t.Fatal(err)
	}
	c := sdk(h)
	ctx := context.Background()
	texts := openai.EmbeddingNewParams{Model: "tiny", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"Hi", "Once upon a time"}}, Dimensions: openai.Int(3)}
	plain, err := c.Embeddings.New(ctx, texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.Data) != 2 || plain.Data[1].Index != 1 || plain.Model != "tiny" || plain.Usage.PromptTokens == 0 || plain.Usage.TotalTokens != plain.Usage.PromptTokens {
		t.Fatalf("%+v", plain)
	}
	texts.EncodingFormat = openai.EmbeddingNewParamsEncodingFormatBase64
	packed, err := c.Embeddings.New(ctx, texts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plain.Data {
		v := plain.Data[i].Embedding
		b, err := base64.StdEncoding.DecodeString(packed.Data[i].JSON.Embedding.Raw()[1 : len(packed.Data[i].JSON.Embedding.Raw())-1])
		if err != nil || len(b) != 4*3 || len(v) != 3 {
			t.Fatalf("vector %d: %v, %d bytes, %v", i, v, len(b), err)
		}
		sum := 0.0
		for j, x := range v {
			if float32(x) != math.Float32frombits(binary.LittleEndian.Uint32(b[4*j:])) {
				t.Errorf("vector %d differs between the formats: %v", i, v)
			}
			sum += x * x
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("vector %d has the length %v", i, math.Sqrt(sum))
		}
	}
	ids, err := c.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "tiny", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfTokens: []int64{5, 6, 7}}})
	if err != nil || len(ids.Data) != 1 || ids.Usage.PromptTokens != 3 {
		t.Errorf("%+v, %v", ids, err)
	}
}
