package openai_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/server/servertest"
)

// With stream_interval the first token comes at once, and then one event for that many; all
// events together say what a stream of single tokens says.
func TestK22StreamInterval(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.StreamInterval = 2 })
	for _, c := range []struct {
		asked any
		want  []int // tokens in the events of a choice of 12 tokens
	}{
		{nil, []int{1, 2, 2, 2, 2, 2, 1}}, {1, []int{1, 2, 2, 2, 2, 2, 1}}, {5, []int{1, 5, 5, 1}}, {11, []int{1, 11}}, {100, []int{1, 11}},
	} {
		fields := map[string]any{"stream_interval": c.asked, "max_tokens": 12, "ignore_eos": true, "return_token_ids": true, "logprobs": true, "top_logprobs": 2,
			"n": 2, "temperature": 1, "seed": 5, "stop": []string{"never said"}, "stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}}
		chunks := h.Streamed(t, fields)
		delete(fields, "stream_options")
		whole := h.Complete(t, fields)
		sizes, ids, tops, texts := make([][]int, 2), make([][]int32, 2), make([]string, 2), make([]string, 2)
		for _, chunk := range chunks {
			if len(chunk.Choices) == 0 || chunk.Choices[0].Delta["role"] != nil {
				continue
			}
			p := chunk.Choices[0]
			i := p.Index
			sizes[i], ids[i], texts[i] = append(sizes[i], len(p.TokenIDs)), append(ids[i], p.TokenIDs...), texts[i]+servertest.Text(chunk)
			tops[i] += fmt.Sprint(p.Logprobs.Content)
			if chunk.Usage.Completion != len(ids[i]) {
				t.Errorf("%v: %d tokens after %d", c.asked, chunk.Usage.Completion, len(ids[i]))
			}
		}
		for i, w := range whole.Choices {
			if !slices.Equal(sizes[i], c.want) {
				t.Errorf("stream_interval %v: events of %v tokens, want %v", c.asked, sizes[i], c.want)
			}
			if all := fmt.Sprint(w.Logprobs.Content); !slices.Equal(ids[i], w.TokenIDs) || texts[i] != *w.Message.Content || strings.ReplaceAll(tops[i], "][", " ") != all {
				t.Errorf("stream_interval %v: %v %q %s\nwant %v %q %s", c.asked, ids[i], texts[i], tops[i], w.TokenIDs, *w.Message.Content, all)
			}
		}
	}
}

// The interval in completions, with an echo in the first event; its bound, and wrong ones.
func TestK22StreamIntervalElsewhere(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	fields := map[string]any{"prompt": "Once upon", "echo": true, "logprobs": 1, "max_tokens": 9, "ignore_eos": true, "stream_interval": 4}
	whole := h.texts(t, fields).Choices[0]
	chunks, _ := h.streamedTexts(t, fields)
	got := joinTexts(chunks, 1)[0]
	if len(chunks) != 3 || got.Text != whole.Text || !reflect.DeepEqual(got.Logprobs, whole.Logprobs) {
		t.Errorf("%d events: %+v, want %+v", len(chunks), got, whole)
	}
	// What is gathered is bounded, however long the interval.
	most := 0
	for _, chunk := range h.Streamed(t, map[string]any{"stream_interval": 1 << 40, "max_tokens": 900, "ignore_eos": true, "logprobs": true, "top_logprobs": 20}) {
		if l := chunk.Choices[0].Logprobs; l != nil {
			most = max(most, len(l.Content))
		}
	}
	if most < 200 || most > 450 {
		t.Errorf("an event has up to %d tokens", most)
	}
	for _, bad := range []any{0, -1, 1.5, "x"} {
		status, answer := h.Chat(map[string]any{"stream_interval": bad})
		servertest.Refused(t, status, answer, 400, "-")
	}
}
