package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"weir/device/cpu"
	"weir/model"
	"weir/models"
)

func noEnv(string) string { return "" }

// logBook is what a server logs; line waits for one that matches.
type logBook struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{} // capacity 1
}

func newLogBook() *logBook { return &logBook{wrote: make(chan struct{}, 1)} }

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.wrote <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// find waits for a line that matches and returns its first group.
func (l *logBook) find(t *testing.T, re string, ended <-chan error) string {
	t.Helper()
	for {
		if m := regexp.MustCompile(re).FindStringSubmatch(l.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-l.wrote:
		case err := <-ended:
			t.Fatalf("the server ended: %v\n%s", err, l)
		}
	}
}

// startServe runs weir serve with these arguments on a free port and returns
// its URL and what stops it.
func startServe(t *testing.T, args ...string) (url string, stop func() string) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	m, e, h, d := bindModel(flags), bindEngine(flags), bindHTTP(flags), bindData(flags)
	rest, err := parse(flags, append([]string{"--port", "0", "--kv-cache-memory", "64MiB"}, args...), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	book := newLogBook()
	log, err := newLog(book, *h.logLevel)
	if err != nil {
		t.Fatal(err)
	}
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- serve(append(rest, "")[0], m, e, h, d, log, signals) }()
	url = book.find(t, `url=(\S+)`, ended)
	book.find(t, `msg=ready`, ended)
	stop = sync.OnceValue(func() string {
		signals <- syscall.SIGTERM
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		return book.String()
	})
	t.Cleanup(func() { stop() })
	return url, stop
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

const question = `{"messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0}`

// TestServe: the main job, on real input.
func TestServe(t *testing.T) {
	url, stop := startServe(t)
	if code, body := post(t, url, question); code != 200 || !strings.Contains(body, "Paris") || !strings.Contains(body, `"system_fingerprint":"fp_`) {
		t.Errorf("%d %s", code, body)
	}
	log := stop()
	for _, want := range []string{"model=weir-tiny", `device="CPU, `, "max_model_len=4096", "temperature=0.7 top_p=0.9 eos=2 stop=[0]", "msg=stopped"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

// TestServeStoppedAtOnce: a signal that comes before the model is loaded, or
// before anything is served, ends the server as any other does.
func TestServeStoppedAtOnce(t *testing.T) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	m, e, h, d := bindModel(flags), bindEngine(flags), bindHTTP(flags), bindData(flags)
	if _, err := parse(flags, []string{"--port", "0", "--kv-cache-memory", "64MiB"}, noEnv); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		book := newLogBook()
		log, err := newLog(book, "info")
		if err != nil {
			t.Fatal(err)
		}
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		if err := serve("", m, e, h, d, log, signals); err != nil || !strings.Contains(book.String(), "msg=stopped") || strings.Contains(book.String(), "ERROR") {
			t.Fatalf("%v\n%s", err, book)
		}
	}
}

// TestServeOptions: options reach the rooms that they are for.
func TestServeOptions(t *testing.T) {
	dir := copyModel(t)
	url, _ := startServe(t, dir, "--served-model-name", "a", "--served-model-name", "b", "--max-model-len", "64", "--generation-config", "vllm",
		"--scheduling-policy", "priority", "--max-logprobs", "2", "--cpu", "generic", "--dtype", "float32", "--kv-cache-dtype", "float32", "--threads", "1", "--block-size", "32")
	for body, want := range map[string]string{
		`{"model":"b",` + question[1:]:                                 `"model":"a"`,
		`{"model":"weir-tiny",` + question[1:]:                         `404`,
		`{"max_tokens":60,` + question[1:]:                             `maximum context length is 64`,
		`{"priority":-1,` + question[1:]:                               `Paris`,
		`{"logprobs":true,"top_logprobs":3,` + question[1:]:            `max allowed: 2`,
		`{"chat_template":"x",` + question[1:]:                         `untrusted chat template`,
		`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`: `200`,
	} {
		if code, got := post(t, url, body); !strings.Contains(fmt.Sprint(code, got), want) {
			t.Errorf("%s:\n got %d %s\nwant %s", body, code, got, want)
		}
	}
}

