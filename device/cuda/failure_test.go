//go:build cuda && linux && amd64

package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/backend"
	"weir/device/cuda"
	"weir/model"
)

// emulated skips a test that needs the driver made for tests, whose calls can fail.
func emulated(t *testing.T) {
	t.Helper()
	list, err := cuda.Probe(config().Driver)
	if err != nil || list[0].Name != "Emulated GPU" {
		t.Skip("needs the emulated GPU")
	}
}

// fail makes the n-th call of name from now on return code.
func fail(t *testing.T, name string, n, code int) {
	t.Setenv("FAKE_CUDA_FAIL", fmt.Sprintf("%s:%d=%d", name, n, code))
}

const (
	outOfMemory   = 2
	illegalAccess = 700
	launchFailed  = 719
	badPTX        = 218
	badImage      = 200
)

// one is a step of a single token.
func one(h *harness) (*flight, error) {
	f := &flight{batch: backend.Batch{Tokens: []int32{1}, Pos: []int32{0}, Slots: []int32{16}, QueryEnd: []int32{1}, KVLen: []int32{1}, TableEnd: []int32{1}, Tables: []int32{1}, At: []int32{0}},
		draws: backend.Draws{Rows: []backend.Draw{{TopP: 1, Mask: -1, Allow: -1, Target: -1}}},
		out:   backend.Out{Tokens: make([]int32, 1), Logprobs: make([]float32, 1), Ranks: make([]int32, 1)}}
	if err := h.b.Begin(&f.batch); err != nil {
		return f, err
	}
	if err := h.b.Draw(&f.draws); err != nil {
		return f, err
	}
	return f, h.b.End(&f.out)
}

// TestEveryCallMayFail: if any call of the driver fails between Open and the end of a
// step, the error contains the driver's words, everything is freed (the driver made for
// tests checks that), and the next try works.
func TestEveryCallMayFail(t *testing.T) {
	emulated(t)
	m := openModel(t, "qwen2")
	o := model.Options{NumBlocks: 8, MaxTokens: 16, MaxSeqs: 2, MaxSeqTokens: 32, Depth: 2}
	failures := 0
	for _, name := range []string{
		"cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuLinkCreate", "cuLinkComplete", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute",
		"cuMemAlloc", "cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuStreamSynchronize",
		"cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemsetD8Async", "cuLaunchKernel", "cuStreamQuery",
		"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
	} {
		n := eachCallFails(t, name, func() error { return twoSteps(t, m, o) })
		if n == 0 {
			t.Errorf("%s is never called", name)
		}
		failures += n
	}
	t.Logf("%d failures", failures)
	t.Setenv("FAKE_CUDA_FAIL", "")
	if err := twoSteps(t, m, o); err != nil {
		t.Error(err)
	}
}

// twoSteps opens a device, runs two steps, of which the second replays a graph, copies a block out and
// back, and closes the device. It returns the errors.
func twoSteps(t *testing.T, m *model.Model, o model.Options) error {
	dev, err := cuda.Open(config())
	if err != nil {
		return err
	}
	r, err := model.NewRunner(context.Background(), dev, m, o)
	if err != nil {
		return err
	}
	h := newHarness(t, r, 1)
	for range 2 {
		if _, err = one(h); err != nil {
			break
		}
	}
	if size, _, _ := r.CopySizes(); err == nil {
		err = r.CopyOut(make([]byte, size), false, 1)
		if err == nil {
			err = r.CopyIn(make([]byte, size), false, 2)
		}
	}
	return errors.Join(err, r.Close())
}

// eachCallFails calls try while the first call of a function of the driver
// fails, then the second, and so on in growing distances, until try makes fewer
// calls. It returns how often one failed.
func eachCallFails(t *testing.T, function string, try func() error) (failures int) {
	t.Helper()
	for n := 1; ; n++ {
		if n > 3 {
			n *= 3
		}
		fail(t, function, n, outOfMemory)
		err := try()
		if err == nil {
			return failures
		}
		failures++
		if !errors.Is(err, cuda.ErrDevice) || !strings.Contains(err.Error(), "out of memory") {
			t.Fatalf("call %d of %s: %v", n, function, err)
		}
	}
}

