package openai_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/chat"
	"weir/engine"
	"weir/models"
	"weir/pooling"
	"weir/sampler"
	"weir/server/openai"
	"weir/server/servertest"
	"weir/server/transport"
	"weir/tokenizer"
)

// head makes a plan of one layer, which gives so many numbers, of the simulated network's vectors.
func head(labels int, activation pooling.Activation) *pooling.Plan {
	d := pooling.Dense{In: vectorSize, Out: labels, W: make([]float32, labels*vectorSize), Activation: activation}
	for i := range d.W {
		d.W[i] = float32(i%5) - 2
	}
	return &pooling.Plan{Hidden: vectorSize, Layers: []pooling.Dense{d}, Labels: labels}
}

// The tokens around texts of cross-encoders.
const begin, end = int32(servertest.EndOfText), int32(servertest.EndOfTurn)

// pairTokenizer is the tests' tokenizer with templates of BERT's kind.
var pairTokenizer = sync.OnceValue(func() *tokenizer.Tokenizer {
	data, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		panic(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		panic(err)
	}
	special := map[string]any{}
	piece := func(name string, kind int) map[string]any {
		return map[string]any{name: map[string]any{"id": map[string]string{"Sequence": string('A' + rune(kind)), "SpecialToken": "end"}[name], "type_id": kind}}
	}
	cls := map[string]any{"SpecialToken": map[string]any{"id": "begin"}}
	for name, id := range map[string]int32{"begin": begin, "end": end} {
		special[name] = map[string]any{"ids": []int32{id}}
	}
	single := []any{cls, piece("Sequence", 0), piece("SpecialToken", 0)}
	file["post_processor"] = map[string]any{"type": "TemplateProcessing", "single": single, "special_tokens": special, "pair": append(slices.Clone(single), piece("Sequence", 1), piece("SpecialToken", 1))}
	if data, err = json.Marshal(file); err != nil {
		panic(err)
	}
	tok, err := tokenizer.Load(data)
	if err != nil {
		panic(err)
	}
	return tok
})

// newScorer starts a server of a cross-encoder with one label.
func newScorer(t testing.TB, change func(*servertest.Setup)) *testServer {
	return newEmbedder(t, func(s *servertest.Setup) {
		s.Model.Tokenizer = pairTokenizer()
		s.Model.Pooling = head(1, pooling.Sigmoid)
		if change != nil {
			change(s)
		}
	})
}

// plain are the tokens of a text without those around it.
func plain(text string) []int32 { return servertest.Encode(text, false) }

// around are the tokens of a text with those around it.
func around(text string) []int32 { return slices.Concat([]int32{begin}, plain(text), []int32{end}) }

// pairOf are the tokens of two texts as pairTokenizer joins them.
func pairOf(a, b string) []int32 { return slices.Concat(around(a), plain(b), []int32{end}) }

// score is what the engine and the head of a cross-encoder give for a prompt.
func (h *testServer) score(t *testing.T, p *pooling.Plan, tokens []int32, o pooling.Options) float32 {
	t.Helper()
	return p.Apply(nil, h.pooled(t, tokens, engine.PoolLast), o)[0]
}

// decoded is the text of tokens.
func decoded(ids []int32) string {
	return servertest.Tokenizer().Decode(ids, tokenizer.DecodeOptions{})
}

type scores struct {
	ID, Object, Model string
	Created           int64
	Data              []struct {
		Index  int
		Object string
		Score  float32
	}
	Usage map[string]any
}

func (h *testServer) post(t *testing.T, path string, fields map[string]any, into any) {
	t.Helper()
	body, _ := json.Marshal(fields)
	status, answer, _ := h.Get("POST", path, string(body))
	if err := json.Unmarshal([]byte(answer), into); err != nil || status != 200 {
		t.Fatalf("%s %s: %d %v %s", path, body, status, err, answer)
	}
}

