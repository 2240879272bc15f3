package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"weir/api"
	"weir/internal/testkit"
)

// talker is a server that answers with thoughts, and from the third turn on with a text after them. It
// counts the words of a prompt as its tokens, and says that all are cached that the turn before had.
type talker struct {
	mu     sync.Mutex
	bodies []map[string]any
	last   map[string]int // words of the turn before, by the first message of the user
	fail   int            // turn that is refused; 0: none
}

func (s *talker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"data":[{"id":"talker"}]}`)
		return
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(err)
	}
	words, turn, first := 0, 0, ""
	for _, m := range body["messages"].([]any) {
		m := m.(map[string]any)
		words += len(strings.Fields(m["content"].(string)))
		if m["role"] == "user" {
			if turn++; turn == 1 {
				first = m["content"].(string)
			}
		}
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	cached := s.last[first]
	s.last[first] = words
	s.mu.Unlock()
	if turn == s.fail {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"message":"enough"}}`)
		return
	}
	fmt.Fprint(w, role, "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"hm\"}}]}\n\n")
	if turn >= 3 {
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"an an\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"swer\"}}]}\n\n")
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d},\"completion_tokens\":5}}\n\n%s", words, cached, api.Done)
}

func talk(t *testing.T, s *talker, change func(*ChatConfig)) *ChatReport {
	t.Helper()
	s.last = map[string]int{}
	server := httptest.NewServer(s)
	defer server.Close()
	c := DefaultChatConfig()
	c.BaseURL, c.Conversations, c.Turns, c.SystemLen, c.FirstLen, c.MessageLen, c.OutputLen, c.AnswerLen = server.URL, 3, 4, 7, 20, 10, 5, 8
	c.ExtraBody = []byte(`{"top_k": 3}`)
	if change != nil {
		change(&c)
	}
	r, err := RunChat(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestChat: each turn sends the whole history, in which an answer is its text without thoughts, or
// made-up words if there is none.
func TestChat(t *testing.T) {
	s := &talker{}
	r := talk(t, s, nil)
	if len(s.bodies) != 12 || len(r.Turns) != 4 || len(r.Errors) != 0 || r.Interrupted || r.Config.Model != "talker" {
		t.Fatalf("%d requests, %+v", len(s.bodies), r)
	}
	for i, want := range []Turn{
		{Answers: 3, Prompt: 27, New: 27, Completion: 5},
		{Answers: 3, Prompt: 45, New: 18, Cached: 27, Completion: 5},
		{Answers: 3, Prompt: 63, New: 18, Cached: 45, Completion: 5},
		{Answers: 3, Prompt: 75, New: 12, Cached: 63, Completion: 5}, // the answer has two words
	} {
		got := r.Turns[i]
		if len(got.TTFT) != 3 || len(got.E2EL) != 3 || got.TTFT[0] < 0 || got.E2EL[0] < got.TTFT[0] {
			t.Errorf("turn %d: %+v", i+1, got)
		}
		if got.TTFT, got.E2EL = nil, nil; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("turn %d: %+v, want %+v", i+1, got, want)
		}
	}
	checkHistories(t, s)
}

func checkHistories(t *testing.T, s *talker) {
	t.Helper()
	systems, longest := map[string]bool{}, 0
	for _, body := range s.bodies {
		list := body["messages"].([]any)
		longest = max(longest, len(list))
		for i, m := range list {
			m := m.(map[string]any)
			text := m["content"].(string)
			if want := []string{"user", "assistant"}[(i+1)%2]; i == 0 && m["role"] != "system" || i > 0 && m["role"] != want {
				t.Errorf("message %d is of %v", i, m["role"])
			}
			if i == 0 {
				systems[text] = true
			}
			if strings.Contains(text, "hm") || (i == 6) != (text == "an answer") {
				t.Errorf("message %d: %q", i, text)
			}
		}
		if body["max_completion_tokens"] != 5.0 || body["top_k"] != 3.0 || body["model"] != "talker" || body["stream"] != true || body["ignore_eos"] != true {
			t.Errorf("%v", body)
		}
	}
	if len(systems) != 1 || longest != 8 {
		t.Errorf("%d system messages, at most %d messages", len(systems), longest)
	}
}

// TestChatFails: a refusal ends a conversation, and the turns before it are reported.
func TestChatFails(t *testing.T) {
	r := talk(t, &talker{fail: 3}, func(c *ChatConfig) { c.SystemLen = 0 })
	if len(r.Turns) != 2 || len(r.Errors) != 1 || r.Errors[0] != (ErrorCount{"400 Bad Request: enough", 3}) || r.Turns[0].Prompt != 20 {
		t.Errorf("%+v, %+v", r.Turns, r.Errors)
	}
	for _, change := range []func(*ChatConfig){
		func(c *ChatConfig) { c.Turns = 0 }, func(c *ChatConfig) { c.Conversations = -1 }, func(c *ChatConfig) { c.FirstLen = 0 },
		func(c *ChatConfig) { c.OutputLen = 0 }, func(c *ChatConfig) { c.BaseURL = "x" }, func(c *ChatConfig) { c.ExtraBody = []byte("[") },
	} {
		c := DefaultChatConfig()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(&c); c.Validate() == nil {
			t.Errorf("%+v is taken", c)
		}
		if _, err := RunChat(t.Context(), c); err == nil {
			t.Errorf("%+v runs", c)
		}
	}
}

func TestChatFormats(t *testing.T) {
	r := &ChatReport{Config: DefaultChatConfig(), Errors: []ErrorCount{{"enough", 1}}, Turns: []Turn{
		{Answers: 2, Prompt: 400, New: 400, Completion: 64, TTFT: Samples{100, 140}, E2EL: Samples{750, 1380}},
		{Answers: 1, Prompt: 550, New: 150, Cached: 384, Completion: 1, TTFT: Samples{50}, E2EL: Samples{50}},
	}}
	r.Config.Model = "talker"
	var b bytes.Buffer
	for _, write := range []func() error{func() error { return r.WriteText(&b) }, func() error { return r.WriteBenchmark(&b) }, func() error { return r.WriteJSON(&b) }} {
		if err := write(); err != nil {
			t.Error(err)
		}
	}
	testkit.Golden(t, "testdata/chat.txt", b.Bytes())
}
