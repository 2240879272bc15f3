package trajectoryapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"weir/server/servertest"
)

// The rules and cases that comments name are those of docs/interface/trajectories.md.

// TestLogExample: a receipt, and the text comes back byte for byte (T-20, T-21, T#1).
func TestLogExample(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	body := servertest.ExampleLog(t)
	r := h.LogGroups(t, servertest.AgentPath, body)
	id, _ := r["id"].(string)
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("id %q", id)
	}
	if at, err := time.Parse(time.RFC3339Nano, r["received_at"].(string)); err != nil || time.Since(at) > time.Minute {
		t.Errorf("received_at %v", r["received_at"])
	}
	delete(r, "id")
	delete(r, "received_at")
	if want := (map[string]any{"object": "trajectory_log", "model_id": "m", "split": "train", "groups": 1.0, "trajectories": 1.0, "exceptions": 1.0, "bytes": float64(len(body)), "duplicate": false}); !reflect.DeepEqual(r, want) {
		t.Errorf("%v, want %v", r, want)
	}
	var in struct {
		Groups []struct {
			Trajectories []json.RawMessage
		} `json:"trajectory_groups"`
	}
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, in.Groups[0].Trajectories[0]); err != nil {
		t.Fatal(err)
	}
	status, answer, _ := h.Get("GET", servertest.AgentPath+"/trajectories/"+id+"/0/0", "")
	if status != 200 || !strings.HasSuffix(answer, `,"trajectory":`+want.String()+`}`) {
		t.Errorf("%d %s", status, answer)
	}
	m := servertest.Object(t, answer)
	if m["reward"] != 0.75 || m["id"] != id+"/0/0" || m["split"] != "train" || m["step"] != 12.0 || m["completion_tokens"] != 2.0 || m["start_time"] != nil {
		t.Errorf("%v", m)
	}
	if g := m["group"].(map[string]any); len(g["exceptions"].([]any)) != 1 || g["metrics"].(map[string]any)["judge_score"] != 0.9 {
		t.Errorf("%v", g)
	}
}

// TestLogExact: numbers, strings and unknown fields come back as they were sent (T-11, T#9,
// T#29).
func TestLogExact(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	text := `{"x":[1.0,1,1e2,9223372036854775807,123456789012345678901234567890,1e-400],"s":"\ud83d \/ é 😀","exchanges":{"chat_completions":[]},"auto_metrics":null,"reward":0.10}`
	r := h.LogGroups(t, servertest.AgentPath, servertest.Group(text))
	_, answer, _ := h.Get("GET", fmt.Sprintf("%s/trajectories/%s/0/0", servertest.AgentPath, r["id"]), "")
	if !strings.HasSuffix(answer, `"trajectory":`+text+`}`) {
		t.Errorf("%s", answer)
	}
	_, lines, _ := h.Get("GET", servertest.AgentPath+"/export", "")
	if !strings.HasSuffix(lines, `"trajectory":`+text+"}\n") {
		t.Errorf("%s", lines)
	}
	entries, _ := h.List(t, servertest.AgentPath+"/trajectories?include=raw")
	if raw := entries[0]["trajectory"].(map[string]any); raw["reward"] != 0.1 || entries[0]["messages"] != nil {
		t.Errorf("%v", entries[0])
	}
}

