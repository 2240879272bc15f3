package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestNoGPU: without a driver, a GPU that was asked for is refused with the reason.
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