// TestR1R2Pairs (docs/interface/scoring.md): all names and forms of the two sides, one score for each pair in order.
func TestR1R2Pairs(t *testing.T) {
	t.Parallel()
	h := newScorer(t, nil)
	plan := head(1, pooling.Sigmoid)
	for _, c := range []struct {
		fields map[string]any
		want   [][2]string
	}{
		{map[string]any{"text_1": "Hi", "text_2": "a tale"}, [][2]string{{"Hi", "a tale"}}},
		{map[string]any{"queries": "Hi", "documents": []string{"a tale", "", "Hi"}}, [][2]string{{"Hi", "a tale"}, {"Hi", ""}, {"Hi", "Hi"}}},
		{map[string]any{"queries": []string{"Hi"}, "items": []any{"a tale", map[string]any{"text": "b", "title": 1}}}, [][2]string{{"Hi", "a tale"}, {"Hi", "b"}}},
		{map[string]any{"data_1": []any{"Hi", map[string]any{"text": "b"}}, "data_2": []string{"c", "d"}}, [][2]string{{"Hi", "c"}, {"b", "d"}}},
		{map[string]any{"text_1": "x", "text_2": "y", "queries": "Hi", "documents": "d"}, [][2]string{{"Hi", "d"}}},
		{map[string]any{"text_1": "x", "text_2": "y", "queries": "Hi"}, [][2]string{{"x", "y"}}},
	} {
		for _, path := range []string{"/score", "/v1/score"} {
			c.fields["model"] = "alias"
			var got scores
			h.post(t, path, c.fields, &got)
			if len(got.Data) != len(c.want) || got.Object != "list" || got.Model != "tiny" || !strings.HasPrefix(got.ID, "score-") || got.Created == 0 {
				t.Fatalf("%v: %+v", c.fields, got)
			}
			tokens := 0
			for i, pair := range c.want {
				ids := pairOf(pair[0], pair[1])
				tokens += len(ids)
				if d := got.Data[i]; d.Index != i || d.Object != "score" || d.Score != h.score(t, plan, ids, pooling.Options{}) {
					t.Errorf("%v: %+v", c.fields, d)
				}
			}
			if u := got.Usage; u["prompt_tokens"] != float64(tokens) || u["total_tokens"] != float64(tokens) || u["completion_tokens"] != 0. {
				t.Errorf("%v: usage %v for %d tokens", c.fields, u, tokens)
			}
		}
	}
}

type ranking struct {
	ID, Model string
	Usage     map[string]any
	Results   []struct {
		Index    int
		Document *map[string]any
		Score    float32 `json:"relevance_score"`
	}
}

// TestR3Ranking: the documents in the order of their scores, with top_n and return_documents.
func TestR3Ranking(t *testing.T) {
	t.Parallel()
	h := newScorer(t, nil)
	plan := head(1, pooling.Sigmoid)
	documents := []string{"a tale", "Paris", "<b>\"x\"</b>", "Paris", "seven"}
	want := make([]float32, len(documents))
	tokens := 0
	for i, d := range documents {
		ids := pairOf("Hi", d)
		want[i] = h.score(t, plan, ids, pooling.Options{})
		tokens += len(ids)
	}
	for i, path := range []string{"/rerank", "/v1/rerank", "/v2/rerank", "/rerank", "/rerank", "/rerank"} {
		fields := []map[string]any{{}, {"top_n": 2}, {"top_n": 99, "return_documents": true}, {"return_documents": false}, {"top_n": nil, "return_documents": nil}, {"top_n": 0}}[i]
		fields["query"], fields["documents"] = "Hi", documents
		n := len(documents)
		if fields["top_n"] == 2 {
			n = 2
		}
		var got ranking
		h.post(t, path, fields, &got)
		if len(got.Results) != n || !strings.HasPrefix(got.ID, "score-") || got.Model != "tiny" || got.Usage["prompt_tokens"] != float64(tokens) || got.Usage["total_tokens"] != float64(tokens) || len(got.Usage) != 2 {
			t.Fatalf("%v: %+v", fields, got)
		}
		for j, r := range got.Results {
			if r.Score != want[r.Index] || j > 0 && (r.Score > got.Results[j-1].Score || r.Score == got.Results[j-1].Score && r.Index < got.Results[j-1].Index) {
				t.Errorf("%v: result %d is %+v, want the scores %v", fields, j, r, want)
			}
			if shown := fields["return_documents"] != false; shown != (r.Document != nil) || shown && (*r.Document)["text"] != documents[r.Index] {
				t.Errorf("%v: result %d has the document %v", fields, j, r.Document)
			}
		}
	}
}

