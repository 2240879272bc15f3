package ollamaapi_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/jsontext"
	"weir/pooling"
	"weir/server/openai"
	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TestRoot: whatever asks for no page is told what Ollama tells, without a key (O-1).
func TestRoot(t *testing.T) {
	h := servertest.New(t, func(s *servertest.Setup) { s.Config.APIKeys, s.Config.Functions.NoUI = []string{"k"}, true })
	for accept, want := range map[string]int{"": 200, "*/*": 200, "application/json, text/plain": 200, "text/html,application/xhtml+xml,*/*;q=0.8": 404} {
		status, answer, header := h.Get("GET", "/", "", "Accept: "+accept)
		if status != want || want == 200 && (answer != "Ollama is running" || !strings.HasPrefix(header.Get("Content-Type"), "text/plain")) {
			t.Errorf("%q: %d %s", accept, status, answer)
		}
	}
	if status, answer, _ := h.Get("HEAD", "/", ""); status != 200 || answer != "" {
		t.Errorf("HEAD: %d %s", status, answer)
	}
	if status, answer, _ := h.Get("POST", "/api/chat", "{}"); status != 401 || answer != `{"error":"Unauthorized"}` {
		t.Errorf("%d %s", status, answer)
	}
}

// TestModels: what is told of the model (O-50, O-51, O-52, O-53).
func TestModels(t *testing.T) {
	h := servertest.New(t, func(s *servertest.Setup) {
		s.Model.About = openai.About{Family: "Qwen3ForCausalLM", Format: "gguf", Quantization: "BFLOAT16", Parameters: 5_640_000, Bytes: 1234}
	})
	const details = `{"parent_model":"","format":"gguf","family":"qwen3","families":["qwen3"],"parameter_size":"5.64M","quantization_level":"BF16"}`
	for path, want := range map[string][]string{
		"/api/tags":    {`"name":"tiny:latest","model":"tiny:latest","size":1234,"digest":"`, `"details":` + details, `"modified_at":"2026-03-07T16:13:20Z"`, `"name":"alias:latest"`},
		"/api/ps":      {`"name":"tiny:latest"`, `"context_length":1024`, `"expires_at":"`},
		"/api/version": {`{"version":"0.`},
	} {
		status, answer, _ := h.Get("GET", path, "")
		for _, w := range want {
			if status != 200 || !strings.Contains(answer, w) || jsontext.Scan([]byte(answer), 10) != nil {
				t.Errorf("%s: %d %s, want %s", path, status, answer, w)
			}
		}
	}
	for _, body := range []string{`{"model":"tiny"}`, `{"name":"alias:latest"}`} {
		status, answer, _ := h.Get("POST", "/api/show", body, "Content-Type: application/x-www-form-urlencoded")
		if status != 200 || jsontext.Scan([]byte(answer), 10) != nil || !strings.Contains(answer, `"details":`+details+`,"model_info":{"general.architecture":"qwen3","general.parameter_count":5640000,"qwen3.context_length":1024,"qwen3.vocab_size":3584},"capabilities":["completion","tools","thinking"]`) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	for body, want := range map[string]int{`{"model":"x"}`: 404, `{}`: 400} {
		if status, answer, _ := h.Get("POST", "/api/show", body); status != want || !strings.HasPrefix(answer, `{"error":"`) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, answer, _ := h.Get("POST", "/api/pull", `{}`); status != 404 || answer != `{"error":"Not Found"}` {
		t.Errorf("%d %s", status, answer)
	}
}

// TestChatAndGenerate: whole answers and streams of lines have the same text; curl's content type is
// taken for JSON (O-2, O-4, O-10, O-20, O-30, O-31).
func TestChatAndGenerate(t *testing.T) {
	h := servertest.New(t, nil)
	for path, input := range map[string]string{"/api/chat": `"messages":[{"role":"user","content":"Hello"}]`, "/api/generate": `"prompt":"Hello"`} {
		ask := func(more string) (string, string) {
			status, answer, header := h.Get("POST", path, `{"model":"tiny:latest",`+input+`,"options":{"temperature":0,"num_predict":6,"mirostat":1}`+more+`}`, "Content-Type: application/x-www-form-urlencoded")
			if status != 200 || header.Get("X-Ignored-Fields") != "options.mirostat" {
				t.Fatalf("%d %v %s", status, header, answer)
			}
			return answer, header.Get("Content-Type")
		}
		text := func(v jsontext.Value) string {
			if m := v.Member("message"); m != nil {
				return m.Member("content").Text()
			}
			return v.Member("response").Text()
		}
		whole, media := ask(`,"stream":false`)
		v := jsontext.Value(whole)
		if media != "application/json" || v.Member("model").Text() != "tiny:latest" || string(v.Member("done")) != "true" || string(v.Member("eval_count")) != "6" || v.Member("done_reason").Text() != "length" || text(v) == "" {
			t.Errorf("%s %s", media, whole)
		}
		stream, media := ask("")
		got, lines := "", strings.Split(strings.TrimSuffix(stream, "\n"), "\n")
		for i, line := range lines {
			v := jsontext.Value(line)
			if err := jsontext.Scan(v, 10); err != nil || (string(v.Member("done")) == "true") != (i == len(lines)-1) {
				t.Errorf("line %d: %v: %s", i, err, line)
			}
			got += text(v)
		}
		if media != "application/x-ndjson" || got != text(v) || len(lines) < 3 {
			t.Errorf("%s %q, want %q\n%s", media, got, text(v), stream)
		}
	}
}

// TestContextAndRaw: a generation goes on from the tokens that an earlier one has returned, and a raw
// prompt is the whole prompt (O-20, O-21, O-22).
func TestContextAndRaw(t *testing.T) {
	h := servertest.New(t, nil)
	ask := func(more string) jsontext.Value {
		status, answer, _ := h.Get("POST", "/api/generate", `{"model":"tiny","options":{"num_predict":4,"seed":1},`+more+`}`)
		lines := strings.Split(strings.TrimSpace(answer), "\n")
		v := jsontext.Value(lines[len(lines)-1])
		if status != 200 || jsontext.Scan(v, 10) != nil {
			t.Fatalf("%d %s", status, answer)
		}
		return v
	}
	context := func(v jsontext.Value) (ids []int32) {
		for _, e := range v.Member("context").Elements() {
			id, _ := e.Float()
			ids = append(ids, int32(id))
		}
		return ids
	}
	const hello, next = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"
	one := ask(`"prompt":"Hello","stream":false`)
	prompt := len(servertest.Encode(hello, false))
	if n, _ := one.Member("prompt_eval_count").Float(); int(n) < prompt {
		t.Fatalf("%v tokens of prompt, want %d or more: %s", n, prompt, one)
	}
	first := context(one)
	if n, _ := one.Member("prompt_eval_count").Float(); len(first) != int(n)+4 {
		t.Errorf("%d tokens of context: %s", len(first), one)
	}
	fresh := context(ask(`"prompt":"And?"`))
	two := context(ask(`"prompt":"And?","context":` + string(one.Member("context"))))
	if want := append(first[:len(first):len(first)], fresh[:len(fresh)-4]...); len(two) != len(want)+4 || !slices.Equal(two[:len(want)], want) {
		t.Errorf("the context is\n%v, want\n%v and 4 tokens", two, want)
	}
	raw := ask(`"raw":true,"prompt":"` + strings.ReplaceAll(hello, "\n", `\n`) + `"`)
	if n, _ := raw.Member("prompt_eval_count").Float(); int(n) != len(servertest.Encode(hello, true)) || raw.Member("context") != nil {
		t.Errorf("%s", raw)
	}
	status, answer, _ := h.Get("POST", "/api/generate", `{"model":"tiny","prompt":"a","context":[99999]}`)
	if status != 400 || !strings.Contains(answer, "context.0") {
		t.Errorf("%d %s", status, answer)
	}
}

// TestNothingToGenerate: a request without a prompt loads or unloads, and what cannot be served is
// refused (O-20, O-30).
func TestNothingToGenerate(t *testing.T) {
	h := servertest.New(t, nil)
	for _, c := range []struct{ path, body, want string }{
		{"/api/chat", `{"model":"tiny","messages":[]}`, `"message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}`},
		{"/api/generate", `{"model":"tiny"}`, `"response":"","done":true,"done_reason":"load"}`},
		{"/api/generate", `{"model":"tiny","keep_alive":0}`, `"response":"","done":true,"done_reason":"unload"}`},
	} {
		if status, answer, _ := h.Get("POST", c.path, c.body); status != 200 || !strings.HasSuffix(answer, c.want) {
			t.Errorf("%s: %d %s", c.body, status, answer)
		}
	}
	if status, answer, _ := h.Get("POST", "/api/generate", `{"model":"x"}`); status != 404 || !strings.HasPrefix(answer, `{"error":"`) {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer, _ := h.Get("POST", "/api/chat", `{"model":"tiny","messages":[{"role":"user","content":"a"}],"options":{"top_p":2}}`); status != 400 || !strings.Contains(answer, "top_p") {
		t.Errorf("%d %s", status, answer)
	}
}

// TestDurations: the time until the first token is told apart from the rest, whole or streamed (O-30).
func TestDurations(t *testing.T) {
	h := servertest.New(t, nil)
	var seconds atomic.Int64
	h.SetClock(func() time.Time { return time.Unix(1_772_900_000+seconds.Add(1), 0) })
	for _, stream := range []string{"true", "false"} {
		_, answer, _ := h.Get("POST", "/api/generate", `{"model":"tiny","prompt":"Hi","stream":`+stream+`,"options":{"num_predict":3}}`)
		lines := strings.Split(strings.TrimSpace(answer), "\n")
		v := jsontext.Value(lines[len(lines)-1])
		total, _ := v.Member("total_duration").Float()
		prompt, _ := v.Member("prompt_eval_duration").Float()
		eval, _ := v.Member("eval_duration").Float()
		if prompt < 1e9 || eval < 1e9 || prompt+eval != total {
			t.Errorf("stream %s: %s", stream, v)
		}
	}
}

// TestVectors: /api/embed and /api/embeddings have the vectors of /v1/embeddings (O-60).
func TestVectors(t *testing.T) {
	h := servertest.New(t, func(s *servertest.Setup) {
		s.Spec.Hidden = 4
		s.Model.Pooling = &pooling.Plan{Hidden: 4, Normalize: true}
	})
	_, answer, _ := h.Get("POST", "/v1/embeddings", `{"input":["a","b c"]}`)
	var want []string
	for _, e := range jsontext.Value(answer).Member("data").Elements() {
		want = append(want, string(e.Member("embedding")))
	}
	for body, prefix := range map[string]string{
		`{"model":"tiny:latest","input":["a","b c"]}`: fmt.Sprintf(`{"model":"tiny:latest","embeddings":[%s,%s],"total_duration":`, want[0], want[1]),
		`{"model":"tiny","input":"a"}`:                fmt.Sprintf(`{"model":"tiny","embeddings":[%s],"total_duration":`, want[0]),
	} {
		status, answer, _ := h.Get("POST", "/api/embed", body, "Content-Type: application/x-www-form-urlencoded")
		if status != 200 || !strings.HasPrefix(answer, prefix) || !strings.Contains(answer, `,"load_duration":0,"prompt_eval_count":`) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, answer, _ := h.Get("POST", "/api/embeddings", `{"model":"tiny","prompt":"a"}`); status != 200 || answer != `{"embedding":`+want[0]+`}` {
		t.Errorf("%d %s", status, answer)
	}
	long := strings.Repeat("a ", 2000)
	if status, answer, _ := h.Get("POST", "/api/embed", `{"model":"tiny","input":"`+long+`"}`); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	for body, wantStatus := range map[string]int{`{"model":"tiny","input":"` + long + `","truncate":false}`: 400, `{"model":"x","input":"a"}`: 404, `{"model":"tiny"}`: 400, `{"model":"tiny","input":[1]}`: 400, `{"model":"tiny","input":"a","dimensions":3}`: 200} {
		if status, answer, _ := h.Get("POST", "/api/embed", body); status != wantStatus {
			t.Errorf("%.80s: %d %.200s", body, status, answer)
		}
	}
	if status, answer, _ := h.Get("POST", "/api/show", `{"model":"tiny"}`); status != 200 || !strings.Contains(answer, `"capabilities":["embedding"]`) {
		t.Errorf("%d %s", status, answer)
	}
}
