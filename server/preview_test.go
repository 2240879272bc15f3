package server_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"weir/auth"
	"weir/server"
	"weir/server/servertest"
	"weir/store"
	"weir/trajectory/archive"
)

// ledger is an archive for a server, and what a test needs of it.
type ledger struct {
	*archive.Archive
	db  *store.DB
	dir string
}

func newLedger(t testing.TB) *ledger { return openLedger(t, t.TempDir()) }

func openLedger(t testing.TB, dir string) *ledger {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := store.DefaultConfig(dir)
	cfg.Log = log
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, err := archive.New(db, log)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{Archive: a, db: db, dir: dir}
	t.Cleanup(l.close)
	servertest.WaitFor(t, "opening", func() bool { return a.Err() == nil })
	return l
}

func (l *ledger) close() {
	if l.db != nil {
		l.Archive.Close()
		_ = l.db.Close() // a test has failed already if this does
		l.db = nil
	}
}

// keys counts what is stored, with one of the archive's table tags.
func (l *ledger) keys(t testing.TB, tag byte) (n int) {
	t.Helper()
	if err := l.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{tag}, Keys: true}, func([]byte, []byte) bool { n++; return true })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// previewHouse is a server with an archive and, with keys, three tenants.
func previewHouse(t *testing.T, change func(*servertest.Setup)) (*testServer, *ledger) {
	t.Helper()
	l := newLedger(t)
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Trajectories.Archive = l.Archive
		s.Config.Trajectories.Spool = t.TempDir()
		if change != nil {
			change(s)
		}
	})
	return h, l
}

const agentPath = "/v1/preview/models/m"

func one(trajectories ...string) string {
	return `{"split":"train","trajectory_groups":[{"trajectories":[` + strings.Join(trajectories, ",") + `]}]}`
}

// post logs a body and returns the receipt.
func (h *testServer) log200(t testing.TB, path, body string, headers ...string) map[string]any {
	t.Helper()
	status, answer, _ := h.Get("POST", path+"/log", body, headers...)
	if status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	return object(t, answer)
}

func object(t testing.TB, text string) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// list asks for a list and returns its entries.
func (h *testServer) list(t testing.TB, path string, headers ...string) (entries []map[string]any, whole map[string]any) {
	t.Helper()
	status, answer, _ := h.Get("GET", path, "", headers...)
	if status != 200 {
		t.Fatalf("%s: %d %s", path, status, answer)
	}
	whole = object(t, answer)
	for _, e := range whole["data"].([]any) {
		entries = append(entries, e.(map[string]any))
	}
	return entries, whole
}

