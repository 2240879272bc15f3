package metrics

import "github.com/prometheus/client_golang/prometheus"

// Sockets are the connections of clients, and what went over them since the server
// started.
type Sockets struct {
	Open, Idle     int // Idle are those of Open that wait for a request
	Accepted       uint64
	Received, Sent uint64 // bytes, with headers
}

// connections collects the series of connections.
type connections struct {
	read                           func() Sockets
	open, accepted, received, sent *prometheus.Desc
}

// SetConnections adds the series of connections. It may be called once.
func (m *Metrics) SetConnections(read func() Sockets) {
	m.registry.MustRegister(connections{
		read,
		prometheus.NewDesc("weir:http_connections", "Open connections of clients: with a request that is read or answered, or idle.", []string{"state"}, nil),
		prometheus.NewDesc("weir:http_connections_total", "Connections of clients that were accepted.", nil, nil),
		prometheus.NewDesc("weir:http_received_bytes_total", "Bytes that clients have sent, with headers.", nil, nil),
		prometheus.NewDesc("weir:http_sent_bytes_total", "Bytes that were sent to clients, with headers and streams.", nil, nil),
	})
}

func (c connections) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.open
	ch <- c.accepted
	ch <- c.received
	ch <- c.sent
}

func (c connections) Collect(ch chan<- prometheus.Metric) {
	now := c.read()
	ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(now.Open-now.Idle), "active")
	ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(now.Idle), "idle")
	ch <- prometheus.MustNewConstMetric(c.accepted, prometheus.CounterValue, float64(now.Accepted))
	ch <- prometheus.MustNewConstMetric(c.received, prometheus.CounterValue, float64(now.Received))
	ch <- prometheus.MustNewConstMetric(c.sent, prometheus.CounterValue, float64(now.Sent))
}
