package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/engine"
)

// family is all series of one name, ready to be written: everything but the numbers is text
// that is made once. The library would build each page from objects, sort them, and look for
// series that are there twice, which took most of the time of a scrape.
type family struct {
	name      string
	head      []byte      // the lines # HELP and # TYPE
	samples   []sample    // of a counter or a gauge
	histogram *histText   // nil: it is a counter or a gauge
	labels    []labelPair // of a histogram
	created   []byte      // the gauge NAME_created; nil: there is none
}

// sample is one series.
type sample struct {
	line   []byte // its name and labels, and a space
	labels []labelPair
	value  func(*engine.Stats, *tally) float64
}

// histText is the text of the lines of a histogram.
type histText struct {
	cells      int      // the index of its cells in the tally
	buckets    [][]byte // the last one is +Inf
	sum, count []byte
}

type labelPair struct{ name, value string }

// sorted returns labels in the order in which they are written.
func sorted(labels map[string]string) []labelPair {
	pairs := make([]labelPair, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, labelPair{k, v})
	}
	slices.SortFunc(pairs, func(a, b labelPair) int { return strings.Compare(a.name, b.name) })
	return pairs
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// line returns a name with labels, and the space after it.
func line(name string, labels []labelPair, more ...labelPair) []byte {
	b := []byte(name)
	for i, l := range append(slices.Clone(labels), more...) {
		b = append(b, "{,"[min(i, 1)])
		b = append(b, l.name...)
		b = append(b, '=', '"')
		b = append(b, escapeValue.Replace(l.value)...)
		b = append(b, '"')
	}
	if len(labels)+len(more) > 0 {
		b = append(b, '}')
	}
	return append(b, ' ')
}

func head(name, help, kind string) []byte {
	return []byte("# HELP " + name + " " + escapeHelp.Replace(help) + "\n# TYPE " + name + " " + kind + "\n")
}

// histogramFamily returns the text of a histogram, whose counts are those of the cells of this index.
func histogramFamily(name, help string, labels []labelPair, cells int, bounds []float64) *family {
	h := &histText{cells: cells, sum: line(name+"_sum", labels), count: line(name+"_count", labels)}
	for _, bound := range bounds {
		h.buckets = append(h.buckets, line(name+"_bucket", labels, labelPair{"le", boundText(bound)}))
	}
	h.buckets = append(h.buckets, line(name+"_bucket", labels, labelPair{"le", "+Inf"}))
	return &family{name: name, head: head(name, help, "histogram"), histogram: h, labels: labels}
}

// boundText writes the upper bound of a bucket as Python's client of Prometheus does: 1 is 1.0.
// Dashboards for vLLM name bounds in their queries, and versions of Prometheus before 3.0
// compare them as texts.
func boundText(v float64) string {
	text := string(appendNumber(nil, v))
	if strings.ContainsAny(text, ".e") {
		return text
	}
	return text + ".0"
}

// complete adds NAME_created, the time since when the family counts, as Python's client of
// Prometheus writes it, and with it vLLM. Gauges, and series that vLLM does not have, which no
// program for vLLM reads, have none.
func (f *family) complete(kind, help string, since float64) {
	if kind == "gauge" || !strings.HasPrefix(f.name, "vllm:") {
		return
	}
	name := f.name
	if kind == "counter" {
		name = strings.TrimSuffix(name, "_total")
	}
	name += "_created"
	f.created = head(name, help, "gauge")
	add := func(labels []labelPair) {
		f.created = append(appendNumber(append(f.created, line(name, labels)...), since), '\n')
	}
	if f.histogram != nil {
		add(f.labels)
	}
	for _, s := range f.samples {
		add(s.labels)
	}
}

// append writes the family with the numbers of one moment.
func (f *family) append(b []byte, st *engine.Stats, t *tally) []byte {
	b = append(b, f.head...)
	for i := range f.samples {
		s := &f.samples[i]
		b = append(appendNumber(append(b, s.line...), s.value(st, t)), '\n')
	}
	if h := f.histogram; h != nil {
		c, n := &t.cells[h.cells], uint64(0)
		for i, text := range h.buckets {
			n += c.counts[i]
			b = append(appendNumber(append(b, text...), float64(n)), '\n')
		}
		b = append(appendNumber(append(b, h.sum...), c.sum), '\n')
		b = append(appendNumber(append(b, h.count...), float64(n)), '\n')
	}
	return append(b, f.created...)
}

// appendNumber writes a number as Prometheus' text format has it.
func appendNumber(b []byte, v float64) []byte {
	if v == math.Trunc(v) && math.Abs(v) < 1e6 {
		return strconv.AppendInt(b, int64(v), 10) // the most of them, several times as fast
	}
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
