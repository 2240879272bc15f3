package batchesapi_test

import (
	"context"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/server/batchesapi"
	"weir/server/servertest"
	"weir/store"
)

// beginUpload begins a file that is sent in parts.
func beginUpload(t *testing.T, h *servertest.Server, bytes int, headers ...string) (path string) {
	t.Helper()
	u := get(t, h, 200, "POST", "/v1/uploads", fmt.Sprintf(`{"filename":"in.jsonl","purpose":"batch","mime_type":"application/jsonl","bytes":%d}`, bytes), headers...)
	if u["status"] != "pending" || u["object"] != "upload" || u["bytes"] != float64(bytes) || u["filename"] != "in.jsonl" || u["purpose"] != "batch" || u["file"] != nil ||
		u["expires_at"].(float64)-u["created_at"].(float64) != 3600 {
		t.Errorf("%v", u)
	}
	return "/v1/uploads/" + u["id"].(string)
}

// partForm is the form of a part.
func partForm(content string) string {
	return "--x\r\nContent-Disposition: form-data; name=\"data\"; filename=\"upload\"\r\nContent-Type: application/octet-stream\r\n\r\n" + content + "\r\n--x--\r\n"
}

// addPart sends a part and returns its id.
func addPart(t *testing.T, h *servertest.Server, upload, content string, headers ...string) string {
	t.Helper()
	p := get(t, h, 200, "POST", upload+"/parts", partForm(content), append(headers, formType)...)
	if p["object"] != "upload.part" || "/v1/uploads/"+p["upload_id"].(string) != upload || p["created_at"] == nil {
		t.Errorf("%v", p)
	}
	return p["id"].(string)
}

// naming is a request to make a file of parts.
func naming(md5 string, parts ...string) string {
	body := object{"part_ids": parts}
	if md5 != "" {
		body["md5"] = md5
	}
	text, _ := json.Marshal(body)
	return string(text)
}

// complete makes a file of parts and returns its id.
func complete(t *testing.T, h *servertest.Server, upload string, parts ...string) string {
	t.Helper()
	u := get(t, h, 200, "POST", upload+"/complete", naming("", parts...))
	return u["file"].(object)["id"].(string)
}

