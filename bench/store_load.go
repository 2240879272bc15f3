package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// wire is one kept-alive connection. It is net/http's client without its
// goroutines, which would take more of the machine than the servers do.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	host string
}

func dial(ctx context.Context, url string) (*wire, error) {
	host := strings.TrimPrefix(url, "http://")
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), host: host}, nil
}

func (w *wire) close() { _ = w.conn.Close() } // nothing is lost with it

// head makes the head of a POST.
func (w *wire) head(path string, length int) {
	w.out = append(w.out[:0], "POST "...)
	w.out = append(append(w.out, path...), " HTTP/1.1\r\nHost: "...)
	w.out = append(append(w.out, w.host...), "\r\nContent-Type: application/json\r\nContent-Length: "...)
	w.out = append(strconv.AppendInt(w.out, int64(length), 10), "\r\n\r\n"...)
}

// post sends a request and returns the body of the answer, which is a 200.
func (w *wire) post(path string, body []byte) ([]byte, error) {
	w.head(path, len(body))
	w.out = append(w.out, body...)
	if _, err := w.conn.Write(w.out); err != nil {
		return nil, err
	}
	return w.answer()
}

func (w *wire) answer() ([]byte, error) {
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text[:min(len(text), 200)])
	}
	return text, err
}

// syncTime is the median time in milliseconds of appending 1 KiB to a file and
// syncing it.
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

const benchProject = "bench/store"

// randomUUID is a UUID of version 4, in text.
func randomUUID(r *rand.Rand) string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", r.Uint32(), r.Uint32()&0xffff, r.Uint32()&0xfff, r.Uint32()&0xfff, r.Uint64()&(1<<48-1))
}

// item appends what replaces the record of an id: as an annotation form that
// saves while somebody types does, every record is written twice.
func item(dst []byte, id, ref string, n int) []byte {
	return fmt.Appendf(dst, `{"project_id":"`+benchProject+`","trace_ref":"weave:///`+benchProject+`/call/%s","feedback_type":"wandb.note.1",`+
		`"payload":{"note":"The answer was right, but it took its time to say so. (%d)"},"creator":"visitor %d","feedback_id":%q,"id":%q}`, ref, n, n%100, id, id)
}

// run writes with as many clients as x.Clients for a time. What is answered in the
// first tenth is not counted.
func (x *Writes) run(ctx context.Context, c *Child, during time.Duration) error {
	var (
		mu    sync.Mutex
		times []float64
		done  sync.WaitGroup
	)
	if err := x.wake(ctx, c); err != nil {
		return err
	}
	begin := time.Now().Add(during / 10)
	end := begin.Add(during)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if x.Failed++; x.Error == "" {
			x.Error = err.Error()
		}
	}
	for i := range x.Clients {
		w, err := dial(ctx, c.URL)
		if err != nil {
			return err
		}
		defer w.close()
		done.Go(func() {
			random := rand.New(rand.NewPCG(uint64(x.Round), uint64(i)))
			var mine []float64
			var body []byte
			var id, ref string
			for n := 0; ctx.Err() == nil; n++ {
				if n%2 == 0 {
					id, ref = randomUUID(random), randomUUID(random)
				}
				body = item(body[:0], id, ref, n)
				at := time.Now()
				if !at.Before(end) {
					break
				}
				_, err := w.post("/feedback/replace", body)
				switch {
				case err != nil:
					fail(err)
					if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
						return
					}
				case at.After(begin):
					mine = append(mine, ms(time.Since(at)))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
		})
	}
	time.Sleep(time.Until(begin))
	own, _ := cpuTime()
	server, _ := processTime(c.cmd.Process.Pid)
	at := time.Now()
	done.Wait()
	wall := time.Since(at).Seconds()
	ownAfter, _ := cpuTime()
	serverAfter, _ := processTime(c.cmd.Process.Pid)
	x.OwnCPU, x.ServerCPU = (ownAfter-own).Seconds()/wall, (serverAfter-server).Seconds()/wall
	s := newSamples(times)
	x.Count, x.PerSecond, x.P50, x.P99 = len(s), float64(len(s))/wall, s.Percentile(50), s.Percentile(99)
	if len(s) == 0 && x.Error != "" {
		return errors.New(x.Error)
	}
	return ctx.Err()
}

// wake writes the first record: a server may open its store with that.
func (x *Writes) wake(ctx context.Context, c *Child) error {
	w, err := dial(ctx, c.URL)
	if err != nil {
		return err
	}
	defer w.close()
	id := randomUUID(rand.New(rand.NewPCG(1, 1)))
	_, err = w.post("/feedback/replace", item(nil, id, id, 0))
	return err
}

// The columns of the records that queries are asked over.
const (
	fillBatch = 1000
	perRef    = 5  // records to a trace_ref
	fillTypes = 20 // feedback types
	perQueue  = 1000
)

func rowID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(i)*2654435761, i) }

func rowRef(i int) string {
	return fmt.Sprintf("weave:///"+benchProject+"/call/%08x", uint32(i/perRef)*2654435761)
}

func row(dst []byte, i int) []byte {
	return fmt.Appendf(dst, `{"project_id":"`+benchProject+`","id":%q,"trace_ref":%q,"feedback_type":"type.%d","creator":"visitor %d","queue_id":"queue %d",`+
		`"payload":{"score":%d,"ok":%t,"output":{"reason":"the answer cites its sources","rank":%d}}}`,
		rowID(i), rowRef(i), i%fillTypes, i%1000, i/perQueue, i*7919%10_007, i%3 == 0, i%11)
}

