package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFromVLLM: arguments in the forms of vLLM's command line.
func TestFromVLLM(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"m --max_model_len 4096", "m --max-model-len 4096"},
		{"m --max_model_len=4096 --chat-template a_b", "m --max-model-len=4096 --chat-template a_b"},
		{"m -tp 1 -O3", "m --tensor-parallel-size 1 --optimization-level=3"},
		{"m --served-model-name a b --port 1", "m --served-model-name a --served-model-name b --port 1"},
		{"m --served-model-name a b c", "m --served-model-name a --served-model-name b --served-model-name c"},
		{"--model m --api-key k1 k2", "--model m --api-key k1 --api-key k2"},
		{"m --api-key k1 " + folder, "m --api-key k1 --api-key " + folder},
		{"--api-key k1 " + folder, "--api-key k1 " + folder},                                             // the model
		{"--api-key k1 k2 " + folder + " --port 1", "--api-key k1 --api-key k2 " + folder + " --port 1"}, // the model, after two keys
		{"--api-key=k1 m", "--api-key=k1 m"},
		{"m -- --served-model-name a b", "m -- --served-model-name a b"},
		{"m --served-model-name", "m --served-model-name"},
		{"m -cc.mode 3 -dpl 1", "--compilation-config={\"mode\":3} m --data-parallel-size-local 1"},
		{"m --default-chat-template-kwargs.enable_thinking=false --port 1", "--default-chat-template-kwargs={\"enable_thinking\":false} m --port 1"},
		{"m --x-config {\"a\":1} --x-config.b.c text --x-config.b.d", "m --x-config {\"a\":1,\"b\":{\"c\":\"text\",\"d\":true}}"},
		{"m --structured-outputs-config.backend auto", "m --structured-outputs-config.backend auto"},
		{"m -- --x.y z", "m -- --x.y z"},
		{"m --hf-token --port 1", "m --hf-token=true --port 1"},
		{"m --hf-token abc", "m --hf-token abc"},
	} {
		if got := strings.Join(fromVLLM(strings.Fields(c.args)), " "); got != c.want {
			t.Errorf("%s\n became %s\n  want  %s", c.args, got, c.want)
		}
	}
}