// TestB15Uploads: a file that is sent in parts is one as any other, in the order of the parts, and a batch can read it.
func TestB15Uploads(t *testing.T) {
	db := servertest.NewDB(t)
	h := newServer(t, batchesapi.NewStore(db, 0, 0), nil)
	text := line("a", "") + strings.Repeat("\n", 3<<20) + line("b", "")
	upload := beginUpload(t, h, len(text))
	second := addPart(t, h, upload, text[2<<20+5:]) // of chunks, and a part of one
	first := addPart(t, h, upload, text[:2<<20+5])
	before := chunks(t, db)
	wrong := addPart(t, h, upload, "nobody wants this")
	sum := fmt.Sprintf("%X", md5.Sum([]byte(text)))
	u := get(t, h, 200, "POST", upload+"/complete", naming(sum, first, second))
	file := u["file"].(object)
	if u["status"] != "completed" || file["object"] != "file" || file["bytes"] != float64(len(text)) || file["filename"] != "in.jsonl" || file["status"] != "processed" || file["expires_at"] != nil {
		t.Errorf("%v", u)
	}
	path := "/v1/files/" + file["id"].(string)
	if again := get(t, h, 200, "GET", path, ""); fmt.Sprint(again) != fmt.Sprint(file) {
		t.Errorf("%v, want %v", again, file)
	}
	if status, content, _ := h.Get("GET", path+"/content", ""); status != 200 || content != text {
		t.Errorf("%d, %d bytes, want %d", status, len(content), len(text))
	}
	if n := chunks(t, db); n != before {
		t.Errorf("%d chunks, want %d: that of %s is left", n, before, wrong)
	}
	b := get(t, h, 200, "POST", "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, file["id"], chat))
	if done := until(t, h, b["id"], "completed"); fmt.Sprint(done["request_counts"]) != "map[completed:2 failed:0 total:2]" {
		t.Errorf("%v", done)
	}
	before = chunks(t, db)
	get(t, h, 200, "DELETE", path, "")
	if n := chunks(t, db); n != before-5 {
		t.Errorf("%d chunks, %d with the file that was deleted", n, before)
	}
	get(t, h, 404, "POST", upload+"/complete", naming(sum, first, second))
}

// TestB15Refused: what a request for an upload, and a part, may not say.
func TestB15Refused(t *testing.T) {
	h := newServer(t, nil, nil)
	whole := object{"filename": "a", "purpose": "batch", "mime_type": "text/plain", "bytes": 10}
	for name, values := range map[string][]any{
		"filename": {nil, "", 7, strings.Repeat("x", 256)}, "purpose": {nil, "assistants"}, "mime_type": {nil}, "bytes": {nil, 0, -1, 1.5, "10", 8<<30 + 1},
		"expires_after": {7, object{}, object{"anchor": "created_at"}, object{"anchor": "created_at", "seconds": 60}, object{"anchor": "now", "seconds": 3600}},
	} {
		for _, v := range values {
			body := object{}
			for k, v := range whole {
				body[k] = v
			}
			body[name] = v
			text, _ := json.Marshal(body)
			if e := get(t, h, 400, "POST", "/v1/uploads", string(text))["error"].(object); e["param"] != name {
				t.Errorf("%s: %v", text, e)
			}
		}
	}
	upload := beginUpload(t, h, 10)
	for body, want := range map[string]string{partForm(""): "data", form("x"): "data", strings.TrimSuffix(partForm("x"), "\r\n--x--\r\n"): "", partForm("x") + "junk": ""} {
		status, answer, _ := h.Get("POST", upload+"/parts", body, formType)
		if strings.HasSuffix(body, "junk") {
			if status != 200 {
				t.Errorf("what follows a form: %d %s", status, answer)
			}
			continue
		}
		if want != "" && !strings.Contains(answer, fmt.Sprintf(`"param":%q`, want)) || status != 400 {
			t.Errorf("%.60q: %d %s", body, status, answer)
		}
	}
	if status, _, _ := h.Get("POST", upload+"/parts", "{}"); status != 415 {
		t.Errorf("JSON: %d", status)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if status, _, _ := h.Get(method, upload, ""); status != 404 {
			t.Errorf("%s: %d", method, status)
		}
	}
	get(t, h, 404, "POST", "/v1/uploads/upload_none/parts", partForm("x"), formType)
}

// TestB15Bounds: uploads take the room of files, and have bounds of their own.
func TestB15Bounds(t *testing.T) {
	db := servertest.NewDB(t)
	h := newServer(t, batchesapi.NewStore(db, 100, 0), nil)
	request := func(bytes int) string {
		return fmt.Sprintf(`{"filename":"a","purpose":"batch","mime_type":"","bytes":%d}`, bytes)
	}
	refused := func(method, path, body, want string, headers ...string) {
		t.Helper()
		if e := get(t, h, 400, method, path, body, headers...)["error"].(object); !strings.Contains(e["message"].(string), want) {
			t.Errorf("%v, want %s", e, want)
		}
	}
	upload := beginUpload(t, h, 60)
	refused("POST", "/v1/uploads", request(41), "room for 40")
	refused("POST", "/v1/files", form(strings.Repeat("x", 41), "purpose", "batch"), "room for 40", formType)
	first := addPart(t, h, upload, strings.Repeat("x", 60))
	refused("POST", upload+"/parts", partForm(strings.Repeat("x", 41)), "room for 40", formType)
	addPart(t, h, upload, strings.Repeat("y", 30)) // is sent again
	refused("POST", "/v1/uploads", request(11), "room for 10")
	if n := chunks(t, db); n != 2 {
		t.Errorf("%d chunks", n)
	}
	file := complete(t, h, upload, first)
	small := beginUpload(t, h, 4)
	refused("POST", small+"/parts", partForm("123456789"), "room for 8", formType)
	get(t, h, 200, "POST", small+"/cancel", "")
	refused("POST", "/v1/uploads", request(41), "room for 40")
	get(t, h, 200, "DELETE", "/v1/files/"+file, "")
	beginUpload(t, h, 100)

	h = newServer(t, nil, nil)
	for range 100 {
		beginUpload(t, h, 1)
	}
	refused("POST", "/v1/uploads", request(1), "100 uploads")
}

// TestB16Completed: a file is made of the parts that are named, if they are what was meant.
func TestB16Completed(t *testing.T) {
	h := newServer(t, nil, nil)
	upload := beginUpload(t, h, 6)
	a, b, c := addPart(t, h, upload, "abc"), addPart(t, h, upload, "def"), addPart(t, h, upload, "g")
	for body, param := range map[string]string{
		`{}`: "part_ids", `{"part_ids":7}`: "part_ids", `{"part_ids":[7]}`: "part_ids", naming("", a, b, c): "part_ids", naming("", a): "part_ids", naming("", a, a): "part_ids",
		naming("", a, b, "part_none"): "part_ids", naming("00", a, b): "md5", naming(strings.Repeat("0", 32), a, b): "md5", naming(strings.Repeat("x", 32), a, b): "md5", "[]": "",
	} {
		e := get(t, h, 400, "POST", upload+"/complete", body)["error"].(object)
		if got, _ := e["param"].(string); got != param {
			t.Errorf("%s: %v", body, e)
		}
	}
	file := complete(t, h, upload, b, a)
	if _, content, _ := h.Get("GET", "/v1/files/"+file+"/content", ""); content != "defabc" {
		t.Errorf("%q", content)
	}
	if again := complete(t, h, upload, b, a); again != file { // as a client does whose answer was lost
		t.Errorf("%s, want %s", again, file)
	}
	for path, body := range map[string]string{"/complete": naming("", a, b), "/cancel": ""} {
		get(t, h, 400, "POST", upload+path, body)
	}
	get(t, h, 400, "POST", upload+"/parts", partForm("x"), formType)
	if l := get(t, h, 200, "GET", "/v1/files", ""); len(l["data"].([]any)) != 1 {
		t.Errorf("%v", l)
	}
}

// TestB16Ended: an upload that is cancelled, erased, expired or another's is not there, and nothing is left of it.
func TestB16Ended(t *testing.T) {
	db := servertest.NewDB(t)
	store := batchesapi.NewStore(db, 0, 0)
	h := newServer(t, store, func(s *servertest.Setup) { s.Config.Keys = keyring(t, "ann", "", "bob", "") })
	ann, bob := "Authorization: Bearer sk-ann", "Authorization: Bearer sk-bob"
	gone := func(upload, part, key string) {
		t.Helper()
		get(t, h, 404, "POST", upload+"/complete", naming("", part), key)
		get(t, h, 404, "POST", upload+"/cancel", "", key)
		get(t, h, 404, "POST", upload+"/parts", partForm("x"), key, formType)
	}
	upload := beginUpload(t, h, 3, ann)
	part := addPart(t, h, upload, "abc", ann)
	gone(upload, part, bob)
	if u := get(t, h, 200, "POST", upload+"/cancel", "", ann); u["status"] != "cancelled" || u["file"] != nil {
		t.Errorf("%v", u)
	}
	gone(upload, part, ann)
	now := h.Clock()
	old := beginUpload(t, h, 3, ann)
	part = addPart(t, h, old, "abc", ann)
	kept := beginUpload(t, h, 3, bob)
	whole := addPart(t, h, kept, "abc", bob)
	h.SetClock(func() time.Time { return now().Add(59 * time.Minute) })
	get(t, h, 200, "POST", kept+"/complete", naming("", whole), bob)
	h.SetClock(func() time.Time { return now().Add(61 * time.Minute) })
	gone(old, part, ann)
	if n := chunks(t, db); n != 2 {
		t.Errorf("%d chunks", n)
	}
	other := beginUpload(t, h, 3, ann) // which deletes the old one
	addPart(t, h, other, "abc", ann)
	if n := chunks(t, db); n != 2 {
		t.Errorf("%d chunks", n)
	}
	if n, err := store.Expire(context.Background(), now().Add(3*time.Hour)); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if n := chunks(t, db); n != 1 {
		t.Errorf("%d chunks", n)
	}
}

// TestB16Restart: an upload goes on in the next process, and what an interrupted part has left is deleted there.
func TestB16Restart(t *testing.T) {
	db := servertest.NewDB(t)
	s := batchesapi.NewStore(db, 0, 0)
	h := newServer(t, s, nil)
	upload := beginUpload(t, h, 6)
	a := addPart(t, h, upload, "abc")
	done := beginUpload(t, h, 3)
	file := complete(t, h, done, addPart(t, h, done, "xyz"))
	b := begin(t, h, line("a", ""))
	until(t, h, b["id"], "completed")
	h.Stop()
	want := chunks(t, db)
	if err := db.Update(context.Background(), func(tx *store.Tx) error { // as a kill leaves it
		key := store.AppendString(store.AppendString([]byte{'C'}, ""), "")
		key = store.AppendString(store.AppendString(key, strings.TrimPrefix(upload, "/v1/uploads/")), "part_cut")
		tx.Set(store.AppendUint(key, 0), []byte("cut"))
		tx.Set(store.AppendUint(store.AppendString(store.AppendString(store.AppendString([]byte{'C'}, ""), ""), "file-cut"), 0), []byte("cut"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := chunks(t, db); n != want+2 {
		t.Fatalf("%d chunks, want %d", n, want+2)
	}
	again := newServer(t, batchesapi.NewStore(db, 0, 0), nil)
	servertest.WaitFor(t, "what was cut is deleted", func() bool { return chunks(t, db) == want })
	whole := complete(t, again, upload, a, addPart(t, again, upload, "def"))
	for id, want := range map[string]string{whole: "abcdef", file: "xyz"} {
		if _, content, _ := again.Get("GET", "/v1/files/"+id+"/content", ""); content != want {
			t.Errorf("%q, want %q", content, want)
		}
	}
}

// TestB3Places: of one owner 16 files and parts are received at a time; one more is told when to come again.
func TestB3Places(t *testing.T) {
	db := servertest.NewDB(t)
	h := newServer(t, batchesapi.NewStore(db, 0, 0), nil)
	upload := beginUpload(t, h, 40<<20)
	content := strings.Repeat("x", 1<<20+1<<16) // of which a chunk is written before the end has come
	text := partForm(content)
	var all []*servertest.Raw
	for i := range 16 {
		path, body := upload+"/parts", text
		if i%2 == 0 {
			path, body = "/v1/files", form(content, "purpose", "batch")
		}
		c := h.Raw(t)
		c.Send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: weir\r\n%s\r\nContent-Length: %d\r\n\r\n%s", path, formType, len(body), body[:len(body)-10]))
		all = append(all, c)
	}
	servertest.WaitFor(t, "sixteen have written", func() bool { return chunks(t, db) == 16 })
	for path, body := range map[string]string{"/v1/files": form("x", "purpose", "batch"), upload + "/parts": text} {
		if status, answer, header := h.Get("POST", path, body, formType); status != 429 || header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s %v", path, status, answer, header)
		}
	}
	for _, c := range all {
		c.Send(text[len(text)-10:])
		if status, answer, _ := c.Answer(); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
	}
	send(t, h, "x")
}
