package metrics

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"weir/engine"
)

// TestTextIsTheLibrarys: what is written without the library is, byte for byte, what the
// library writes of it, also where a label has to be escaped.
func TestTextIsTheLibrarys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, hybrid, nil)
		defer h.stop()
		h.m.SetEngine(h.Engine, Model{Name: "a \"b\" \\c\nd", MaxLen: 2_000_000})
		h.run(t, ask(1, 40, 9), ask(2, 3, 70))
		s := h.m.engine.Load()
		s.observe(reportOf(1_234_567, 2*time.Hour+time.Nanosecond))
		text := string(s.append(nil))
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for name, f := range families {
			var want bytes.Buffer
			if err := expfmt.NewEncoder(&want, expfmt.FmtText).Encode(f); err != nil {
				t.Fatal(err)
			}
			n += want.Len()
			if !strings.Contains(text, want.String()) {
				t.Errorf("%s is not what the library writes:\n%s", name, &want)
			}
		}
		if n != len(text) || len(families) < 60 {
			t.Errorf("the library writes %d bytes of %d families, not %d", n, len(families), len(text))
		}
	})
}

// TestNumbers: numbers are written as the library writes them.
func TestNumbers(t *testing.T) {
	for _, v := range []float64{0, 1, -1, .5, 1e-9, 999_999, 1e6, 1_000_001, 1.5e6, 123_456_789, 1 << 53, 1e300, -.25, math.Inf(1), math.Inf(-1), math.NaN()} {
		var want bytes.Buffer
		_, _ = expfmt.MetricFamilyToText(&want, gaugeFamily("x", v)) // a bytes.Buffer takes everything
		if _, number, _ := strings.Cut(strings.TrimSpace(want.String()), "\nx "); string(appendNumber(nil, v)) != number {
			t.Errorf("%v is %s, want %s", v, appendNumber(nil, v), number)
		}
	}
}

func gaugeFamily(name string, v float64) *dto.MetricFamily {
	kind := dto.MetricType_GAUGE
	return &dto.MetricFamily{Name: &name, Type: &kind, Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: &v}}}}
}

// reportOf is a report of many tokens with a long wait.
func reportOf(tokens int, wait time.Duration) *engine.Report {
	return &engine.Report{Tokens: tokens, Prompt: tokens, First: []time.Duration{wait}, Gaps: []engine.Gap{{D: wait, N: tokens}}}
}
