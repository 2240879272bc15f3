package metrics

import "github.com/prometheus/client_golang/prometheus"

// SetCredentials adds the series of the credentials file. stale reports whether the keys in
// use are of an earlier version of it. SetCredentials may be called once.
func (m *Metrics) SetCredentials(stale func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir:credentials_stale", Help: "1 while the credentials file cannot be used, so that an earlier version of it is in force.",
	}, func() float64 {
		if stale() {
			return 1
		}
		return 0
	}))
}
