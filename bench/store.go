package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"weir/internal/jsontext"
)

// StoreConfig says what RunStore measures, and of which servers.
type StoreConfig struct {
	// Servers are command lines that begin with a program. Each is called as: program
	// serve --host 127.0.0.1 --port N and then its further arguments.
	Servers []string
	Clients []int         // numbers of clients that write feedback at the same time, each measured by itself
	Time    time.Duration // how long the clients write in each measurement
	Rounds  int           // how often each of these measurements is made; the servers take turns
	Callers int           // clients that write calls in batches at the same time, each round for the same time; 0: none
	Rows    int           // records of feedback that queries search; 0: no queries
	Calls   int           // calls that queries search; 0: no queries
	Queries int           // how often each query is asked
	Ingest  int64         // bytes of trajectories that are logged; 0: none
	Limit   time.Duration // longest time for a start, and for stopping
}

// DefaultStoreConfig measures mostly writes.
func DefaultStoreConfig() StoreConfig {
	return StoreConfig{Clients: []int{1, 16, 256}, Time: 3 * time.Second, Rounds: 3, Callers: 8, Rows: 100_000, Queries: 50, Ingest: 256 << 20, Limit: 2 * time.Minute}
}

// Validate returns an error if RunStore would refuse the configuration.
func (c *StoreConfig) Validate() error {
	if len(c.Servers) == 0 {
		return errors.New("bench: no server to start")
	}
	for _, s := range c.Servers {
		if len(strings.Fields(s)) == 0 {
			return errors.New("bench: a server without a program")
		}
	}
	for _, n := range c.Clients {
		if n < 1 || n > 10_000 {
			return fmt.Errorf("bench: %d clients", n)
		}
	}
	if c.Time <= 0 || c.Rounds < 1 || c.Callers < 0 || c.Callers > 10_000 || c.Rows < 0 || c.Calls < 0 || c.Queries < 1 || c.Ingest < 0 || c.Limit <= 0 {
		return fmt.Errorf("bench: %v of writing, %d rounds, %d rows, %d queries, %d bytes, a limit of %v", c.Time, c.Rounds, c.Rows, c.Queries, c.Ingest, c.Limit)
	}
	return nil
}

// StoreReport is what RunStore measured.
type StoreReport struct {
	Writes      []Writes      `json:"writes"`
	CallWrites  []CallWrites  `json:"call_writes"`
	Queries     []Queries     `json:"queries"`
	CallQueries []CallQueries `json:"call_queries"`
	Ingests     []Ingest      `json:"ingests"`
}

// Writes is one measurement of writing feedback. Latencies are in milliseconds.
type Writes struct {
	Server    string  `json:"server"`
	Clients   int     `json:"clients"`
	Round     int     `json:"round"`
	Count     int     `json:"count"` // acknowledged
	PerSecond float64 `json:"per_s"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Fsync     float64 `json:"fsync_ms"`        // median time of appending 1 KiB to a file on the same disk and syncing it, measured just before
	ServerCPU float64 `json:"server_cpu"`      // processors used by the server
	OwnCPU    float64 `json:"load_cpu"`        // processors used by the clients
	Failed    int     `json:"failed"`          // requests
	Error     string  `json:"error,omitempty"` // of the first request that failed
}

// Queries is how long queries over feedback took.
type Queries struct {
	Server string  `json:"server"`
	Rows   int     `json:"rows"`
	Filled float64 `json:"fill_s"` // seconds to write the rows, in batches
	List   []Asked `json:"queries"`

	half time.Time // when half of the rows had been written
}

// Asked is how long one query took, over all times that it was asked.
type Asked struct {
	Name  string  `json:"name"`
	Count int     `json:"total_count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Error string  `json:"error,omitempty"`
}

// Ingest is one upload of trajectories. Memory is the server's resident memory.
type Ingest struct {
	Server      string  `json:"server"`
	Bytes       int64   `json:"bytes"`
	PerSecond   float64 `json:"mb_per_s"`
	StartMemory int64   `json:"rss_before_bytes"`
	PeakMemory  int64   `json:"rss_peak_bytes"`
	Error       string  `json:"error,omitempty"`
}

