package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
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
		"--disable-log-stats", "--revision main", "--tokenizer-mode auto", "--compilation-config {}", "-O3", "--swap-space 0", "--async-scheduling",
		"--limit-mm-per-prompt {}", "--distributed-executor-backend mp", "--uvicorn-log-level warning", "--speculative-config=None", "--enable-lora=false",
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
		"--ssl-keyfile k":             "put a proxy with TLS before it",
		"--middleware m":              "there is no Python",
		"--enable-lora":               "this server does not have that",
		"--num-gpu-blocks-override 9": "--kv-cache-memory says",
	} {
		o := &serveOptions{}
		_, _, err := parseFlags(t, func(f *flagSet) { o.bind(f, noEnv) }, noEnv, strings.Fields(args)...)
		if err == nil || !isUsageError(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
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
	o, _ := parseServe(t, "--no-enable-prompt-tokens-details", "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--exclude-tools-when-tool-choice-none", "--seed", "-3",
		"--structured-outputs-config", `{"backend":"xgrammar","disable_any_whitespace":true,"reasoning_parser":"qwen3"}`, "--structured-outputs-config.enable_in_reasoning", "true")
	c := o.serverConfig(slog.New(slog.DiscardHandler))
	if !c.NoPromptDetails || !c.AutoTools || !c.ExcludeTools || c.Seed == nil || int64(*c.Seed) != -3 || !c.NoWhitespace || !c.InThoughts || o.model.reasoningParser != "qwen3" {
		t.Errorf("%+v, reasoning parser %s", c.Answers, o.model.reasoningParser)
	}
	o, _ = parseServe(t)
	if c := o.serverConfig(slog.New(slog.DiscardHandler)); c.NoPromptDetails || c.AutoTools || c.ExcludeTools || c.Seed != nil || c.NoWhitespace || c.InThoughts {
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
