//go:build cuda && linux && amd64

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/device/cuda"
	"weir/device/cuda/check"
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

// A process has one driver, so tests that open one run the test binary anew.
func again(t *testing.T, name string) bool {
	if os.Getenv("WEIR_TEST_CHILD") == name {
		return true
	}
	driver(t)
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), "WEIR_TEST_CHILD="+name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestServeOnGPU: auto finds the GPU, sizes the pool and answers, with 4 bits
// per weight too.
func TestServeOnGPU(t *testing.T) {
	if !again(t, t.Name()) {
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
	if err != nil || len(kept) != 1 {
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

// TestGPUCheck: every section passes on the emulated GPU, and an error in the
// middle of one is reported, with what had been found.
func TestGPUCheck(t *testing.T) {
	if !again(t, t.Name()) {
		return
	}
	results := t.TempDir()
	o := check.Options{Config: cuda.Default(), Quick: true, JSON: results, Total: time.Hour}
	o.Config.Driver = driver(t)
	var out bytes.Buffer
	o.Out = &out
	if err := check.Run(o, "test"); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	files, err := filepath.Glob(filepath.Join(results, "20??-??-??-emulated-gpu-test.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	src, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var rep check.Report
	if err := json.Unmarshal(src, &rep); err != nil || len(rep.Sections) != 9 || rep.Device == "" {
		t.Fatalf("%v: %+v", err, rep)
	}
	for _, s := range rep.Sections {
		if s.State != "done" || len(s.Records) == 0 {
			t.Errorf("%+v", s)
		}
	}
	t.Setenv("FAKE_CUDA_FAIL", "run:9=700")
	if err := check.Run(o, "test"); err == nil || !strings.Contains(out.String(), "illegal memory access") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestGPUCheckOfEverything: what the report says of each kernel and of torch.
func TestGPUCheckOfEverything(t *testing.T) {
	if !again(t, t.Name()) {
		return
	}
	run := func(python string, only string) (check.Report, string, error) {
		file := filepath.Join(t.TempDir(), "results.json")
		o := check.Options{Config: cuda.Default(), Quick: true, JSON: file, Total: time.Hour, Python: python}
		o.Config.Driver = driver(t)
		if only != "" {
			o.Only = regexp.MustCompile(only)
		}
		var out bytes.Buffer
		o.Out = &out
		err := check.Run(o, "test")
		src, err2 := os.ReadFile(file)
		if err2 != nil {
			t.Fatal(err2)
		}
		var rep check.Report
		if err := json.Unmarshal(src, &rep); err != nil {
			t.Fatal(err)
		}
		return rep, out.String(), err
	}
	state := func(rep check.Report, kernel string) string {
		for _, k := range rep.Kernels {
			if k.Name == kernel {
				return k.State
			}
		}
		return ""
	}

	// A torch that answers: its times stand beside ours.
	python := filepath.Join(t.TempDir(), "python")
	script := `#!/usr/bin/env python3
import json, sys
print("a warning that is no line of ours")
print(json.dumps({"torch": "0", "device": "none"}))
for item in json.loads(sys.argv[3])["items"]:
    print(json.dumps({"key": item[0], "us": 5.0} if item[1] != "forward" else {"key": item[0], "why": "no memory"}), flush=True)
`
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	rep, out, err := run(python, "^[123468]")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, k := range rep.Kernels {
		if k.State != check.OK && !strings.HasPrefix(k.State, "not launched: ") || k.State == check.OK && k.Checks == 0 {
			t.Errorf("gpu-check says of a kernel %+v", k)
		}
	}
	timed := 0
	for _, c := range rep.Comparisons {
		if c.Torch == 5 && c.Ratio > 0 {
			timed++
		}
	}
	if timed == 0 || timed != len(rep.Comparisons) {
		t.Errorf("%d comparisons, %d with torch's times: %+v", len(rep.Comparisons), timed, rep.Comparisons)
	}

	// None: the rows say so.
	rep, out, err = run("/nonexistent/python", "^[68]")
	if err != nil || len(rep.Comparisons) == 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range rep.Comparisons {
		if c.Torch != 0 || !strings.HasPrefix(c.Why, "no /nonexistent/python") {
			t.Errorf("%+v", c)
		}
	}

	// A kernel that does nothing is wrong. One of each kind: all take minutes.
	for kernel, section := range map[string]string{"tick": "^1", "stream_read": "^1", "approx": "^1", "pack_q4": "^1", "embed": "^1", "rmsnorm": "^1", "norm_heads": "^1", "rope_kv": "^1",
		"probe_wgmma": "^1", "probe_ring": "^1", "gemm_q8_n8": "^2", "attn_merge": "^3", "attn_whole_d64": "^3", "pick": "^4"} {
		if state(rep, kernel) == "" {
			continue // the launch table has it no more
		}
		t.Setenv("FAKE_CUDA_SKIP", kernel)
		broken, out, err := run("", section)
		if got := state(broken, kernel); err == nil || got != check.Wrong {
			t.Errorf("%s does nothing, and gpu-check says %q, %v:\n%s", kernel, got, err, out)
		}
	}
	t.Setenv("FAKE_CUDA_SKIP", "")

	// Another chip has no wgmma, and its kernels are not missing for that.
	t.Setenv("FAKE_CUDA_CC", "80")
	rep, out, err = run("", "^[12]")
	if err != nil || state(rep, "probe_wgmma") != "skipped: needs sm_90" || state(rep, "gemm_bf16_h64") != "skipped: needs sm_90" || state(rep, "gemm_bf16_n8") != check.OK {
		t.Errorf("%v\n%s", err, out)
	}

	// What there is no time for is listed.
	file := filepath.Join(t.TempDir(), "late.json")
	o := check.Options{Config: cuda.Default(), Quick: true, JSON: file, Total: 2 * time.Second, Only: regexp.MustCompile("^[123]"), Out: &bytes.Buffer{}}
	o.Config.Driver = driver(t)
	err = check.Run(o, "test")
	src, err2 := os.ReadFile(file)
	if err2 != nil || json.Unmarshal(src, &rep) != nil {
		t.Fatal(err2)
	}
	late := 0
	for _, s := range rep.Sections {
		for _, r := range s.Records {
			if r.Verdict == check.Late {
				late++
			}
		}
	}
	if err == nil || late == 0 {
		t.Errorf("%v, %d tasks too late:\n%v", err, late, o.Out)
	}
}
