package metrics

import (
	"bytes"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// runtimeAge is how old the series of the process and of Go may be. They take most of the time of
// a page, and gateways, which ask every 50 ms, read none of them.
const runtimeAge = time.Second

// runtimePage is the text of the series of the process and of Go.
type runtimePage struct {
	registry *prometheus.Registry

	mu   sync.Mutex
	made time.Time
	text []byte // is not changed
}

// page returns the text, which the caller must not change.
func (r *runtimePage) page(now time.Time) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != nil && now.Sub(r.made) < runtimeAge {
		return r.text, nil
	}
	families, err := r.registry.Gather()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := expfmt.NewEncoder(&b, expfmt.FmtText)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return nil, err
		}
	}
	r.made, r.text = now, b.Bytes()
	return r.text, nil
}
