package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// CallWrites is one measurement of writing calls in batches. Count, PerSecond and the
// latencies are of batches.
type CallWrites struct {
	Writes
	Batch int     `json:"batch"`       // calls in a batch
	Calls float64 `json:"calls_per_s"` // acknowledged
}

// callBatch is how many calls a batch has, about as many as Weave's clients send at once.
const callBatch = 100

// The calls that queries search.
const (
	callOps    = 20  // different ops
	callErrors = 47  // one in so many has an exception; it shares no factor with callOps
	callStep   = 100 // microseconds from the start of one to that of the next
)

// callsStart is when the first call began, in microseconds of Unix time.
const callsStart = int64(1_767_225_600_000_000)

func callTime(i int) string {
	return time.UnixMicro(callsStart + int64(i)*callStep).UTC().Format("2006-01-02T15:04:05.000000Z")
}

func callOp(n int) string { return fmt.Sprintf("weave:///"+benchProject+"/op/op%d:abcdef", n%callOps) }

// callText is what most of a call is, about a kilobyte in all.
var callText = strings.Repeat("The answer cites its sources. ", 16)

// callID makes a UUID of version 7 of the time of call i, as Weave's clients do.
func callID(i int, random *rand.Rand) string {
	ms := (callsStart + int64(i)*callStep) / 1000
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", ms>>16, ms&0xffff, random.Uint32()&0xfff, random.Uint32()&0xfff, random.Uint64()&(1<<48-1))
}

// appendCall appends call i.
func appendCall(dst []byte, i int, random *rand.Rand) []byte {
	id := callID(i, random)
	exception := "null"
	if i%callErrors == 0 {
		exception = `"ValueError: out of range"`
	}
	return fmt.Appendf(dst, `{"project_id":"`+benchProject+`","id":%q,"trace_id":%q,"parent_id":null,"op_name":%q,"started_at":%q,"ended_at":%q,`+
		`"attributes":{"weave":{"client_version":"0.54.0","source":"python-sdk","os_name":"Linux"}},"inputs":{"question":%q,"n":%d,"model":"tiny"},"output":{"text":%q,"score":%d},`+
		`"exception":%s,"summary":{"usage":{"tiny":{"requests":1,"prompt_tokens":%d}},"status_counts":{"success":1,"error":0}}}`,
		id, id, callOp(i), callTime(i), callTime(i+5000), callText, i, callText, i*7919%10_007, exception, i%500)
}

func appendCallBatch(dst []byte, from, n int, random *rand.Rand) []byte {
	dst = append(dst, `{"batch":[`...)
	for i := from; i < from+n; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = appendCall(dst, i, random)
	}
	return append(dst, "]}"...)
}

// completePath is where batches are sent to.
const completePath = "/v2/" + benchProject + "/calls/complete"

// run writes with x.Clients clients for a time.
func (x *CallWrites) run(ctx context.Context, child *Child, during time.Duration) error {
	err := x.measure(ctx, child, during, func(client int) func() (string, []byte) {
		random := rand.New(rand.NewPCG(uint64(x.Round), uint64(client)))
		var body []byte
		n := client << 20
		return func() (string, []byte) {
			body = appendCallBatch(body[:0], n, x.Batch, random)
			n += x.Batch
			return completePath, body
		}
	})
	x.Calls = x.PerSecond * float64(x.Batch)
	return err
}

// CallQueries is how long queries over calls took.
type CallQueries struct {
	Queries
}

// run fills a server's calls and asks every query a number of times.
func (x *CallQueries) run(ctx context.Context, child *Child, times int) error {
	return x.ask(ctx, child, times, x.fill, x.list(), func(text string) (path, fields string) {
		path, fields, _ = strings.Cut(text, " ")
		return path, fields
	}, func(answer []byte) (int, error) {
		return bytes.Count(bytes.TrimSpace(answer), []byte("\n")) + min(1, len(answer)), nil
	})
}

// fill writes the calls.
func (x *CallQueries) fill(ctx context.Context, child *Child) error {
	return x.fillWith(ctx, child, completePath, func(client int) func(dst []byte, from int) []byte {
		random := rand.New(rand.NewPCG(7, uint64(client)))
		return func(dst []byte, from int) []byte {
			return appendCallBatch(dst, from, min(fillBatch, x.Rows-from), random)
		}
	})
}

// list returns the queries, each as a path, a space and the fields after the project.
func (x *CallQueries) list() []storeQuery {
	const stream, stats = "/calls/stream_query ", "/calls/query_stats "
	const page = `,"limit":100`
	op := func(n int) string { return fmt.Sprintf(`"filter":{"op_names":[%q]}`, callOp(n)) }
	between := func(from, to int) string {
		seconds := func(i int) string { return fmt.Sprintf("%.6f", float64(callsStart+int64(i)*callStep)/1e6) }
		return `{"$gte":[{"$getField":"started_at"},{"$literal":` + seconds(from) + `}]},{"$not":[{"$gte":[{"$getField":"started_at"},{"$literal":` + seconds(to) + `}]}]}`
	}
	where := func(conditions string) string { return `"query":{"$expr":{"$and":[` + conditions + `]}}` }
	pick := func(n int) int { return n * 7_654_321 % x.Rows }
	failed := eq("summary.weave.status", "error")
	return []storeQuery{
		{"calls: op, first 100", func(n int) string { return stream + op(n) + page }},
		{"calls: op, newest 100", func(n int) string {
			return stream + op(n) + page + `,"sort_by":[{"field":"started_at","direction":"desc"}]`
		}},
		{"calls: a tenth of a second, 100", func(n int) string { return stream + where(between(pick(n), pick(n)+1000)) + page }},
		{"calls: op in a tenth of all, 100", func(n int) string {
			return stream + op(n) + "," + where(between(x.Rows/2, x.Rows/2+x.Rows/10)) + page
		}},
		{"calls: status error, 100", func(int) string { return stream + where(failed) + page }},
		{"calls: op and status error, 100", func(n int) string { return stream + op(n) + "," + where(failed) + page }},
		{"calls: roots, newest 100", func(int) string {
			return stream + `"filter":{"trace_roots_only":true},"sort_by":[{"field":"started_at","direction":"desc"}]` + page
		}},
		{"calls: newest 100", func(int) string { return stream + `"sort_by":[{"field":"started_at","direction":"desc"}]` + page }},
		{"calls: count of an op", func(n int) string { return stats + op(n) }},
		{"calls: count of all", func(int) string { return stats + `"limit":null` }},
		{"calls: op and a path of its inputs", func(n int) string {
			i := pick(n)
			return stream + op(i) + "," + where(fmt.Sprintf(`{"$eq":[{"$convert":{"input":{"$getField":"inputs.n"},"to":"int"}},{"$literal":%d}]}`, i))
		}},
	}
}
