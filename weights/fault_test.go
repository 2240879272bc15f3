//go:build unix

package weights

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// cuttable is a checkpoint of one tensor of so many bytes, none of which is zero, and its file.
func cuttable(t *testing.T, size int) (c *Checkpoint, x Tensor, path string) {
	t.Helper()
	content := file(fmt.Sprintf(`{"some.weight":{"dtype":"U8","shape":[%d],"data_offsets":[0,%[1]d]}}`, size), size)
	for i := len(content) - size; i < len(content); i++ {
		content[i] = 1
	}
	dir := writeDir(t, map[string][]byte{singleFile: content})
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	x, _ = c.Tensor("some.weight")
	return c, x, filepath.Join(dir, singleFile)
}

// TestFault: bytes that were cut off are an error for whoever reads them, with Go's code or
// with the runtime's assembly, and the setting of the goroutine is as before.
func TestFault(t *testing.T) {
	c, x, path := cuttable(t, 1<<20)
	if err := errors.Join(x.File.Check(), c.Check()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<12); err != nil {
		t.Fatal(err)
	}
	other := make([]byte, len(x.Data))
	copy(other, x.Data[:100])
	for i := range other {
		other[i] = max(other[i], 1)
	}
	for name, read := range map[string]func(){
		"sum": func() {
			sum := 0
			for _, b := range x.Data {
				sum += int(b)
			}
			other[0] += byte(sum)
		},
		"copy":  func() { copy(make([]byte, len(x.Data)), x.Data[1<<19:]) },
		"equal": func() { other[0] += byte(len(bytes.TrimLeft(x.Data[1<<19:], "\x01"))) },
		"same":  func() { _ = bytes.Equal(other[1<<19:], x.Data[1<<19:]) || len(other) > 0 },
		"check": func() { NotFinite(F32, x.Data[1<<19:1<<20-64]) },
	} {
		for way, guarded := range map[string]func() error{
			"tensors": func() (err error) {
				defer CatchFault(debug.SetPanicOnFault(true), []Tensor{{Name: "another"}, x}, &err)
				read()
				return nil
			},
			"scales": func() (err error) {
				defer CatchFault(debug.SetPanicOnFault(true), []Tensor{{Name: "packed", Packed: &Packed{Scales: x}}}, &err)
				read()
				return nil
			},
			"checkpoint": func() (err error) {
				defer c.CatchFault(debug.SetPanicOnFault(true), &err)
				read()
				return nil
			},
		} {
			err := guarded()
			if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "4096 bytes") || !strings.Contains(err.Error(), `"some.weight"`) {
				t.Errorf("%s, %s: %v", name, way, err)
			}
			if debug.SetPanicOnFault(false) {
				t.Errorf("%s, %s: the goroutine's setting is not as before", name, way)
			}
		}
	}
	if err := x.File.Check(); !errors.Is(err, ErrLost) {
		t.Errorf("the cut file: %v", err)
	}
	if err := c.Check(); !errors.Is(err, ErrLost) {
		t.Errorf("the cut checkpoint: %v", err)
	}
}

// TestCutWithinAPage: the rest of a file's last page reads as zeros, and Check tells.
func TestCutWithinAPage(t *testing.T) {
	_, x, path := cuttable(t, 1<<16)
	if err := os.Truncate(path, 1<<15+100); err != nil {
		t.Fatal(err)
	}
	var last byte
	read := func() (err error) {
		defer CatchFault(debug.SetPanicOnFault(true), []Tensor{x}, &err)
		last = x.Data[1<<15+200]
		return nil
	}
	if err := read(); err != nil || last != 0 {
		t.Errorf("%v, read %d", err, last)
	}
	if err := x.File.Check(); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(10, func() { (*File)(nil).Check() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCheckAllocatesNothing: steps may call it.
func TestCheckAllocatesNothing(t *testing.T) {
	_, x, _ := cuttable(t, 1<<10)
	if n := testing.AllocsPerRun(100, func() {
		if err := x.File.Check(); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestOtherPanics: what is not a fault in one of the tensors goes on.
func TestOtherPanics(t *testing.T) {
	_, x, path := cuttable(t, 1<<16)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	y := x
	y.Data = x.Data[:100]
	sum := byte(0)
	for name, f := range map[string]func(){
		"a panic":               func() { panic("mine") },
		"nil":                   func() { sum += *(*byte)(nil) },
		"out of range":          func() { sum += y.Data[len(y.Data)+int(sum)] },
		"a fault in other data": func() { sum += x.Data[1<<15] },
	} {
		err := func() (err error) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not go on", name)
				}
			}()
			defer CatchFault(debug.SetPanicOnFault(true), []Tensor{y}, &err)
			f()
			return nil
		}()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
