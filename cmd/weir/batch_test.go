package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// batchLine is a line of a batch that asks the bundled model for a few tokens.
func batchLine(id, url, body string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":%q,"body":{"temperature":0,"max_tokens":8,%s}}`+"\n", id, url, body)
}

// batchResult is a line of an output.
type batchResult struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int    `json:"status_code"`
		RequestID  string `json:"request_id"`
		Body       struct {
			ID, Object string
			Choices    []struct{ Text string }
			Error      *struct{ Code int }
		}
	}
	Error *struct{ Code, Message string }
}

// batchResults reads an output by custom_id. Each has to be there once.
func batchResults(t *testing.T, text []byte) map[string]batchResult {
	t.Helper()
	all := map[string]batchResult{}
	for line := range bytes.Lines(text) {
		var r batchResult
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, twice := all[r.CustomID]; twice {
			t.Errorf("%s is there twice", r.CustomID)
		}
		all[r.CustomID] = r
	}
	return all
}

var smallBatch = []string{"--kv-cache-memory", "16MiB", "--max-model-len", "256"}

// TestBatch: requests of several functions, lines that cannot be answered, and a second run, which
// computes only what is new.
func TestBatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	input := batchLine("chat", "/v1/chat/completions", `"messages":[{"role":"user","content":"Hi"}]`) + batchLine("text", "/v1/completions", `"prompt":"One two"`) +
		batchLine("none", "/v1/chat/completions", `"messages":[]`) + batchLine("embed", "/v1/embeddings", `"input":"Hi"`) +
		`{"custom_id":"response","url":"/v1/responses","body":{"input":"Hi","max_output_tokens":8}}` + "\n" + `{"custom_id":"cut","method` + "\n"
	if err := os.WriteFile(in, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, errOut := runWeir(append([]string{"batch", "--input-file", in, "-o", out}, smallBatch...)...)
	if code != 1 || stdout != "" || !strings.Contains(errOut, "6 answers in") || !strings.Contains(errOut, "weir: 3 of the answers in the output are errors\n") {
		t.Errorf("exit %d: %s%s", code, stdout, errOut)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	all := batchResults(t, text)
	for id, want := range map[string]string{"chat": "chat.completion 200", "text": "text_completion 200", "response": "response 200", "none": " 400", "embed": " 400"} {
		r := all[id]
		if r.Response == nil || fmt.Sprint(r.Response.Body.Object, " ", r.Response.StatusCode) != want || r.Error != nil || r.Response.RequestID == "" || (r.Response.StatusCode == 400) != (r.Response.Body.Error != nil) {
			t.Errorf("%s: %+v, want %s", id, r.Response, want)
		}
	}
	if r := all["cut"]; r.Response != nil || r.Error == nil || r.Error.Code != "invalid_json_line" || len(all) != 6 {
		t.Errorf("%d results, and of a line that is no JSON: %+v", len(all), r)
	}
	if err := os.WriteFile(in, []byte(input+batchLine("new", "/v1/completions", `"prompt":"Three"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, errOut := runWeir(append([]string{"batch", "-i", in, "-o", out}, smallBatch...)...); !strings.Contains(errOut, "1 answers in") || !strings.Contains(errOut, "6 were there before") {
		t.Error(errOut)
	}
	after, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(after, text) || len(batchResults(t, after)) != 7 {
		t.Errorf("the output was written anew:\n%s", after)
	}
}

// TestBatchKilled: a run that is killed goes on with the next command; a pipe is read, and no result is
// lost or there twice. The exit status is 0 if all is well.
func TestBatchKilled(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out.jsonl")
	var input strings.Builder
	for i := range 60 {
		input.WriteString(batchLine(fmt.Sprint("r", i), "/v1/completions", fmt.Sprintf(`"prompt":"%d"`, i)))
	}
	args := append([]string{"batch", "-i", "-", "-o", out, "--device", "sim"}, smallBatch...)
	cmd := exec.Command(os.Args[0], args...)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(input.String(), `{"custom_id":"r40"`)
	if _, err := pipe.Write([]byte(first)); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C { // it cannot end: its input has not
		if text, _ := os.ReadFile(out); bytes.Count(text, []byte("\n")) >= 10 {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	var stdout, errOut bytes.Buffer
	if code := run(args, noEnv, strings.NewReader(input.String()), &stdout, &errOut); code != 0 || !strings.Contains(errOut.String(), " were there before") {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(batchResults(t, text)); n != 60 {
		t.Errorf("%d results", n)
	}
	if code := run(append(args, "-o", "-"), noEnv, strings.NewReader(input.String()), &stdout, &errOut); code != 0 || len(batchResults(t, stdout.Bytes())) != 60 {
		t.Errorf("to the standard output, exit %d: %s", code, errOut.String())
	}
}

// TestBatchRefuses: what makes no sense is refused before a model is loaded.
func TestBatchRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, foreign := filepath.Join(dir, "in"), filepath.Join(dir, "foreign")
	for _, path := range []string{in, foreign} {
		if err := os.WriteFile(path, []byte("Some text.\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "batch needs the file of requests"},
		{"-i " + in, 2, "one for the answers"},
		{"-i " + in + " -o " + in, 2, "both the input and the output"},
		{"-i https://example.com/in.jsonl -o " + in, 2, "not URLs"},
		{"-i " + dir + "/none -o " + in, 1, "no such file"},
		{"-i " + in + " -o " + foreign, 1, "line 1: it is not the output of a batch"},
		{"-i " + in + " -o " + dir + "/out --max-in-flight -1", 2, "--max-in-flight"},
		{"-i " + in + " -o " + dir + "/out /nowhere/at/all", 1, "is not a model"},
	} {
		code, _, errOut := runWeir(append([]string{"batch"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit %d: %s", c.args, code, errOut)
		}
	}
}