// RunStore measures how fast servers store. Every measurement starts a server on an empty
// folder. When ctx ends, the report has what was measured until then.
func RunStore(ctx context.Context, cfg StoreConfig) (*StoreReport, error) {
	r := &StoreReport{}
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	for round := range cfg.Rounds {
		for _, clients := range cfg.Clients {
			for _, server := range cfg.Servers {
				if err := r.measureWrites(ctx, &cfg, Writes{Server: server, Clients: clients, Round: round}); err != nil {
					return r, err
				}
			}
		}
		for _, server := range cfg.Servers {
			if err := r.measureCallWrites(ctx, &cfg, CallWrites{Writes: Writes{Server: server, Clients: cfg.Callers, Round: round}, Batch: callBatch}); err != nil {
				return r, err
			}
		}
	}
	for _, server := range cfg.Servers {
		if err := r.measureCallQueries(ctx, &cfg, CallQueries{Queries{Server: server, Rows: cfg.Calls}}); err != nil {
			return r, err
		}
		if err := r.measureQueries(ctx, &cfg, Queries{Server: server, Rows: cfg.Rows}); err != nil {
			return r, err
		}
		if err := r.measureIngest(ctx, &cfg, Ingest{Server: server}); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *StoreReport) measureWrites(ctx context.Context, cfg *StoreConfig, w Writes) (err error) {
	if w.Fsync, err = syncTime(os.TempDir()); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := cfg.with(ctx, w.Server, func(ctx context.Context, c *Child) error { return w.run(ctx, c, cfg.Time) }); err != nil {
		return err
	}
	r.Writes = append(r.Writes, w)
	return nil
}

func (r *StoreReport) measureCallWrites(ctx context.Context, cfg *StoreConfig, w CallWrites) (err error) {
	if cfg.Callers == 0 {
		return nil
	}
	if w.Fsync, err = syncTime(os.TempDir()); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := cfg.with(ctx, w.Server, func(ctx context.Context, c *Child) error { return w.run(ctx, c, cfg.Time) }); err != nil {
		return err
	}
	r.CallWrites = append(r.CallWrites, w)
	return nil
}

func (r *StoreReport) measureCallQueries(ctx context.Context, cfg *StoreConfig, q CallQueries) error {
	if cfg.Calls == 0 {
		return nil
	}
	if err := cfg.with(ctx, q.Server, func(ctx context.Context, c *Child) error { return q.run(ctx, c, cfg.Queries) }); err != nil {
		return err
	}
	r.CallQueries = append(r.CallQueries, q)
	return nil
}

func (r *StoreReport) measureQueries(ctx context.Context, cfg *StoreConfig, q Queries) error {
	if cfg.Rows == 0 {
		return nil
	}
	if err := cfg.with(ctx, q.Server, func(ctx context.Context, c *Child) error { return q.run(ctx, c, cfg.Queries) }); err != nil {
		return err
	}
	r.Queries = append(r.Queries, q)
	return nil
}

func (r *StoreReport) measureIngest(ctx context.Context, cfg *StoreConfig, in Ingest) error {
	if cfg.Ingest == 0 {
		return nil
	}
	if err := cfg.with(ctx, in.Server, func(ctx context.Context, c *Child) error { return in.run(ctx, c, cfg.Ingest) }); err != nil {
		return err
	}
	r.Ingests = append(r.Ingests, in)
	return nil
}

// with starts a server, calls f with it, and stops it.
func (c *StoreConfig) with(ctx context.Context, server string, f func(context.Context, *Child) error) (err error) {
	words := strings.Fields(server)
	child, err := Launch(ctx, words[0], words[1:], c.Limit)
	if err != nil {
		return fmt.Errorf("%s: %w", server, err)
	}
	defer func() { err = errors.Join(err, child.Stop(ctx)) }()
	alive, forget := child.alive(ctx)
	defer forget()
	if err := f(alive, child); err != nil {
		return fmt.Errorf("bench: %s: %w", server, errors.Join(context.Cause(alive), err))
	}
	return nil
}

// WriteText writes the report as tables for people.
func (r *StoreReport) WriteText(w io.Writer) error {
	t := &table{w: w}
	if len(r.Writes) > 0 {
		t.printf("%7s %-40s %9s %9s %9s %9s %7s %7s %7s\n", "clients", "feedback, acknowledged writes", "per s", "p50 ms", "p99 ms", "fsync ms", "share", "CPU", "load")
	}
	for _, x := range r.Writes {
		t.printf("%7d %-40s %9.0f %9.3f %9.3f %9.3f %6.0f%% %7.2f %7.2f\n", x.Clients, x.Server, x.PerSecond, x.P50, x.P99, x.Fsync, 100*x.Fsync/max(x.P50, 1e-9), x.ServerCPU, x.OwnCPU)
		if x.Failed > 0 {
			t.printf("%7s %d failed: %s\n", "", x.Failed, x.Error)
		}
	}
	if len(r.CallWrites) > 0 {
		t.printf("%7s %-40s %9s %9s %9s %9s %9s %7s %7s\n", "clients", "calls, acknowledged in batches", "calls/s", "batches/s", "p50 ms", "p99 ms", "fsync ms", "CPU", "load")
	}
	for _, x := range r.CallWrites {
		t.printf("%7d %-40s %9.0f %9.0f %9.3f %9.3f %9.3f %7.2f %7.2f\n", x.Clients, x.Server, x.Calls, x.PerSecond, x.P50, x.P99, x.Fsync, x.ServerCPU, x.OwnCPU)
		if x.Failed > 0 {
			t.printf("%7s %d failed: %s\n", "", x.Failed, x.Error)
		}
	}
	queries := slices.Clone(r.Queries)
	for _, x := range r.CallQueries {
		queries = append(queries, x.Queries)
	}
	for _, x := range queries {
		t.printf("\n%s: %d records in %.1f s\n%-48s %9s %9s %9s\n", x.Server, x.Rows, x.Filled, "query", "matches", "p50 ms", "p99 ms")
		for _, q := range x.List {
			t.printf("%-48s %9d %9.2f %9.2f %s\n", q.Name, q.Count, q.P50, q.P99, q.Error)
		}
	}
	for _, x := range r.Ingests {
		t.printf("\n%s: %d MB of trajectories", x.Server, x.Bytes/1e6)
		if x.Error != "" {
			t.printf(": %s\n", x.Error)
			continue
		}
		t.printf(", %.0f MB/s, resident memory %.0f MiB before, %.0f MiB at most\n", x.PerSecond, float64(x.StartMemory)/(1<<20), float64(x.PeakMemory)/(1<<20))
	}
	return t.err
}

// WriteBenchmark writes the report as lines of Go benchmarks, which benchstat reads.
func (r *StoreReport) WriteBenchmark(w io.Writer) error {
	t := &table{w: w}
	name := func(server string) string { return strings.Join(strings.Fields(server), "_") }
	for _, x := range r.Writes {
		t.printf("BenchmarkStore/write/server=%s/clients=%d %d %.1f writes/s %.0f p50-ns %.0f p99-ns %.0f fsync-ns\n",
			name(x.Server), x.Clients, x.Count, x.PerSecond, x.P50*1e6, x.P99*1e6, x.Fsync*1e6)
	}
	for _, x := range r.CallWrites {
		t.printf("BenchmarkStore/calls/server=%s/clients=%d/batch=%d %d %.1f calls/s %.0f p50-ns %.0f p99-ns %.0f fsync-ns\n",
			name(x.Server), x.Clients, x.Batch, x.Count, x.Calls, x.P50*1e6, x.P99*1e6, x.Fsync*1e6)
	}
	queries := slices.Clone(r.Queries)
	for _, x := range r.CallQueries {
		queries = append(queries, x.Queries)
	}
	for _, x := range queries {
		for _, q := range x.List {
			if q.Error == "" {
				t.printf("BenchmarkStore/query/server=%s/rows=%d/%s 1 %.0f p50-ns %.0f p99-ns\n", name(x.Server), x.Rows, strings.ReplaceAll(q.Name, " ", "_"), q.P50*1e6, q.P99*1e6)
			}
		}
	}
	for _, x := range r.Ingests {
		if x.Error == "" {
			t.printf("BenchmarkStore/ingest/server=%s 1 %.1f MB/s %d peak-rss-B\n", name(x.Server), x.PerSecond, x.PeakMemory)
		}
	}
	return t.err
}

// WriteJSON writes the raw numbers.
func (r *StoreReport) WriteJSON(w io.Writer) error {
	text, err := jsontext.EncodeIndent(r, "  ")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
