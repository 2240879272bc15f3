//go:build cuda && linux && amd64

package cudrv_test

import (
	"errors"
	"fmt"
	"testing"

	"gorgonia.org/cu"

	"weir/internal/cudashim"
	"weir/internal/cudrv"
)

// TestWithoutDriver: a program that holds cu starts where there is no driver,
// and every call says so.
func TestWithoutDriver(t *testing.T) {
	if n, err := cu.NumDevices(); n != 0 || err != nil {
		t.Errorf("NumDevices: %d, %v", n, err)
	}
	if _, err := cu.MemAlloc(1); err == nil || !errors.Is(cudrv.Wrap(err), cudrv.Error(3)) {
		t.Errorf("MemAlloc before Open: %v", err)
	}
	if _, err := cudrv.HostAlloc(1); !errors.Is(err, cudrv.Error(3)) {
		t.Errorf("HostAlloc before Open: %v", err)
	}
	const nowhere = "/nonexistent/libcuda.so"
	for range 2 { // the second call answers from memory
		if err := cudashim.Open(nowhere); !errors.Is(err, cudashim.ErrNoDriver) {
			t.Errorf("Open: %v", err)
		}
	}
	if err := cudashim.Open("elsewhere"); err == nil || errors.Is(err, cudashim.ErrNoDriver) {
		t.Errorf("a second library: %v", err)
	}
}

func TestWrap(t *testing.T) {
	_, err := cu.MemAlloc(1)
	if w := cudrv.Wrap(err); w.Error() != "CUDA error 3" { // no driver, no text
		t.Error(w)
	}
	if other := fmt.Errorf("x"); cudrv.Wrap(other) != other || cudrv.Wrap(nil) != nil {
		t.Error("Wrap changes what is not cu's")
	}
}
