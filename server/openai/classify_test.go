package openai_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"weir/engine"
	"weir/pooling"
	"weir/server/servertest"
)

// TestR8Classes: a number for each class and the name of the greatest.
func TestR8Classes(t *testing.T) {
	t.Parallel()
	plan := head(3, pooling.Softmax)
	for _, labels := range [][]string{{"bad", "fair", "go\"od"}, nil} {
		h := newEmbedder(t, func(s *servertest.Setup) { s.Model.Pooling, s.Model.Scoring.Labels = plan, labels })
		for _, more := range []map[string]any{{}, {"use_activation": false}, {"normalize": false}} {
			fields := map[string]any{"input": []any{"Hi", "Once upon a time", "seven"}}
			for k, v := range more {
				fields[k] = v
			}
			var got struct {
				ID, Object, Model string
				Data              []struct {
					Index      int
					Label      *string
					Probs      []float32
					NumClasses int `json:"num_classes"`
				}
				Usage map[string]any
			}
			h.post(t, "/classify", fields, &got)
			if len(got.Data) != 3 || got.Object != "list" || got.Model != "tiny" || !strings.HasPrefix(got.ID, "classify-") || got.Usage["prompt_tokens"] == 0. {
				t.Fatalf("%+v", got)
			}
			for i, d := range got.Data {
				want := plan.Apply(nil, h.pooled(t, servertest.Encode(fields["input"].([]any)[i].(string), true), engine.PoolLast), pooling.Options{Raw: len(more) > 0})
				best := slices.Index(want, slices.Max(want))
				if d.Index != i || d.NumClasses != 3 || !slices.Equal(d.Probs, want) || labels == nil && d.Label != nil || labels != nil && *d.Label != labels[best] {
					t.Errorf("%v: %+v, want %v", more, d, want)
				}
			}
		}
	}
}

// TestR9Pooling: vectors of a model that embeds, and numbers of one that classifies.
func TestR9Pooling(t *testing.T) {
	t.Parallel()
	plan := head(3, pooling.Softmax)
	hi := servertest.Encode("Hi", true)
	for name, h := range map[string]*testServer{"embed": newEmbedder(t, nil), "classify": newEmbedder(t, func(s *servertest.Setup) { s.Model.Pooling = plan })} {
		want := unit(h.pooled(t, hi, engine.PoolMean))
		if name == "classify" {
			want = plan.Apply(nil, h.pooled(t, hi, engine.PoolLast), pooling.Options{})
		}
		for _, task := range []any{nil, name} {
			for _, format := range []string{"float", "base64"} {
				var got struct {
					ID, Object string
					Data       []struct {
						Index  int
						Object string
						Data   json.RawMessage
					}
				}
				h.post(t, "/pooling", map[string]any{"input": "Hi", "task": task, "encoding_format": format}, &got)
				e := embedding{Embedding: got.Data[0].Data}
				if !strings.HasPrefix(got.ID, "pooling-") || got.Object != "list" || got.Data[0].Object != "pooling" || !slices.Equal(e.vector(t), want) || (format == "base64") != (e.Embedding[0] == '"') {
					t.Errorf("%s, task %v, %s: %+v, want %v", name, task, format, got, want)
				}
			}
		}
		for _, task := range []string{"embed", "classify", "token_embed", "token_classify", "plugin"} {
			if task == name {
				continue
			}
			status, answer, _ := h.Get("POST", "/pooling", `{"input":"Hi","task":"`+task+`"}`)
			servertest.Refused(t, status, answer, 400, "")
		}
	}
}

// TestScoreThatIsNoNumber: a score that JSON has no number for is a 500.
func TestScoreThatIsNoNumber(t *testing.T) {
	t.Parallel()
	h := newScorer(t, func(s *servertest.Setup) {
		p := head(1, pooling.Identity)
		p.Layers[0].B = []float32{float32(math.Inf(1))}
		s.Model.Pooling = p
	})
	for path, body := range map[string]string{"/score": `{"text_1":"a","text_2":"b"}`, "/classify": `{"input":"a"}`} {
		status, answer, _ := h.Get("POST", path, body)
		servertest.Refused(t, status, answer, 500, "")
	}
}
