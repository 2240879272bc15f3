package metrics

import "github.com/prometheus/client_golang/prometheus"

// Spans are the spans of traces, by what became of them.
type Spans struct{ Sent, Failed, Dropped uint64 }

// spans collects the series of traces.
type spans struct {
	read func() Spans
	desc *prometheus.Desc
}

// SetTraces adds the series of traces. It may be called once.
func (m *Metrics) SetTraces(read func() Spans) {
	m.registry.MustRegister(spans{read, prometheus.NewDesc("weir:trace_spans_total", "Spans of requests that the collector of traces has taken, that it has not, and for which there was no room in the queue.", []string{"result"}, nil)})
}

func (s spans) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

func (s spans) Collect(ch chan<- prometheus.Metric) {
	now := s.read()
	ch <- prometheus.MustNewConstMetric(s.desc, prometheus.CounterValue, float64(now.Sent), "sent")
	ch <- prometheus.MustNewConstMetric(s.desc, prometheus.CounterValue, float64(now.Failed), "failed")
	ch <- prometheus.MustNewConstMetric(s.desc, prometheus.CounterValue, float64(now.Dropped), "dropped")
}