// TestR4Scores: a model that embeds gives the cosine of the vectors, and a cross-encoder its number, with the
// activation or without it.
func TestR4Scores(t *testing.T) {
	t.Parallel()
	vectors := newEmbedder(t, nil)
	a, b := vectors.pooled(t, servertest.Encode("Hi", true), engine.PoolMean), vectors.pooled(t, servertest.Encode("a tale", true), engine.PoolMean)
	dot, aa, bb := 0.0, 0.0, 0.0
	for i := range a {
		dot, aa, bb = dot+float64(a[i])*float64(b[i]), aa+float64(a[i])*float64(a[i]), bb+float64(b[i])*float64(b[i])
	}
	want := dot / math.Sqrt(aa*bb)
	var got scores
	vectors.post(t, "/score", map[string]any{"text_1": "Hi", "text_2": []string{"a tale", "Hi"}}, &got)
	if x, y := float64(got.Data[0].Score), float64(got.Data[1].Score); math.Abs(x-want) > 1e-6 || math.Abs(y-1) > 1e-6 || math.Abs(want) > 0.999 {
		t.Errorf("cosines %v and %v, want %v and 1", x, y, want)
	}
	if n := len(servertest.Encode("Hi", true))*2 + len(servertest.Encode("a tale", true)); got.Usage["prompt_tokens"] != float64(n) {
		t.Errorf("usage %v, want %d tokens", got.Usage, n)
	}
	vectors.post(t, "/score", map[string]any{"text_1": []string{"Hi", "a tale"}, "text_2": []string{"a tale", "a tale"}}, &got)
	if x, y := float64(got.Data[0].Score), float64(got.Data[1].Score); math.Abs(x-want) > 1e-6 || math.Abs(y-1) > 1e-6 {
		t.Errorf("each with its own: %v and %v, want %v and 1", x, y, want)
	}

	h := newScorer(t, nil)
	plan := head(1, pooling.Sigmoid)
	for _, on := range []any{true, false, nil} {
		h.post(t, "/score", map[string]any{"text_1": "Hi", "text_2": "a tale", "use_activation": on}, &got)
		if want := h.score(t, plan, pairOf("Hi", "a tale"), pooling.Options{Raw: on == false}); got.Data[0].Score != want {
			t.Errorf("use_activation %v: %v, want %v", on, got.Data[0].Score, want)
		}
	}
}

// TestR5Forms: what a cross-encoder reads of a pair.
func TestR5Forms(t *testing.T) {
	t.Parallel()
	plan := head(1, pooling.Sigmoid)
	var got scores
	texts := newScorer(t, func(s *servertest.Setup) { s.Model.Scoring.Form = openai.PairTexts })
	texts.post(t, "/score", map[string]any{"text_1": []string{"Hi", "ab"}, "text_2": []string{" there", "c"}}, &got)
	for i, text := range []string{"Hi there", "abc"} {
		if want := texts.score(t, plan, around(text), pooling.Options{}); got.Data[i].Score != want {
			t.Errorf("one behind the other, %q: %v, want %v", text, got.Data[i].Score, want)
		}
	}
	const template = `{{ instruction | default("judge") }}{{ more }}: {% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}{% if add_generation_prompt %}!{% endif %}`
	renderer, err := chat.New(chat.Config{Templates: []chat.Template{{Source: template}}})
	if err != nil {
		t.Fatal(err)
	}
	rendered := newScorer(t, func(s *servertest.Setup) {
		s.Model.Scoring.Form = openai.PairRendered
		s.Model.Chat = renderer
	})
	for _, c := range []struct {
		fields map[string]any
		want   string
	}{
		{map[string]any{}, "judge: query=Hi;document=a tale;"},
		{map[string]any{"instruction": "rate \"it\""}, "rate \"it\": query=Hi;document=a tale;"},
		{map[string]any{"instruction": "rate", "chat_template_kwargs": map[string]any{}}, "rate: query=Hi;document=a tale;"},
		{map[string]any{"instruction": "rate", "chat_template_kwargs": map[string]any{"more": " more"}}, "rate more: query=Hi;document=a tale;"},
		{map[string]any{"instruction": "rate", "chat_template_kwargs": map[string]any{"instruction": "weigh"}}, "weigh: query=Hi;document=a tale;"},
	} {
		c.fields["text_1"], c.fields["text_2"] = "Hi", "a tale"
		rendered.post(t, "/score", c.fields, &got)
		if want := rendered.score(t, plan, around(c.want), pooling.Options{}); got.Data[0].Score != want || got.Usage["prompt_tokens"] != float64(len(around(c.want))) {
			t.Errorf("%v: %+v, want %v", c.fields, got, want)
		}
	}
}