// TestLogAccepted: bodies of T#2 to T#4, T#8, T#10 to T#13, T#16.
func TestLogAccepted(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	for name, c := range map[string]struct {
		body                             string
		groups, trajectories, exceptions float64
	}{
		"2 empty":      {servertest.Group(`{}`), 1, 1, 0},
		"3 groups":     {`{"split":"s","trajectory_groups":[{},{"exceptions":[{"type":"t","message":"m","traceback":"b"}]}]}`, 2, 0, 1},
		"3 none":       {`{"split":"s","trajectory_groups":[]}`, 0, 0, 0},
		"4 nulls":      {servertest.Group(`{"messages_and_choices":[],"tools":null,"initial_policy_version":null,"final_policy_version":null,"start_time":null}`), 1, 1, 0},
		"8 split last": {`{"trajectory_groups":[{"trajectories":[{},{}]}],"split":"s"}`, 1, 2, 0},
		"10 metrics":   {servertest.Group(`{"metrics":{"a":true,"b":3,"c":2.5}}`), 1, 1, 0},
	} {
		r := h.LogGroups(t, servertest.AgentPath, c.body)
		if r["groups"] != c.groups || r["trajectories"] != c.trajectories || r["exceptions"] != c.exceptions {
			t.Errorf("%s: %v", name, r)
		}
	}
	entries, _ := h.List(t, servertest.AgentPath+"/trajectories?limit=1000")
	if len(entries) != 5 || entries[0]["reward"] != 0.0 {
		t.Errorf("%d entries", len(entries))
	}
	for _, split := range []string{"../../x", "a/b", "🦊", "train"} {
		body, _ := json.Marshal(map[string]any{"split": split, "trajectory_groups": []any{map[string]any{"trajectories": []any{map[string]any{}}}}})
		h.LogGroups(t, "/v1/preview/models/splits", string(body))
		entries, _ := h.List(t, "/v1/preview/models/splits/trajectories?split="+url.QueryEscape(split))
		if len(entries) != 1 || entries[0]["split"] != split {
			t.Errorf("%q: %v", split, entries)
		}
	}
}

// TestLogRefused: section 3 over HTTP. The form of the answer, its strings, and that nothing
// is stored (T#5 to T#7).
func TestLogRefused(t *testing.T) {
	h, l := servertest.NewTrajectories(t, nil)
	before := l.Keys(t, 'B') + l.Keys(t, 'D')
	for body, want := range map[string]string{
		``:                                  `{"detail":[{"loc":["body"],"msg":"Field required","type":"missing"}]}`,
		`[]`:                                `{"detail":[{"loc":["body"],"msg":"Input should be a valid dictionary or object to extract fields from","type":"model_attributes_type"}]}`,
		`{"split":`:                         `{"detail":[{"loc":["body","9"],"msg":"JSON decode error","type":"json_invalid"}]}`,
		servertest.Group(`{"reward":null}`): `{"detail":[{"loc":["body","trajectory_groups","0","trajectories","0","reward"],"msg":"Input should be a valid number","type":"float_type"}]}`,
		servertest.Group(`{},{"metrics":{"\"":"x"}}`):                      `{"detail":[{"loc":["body","trajectory_groups","0","trajectories","1","metrics","\""],"msg":"Input should be a valid number","type":"float_type"}]}`,
		servertest.Group(strings.Repeat(`{},`, 10_000) + `{"reward":"x"}`): `{"detail":[{"loc":["body","trajectory_groups","0","trajectories","10000","reward"],"msg":"Input should be a valid number","type":"float_type"}]}`,
	} {
		status, answer, header := h.Get("POST", servertest.AgentPath+"/log", body)
		if status != 422 || answer != want || header.Get("Content-Type") != "application/json" {
			t.Errorf("%.60s: %d %s, want %s", body, status, answer, want)
		}
	}
	if after := l.Keys(t, 'B') + l.Keys(t, 'D'); after != before {
		t.Errorf("%d keys more", after-before)
	}
	h.LogGroups(t, servertest.AgentPath, servertest.Group(`{}`)) // on the same connection
}

