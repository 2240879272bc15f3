// Package bench measures servers from the outside: how fast one starts
// (RunStart), how it bears a load (RunServe), and how it stores (RunStore). It is a client: it knows the
// wire and nothing of the engine, so that it measures any server of the same
// interface alike.
//
// RunServe is open-loop. When a request is due is settled before the run from
// the seed alone, and no request waits for the answer of another, unless a
// largest concurrency asks for just that. A closed loop would slow down along
// with the server and hide its worst moments ("coordinated omission", G. Tene,
// 2013). Names and definitions of the metrics are those of vLLM's benchmark
// (vllm/benchmarks/serve.py), so that results can be laid side by side:
//
//	TTFT  from sending a request to its first event with a choice
//	E2EL  from sending it to its last event with a choice
//	TPOT  (E2EL - TTFT) / (output tokens - 1), for answers of two tokens or more
//	ITL   time between events with a choice, of all answers together
//
// Tokens are counted by the server (usage). Percentiles are those of the exact
// samples, 8 bytes for each event, with linear interpolation, as NumPy's.
package bench
