package metrics

import (
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"weir/engine"
)

// shares collects what tenants have of an engine, of those that may be shown.
type shares struct {
	all   []engine.Share
	shows func(tenant string) bool
}

var tenantSeries = [...]struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*engine.Share) float64
}{
	{tenantDesc("weir:tenant_running_sequences", "Sequences that are computed, by tenant."), prometheus.GaugeValue, func(s *engine.Share) float64 { return float64(s.Running) }},
	{tenantDesc("weir:tenant_waiting_sequences", "Sequences that wait, by tenant."), prometheus.GaugeValue, func(s *engine.Share) float64 { return float64(s.Waiting) }},
	{tenantDesc("weir:tenant_weight", "Weight of a tenant in the credentials file; 1 is the usual one, and 0 stands for several."), prometheus.GaugeValue, func(s *engine.Share) float64 { return float64(s.Weight) / 100 }},
	{tenantDesc("weir:tenant_computed_tokens_total", "Tokens of prompts and outputs that were computed for a tenant, those that were computed again or found in the prefix cache not counted."), prometheus.CounterValue, func(s *engine.Share) float64 { return float64(s.Tokens) }},
}

func tenantDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"tenant"}, nil)
}

func (s shares) Describe(ch chan<- *prometheus.Desc) {
	for i := range tenantSeries {
		ch <- tenantSeries[i].desc
	}
}

func (s shares) Collect(ch chan<- prometheus.Metric) {
	for i := range s.all {
		a := &s.all[i]
		if !s.shows(a.Tenant) {
			continue
		}
		for _, t := range tenantSeries {
			ch <- prometheus.MustNewConstMetric(t.desc, t.kind, t.value(a), a.Tenant)
		}
	}
}

// WriteShares writes the series of the tenants for which shows returns true, in the same format
// as WriteText. The first tenants have series of their own, the others are "other".
func (m *Metrics) WriteShares(w io.Writer, shows func(tenant string) bool) error {
	e := m.engine.Load()
	if e == nil {
		return nil
	}
	r := prometheus.NewRegistry()
	r.MustRegister(shares{e.engine.Shares(nil), shows})
	families, err := r.Gather()
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	enc := expfmt.NewEncoder(w, expfmt.FmtText)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}