// TestLogEncodings: compressed bodies (T-4, T#26).
func TestLogEncodings(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.Config.Trajectories.MaxBody = 8 << 20 })
	body := servertest.ExampleLog(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, body)
	_ = z.Close()
	enc, _ := zstd.NewWriter(nil)
	packed := string(enc.EncodeAll([]byte(body), nil))
	for name, sent := range map[string]string{"gzip": zipped.String(), "x-gzip": zipped.String(), "GZIP": zipped.String(), "zstd": packed, "identity": body} {
		r := h.LogGroups(t, servertest.AgentPath, sent, "Content-Encoding: "+name)
		if r["bytes"] != float64(len(body)) {
			t.Errorf("%s: %v", name, r)
		}
	}
	for name, sent := range map[string]string{"identity": "\uFEFF" + body, "zstd": string(enc.EncodeAll([]byte("\uFEFF"+body), nil))} {
		if r := h.LogGroups(t, servertest.AgentPath, sent, "Content-Encoding: "+name); r["bytes"] != float64(len(body)) {
			t.Errorf("%s with a byte order mark: %v", name, r)
		}
	}
	var bomb bytes.Buffer
	z.Reset(&bomb)
	_, _ = io.WriteString(z, `{"x":"`)
	for range 6 {
		_, _ = io.WriteString(z, strings.Repeat("x", 1<<20))
	}
	_ = z.Close()
	zbomb := string(enc.EncodeAll([]byte(servertest.Group(`{"logs":["`+strings.Repeat("x", 6<<20)+`"]}`)), nil))
	big := string(enc.EncodeAll([]byte(servertest.Group(`{"logs":["`+strings.Repeat("x", 9<<20)+`"]}`)), nil))
	for _, c := range []struct {
		encoding, body string
		status         int
	}{
		{"br", body, 415}, {"gzip, gzip", body, 415}, {"deflate", body, 415},
		{"gzip", body, 400}, {"gzip", zipped.String()[:zipped.Len()-3], 400}, {"zstd", body, 400}, {"zstd", packed[:len(packed)-1], 400}, {"gzip", "", 400},
		{"gzip", bomb.String(), 413}, {"zstd", zbomb, 413}, {"zstd", big, 413},
	} {
		status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", c.body, "Content-Encoding: "+c.encoding)
		if status != c.status || !strings.HasPrefix(answer, `{"detail":"`) {
			t.Errorf("%s, %d bytes: %d %s, want %d", c.encoding, len(c.body), status, answer, c.status)
		}
	}
	for header, want := range map[string]int{"application/json; charset=utf-8": 200, "application/vnd.art+json": 200, "Application/JSON": 200, "text/plain": 415, "application/x-www-form-urlencoded": 415, "": 200} {
		if status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", body, "Content-Type: "+header); status != want {
			t.Errorf("%q: %d %s, want %d", header, status, answer, want)
		}
	}
}

// TestLogLimits: the limits of section 6.
func TestLogLimits(t *testing.T) {
	h, l := servertest.NewTrajectories(t, func(s *servertest.Setup) {
		s.Config.Trajectories.MaxBody = 4000
		s.Config.Trajectories.Limits.Trajectory = 1000
		s.Config.Trajectories.Limits.Trajectories = 5
	})
	for name, c := range map[string]struct{ body, want string }{
		"body":       {servertest.Group(strings.Repeat(`{"logs":[]},`, 400) + `{}`), `{"detail":"Request body too large (limit 4000 bytes)"}`},
		"trajectory": {servertest.Group(`{"logs":["` + strings.Repeat("x", 1000) + `"]}`), `{"detail":"Trajectory too large (limit 1000 bytes)"}`},
		"many":       {servertest.Group(`{},{},{},{},{},{}`), `{"detail":"Too many trajectories (limit 5)"}`},
	} {
		for _, chunked := range []bool{false, true} {
			var reader io.Reader = strings.NewReader(c.body)
			if chunked {
				reader = io.MultiReader(reader)
			}
			req, err := http.NewRequest("POST", "http://weir"+servertest.AgentPath+"/log", reader)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := h.Client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 413 || string(answer) != c.want {
				t.Errorf("%s, chunked %v: %d %s", name, chunked, resp.StatusCode, answer)
			}
		}
	}
	if n := l.Keys(t, 'B'); n != 0 {
		t.Errorf("%d batches", n)
	}
}

