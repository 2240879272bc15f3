package compute

import (
	"fmt"
	"io"
	"strings"
	"time"

	"weir/device/cpu/limits"
	"weir/internal/jsontext"
)

const (
	giga = 1e9
	mega = 1e6
	gib  = 1 << 30
	kib  = 1 << 10
)

// printer writes a text in many steps and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.printf("%s: weights %s, %.2f GiB; keys and values %s, %.1f KiB per token\n", r.Model, r.Weights, r.WeightBytes/gib, r.KV, r.KVBytesPerToken/kib)
	p.printf("%s; %s; weir %s; %s\n", r.Device, r.Processor, r.Version, r.Date.UTC().Format("2006-01-02 15:04 UTC"))
	if len(r.Limits.Read[0]) > 0 {
		p.printf("\n%-28s %10s %10s\n", "limits of this machine", threads(1), threads(r.Threads))
		for _, l := range []struct {
			name, form string
			rates      [2]limits.Rates
		}{{"memory read, GB/s", r.Limits.ReadForm, r.Limits.Read}, {"float32, GFLOP/s", r.Limits.FMAForm, r.Limits.FMA}, {"int8, GOP/s", r.Limits.Int8Form, r.Limits.Int8}} {
			p.printf("%-28s %10.1f %10.1f  %s\n", l.name, l.rates[0].Best()/giga, l.rates[1].Best()/giga, l.form)
		}
	}
	peak := "float32"
	if r.Quantized {
		peak = "int8"
	}
	p.printf("\n%-39s%-26s%-47s%-27s%6s  %-34s%s\n", "", "step, ms", "moved per step, MB", "products", "of the", "of the time, %", "per step")
	p.printf("%-8s%6s%8s%10s%-17s%8s%8s%8s%8s%8s%8s%8s%7s%10s%8s%9s%8s  %5s%6s%6s%6s%6s%10s%9s%5s\n", "phase", "batch", "context", "tok/s", " (range)",
		"p50", "p99", "experts", "weights", "KV", "states", "GB/s", "share", "GOP", "GOP/s", peak, "floor", "prod", "attn", "cache", "draw", "rest", "allocs", "bytes", "GC")
	for i := range r.Rows {
		r.writeRow(p, &r.Rows[i])
	}
	for _, s := range r.Skipped {
		p.printf("%-8s%6d%8d  left out: %s\n", s.Phase, s.Batch, s.Context, s.Why)
	}
	return p.err
}

func threads(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

func (r *Report) writeRow(p *printer, row *Row) {
	median, least, largest := row.TokensPerSecond()
	total, n, cost, share := row.seconds(), float64(len(row.Steps)), row.PerStep(), r.Shares(row)
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / total }
	p.printf("%-8s%6d%8d%10.2f%-17s%8.2f%8.2f%8s%8.1f%8.1f%8.1f%8.1f%6.0f%%%10.2f%8.0f%8.0f%%%7.0f%%", row.Phase, row.Batch, row.Context, median, fmt.Sprintf(" (%.2f–%.2f)", least, largest),
		ms(row.Step(0.5)), ms(row.Step(0.99)), expertsOf(cost), cost.WeightBytes/mega, cost.KVBytes/mega, cost.StateBytes/mega, row.Cost.Bytes()/total/giga, 100*share.Read,
		cost.Products/giga, row.Cost.Products/giga/(row.Spent.Products+row.Spent.Draw).Seconds(), 100*share.Products, 100*share.Floor)
	p.printf("  %5.1f%6.1f%6.1f%6.1f%6.1f%10.1f%9.0f%5d\n", percent(row.Spent.Products), percent(row.Spent.Attention), percent(row.Spent.Cache), percent(row.Spent.Draw),
		100-percent(row.Spent.Total()-row.Spent.Other), float64(row.Heap.Allocs)/n, float64(row.Heap.Bytes)/n, row.Heap.Cycles)
}

