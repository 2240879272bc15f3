//go:build unix

package cpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/backend"
	"weir/internal/testkit"
	"weir/model"
	"weir/weights"
)

// mapped puts t into a file and returns it mapped, the file's path, and where in the file it
// begins.
func mapped(tb testing.TB, t weights.Tensor) (_ weights.Tensor, path string, at int) {
	tb.Helper()
	file := testkit.Safetensors([]weights.Tensor{t})
	dir := tb.TempDir()
	path = filepath.Join(dir, "model.safetensors")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		tb.Fatal(err)
	}
	c, err := weights.Open(dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	t, _ = c.Tensor(t.Name)
	return t, path, len(file) - len(t.Data)
}

// TestCutWhileLoading: a tensor whose file ends too early is an error of Load, whoever packs
// or checks it, and not a SIGBUS.
func TestCutWhileLoading(t *testing.T) {
	for _, dtype := range []weights.DType{weights.F32, weights.F16, weights.BF16} {
		cut := tensor(newRand(1), dtype, 0.1, 3000, 300)
		cut.Name = "the.cut.one"
		cut, path, _ := mapped(t, cut)
		if err := os.Truncate(path, 1<<17); err != nil {
			t.Fatal(err)
		}
		for _, as := range []Format{Auto, F32, F16, BF16, Q8, Q4, W8A8} {
			for threads := 1; threads <= 2; threads++ {
				t.Run(fmt.Sprintf("%s_as_%s_%d_threads", dtype, as, threads), func(t *testing.T) {
					loadCut(t, Config{Threads: threads, WeightType: as, KVType: BF16}, cut)
				})
			}
		}
	}
}

func loadCut(t *testing.T, cfg Config, cut weights.Tensor) {
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range []model.Use{model.Linear, model.Embedding} {
		_, err := d.Load(model.Matrix{Use: use, Rows: []weights.Tensor{cut}})
		if !errors.Is(err, weights.ErrLost) || !strings.Contains(err.Error(), `"the.cut.one"`) {
			t.Errorf("use %d: %v", use, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestCutWhileServing: a step that needs a row of the embedding that was cut off fails, also if
// the row still reads, as zeros. Other steps go on, and so does this one once the file
// is whole again.
func TestCutWhileServing(t *testing.T) {
	for threads := 1; threads <= 2; threads++ {
		for _, dtype := range []weights.DType{weights.F32, weights.F16, weights.BF16} {
			t.Run(fmt.Sprintf("%s_%d_threads", dtype, threads), func(t *testing.T) { serveCut(t, dtype, threads) })
		}
	}
}

func serveCut(t *testing.T, dtype weights.DType, threads int) {
	n := newNet(newRand(3), dtype, 32)
	n.vocab = 5000 // rows of 100 or 200 bytes
	n.embed = tensor(newRand(4), dtype, 1, n.vocab, n.dim)
	n.head = tensor(newRand(5), dtype, 0.4, n.vocab, n.dim)
	whole := n.embed.Data
	var path string
	var at int
	n.embed, path, at = mapped(t, n.embed)
	r := newRunner(t, n, Config{Threads: threads, KVType: F32}, testSpec)

	f := newFeeder(newRand(6), testSpec)
	draws := &backend.Draws{Rows: []backend.Draw{{Mask: -1, Allow: -1, Target: -1}}}
	step := func(token int) error {
		f.reset()
		tokens := make([]int32, 40)
		tokens[33] = int32(token)
		f.add(&sequence{tokens: tokens}, len(tokens), false)
		out := &backend.Out{Tokens: make([]int32, 1), Logprobs: make([]float32, 1), Ranks: make([]int32, 1)}
		return r.step(&f.batch, draws, out)
	}
	const first = 2000 // the first row that is cut, in its middle and within a page
	rowBytes := n.dim * dtype.Size()
	for range 2 {
		if err := step(first + 1); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(at+first*rowBytes+rowBytes/2)); err != nil {
			t.Fatal(err)
		}
		if err := step(first - 1); err != nil {
			t.Error(err)
		}
		for _, token := range []int{first, first + 1, n.vocab - 1} {
			if err := step(token); !errors.Is(err, backend.ErrModelLost) || !errors.Is(err, weights.ErrLost) || !strings.Contains(err.Error(), path) {
				t.Errorf("token %d: %v", token, err)
			}
		}
		overwrite(t, path, whole, int64(at))
	}
}

// overwrite writes into a file, without cutting it.
func overwrite(t *testing.T, path string, data []byte, at int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(data, at)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestFaultInKernels: no kernel reads a mapped file today, because Load packs all matrices. If one
// did, a fault in its assembly could be caught as well, in every tier and format.
func TestFaultInKernels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiles")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tiles, err := unix.Mmap(int(file.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(tiles)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	const k = 256
	caught := func(t *testing.T, name string, multiply func()) {
		defer func(before bool) {
			debug.SetPanicOnFault(before)
			if fault, ok := recover().(interface{ Addr() uintptr }); !ok || fault.Addr() == 0 {
				t.Errorf("%s did not fault", name)
			}
		}(debug.SetPanicOnFault(true))
		multiply()
	}
	eachImpl(t, func(t *testing.T, im *impl) {
		for f, kernels := range im.mul {
			for m := 1; m < len(kernels); m++ {
				caught(t, fmt.Sprintf("product of %d rows with %s", m, Format(f)), func() {
					kernels[m](tiles, []int{0}, []int{0}, k, make([]float32, m*k), k, make([]float32, m*rowsPerTile), rowsPerTile, nil)
				})
			}
		}
		for f, kernels := range im.dot {
			for m := 1; m < len(kernels); m++ {
				f := Format(f)
				n := f.steps(k)
				size := f.rowSteps(n)
				caught(t, fmt.Sprintf("product of %d rounded rows with %s", m, f), func() {
					kernels[m](tiles, []int{0}, []int{0}, n, make([]byte, m*size), size, make([]float32, m*rowsPerTile), rowsPerTile, nil)
				})
			}
		}
	})
}
