package openai_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestIgnoredFields: fields that are not known are named in a header, of streams and completions
// too, and once in the log; those that would constrain the output are refused.
func TestIgnoredFields(t *testing.T) {
	h := newServer(t, nil)
	for _, fields := range []map[string]any{
		{"store": true, "odd, name": 1}, {"store": false, "odd, name": 2, "stream": true}, {"store": nil, "odd, name": nil},
	} {
		for path, body := range map[string]string{servertest.ChatPath: servertest.Body(t, fields), servertest.TextPath: servertest.TextBody(t, fields)} {
			status, answer, header := h.Get("POST", path, body)
			if got := header.Get("X-Ignored-Fields"); status != 200 || got != "odd%2C+name, store" && got != "store, odd%2C+name" {
				t.Errorf("%d %q: %s", status, got, answer)
			}
		}
	}
	if lines := h.Log.Lines("requests have a field that is not known, and has no effect"); len(lines) != 2 {
		t.Errorf("the log has %v", lines)
	}
	if _, _, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, nil)); header.Get("X-Ignored-Fields") != "" {
		t.Error(header)
	}
	for _, path := range []string{servertest.ChatPath, servertest.TextPath} {
		status, answer, _ := h.Get("POST", path, servertest.TextBody(t, map[string]any{"guided_regex": "a", "messages": servertest.UserSays("Hi")}))
		if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "structured_outputs with regex") {
			t.Error(f.Message)
		}
	}
}