// TestR5Prompts: what a model's files say of its pairs, which requests may override where it is arguments.
func TestR5Prompts(t *testing.T) {
	t.Parallel()
	plan := head(1, pooling.Sigmoid)
	const template = `{{ a }}{{ b }}: {% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}{% if add_generation_prompt %}!{% endif %}`
	renderer, err := chat.New(chat.Config{Templates: []chat.Template{{Source: template}}})
	if err != nil {
		t.Fatal(err)
	}
	sc := openai.Scoring{Form: openai.PairRendered, Prompt: "judge", Kwargs: []byte(` {"a": "A", "b": "B"} `), Generation: true}
	h := newScorer(t, func(s *servertest.Setup) { s.Model.Chat, s.Model.Scoring = renderer, sc })
	for kwargs, want := range map[string]string{
		"null": "AB", "{}": "AB", ` { } `: "AB", `{"b":"C"}`: "AC", ` {"a":"x","c":1} `: "xB",
	} {
		var got scores
		h.post(t, "/score", map[string]any{"text_1": "Hi", "text_2": "a tale", "chat_template_kwargs": json.RawMessage(kwargs)}, &got)
		text := want + ": system=judge;query=Hi;document=a tale;!"
		if want := h.score(t, plan, around(text), pooling.Options{}); got.Data[0].Score != want {
			t.Errorf("%s: %+v, want %v", kwargs, got, want)
		}
	}
	for form, want := range map[openai.PairForm][]int32{openai.PairTexts: around("judge Hia tale"), openai.PairJoined: pairOf("judge Hi", "a tale")} {
		h := newScorer(t, func(s *servertest.Setup) { s.Model.Scoring = openai.Scoring{Form: form, Prompt: "judge "} })
		var got scores
		h.post(t, "/score", map[string]any{"text_1": "Hi", "text_2": "a tale"}, &got)
		if want := h.score(t, plan, want, pooling.Options{}); got.Data[0].Score != want {
			t.Errorf("form %d: %+v, want %v", form, got, want)
		}
	}
}

// TestR5Types: an encoder with token types gets them, and one without them does not; they are cut with the tokens.
func TestR5Types(t *testing.T) {
	t.Parallel()
	plan := head(1, pooling.Sigmoid)
	ids := pairOf("one two three", "four five")
	types := slices.Concat(make([]int32, len(around("one two three"))), slices.Repeat([]int32{1}, len(ids)-len(around("one two three"))))
	for _, known := range []int{0, 1, 2} {
		h := newScorer(t, func(s *servertest.Setup) { s.Spec.Whole, s.Model.Scoring.Types = true, known })
		for _, c := range []struct {
			side  any
			first int
		}{{nil, 0}, {"left", len(ids) - 4}} {
			fields := map[string]any{"text_1": "one two three", "text_2": "four five"}
			if c.side != nil {
				fields["truncate_prompt_tokens"], fields["truncation_side"] = 4, c.side
			}
			var got scores
			h.post(t, "/score", fields, &got)
			want := map[bool]float32{}
			for _, typed := range []bool{false, true} {
				r := engine.Request{Tokens: ids[c.first:], Pool: engine.PoolLast, Sampling: sampler.DefaultParams()}
				if typed {
					r.Types = types[c.first:]
				}
				want[typed] = plan.Apply(nil, h.pooledBy(t, r), pooling.Options{})[0]
			}
			if want[true] == want[false] || got.Data[0].Score != want[known == 2] {
				t.Errorf("%d types, side %v: %v, want one of %v", known, c.side, got.Data[0].Score, want)
			}
		}
	}
}