// TestServeSim: a simulated device answers at full length, without end tokens.
func TestServeSim(t *testing.T) {
	url, stop := startServe(t, "--device", "sim")
	if code, body := post(t, url, `{"max_tokens":50,"stream":false,`+question[1:]); code != 200 || !strings.Contains(body, `"completion_tokens":50`) {
		t.Errorf("%d %s", code, body)
	}
	if log := stop(); !strings.Contains(log, "simulated") {
		t.Error(log)
	}
}

// TestServeUsage: counts outlive the server, and two servers share a folder.
func TestServeUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--device", "sim", "--data-dir", dir, "--enable-log-requests"}
	ask := func(url string) {
		t.Helper()
		req, err := http.NewRequest("POST", url+"/v1/chat/completions", strings.NewReader(`{"max_tokens":7,`+question[1:]))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Compat-Project", "team/project")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	counts := func(url, want string) {
		t.Helper()
		resp, err := http.Get(url + "/usage")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s, %v, want %s", body, err, want)
		}
	}
	one, stopOne := startServe(t, args...)
	two, _ := startServe(t, args...)
	ask(one)
	ask(two)
	counts(one, `"project":"team/project"`) // asking writes, so that the other one finds it
	counts(two, `"project":"team/project","requests":2`)
	counts(one, `"project":"team/project","requests":2`)
	if log := stopOne(); !strings.Contains(log, "project=team/project status=200") || strings.Contains(log, "capital") {
		t.Error(log)
	}
	three, _ := startServe(t, args...)
	counts(three, `"requests":2,"prompt_tokens"`)
	memory, _ := startServe(t, "--device", "sim")
	counts(memory, `"data":[]`)
}

