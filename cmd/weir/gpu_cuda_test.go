//go:build cuda && linux && amd64

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/device/cuda"
	"weir/device/cuda/check"
	"weir/model"
	"weir/weights"
)

const gpuBuilt = true

// driver is the library that make test-cuda-emu builds.
func driver(t *testing.T) string {
	d := os.Getenv("WEIR_CUDA_DRIVER")
	if d == "" {
		t.Skip("WEIR_CUDA_DRIVER names no driver (make test-cuda-emu)")
	}
	return d
}

// inOwnProcess reports whether this process was started for the running test. If not, it
// runs the test in a process of its own, because a process can open one driver only.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	name := t.Name()
	if os.Getenv("WEIR_TEST_CHILD") == name {
		return true
	}
	driver(t)
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), "WEIR_TEST_CHILD="+name, mainVar+"=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestServeOnGPU: auto finds the GPU, sizes the KV cache and answers, also with weights of
// 4 bits. What a GPU does not have is refused.
func TestServeOnGPU(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var out, errOut bytes.Buffer
	for _, format := range []string{"auto", "q4"} {
		out.Reset()
		code := run([]string{"chat", "--cuda-driver", driver(t), "--quantization", format, "--max-num-batched-tokens", "48", "--max-num-seqs", "2", "--max-model-len", "96", "--temperature", "0", "--max-tokens", "7",
			"--log-level", "info"}, noEnv, strings.NewReader("What is the capital of France?\n"), &out, &errOut)
		if code != 0 || !strings.Contains(out.String(), "Paris") {
			t.Errorf("%s: exit %d: %s\n%s", format, code, out.String(), errOut.String())
		}
	}
	kept, err := filepath.Glob(os.Getenv("XDG_CACHE_HOME") + "/weir/cubin/*")
	if err != nil || len(kept) != 2 { // the kernels of all GPUs, and those of Hopper; the second run finds them
		t.Errorf("machine code kept in %v, %v", kept, err)
	}
	for want, args := range map[string][]string{
		"the driver has 1 devices":   {"--device", "cuda:3"},
		"weights are bfloat16":       {"--dtype", "float32"},
		"--quantization w8a8":        {"--quantization", "w8a8"},
		"keys and values are":        {"--kv-cache-dtype", "float16"},
		"is not in (0, 1]":           {"--gpu-memory-utilization", "1.5"},
		"--kv-cache-memory 64GiB":    {"--kv-cache-memory", "64GiB"},
		"one sequence of 96":         {"--kv-cache-memory", "16K"},
		"cannot pass its tensor map": {"--cuda-gemm", "wgmma", "--cuda-launch", "cu"},
	} {
		errOut.Reset()
		args = append([]string{"serve", "--port", "0", "--data-dir", "", "--cuda-driver", driver(t), "--max-num-batched-tokens", "48", "--max-num-seqs", "2", "--max-model-len", "96"}, args...)
		if code := run(args, noEnv, nil, &out, &errOut); code == 0 || !strings.Contains(errOut.String(), want) {
			t.Errorf("%v: exit %d, want %q:\n%s", args, code, want, errOut.String())
		}
	}
}

