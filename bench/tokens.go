package bench

import (
	"context"
	"io"
	"net/http"
	"time"

	"weir/internal/jsontext"
)

// bytesPerToken is a common mean of English text, for servers that do not count tokens.
const bytesPerToken = 4

// countLimit is how long a server may take to count the tokens of a text.
const countLimit = 10 * time.Second

// counter returns a function that says how many tokens a text has. It asks the server (POST /tokenize, as
// vLLM, weir and llama.cpp have it), and estimates once the server has not answered.
func (c *client) counter(ctx context.Context, model string) func(text string) int {
	asks := true
	return func(text string) int {
		if asks {
			n, ok := c.countTokens(ctx, model, text)
			if ok {
				return n
			}
			asks = false
		}
		return (len(text) + bytesPerToken - 1) / bytesPerToken
	}
}

func (c *client) countTokens(ctx context.Context, model, text string) (n int, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	body, err := jsontext.Encode(struct {
		Model   string `json:"model"`
		Prompt  string `json:"prompt"`
		Content string `json:"content"` // llama.cpp's name of it
		Special bool   `json:"add_special_tokens"`
	}{model, text, text, false})
	if err != nil {
		return 0, false
	}
	resp, err := c.request(ctx, c.fresh, http.MethodPost, "/tokenize", body)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
	var v struct {
		Tokens []jsontext.RawMessage `json:"tokens"`
	}
	if err != nil || resp.StatusCode != http.StatusOK || jsontext.Decode(answer, &v) != nil || v.Tokens == nil {
		return 0, false
	}
	return len(v.Tokens), true
}
