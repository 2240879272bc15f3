package cpu

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"weir/model"
	"weir/weights"
)

// hugeKiB is how much of the mapping that b lies in is in huge pages.
func hugeKiB(t *testing.T, b []byte) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	at, inside := uint64(uintptr(unsafe.Pointer(&b[0]))), false
	for line := range bytes.Lines(maps) {
		f := bytes.Fields(line)
		if from, to, ok := bytes.Cut(f[0], []byte("-")); ok {
			lo, _ := strconv.ParseUint(string(from), 16, 64)
			hi, _ := strconv.ParseUint(string(to), 16, 64)
			inside = lo <= at && at < hi
		}
		if inside && string(f[0]) == "AnonHugePages:" {
			n, _ := strconv.Atoi(string(f[1]))
			return n
		}
	}
	return 0
}

// TestWeightsOutsideHeap: packed weights are outside of the Go heap, and in huge
// pages if the system has some.
func TestWeightsOutsideHeap(t *testing.T) {
	const n, k = 4096, 4096 // 64 MiB
	src := weights.Tensor{Name: "w", DType: weights.F32, Shape: []int{n, k}, Data: make([]byte, n*k*4)}
	d, err := Open(Config{Threads: 2, KVType: BF16, HugePages: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if _, err := d.Load(model.Matrix{Rows: []weights.Tensor{src}}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("loading 64 MiB allocated %d bytes on the heap", grown)
	}
	mode, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	got := hugeKiB(t, d.params[0].linear.parts[0].data)
	t.Logf("%d KiB of 65536 in huge pages; the system's mode: %s", got, bytes.TrimSpace(mode))
	if len(mode) > 0 && !bytes.Contains(mode, []byte("[never]")) && got == 0 {
		t.Error("the weights are not in huge pages")
	}
}

// TestCollapse: memory that was touched in small pages moves into large ones and
// keeps its bytes; ranges without a whole page stay as they are.
func TestCollapse(t *testing.T) {
	s, err := mapSegment(8<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer unmapSegment(s)
	for i := range s.data {
		s.data[i] = byte(i * 7)
	}
	before := hugeKiB(t, s.data)
	collapse(s.data)
	t.Logf("%d KiB in huge pages before, %d after", before, hugeKiB(t, s.data))
	for i, v := range s.data {
		if v != byte(i*7) {
			t.Fatalf("byte %d has changed", i)
		}
	}
	collapse(nil)
	collapse(s.data[1:2])
	collapse(s.data[100 : 4<<20])
}

// TestInterleave: node 0 exists on every machine.
func TestInterleave(t *testing.T) {
	s, err := mapSegment(4<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer unmapSegment(s)
	if err := interleave(s.data[100:], []int{0}); err != nil {
		t.Skipf("not allowed here: %v", err) // as in some containers
	}
	if err := interleave(s.data[:10], []int{0}); err != nil {
		t.Error(err)
	}
	if err := interleave(s.data, []int{maxNodes - 1}); err == nil {
		t.Error("memory lies on node 1023")
	}
	s.data[0], s.data[len(s.data)-1] = 1, 1
}

func TestPages(t *testing.T) {
	size := os.Getpagesize()
	s, err := mapSegment(4*size, false)
	if err != nil {
		t.Fatal(err)
	}
	defer unmapSegment(s)
	for _, c := range []struct{ from, to, wantFrom, wantTo int }{
		{0, 4 * size, 0, 4 * size}, {1, 4 * size, size, 4 * size}, {0, 4*size - 1, 0, 3 * size},
		{1, 2*size - 1, size, size}, {5, 9, 9, 9}, {size, size, size, size},
	} {
		got := pages(s.data[c.from:c.to])
		if len(got) != c.wantTo-c.wantFrom || len(got) > 0 && &got[0] != &s.data[c.wantFrom] {
			t.Errorf("pages of [%d, %d): %d bytes", c.from, c.to, len(got))
		}
	}
}
