package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// good is a line that can be computed.
func good(id string) string {
	return `{"custom_id":"` + id + `","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}}`
}

// TestParse: what a line may say, and what is said of others.
func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		good("a"): "a ",
		`{"custom_id":"a","url":"/v1/completions","body":{"stream":false},"x":1}`:                   "a ",
		` {"custom_id":"ä\"","method":"POST","url":"/v2/rerank","body":{}}` + "\r":                  "ä\" ",
		`{"custom_id":"a","method":"GET","url":"/v1/completions","body":{}}`:                        "a invalid_method method",
		`{"custom_id":"a","method":"POST","url":"/v1/models","body":{}}`:                            "a invalid_url url",
		`{"custom_id":"a","method":"POST","body":{}}`:                                               "a invalid_url url",
		`{"custom_id":"a","method":"POST","url":"/v1/completions"}`:                                 "a invalid_request body",
		`{"custom_id":"a","method":"POST","url":"/v1/completions","body":[]}`:                       "a invalid_request body",
		`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"stream":true}}`:          "a invalid_request body.stream",
		`{"custom_id":"a","method":"POST","url":"/v1/responses","body":{"background":true}}`:        "a invalid_request body.background",
		`{"method":"POST","url":"/v1/completions","body":{}}`:                                       " invalid_request custom_id",
		`{"custom_id":7,"method":"POST","url":"/v1/completions","body":{}}`:                         " invalid_request custom_id",
		`{"custom_id":"","method":"POST","url":"/v1/completions","body":{}}`:                        " invalid_request custom_id",
		`{"custom_id":"` + strings.Repeat("a", 513) + `","method":"POST","url":"/score","body":{}}`: " invalid_request custom_id",
		`[]`:                                    " invalid_json_line",
		`{"a":1`:                                " invalid_json_line",
		`{"custom_id" : "a\u0062", "body": {]}`: "ab invalid_json_line",
		`{"custom_id":"a\q", "body": {]}`:       " invalid_json_line",
	} {
		l, bad := Parse([]byte(line))
		got := l.CustomID + " "
		if bad != nil {
			got += strings.TrimSpace(bad.Code + " " + bad.Param)
			if l.Body != nil || bad.Message == "" {
				t.Errorf("%s: %+v", line, bad)
			}
		}
		if got != want {
			t.Errorf("%.100s: got %q, want %q", line, got, want)
		}
	}
}

// TestInput: lines end with LF, CRLF or the file; blank ones and a byte order mark do not count; one that is
// too long, or has the custom_id of an earlier one, is an error, and the next one is read.
func TestInput(t *testing.T) {
	long := `{"custom_id":"long","body":"` + strings.Repeat("x", 70_000)
	text := "\uFEFF" + good("a") + "\r\n\n  \n" + good("a") + "\n" + long + "\n" + good("b")
	in := NewInput(strings.NewReader(text), 60_000)
	var got []string
	for {
		j, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		code := ""
		if j.Err != nil {
			code = j.Err.Code
		}
		got = append(got, fmt.Sprint(in.Number(), j.Line.CustomID, code))
	}
	if want := "[1a 4aduplicate_custom_id 5longinvalid_request 6b]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if _, err := NewInput(io.MultiReader(strings.NewReader(good("a")), failing{}), 100).Next(); !errors.Is(err, errFails) {
		t.Errorf("an input that cannot be read: %v", err)
	}
}

type failing struct{}

var errFails = errors.New("fails")

func (failing) Read([]byte) (int, error) { return 0, errFails }

// pool answers requests with their custom_id.
func pool(do func(ctx context.Context, l *Line) Outcome) *Pool {
	return &Pool{InFlight: 4, Bytes: 1 << 20, Patience: time.Millisecond, NewID: func() string { return "request" }, Do: func(ctx context.Context, l *Line, _ string) Outcome { return do(ctx, l) }}
}

func echo(_ context.Context, l *Line) Outcome {
	return Outcome{200, []byte("{\n\"id\": \"" + l.CustomID + "\"}")}
}

