package openai_test

import (
	"encoding/json"
	"fmt"
	"maps"
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
			if task == name || task == "token_"+name {
				continue
			}
			status, answer, _ := h.Get("POST", "/pooling", `{"input":"Hi","task":"`+task+`"}`)
			servertest.Refused(t, status, answer, 400, "")
		}
	}
}

// eachVector applies f to each of the vectors that follow each other in all.
func eachVector(all []float32, f func(vector []float32) []float32) (out []float32) {
	for ; len(all) > 0; all = all[vectorSize:] {
		out = append(out, f(all[:vectorSize])...)
	}
	return out
}

// TestR9Tokens: with the tasks of tokens there is a vector, or there are the numbers of the classes, for each token of an input.
func TestR9Tokens(t *testing.T) {
	t.Parallel()
	texts := []string{"Hi", "Once upon a time"}
	plan := head(3, pooling.Softmax)
	pooler := head(3, pooling.Softmax)
	pooler.Layers = append([]pooling.Dense{{In: vectorSize, Out: vectorSize, W: make([]float32, vectorSize*vectorSize), Activation: pooling.Tanh}}, pooler.Layers...)
	pooler.Pooler = 1 // it makes every vector 0
	for _, c := range []struct {
		name, task string
		plan       *pooling.Plan
		more       map[string]any
		want       func(vector []float32) []float32
		columns    int
	}{
		{"embed", "token_embed", nil, nil, unit, vectorSize},
		{"embed, raw", "token_embed", nil, map[string]any{"use_activation": false}, func(v []float32) []float32 { return v }, vectorSize},
		{"embed, cut", "token_embed", nil, map[string]any{"dimensions": 3}, func(v []float32) []float32 { return unit(v[:3]) }, 3},
		{"classify", "token_classify", plan, nil, func(v []float32) []float32 { return plan.Apply(nil, v, pooling.Options{}) }, 3},
		{"classify, raw", "token_classify", plan, map[string]any{"use_activation": false}, func(v []float32) []float32 { return plan.Apply(nil, v, pooling.Options{Raw: true}) }, 3},
		{"classify without the pooler", "token_classify", pooler, nil, func(v []float32) []float32 { return plan.Apply(nil, v, pooling.Options{}) }, 3},
	} {
		h := newEmbedder(t, func(s *servertest.Setup) {
			if c.plan != nil {
				s.Model.Pooling = c.plan
			}
		})
		fields := map[string]any{"input": texts, "task": c.task}
		maps.Copy(fields, c.more)
		var got struct {
			Data []struct {
				Index  int
				Object string
				Data   [][]float32
			}
		}
		h.post(t, "/pooling", fields, &got)
		fields["encoding_format"] = "bytes"
		body, _ := json.Marshal(fields)
		status, answer, headers := h.Get("POST", "/pooling", string(body))
		if status != 200 || len(got.Data) != 2 {
			t.Fatalf("%s: %d, %+v", c.name, status, got)
		}
		at := 0
		for i, text := range texts {
			tokens := servertest.Encode(text, true)
			all := h.pooled(t, tokens, engine.PoolAll)
			if len(got.Data[i].Data) != len(tokens) || got.Data[i].Index != i || got.Data[i].Object != "pooling" {
				t.Fatalf("%s: %+v for %d tokens", c.name, got.Data[i], len(tokens))
			}
			want := eachVector(all, c.want)
			coded := numbers([]byte(answer[at:min(len(answer), at+4*len(want))]), false)
			if rows := slices.Concat(got.Data[i].Data...); !slices.Equal(rows, want) || !slices.Equal(coded, want) {
				t.Fatalf("%s, input %d: %v and bytes of %v, want %v", c.name, i, rows, coded, want)
			}
			at += 4 * len(want)
			if shape := fmt.Sprintf(`"shape":[%d,%d]`, len(tokens), c.columns); !strings.Contains(headers.Get("Metadata"), shape) {
				t.Errorf("%s: %s does not have %s", c.name, headers.Get("Metadata"), shape)
			}
		}
		if at != len(answer) {
			t.Errorf("%s: %d bytes, want %d", c.name, len(answer), at)
		}
		fields["encoding_format"] = "base64"
		var coded struct{ Data []struct{ Data []byte } }
		h.post(t, "/pooling", fields, &coded)
		if string(slices.Concat(coded.Data[0].Data, coded.Data[1].Data)) != answer {
			t.Errorf("%s: base64 has other bytes", c.name)
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
