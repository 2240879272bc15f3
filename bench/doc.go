// Package bench measures servers from the outside: how fast one starts (RunStart), how it
// answers under a load (RunServe), under several beside other servers (RunSweep) and in conversations (RunChat), and how fast it stores feedback and
// trajectories (RunStore). It is a client. It knows the HTTP interface and nothing of the engine, so it
// measures every server of the same interface in the same way.
//
// # Open loop
//
// RunServe decides before the run, from the seed alone, when each request is due, and no
// request waits for the answer to another, unless a largest concurrency asks for just that.
// A closed loop, in which each client waits for its answer before it sends again, slows down
// together with the server and hides its worst moments ("coordinated omission", G. Tene,
// 2013). Latencies are reported from when a request was sent, as vLLM's benchmark does, and from when it was
// due. The report says how late the generator itself was, and warns if the generator and
// not the server may have decided the result.
//
// # Metrics
//
// Names and definitions are those of vLLM's benchmark (vllm/benchmarks/serve.py), so that
// results can be compared:
//
//	TTFT  time from sending a request to its first event with a choice
//	E2EL  time from sending it to its last event with a choice
//	TPOT  (E2EL - TTFT) / (output tokens - 1), for answers of two tokens or more
//	ITL   times between events with a choice, of all answers together
//
// The server counts the tokens (usage). Percentiles are computed from all samples, at 8
// bytes each, with linear interpolation as in NumPy; a histogram would take less memory and
// give other numbers than vLLM. A failed request is counted and listed, and is part of no
// latency.
//
// # Conversations
//
// RunChat holds conversations of many turns, each in a closed loop, since a person cannot answer before
// having read. Every request has the whole history, without thoughts, as clients send it.
//
// # Files
//
//	config.go, schedule.go, requests.go     a load: what is sent, and when
//	data*.go, tokens.go                     where prompts come from
//	serve.go, progress.go, series.go        the run itself, and several
//	client.go, exchange.go, sse.go, event.go   one request; its events are read without allocating
//	report.go, window.go, generator.go, samples.go   what was measured
//	format*.go, page*.go, page.js, page.css, uplot   how it is printed; uplot is uPlot 1.6.32 from npm, unchanged
//	sweep*.go                               loads of all sizes, on servers that take turns
//	chat.go                                 conversations, turn by turn
//	start.go, child.go, process_*.go        starting servers and watching their processes
//	store.go, store_writes.go, store_queries.go, store_ingest.go   feedback and trajectories
package bench