// TestR6R7Cuts: pairs of the whole context are taken, longer ones refused or cut.
func TestR6R7Cuts(t *testing.T) {
	t.Parallel()
	plan := head(1, pooling.Sigmoid)
	h := newScorer(t, nil)
	query, document := plain("one two three"), plain("four five six seven eight nine")
	if len(query) < 3 || len(document) < 6 {
		t.Fatalf("texts of %d and %d tokens", len(query), len(document))
	}
	join := func(q, d int) []int32 {
		return slices.Concat([]int32{begin}, query[:q], []int32{end}, document[:d], []int32{end})
	}
	whole := join(len(query), len(document))
	n := len(whole)
	for _, c := range []struct {
		fields map[string]any
		want   []int32
	}{
		{map[string]any{}, whole},
		{map[string]any{"truncate_prompt_tokens": n}, whole},
		{map[string]any{"truncate_prompt_tokens": -1}, whole},
		{map[string]any{"truncate_prompt_tokens": n - 1}, join(len(query), len(document)-1)},
		{map[string]any{"truncate_prompt_tokens": 6}, join(1, 2)},
		{map[string]any{"truncate_prompt_tokens": 5}, join(1, 1)},
		{map[string]any{"truncate_prompt_tokens": 3}, join(0, 0)},
		{map[string]any{"truncate_prompt_tokens": 1}, []int32{begin}},
		{map[string]any{"truncate_prompt_tokens": 5, "truncation_side": "left"}, whole[n-5:]},
		{map[string]any{"truncate_prompt_tokens": 5, "truncation_side": "right"}, whole[:5]},
		{map[string]any{"truncate_prompt_tokens": 6, "truncation_side": nil}, join(1, 2)},
		{map[string]any{"max_tokens_per_query": 2, "max_tokens_per_doc": 0}, join(2, len(document))},
		{map[string]any{"max_tokens_per_query": 2, "max_tokens_per_doc": 1, "truncate_prompt_tokens": 900}, join(2, 1)},
	} {
		c.fields["text_1"], c.fields["text_2"] = "one two three", "four five six seven eight nine"
		var got scores
		h.post(t, "/score", c.fields, &got)
		if want := h.score(t, plan, c.want, pooling.Options{}); got.Data[0].Score != want || got.Usage["prompt_tokens"] != float64(len(c.want)) {
			t.Errorf("%v: %+v, want %v of %d tokens", c.fields, got, want, len(c.want))
		}
	}
	// Texts of models that embed, and pairs that are one text, are cut at their ends.
	var got scores
	texts := newScorer(t, func(s *servertest.Setup) { s.Model.Scoring.Form = openai.PairTexts })
	for _, c := range []struct {
		fields map[string]any
		want   []int32
	}{
		{map[string]any{"truncate_prompt_tokens": 3}, slices.Concat(around("one two three four")[:2], []int32{end})},
		{map[string]any{"max_tokens_per_query": 2, "max_tokens_per_doc": 1}, around(decoded(query[:2]) + decoded(document[:1]))},
	} {
		c.fields["text_1"], c.fields["text_2"] = "one two three", "four five six seven eight nine"
		texts.post(t, "/score", c.fields, &got)
		if want := texts.score(t, plan, c.want, pooling.Options{}); got.Data[0].Score != want {
			t.Errorf("one text, %v: %+v, want %v", c.fields, got, want)
		}
	}
	vectors := newEmbedder(t, nil)
	var cut, short scores
	vectors.post(t, "/score", map[string]any{"text_1": "one two three", "text_2": "four five six", "truncate_prompt_tokens": 2}, &cut)
	vectors.post(t, "/score", map[string]any{"text_1": decoded(query[:2]), "text_2": decoded(document[:2])}, &short)
	if cut.Data[0].Score != short.Data[0].Score || cut.Usage["prompt_tokens"] != 4. {
		t.Errorf("a model that embeds: %+v, want %+v", cut, short)
	}
	long := strings.Repeat("word ", 600)
	for _, path := range []string{"/score", "/rerank"} {
		body, _ := json.Marshal(map[string]any{"text_1": long, "text_2": long, "query": long, "documents": long})
		status, answer, _ := h.Get("POST", path, string(body))
		if f := servertest.Refused(t, status, answer, 400, "input_tokens"); !strings.Contains(f.Message, "maximum context length is 1024") {
			t.Error(f.Message)
		}
	}
	h.post(t, "/score", map[string]any{"text_1": long, "text_2": long, "truncate_prompt_tokens": -1}, &got)
	if got.Usage["prompt_tokens"] != 1024. {
		t.Errorf("cut to the context: %v", got.Usage)
	}
}

