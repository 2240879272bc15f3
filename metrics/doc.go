// Package metrics counts what a server and its engine do, and writes it in the text format
// of Prometheus. Names, labels and buckets are those of vLLM
// (docs/interface/chat-completions.md, section 16), so that dashboards, autoscalers and
// gateways made for vLLM work. Series that only weir has begin with "weir:".
//
// # What is counted
//
// In prompt tokens, latencies and the histograms by request, a choice counts like a request
// of its own, as in vLLM. What vLLM shows at all times is shown, and is 0 where weir does not
// have what it is about; what vLLM shows with a feature that weir does not have, is not: see
// docs/interface/metrics.md. The go_* and process_* series of the process are there.
//
// # How it is counted
//
// The engine's loop reads the clock once per step, when the step has ended, and reports what
// the step gave: tokens, gaps between the tokens of a choice (equal ones as one entry), and
// choices that ended, with their times (engine.Report). A report comes before the readers of
// the step's tokens are woken, so a client that has read an answer finds it counted.
//
// Histograms are plain memory (series.go), under one lock that a report holds, and that a
// scrape holds while it copies a few kilobytes. So a page shows one moment of the engine, and
// the loop never waits for a page to be written. The client library's own histograms were
// the alternative; they take an atomic addition for every token. The text of these series is
// made once, but for the numbers (text.go): the library made objects of all of them, and
// checked and sorted them, at each scrape, which took most of its time. The series of HTTP
// requests, refusals and projects (metrics.go) and of databases (store.go) are the library's,
// because they change once per request at most.
//
// Everybody may read /metrics, so the series with the names of projects are shown only to
// those who may read the same projects in /usage.
package metrics
