package liveapi_test

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"weir/server/liveapi"
	"weir/server/servertest"
	"weir/server/transport"
)

func all(*transport.Ongoing) bool { return true }

// docs/interface/live.md, L-5: the number of streams is bounded, and a place is free when its client has left.
func TestL5Viewers(t *testing.T) {
	t.Parallel()
	h := servertest.New(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"a", "b", "c", "d", "e"} })
	var open []*stream
	for _, key := range []string{"a", "b", "c", "d"} {
		for range 8 {
			open = append(open, watch(t, h, "", bearer(key)))
		}
		if key == "a" {
			status, answer, _ := h.Get("GET", liveapi.Path, "", bearer("a"))
			if status != 429 || !strings.Contains(answer, "8 of one tenant") {
				t.Errorf("a ninth: %d %s", status, answer)
			}
		}
	}
	if status, answer, _ := h.Get("GET", liveapi.Path, "", bearer("e")); status != 429 {
		t.Errorf("one more than there may be: %d %s", status, answer)
	}
	for _, s := range open {
		s.close()
	}
	servertest.WaitFor(t, "the places", func() bool { return h.Instance.Live().Viewers() == 0 })
	watch(t, h, "", bearer("e")).close()
}

// docs/interface/live.md, L-5: a client that does not read is cut off, and nobody waits for it.
func TestL5SlowReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := servertest.New(t, nil)
		c, err := h.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET "+liveapi.Path+"?interval=0.2 HTTP/1.1\r\nHost: weir\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		s := watch(t, h, "?interval=1")
		defer s.close()
		s.next()
		begin := time.Now()
		for h.Instance.Live().Viewers() == 2 { // the other one gets its states
			if s.next() == nil || time.Since(begin) > time.Minute {
				t.Fatal("a client that does not read is not cut off")
			}
		}
		if d := time.Since(begin); d > 15*time.Second {
			t.Errorf("a client that does not read is cut off after %v", d)
		}
	})
}

// docs/interface/live.md, L-6: streams end when the server stops, and when their key is not good any more.
func TestL6Ends(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := servertest.New(t, nil)
		s := watch(t, h, "?interval=10")
		s.next()
		s.next()
		begin := time.Now()
		h.Instance.Transport().Drain()
		if o := s.next(); o["type"] != "end" || o["reason"] != "draining" || s.next() != nil {
			t.Errorf("%v", o)
		}
		if d := time.Since(begin); d > 0 {
			t.Errorf("a stream ends %v after the server began to drain", d)
		}
		status, answer, _ := h.Get("GET", liveapi.Path, "")
		servertest.Refused(t, status, answer, 503, "")
		h.Instance.Transport().Resume()
		s = watch(t, h, "?count=2")
		for range 3 {
			s.next()
		}
		if o := s.next(); o["reason"] != "count" {
			t.Errorf("after draining was given up: %v", o)
		}
	})
}

// docs/interface/live.md, L-6: the key of a stream is revoked.
func TestL6Key(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ring, file := keys(t)
		h := servertest.New(t, func(s *servertest.Setup) { s.Config.Keys = ring })
		s := watch(t, h, "", bearer("a"))
		s.next()
		s.next()
		if err := os.WriteFile(file, []byte("keys: []\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ring.Reload(); err != nil {
			t.Fatal(err)
		}
		var o object
		for range 3 { // a state may have been gathered already
			if o = s.next(); o["type"] == "end" {
				break
			}
		}
		if o["reason"] != "key" || s.next() != nil {
			t.Errorf("%v", o)
		}
	})
}

// docs/interface/live.md, L-7: streams are not counted in the metrics of HTTP, and nothing is left of those that have ended.
func TestL7NotCounted(t *testing.T) {
	t.Parallel()
	h := servertest.New(t, nil)
	s := watch(t, h, "?count=1")
	for s.next() != nil {
	}
	var page strings.Builder
	if err := h.Instance.WriteMetrics(&page); err != nil || strings.Contains(page.String(), liveapi.Path) {
		t.Errorf("%v: the metrics of HTTP have %s", err, liveapi.Path)
	}
	h.Complete(t, map[string]any{"max_tokens": 1})
	servertest.WaitFor(t, "no requests", func() bool { return len(h.Instance.Transport().Ongoing(nil, all)) == 0 })
}