func exampleBody(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("../trajectory/testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Checklist 1, T-20, T-21: a receipt, and the text comes back byte for byte.
func TestLogExample(t *testing.T) {
	h, _ := previewHouse(t, nil)
	body := exampleBody(t)
	r := h.log200(t, agentPath, body)
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
	status, answer, _ := h.Get("GET", agentPath+"/trajectories/"+id+"/0/0", "")
	if status != 200 || !strings.HasSuffix(answer, `,"trajectory":`+want.String()+`}`) {
		t.Errorf("%d %s", status, answer)
	}
	m := object(t, answer)
	if m["reward"] != 0.75 || m["id"] != id+"/0/0" || m["split"] != "train" || m["step"] != 12.0 || m["completion_tokens"] != 2.0 || m["start_time"] != nil {
		t.Errorf("%v", m)
	}
	if g := m["group"].(map[string]any); len(g["exceptions"].([]any)) != 1 || g["metrics"].(map[string]any)["judge_score"] != 0.9 {
		t.Errorf("%v", g)
	}
}

// What must survive (T-11, checklist 9, 29).
func TestLogExact(t *testing.T) {
	h, _ := previewHouse(t, nil)
	text := `{"x":[1.0,1,1e2,9223372036854775807,123456789012345678901234567890,1e-400],"s":"\ud83d \/ é 😀","exchanges":{"chat_completions":[]},"auto_metrics":null,"reward":0.10}`
	r := h.log200(t, agentPath, one(text))
	_, answer, _ := h.Get("GET", fmt.Sprintf("%s/trajectories/%s/0/0", agentPath, r["id"]), "")
	if !strings.HasSuffix(answer, `"trajectory":`+text+`}`) {
		t.Errorf("%s", answer)
	}
	_, lines, _ := h.Get("GET", agentPath+"/export", "")
	if !strings.HasSuffix(lines, `"trajectory":`+text+"}\n") {
		t.Errorf("%s", lines)
	}
	entries, _ := h.list(t, agentPath+"/trajectories?include=raw")
	if raw := entries[0]["trajectory"].(map[string]any); raw["reward"] != 0.1 || entries[0]["messages"] != nil {
		t.Errorf("%v", entries[0])
	}
}

// Bodies of checklist 2 to 4, 8, 10 to 13, 16.
func TestLogAccepted(t *testing.T) {
	h, _ := previewHouse(t, nil)
	for name, c := range map[string]struct {
		body                             string
		groups, trajectories, exceptions float64
	}{
		"2 empty":      {one(`{}`), 1, 1, 0},
		"3 groups":     {`{"split":"s","trajectory_groups":[{},{"exceptions":[{"type":"t","message":"m","traceback":"b"}]}]}`, 2, 0, 1},
		"3 none":       {`{"split":"s","trajectory_groups":[]}`, 0, 0, 0},
		"4 nulls":      {one(`{"messages_and_choices":[],"tools":null,"initial_policy_version":null,"final_policy_version":null,"start_time":null}`), 1, 1, 0},
		"8 split last": {`{"trajectory_groups":[{"trajectories":[{},{}]}],"split":"s"}`, 1, 2, 0},
		"10 metrics":   {one(`{"metrics":{"a":true,"b":3,"c":2.5}}`), 1, 1, 0},
	} {
		r := h.log200(t, agentPath, c.body)
		if r["groups"] != c.groups || r["trajectories"] != c.trajectories || r["exceptions"] != c.exceptions {
			t.Errorf("%s: %v", name, r)
		}
	}
	entries, _ := h.list(t, agentPath+"/trajectories?limit=1000")
	if len(entries) != 5 || entries[0]["reward"] != 0.0 {
		t.Errorf("%d entries", len(entries))
	}
	for _, split := range []string{"../../x", "a/b", "🦊", "train"} {
		body, _ := json.Marshal(map[string]any{"split": split, "trajectory_groups": []any{map[string]any{"trajectories": []any{map[string]any{}}}}})
		h.log200(t, "/v1/preview/models/splits", string(body))
		entries, _ := h.list(t, "/v1/preview/models/splits/trajectories?split="+url.QueryEscape(split))
		if len(entries) != 1 || entries[0]["split"] != split {
			t.Errorf("%q: %v", split, entries)
		}
	}
}

// Section 3 over HTTP: shape, strings, nothing stored (checklist 5 to 7).
func TestLogRefused(t *testing.T) {
	h, l := previewHouse(t, nil)
	before := l.keys(t, 'B') + l.keys(t, 'D')
	for body, want := range map[string]string{
		``:                               `{"detail":[{"loc":["body"],"msg":"Field required","type":"missing"}]}`,
		`[]`:                             `{"detail":[{"loc":["body"],"msg":"Input should be a valid dictionary or object to extract fields from","type":"model_attributes_type"}]}`,
		`{"split":`:                      `{"detail":[{"loc":["body","9"],"msg":"JSON decode error","type":"json_invalid"}]}`,
		one(`{"reward":null}`):           `{"detail":[{"loc":["body","trajectory_groups","0","trajectories","0","reward"],"msg":"Input should be a valid number","type":"float_type"}]}`,
		one(`{},{"metrics":{"\"":"x"}}`): `{"detail":[{"loc":["body","trajectory_groups","0","trajectories","1","metrics","\""],"msg":"Input should be a valid number","type":"float_type"}]}`,
		one(strings.Repeat(`{},`, 10_000) + `{"reward":"x"}`): `{"detail":[{"loc":["body","trajectory_groups","0","trajectories","10000","reward"],"msg":"Input should be a valid number","type":"float_type"}]}`,
	} {
		status, answer, header := h.Get("POST", agentPath+"/log", body)
		if status != 422 || answer != want || header.Get("Content-Type") != "application/json" {
			t.Errorf("%.60s: %d %s, want %s", body, status, answer, want)
		}
	}
	if after := l.keys(t, 'B') + l.keys(t, 'D'); after != before {
		t.Errorf("%d keys more", after-before)
	}
	h.log200(t, agentPath, one(`{}`)) // on the same connection
}

// T-3, T-5 and checklist 28: who may, and under which paths.
func TestLogDoors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	keys := "keys:\n"
	for _, k := range []struct{ id, tenant, rights string }{{"a", "A", "read, write"}, {"b", "B", "read, write"}, {"reader", "A", "read"}, {"writer", "A", "write"}} {
		keys += fmt.Sprintf("  - {id: %s, hash: %q, user: u, tenant: %s, projects: ['*'], models: ['*'], rights: [%s]}\n", k.id, keyHash(k.id), k.tenant, k.rights)
	}
	// A key that is for other models.
	keys += fmt.Sprintf("  - {id: elsewhere, hash: %q, user: u, tenant: A, models: ['agent-*']}\n", keyHash("elsewhere"))
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New([]string{"root"}, file)
	if err != nil {
		t.Fatal(err)
	}
	h, _ := previewHouse(t, func(s *servertest.Setup) { s.Config.Keys = ring })
	for _, c := range []struct {
		authorization, want string
	}{
		{"", `{"detail":"Not authenticated"}`},
		{"Bearer wrong", `{"detail":"Invalid authentication credentials"}`},
		{"Basic YXBpOnJvb3Q=", `{"detail":"Invalid authentication credentials"}`},
		{"root", `{"detail":"Invalid authentication credentials"}`},
	} {
		for _, path := range []string{agentPath + "/log", agentPath + "/unknown", "/v1/preview/models"} {
			status, answer, header := h.Get("POST", path, one(`{}`), "Authorization: "+c.authorization)
			if status != 401 || answer != c.want || header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%q %s: %d %s", c.authorization, path, status, answer)
			}
		}
	}
	as := func(key string) string { return "Authorization: Bearer " + key }
	h.log200(t, agentPath, one(`{}`), "Authorization: bEARER a")
	receipt := h.log200(t, agentPath, one(`{}`), as("a"))
	for _, c := range []struct {
		method, path, key string
		status            int
	}{
		{"POST", "/log", "reader", 403}, {"GET", "/logs", "reader", 200}, {"DELETE", "", "reader", 403}, {"DELETE", "/logs/x", "reader", 403}, {"DELETE", "/trajectories", "reader", 403},
		{"POST", "/log", "writer", 200}, {"GET", "/logs", "writer", 403}, {"GET", "/trajectories", "writer", 403}, {"GET", "/export", "writer", 403}, {"GET", "/metrics", "writer", 403},
		{"POST", "/log", "elsewhere", 403}, {"GET", "/logs", "elsewhere", 403}, {"GET", "/trajectories", "elsewhere", 403}, {"GET", "/trajectories/x/0/0", "elsewhere", 403},
		{"GET", "/export", "elsewhere", 403}, {"GET", "/metrics", "elsewhere", 403}, {"DELETE", "", "elsewhere", 403}, {"POST", "/rewards", "elsewhere", 403},
		// Checklist 23: another tenant sees what is not there.
		{"GET", "/logs", "b", 404}, {"GET", "/trajectories", "b", 404}, {"GET", "/export", "b", 404}, {"GET", "/metrics", "b", 404}, {"DELETE", "", "b", 404},
		{"DELETE", fmt.Sprintf("/logs/%s", receipt["id"]), "b", 404}, {"GET", fmt.Sprintf("/trajectories/%s/0/0", receipt["id"]), "b", 404}, {"DELETE", "/trajectories?confirm=m", "b", 404},
		{"GET", fmt.Sprintf("/trajectories/%s/0/0", receipt["id"]), "a", 200}, {"GET", fmt.Sprintf("/trajectories/%s/0/1", receipt["id"]), "a", 404}, {"GET", "/trajectories/x/0/1", "a", 404},
		{"GET", "/log", "a", 405}, {"POST", "", "a", 405}, {"PUT", "/trajectories", "a", 405}, {"GET", "/nothing", "a", 404}, {"GET", "/logs/x/y", "a", 404},
	} {
		status, answer, _ := h.Get(c.method, agentPath+c.path, one(`{}`), as(c.key))
		if status != c.status || status >= 400 && !strings.HasPrefix(answer, `{"detail":`) {
			t.Errorf("%s %s as %s: %d %s, want %d", c.method, c.path, c.key, status, answer, c.status)
		}
	}
	// The body is looked at before the right to write (T-6).
	for _, key := range []string{"reader", "elsewhere"} {
		if status, _, _ := h.Get("POST", agentPath+"/log", one(`1`), as(key)); status != 422 {
			t.Errorf("%s: %d", key, status)
		}
	}
	h.log200(t, "/v1/preview/models/agent-1", one(`{}`), as("elsewhere"))
	for key, want := range map[string]int{"b": 0, "a": 2, "elsewhere": 1} {
		if entries, _ := h.list(t, "/v1/preview/models", as(key)); len(entries) != want {
			t.Errorf("%s: %v", key, entries)
		}
	}
}

