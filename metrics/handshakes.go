package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Handshake is why a handshake of TLS failed, as metrics show it.
type Handshake string

// Why handshakes fail. Each has its series from the start.
const (
	HandshakeUnfinished Handshake = "unfinished"         // the client left, or took too long
	HandshakePlain      Handshake = "plain_http"         // the client spoke HTTP without TLS
	HandshakeClient     Handshake = "client_certificate" // the client's certificate is missing or wrong
	HandshakeFull       Handshake = "full"               // too many have not ended
	HandshakeOther      Handshake = "other"              // versions, ciphers, protocols, or the client refused the server's certificate
)

// SetTLS adds the series of TLS. expires is when the certificate in use expires, and stale
// reports whether it is of an earlier version of its files. SetTLS may be called once, before
// connections are served.
func (m *Metrics) SetTLS(expires func() time.Time, stale func() bool) {
	m.handshakes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir:tls_handshake_failures_total", Help: "TLS handshakes that failed, by reason."}, []string{"reason"})
	for _, h := range []Handshake{HandshakeUnfinished, HandshakePlain, HandshakeClient, HandshakeFull, HandshakeOther} {
		m.handshakes.WithLabelValues(string(h))
	}
	m.registry.MustRegister(m.handshakes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir:tls_certificate_expiry_timestamp_seconds", Help: "When the first of the certificates that clients are sent expires, in seconds since 1970.",
	}, func() float64 { return float64(expires().Unix()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir:tls_files_stale", Help: "1 while the files of TLS cannot be used, so that an earlier version of them is in force.",
	}, func() float64 {
		if stale() {
			return 1
		}
		return 0
	}))
}

// HandshakeFailed counts a TLS handshake that failed.
func (m *Metrics) HandshakeFailed(h Handshake) {
	if m.handshakes != nil {
		m.handshakes.WithLabelValues(string(h)).Inc()
	}
}
