package compute

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"weir/device/cpu/limits"
	"weir/internal/testkit"
)

// report is made up, of a machine that reads 10 GB/s with one thread and 20 with two.
func report() *Report {
	ms := func(list ...float64) (d []time.Duration) {
		for _, v := range list {
			d = append(d, time.Duration(v*1e6))
		}
		return d
	}
	return &Report{
		Date: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Version: "v1", Model: "a model (random weights)", Weights: "q8", KV: "bfloat16", Device: "CPU, avx512, 2 threads", Processor: "Some CPU",
		Limits: Limits{
			ReadForm: "VMOVDQU64 zmm", FMAForm: "VFMADD231PS zmm", Int8Form: "VPDPBUSD zmm",
			Read: [2]limits.Rates{{10e9, 9e9}, {20e9, 18e9}}, FMA: [2]limits.Rates{{100e9}, {200e9}}, Int8: [2]limits.Rates{{400e9}, {800e9}},
		},
		Threads: 2, Quantized: true, WeightBytes: 1 << 30, KVBytesPerToken: 32 << 10,
		Config: Config{Garbage: 1 << 20},
		Rows: []Row{
			// 300 MB in 20 ms: 15 GB/s, three quarters of 20.
			{Case: Case{Decode, 2, 128}, Rates: []float64{100, 98, 104}, Bytes: []float64{15e9, 14.7e9, 15.6e9}, Reads: []float64{20e9, 20e9, 19e9, 20.2e9}, Steps: ms(20, 21, 19, 20),
				Cost:  Cost{WeightBytes: 4 * 200e6, KVBytes: 4 * 100e6, Products: 4 * 1e9, Attention: 4 * 2e8},
				Spent: Spent{30 * time.Millisecond, 20 * time.Millisecond, 4 * time.Millisecond, 10 * time.Millisecond, 8 * time.Millisecond},
				Heap:  Heap{Allocs: 8, Bytes: 400, Cycles: 3, Paused: 200 * time.Microsecond}},
			// 400 GOP/s in products: half of 800.
			{Case: Case{Prefill, 1, 512}, Rates: []float64{5000}, Bytes: []float64{2.16e9}, Reads: []float64{18e9, 20e9}, Steps: ms(100),
				Cost:  Cost{WeightBytes: 200e6, KVBytes: 12e6, StateBytes: 4e6, Products: 32e9, Attention: 3e9, Recurrence: 1e9, Mixtures: 4, Experts: 50},
				Spent: Spent{70 * time.Millisecond, 12 * time.Millisecond, time.Millisecond, 10 * time.Millisecond, 5 * time.Millisecond}},
		},
		Skipped: []Skipped{{Case{Decode, 64, 4096}, "needs 8192 MiB of keys and values, there is room for 4096"}},
	}
}

func TestFormats(t *testing.T) {
	bare := report() // has no limits and no quantization
	bare.Limits, bare.Quantized, bare.Rows, bare.Skipped = Limits{}, false, bare.Rows[:1], nil
	bare.Rows[0].Reads = nil
	for name, write := range map[string]func(io.Writer) error{
		"report.txt": report().WriteText, "report.json": report().WriteJSON, "report.bench": report().WriteBenchmark,
		"bare.txt": bare.WriteText, "bare.json": bare.WriteJSON,
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Error(err)
		}
		testkit.Golden(t, "testdata/"+name, b.Bytes())
	}
}

// TestShares checks the arithmetic of shares, which the golden files show rounded.
func TestShares(t *testing.T) {
	r := report()
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want*0.9999 || got > want*1.0001 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	s := r.Shares(&r.Rows[0])
	near("share of reading", s.Read, 0.75384) // of 15/20, 14.7/19.5 and 15.6/19.6
	near("share of the floor", s.Floor, 0.75) // reading takes longer than 1.25 + 1 ms
	near("share of the peak", s.Products, 4e9/0.040/800e9)
	s = r.Shares(&r.Rows[1])
	near("share of the peak", s.Products, 0.5)
	near("share of the floor", s.Floor, 0.4+0.2) // 40 ms of int8, 20 ms of float32
	r.Quantized = false
	near("share of the float32 peak", r.Shares(&r.Rows[1]).Products, 2)
	if median, least, largest := r.Rows[0].TokensPerSecond(); median != 100 || least != 98 || largest != 104 {
		t.Error(median, least, largest)
	}
	if p := r.Rows[0].Step(0.99); p != 20970*time.Microsecond {
		t.Error(p)
	}
}

// full is a writer that always fails.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("full")

func TestWriteErrors(t *testing.T) {
	for _, write := range []func(io.Writer) error{report().WriteText, report().WriteJSON, report().WriteBenchmark} {
		if err := write(full{}); !errors.Is(err, errFull) {
			t.Error(err)
		}
	}
}
