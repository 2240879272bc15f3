package responsesapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/auth"
	"weir/server/servertest"
)

// TestA8Responses: of the limits of a key, those of tokens, of the length of outputs and of models hold
// for responses in the background, too. How many of them run is not up to the client, and does not
// count; how many it sends does (docs/interface/admission.md, A-8).
func TestA8Responses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	text := "keys:\n"
	for id, more := range map[string]string{
		"few": "limits: {requests_per_minute: 3, concurrency: 1, max_tokens: 2}", "foreign": "models: [large]", "day": "limits: {tokens_per_day: 1}", "minute": "limits: {tokens_per_minute: 1}",
	} {
		text += fmt.Sprintf("  - {id: %s, tenant: %s, hash: %q, %s}\n", id, id, servertest.KeyHash("sk-"+id), more)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, func(s *servertest.Setup) { s.Config.Keys = keys }, "Some words more than two tokens.")
	key := func(id string) string { return "Authorization: Bearer sk-" + id }
	begin := func(id string) any {
		return ask(t, h, 0, object{"input": "Is it?", "background": true}, key(id))["id"]
	}
	ended := func(id string, response any) object {
		t.Helper()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			_, answer, _ := h.Get("GET", path+"/"+response.(string), "", key(id))
			if r := decoded(t, answer); r["status"] != "queued" && r["status"] != "in_progress" {
				return r
			}
		}
		panic("unreachable")
	}
	release := hold(t, h)
	var all []any
	for range 3 {
		all = append(all, begin("few"))
	}
	if status, answer, _ := send(t, h, 0, object{"input": "Is it?", "background": true}, key("few")); status != 429 || !strings.Contains(answer, "3 requests per minute") {
		t.Errorf("the fourth in a minute: %d %s", status, answer)
	}
	release()
	for _, response := range all {
		if r := ended("few", response); r["status"] != "incomplete" || r["usage"].(object)["output_tokens"] != 2. {
			t.Errorf("a key may have two tokens, and has %v", r)
		}
	}
	if status, answer, _ := send(t, h, 0, object{"input": "Is it?", "background": true}, key("foreign")); status != 403 || !strings.Contains(answer, "not for the model") {
		t.Errorf("a key for another model: %d %s", status, answer)
	}
	for _, id := range []string{"day", "minute"} {
		if r := ended(id, begin(id)); r["status"] != "completed" {
			t.Fatalf("the first of the %s: %v", id, r)
		}
		status, answer, _ := send(t, h, 0, object{"input": "Is it?"}, key(id))
		if status != 429 || !strings.Contains(answer, "1 tokens per "+id) {
			t.Errorf("after one in the background: %d %s", status, answer)
		}
	}
}