// Model ids (T-5, checklist 17).
func TestModelIDs(t *testing.T) {
	h, l := previewHouse(t, func(s *servertest.Setup) { s.TCP = true })
	for segment, id := range map[string]string{
		"acme%2Fsupport%2Fmail-agent":          "acme/support/mail-agent",
		"3c90c3cc-0d44-4b50-8888-8dd25736052a": "3c90c3cc-0d44-4b50-8888-8dd25736052a",
		"a%20b%2Bc+d":                          "a b+c+d",
		"%F0%9F%A6%8A":                         "🦊",
		"...":                                  "...",
		"log":                                  "log",
		strings.Repeat("x", 256):               strings.Repeat("x", 256),
	} {
		r := h.log200(t, "/v1/preview/models/"+segment, one(`{}`))
		if r["model_id"] != id {
			t.Errorf("%s: %v", segment, r["model_id"])
		}
		if entries, _ := h.list(t, "/v1/preview/models/"+segment+"/logs"); len(entries) != 1 || entries[0]["model_id"] != id {
			t.Errorf("%s: %v", segment, entries)
		}
	}
	stored := l.keys(t, 'B')
	// Go's client would clean these paths; others do not.
	for _, segment := range []string{"..", ".", "%2e%2e", "%2E", "%00", "a%0Ab", "%ff", "%zz", "%", strings.Repeat("x", 257), "%7f", ""} {
		c := h.Raw(t)
		body := one(`{}`)
		c.Send(fmt.Sprintf("POST /v1/preview/models/%s/log HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", segment, len(body), body))
		status, answer, _ := c.Answer()
		if status < 300 || status >= 500 || status == 422 && !strings.Contains(answer, `{"loc":["path","model_id"],`) {
			t.Errorf("%q: %d %s", segment, status, answer)
		}
		c.Close()
	}
	if n := l.keys(t, 'B'); n != stored {
		t.Errorf("%d batches more", n-stored)
	}
}