// TestKernelFails: an error of a running kernel ends its step with the driver's words, and
// a device that is opened afterwards works.
func TestKernelFails(t *testing.T) {
	emulated(t)
	m := openModel(t, "qwen2")
	o := model.Options{NumBlocks: 8, MaxTokens: 16, MaxSeqs: 2, MaxSeqTokens: 32, Depth: 2}
	for _, n := range []int{1, 5, 20, 40} {
		r := onGPU(t, m, config(), o)
		h := newHarness(t, r, 1)
		if _, err := one(h); err != nil {
			t.Fatal(err)
		}
		fail(t, "run", n, illegalAccess)
		_, err := one(h)
		for range 2 {
			if err == nil {
				_, err = one(h)
			}
		}
		if !errors.Is(err, cuda.ErrDevice) || !strings.Contains(err.Error(), "illegal memory access") {
			t.Fatalf("kernel %d: %v", n, err)
		}
		if _, again := one(h); again == nil {
			t.Error("a step after the error")
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompilerComplains: the messages of the driver's compiler are in the error. The cache
// of machine code is used, and written again if it is damaged or cannot be loaded.
func TestCompilerComplains(t *testing.T) {
	emulated(t)
	fail(t, "cuLinkAddData", 1, badPTX)
	if _, err := cuda.Open(config()); err == nil || !strings.Contains(err.Error(), "fatal: syntax error") || !strings.Contains(err.Error(), "JIT compilation failed") {
		t.Errorf("without the log: %v", err)
	}
	c := config()
	c.CacheDir = filepath.Join(t.TempDir(), "a", "b")
	open := func() (compiled bool) {
		t.Helper()
		log := filepath.Join(t.TempDir(), "calls")
		t.Setenv("FAKE_CUDA_LOG", log)
		d, err := cuda.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		calls, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(calls), "cuLinkAddData")
	}
	t.Setenv("FAKE_CUDA_FAIL", "")
	if !open() {
		t.Error("not compiled at the first start")
	}
	if open() {
		t.Error("compiled again")
	}
	files, err := filepath.Glob(c.CacheDir + "/*")
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !open() || open() {
		t.Error("damaged machine code is not made anew")
	}
	fail(t, "cuModuleLoadData", 1, badImage)
	if !open() {
		t.Error("machine code that does not load is not made anew")
	}
	t.Setenv("FAKE_CUDA_FAIL", "")
	c.CacheDir = "/dev/null/x" // cannot be written
	if !open() {
		t.Error("not compiled")
	}
}

// TestHang: if a device does not answer, the step ends after the timeout, and the device
// is not called any more. This runs in a process of its own, in which the device stays
// hung.
func TestHang(t *testing.T) {
	emulated(t)
	if os.Getenv("FAKE_CUDA_HANG") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHang$", "-test.v")
		cmd.Env = append(os.Environ(), "FAKE_CUDA_HANG=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	m := openModel(t, "qwen2")
	c := config()
	c.Timeout = 300 * time.Millisecond
	r := onGPU(t, m, c, model.Options{NumBlocks: 8, MaxTokens: 16, MaxSeqs: 2, MaxSeqTokens: 32, Depth: 2})
	h := newHarness(t, r, 1)
	t.Setenv("FAKE_CUDA_FAIL", "run:3=hang")
	if _, err := one(h); !errors.Is(err, cuda.ErrDevice) || !strings.Contains(err.Error(), "no answer for 300ms") {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := cuda.Open(c); !errors.Is(err, cuda.ErrDevice) || !strings.Contains(err.Error(), "stopped answering") {
		t.Fatal(err)
	}
}

// TestUnusable: shapes, configurations and matrices that the kernels do not support are
// refused with a reason.
func TestUnusable(t *testing.T) {
	for name, edit := range map[string]func(*cuda.Config){
		"a negative number": func(c *cuda.Config) { c.Ordinal = -1 },
		"no such device":    func(c *cuda.Config) { c.Ordinal = 99 },
		"no time":           func(c *cuda.Config) { c.Timeout = 0 },
		"another driver":    func(c *cuda.Config) { c.Driver = "/nonexistent" },
	} {
		c := config()
		edit(&c)
		if _, err := cuda.Open(c); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	ok := model.Shape{KV: model.UniformKV(1, 4, 2, 32), Acts: []model.ActShape{{Width: 64}}, Windows: []int{0},
		Spec: backend.Spec{VocabSize: 10, BlockTokens: 16, NumBlocks: 4, MaxTokens: 4, MaxSeqs: 2, MaxSeqTokens: 32, Depth: 2}}
	for name, edit := range map[string]func(*model.Shape){
		"no layers":     func(s *model.Shape) { s.KV = nil },
		"heads":         func(s *model.Shape) { s.KV = model.UniformKV(1, 5, 2, 32) },
		"a large head":  func(s *model.Shape) { s.KV = model.UniformKV(1, 4, 2, 578) },
		"large values":  func(s *model.Shape) { s.KV[0].ValueDim = 514 },
		"odd values":    func(s *model.Shape) { s.KV[0].ValueDim = 31 },
		"an odd head":   func(s *model.Shape) { s.KV = model.UniformKV(1, 4, 2, 31) },
		"an odd width":  func(s *model.Shape) { s.Acts[0].Width, s.Acts[0].Factor = 33, true },
		"a small block": func(s *model.Shape) { s.Spec.BlockTokens = 8 },
		"no window":     func(s *model.Shape) { s.Windows = nil },
		"three steps":   func(s *model.Shape) { s.Spec.Depth = 3 },
		"a long rope":   func(s *model.Shape) { s.Ropes = []model.Rope{{InvFreq: make([]float32, 17)}} },
		"an encoder":    func(s *model.Shape) { s.Pieces = model.PieceEncoder },
		"no tokens":     func(s *model.Shape) { s.Spec.MaxTokens = 0 },
	} {
		d, err := cuda.Open(config())
		if err != nil {
			t.Fatal(err)
		}
		s := ok
		s.Acts, s.KV = []model.ActShape{{Width: 64}}, slices.Clone(ok.KV)
		edit(&s)
		if err := d.Plan(s); !errors.Is(err, cuda.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	emulated(t)
	t.Setenv("FAKE_CUDA_CC", "75")
	if _, err := cuda.Open(config()); !errors.Is(err, cuda.ErrConfig) || !strings.Contains(err.Error(), "sm_80") {
		t.Errorf("an old device: %v", err)
	}
}

// TestResizeKV: a pool that does not fit is refused, and the device can still be used.
func TestResizeKV(t *testing.T) {
	emulated(t)
	m := openModel(t, "qwen2")
	r := onGPU(t, m, config(), model.Options{NumBlocks: 8, MaxTokens: 16, MaxSeqs: 2, MaxSeqTokens: 32, Depth: 2})
	if err := r.ResizeKV(1 << 24); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("a pool that does not fit: %v", err)
	}
	if err := r.ResizeKV(20); err != nil || r.Spec().NumBlocks != 20 {
		t.Fatalf("%d blocks, %v", r.Spec().NumBlocks, err)
	}
	h := newHarness(t, r, 1)
	v := m.Config.VocabSize
	h.step(chunk{seq: &sequence{tokens: randomTokens(rand.New(rand.NewPCG(1, 1)), 15, v)}, n: 15, draw: greedy()})
	if err := cuda.WarmUp(r); err != nil {
		t.Error(err)
	}
}

// TestWarmUpStates: the largest step has no more sequences than there are states for.
func TestWarmUpStates(t *testing.T) {
	r := onGPU(t, openModel(t, "families/lfm2"), config(), model.Options{NumBlocks: 20, MaxTokens: 64, MaxSeqs: 8, MaxSeqTokens: 32, StateSlots: 2, Depth: 2})
	if err := cuda.WarmUp(r); err != nil {
		t.Error(err)
	}
}
