package batchesapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/auth"
	"weir/feedback"
	"weir/server/batchesapi"
	"weir/server/servertest"
	"weir/store"
)

type object = map[string]any

func TestMain(m *testing.M) { servertest.Main(m) }

const chat = "/v1/chat/completions"

// newServer returns a server with batches.
func newServer(t *testing.T, store *batchesapi.Store, change func(*servertest.Setup)) *servertest.Server {
	t.Helper()
	if store == nil {
		store = batchesapi.NewStore(servertest.NewDB(t), 0, 0)
	}
	return servertest.New(t, func(s *servertest.Setup) {
		s.Config.Batches = store
		s.EngineConfig.Scheduler.Priority = true
		if change != nil {
			change(s)
		}
	})
}

// get sends a request whose answer is an object, with a status.
func get(t *testing.T, h *servertest.Server, want int, method, path, body string, headers ...string) object {
	t.Helper()
	status, answer, _ := h.Get(method, path, body, headers...)
	var o object
	if err := json.Unmarshal([]byte(answer), &o); status != want || err != nil {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, status, want, answer)
	}
	return o
}

// form is the body of a form with a file.
func form(content string, fields ...string) string {
	var b strings.Builder
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", fields[i], fields[i+1])
	}
	fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n%s\r\n--x--\r\n", content)
	return b.String()
}

const formType = "Content-Type: multipart/form-data; boundary=x"

// send sends a file and returns its id.
func send(t *testing.T, h *servertest.Server, content string, headers ...string) string {
	t.Helper()
	return get(t, h, 200, "POST", "/v1/files", form(content, "purpose", "batch"), append(headers, formType)...)["id"].(string)
}

// line is a request for a few tokens.
func line(id, fields string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":%q,"body":{"model":"tiny","messages":[{"role":"user","content":"Hi"}],"max_tokens":3%s}}`+"\n", id, chat, fields)
}

// begin makes a batch of lines.
func begin(t *testing.T, h *servertest.Server, content string, headers ...string) object {
	t.Helper()
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h","metadata":{"a":"b"}}`, send(t, h, content, headers...), chat)
	return get(t, h, 200, "POST", "/v1/batches", body, headers...)
}

// until asks for a batch until it has a status.
func until(t *testing.T, h *servertest.Server, id any, status string, headers ...string) object {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		b := get(t, h, 200, "GET", "/v1/batches/"+id.(string), "", headers...)
		switch b["status"] {
		case status:
			return b
		case "completed", "failed", "expired", "cancelled":
			t.Fatalf("%v, want %s", b, status)
		}
	}
	panic("unreachable")
}

// results are the lines of a file: custom_id, status and code of each.
func results(t *testing.T, h *servertest.Server, id any) (list []string) {
	t.Helper()
	if id == nil {
		return nil
	}
	status, text, _ := h.Get("GET", "/v1/files/"+id.(string)+"/content", "")
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for l := range strings.Lines(text) {
		var r struct {
			ID       string
			CustomID string `json:"custom_id"`
			Response *struct {
				StatusCode int `json:"status_code"`
				Body       object
			}
			Error *struct{ Code string }
		}
		if err := json.Unmarshal([]byte(l), &r); err != nil || r.ID == "" {
			t.Fatalf("%s: %v", l, err)
		}
		s := r.CustomID
		if r.Response != nil {
			s += fmt.Sprint(" ", r.Response.StatusCode, " ", r.Response.Body["object"])
		}
		if r.Error != nil {
			s += " " + r.Error.Code
		}
		list = append(list, s)
	}
	return list
}

