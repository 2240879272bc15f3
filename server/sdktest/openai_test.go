package sdktest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"weir/backend/sim"
	"weir/server"
)

// OpenAI's own client against a listening server: what it cannot read, no program that
// uses it can.

func sdk(h *testServer, options ...option.RequestOption) openai.Client {
	all := []option.RequestOption{option.WithBaseURL("http://" + h.addr + "/v1"), option.WithAPIKey("k"), option.WithMaxRetries(0)}
	return openai.NewClient(append(all, options...)...)
}

func question(n int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:       "tiny",
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")},
		MaxTokens:   openai.Int(n),
		Temperature: openai.Float(0),
		Logprobs:    openai.Bool(true),
		TopLogprobs: openai.Int(2),
	}
}

func serverWithKey(t *testing.T) *testServer {
	return newServer(t, true, func(cfg *server.Config) { cfg.APIKeys = []string{"k"} })
}

func TestSDKCompleteAndStream(t *testing.T) {
	h := serverWithKey(t)
	c := sdk(h)
	ctx := context.Background()
	whole, err := c.Chat.Completions.New(ctx, question(8))
	if err != nil {
		t.Fatal(err)
	}
	choice := whole.Choices[0]
	if choice.Message.Content == "" || choice.FinishReason != "length" || whole.Usage.CompletionTokens != 8 || len(choice.Logprobs.Content) != 8 ||
		len(choice.Logprobs.Content[0].TopLogprobs) != 2 || choice.Logprobs.Content[0].Bytes == nil {
		t.Errorf("%+v", whole)
	}

	params := question(8)
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	var acc openai.ChatCompletionAccumulator
	chunks := 0
	for stream.Next() {
		chunks++
		if !acc.AddChunk(stream.Current()) {
			t.Fatalf("not a chunk of this answer: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	got := acc.Choices[0]
	if got.Message.Content != choice.Message.Content || got.FinishReason != choice.FinishReason || acc.Usage.CompletionTokens != 8 ||
		acc.Usage.PromptTokens != whole.Usage.PromptTokens || len(got.Logprobs.Content) != 8 || chunks != 1+8+1 {
		t.Errorf("%d chunks: %+v\nwant %+v", chunks, acc.ChatCompletion, whole)
	}

	list, err := c.Models.List(ctx)
	if err != nil || len(list.Data) != 2 || list.Data[0].ID != "tiny" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestSDKWarnings: the client reads an answer with the field warnings, which OpenAI's has not.
func TestSDKWarnings(t *testing.T) {
	c := sdk(serverWithKey(t))
	ctx := context.Background()
	params := question(40)
	params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "x", Schema: map[string]any{"type": "string", "format": "path", "maxLength": 3}},
	}}
	const want = `["the format \"path\" is not enforced: JSON Schema does not define it (at /format)"]`
	whole, err := c.Chat.Completions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	if got := whole.JSON.ExtraFields["warnings"].Raw(); got != want || len(whole.Choices) != 1 {
		t.Errorf("warnings %s: %s", got, whole.RawJSON())
	}
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	var acc openai.ChatCompletionAccumulator
	for first := true; stream.Next(); first = false {
		chunk := stream.Current()
		if !acc.AddChunk(chunk) {
			t.Fatalf("not a chunk of this answer: %s", chunk.RawJSON())
		}
		got, ok := chunk.JSON.ExtraFields["warnings"]
		if ok != first || first && got.Raw() != want {
			t.Errorf("warnings %s: %s", got.Raw(), chunk.RawJSON())
		}
	}
	if err := stream.Err(); err != nil || acc.Choices[0].Message.Content != whole.Choices[0].Message.Content {
		t.Errorf("%v: %+v, want %+v", err, acc.ChatCompletion, whole)
	}
}

func TestSDKErrors(t *testing.T) {
	h := serverWithKey(t)
	ctx := context.Background()
	bad := question(8)
	bad.Temperature = openai.Float(3)
	unknown := question(8)
	unknown.Model = "nope"
	for name, c := range map[string]struct {
		client openai.Client
		params openai.ChatCompletionNewParams
		status int
		mind   string
	}{
		"bad value":     {sdk(h), bad, 400, "temperature must be in [0, 2]"},
		"unknown model": {sdk(h), unknown, 404, "The model `nope` does not exist."},
	} {
		client := c.client
		_, err := client.Chat.Completions.New(ctx, c.params)
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != c.status || !strings.Contains(e.Message, c.mind) {
			t.Errorf("%s: %v", name, err)
		}
		stream := client.Chat.Completions.NewStreaming(ctx, c.params)
		if stream.Next() || !errors.As(stream.Err(), &e) || e.StatusCode != c.status {
			t.Errorf("%s, streaming: %v", name, stream.Err())
		}
	}

	// The 401 body is the reference engine's, in which "error" is a string. This
	// client expects an object there; it fails all the same, with other words.
	stranger := sdk(h, option.WithAPIKey("x"))
	if _, err := stranger.Chat.Completions.New(ctx, question(8)); err == nil {
		t.Error("a wrong key opens")
	}

	// In the middle of a stream: an error, not a short answer.
	var steps atomic.Int32
	h.setHook(func(c sim.Call, _ int) error {
		if c == sim.End && steps.Add(1) == 4 {
			return errors.New("broken")
		}
		return nil
	})
	client := sdk(h)
	stream := client.Chat.Completions.NewStreaming(ctx, question(8))
	chunks := 0
	for stream.Next() {
		chunks++
	}
	var e *ssestream.StreamError
	if err := stream.Err(); chunks != 4 || !errors.As(err, &e) || !strings.Contains(err.Error(), "Internal server error") {
		t.Errorf("%d chunks, then %v", chunks, err)
	}
}

func TestSDKAbort(t *testing.T) {
	h := serverWithKey(t)
	h.setHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-time.After(2 * time.Millisecond)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	client := sdk(h)
	stream := client.Chat.Completions.NewStreaming(ctx, question(900))
	for range 3 {
		if !stream.Next() {
			t.Fatal(stream.Err())
		}
	}
	cancel()
	for stream.Next() {
	}
	if err := stream.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	waitFor(t, "all blocks", h.noBlocks)
	if n := h.eng.Stats().GenerationTokens; n > 800 {
		t.Errorf("%d tokens", n)
	}

	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Chat.Completions.New(ctx, question(900)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	waitFor(t, "all blocks", h.noBlocks)
}

// A server that still loads is asked again after what Retry-After says.
func TestSDKRetries(t *testing.T) {
	h := newServer(t, false, func(cfg *server.Config) { cfg.RetryAfter = time.Second })
	var tries atomic.Int32
	count := option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if tries.Add(1) == 1 && err == nil {
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" {
				t.Errorf("first try: %d, %v", resp.StatusCode, resp.Header)
			}
			if err := h.srv.SetModel(h.model); err != nil {
				t.Error(err)
			}
		}
		return resp, err
	})
	begin := time.Now()
	client := sdk(h, option.WithMaxRetries(2), count)
	whole, err := client.Chat.Completions.New(context.Background(), question(3))
	if err != nil || whole.Usage.CompletionTokens != 3 {
		t.Fatalf("%+v, %v", whole, err)
	}
	if d := time.Since(begin); tries.Load() != 2 || d < time.Second {
		t.Errorf("%d tries in %v", tries.Load(), d)
	}
}
