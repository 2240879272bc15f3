package metrics

import (
	"bytes"
	"math"
	"regexp"
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
// library writes of it, also where a label has to be escaped; but for the bounds of buckets,
// which are written as Python's library writes them.
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
			block := whole.ReplaceAllString(want.String(), `le="$1.0"`)
			n += len(block)
			if !strings.Contains(text, block) {
				t.Errorf("%s is not what the library writes:\n%s", name, block)
			}
		}
		if n != len(text) || len(families) < 60 {
			t.Errorf("the library writes %d bytes of %d families, not %d", n, len(families), len(text))
		}
	})
}

// whole is a bound that Python writes with a fraction.
var whole = regexp.MustCompile(`le="(\d+)"`)

// TestBounds: bounds are what Python's client of Prometheus writes (floatToGoString).
func TestBounds(t *testing.T) {
	for v, want := range map[float64]string{.001: "0.001", .5: "0.5", 1: "1.0", 20: "20.0", 7680: "7680.0", 500_000: "500000.0", 1e6: "1e+06", 2e6: "2e+06", 5e7: "5e+07", 1e-4: "0.0001"} {
		if got := boundText(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
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