// expertsOf is how many experts of a mixture a step reads, or nothing for a network without mixtures.
func expertsOf(c Cost) string {
	if c.Mixtures == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", c.ExpertsPerMixture())
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// WriteBenchmark writes a line for each repetition, as a Go benchmark that benchstat reads.
func (r *Report) WriteBenchmark(w io.Writer) error {
	p := &printer{w: w}
	name := strings.NewReplacer(" ", "_", "/", "_").Replace(r.Model)
	for _, row := range r.Rows {
		tokens := float64(row.Batch)
		if row.Phase == Prefill {
			tokens = float64(row.Context)
		}
		for _, rate := range row.Rates {
			p.printf("BenchmarkEngine/model=%s/weights=%s/kv=%s/threads=%d/%s/batch=%d/context=%d 1 %.0f ns/op %.2f tok/s\n",
				name, strings.ReplaceAll(r.Weights, " ", "_"), r.KV, r.Threads, row.Phase, row.Batch, row.Context, tokens/rate*giga, rate)
		}
	}
	return p.err
}

type limitJSON struct {
	Form string    `json:"instruction"`
	One  []float64 `json:"one_thread"`
	All  []float64 `json:"all_threads"`
}

type rowJSON struct {
	Phase           Phase     `json:"phase"`
	Batch           int       `json:"batch"`
	Context         int       `json:"context"`
	Median          float64   `json:"tokens_per_second"`
	Rates           []float64 `json:"tokens_per_second_of_repetitions"`
	P50             float64   `json:"step_ms_p50"`
	P99             float64   `json:"step_ms_p99"`
	Steps           int       `json:"steps"`
	Reads           []float64 `json:"read_limit_between_repetitions"`
	WeightBytes     float64   `json:"weight_bytes_per_step"`
	KVBytes         float64   `json:"kv_bytes_per_step"`
	StateBytes      float64   `json:"state_bytes_per_step"`
	Experts         float64   `json:"experts_per_mixture_and_step"`
	Products        float64   `json:"product_operations_per_step"`
	Attention       float64   `json:"attention_operations_per_step"`
	Recurrence      float64   `json:"recurrence_operations_per_step"`
	ReadShare       float64   `json:"share_of_read_limit"`
	ProductsShare   float64   `json:"share_of_peak_in_products"`
	FloorShare      float64   `json:"share_of_step_that_the_limits_allow"`
	TimeProducts    float64   `json:"seconds_in_products"`
	TimeAttention   float64   `json:"seconds_in_attention"`
	TimeCache       float64   `json:"seconds_in_cache"`
	TimeDraw        float64   `json:"seconds_in_head_and_draws"`
	TimeOther       float64   `json:"seconds_in_other_operations"`
	Time            float64   `json:"seconds"`
	AllocsPerStep   float64   `json:"allocations_per_step"`
	BytesPerStep    float64   `json:"allocated_bytes_per_step"`
	Collections     uint32    `json:"collections"`
	CollectionPause float64   `json:"collection_pause_ms"`
}

type skippedJSON struct {
	Phase   Phase  `json:"phase"`
	Batch   int    `json:"batch"`
	Context int    `json:"context"`
	Why     string `json:"why"`
}

// WriteJSON writes the report for programs. Limits are in bytes and in operations per
// second.
func (r *Report) WriteJSON(w io.Writer) error {
	out := struct {
		Date            time.Time            `json:"date"`
		Version         string               `json:"version"`
		Model           string               `json:"model"`
		Weights         string               `json:"weights"`
		KV              string               `json:"kv_cache_dtype"`
		Device          string               `json:"device"`
		Processor       string               `json:"processor"`
		Threads         int                  `json:"threads"`
		WeightBytes     float64              `json:"weight_bytes"`
		KVBytesPerToken float64              `json:"kv_bytes_per_token"`
		Garbage         int                  `json:"garbage_bytes_per_second"`
		Limits          map[string]limitJSON `json:"limits,omitempty"`
		Rows            []rowJSON            `json:"rows"`
		Skipped         []skippedJSON        `json:"skipped"`
	}{r.Date.UTC(), r.Version, r.Model, r.Weights, r.KV, r.Device, r.Processor, r.Threads, r.WeightBytes, r.KVBytesPerToken, r.Config.Garbage, nil, []rowJSON{}, []skippedJSON{}}
	if len(r.Limits.Read[0]) > 0 {
		out.Limits = map[string]limitJSON{
			"read":    {Form: r.Limits.ReadForm, One: r.Limits.Read[0], All: r.Limits.Read[1]},
			"float32": {Form: r.Limits.FMAForm, One: r.Limits.FMA[0], All: r.Limits.FMA[1]},
			"int8":    {Form: r.Limits.Int8Form, One: r.Limits.Int8[0], All: r.Limits.Int8[1]},
		}
	}
	for i := range r.Rows {
		out.Rows = append(out.Rows, r.rowJSON(&r.Rows[i]))
	}
	for _, s := range r.Skipped {
		out.Skipped = append(out.Skipped, skippedJSON{s.Phase, s.Batch, s.Context, s.Why})
	}
	text, err := jsontext.EncodeIndent(out, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

func (r *Report) rowJSON(row *Row) rowJSON {
	median, _, _ := row.TokensPerSecond()
	cost, share, n := row.PerStep(), r.Shares(row), float64(len(row.Steps))
	return rowJSON{
		Phase: row.Phase, Batch: row.Batch, Context: row.Context, Median: median, Rates: row.Rates,
		P50: ms(row.Step(0.5)), P99: ms(row.Step(0.99)), Steps: len(row.Steps), Reads: row.Reads,
		WeightBytes: cost.WeightBytes, KVBytes: cost.KVBytes, StateBytes: cost.StateBytes, Experts: cost.ExpertsPerMixture(),
		Products: cost.Products, Attention: cost.Attention, Recurrence: cost.Recurrence,
		ReadShare: share.Read, ProductsShare: share.Products, FloorShare: share.Floor,
		TimeProducts: row.Spent.Products.Seconds(), TimeAttention: row.Spent.Attention.Seconds(), TimeCache: row.Spent.Cache.Seconds(),
		TimeDraw: row.Spent.Draw.Seconds(), TimeOther: row.Spent.Other.Seconds(), Time: row.seconds(),
		AllocsPerStep: float64(row.Heap.Allocs) / n, BytesPerStep: float64(row.Heap.Bytes) / n,
		Collections: row.Heap.Cycles, CollectionPause: ms(row.Heap.Paused),
	}
}
