package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/jsontext"
)

// The records that queries search.
const (
	fillBatch = 1000 // records in a request
	perRef    = 5    // records with the same trace_ref
	perQueue  = 1000 // records with the same queue_id
	fillTypes = 20   // feedback types
)

func rowID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(i)*2654435761, i) }

func rowRef(i int) string {
	return fmt.Sprintf("weave:///"+benchProject+"/call/%08x", uint32(i/perRef)*2654435761)
}

// appendRow appends record i.
func appendRow(dst []byte, i int) []byte {
	return fmt.Appendf(dst, `{"project_id":"`+benchProject+`","id":%q,"trace_ref":%q,"feedback_type":"type.%d","creator":"visitor %d","queue_id":"queue %d",`+
		`"payload":{"score":%d,"ok":%t,"output":{"reason":"the answer cites its sources","rank":%d}}}`,
		rowID(i), rowRef(i), i%fillTypes, i%1000, i/perQueue, i*7919%10_007, i%3 == 0, i%11)
}

// fill writes the records.
func (x *Queries) fill(ctx context.Context, child *Child) error {
	return x.fillWith(ctx, child, "/feedback/batch/create", func(int) func(dst []byte, from int) []byte { return x.appendBatch })
}

// fillWith posts x.Rows things in batches, with a few clients. batches makes for each client what
// appends the batch that begins with a thing.
func (x *Queries) fillWith(ctx context.Context, child *Child, path string, batches func(client int) func(dst []byte, from int) []byte) error {
	const clients = 4
	var failed [clients]error
	var running sync.WaitGroup
	begins := make(chan int)
	for k := range clients {
		running.Go(func() {
			c, err := dial(ctx, child.URL)
			if failed[k] = err; err == nil {
				defer c.close()
			}
			appendBatch := batches(k)
			var body []byte
			for from := range begins {
				if failed[k] == nil {
					body = appendBatch(body[:0], from)
					_, failed[k] = c.post(path, body)
				}
			}
		})
	}
	for from := 0; from < x.Rows && ctx.Err() == nil; from += fillBatch {
		if begins <- from; from < x.Rows/2 {
			x.half = time.Now()
		}
	}
	close(begins)
	running.Wait()
	return errors.Join(append(failed[:], ctx.Err())...)
}

// appendBatch appends the request that creates the records from from on.
func (x *Queries) appendBatch(dst []byte, from int) []byte {
	dst = append(dst, `{"batch":[`...)
	for i := from; i < min(from+fillBatch, x.Rows); i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = appendRow(dst, i)
	}
	return append(dst, "]}"...)
}

// eq is the condition that a field has a value.
func eq(field, value string) string {
	return fmt.Sprintf(`{"$eq":[{"$getField":%q},{"$literal":%q}]}`, field, value)
}

// storeQuery is a query.
type storeQuery struct {
	name string
	text func(n int) string // the fields after the project, for the n-th time that it is asked
}

// list returns the queries. Those that search for a value take another value every time.
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

// queryTime is how long one query is asked at most.
const queryTime = 5 * time.Second

// run fills a server's feedback and asks every query a number of times.
func (x *Queries) run(ctx context.Context, child *Child, times int) error {
	return x.ask(ctx, child, times, x.fill, x.list(), func(text string) (path, fields string) { return "/feedback/query", text }, func(answer []byte) (int, error) {
		var a struct {
			Total int `json:"total_count"`
		}
		err := jsontext.Decode(answer, &a)
		return a.Total, err
	})
}

// ask fills a server and asks queries, each a number of times, until it fails or its time is
// over. request makes the path and the fields after the project of the text of a query; count is
// how many rows an answer is about.
func (x *Queries) ask(ctx context.Context, child *Child, times int, fill func(context.Context, *Child) error, list []storeQuery,
	request func(text string) (path, fields string), count func(answer []byte) (int, error),
) error {
	begin := time.Now()
	if err := fill(ctx, child); err != nil {
		return err
	}
	x.Filled = time.Since(begin).Seconds()
	c, err := dial(ctx, child.URL)
	if err != nil {
		return err
	}
	defer c.close()
	for _, q := range list {
		a := Asked{Name: q.name}
		var took []float64
		for n, until := 0, time.Now().Add(queryTime); n < times && ctx.Err() == nil && time.Now().Before(until); n++ {
			path, fields := request(q.text(n))
			body := []byte(`{"project_id":"` + benchProject + `",` + fields + `}`)
			at := time.Now()
			text, err := c.post(path, body)
			if err != nil {
				a.Error = err.Error()
				break
			}
			took = append(took, ms(time.Since(at)))
			if a.Count, err = count(text); err != nil {
				return err
			}
		}
		s := newSamples(took)
		a.P50, a.P99 = s.Percentile(50), s.Percentile(99)
		x.List = append(x.List, a)
	}
	return ctx.Err()
}
