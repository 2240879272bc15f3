package servertest

import (
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scraped is GET /metrics: values by series as they are written.
func (h *Server) Scraped(headers ...string) map[string]string {
	h.T.Helper()
	status, text, header := h.Get("GET", "/metrics", "", headers...)
	if status != 200 || header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		h.T.Fatalf("%d %v", status, header)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		h.T.Errorf("%v in %s", err, text)
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line[0] != '#' {
			at := strings.LastIndexByte(line, ' ')
			all[line[:at]] = line[at+1:]
		}
	}
	return all
}

// Told compares series, without the labels that all of the engine's have.
func (h *Server) Told(what string, want map[string]string, headers ...string) {
	h.T.Helper()
	got := h.Scraped(headers...)
	for name, value := range want {
		full := name
		if strings.Contains(name, ":") && !strings.HasPrefix(name, "weir:project") && !strings.HasPrefix(name, "weir:rejected") {
			const own = `{engine="0",` // finished_reason comes between
			base, labels, _ := strings.Cut(name, "{")
			if full = base + own + `model_name="tiny"}`; labels != "" && labels < "m" {
				full = base + own + strings.TrimSuffix(labels, "}") + `,model_name="tiny"}`
			} else if labels != "" {
				full = base + own + `model_name="tiny",` + labels
			}
		}
		if got[full] != value {
			h.T.Errorf("%s: %s is %q, want %s", what, full, got[full], value)
		}
	}
}
