package server_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"

	"weir/auth"
	"weir/server/servertest"
)

// shown is a series of GET /metrics: its name and its labels.
type shown struct {
	name   string
	labels map[string]string
}

// shownBy reads the series of a server with everything that has answered some requests, one of
// them with a status that begins with 5.
func shownBy(t *testing.T) []shown {
	t.Helper()
	h, _ := servertest.NewRecording(t, func(s *servertest.Setup) { s.NoModel = true })
	h.Chat(nil)
	if err := h.Instance.SetModel(h.Model); err != nil {
		t.Fatal(err)
	}
	h.Complete(t, nil)
	h.Complete(t, nil) // finds its prompt in the cache
	h.Chat(map[string]any{"max_tokens": 2, "ignore_eos": true, "stream": true})
	h.Chat(map[string]any{"max_tokens": -1})
	all := read(t, h)

	h.Instance.SetTLS(time.Now, func() bool { return false })
	all = append(all, read(t, h)...) // again, with the series of TLS

	// One series is there with keys only, and the series of projects are not, without a key.
	keys, err := auth.New([]string{"k"}, "")
	if err != nil {
		t.Fatal(err)
	}
	return append(all, read(t, newServer(t, func(s *servertest.Setup) { s.Config.Keys = keys }))...)
}

// read returns the series that a server shows now.
func read(t *testing.T, h interface {
	Scraped(...string) map[string]string
}) []shown {
	t.Helper()
	var all []shown
	for text := range h.Scraped() {
		e, err := metricsql.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s := shown{labels: map[string]string{}}
		for _, l := range e.(*metricsql.MetricExpr).LabelFilterss[0] {
			if l.Label == "__name__" {
				s.name = l.Value
			} else {
				s.labels[l.Label] = l.Value
			}
		}
		all = append(all, s)
	}
	return all
}

// TestVLLMDashboards: a server that has answered some requests shows every series and label that
// the dashboards in vLLM's repository query. Those that it cannot show are named in
// docs/interface/metrics.md.
func TestVLLMDashboards(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("testdata/vllm_dashboards.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/interface/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, missing, _ := strings.Cut(string(page), "Of the second kind weir has none")
	missing, _, _ = strings.Cut(missing, "\n\n")
	patterns := regexp.MustCompile("vllm:[a-z_*]+").FindAllString(missing, -1)
	all := shownBy(t)
	dashboard, found := "", 0
	for line := range strings.Lines(string(source)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] == "#":
		case fields[0] == "dashboard":
			dashboard = path.Base(fields[1])
		case fields[0] == "up": // Prometheus' own
		case fields[0] == "-":
			if isShown(all, fields[1], nil) {
				t.Errorf("%s: %s is shown, and said to be missing", dashboard, fields[1])
			}
			if !matchesAny(patterns, fields[1]) {
				t.Errorf("%s: docs/interface/metrics.md does not say that %s is missing", dashboard, fields[1])
			}
		default:
			if found++; !isShown(all, fields[0], fields[1:]) {
				t.Errorf("%s asks for %v, which is not shown", dashboard, fields)
			}
		}
	}
	if found < 150 {
		t.Errorf("only %d series were looked for", found)
	}
}

// isShown reports whether there is a series of this name with these labels, each "name" or
// "name=value".
func isShown(all []shown, name string, labels []string) bool {
	for _, s := range all {
		if s.name == name && s.has(labels) {
			return true
		}
	}
	return false
}

func (s *shown) has(labels []string) bool {
	for _, l := range labels {
		name, value, exact := strings.Cut(l, "=")
		if have, ok := s.labels[name]; !ok || exact && have != value {
			return false
		}
	}
	return true
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok { // the patterns have no form that is an error
			return true
		}
	}
	return false
}
