package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestServe: the bundled model answers a question, on a server with all defaults.
func TestServe(t *testing.T) {
	t.Parallel()
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

// TestServeStoppedAtOnce: a signal that arrives before the model is loaded, or before
// anything is served, ends the server without an error, like any other signal.
func TestServeStoppedAtOnce(t *testing.T) {
	t.Parallel()
	o, dir := parseServe(t, "--port", "0", "--kv-cache-memory", "64MiB")
	for range 5 {
		text := newServerLog()
		log, err := newLog(text, "info")
		if err != nil {
			t.Fatal(err)
		}
		signals := make(chan os.Signal, 1)
		signals <- syscall.SIGTERM
		if err := serve(dir, o, log, signals); err != nil || !strings.Contains(text.String(), "msg=stopped") || strings.Contains(text.String(), "ERROR") {
			t.Fatalf("%v\n%s", err, text)
		}
	}
}

// TestServeOptions: options reach the packages that they are for.
func TestServeOptions(t *testing.T) {
	t.Parallel()
	dir := copyModel(t)
	url, _ := startServe(t, dir, "--served-model-name", "a", "--served-model-name", "b", "--max-model-len", "64", "--generation-config", "vllm",
		"--scheduling-policy", "priority", "--max-logprobs", "2", "--cpu", "generic", "--dtype", "float32", "--kv-cache-dtype", "float32", "--threads", "1", "--block-size", "32")
	for body, want := range map[string]string{
		`{"model":"b",` + question[1:]:                                 `"model":"a"`,
		`{"model":"weir-tiny",` + question[1:]:                         `404`,
		`{"truncate_prompt_tokens":65,` + question[1:]:                 `max_model_len = 64`,
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

// TestServeShortContext: a context that the memory does not hold is shortened, unless it was asked
// for. The log and the list of models say so, and requests are bound by it.
func TestServeShortContext(t *testing.T) {
	t.Parallel()
	dir := copyModel(t)
	edit("config.json", `"max_position_embeddings": 4096`, `"max_position_embeddings": 131072`)(t, dir)
	for _, device := range []string{"cpu", "sim"} {
		// 64 MiB hold 21,845 tokens, rounded down to a multiple of 256.
		url, stop := startServe(t, dir, "--device", device)
		code, models, _ := do(t, http.DefaultClient, "GET", url+"/v1/models", "")
		if code != 200 || !strings.Contains(models, `"max_model_len":21760`) {
			t.Errorf("%s: %d %s", device, code, models)
		}
		if code, body := post(t, url, `{"truncate_prompt_tokens":21761,`+question[1:]); code != 400 || !strings.Contains(body, "max_model_len = 21760") {
			t.Errorf("%s: %d %s", device, code, body)
		}
		if log := stop(); !strings.Contains(log, "the context is the longest that the memory holds") || !strings.Contains(log, "max_model_len=21760 model=131072") {
			t.Errorf("%s: the log says nothing of it:\n%s", device, log)
		}
		code, _, msg := runWeir("serve", dir, "--port", "0", "--data-dir", "", "--device", device, "--kv-cache-memory", "64MiB", "--max-model-len", "131072")
		if code != 1 || !strings.Contains(msg, "one sequence of 131072 tokens needs") || !strings.Contains(msg, "set --max-model-len to at most 218") {
			t.Errorf("%s: exit %d: %s", device, code, msg)
		}
	}
	if e := prepared(t, dir, "--no-enable-chunked-prefill"); e.spec.MaxSeqTokens != 21760 || e.spec.MaxTokens != 21760 {
		t.Errorf("without chunks: sequences of %d tokens, steps of %d", e.spec.MaxSeqTokens, e.spec.MaxTokens)
	}
	if e := prepared(t, dir, "--no-enable-chunked-prefill", "--max-num-batched-tokens", "5000"); e.spec.MaxSeqTokens != 5000 || e.spec.MaxTokens != 5000 {
		t.Errorf("without chunks: sequences of %d tokens, steps of %d", e.spec.MaxSeqTokens, e.spec.MaxTokens)
	}
	if e := prepared(t, dir, "--max-model-len", "auto"); e.spec.MaxSeqTokens != 21760 || e.spec.MaxTokens != 512 {
		t.Errorf("sequences of %d tokens, steps of %d", e.spec.MaxSeqTokens, e.spec.MaxTokens)
	}
}

// TestServeSim: the simulated device answers at full length, without end tokens.
func TestServeSim(t *testing.T) {
	t.Parallel()
	url, stop := startServe(t, "--device", "sim")
	if code, body := post(t, url, `{"max_tokens":50,"stream":false,`+question[1:]); code != 200 || !strings.Contains(body, `"completion_tokens":50`) {
		t.Errorf("%d %s", code, body)
	}
	if log := stop(); !strings.Contains(log, "simulated") {
		t.Error(log)
	}
}

// TestServeUsage: the counts by project survive the server, and two servers share a
// folder.
func TestServeUsage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--device", "sim", "--data-dir", dir, "--enable-log-requests"}
	ask := func(url string) {
		t.Helper()
		do(t, http.DefaultClient, "POST", url+"/v1/chat/completions", `{"max_tokens":7,`+question[1:], "Compat-Project", "team/project")
	}
	wantUsage := func(url, want string) {
		t.Helper()
		if _, body, _ := do(t, http.DefaultClient, "GET", url+"/usage", ""); !strings.Contains(body, want) {
			t.Errorf("%s, want %s", body, want)
		}
	}
	one, stopOne := startServe(t, args...)
	two, _ := startServe(t, args...)
	ask(one)
	ask(two)
	wantUsage(one, `"project":"team/project"`) // makes this server write its counts, so that the other finds them
	wantUsage(two, `"project":"team/project","requests":2`)
	wantUsage(one, `"project":"team/project","requests":2`)
	if log := stopOne(); !strings.Contains(log, "project=team/project status=200") || strings.Contains(log, "capital") {
		t.Error(log)
	}
	three, _ := startServe(t, args...)
	wantUsage(three, `"requests":2,"prompt_tokens"`)
	withoutFolder, _ := startServe(t, "--device", "sim")
	wantUsage(withoutFolder, `"data":[]`)
}

// TestServeReasoning: the flags for reasoning reach the packages that they are for,
// and the bundled model thinks if a request or a default tells it to.
func TestServeReasoning(t *testing.T) {
	t.Parallel()
	for parser, want := range map[string]string{
		"auto":  `"content":"[^"<]*Paris[^"<]*",.*"reasoning":"[^"<]+","reasoning_content":"[^"<]+"`,
		"qwen3": `"content":"[^"<]*Paris[^"<]*",.*"reasoning":"[^"<]+","reasoning_content":"[^"<]+"`,
		"none":  `"content":"<think>[^"]+</think>[^"]*Paris[^"]*",.*"reasoning":null,"reasoning_content":null`,
	} {
		url, stop := startServe(t, "--default-chat-template-kwargs", `{"enable_thinking":true}`, "--reasoning-parser", parser, "--reasoning-field", "both")
		if code, body := post(t, url, question); code != 200 || !regexp.MustCompile(want).MatchString(body) {
			t.Errorf("%s: %d %s", parser, code, body)
		}
		// A request may turn off what is on by default.
		off := strings.Replace(question, "{", `{"chat_template_kwargs":{"enable_thinking":false},`, 1)
		if code, body := post(t, url, off); code != 200 || !regexp.MustCompile(`"content":"[^"<]*Paris[^"<]*",.*"reasoning":null`).MatchString(body) {
			t.Errorf("%s, off: %d %s", parser, code, body)
		}
		stop()
	}
}

// TestServeEmbeddings: a folder with modules.json embeds with the pooling that it names, and does not chat; --runner decides otherwise.
func TestServeEmbeddings(t *testing.T) {
	t.Parallel()
	dir := copyModel(t)
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var config struct {
		Hidden int `json:"hidden_size"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err := errors.Join(err, json.Unmarshal(text, &config)); err != nil {
		t.Fatal(err)
	}
	write("modules.json", `[{"path":"","type":"sentence_transformers.models.Transformer"},{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},`+
		`{"path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`)
	write("1_Pooling/config.json", fmt.Sprintf(`{"word_embedding_dimension":%d,"pooling_mode_mean_tokens":true}`, config.Hidden))
	pooled := func(kind uint32) string {
		g := tinyGGUF(t)
		g.Set("qwen3.pooling_type", kind)
		return writeGGUF(t, "x.gguf", g)
	}
	vectors := map[string][]float64{}
	for name, args := range map[string][]string{"modules": {dir}, "last": {"--runner", "pooling"}, "generate": {dir, "--runner", "generate"},
		"mean of a GGUF file": {pooled(1)}, "last of a GGUF file": {pooled(3)}} {
		url, stop := startServe(t, args...)
		code, body, _ := do(t, http.DefaultClient, "POST", url+"/v1/embeddings", `{"input":"Paris is the capital of France."}`)
		chat, _ := post(t, url, question)
		var answer struct {
			Data []struct {
				Embedding []float64 `json:"embedding"`
			} `json:"data"`
		}
		if name == "generate" {
			if code != 400 || chat != 200 {
				t.Errorf("%s: embeddings %d %s, chat %d", name, code, body, chat)
			}
		} else if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 || chat != 400 || len(answer.Data) != 1 || len(answer.Data[0].Embedding) != config.Hidden {
			t.Errorf("%s: embeddings %d %s, chat %d", name, code, body, chat)
		} else {
			vectors[name] = answer.Data[0].Embedding
		}
		stop()
	}
	var squares, product float64
	for i, x := range vectors["modules"] {
		squares += x * x
		product += x * vectors["last"][i]
	}
	if math.Abs(squares-1) > 1e-5 || product > 0.999 {
		t.Errorf("a vector of length %v; mean and last token: %v", math.Sqrt(squares), product)
	}
	if !slices.Equal(vectors["mean of a GGUF file"], vectors["modules"]) || !slices.Equal(vectors["last of a GGUF file"], vectors["last"]) {
		t.Error("a GGUF file gives other vectors than the folder")
	}
	if code, _, errOut := runWeir("serve", "--port", "0", "--data-dir", "", pooled(4)); code != 1 || !strings.Contains(errOut, "there is no tensor cls.output.weight") {
		t.Errorf("%d %s", code, errOut)
	}
	write("1_Pooling/config.json", `{"word_embedding_dimension":7,"pooling_mode_mean_tokens":true}`)
	if code, _, errOut := runWeir("serve", "--port", "0", "--data-dir", "", dir); code != 1 || !strings.Contains(errOut, "vectors of 7 components") {
		t.Errorf("%d %s", code, errOut)
	}
}

// TestServeCredentials: a credentials file without keys lets nobody in.
func TestServeCredentials(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte("keys: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := startServe(t, "--credentials", file, "--data-dir", "")
	if code, _ := post(t, url, question); code != 401 {
		t.Errorf("status %d, want 401", code)
	}
}

// TestDataDir: where data is kept by default, and what happens if it cannot be.
func TestDataDir(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		home, xdg, want string
	}{
		{"/h", "", "/h/.local/share/weir"},
		{"/h", "/x", "/x/weir"},
		{"/h", "x", "/h/.local/share/weir"},
		{"", "", ""},
	} {
		env := map[string]string{"HOME": c.home, "XDG_DATA_HOME": c.xdg}
		if got := defaultDataDir(func(name string) string { return env[name] }); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text := newServerLog()
	log, err := newLog(text, "info")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openUsage(&recordOptions{dir: file}, log); err == nil || !strings.Contains(err.Error(), "--data-dir "+file) {
		t.Errorf("a file that was asked for: %v", err)
	}
	l, err := openUsage(&recordOptions{dir: file, defaultDir: file}, log)
	if err != nil || !strings.Contains(text.String(), "in memory only") {
		t.Fatalf("a file by default: %v\n%s", err, text)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Ways to damage a model in a folder.
type damage func(t *testing.T, dir string)

func edit(file, old, new string) damage {
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

func truncate(file string, size int64) damage {
	return func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, file), size); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(file string) damage {
	return func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadStart: a mistake in a model or an option is reported in one sentence, with a
// non-zero exit status and before any port opens.
func TestBadStart(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	empty := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(empty, []byte("# keys\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		damage damage // of a copy of the bundled model
		args   []string
		want   string
		code   int
	}{
		"no such folder":    {args: []string{"/nonexistent"}, want: "is not a model", code: 1},
		"another network":   {damage: edit("config.json", "Qwen3ForCausalLM", "XLNetLMHeadModel"), want: "XLNetLMHeadModel", code: 1},
		"cut weights":       {damage: truncate("model.safetensors", 1<<20), want: "model.safetensors", code: 1},
		"no weights":        {damage: remove("model.safetensors"), want: "safetensors", code: 1},
		"no config":         {damage: remove("config.json"), want: "config.json", code: 1},
		"no tokenizer":      {damage: remove("tokenizer.json"), want: "tokenizer.json", code: 1},
		"broken tokenizer":  {damage: edit("tokenizer.json", `"BPE"`, `"Unigram"`), want: "Unigram", code: 1},
		"broken template":   {damage: edit("chat_template.jinja", "{%- if tools -%}", "{%- if tools"), want: "template", code: 1},
		"too long":          {args: []string{"--max-model-len", "5000"}, want: "at most 4096", code: 2},
		"no sequences":      {args: []string{"--max-num-seqs", "0"}, want: "--max-num-seqs 0: it takes 1 or more", code: 2},
		"no background":     {args: []string{"--background-in-all", "0"}, want: "--background-in-all 0: it takes 1 or more", code: 2},
		"too little memory": {args: []string{"--kv-cache-memory", "2MiB"}, want: "set --max-model-len", code: 1},
		"block size":        {args: []string{"--block-size", "20"}, want: "multiple of 16", code: 2},
		"an unknown tier":   {args: []string{"--cpu", "sse"}, want: "sse", code: 2},
		"logits":            {args: []string{"--logprobs-mode", "raw_logits"}, want: "log-probabilities only", code: 2},
		"another mode":      {args: []string{"--logprobs-mode", "cooked"}, want: "neither raw_logprobs nor", code: 2},
		"an unknown flag":   {args: []string{"--frobnicate"}, want: "frobnicate", code: 2},
		"an unknown value":  {args: []string{"--dtype", "int3"}, want: "int3", code: 2},
		"two models":        {args: []string{"a", "b"}, want: "one model", code: 2},
		"a budget":          {args: []string{"--max-num-batched-tokens", "4", "--max-num-seqs", "8"}, want: "--max-num-seqs", code: 2},
		"a parser":          {args: []string{"--reasoning-parser", "r2"}, want: "none of auto, none, qwen3", code: 2},
		"a form of calls":   {args: []string{"--tool-call-parser", "r2"}, want: "none of auto, ", code: 2},
		"a field":           {args: []string{"--reasoning-field", "thoughts"}, want: "reasoning_content", code: 2},
		"kwargs":            {args: []string{"--default-chat-template-kwargs", "{"}, want: "kwargs", code: 2},
		"a profile":         {args: []string{"--device", "sim", "--sim-profile", "/nonexistent"}, want: "sim-profile", code: 2},
		"a script":          {args: []string{"--device", "sim", "--sim-script", empty}, want: "sim-script", code: 2},
		"no keys":           {args: []string{"--credentials", empty}, want: "the file is empty or was cut", code: 1},
		"a port in use":     {args: []string{"--port", fmt.Sprint(busy.Addr().(*net.TCPAddr).Port)}, want: "in use", code: 1},
	} {
		args := append([]string{"serve", "--port", "0"}, c.args...)
		if c.damage != nil {
			dir := copyModel(t)
			c.damage(t, dir)
			args = append(args, dir)
		}
		code, _, msg := runWeir(args...)
		if code != c.code || !strings.Contains(msg, c.want) || strings.Contains(msg, "listening") || strings.Contains(msg, "goroutine") {
			t.Errorf("%s: exit %d, want %d with %q:\n%s", name, code, c.code, c.want, msg)
		}
		if lines := strings.Count(msg, "\n"); lines != 1 {
			t.Errorf("%s: %d lines:\n%s", name, lines, msg)
		}
	}
}

// TestHangUpReloads: SIGHUP reads the credentials file by the rules of every change: one that
// was emptied revokes nothing, and metrics tell of it.
func TestHangUpReloads(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("keys: [{id: a, hash: \"sha256:%x\"}]", sha256.Sum256([]byte("k"))))
	p := startProcess(t, nil, "--data-dir", "", "--credentials", file)
	for _, c := range []struct {
		text, log, stale string
		models           int
	}{
		{"", "SIGHUP: (the credentials file is not used)", "weir:credentials_stale 1\n", 200},
		{"keys: []", "SIGHUP: (the credentials file was read anew)", "weir:credentials_stale 0\n", 401},
	} {
		write(c.text)
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		p.log.find(t, c.log, p.ended)
		if _, text, _ := do(t, http.DefaultClient, "GET", p.url+"/metrics", ""); !strings.Contains(text, c.stale) {
			t.Errorf("with %q: %s", c.text, text)
		}
		if code, text, _ := do(t, http.DefaultClient, "GET", p.url+"/v1/models", "", "Authorization", "Bearer k"); code != c.models {
			t.Errorf("with %q: %d %s", c.text, code, text)
		}
	}
}

// TestHangUp: SIGHUP does not end the server.
func TestHangUp(t *testing.T) {
	t.Parallel()
	p := startProcess(t, nil, "--data-dir", "")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.log.find(t, `SIGHUP: (there is no credentials file)`, p.ended)
	if code, text, _ := do(t, http.DefaultClient, "GET", p.url+"/health", ""); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}