// fill writes the records, with a few clients.
func (x *Queries) fill(ctx context.Context, c *Child) error {
	const clients = 4
	var failed [clients]error
	var done sync.WaitGroup
	batches := make(chan int)
	for k := range clients {
		w, err := dial(ctx, c.URL)
		if err != nil {
			return err
		}
		done.Go(func() {
			defer w.close()
			var body []byte
			for from := range batches {
				body = append(body[:0], `{"batch":[`...)
				for i := from; i < min(from+fillBatch, x.Rows); i++ {
					if i > from {
						body = append(body, ',')
					}
					body = row(body, i)
				}
				if _, err := w.post("/feedback/batch/create", append(body, "]}"...)); err != nil && failed[k] == nil {
					failed[k] = err
				}
			}
		})
	}
	for from := 0; from < x.Rows && ctx.Err() == nil; from += fillBatch {
		if batches <- from; from < x.Rows/2 {
			x.half = time.Now()
		}
	}
	close(batches)
	done.Wait()
	return errors.Join(append(failed[:], ctx.Err())...)
}

func eq(field, value string) string {
	return fmt.Sprintf(`{"$eq":[{"$getField":%q},{"$literal":%q}]}`, field, value)
}

// storeQuery is a query: its members behind the project, for the n-th time it is asked.
type storeQuery struct {
	name string
	text func(n int) string
}

func (x *Queries) list() []storeQuery {
	where := func(expr string) string { return `"query":{"$expr":` + expr + `}` }
	pick := func(n int) int { return n * 7_654_321 % x.Rows }
	const page = `,"limit":100`
	return []storeQuery{
		{"id", func(n int) string { return where(eq("id", rowID(pick(n)))) }},
		{"trace_ref", func(n int) string { return where(eq("trace_ref", rowRef(pick(n)))) }},
		{"queue_id, 100 of its rows", func(n int) string { return where(eq("queue_id", fmt.Sprintf("queue %d", pick(n)/perQueue))) + page }},
		{"feedback_type, 100 of its rows", func(n int) string { return where(eq("feedback_type", fmt.Sprintf("type.%d", n%fillTypes))) + page }},
		{"platform_user_id, 100 of its rows", func(int) string { return where(eq("platform_user_id", "anonymous")) + page }},
		{"created_at in a tenth of a second, 100 rows", func(int) string {
			at := func(t time.Time) string {
				return fmt.Sprintf(`[{"$getField":"created_at"},{"$literal":%q}]`, t.UTC().Format("2006-01-02T15:04:05.000Z"))
			}
			return where(`{"$and":[{"$gte":`+at(x.half)+`},{"$lt":`+at(x.half.Add(100*time.Millisecond))+`}]}`) + page
		}},
		{"count of a feedback_type", func(n int) string {
			return where(eq("feedback_type", fmt.Sprintf("type.%d", n%fillTypes))) + `,"fields":["count(*)"]`
		}},
		{"count of all", func(int) string { return `"fields":["count(*)"]` }},
		{"first page of 100", func(int) string { return `"limit":100` }},
		{"page of 100 in the middle", func(int) string { return fmt.Sprintf(`"limit":100,"offset":%d`, x.Rows/2) }},
		{"newest 100", func(int) string {
			return `"sort_by":[{"field":"created_at","direction":"desc"}],"limit":100`
		}},
		{"trace_ref, by a payload path", func(n int) string {
			return where(eq("trace_ref", rowRef(pick(n)))) + `,"sort_by":[{"field":"payload.score","direction":"desc"}]`
		}},
		{"queue_id, by a payload path, 100 rows", func(n int) string {
			return where(eq("queue_id", fmt.Sprintf("queue %d", pick(n)/perQueue))) + `,"sort_by":[{"field":"payload.score","direction":"desc"}]` + page
		}},
		{"queue_id and a payload path", func(n int) string {
			return where(`{"$and":[`+eq("queue_id", fmt.Sprintf("queue %d", pick(n)/perQueue))+`,{"$gt":[{"$getField":"payload.score"},{"$literal":9000}]}]}`) + page
		}},
		{"feedback_type and a payload path, 100 rows", func(n int) string {
			return where(`{"$and":[`+eq("feedback_type", fmt.Sprintf("type.%d", n%fillTypes))+`,{"$gt":[{"$getField":"payload.score"},{"$literal":9000}]}]}`) + page
		}},
	}
}

// run fills a server's feedback and asks. A query is asked for no longer than a
// few seconds.
func (x *Queries) run(ctx context.Context, c *Child, times int) error {
	begin := time.Now()
	if err := x.fill(ctx, c); err != nil {
		return err
	}
	x.Filled = time.Since(begin).Seconds()
	w, err := dial(ctx, c.URL)
	if err != nil {
		return err
	}
	defer w.close()
	for _, q := range x.list() {
		a := Asked{Name: q.name}
		var took []float64
		for n, until := 0, time.Now().Add(5*time.Second); n < times && ctx.Err() == nil && time.Now().Before(until); n++ {
			body := []byte(`{"project_id":"` + benchProject + `",` + q.text(n) + `}`)
			at := time.Now()
			text, err := w.post("/feedback/query", body)
			if err != nil {
				a.Error = err.Error()
				break
			}
			took = append(took, ms(time.Since(at)))
			var answer struct {
				Total int `json:"total_count"`
			}
			if err := json.Unmarshal(text, &answer); err != nil {
				return err
			}
			a.Count = answer.Total
		}
		s := newSamples(took)
		a.P50, a.P99 = s.Percentile(50), s.Percentile(99)
		x.List = append(x.List, a)
	}
	return ctx.Err()
}
