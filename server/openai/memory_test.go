package openai_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"weir/backend/sim"
	"weir/server/servertest"
)

// large is a short request whose answer is large: many choices of 600 tokens, each with 20
// alternatives.
func large(n int) map[string]any {
	return map[string]any{
		"max_tokens": 600, "n": n, "logprobs": true, "top_logprobs": 20, "ignore_eos": true, "seed": 1, "temperature": 1,
		"messages": servertest.UserSays("a"),
	}
}

// A request whose answer can never fit is refused before the engine gets it, and the error
// says what to lower. The same request for one choice is answered.
func TestAnswerThatNeverFits(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.Config.Memory = 64 << 20 })
	status, answer := h.Chat(large(128))
	f := servertest.Refused(t, status, answer, 400, "")
	if !strings.Contains(f.Message, "Lower max_tokens, n, top_logprobs") {
		t.Error(f.Message)
	}
	if s := h.Engine.Stats(); s.GenerationTokens != 0 {
		t.Errorf("the engine has drawn %d tokens", s.GenerationTokens)
	}
	if status, answer := h.Chat(large(1)); status != 200 {
		t.Errorf("%d: %s", status, answer)
	}
}

// Of two answers of which only one fits, the second is refused if the first does not end in
// time, and answered later. An ordinary request is answered beside the first.
func TestAnswersThatDoNotFitTogether(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Memory, s.Config.MemoryWait = 20<<20, time.Millisecond // one takes 13 MB
	})
	begun, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.SetHook(func(sim.Call, int) error {
		once.Do(func() { close(begun) })
		<-hold
		return nil
	})
	first := make(chan int)
	go func() {
		status, _ := h.Chat(large(8))
		first <- status
	}()
	<-begun
	status, answer := h.Chat(large(8))
	servertest.Refused(t, status, answer, 503, "")
	small := make(chan int)
	go func() {
		status, _ := h.Chat(nil)
		small <- status
	}()
	close(hold)
	if a, b := <-first, <-small; a != 200 || b != 200 {
		t.Errorf("the first %d, an ordinary request %d", a, b)
	}
	servertest.WaitFor(t, "the memory of the first", func() bool { return h.Instance.Transport().Held().Memory == 0 })
	if status, _ := h.Chat(large(8)); status != 200 {
		t.Errorf("the second, sent again: %d", status)
	}
}

// A body that can never be prepared is 413, before it is read if its length says so.
func TestBodyThatNeverFits(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.Config.Memory = 16 << 20 })
	for path, body := range map[string]string{
		"/tokenize":              `{"prompt":"` + strings.Repeat("a", 1<<20) + `"}`,
		"/v1/completions":        `{"max_tokens":1,"truncate_prompt_tokens":1,"prompt":"` + strings.Repeat("a", 1<<20) + `"}`,
		"/detokenize":            `{"tokens":[` + strings.Repeat("1,", 1<<19) + `1]}`,
		"/v1/completions/render": `{"prompt":"` + strings.Repeat("[{", 1<<17) + `"}`,
	} {
		status, answer, _ := h.Get("POST", path, body)
		f := servertest.Refused(t, status, answer, 413, "")
		if !strings.Contains(f.Message, "preparing it could need more memory") {
			t.Errorf("%s: %s", path, f.Message)
		}
	}
	if status, answer, _ := h.Get("POST", "/tokenize", `{"prompt":"`+strings.Repeat("a", 1<<19)+`"}`); status != 200 {
		t.Errorf("half of it: %d %.100s", status, answer)
	}
	servertest.WaitFor(t, "the memory", func() bool { return h.Instance.Transport().Held().Memory == 0 })
}

// There is no body between those that can be prepared, alone, and those that are too large.
func TestBodyThatNearlyNeverFits(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { s.Config.Memory, s.Config.MemoryWait = 16<<20, time.Millisecond })
	for size := 700 << 10; size < 1100<<10; size += 20 << 10 {
		status, answer, _ := h.Get("POST", "/v1/completions", `{"max_tokens":1,"truncate_prompt_tokens":1,"prompt":"`+strings.Repeat("a", size)+`"}`)
		if status != 200 && status != 413 {
			t.Errorf("%d bytes: %d %s", size, status, answer)
		}
		servertest.WaitFor(t, "the memory", func() bool { return h.Instance.Transport().Held().Memory == 0 })
	}
}

// While one large body is prepared, a second one waits for its memory and a small request
// does not.
func TestBodiesThatDoNotFitTogether(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Memory, s.Config.MemoryWait = 24<<20, time.Millisecond
	})
	held, err := h.Instance.Transport().Memory().Reserve(t.Context(), 10<<20)
	if err != nil {
		t.Fatal(err)
	}
	large := `{"prompt":"` + strings.Repeat("a", 1<<20) + `"}` // takes 17 MiB
	status, answer, _ := h.Get("POST", "/tokenize", large)
	servertest.Refused(t, status, answer, 503, "")
	if status, answer := h.Chat(nil); status != 200 {
		t.Errorf("a small request: %d %s", status, answer)
	}
	held.Release()
	if status, answer, _ := h.Get("POST", "/tokenize", large); status != 200 {
		t.Errorf("when there is memory: %d %.100s", status, answer)
	}
	servertest.WaitFor(t, "the memory", func() bool { return h.Instance.Transport().Held().Memory == 0 })
}