// TestLogReplays: idempotency, section 7 over HTTP (T#21, T#22).
func TestLogReplays(t *testing.T) {
	h, l := servertest.NewTrajectories(t, nil)
	body := servertest.Group(`{"reward":1}`)
	first := h.LogGroups(t, servertest.AgentPath, body, "Idempotency-Key: k 1")
	first["duplicate"] = true
	if r := h.LogGroups(t, servertest.AgentPath, body, "Idempotency-Key: k 1"); !reflect.DeepEqual(r, first) {
		t.Errorf("%v, want %v", r, first)
	}
	if status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", body+" ", "Idempotency-Key: k 1"); status != 409 || !strings.HasPrefix(answer, `{"detail":"`) {
		t.Errorf("%d %s", status, answer)
	}
	for _, key := range []string{strings.Repeat("k", 256), "ä"} {
		if status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", body, "Idempotency-Key: "+key); status != 422 || !strings.Contains(answer, `["header","Idempotency-Key"]`) {
			t.Errorf("%d %s", status, answer)
		}
	}
	if n := l.Keys(t, 'B'); n != 1 {
		t.Errorf("%d batches", n)
	}
	h.LogGroups(t, servertest.AgentPath, body)
	h.LogGroups(t, servertest.AgentPath, body)
	if n := l.Keys(t, 'B'); n != 3 {
		t.Errorf("%d batches", n)
	}
	// Many at a time with one key: one batch.
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", body, "Idempotency-Key: k 2"); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	all.Wait()
	if n := l.Keys(t, 'B'); n != 4 {
		t.Errorf("%d batches", n)
	}
}

// TestLogUnavailable: when memory or the store cannot take a log request, it is answered
// with 503.
func TestLogUnavailable(t *testing.T) {
	const limit = 24 << 20
	h, l := servertest.NewTrajectories(t, func(s *servertest.Setup) {
		s.Config.Memory, s.Config.MaxBody, s.Config.MaxBodies, s.Config.MemoryWait = limit, 1<<20, 4<<20, time.Millisecond
	})
	account := h.Instance.Transport().Memory()
	others, err := account.Reserve(t.Context(), limit-account.Stats().Used-(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	text := servertest.Group(`{"logs":["` + strings.Repeat("x", 1<<20) + `"]}`)
	status, answer, header := h.Get("POST", servertest.AgentPath+"/log", text)
	if status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("without room: %d %s", status, answer)
	}
	others.Release()
	for what, body := range map[string]string{
		"a text":        servertest.Group(`{"logs":["` + strings.Repeat("x", 12<<20) + `"]}`),
		"its facts":     servertest.Group(`{"metrics":{` + strings.Repeat(`"":1,`, 200_000) + `"":1}}`),
		"of its group":  `{"split":"s","trajectory_groups":[{"metrics":{` + strings.Repeat(`"":1,`, 200_000) + `"":1}}]}`,
		"of many":       servertest.Group(`{}`, `{"logs":["`+strings.Repeat("x", 12<<20)+`"]}`),
		"what is wrong": servertest.Group(`{"reward":"","logs":["` + strings.Repeat("x", 12<<20) + `"]}`),
	} {
		if status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", body); status != 413 {
			t.Errorf("%s can never fit: %d %s", what, status, answer)
		}
	}
	h.LogGroups(t, servertest.AgentPath, text)
	servertest.WaitFor(t, "the memory of the log requests", func() bool { return h.Instance.Transport().Held().Memory == 0 })
	l.Close()
	status, answer, header = h.Get("POST", servertest.AgentPath+"/log", servertest.Group(`{}`))
	if status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", status, answer)
	}
	if status, _, _ := h.Get("GET", servertest.AgentPath+"/logs", ""); status != 503 {
		t.Errorf("%d", status)
	}
	h.Log.Reset() // errors were asked for
}