// TestR10Refusals: what is refused, before anything is computed.
func TestR10Refusals(t *testing.T) {
	t.Parallel()
	h := newScorer(t, nil)
	many := strings.Repeat(`"a",`, 2048) + `"a"`
	for _, c := range []struct {
		path, body string
		status     int
		param      string
		text       string
	}{
		{"/score", `{}`, 400, "", "queries: field required"},
		{"/score", `{"text_1":"a"}`, 400, "", "text_2: field required"},
		{"/score", `{"data_2":"a","text_1":"b"}`, 400, "", "data_1: field required"},
		{"/score", `{"text_1":[],"text_2":"a"}`, 400, "", "text_1: must not be empty"},
		{"/score", `{"text_1":"a","text_2":[]}`, 400, "", "text_2: must not be empty"},
		{"/score", `{"text_1":["a","b"],"text_2":"a"}`, 400, "", "1:1, 1:N or N:N"},
		{"/score", `{"text_1":["a","b"],"text_2":["a","b","c"]}`, 400, "", "1:1, 1:N or N:N"},
		{"/score", `{"text_1":1,"text_2":"a"}`, 400, "", "text_1: must be a string or an object"},
		{"/score", `{"text_1":"a","text_2":["a",[]]}`, 400, "", "text_2[1]: must be a string or an object"},
		{"/score", `{"text_1":"a","text_2":{"content":[]}}`, 400, "", "text_2: has no text"},
		{"/score", `{"text_1":"a","text_2":{"text":1}}`, 400, "", "text_2.text: must be a string"},
		{"/score", `{"text_1":null,"text_2":"a"}`, 400, "", "text_1: must not be null"},
		{"/score", `{"text_1":"a","text_2":[` + many + `]}`, 400, "", "2048"},
		{"/score", `{"text_1":"a","text_2":"a","max_tokens_per_doc":-1}`, 400, "", "0 or more"},
		{"/score", `{"text_1":"a","text_2":"a","max_tokens_per_doc":1024}`, 400, "", "max_tokens_per_doc: must be less"},
		{"/score", `{"text_1":"a","text_2":"a","max_tokens_per_query":1024}`, 400, "", "max_tokens_per_query: must be less"},
		{"/score", `{"text_1":"a","text_2":"a","instruction":1}`, 400, "", "instruction"},
		{"/score", `{"text_1":"a","text_2":"a","priority":1}`, 400, "priority", "Priority scheduling is not enabled"},
		{"/score", `{"text_1":"a","text_2":"a","model":"other"}`, 404, "model", "does not exist"},
		{"/score", `{"text_1":"a","text_2":"a","truncate_prompt_tokens":1025}`, 400, "truncate_prompt_tokens", "cannot be greater"},
		{"/score", `{"text_1":"a","text_2":"a","truncate_prompt_tokens":0}`, 400, "", ""},
		{"/score", `{"text_1":"a","text_2":"a","request_id":"` + strings.Repeat("x", 513) + `"}`, 400, "request_id", "512 bytes"},
		{"/rerank", `{"documents":["a"]}`, 400, "", "query: field required"},
		{"/rerank", `{"query":"a"}`, 400, "", "documents: field required"},
		{"/rerank", `{"query":["a"],"documents":["a"]}`, 400, "", "query: must be a string or an object"},
		{"/rerank", `{"query":"a","documents":[]}`, 400, "", "documents: must not be empty"},
		{"/rerank", `{"query":"a","documents":["a"],"top_n":-1}`, 400, "", "top_n: must be 0 or more"},
		{"/rerank", `{"query":"a","documents":["a"],"return_documents":"maybe"}`, 400, "", "return_documents: must be a boolean"},
		{"/classify", `{}`, 400, "", "input: field required"},
		{"/classify", `{"input":[""]}`, 400, "", "input[0]: must not be empty"},
		{"/pooling", `{"input":"a","task":"score"}`, 400, "", "task: must be 'embed'"},
		{"/pooling", `{"input":"a","dimensions":1}`, 400, "dimensions", "cannot be cut"},
	} {
		status, answer, _ := h.Get("POST", c.path, c.body)
		if f := servertest.Refused(t, status, answer, c.status, c.param); !strings.Contains(f.Message, c.text) {
			t.Errorf("%s %.80s: %s", c.path, c.body, f.Message)
		}
	}
	status, answer, _ := h.Get("POST", "/rerank", `{"query":"`+strings.Repeat("a", 20<<10)+`","documents":[`+many[len(`"a",`):]+`]}`)
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "all pairs") {
		t.Error(f.Message)
	}
	vectors := newEmbedder(t, nil)
	status, answer, _ = vectors.Get("POST", "/rerank", `{"query":"a","documents":[`+many[len(`"a",`):]+`]}`)
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "2049 texts") {
		t.Error(f.Message)
	}
	status, answer, _ = vectors.Get("POST", "/score", `{"text_1":"a","text_2":"b","truncate_prompt_tokens":0}`)
	servertest.Refused(t, status, answer, 400, "")
	if s, v := h.Engine.Stats(), vectors.Engine.Stats(); s.Steps != 0 || v.Steps != 0 {
		t.Errorf("%d and %d steps were computed", s.Steps, v.Steps)
	}
}

