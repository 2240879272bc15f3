package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestDeviceFlag: what names a device, and what does not.
func TestDeviceFlag(t *testing.T) {
	for name, ok := range map[string]bool{"auto": true, "cpu": true, "sim": true, "cuda": true, "cuda:0": true, "cuda:12": true,
		"": false, "gpu": false, "cuda:": false, "cuda:-1": false, "cuda:x": false, "cuda0": false} {
		d := device("auto")
		if err := d.Set(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestNoGPU: without a driver an explicit GPU is refused with the reason, and
// auto is the CPU.
func TestNoGPU(t *testing.T) {
	nowhere := []string{"--cuda-driver", "/nonexistent/libcuda.so.1"}
	for _, cmd := range [][]string{{"serve", "--port", "0", "--data-dir", "", "--device", "cuda"}, {"gpu-check"}} {
		var out, errOut bytes.Buffer
		if gpuBuilt {
			cmd = append(cmd, nowhere...)
		}
		code := run(cmd, noEnv, nil, &out, &errOut)
		msg := errOut.String()
		if code == 0 || strings.Count(msg, "\n") != 1 || !strings.Contains(msg, "CUDA") {
			t.Errorf("%v: exit %d\n%s", cmd, code, msg)
		}
	}
}