// runFile computes the lines of an input into a file, and returns what it has computed.
func runFile(t *testing.T, path, input string, p *Pool) (computed []string) {
	t.Helper()
	out, err := OpenOutput(path)
	if err != nil {
		t.Fatal(err)
	}
	in := NewInput(strings.NewReader(input), 1<<20)
	next := func() (*Job, error) {
		for {
			j, err := in.Next()
			if err != nil || !out.Has(j) {
				return j, err
			}
		}
	}
	var mu sync.Mutex
	put := func(r *Result) error {
		mu.Lock()
		computed = append(computed, r.CustomID)
		mu.Unlock()
		return out.Add(r)
	}
	if err := p.Run(context.Background(), context.Background(), next, put); err != nil {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	return computed
}

// TestResume: wherever an output is cut, the next run computes what is missing and
// nothing else, and the output has one line for each request.
func TestResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	input := good("a") + "\n" + good("b") + "\nnonsense\n" + good("a") + "\n" + good("c") + "\n"
	if n := len(runFile(t, path, input, pool(echo))); n != 5 {
		t.Fatalf("computed %d", n)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if again := runFile(t, path, input, pool(echo)); len(again) != 0 {
		t.Errorf("a complete output: computed %q", again)
	}
	for n := 0; n < len(whole); n += 7 {
		for _, tail := range []string{"", "\x00\x00\x00"} {
			if tail != "" && n%5 > 0 {
				continue
			}
			if err := os.WriteFile(path, append(whole[:n:n], tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			checkResumed(t, path, input, n, 5-bytes.Count(whole[:n], []byte("\n")))
		}
	}
}

// checkResumed runs an input once more, whose output was cut at a byte, so that some results are missing.
func checkResumed(t *testing.T, path, input string, at, missing int) {
	t.Helper()
	if got := runFile(t, path, input, pool(echo)); len(got) != missing {
		t.Fatalf("cut at %d: computed %q, want %d", at, got, missing)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"a","response":{`, `"a","response":null`, `"b","response":{"status_code":200,"request_id":"request","body":{"id":"b"}},"error":null}`, `"c","response":{`, `null,"response":null`} {
		if bytes.Count(text, []byte(want)) != 1 || bytes.Count(text, []byte("\n")) != 5 {
			t.Fatalf("cut at %d: %q is not there once:\n%s", at, want, text)
		}
	}
}

// TestResumeChanged: an input that lost lines, got new ones, or in which a line was mended.
func TestResumeChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	runFile(t, path, good("a")+"\n"+`{"custom_id":"b"`+"\n"+good("c"), pool(echo))
	if got := runFile(t, path, good("new")+"\n"+good("b")+"\n"+good("c"), pool(echo)); len(got) != 2 {
		t.Errorf("computed %q, want the new one and the mended one", got)
	}
}

// TestForeign: a file with anything else in it is left as it is.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"notes", "notes\n", `{"a":1}` + "\n", "[]\n", good("a") + "\n", good("a"), "null\n", `{"id":7,"custom_id":"a"}` + "\n"} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenOutput(path); !errors.Is(err, ErrForeign) {
			t.Errorf("%q: %v", text, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != text {
			t.Errorf("%q has become %q", text, after)
		}
	}
	path := filepath.Join(dir, "out")
	out, err := OpenOutput(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := OpenOutput(path); err == nil || !strings.Contains(err.Error(), "another process is writing it") {
		t.Errorf("two writers: %v", err)
	}
}

// TestPool: so many requests are in flight and no more; refused ones are done again; answers that are
// no JSON are errors; what fails to be written ends the run.
func TestPool(t *testing.T) {
	var now, most, tries atomic.Int32
	p := pool(func(_ context.Context, l *Line) Outcome {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		for range 100 {
			runtime.Gosched()
		}
		switch {
		case l.CustomID == "busy" && tries.Add(1) < 4:
			return Outcome{503, []byte(`{}`)}
		case l.CustomID == "binary":
			return Outcome{200, []byte{1}}
		}
		return Outcome{200, []byte(`{}`)}
	})
	input := good("busy") + "\n" + good("binary") + "\n"
	for i := range 40 {
		input += good(fmt.Sprint(i)) + "\n"
	}
	path := filepath.Join(t.TempDir(), "out")
	runFile(t, path, input, p)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() != 4 || tries.Load() != 4 || strings.Count(string(text), `"status_code":200`) != 41 || strings.Count(string(text), CodeAnswer) != 1 {
		t.Errorf("%d in flight, %d tries:\n%s", most.Load(), tries.Load(), text)
	}
	in := NewInput(strings.NewReader(input), 1<<20)
	if err := p.Run(context.Background(), context.Background(), in.Next, func(*Result) error { return errFails }); !errors.Is(err, errFails) {
		t.Errorf("results that cannot be written: %v", err)
	}
}

// TestPoolBytes: what is in flight is bounded in bytes, too, but a line that is larger than the bound is
// computed alone.
func TestPoolBytes(t *testing.T) {
	var now, most atomic.Int32
	p := pool(func(context.Context, *Line) Outcome {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		for range 100 {
			runtime.Gosched()
		}
		return Outcome{200, []byte(`{}`)}
	})
	p.Bytes = 10
	runFile(t, filepath.Join(t.TempDir(), "out"), good("a")+"\n"+good("b")+"\n"+good("c"), p)
	if most.Load() != 1 {
		t.Errorf("%d in flight", most.Load())
	}
}

// TestStop: when a run is to stop, what is in flight ends; when it is to end at once, it has no result.
func TestStop(t *testing.T) {
	for _, at := range []string{"drain", "abort"} {
		ctx, abort := context.WithCancelCause(context.Background())
		stop, drain := context.WithCancelCause(context.Background())
		begun, goOn := make(chan struct{}, 4), make(chan struct{})
		p := pool(func(ctx context.Context, _ *Line) Outcome {
			begun <- struct{}{}
			select {
			case <-goOn:
				return Outcome{200, []byte(`{}`)}
			case <-ctx.Done():
				return Outcome{499, nil}
			}
		})
		n := 0
		in := func() (*Job, error) {
			n++
			return &Job{ID: fmt.Sprint(n)}, nil
		}
		var results atomic.Int32
		ended := make(chan error)
		go func() { ended <- p.Run(ctx, stop, in, func(*Result) error { results.Add(1); return nil }) }()
		for range 4 {
			<-begun
		}
		if at == "drain" {
			drain(errFails)
			close(goOn)
		} else {
			abort(errFails)
		}
		if err := <-ended; !errors.Is(err, errFails) || n != 4 || results.Load() != map[string]int32{"drain": 4, "abort": 0}[at] {
			t.Errorf("%s: %v, %d begun, %d results", at, err, n, results.Load())
		}
		abort(nil)
		drain(nil)
	}
}