// TestK25R11Tasks: which models answer which functions.
func TestK25R11Tasks(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"/score": `{"text_1":"a","text_2":"b"}`, "/v1/score": `{"text_1":"a","text_2":"b"}`, "/rerank": `{"query":"a","documents":["b"]}`, "/v1/rerank": `{"query":"a","documents":["b"]}`,
		"/v2/rerank": `{"query":"a","documents":["b"]}`, "/classify": `{"input":"a"}`, "/pooling": `{"input":"a"}`, embeddingPath: `{"input":"a"}`, "/v1/completions": servertest.TextBody(t, nil),
	}
	scoring := []string{"/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank"}
	for _, c := range []struct {
		name    string
		h       *testServer
		answers []string
	}{
		{"generates", newServer(t, nil), []string{"/v1/completions"}},
		{"embeds", newEmbedder(t, nil), append([]string{"/pooling", embeddingPath}, scoring...)},
		{"scores", newScorer(t, nil), append([]string{"/pooling", "/classify"}, scoring...)},
		{"classifies", newEmbedder(t, func(s *servertest.Setup) { s.Model.Pooling = head(3, pooling.Softmax) }), []string{"/pooling", "/classify"}},
	} {
		for path, body := range bodies {
			status, answer, _ := c.h.Get("POST", path, body)
			if slices.Contains(c.answers, path) {
				if status != 200 {
					t.Errorf("a model that %s, %s: %d %s", c.name, path, status, answer)
				}
			} else if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "does not support") {
				t.Errorf("a model that %s, %s: %s", c.name, path, f.Message)
			}
		}
	}
}

// TestR12Counts: the query counts with each document that is read with it.
func TestR12Counts(t *testing.T) {
	t.Parallel()
	query, documents := len(plain("Hi")), len(plain("a tale"))+len(plain("b"))
	for name, c := range map[string]struct {
		h    *testServer
		want int
	}{"cross-encoder": {newScorer(t, nil), 2*query + documents + 2*3}, "model that embeds": {newEmbedder(t, nil), query + documents}} {
		var got ranking
		c.h.post(t, "/rerank", map[string]any{"query": "Hi", "documents": []string{"a tale", "b"}}, &got)
		_, text, _ := c.h.Get("GET", "/metrics", "")
		line := fmt.Sprintf(`vllm:prompt_tokens_total{engine="0",model_name="tiny"} %d`, c.want)
		_, usage, _ := c.h.Get("GET", "/usage", "")
		counts := fmt.Sprintf(`"requests":1,"prompt_tokens":%d,"cached_tokens":0,"completion_tokens":0`, c.want)
		if got.Usage["prompt_tokens"] != float64(c.want) || !strings.Contains(text, line+"\n") || !strings.Contains(usage, counts) {
			t.Errorf("%s: %v, want %d tokens; %s", name, got.Usage, c.want, usage)
		}
	}
}

// TestR13ClientLeaves: the pairs of a client that has left are not computed further.
func TestR13ClientLeaves(t *testing.T) {
	t.Parallel()
	h := newScorer(t, func(s *servertest.Setup) { s.TCP = true }) // connections in memory are not watched
	held, release := h.HoldSteps()
	conn, err := h.Dial()
	if err != nil {
		t.Fatal(err)
	}
	body := `{"query":"Hi","documents":[` + strings.Repeat(`"a long tale",`, 300) + `"x"]}`
	fmt.Fprintf(conn, "POST /rerank HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	<-held
	conn.Close()
	left := servertest.Eventually(10*time.Second, func() bool { return h.Instance.Transport().Held() == (transport.Held{}) })
	release()
	if !left {
		t.Errorf("the client has left, but the server holds %+v", h.Instance.Transport().Held())
	}
	servertest.WaitFor(t, "the blocks", h.NoBlocks)
	if s := h.Engine.Stats(); s.Finished[engine.Aborted] == 0 {
		t.Errorf("%+v", s)
	}
}