// TestVLLMFlags: flags of vLLM that mean nothing here are accepted, each with a line in the
// log, and refused if they ask for what this server cannot do.
func TestVLLMFlags(t *testing.T) {
	for _, args := range []string{
		"--trust-remote-code", "--trust-remote-code=true", "--no-trust-remote-code", "--tensor-parallel-size 1", "-tp 1", "--load-format auto", "--load_format safetensors",
		"--disable-log-stats", "--tokenizer-revision main", "--tokenizer-mode auto", "--compilation-config {}", "-O3", "--swap-space 0", "--async-scheduling",
		"--limit-mm-per-prompt {}", "--distributed-executor-backend mp", "--uvicorn-log-level warning", "--speculative-config=None", "--enable-lora=false",
		"--speculative-config None", "--no-enable-lora", "--worker-cls auto", "--offload-num-in-group 1", "--watermark 0.0", "-dpl 1", "-cc.mode 3",
	} {
		o, _ := parseServe(t, strings.Fields(args)...)
		if lines := o.withoutEffect(); len(lines) != 1 || !strings.Contains(lines[0], " has no effect: ") {
			t.Errorf("%s: the log says %q", args, lines)
		}
	}
	for args, want := range map[string]string{
		"--tensor-parallel-size 2":    "a model runs on one device",
		"-tp 8":                       "a model runs on one device",
		"--load-format gguf":          "weights are read from safetensors files",
		"--speculative-config {}":     "there is no speculative decoding",
		"--ssl-ciphers k":             "those that Go holds for safe",
		"--middleware m":              "there is no Python",
		"--enable-lora":               "there are no adapters",
		"--num-gpu-blocks-override 9": "--kv-cache-memory says",
		"--kv-transfer-config {}":     "--kv-transfer-config {}: this server cannot do that: --role, --kv-transfer-listen",
		"--enable-sleep-mode":         "--enable-sleep-mode: this server cannot do that",
		"--watermark 0.5":             "--watermark 0.5: this server cannot do that",
	} {
		o := &serveOptions{}
		_, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, strings.Fields(args)...)
		if err == nil || !isUsageError(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestUnknownFlags: the answer to an unknown flag names the closest ones.
func TestUnknownFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--enable-chunked-prefil":  "unknown flag: --enable-chunked-prefil, did you mean --enable-chunked-prefill?",
		"--max-model-length 5":     "did you mean --max-model-len",
		"--model-len 5":            "did you mean --max-model-len?",
		"--no-enable-prefix-cache": "--no-enable-prefix-caching",
		"--tensor-parallel 2":      "--tensor-parallel-size",
		"--gpu-memory 1":           "did you mean --gpu-memory-utilization",
		"--frobnicate":             "unknown flag: --frobnicate (test --help lists all flags)",
		"-x 5":                     "begin with two dashes",
	} {
		o := &serveOptions{}
		_, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, strings.Fields(args)...)
		if err == nil || !isUsageError(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestVLLMValues: values in the forms that vLLM has.
func TestVLLMValues(t *testing.T) {
	o, _ := parseServe(t, "--max-model-len", "1.5k", "--max-num-batched-tokens", "2K", "--shutdown-timeout", "5", "--sse-keep-alive-interval", "0.5", "--log-level", "WARNING", "--dtype", "half")
	if o.model.maxModelLen != 1500 || o.engine.maxTokens != 2048 || o.life.shutdown != 5*time.Second || o.listen.heartbeat != 500*time.Millisecond || o.logs.level != "warn" || o.engine.dtype != "float16" {
		t.Errorf("%+v %+v %+v %+v", o.model, o.engine, o.listen, o.logs)
	}
	for _, auto := range []string{"auto", "-1"} {
		if o, _ := parseServe(t, "--max-model-len", "9", "--max-model-len", auto); o.model.maxModelLen != 0 {
			t.Errorf("--max-model-len %s is %d", auto, o.model.maxModelLen)
		}
	}
	if o, _ := parseServe(t, "--shutdown-timeout", "2m"); o.life.shutdown != 2*time.Minute {
		t.Errorf("%v", o.life.shutdown)
	}
	for _, args := range [][]string{{"--max-model-len", "9X"}, {"--max-model-len", ""}, {"--max-model-len", "k"}, {"--max-num-batched-tokens", "auto"}, {"--shutdown-timeout", "soon"}, {"--shutdown-timeout", "-1"}, {"--log-level", "loud"}} {
		o := &serveOptions{}
		if _, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, args...); err == nil || !isUsageError(err) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestVLLMSettings: what vLLM derives from other flags and from the environment.
func TestVLLMSettings(t *testing.T) {
	env := func(name string) string { return map[string]string{"VLLM_API_KEY": "sesame"}[name] }
	for _, c := range []struct {
		args string
		seqs int
		keys string
	}{
		{"", 256, "sesame"},
		{"--max-num-batched-tokens 100 --api-key mine", 100, "mine"},
		{"--max-num-batched-tokens 100 --max-num-seqs 256 --credentials file", 256, ""}, // refused later
		{"--max-num-batched-tokens 1000", 256, "sesame"},
	} {
		o := &serveOptions{}
		f, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, env) }, env, strings.Fields(c.args)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.settle(f, env); err != nil {
			t.Fatal(err)
		}
		if keys := strings.Join(o.access.keys, " "); o.engine.maxSeqs != c.seqs || keys != c.keys {
			t.Errorf("%s: %d sequences, keys %s", c.args, o.engine.maxSeqs, keys)
		}
		if text := fmt.Sprint(o.settings); strings.Contains(text, "sesame") {
			t.Errorf("a secret is among the settings: %s", text)
		}
	}
	o := &serveOptions{}
	f, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, "--stream-interval", "0")
	if err == nil {
		err = o.settle(f, noEnv)
	}
	if err == nil || !isUsageError(err) {
		t.Errorf("a stream interval of 0: %v", err)
	}
}