// T-4 and checklist 26.
func TestLogEncodings(t *testing.T) {
	h, _ := previewHouse(t, func(s *servertest.Setup) { s.Config.Trajectories.MaxBody = 8 << 20 })
	body := exampleBody(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, body)
	_ = z.Close()
	enc, _ := zstd.NewWriter(nil)
	packed := string(enc.EncodeAll([]byte(body), nil))
	for name, sent := range map[string]string{"gzip": zipped.String(), "x-gzip": zipped.String(), "GZIP": zipped.String(), "zstd": packed, "identity": body} {
		r := h.log200(t, agentPath, sent, "Content-Encoding: "+name)
		if r["bytes"] != float64(len(body)) {
			t.Errorf("%s: %v", name, r)
		}
	}
	var bomb bytes.Buffer
	z.Reset(&bomb)
	_, _ = io.WriteString(z, `{"x":"`)
	for range 6 {
		_, _ = io.WriteString(z, strings.Repeat("x", 1<<20))
	}
	_ = z.Close()
	zbomb := string(enc.EncodeAll([]byte(one(`{"logs":["`+strings.Repeat("x", 6<<20)+`"]}`)), nil))
	big := string(enc.EncodeAll([]byte(one(`{"logs":["`+strings.Repeat("x", 9<<20)+`"]}`)), nil))
	for _, c := range []struct {
		encoding, body string
		status         int
	}{
		{"br", body, 415}, {"gzip, gzip", body, 415}, {"deflate", body, 415},
		{"gzip", body, 400}, {"gzip", zipped.String()[:zipped.Len()-3], 400}, {"zstd", body, 400}, {"zstd", packed[:len(packed)-1], 400}, {"gzip", "", 400},
		{"gzip", bomb.String(), 413}, {"zstd", zbomb, 413}, {"zstd", big, 413},
	} {
		status, answer, _ := h.Get("POST", agentPath+"/log", c.body, "Content-Encoding: "+c.encoding)
		if status != c.status || !strings.HasPrefix(answer, `{"detail":"`) {
			t.Errorf("%s, %d bytes: %d %s, want %d", c.encoding, len(c.body), status, answer, c.status)
		}
	}
	for header, want := range map[string]int{"application/json; charset=utf-8": 200, "application/vnd.art+json": 200, "Application/JSON": 200, "text/plain": 415, "application/x-www-form-urlencoded": 415, "": 200} {
		if status, answer, _ := h.Get("POST", agentPath+"/log", body, "Content-Type: "+header); status != want {
			t.Errorf("%q: %d %s, want %d", header, status, answer, want)
		}
	}
}

