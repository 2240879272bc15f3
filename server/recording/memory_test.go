package recording_test

import (
	"strings"
	"testing"
	"time"

	"weir/internal/testkit"
	"weir/server/servertest"
)

// TestRecordingsReserve: a recording that waits for the disk counts in the memory of all
// requests, with what it keeps and not with the rest of its request; and it is given back when
// it is written (docs/interface/operations.md, section 6).
func TestRecordingsReserve(t *testing.T) {
	const limit = 64 << 20
	h, _ := servertest.NewRecording(t, func(s *servertest.Setup) {
		s.Config.Memory, s.Config.MaxBody, s.Config.MemoryWait = limit, 4<<20, time.Millisecond
		s.Config.Trajectories.RecordEvery = time.Hour
	})
	held := func() int64 { return h.Instance.Transport().Held().Memory }
	ask := func(message, rest int) {
		t.Helper()
		_, answer := h.Chat(map[string]any{
			"messages": []any{map[string]any{"role": "user", "content": strings.Repeat("x", message)}}, "max_tokens": 2,
			"documents": []any{map[string]any{"text": strings.Repeat("y", rest)}},
		}, "Compat-Project: acme/support")
		if !strings.Contains(answer, `"choices"`) {
			t.Fatalf("%.300s", answer)
		}
	}
	between := func(what string, least, most int64) {
		t.Helper()
		servertest.WaitFor(t, what, func() bool { return held() <= most })
		if n := held(); n < least {
			t.Errorf("%s: %d bytes are reserved, want %d", what, n, least)
		}
	}
	ask(100, 1<<20)
	between("a recording with a short message", 2<<10, 64<<10)
	const others, rest = 8, 2 << 20
	before := testkit.Heap()
	for range others {
		ask(50, rest)
	}
	between("more recordings", (1+others)*2<<10, 256<<10)
	if more := testkit.Heap() - before; more > others*rest/2 {
		t.Errorf("the recordings of %d requests of %d bytes hold %d bytes", others, rest, more)
	}
	h.Stop()
	if n := held(); n != 0 {
		t.Errorf("%d bytes are still reserved", n)
	}
}
