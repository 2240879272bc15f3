//go:build cuda && linux && amd64

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
	o := check.Options{Config: cuda.Default(), Quick: true, JSON: results, Limit: 1 << 40, Total: 1 << 40}
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
	if err := json.Unmarshal(src, &rep); err != nil || len(rep.Sections) != 8 || rep.Device == "" {
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