// Limits of section 6.
func TestLogLimits(t *testing.T) {
	h, l := previewHouse(t, func(s *servertest.Setup) {
		s.Config.Trajectories.MaxBody = 4000
		s.Config.Trajectories.Limits.Trajectory = 1000
		s.Config.Trajectories.Limits.Trajectories = 5
	})
	for name, c := range map[string]struct{ body, want string }{
		"body":       {one(strings.Repeat(`{"logs":[]},`, 400) + `{}`), `{"detail":"Request body too large (limit 4000 bytes)"}`},
		"trajectory": {one(`{"logs":["` + strings.Repeat("x", 1000) + `"]}`), `{"detail":"Trajectory too large (limit 1000 bytes)"}`},
		"many":       {one(`{},{},{},{},{},{}`), `{"detail":"Too many trajectories (limit 5)"}`},
	} {
		for _, chunked := range []bool{false, true} {
			var reader io.Reader = strings.NewReader(c.body)
			if chunked {
				reader = io.MultiReader(reader)
			}
			req, err := http.NewRequest("POST", "http://weir"+agentPath+"/log", reader)
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
	if n := l.keys(t, 'B'); n != 0 {
		t.Errorf("%d batches", n)
	}
}

// Section 7 over HTTP (checklist 21, 22).
func TestLogReplays(t *testing.T) {
	h, l := previewHouse(t, nil)
	body := one(`{"reward":1}`)
	first := h.log200(t, agentPath, body, "Idempotency-Key: k 1")
	first["duplicate"] = true
	if r := h.log200(t, agentPath, body, "Idempotency-Key: k 1"); !reflect.DeepEqual(r, first) {
		t.Errorf("%v, want %v", r, first)
	}
	if status, answer, _ := h.Get("POST", agentPath+"/log", body+" ", "Idempotency-Key: k 1"); status != 409 || !strings.HasPrefix(answer, `{"detail":"`) {
		t.Errorf("%d %s", status, answer)
	}
	for _, key := range []string{strings.Repeat("k", 256), "ä"} {
		if status, answer, _ := h.Get("POST", agentPath+"/log", body, "Idempotency-Key: "+key); status != 422 || !strings.Contains(answer, `["header","Idempotency-Key"]`) {
			t.Errorf("%d %s", status, answer)
		}
	}
	if n := l.keys(t, 'B'); n != 1 {
		t.Errorf("%d batches", n)
	}
	h.log200(t, agentPath, body)
	h.log200(t, agentPath, body)
	if n := l.keys(t, 'B'); n != 3 {
		t.Errorf("%d batches", n)
	}
	// Many at a time with one key: one batch.
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if status, answer, _ := h.Get("POST", agentPath+"/log", body, "Idempotency-Key: k 2"); status != 200 {
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	all.Wait()
	if n := l.keys(t, 'B'); n != 4 {
		t.Errorf("%d batches", n)
	}
}

// A store that cannot take it answers 503, and reading goes on (12.3).
func TestLogUnavailable(t *testing.T) {
	h, l := previewHouse(t, func(s *servertest.Setup) { s.Config.MaxBody, s.Config.MaxBodies = 50_000, 100_000 })
	// Trajectories in hand count with all other bodies, and are given back.
	status, answer, header := h.Get("POST", agentPath+"/log", one(`{"logs":["`+strings.Repeat("x", 150_000)+`"]}`))
	if status != 503 || header.Get("Retry-After") == "" || h.Instance.Transport().Held().Bodies != 0 {
		t.Errorf("%d %s, %d bytes in hand", status, answer, h.Instance.Transport().Held().Bodies)
	}
	l.close()
	status, answer, header = h.Get("POST", agentPath+"/log", one(`{}`))
	if status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", status, answer)
	}
	if status, _, _ := h.Get("GET", agentPath+"/logs", ""); status != 503 {
		t.Errorf("%d", status)
	}
	h.Log.Reset() // errors were asked for
}

// Without an archive there are no such paths; models can be fixed.
func TestPreviewSettings(t *testing.T) {
	h := newServer(t, nil)
	if status, answer, _ := h.Get("POST", agentPath+"/log", one(`{}`)); status != 404 {
		t.Errorf("%d %s", status, answer)
	}
	h, l := previewHouse(t, func(s *servertest.Setup) { s.Config.Trajectories.Registered = true })
	if status, answer, _ := h.Get("POST", agentPath+"/log", one(`{}`)); status != 404 || l.keys(t, 'B') != 0 {
		t.Errorf("%d %s", status, answer)
	}
	for _, change := range []func(*server.Trajectories){
		func(c *server.Trajectories) { c.MaxBody = 0 }, func(c *server.Trajectories) { c.MaxRatio = 0 }, func(c *server.Trajectories) { c.MaxUploads = -1 }, func(c *server.Trajectories) { c.Idle = 0 }, func(c *server.Trajectories) { c.Limits.Depth = 0 },
	} {
		cfg := server.DefaultConfig()
		change(&cfg.Trajectories)
		if cfg.Validate() == nil {
			t.Errorf("%+v is valid", cfg.Trajectories)
		}
	}
}

func keyHash(key string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key))) }
