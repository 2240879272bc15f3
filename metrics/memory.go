package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/memory"
)

// account collects the series of the account of memory.
type account struct{ *memory.Account }

// SetMemory adds the series of the account of what requests hold. It may be called once.
func (m *Metrics) SetMemory(a *memory.Account) { m.registry.MustRegister(account{a}) }

func (a account) Describe(chan<- *prometheus.Desc) {}

func (a account) Collect(ch chan<- prometheus.Metric) {
	s := a.Stats()
	for _, c := range []struct {
		name, help string
		kind       prometheus.ValueType
		value      float64
	}{
		{"weir:memory_limit_bytes", "Most bytes that requests may hold together.", prometheus.GaugeValue, float64(s.Limit)},
		{"weir:memory_reserved_bytes", "Bytes that requests hold or may come to hold, with those of caches.", prometheus.GaugeValue, float64(s.Used)},
		{"weir:memory_cached_bytes", "Bytes of that in caches, which give way to requests.", prometheus.GaugeValue, float64(s.Cached)},
		{"weir:memory_waiting_requests", "Requests that wait for memory.", prometheus.GaugeValue, float64(s.Waiting)},
	} {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(c.name, c.help, nil, nil), c.kind, c.value)
	}
	refused := prometheus.NewDesc("weir:memory_refused_total", "Reservations of memory that were refused, by reason.", []string{"reason"}, nil)
	ch <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(s.Never), "never")
	ch <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(s.Full), "full")
}
