package bench_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"weir/bench"
)

// oneWord is a server that answers every chat with one word.
func oneWord(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"data":[{"id":"parrot"}]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"Yes."}}]}`+"\n\n")
	fmt.Fprint(w, `data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":1}}`+"\n\n")
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// A load of five requests, due at 1000 per second, on a server with the OpenAI interface.
func ExampleRunServe() {
	server := httptest.NewServer(http.HandlerFunc(oneWord))
	defer server.Close()

	c := bench.DefaultServeConfig()
	c.BaseURL = server.URL
	c.NumPrompts, c.Rate = 5, 1000
	c.Data = bench.Random{InputLen: 10, OutputLen: 128}
	report, err := bench.RunServe(context.Background(), c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("model:", report.Config.Model)
	fmt.Println("completed:", report.Completed, "of", c.NumPrompts)
	fmt.Println("tokens:", report.InputTokens, "in,", report.OutputTokens, "out")
	fmt.Println("measured TTFT:", report.TTFT.Percentile(50) > 0)
	// Output:
	// model: parrot
	// completed: 5 of 5
	// tokens: 60 in, 5 out
	// measured TTFT: true
}

// Reports are written for people, for benchstat and as JSON.
func ExampleStartReport_WriteBenchmark() {
	report := &bench.StartReport{Health: []float64{21.5}, Answer: []float64{23.25}} // from RunStart
	if err := report.WriteBenchmark(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// BenchmarkStart/to=healthy 1 21500000 ns/op
	// BenchmarkStart/to=answer 1 23250000 ns/op
}
