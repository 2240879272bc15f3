package batchesapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/auth"
	"weir/server/batchesapi"
	"weir/server/servertest"
)

// TestB11Restart: a batch goes on in the next process, and each result is there once.
func TestB11Restart(t *testing.T) {
	store := batchesapi.NewStore(servertest.NewDB(t), 0, 0)
	h := newServer(t, store, func(s *servertest.Setup) { s.Spec.MaxSeqs = 2 })
	var content strings.Builder
	var want []string
	for i := range 40 {
		content.WriteString(line(fmt.Sprint("r", i), ""))
		want = append(want, fmt.Sprint("r", i, " 200 chat.completion"))
	}
	b := begin(t, h, content.String())
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if now := get(t, h, 200, "GET", "/v1/batches/"+b["id"].(string), ""); now["request_counts"].(object)["completed"].(float64) >= 3 {
			break
		}
	}
	h.Stop()
	again := newServer(t, store, nil)
	done := until(t, again, b["id"], "completed")
	if got := results(t, again, done["output_file_id"]); fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(done["request_counts"]) != "map[completed:40 failed:0 total:40]" {
		t.Errorf("%v %v", got, done)
	}
	if want := usedIn(t, again, done["output_file_id"]); fmt.Sprint(done["usage"]) != fmt.Sprint(want) {
		t.Errorf("usage %v, want %v", done["usage"], want)
	}
	if u := get(t, again, 200, "GET", "/usage", ""); strings.Contains(fmt.Sprint(u), "requests:40") {
		t.Errorf("all was computed again: %v", u)
	}
}

// TestB11Revoked: a batch ends when its key is revoked, with the results that it has, in this process
// or in the next one.
func TestB11Revoked(t *testing.T) {
	store := batchesapi.NewStore(servertest.NewDB(t), 0, 0)
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reader := fmt.Sprintf("  - {id: reader, tenant: acme, hash: %q}\n", servertest.KeyHash("sk-reader"))
	write("keys:\n" + reader + fmt.Sprintf("  - {id: maker, tenant: acme, hash: %q}\n", servertest.KeyHash("sk-maker")))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	begun := func(h *servertest.Server, id any) { // its wrong line is done
		t.Helper()
		for range tick.C {
			if now := until(t, h, id, "in_progress", "Authorization: Bearer sk-reader"); now["request_counts"].(object)["failed"].(float64) == 1 {
				break
			}
		}
	}
	server := func() (*servertest.Server, *auth.Keyring) {
		keys, err := auth.New(nil, path)
		if err != nil {
			t.Fatal(err)
		}
		return newServer(t, store, func(s *servertest.Setup) { s.Config.Keys = keys }), keys
	}
	h, keys := server()
	held, release := h.HoldSteps()
	content := line("bad", `,"temperature":-1`) + line("a", "")
	one, two := begin(t, h, content, "Authorization: Bearer sk-maker"), begin(t, h, content, "Authorization: Bearer sk-maker")
	<-held
	begun(h, one["id"])
	begun(h, two["id"])
	write("keys:\n" + reader)
	if err := keys.Reload(); err != nil {
		t.Fatal(err)
	}
	check := func(h *servertest.Server, id any) {
		t.Helper()
		var b object
		for range tick.C {
			if b = get(t, h, 200, "GET", "/v1/batches/"+id.(string), "", "Authorization: Bearer sk-reader"); b["status"] == "failed" || b["status"] == "completed" {
				break
			}
		}
		if !strings.Contains(fmt.Sprint(b["errors"]), "invalid_api_key") || b["failed_at"] == nil || b["output_file_id"] != nil || fmt.Sprint(b["request_counts"]) != "map[completed:0 failed:1 total:2]" {
			t.Errorf("%v", b)
		}
		if _, text, _ := h.Get("GET", "/v1/files/"+b["error_file_id"].(string)+"/content", "", "Authorization: Bearer sk-reader"); strings.Count(text, "\n") != 1 {
			t.Errorf("%s", text)
		}
	}
	check(h, one["id"])
	check(h, two["id"])
	release()
	// The next process finds a batch of a key that is not there any more.
	write("keys:\n" + reader + fmt.Sprintf("  - {id: other, tenant: acme, hash: %q}\n", servertest.KeyHash("sk-maker")))
	if err := keys.Reload(); err != nil {
		t.Fatal(err)
	}
	held, release = h.HoldSteps()
	b := begin(t, h, content, "Authorization: Bearer sk-maker")
	<-held
	begun(h, b["id"])
	go func() { // requests of batches have ended when others are refused
		for !h.Instance.Transport().Draining() {
			<-tick.C
		}
		release()
	}()
	h.Stop()
	tick.Reset(time.Millisecond)
	write("keys:\n" + reader)
	later, _ := server()
	check(later, b["id"])
}
