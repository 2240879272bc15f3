package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServedBatchKilled: a server that computes a batch is killed again and again, in the middle of the
// lines. The last one has an answer for each line, in their order, and the usage of all
// (docs/interface/batches.md, B-11).
func TestServedBatchKilled(t *testing.T) {
	t.Parallel()
	const lines, tokens, kills = 120, 10, 3
	dir := filepath.Join(t.TempDir(), "data")
	start := func() *process {
		return startProcess(t, nil, "--data-dir", dir, "--min-free-disk", "0", "--max-num-seqs", "4", "--sim-profile", "h100-llama-8b")
	}
	ask := func(method, url, body string) (answer map[string]any) {
		t.Helper()
		kind := "application/json"
		if strings.HasPrefix(body, "--") {
			kind = "multipart/form-data; boundary=x"
		}
		for {
			code, text, _ := do(t, http.DefaultClient, method, url, body, "Content-Type", kind)
			if code == 503 { // the store is being opened
				continue
			}
			if err := json.Unmarshal([]byte(text), &answer); code != 200 || err != nil {
				t.Fatalf("%s %s: %d %s", method, url, code, text)
			}
			return answer
		}
	}
	p := start()
	var input strings.Builder
	for i := range lines {
		fmt.Fprintf(&input, `{"custom_id":"r%d","method":"POST","url":"/v1/completions","body":{"prompt":"%d","max_tokens":%d,"ignore_eos":true}}`+"\n", i, i, tokens)
	}
	form := "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n" + input.String() + "\r\n--x--\r\n"
	file := ask("POST", p.url+"/v1/files", form)
	b := ask("POST", p.url+"/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/completions","completion_window":"24h"}`, file["id"]))
	path := "/v1/batches/" + b["id"].(string)
	completed := func() float64 {
		b = ask("GET", p.url+path, "")
		return b["request_counts"].(map[string]any)["completed"].(float64)
	}
	killed := 0
	for n := range kills {
		for completed() < float64((n+1)*lines/(kills+2)) {
			time.Sleep(time.Millisecond)
		}
		if b["status"] != "in_progress" { // this test was slower than the batch
			break
		}
		p.kill()
		p = start()
		killed++
	}
	if killed == 0 {
		t.Error("the batch was never killed")
	}
	for completed() < lines || b["status"] != "completed" {
		time.Sleep(2 * time.Millisecond)
	}
	if b["error_file_id"] != nil || b["usage"].(map[string]any)["output_tokens"] != float64(lines*tokens) {
		t.Errorf("%v", b)
	}
	code, text, _ := do(t, http.DefaultClient, "GET", p.url+"/v1/files/"+b["output_file_id"].(string)+"/content", "")
	if code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	checkAnswers(t, text, lines)
	p.kill()
	if code, out, errOut := runStore("verify", "--data-dir", dir); code != 0 {
		t.Errorf("weir store verify: %s%s", out, errOut)
	}
}

// checkAnswers checks that a file of results has the answers to r0, r1, ... in this order.
func checkAnswers(t *testing.T, text string, want int) {
	t.Helper()
	n := 0
	for l := range strings.Lines(text) {
		var r struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Status int `json:"status_code"`
			}
		}
		if err := json.Unmarshal([]byte(l), &r); err != nil || r.CustomID != fmt.Sprint("r", n) || r.Response.Status != 200 {
			t.Errorf("line %d: %v %s", n, err, l)
		}
		n++
	}
	if n != want {
		t.Errorf("%d answers, want %d", n, want)
	}
}