// TestVLLMFile: a YAML file as vLLM takes it, with objects, lists and names with underscores.
func TestVLLMFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "v.yaml")
	if err := os.WriteFile(file, []byte("served-model-name: [a, b]\nuvicorn-log-level: info\ncompilation-config:\n  pass_config: {fuse_allreduce_rms: true}\n"+
		"override-generation-config:\n  temperature: 0.25\n  top_k: 5\ndefault_chat_template_kwargs: {enable_thinking: false}\n"+
		"enable-lora: false\nenable_chunked_prefill: false\nmax-model-len: 1K\nmax-num-seqs: 300\nmax-num-batched-tokens: 200\napi-key:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &serveOptions{}
	f, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.settle(f, noEnv); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(o.model.names, o.model.override, o.model.templateKwargs, o.engine.chunked, o.model.maxModelLen, o.engine.maxSeqs, len(o.access.keys), len(o.withoutEffect()))
	if want := "[a b] {\"temperature\":0.25,\"top_k\":5} {\"enable_thinking\":false} false 1024 300 0 3\n"; got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

// TestVLLMNames: flags of vLLM that this server has under another name, and flags that are
// the same as another one.
func TestVLLMNames(t *testing.T) {
	o, dir := parseServe(t, strings.Fields("--model m --served-model-name a b --kv-cache-memory-bytes 64M --max-num-queued-reqs 7 --disable-log-requests --enable-log-requests --enforce-eager --long-prefill-token-threshold 9")...)
	if dir != "" || o.model.path != "m" || !slices.Equal(o.model.names, []string{"a", "b"}) {
		t.Errorf("model %q and %q, names %q", dir, o.model.path, o.model.names)
	}
	if o.engine.kvMemory != 64<<20 || o.engine.maxLive != 7 || o.logs.requests || o.engine.launch != "cu" || o.engine.longPrompt != 9 {
		t.Errorf("%+v", o.engine)
	}
	if dir, err := o.model.folder([]string{"m"}); dir != "m" || err != nil {
		t.Errorf("the same model twice: %q, %v", dir, err)
	}
	if _, err := o.model.folder([]string{"n"}); err == nil || !isUsageError(err) {
		t.Errorf("two models: %v", err)
	}
}

// TestAnswerOptions: the flags that say how requests are answered reach the server.
func TestAnswerOptions(t *testing.T) {
	o, _ := parseServe(t, "--no-enable-prompt-tokens-details", "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--tool-constraint", "off", "--exclude-tools-when-tool-choice-none", "--seed", "-3",
		"--structured-outputs-config", `{"backend":"xgrammar","disable_any_whitespace":true,"reasoning_parser":"qwen3"}`, "--structured-outputs-config.enable_in_reasoning", "true", "--structured-outputs-config.one_of_any", "true")
	c := o.serverConfig(slog.New(slog.DiscardHandler))
	if !c.NoPromptDetails || !c.UnconstrainedCalls || o.model.callParser != "hermes" || !c.ExcludeTools || c.Seed == nil || int64(*c.Seed) != -3 || !c.NoWhitespace || !c.OneOfAny || !c.InThoughts || o.model.reasoningParser != "qwen3" {
		t.Errorf("%+v, reasoning parser %s", c.Answers, o.model.reasoningParser)
	}
	o, _ = parseServe(t)
	if c := o.serverConfig(slog.New(slog.DiscardHandler)); c.NoPromptDetails || c.UnconstrainedCalls || o.model.callParser != "auto" || c.ExcludeTools || c.Seed != nil || c.NoWhitespace || c.OneOfAny || c.InThoughts {
		t.Errorf("without flags: %+v", c.Answers)
	}
	for _, args := range [][]string{
		{"--seed", "x"}, {"--structured-outputs-config", "[]"}, {"--structured-outputs-config", `{"backend":"none"}`}, {"--structured-outputs-config", `{"x":1}`}, {"--structured-outputs-config.disable_any_whitespace", "perhaps"},
	} {
		o := &serveOptions{}
		if _, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, args...); err == nil || !isUsageError(err) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestVLLMFlagsOnce: no flag of vLLM is in the table of those without effect and has an effect.
func TestVLLMFlagsOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range vllmFlags {
		for name := range strings.FieldsSeq(v.names) {
			if seen[name] || vllmAliases[name] != "" {
				t.Errorf("--%s is there twice", name)
			}
			seen[name] = true
		}
	}
}
