package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

const benchProject = "bench/store"

// syncTime is the median time, in milliseconds, of appending 1 KiB to a file in dir and
// syncing the file.
func syncTime(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "weir-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	var times []float64
	block := make([]byte, 1<<10)
	for begin := time.Now(); len(times) < 50 || time.Since(begin) < 200*time.Millisecond; {
		at := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times = append(times, ms(time.Since(at)))
	}
	return newSamples(times).Percentile(50), nil
}

// randomUUID is the text of a random UUID (version 4).
func randomUUID(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.Uint32()&0xffff, r.Uint32()&0xfff, r.Uint32()&0xfff, r.Uint64()&(1<<48-1))
}

// appendItem appends a request that replaces the record of an id. Every record is written
// twice, as by an annotation form that saves while a person types.
func appendItem(dst []byte, id, ref string, n int) []byte {
	return fmt.Appendf(dst, `{"project_id":"`+benchProject+`","trace_ref":"weave:///`+benchProject+`/call/%s","feedback_type":"wandb.note.1",`+
		`"payload":{"note":"The answer was right, but it took its time to say so. (%d)"},"creator":"visitor %d","feedback_id":%q,"id":%q}`, ref, n, n%100, id, id)
}

// writers are the clients of one measurement, and what they have measured.
type writers struct {
	begin, end time.Time // requests that begin between them are counted

	mu     sync.Mutex
	times  []float64 // of counted requests, in milliseconds
	failed int
	first  error // of the requests that failed
}

// run writes with x.Clients clients for a time. Before that they write for a tenth of it,
// which is not counted.
func (x *Writes) run(ctx context.Context, child *Child, during time.Duration) error {
	return x.measure(ctx, child, during, func(client int) func() (string, []byte) {
		random := rand.New(rand.NewPCG(uint64(x.Round), uint64(client)))
		var body []byte
		var id, ref string
		n := 0
		return func() (string, []byte) {
			if n%2 == 0 {
				id, ref = randomUUID(random), randomUUID(random)
			}
			body = appendItem(body[:0], id, ref, n)
			n++
			return "/feedback/replace", body
		}
	})
}

// measure writes with x.Clients clients for a time. requests returns what makes the requests
// of a client, one after another: a path and a body, which is valid until the next one.
func (x *Writes) measure(ctx context.Context, child *Child, during time.Duration, requests func(client int) func() (string, []byte)) error {
	if err := openStore(ctx, child); err != nil {
		return err
	}
	w := &writers{begin: time.Now().Add(during / 10)}
	w.end = w.begin.Add(during)
	var running sync.WaitGroup
	for i := range x.Clients {
		c, err := dial(ctx, child.URL)
		if err != nil {
			return err
		}
		defer c.close()
		running.Go(func() { w.write(ctx, c, requests(i)) })
	}
	time.Sleep(time.Until(w.begin))
	pid := child.cmd.Process.Pid
	own, _ := cpuTime()
	server, _ := processTime(pid)
	at := time.Now()
	running.Wait()
	wall := time.Since(at).Seconds()
	ownAfter, _ := cpuTime()
	serverAfter, _ := processTime(pid)
	x.OwnCPU, x.ServerCPU = (ownAfter-own).Seconds()/wall, (serverAfter-server).Seconds()/wall
	if x.Failed = w.failed; w.first != nil {
		x.Error = w.first.Error()
	}
	s := newSamples(w.times)
	x.Count, x.PerSecond, x.P50, x.P99 = len(s), float64(len(s))/wall, s.Percentile(50), s.Percentile(99)
	if len(s) == 0 && w.first != nil {
		return w.first
	}
	return ctx.Err()
}

// openStore writes one record, because a server may open its store on the first write.
func openStore(ctx context.Context, child *Child) error {
	c, err := dial(ctx, child.URL)
	if err != nil {
		return err
	}
	defer c.close()
	id := randomUUID(rand.New(rand.NewPCG(1, 1)))
	_, err = c.post("/feedback/replace", appendItem(nil, id, id, 0))
	return err
}

// write is what one client does until the end of the measurement.
func (w *writers) write(ctx context.Context, c *connection, next func() (path string, body []byte)) {
	var times []float64
	for ctx.Err() == nil {
		path, body := next()
		at := time.Now()
		if !at.Before(w.end) {
			break
		}
		_, err := c.post(path, body)
		switch {
		case err != nil:
			w.fail(err)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the connection has ended
				return
			}
		case at.After(w.begin):
			times = append(times, ms(time.Since(at)))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times = append(w.times, times...)
}

func (w *writers) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed++; w.first == nil {
		w.first = err
	}
}