// usedIn adds up the usage of the chats in a file of results.
func usedIn(t *testing.T, h *servertest.Server, id any) object {
	t.Helper()
	_, text, _ := h.Get("GET", "/v1/files/"+id.(string)+"/content", "")
	var in, cached, out float64
	for l := range strings.Lines(text) {
		var r struct {
			Response struct {
				Body struct {
					Usage struct {
						In      float64 `json:"prompt_tokens"`
						Out     float64 `json:"completion_tokens"`
						Details struct {
							Cached float64 `json:"cached_tokens"`
						} `json:"prompt_tokens_details"`
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatal(err)
		}
		u := r.Response.Body.Usage
		in, cached, out = in+u.In, cached+u.Details.Cached, out+u.Out
	}
	return object{"input_tokens": in, "input_tokens_details": object{"cached_tokens": cached}, "output_tokens": out, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": in + out}
}

// TestB1Files: a file is kept, read, listed and deleted.
func TestB1Files(t *testing.T) {
	h := newServer(t, nil, nil)
	text := strings.Repeat("0123456789abcde\n", 100_000) // more than a chunk
	f := get(t, h, 200, "POST", "/v1/files", form(text, "purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600"), formType)
	if f["object"] != "file" || f["bytes"].(float64) != float64(len(text)) || f["filename"] != "in.jsonl" || f["purpose"] != "batch" || f["status"] != "processed" || f["expires_at"].(float64)-f["created_at"].(float64) != 3600 {
		t.Errorf("%v", f)
	}
	path := "/v1/files/" + f["id"].(string)
	if again := get(t, h, 200, "GET", path, ""); fmt.Sprint(again) != fmt.Sprint(f) {
		t.Errorf("%v, want %v", again, f)
	}
	if status, content, _ := h.Get("GET", path+"/content", ""); status != 200 || content != text {
		t.Errorf("%d, %d bytes", status, len(content))
	}
	if d := get(t, h, 200, "DELETE", path, ""); d["deleted"] != true || d["id"] != f["id"] {
		t.Errorf("%v", d)
	}
	for _, p := range []string{path, path + "/content"} {
		if e := get(t, h, 404, "GET", p, "")["error"].(object); e["param"] != "file_id" {
			t.Errorf("%v", e)
		}
	}
	expired := get(t, h, 200, "POST", "/v1/files", form("x", "purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600"), formType)
	now := h.Clock()
	h.SetClock(func() time.Time { return now().Add(2 * time.Hour) })
	get(t, h, 404, "GET", "/v1/files/"+expired["id"].(string), "")
}

// TestB1Refused: forms that are none, and what they may not say.
func TestB1Refused(t *testing.T) {
	h := newServer(t, nil, nil)
	for _, c := range []struct{ body, param string }{
		{form("x"), "purpose"},
		{form("x", "purpose", "assistants"), "purpose"},
		{"--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x--\r\n", "file"},
		{form("x", "purpose", "batch", "expires_after[seconds]", "3600"), "expires_after"},
		{form("x", "purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "60"), "expires_after"},
		{form("x", "purpose", strings.Repeat("b", 2000)), ""},
		{"nonsense", "file"},
	} {
		e := get(t, h, 400, "POST", "/v1/files", c.body, formType)["error"].(object)
		if got, _ := e["param"].(string); got != c.param {
			t.Errorf("%.80q: %v", c.body, e)
		}
	}
	if status, _, _ := h.Get("POST", "/v1/files", `{"purpose":"batch"}`); status != 415 {
		t.Errorf("JSON: %d", status)
	}
}

// TestB2Lists: lists have pages, the newest first.
func TestB2Lists(t *testing.T) {
	h := newServer(t, nil, nil)
	var files, batches []string
	now := time.Unix(1_800_000_000, 0)
	h.SetClock(func() time.Time { return now })
	for range 3 {
		b := begin(t, h, line("a", ""))
		until(t, h, b["id"], "completed")
		files, batches = append([]string{b["input_file_id"].(string)}, files...), append([]string{b["id"].(string)}, batches...)
		now = now.Add(time.Second)
	}
	ids := func(path string) string {
		l := get(t, h, 200, "GET", path, "")
		var ids []string
		for _, o := range l["data"].([]any) {
			ids = append(ids, o.(object)["id"].(string))
		}
		if len(ids) > 0 && (l["first_id"] != ids[0] || l["last_id"] != ids[len(ids)-1]) {
			t.Errorf("%v", l)
		}
		return fmt.Sprint(ids, l["has_more"])
	}
	for path, want := range map[string]string{
		"/v1/files?purpose=batch":                   fmt.Sprint(files, false),
		"/v1/files?purpose=batch&limit=2":           fmt.Sprint(files[:2], true),
		"/v1/files?purpose=batch&after=" + files[1]: fmt.Sprint(files[2:], false),
		"/v1/files?purpose=batch&order=asc&limit=1": fmt.Sprint(files[2:], true),
		"/v1/batches": fmt.Sprint(batches, false),
		"/v1/batches?limit=1&after=" + batches[0]: fmt.Sprint(batches[1:2], true),
		"/v1/files?purpose=none":                  "[] false",
	} {
		if got := ids(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{"/v1/files?limit=0", "/v1/batches?limit=101", "/v1/batches?order=up", "/v1/batches?after=none"} {
		get(t, h, 400, "GET", path, "")
	}
}

// TestB3Bounds: a form, and the files of a project, are bounded in bytes.
func TestB3Bounds(t *testing.T) {
	h := newServer(t, batchesapi.NewStore(servertest.NewDB(t), 100, 0), func(s *servertest.Setup) { s.Config.MaxFile = 5000 })
	first := send(t, h, strings.Repeat("x", 60))
	get(t, h, 400, "POST", "/v1/files", form(strings.Repeat("x", 60), "purpose", "batch"), formType)
	get(t, h, 413, "POST", "/v1/files", form(strings.Repeat("x", 6000), "purpose", "batch"), formType)
	get(t, h, 200, "DELETE", "/v1/files/"+first, "")
	send(t, h, strings.Repeat("x", 60))
}

// TestB3Beside: of two files that are received at the same time and do not fit together, the one that ends
// last is refused.
func TestB3Beside(t *testing.T) {
	db := servertest.NewDB(t)
	h := newServer(t, batchesapi.NewStore(db, 3<<20, 0), nil)
	text := form(strings.Repeat("x", 2<<20), "purpose", "batch")
	slow := h.Raw(t)
	slow.Send(fmt.Sprintf("POST /v1/files HTTP/1.1\r\nHost: weir\r\n%s\r\nContent-Length: %d\r\n\r\n%s", formType, len(text), text[:len(text)-10]))
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for chunks(t, db) == 0 {
		<-tick.C
	}
	send(t, h, strings.Repeat("y", 2<<20))
	slow.Send(text[len(text)-10:])
	if status, body, _ := slow.Answer(); status != 400 || !strings.Contains(body, "room for 1048576") {
		t.Errorf("%d %s", status, body)
	}
	if n := chunks(t, db); n != 2 {
		t.Errorf("%d chunks", n)
	}
}

// chunks returns how many chunks of files there are.
func chunks(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	if err := db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{'C'}, Keys: true}, func(_, _ []byte) bool { n++; return true })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestB3Streamed: a file that is larger than a body may be is received piece by piece and is read back as it was
// sent. Of one that is refused after some of it was written, nothing is left.
func TestB3Streamed(t *testing.T) {
	db := servertest.NewDB(t)
	h := newServer(t, batchesapi.NewStore(db, 8<<20, 0), func(s *servertest.Setup) { s.Config.MaxBody, s.Config.MaxFile = 1<<20, 7<<20 })
	text := strings.Repeat("0123456789abcdef\n", 3<<20/17) // of some chunks, and a part of one
	id := send(t, h, text)
	if status, got, _ := h.Get("GET", "/v1/files/"+id+"/content", ""); status != 200 || got != text {
		t.Fatalf("%d, %d bytes, want %d", status, len(got), len(text))
	}
	if got := get(t, h, 200, "GET", "/v1/files/"+id, "")["bytes"]; got != float64(len(text)) {
		t.Errorf("%v bytes", got)
	}
	before := chunks(t, db)
	file := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + text
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"no purpose":             {file + "\r\n--x--\r\n", 400},
		"a wrong purpose behind": {file + "\r\n--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nvision\r\n--x--\r\n", 400},
		"no end":                 {file, 400},
		"two files":              {file + "\r\n" + file + "\r\n--x--\r\n", 400},
		"over the quota":         {form(strings.Repeat(text, 2)[:5<<20+1<<19], "purpose", "batch"), 400},
		"over the limit":         {form(strings.Repeat(text, 3), "purpose", "batch"), 413},
	} {
		answer := get(t, h, c.want, "POST", "/v1/files", c.body, formType)
		if said := fmt.Sprint(answer["error"]); c.want == 413 && !strings.Contains(said, "limit 7340032 bytes") {
			t.Errorf("%s: %s", name, said)
		}
		if n := chunks(t, db); n != before {
			t.Errorf("%s: %d chunks are left, before there were %d", name, n, before)
		}
	}
	get(t, h, 200, "DELETE", "/v1/files/"+id, "")
	if n := chunks(t, db); n != 0 {
		t.Errorf("%d chunks of a deleted file", n)
	}
}

// keyring has keys by name, each with more of what the file says of it.
func keyring(t *testing.T, names ...string) *auth.Keyring {
	t.Helper()
	text := "keys:\n"
	for i := 0; i < len(names); i += 2 {
		text += fmt.Sprintf("  - {id: %s, hash: %q%s}\n", names[i], servertest.KeyHash("sk-"+names[i]), names[i+1])
	}
	path := filepath.Join(t.TempDir(), "keys.yaml")
	err := os.WriteFile(path, []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestB4Foreign: files and batches are those of their project, and of the tenant.
func TestB4Foreign(t *testing.T) {
	shared := `, projects: ["acme/shared"]`
	h := newServer(t, nil, func(s *servertest.Setup) { s.Config.Keys = keyring(t, "ann", shared, "bob", shared, "cid", "") })
	ann := []string{"Authorization: Bearer sk-ann", "Compat-Project: acme/shared"}
	b := begin(t, h, line("a", ""), ann...)
	done := until(t, h, b["id"], "completed", ann...)
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{ann, 200}, {[]string{"Authorization: Bearer sk-bob", "Compat-Project: acme/shared"}, 200},
		{[]string{"Authorization: Bearer sk-cid", "Compat-Project: acme/shared"}, 404}, {[]string{"Authorization: Bearer sk-cid"}, 404},
		{ann[:1], 404}, {nil, 401},
	} {
		for _, path := range []string{"/v1/batches/" + b["id"].(string), "/v1/files/" + b["input_file_id"].(string), "/v1/files/" + done["output_file_id"].(string) + "/content"} {
			if status, answer, _ := h.Get("GET", path, "", c.headers...); status != c.status {
				t.Errorf("%q %s: %d %s", c.headers, path, status, answer)
			}
		}
		if c.status == 404 {
			get(t, h, 404, "POST", "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, b["input_file_id"], chat), c.headers...)
			get(t, h, 404, "POST", "/v1/batches/"+b["id"].(string)+"/cancel", "", c.headers...)
			get(t, h, 404, "DELETE", "/v1/files/"+b["input_file_id"].(string), "", c.headers...)
		}
	}
}

// TestB5Refused: what a request for a batch may not say.
func TestB5Refused(t *testing.T) {
	h := newServer(t, nil, nil)
	id := send(t, h, line("a", ""))
	whole := object{"input_file_id": id, "endpoint": chat, "completion_window": "24h"}
	for name, values := range map[string][]any{
		"input_file_id": {nil, 7}, "endpoint": {nil, "/v1/models"}, "completion_window": {nil, "1w", "31d", "0h", "99999h"},
		"metadata": {"a", object{"a": 1}, object{"a": strings.Repeat("x", 513)}, object{strings.Repeat("x", 65): "a"}},
	} {
		for _, v := range values {
			body := object{name: v}
			for k, v := range whole {
				if k != name {
					body[k] = v
				}
			}
			text, _ := json.Marshal(body)
			if e := get(t, h, 400, "POST", "/v1/batches", string(text))["error"].(object); e["param"] != name {
				t.Errorf("%s: %v", text, e)
			}
		}
	}
	for _, body := range []string{"", "[]", "{", `{"a":"` + strings.Repeat("x", 70_000) + `"}`} {
		get(t, h, 400, "POST", "/v1/batches", body)
	}
	if e := get(t, h, 404, "POST", "/v1/batches", strings.Replace(fmt.Sprintf(`{"input_file_id":"none","endpoint":%q,"completion_window":"2d"}`, chat), "none", "file-none", 1))["error"].(object); e["param"] != "input_file_id" {
		t.Errorf("%v", e)
	}
}

// TestB7Completed: results are in the order of the lines, refused requests in a file of their own.
func TestB7Completed(t *testing.T) {
	h := newServer(t, nil, nil)
	var content strings.Builder
	var want []string
	for i := range 30 {
		id := fmt.Sprint("r", i)
		content.WriteString(line(id, fmt.Sprintf(`,"max_completion_tokens":%d`, 1+(30-i)%7)))
		want = append(want, id+" 200 chat.completion")
	}
	content.WriteString(line("bad", `,"temperature":-1`))
	made := begin(t, h, content.String())
	if made["status"] != "validating" || made["object"] != "batch" || made["endpoint"] != chat || made["expires_at"].(float64)-made["created_at"].(float64) != 86400 || fmt.Sprint(made["metadata"]) != "map[a:b]" || made["errors"] != nil {
		t.Errorf("%v", made)
	}
	b := until(t, h, made["id"], "completed")
	if fmt.Sprint(b["request_counts"]) != "map[completed:30 failed:1 total:31]" || b["in_progress_at"] == nil || b["finalizing_at"] == nil || b["completed_at"] == nil || b["failed_at"] != nil {
		t.Errorf("%v", b)
	}
	if got := results(t, h, b["output_file_id"]); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := results(t, h, b["error_file_id"]); fmt.Sprint(got) != "[bad 400 <nil>]" {
		t.Errorf("%v", got)
	}
	if want := usedIn(t, h, b["output_file_id"]); fmt.Sprint(b["usage"]) != fmt.Sprint(want) || want["output_tokens"].(float64) < 30 {
		t.Errorf("usage %v, want %v", b["usage"], want)
	}
	b = until(t, h, begin(t, h, line("a", ""))["id"], "completed")
	if b["error_file_id"] != nil {
		t.Errorf("%v", b)
	}
}

// TestB8Background: while a batch takes all places, another request is answered; and requests of a
// batch are counted as all others are.
func TestB8Background(t *testing.T) {
	h := newServer(t, nil, func(s *servertest.Setup) { s.Spec.MaxSeqs = 2 })
	var content strings.Builder
	for i := range 20 {
		content.WriteString(line(fmt.Sprint("r", i), `,"max_completion_tokens":900,"ignore_eos":true`))
	}
	b := begin(t, h, content.String())
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if h.Engine.Stats().Running == 2 {
			break
		}
	}
	if status, answer := h.Chat(nil); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if h.Engine.Stats().Preemptions == 0 {
		t.Error("no request of the batch gave its place")
	}
	until(t, h, b["id"], "completed")
	if u := get(t, h, 200, "GET", "/usage", ""); !strings.Contains(fmt.Sprint(u), "requests:21") {
		t.Errorf("usage %v", u)
	}
}

// TestB9Cancelled: a batch that is cancelled has the results that it has.
func TestB9Cancelled(t *testing.T) {
	h := newServer(t, nil, nil)
	held, release := h.HoldSteps()
	content := line("bad", `,"temperature":-1`) + line("a", "")
	b := begin(t, h, content)
	<-held
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if now := until(t, h, b["id"], "in_progress"); now["request_counts"].(object)["failed"].(float64) == 1 {
			break
		}
	}
	if e := get(t, h, 400, "DELETE", "/v1/files/"+b["input_file_id"].(string), "")["error"].(object); e["param"] != "file_id" {
		t.Errorf("%v", e)
	}
	if c := get(t, h, 200, "POST", "/v1/batches/"+b["id"].(string)+"/cancel", ""); c["status"] != "cancelling" || c["cancelling_at"] == nil {
		t.Errorf("%v", c)
	}
	b = until(t, h, b["id"], "cancelled") // it does not wait for the step
	release()
	if got := results(t, h, b["error_file_id"]); fmt.Sprint(got) != "[bad 400 <nil>]" || b["output_file_id"] != nil || b["cancelled_at"] == nil {
		t.Errorf("%v %v", got, b)
	}
	get(t, h, 400, "POST", "/v1/batches/"+b["id"].(string)+"/cancel", "")
	get(t, h, 200, "DELETE", "/v1/files/"+b["input_file_id"].(string), "")
}

// TestB10Expired: requests that were not computed in time are in the file of errors.
func TestB10Expired(t *testing.T) {
	store := batchesapi.NewStore(servertest.NewDB(t), 0, 0)
	h := newServer(t, store, nil)
	now := h.Clock()
	h.SetClock(func() time.Time { return now().Add(-48 * time.Hour) })
	held, release := h.HoldSteps()
	b := begin(t, h, line("bad", `,"temperature":-1`)+line("a", "")+line("b", ""))
	<-held
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if now := until(t, h, b["id"], "in_progress"); now["request_counts"].(object)["failed"].(float64) == 1 {
			break
		}
	}
	go func() { // requests of batches have ended when others are refused
		for !h.Instance.Transport().Draining() {
			<-tick.C
		}
		release()
	}()
	h.Stop()
	tick.Reset(time.Millisecond)
	later := newServer(t, store, nil)
	for range tick.C {
		b = get(t, later, 200, "GET", "/v1/batches/"+b["id"].(string), "")
		if b["status"] == "expired" || b["status"] == "completed" {
			break
		}
	}
	if got := results(t, later, b["error_file_id"]); fmt.Sprint(got) != "[bad 400 <nil> a batch_expired b batch_expired]" || b["output_file_id"] != nil || fmt.Sprint(b["request_counts"]) != "map[completed:0 failed:3 total:3]" {
		t.Errorf("%v %v", got, b)
	}
}

// TestB13Kept: files and ended batches are deleted when they are too old.
func TestB13Kept(t *testing.T) {
	store := batchesapi.NewStore(servertest.NewDB(t), 0, 24*time.Hour)
	h := newServer(t, store, nil)
	b := until(t, h, begin(t, h, line("a", ""))["id"], "completed")
	if n, err := store.Expire(context.Background(), h.Clock()().Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if n, err := store.Expire(context.Background(), h.Clock()().Add(25*time.Hour)); n != 3 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	for _, path := range []string{"/v1/batches/" + b["id"].(string), "/v1/files/" + b["input_file_id"].(string), "/v1/files/" + b["output_file_id"].(string)} {
		get(t, h, 404, "GET", path, "")
	}
}

// TestB14Erase: an erasure of a project deletes its files and batches.
func TestB14Erase(t *testing.T) {
	h := newServer(t, nil, func(s *servertest.Setup) {
		s.Config.Feedback = feedback.New(servertest.NewDB(t), feedback.DefaultConfig())
	})
	until(t, h, begin(t, h, line("a", ""), "Compat-Project: acme/a")["id"], "completed", "Compat-Project: acme/a")
	other := begin(t, h, line("a", ""), "Compat-Project: acme/b")
	until(t, h, other["id"], "completed", "Compat-Project: acme/b")
	for _, want := range []int{3, 0} {
		o := get(t, h, 200, "POST", "/feedback/erase", `{"project_id":"acme/a","confirm":"acme/a","before":"2100-01-01T00:00:00Z"}`)
		if got, _ := o["batches"].(float64); int(got) != want {
			t.Errorf("%v, want %d", o, want)
		}
	}
	get(t, h, 200, "GET", "/v1/batches/"+other["id"].(string), "", "Compat-Project: acme/b")
}
