package openai_test

import (
	"io"
	"strings"
	"testing"

	"weir/server/servertest"
)

// Streams whose clients do not read hold no more than a quarter of the memory beside what
// their calls have reserved: those that hold most are ended, and say why. When all have
// left, nothing is held.
func TestClientsThatDoNotRead(t *testing.T) {
	const limit = 8 << 20
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Memory = limit
		s.Config.WriteTimeout = 10 * servertest.Deadline // that nobody reads must not end a connection before the memory is full
	})
	fields := large(16)
	fields["stream"] = true
	body := servertest.Body(t, fields)
	var answers []io.ReadCloser
	for range 6 { // each would hold 1.7 MB
		answers = append(answers, h.Do("POST", servertest.ChatPath, body).Body)
	}
	most := int64(0)
	servertest.WaitFor(t, "the end of all requests", func() bool {
		most = max(most, h.Instance.Transport().Held().Memory)
		return h.NoBlocks()
	})
	if most > limit/2 {
		t.Errorf("%d bytes were held", most)
	}
	ended := 0
	for _, a := range answers {
		text, err := io.ReadAll(a)
		_ = a.Close()
		if strings.Contains(string(text), "The answer was not read") {
			ended++
		} else if err != nil || !strings.Contains(string(text), "[DONE]") {
			t.Errorf("%v: an answer of %d bytes", err, len(text))
		}
	}
	if ended == 0 || ended == len(answers) {
		t.Errorf("%d of %d were ended, want some", ended, len(answers))
	}
	servertest.WaitFor(t, "their memory", func() bool { return h.Instance.Transport().Held().Memory == 0 })
}