func TestDataDir(t *testing.T) {
	env := func(vars ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(vars); i += 2 {
				if vars[i] == name {
					return vars[i+1]
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		env  func(string) string
		want string
	}{
		{env("HOME", "/h"), "/h/.local/share/weir"},
		{env("HOME", "/h", "XDG_DATA_HOME", "/x"), "/x/weir"},
		{env("HOME", "/h", "XDG_DATA_HOME", "x"), "/h/.local/share/weir"},
		{env(), ""},
	} {
		if got := defaultDataDir(c.env); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	book := newLogBook()
	log, err := newLog(book, "info")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openUsage(file, "", log); err == nil || !strings.Contains(err.Error(), "--data-dir "+file) {
		t.Errorf("a file, asked for: %v", err)
	}
	l, err := openUsage(file, file, log)
	if err != nil || !strings.Contains(book.String(), "in memory only") {
		t.Fatalf("a file, by default: %v\n%s", err, book)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// copyModel writes the bundled model to a folder of its own.
func copyModel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "weir-tiny")
	if err := os.CopyFS(dir, models.Bundled()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBadStart: what is wrong with a model or an option is one sentence and a
// non-zero exit, before any port opens.
func TestBadStart(t *testing.T) {
	edit := func(file, old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(src, []byte(old)) {
				t.Fatalf("%s lacks %s", file, old)
			}
			if err := os.WriteFile(path, bytes.Replace(src, []byte(old), []byte(new), 1), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	truncate := func(file string, size int64) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, file), size); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(file string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		args   []string
		want   string
		code   int
	}{
		"no such folder":    {args: []string{"/nonexistent"}, want: "is not a model", code: 1},
		"another network":   {damage: edit("config.json", "Qwen3ForCausalLM", "GPT2LMHeadModel"), want: "GPT2LMHeadModel", code: 1},
		"cut weights":       {damage: truncate("model.safetensors", 1<<20), want: "model.safetensors", code: 1},
		"no weights":        {damage: remove("model.safetensors"), want: "safetensors", code: 1},
		"no config":         {damage: remove("config.json"), want: "config.json", code: 1},
		"no tokenizer":      {damage: remove("tokenizer.json"), want: "tokenizer.json", code: 1},
		"broken tokenizer":  {damage: edit("tokenizer.json", `"BPE"`, `"Unigram"`), want: "Unigram", code: 1},
		"broken template":   {damage: edit("chat_template.jinja", "{%- if tools -%}", "{%- if tools"), want: "template", code: 1},
		"too long":          {args: []string{"", "--max-model-len", "5000"}, want: "at most 4096", code: 2},
		"no sequences":      {args: []string{"", "--max-num-seqs", "0"}, want: "--max-num-seqs 0: it takes 1 or more", code: 2},
		"too little memory": {args: []string{"", "--kv-cache-memory", "2MiB"}, want: "set --max-model-len", code: 1},
		"block size":        {args: []string{"", "--block-size", "20"}, want: "multiple of 16", code: 2},
		"an unknown tier":   {args: []string{"", "--cpu", "sse"}, want: "sse", code: 2},
		"logits":            {args: []string{"", "--logprobs-mode", "raw_logits"}, want: "log-probabilities only", code: 2},
		"another mode":      {args: []string{"", "--logprobs-mode", "cooked"}, want: "neither raw_logprobs nor", code: 2},
		"an unknown flag":   {args: []string{"", "--frobnicate"}, want: "frobnicate", code: 2},
		"an unknown value":  {args: []string{"", "--dtype", "int3"}, want: "int3", code: 2},
		"two models":        {args: []string{"a", "b"}, want: "one model", code: 2},
		"a budget":          {args: []string{"", "--max-num-batched-tokens", "4"}, want: "--max-num-seqs", code: 2},
		"a parser":          {args: []string{"", "--reasoning-parser", "r2"}, want: "none of auto, none, qwen3", code: 2},
		"a field":           {args: []string{"", "--reasoning-field", "thoughts"}, want: "reasoning_content", code: 2},
		"kwargs":            {args: []string{"", "--default-chat-template-kwargs", "{"}, want: "kwargs", code: 2},
		"a profile":         {args: []string{"", "--device", "sim", "--sim-profile", "/nonexistent"}, want: "sim-profile", code: 2},
		"a port in use":     {args: []string{"", "--port", fmt.Sprint(busy.Addr().(*net.TCPAddr).Port)}, want: "in use", code: 1},
	} {
		args := []string{"serve", "--port", "0"}
		switch {
		case c.damage != nil:
			dir := copyModel(t)
			c.damage(t, dir)
			args = append(args, dir)
		default:
			for _, a := range c.args {
				if a != "" {
					args = append(args, a)
				}
			}
		}
		var out, errOut bytes.Buffer
		code := run(args, noEnv, nil, &out, &errOut)
		msg := errOut.String()
		if code != c.code || !strings.Contains(msg, c.want) || strings.Contains(msg, "listening") || strings.Contains(msg, "goroutine") {
			t.Errorf("%s: exit %d, want %d with %q:\n%s", name, code, c.code, c.want, msg)
		}
		if lines := strings.Count(msg, "\n"); lines != 1 {
			t.Errorf("%s: %d lines:\n%s", name, lines, msg)
		}
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{nil, 2, "weir serve [MODEL]"},
		{[]string{"help"}, 0, "weir chat"},
		{[]string{"version"}, 0, "weir " + version + " " + runtime.Version()},
		{[]string{"version"}, 0, "instructions: " + cpu.Impls()[0] + " (of "},
		{[]string{"serve", "--help"}, 0, "--max-model-len"},
		{[]string{"serve", "--cpu", "sse9"}, 2, `implementation "sse9" is not available here; there are ` + strings.Join(cpu.Impls(), ", ")},
		{[]string{"serve", "--threads", "2", "--cpu-pin", "8191"}, 2, "2 threads are to be bound to the 1 processors 8191"},
		{[]string{"serve", "--threads", "2000"}, 2, "threads 2000 is not in [0, 1024]"},
		{[]string{"chat", "--help"}, 0, "--url"},
		{[]string{"bogus"}, 2, `unknown command "bogus"`},
		{[]string{"chat", "a", "b"}, 2, "one model"},
	} {
		var out bytes.Buffer
		if code := run(c.args, noEnv, strings.NewReader(""), &out, &out); code != c.code || !strings.Contains(out.String(), c.out) {
			t.Errorf("%q: exit %d: %s", c.args, code, out.String())
		}
	}
}

// TestChat: the same conversation with an engine of its own and with a server.
func TestChat(t *testing.T) {
	url, _ := startServe(t)
	input := "What is 12 + 30?\n\n\"\"\"\nGood\nmorning!\"\"\"\n/reset\n/system Answer in one word.\nWhat is the capital of Canada?\n/help\n/quit\nnever read\n"
	for _, args := range [][]string{{"chat", "--kv-cache-memory", "64MiB"}, {"chat", "--url", url + "/v1/", "--model", "weir-tiny"}} {
		var out, errOut bytes.Buffer
		if code := run(append(args, "--temperature", "0"), noEnv, strings.NewReader(input), &out, &errOut); code != 0 {
			t.Fatalf("%q: exit %d: %s", args, code, errOut.String())
		}
		for _, want := range []string{"12 + 30 = 42\n", "Ottawa\n", "/reset"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q lacks %q:\n%s", args, want, out.String())
			}
		}
	}
	var out, errOut bytes.Buffer
	if code := run([]string{"chat", "--url", url, "--model", "other"}, noEnv, strings.NewReader("Hi\n"), &out, &errOut); code != 1 || !strings.Contains(errOut.String(), "does not exist") {
		t.Errorf("an unknown model: exit %d: %s", code, errOut.String())
	}
}

// Thoughts are printed apart from the answer and are not sent back.
func TestChatShowsThoughts(t *testing.T) {
	var sent []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		for _, delta := range []string{`"role":"assistant","content":""`, `"reasoning":"h","reasoning_content":"h"`, `"reasoning_content":"m"`, `"content":"Yes"`, `"content":"."`} {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{%s}}]}\n\n", delta)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	defer srv.Close()
	var out, errOut bytes.Buffer
	if code := run([]string{"chat", "--url", srv.URL}, noEnv, strings.NewReader("Really?\nSure?\n"), &out, &errOut); code != 0 || out.String() != strings.Repeat("<think>hm</think>Yes.\n", 2) {
		t.Errorf("exit %d: %q %s", code, out.String(), errOut.String())
	}
	if len(sent) != 2 || !strings.Contains(sent[1], `{"role":"assistant","content":"Yes."}`) {
		t.Errorf("sent %q", sent)
	}
	var dim bytes.Buffer
	p := printer{out: &dim, dim: true}
	p.thought("hm")
	p.content("Yes")
	p.answering()
	if dim.String() != "\x1b[2mhm\x1b[0mYes" {
		t.Errorf("%q", dim.String())
	}
}

// The flags for reasoning reach the rooms that they are for, and the bundled
// model thinks where it is told to.
func TestServeReasoning(t *testing.T) {
	for parser, want := range map[string]string{
		"auto":  `"content":"[^"<]*Paris[^"<]*",.*"reasoning":"[^"<]+","reasoning_content":"[^"<]+"`,
		"qwen3": `"content":"[^"<]*Paris[^"<]*",.*"reasoning":"[^"<]+","reasoning_content":"[^"<]+"`,
		"none":  `"content":"<think>[^"]+</think>[^"]*Paris[^"]*",.*"reasoning":null,"reasoning_content":null`,
	} {
		url, stop := startServe(t, "--default-chat-template-kwargs", `{"enable_thinking":true}`, "--reasoning-parser", parser, "--reasoning-field", "both")
		if code, body := post(t, url, question); code != 200 || !regexp.MustCompile(want).MatchString(body) {
			t.Errorf("%s: %d %s", parser, code, body)
		}
		// Thinking off is the request's to say.
		off := strings.Replace(question, "{", `{"chat_template_kwargs":{"enable_thinking":false},`, 1)
		if code, body := post(t, url, off); code != 200 || !regexp.MustCompile(`"content":"[^"<]*Paris[^"<]*",.*"reasoning":null`).MatchString(body) {
			t.Errorf("%s, off: %d %s", parser, code, body)
		}
		stop()
	}
}

// TestFlagSources: the command line wins over the environment, which wins over
// the file, which wins over the default.
func TestFlagSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("port: 1\nmax-num-seqs: 2\nblock_size: 32\napi-key: [x, y]\nenable-prefix-caching: false\nkv-cache-memory: 3GiB\ndtype: float16\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"WEIR_MAX_NUM_SEQS": "3", "WEIR_PORT": "3", "WEIR_ALLOW_CREDENTIALS": "true", "WEIR_CONFIG": ""}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	_, e, h := bindModel(flags), bindEngine(flags), bindHTTP(flags)
	if _, err := parse(flags, []string{"--port", "4", "--config", file, "--no-allow-credentials"}, func(k string) string { return env[k] }); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(*h.port, *e.maxSeqs, *e.blockSize, *h.keys, *e.caching, e.kvMemory.String(), *e.dtype, *h.credentials, *e.maxTokens)
	if want := "4 3 32 [x y] false 3GiB float16 false 0\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, c := range map[string]struct {
		yaml string
		env  map[string]string
		want string
	}{
		"an unknown key":         {yaml: "prot: 1", want: "no flag --prot"},
		"a bad value":            {yaml: "port: many", want: "many"},
		"no mapping":             {yaml: "- a", want: "mapping"},
		"a bad environment":      {env: map[string]string{"WEIR_PORT": "many"}, want: "WEIR_PORT"},
		"config inside a config": {yaml: "config: x", want: "no flag"},
	} {
		if err := os.WriteFile(file, []byte(c.yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		bindHTTP(flags)
		if _, err := parse(flags, []string{"--config", file}, func(k string) string { return c.env[k] }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1024": 1024, "512M": 512 << 20, "4GiB": 4 << 30, "0.5g": 1 << 29, " 2 kb ": 2048, "1T": 1 << 40} {
		var s size
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "-1", "many", "1X", "1e30", "NaN", "GiB"} {
		var s size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is %d", text, s)
		}
	}
}

// TestSizePool: decision on memory for keys and values.
func TestSizePool(t *testing.T) {
	opt := model.Options{BlockTokens: 16, MaxSeqs: 10, MaxSeqTokens: 1000} // 63 blocks a sequence
	for _, c := range []struct {
		asked, limit int64
		blocks       int
	}{
		{0, 400 * 16 * 100 * 4, 400},                 // a quarter of what there is
		{0, 1 << 50, 1 + 63*10},                      // no more than can be used
		{0, 0, 1 + 63*10},                            // unknown
		{64 * 16 * 100, 1 << 50, 64},                 // what was asked for, if one sequence fits
		{64*16*100 + 1599, 1 << 50, 64},              // whole blocks
		{5000 * 16 * 100, 1 << 20, 5000},             // the operator's word
		{64*16*100 - 1, 1 << 50, 0}, {1, 1 << 50, 0}, // too little
	} {
		blocks, bytes, err := sizePool(opt, 100, c.asked, c.limit)
		if blocks != c.blocks || (err != nil) != (c.blocks == 0) || bytes != int64(blocks)*1600 {
			t.Errorf("%+v: %d blocks, %d bytes, %v", c, blocks, bytes, err)
		}
	}
}

// TestEndTokens: the primary end token is the tokenizer's, whatever the order
// in the other files.
func TestEndTokens(t *testing.T) {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o := bindModel(flags)
	for tokenizerEOS, want := range map[string]string{"<|im_end|>": "eos=2 stop=[0]", "<|endoftext|>": "eos=0 stop=[2]", "<|im_start|>": "eos=1 stop=[2 0]"} {
		dir := copyModel(t)
		if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"eos_token":"`+tokenizerEOS+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSource(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.defaults.String(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", tokenizerEOS, got)
		}
		if err := s.network.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := fs.Stat(models.Bundled(), "generation_config.json"); err != nil {
		t.Error(err)
	}
}