// gpuCheck runs the sections of gpu-check that match only, on the emulated GPU, with a
// program in the place of Python. It returns the report, and what was printed.
func gpuCheck(t *testing.T, python, only string, total time.Duration) (check.Report, string, error) {
	results := t.TempDir()
	o := check.Options{Config: cuda.Default(), Quick: true, JSON: results, Total: total, Python: python}
	o.Config.Driver = driver(t)
	if only != "" {
		o.Only = regexp.MustCompile(only)
	}
	var out bytes.Buffer
	o.Out = &out
	failed := check.Run(o, "test")
	files, err := filepath.Glob(filepath.Join(results, "20??-??-??-emulated-gpu-test.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	src, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var rep check.Report
	if err := json.Unmarshal(src, &rep); err != nil || rep.Device == "" {
		t.Fatalf("%v: %+v", err, rep)
	}
	return rep, out.String(), failed
}

// kernelState is what a report says about a kernel.
func kernelState(rep check.Report, kernel string) string {
	for _, k := range rep.Kernels {
		if k.Name == kernel {
			return k.State
		}
	}
	return "not in the report"
}

// TestTorch is not a test. It answers as torch.py does when TestGPUCheck starts this
// program in the place of Python.
func TestTorch(t *testing.T) {
	job := os.Getenv("WEIR_TEST_TORCH")
	if job == "" {
		t.Skip("not called in the place of torch")
	}
	var work struct{ Items [][]any }
	if err := json.Unmarshal([]byte(job), &work); err != nil {
		t.Fatal(err)
	}
	fmt.Println("a warning that is no line of ours")
	fmt.Println(`{"torch": "0", "device": "none"}`)
	for _, item := range work.Items {
		if item[1] == "forward" {
			fmt.Printf("{\"key\": %q, \"why\": \"no memory\"}\n", item[0])
		} else {
			fmt.Printf("{\"key\": %q, \"us\": 5}\n", item[0])
		}
	}
}

// fakePython writes a program that gpu-check calls as: python -c SCRIPT JOB.
func fakePython(t *testing.T) string {
	t.Helper()
	python := filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\nWEIR_TEST_TORCH=\"$3\" WEIR_TEST_CHILD= " + mainVar + "= exec \"" + os.Args[0] + "\" -test.run '^TestTorch$'\n"
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return python
}

// TestGPUCheck: on the emulated GPU every section passes, every kernel is launched and
// compared, and torch's times are beside ours.
func TestGPUCheck(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	rep, out, err := gpuCheck(t, fakePython(t), "", time.Hour)
	if err != nil || len(rep.Sections) != 9 {
		t.Fatalf("%v, %d sections\n%s", err, len(rep.Sections), out)
	}
	for _, s := range rep.Sections {
		if s.State != "done" || len(s.Records) == 0 {
			t.Errorf("%+v", s)
		}
	}
	for _, k := range rep.Kernels {
		if k.State != check.OK && !strings.HasPrefix(k.State, "not launched: ") || k.State == check.OK && k.Checks == 0 {
			t.Errorf("gpu-check says of a kernel %+v", k)
		}
	}
	timed := 0
	for _, c := range rep.Comparisons {
		switch {
		case c.Torch == 5 && c.Ratio > 0:
			timed++
		case c.Torch != 5 && c.Why != "no memory":
			t.Errorf("%+v", c)
		}
	}
	if forward := len(rep.Comparisons) - timed; timed == 0 || forward == 0 {
		t.Errorf("%d comparisons, %d with torch's times: %+v", len(rep.Comparisons), timed, rep.Comparisons)
	}
	t.Run("error in a section", func(t *testing.T) {
		t.Setenv("FAKE_CUDA_FAIL", "run:9=700")
		if _, out, err := gpuCheck(t, "", "^1", time.Hour); err == nil || !strings.Contains(out, "illegal memory access") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestGPUCheckWithout: what gpu-check says if something is missing.
func TestGPUCheckWithout(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	t.Run("kernels", testKernelsThatDoNothing)
	t.Run("wgmma", func(t *testing.T) { // another chip does not have these instructions, which is no error
		t.Setenv("FAKE_CUDA_CC", "80")
		rep, out, err := gpuCheck(t, "", "^[12]", time.Hour)
		if err != nil || kernelState(rep, "probe_wgmma") != "skipped: needs sm_90" || kernelState(rep, "gemm_bf16_h64") != "skipped: needs sm_90" || kernelState(rep, "gemm_bf16_n8") != check.OK {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("torch", func(t *testing.T) {
		rep, out, err := gpuCheck(t, "/nonexistent/python", "^[68]", time.Hour)
		if err != nil || len(rep.Comparisons) == 0 {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, c := range rep.Comparisons {
			if c.Torch != 0 || !strings.HasPrefix(c.Why, "no /nonexistent/python") {
				t.Errorf("%+v", c)
			}
		}
	})
	t.Run("time", func(t *testing.T) {
		rep, out, err := gpuCheck(t, "", "^[123]", 2*time.Second)
		late := 0
		for _, s := range rep.Sections {
			for _, r := range s.Records {
				if r.Verdict == check.Late {
					late++
				}
			}
		}
		if err == nil || late == 0 {
			t.Errorf("%v, %d tasks too late:\n%s", err, late, out)
		}
	})
}

// testKernelsThatDoNothing: a kernel that does nothing is wrong, for one kernel of each
// kind, and the others still work.
func testKernelsThatDoNothing(t *testing.T) {
	for _, c := range []struct {
		sections string
		idle     []string // these do nothing
		working  []string
	}{
		{"^1", []string{"tick", "stream_read", "approx", "pack_q4", "embed", "rmsnorm", "norm_heads", "rope_kv", "probe_wgmma", "probe_ring"}, []string{"add", "silu_gate"}},
		{"^[234]", []string{"gemm_q8_n8", "attn_merge", "attn_whole_d64", "pick"}, []string{"gemm_bf16_n8", "attn_prefill_d64"}},
	} {
		t.Setenv("FAKE_CUDA_SKIP", strings.Join(c.idle, ","))
		rep, out, err := gpuCheck(t, "", c.sections, time.Hour)
		for _, kernel := range c.idle {
			if got := kernelState(rep, kernel); err == nil || got != check.Wrong {
				t.Errorf("%s does nothing, and gpu-check says %q, %v:\n%s", kernel, got, err, out)
			}
		}
		for _, kernel := range c.working {
			if got := kernelState(rep, kernel); got != check.OK {
				t.Errorf("%s works, and gpu-check says %q", kernel, got)
			}
		}
	}
}

// TestContextOnGPU: without --max-model-len the context is the longest that the GPU's KV cache
// holds. A backend that is opened again, as after a failed step, has the same one.
func TestContextOnGPU(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	dir := copyModel(t)
	edit("config.json", `"max_position_embeddings": 4096`, `"max_position_embeddings": 131072`)(t, dir)
	o, _ := parseServe(t, "--cuda-driver", driver(t), "--kv-cache-memory", "20MiB", "--max-num-batched-tokens", "48", "--max-num-seqs", "2")
	src, err := openSource(dir, &o.model)
	if err != nil {
		t.Fatal(err)
	}
	defer src.network.Close()
	found, err := o.engine.findGPU()
	if err != nil {
		t.Fatal(err)
	}
	opt, err := runnerOptions(src.network, &o.model, &o.engine, o.engine.longest(&src.network.Config, found), 48)
	if err != nil {
		t.Fatal(err)
	}
	e := &preparedEngine{shorten: true}
	plan, err := e.planGPU(t.Context(), found, src, opt, &o.engine)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b, err := plan.open()
		if err != nil {
			t.Fatal(err)
		}
		// 20 MiB hold 426 blocks of 16 tokens of 3,072 bytes, one of which is the null block.
		if s := b.Spec(); s.MaxSeqTokens != 6656 || s.NumBlocks != 426 || !s.Equal(e.spec) {
			t.Errorf("%+v, the engine has %+v", s, e.spec)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if line := e.shortened(&src.network.Config); line == "" {
		t.Error("the log says nothing of it")
	}
	for _, length := range []int{0, 131072} {
		o.engine.kvMemory, opt.MaxSeqTokens = 12<<20, 131072
		e := &preparedEngine{shorten: length == 0}
		plan, err := e.planGPU(t.Context(), found, src, opt, &o.engine)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = plan.open(); err == nil || !strings.Contains(err.Error(), "of KV cache") {
			t.Errorf("a cache of 4,096 tokens and no null block is enough: %v", err)
		}
	}
}

// TestStoredForGPU: quantized weights are kept where kernels read them, and else refused with
// the flags that help, before anything is loaded.
func TestStoredForGPU(t *testing.T) {
	g := &gpu{cuda.Info{Major: 8}}
	for _, c := range []struct{ stored, args, line, failure string }{
		{"Q8_0", "", "", ""},
		{"Q4_0", "", "", ""},
		{"Q4_K", "", "", "is stored as Q4_K, which no kernel reads: --allow-converted-weights"},
		{"Q4_K", "--allow-converted-weights", "weights in Q4_K are rounded to bf16", ""},
		{"Q8_0", "--quantization q4", "", "--requantize"},
		{"Q8_0", "--quantization q4 --requantize", "weights in Q8_0 are rounded to q4", ""},
		{"", "--quantization q4", "", ""},
	} {
		o, _ := parseServe(t, strings.Fields("--device cuda "+c.args)...)
		cfg, err := g.config(&o.engine)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := checkStored(blockModel(t, c.stored), cfg, &o.engine)
		if got := fmt.Sprint(err); c.failure == "" && err != nil || !strings.Contains(got, c.failure) {
			t.Errorf("%s %s: %v", c.stored, c.args, err)
		}
		if strings.Join(lines, "; ") != c.line {
			t.Errorf("%s %s: log has %q, not %q", c.stored, c.args, lines, c.line)
		}
	}
}

// blockModel is a small network whose matrices are stored as blocks of a type, or as bfloat16.
func blockModel(t *testing.T, stored string) *model.Model {
	t.Helper()
	d := weights.BF16
	for b := weights.Q4_0; stored != "" && b.Blocked(); b++ {
		if b.String() == stored {
			d = b
		}
	}
	c, err := model.ParseConfig([]byte(`{"architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4,
		"num_key_value_heads": 4, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true}`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.FromTensors(c, func(name string, shape []int) weights.Tensor {
		w := weights.Tensor{Name: name, Shape: shape, DType: weights.BF16}
		if len(shape) == 2 {
			w.DType = d
		}
		w.Data = make([]byte, w.Len()/shape[len(shape)-1]*w.DType.RowBytes(shape[len(shape)-1]))
		return w
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}
