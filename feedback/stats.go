package feedback

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// Stats asks for statistics over time (docs/interface/feedback.md, section 8.5), or for the
// paths in payloads (section 8.6).
type Stats struct {
	Project     string
	start, end  int64 // milliseconds, [start, end)
	granularity int64 // seconds
	zone        string
	types       *string
	trigger     *string // may end in ":*"
	metrics     []metric
	sample      int // records that PayloadSchema reads
}

type metric struct {
	query.Field
	kind         string // numeric, boolean, categorical
	aggregations []string
	percentiles  []float64
	slug         string
}

const (
	maxBuckets      = 10_000
	maxMetrics      = 50
	maxAggregations = 10
	maxPercentiles  = 100
	maxStatsAnswer  = 16 << 20  // bytes of an answer with statistics, about
	maxStatsValues  = 8_000_000 // that are kept for percentiles; each is kept in a bucket and for the window
	sampleUsual     = 2_000
	sampleMost      = 5_000
)

// DecodeStats reads the body of a request for statistics or, with schema, for the paths in
// payloads. The error is that of DecodeRequest; a *Refusal comes with the request.
func (s *Store) DecodeStats(ctx context.Context, body []byte, schema bool) (*Stats, error) {
	loc := []string{"body"}
	p := newParser(pace.Of(ctx))
	v, err := p.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	m := p.Object(v, loc)
	q := &Stats{zone: "UTC", sample: sampleUsual, end: s.now().UnixMilli()}
	if project := p.Text(m, "project_id", true, loc); project != nil {
		q.Project = *project
	}
	q.start, _ = p.instant(m, "start", true, loc)
	if end, ok := p.instant(m, "end", false, loc); ok {
		q.end = end
	}
	q.types, q.trigger = p.Text(m, "feedback_type", false, loc), p.Text(m, "trigger_ref", false, loc)
	if schema {
		if n, ok := p.Integer(m, "sample_limit", loc); ok {
			if q.sample = n; n < 1 || n > sampleMost {
				p.Refuse("sample_limit must be from 1 to 5000")
			}
		}
	} else {
		if n, ok := p.Integer(m, "granularity", loc); ok {
			q.granularity = int64(n)
		}
		if zone := p.Text(m, "timezone", false, loc); zone != nil {
			q.zone = *zone
		}
		p.metrics(q, m, loc)
	}
	p.Extras(m, loc)
	if err := p.Meter.Err(); err != nil {
		return nil, err
	}
	if len(p.Issues) > 0 {
		return nil, p.Issues
	}
	if _, err := time.LoadLocation(q.zone); err != nil || q.zone == "Local" || q.zone == "" {
		p.Refuse("Unknown timezone")
	}
	if q.end < q.start {
		p.Refuse("end is before start")
	}
	if p.Refusal != nil {
		return q, p.Refusal
	}
	q.granularity = granularity(q.granularity, q.end-q.start, min(maxBuckets, maxStatsAnswer/q.bucketSize()))
	return q, nil
}

// instant takes a point in time, in milliseconds.
func (p *parser) instant(m *form.Members, name string, required bool, loc []string) (ms int64, ok bool) {
	s := p.Text(m, name, required, loc)
	if s == nil {
		return 0, false
	}
	t, ok := query.ParseTime(*s)
	if !ok {
		p.Issue("datetime_parsing", loc, name)
	}
	return t.UnixMilli(), ok
}

// metrics reads the metrics that are asked for.
func (p *parser) metrics(s *Stats, m *form.Members, loc []string) {
	list := p.Take(m, "metrics", false, jsontext.Array, "list_type", loc)
	if list == nil {
		return
	}
	for i, v := range list.PacedElements(p.Meter.Bytes) {
		if i == maxMetrics {
			p.Refuse("More than 50 metrics")
			return
		}
		s.metrics = append(s.metrics, p.metric(v, append(slices.Clip(loc), "metrics", strconv.Itoa(i))))
	}
}

// metric reads one metric.
func (p *parser) metric(v jsontext.Value, loc []string) metric {
	o := p.Object(v, loc)
	mt := metric{kind: "numeric"}
	if path := p.Text(o, "json_path", true, loc); path != nil {
		mt.Field = query.Field{Column: colPayload, Path: p.Path(strings.TrimPrefix(*path, "payload.")), Name: *path}
		mt.slug = strings.ReplaceAll(*path, ".", "_")
	}
	if kind := p.Text(o, "value_type", false, loc); kind != nil {
		mt.kind = *kind
		if _, ok := defaultAggregations[mt.kind]; !ok {
			p.Issue("literal_error", loc, "value_type")
		}
	}
	mt.aggregations = p.aggregations(o, loc)
	mt.percentiles = p.percentiles(o, loc)
	p.Extras(o, loc)
	if mt.aggregations == nil {
		mt.aggregations = defaultAggregations[mt.kind]
	}
	return mt
}

// aggregations reads the aggregations of a metric; nil if the request has none.
func (p *parser) aggregations(m *form.Members, loc []string) (names []string) {
	list := p.Take(m, "aggregations", false, jsontext.Array, "list_type", loc)
	if list == nil {
		return nil
	}
	names = []string{}
	for i, a := range list.PacedElements(p.Meter.Bytes) {
		if i == maxAggregations {
			p.Refuse("A metric has more than 10 aggregations")
			break
		}
		if a.Kind() != jsontext.String || !slices.Contains(aggregations, a.Text()) {
			p.Issue("literal_error", loc, "aggregations", strconv.Itoa(i))
			continue
		}
		names = append(names, a.Text())
	}
	return names
}

// percentiles reads the percentiles of a metric.
func (p *parser) percentiles(m *form.Members, loc []string) (list []float64) {
	given := p.Take(m, "percentiles", false, jsontext.Array, "list_type", loc)
	if given == nil {
		return nil
	}
	for i, a := range given.PacedElements(p.Meter.Bytes) {
		if i == maxPercentiles {
			p.Refuse("A metric has more than 100 percentiles")
			break
		}
		n, ok := query.ParseNumber(string(a))
		if !ok || n.Float < 0 || n.Float > 100 {
			p.Issue("value_error", loc, "percentiles", strconv.Itoa(i))
			continue
		}
		list = append(list, n.Float)
	}
	return list
}

// defaultAggregations are the aggregations of a metric that names none, by value_type.
var defaultAggregations = map[string][]string{
	"numeric": {"avg", "min", "max"}, "boolean": {"count_true", "count_false"}, "categorical": nil,
}

var aggregations = []string{"sum", "avg", "min", "max", "count", "count_true", "count_false"}

// bucketSize is how many bytes of an answer a bucket takes, about.
func (s *Stats) bucketSize() int64 {
	n := int64(len(`{"timestamp":"2026-01-01T00:00:00.000Z","count":1000},`))
	for i := range s.metrics {
		m := &s.metrics[i]
		figure := int64(len(jsontext.AppendString(nil, m.slug)) + len(`"count_false_":-1.7976931348623157e+308,`))
		n += figure * int64(max(1, len(m.aggregations)+len(m.percentiles)))
	}
	return n
}

// granularity is the length of a bucket in seconds: the one that was asked for, or one
// that suits the window. It is longer if there would be more than so many buckets.
func granularity(asked, windowMS, most int64) int64 {
	const hour = 3600
	window := (windowMS + 999) / 1000
	g := asked
	if g <= 0 {
		switch {
		case window <= 2*hour:
			g = 300
		case window <= 12*hour:
			g = hour
		case window <= 3*24*hour:
			g = 6 * hour
		case window <= 14*24*hour:
			g = 12 * hour
		default:
			g = 24 * hour
		}
	}
	return min(max(g, (window+most-1)/most), 1<<40)
}

// sums accumulates the values of a metric.
type sums struct {
	count, yes, no int
	sum, min, max  float64
	values         []float64 // if percentiles are asked for
	sorted         bool      // values are in order
}

func (s *sums) add(m *metric, v query.Value) {
	switch {
	case m.kind == "boolean":
		if v.Kind != query.Bool {
			return
		}
		if v.Bool {
			s.yes++
		} else {
			s.no++
		}
	case m.kind == "categorical":
		if v.Kind <= query.Null || v.Kind == query.Composite {
			return
		}
	default:
		v = query.Convert(v, "double")
		x := v.Num.Float
		if v.Kind != query.Num || math.IsInf(x, 0) {
			return
		}
		if s.count == 0 {
			s.min, s.max = x, x
		}
		s.sum, s.min, s.max = s.sum+x, min(s.min, x), max(s.max, x)
		if len(m.percentiles) > 0 {
			s.values = append(s.values, x)
		}
	}
	s.count++
}

// result is an aggregate; ok is false if there are no values for it.
func (s *sums) result(aggregation string) (x float64, ok bool) {
	switch aggregation {
	case "count":
		return float64(s.count), true
	case "count_true":
		return float64(s.yes), s.count > 0
	case "count_false":
		return float64(s.no), s.count > 0
	case "sum":
		x = s.sum
	case "avg":
		x = s.sum / float64(s.count)
	case "min":
		x = s.min
	case "max":
		x = s.max
	}
	return x, s.count > 0 && !math.IsInf(x, 0) && !math.IsNaN(x)
}

// percentile interpolates linearly between the two nearest values.
func (s *sums) percentile(p float64, m *pace.Meter) (x float64, ok bool) {
	n := len(s.values)
	if n == 0 {
		return 0, false
	}
	if !s.sorted {
		slices.SortFunc(s.values, func(a, b float64) int {
			if m.Spend(10) != nil {
				return 0
			}
			return cmp.Compare(a, b)
		})
		s.sorted = true
	}
	at := p / 100 * float64(n-1)
	i := int(at)
	x = s.values[i]
	if i+1 < n {
		x += (s.values[i+1] - x) * (at - float64(i))
	}
	return x, true
}

// query finds the records of the statistics, of any version of the trigger.
func (s *Stats) query() *Query {
	and := &query.Expr{Op: "$and"}
	add := func(op string, column int, v query.Value) {
		and.Args = append(and.Args, &query.Expr{Op: op, Args: []*query.Expr{{Op: "$getField", Field: query.Field{Column: column}}, {Op: "$literal", Value: v}}})
	}
	add("$gte", colCreated, query.Value{Kind: query.Num, Num: query.Number{Float: float64(s.start) / 1000}})
	add("$lt", colCreated, query.Value{Kind: query.Num, Num: query.Number{Float: float64(s.end) / 1000}})
	if s.types != nil {
		add("$eq", colType, query.Value{Kind: query.Text, Text: *s.types})
	}
	if s.trigger != nil && !strings.HasSuffix(*s.trigger, ":*") {
		add("$eq", colTrigger, query.Value{Kind: query.Text, Text: *s.trigger})
	}
	return &Query{Project: s.Project, where: and}
}

// each calls f with the records of the statistics until f returns false.
func (s *Stats) each(ctx context.Context, r *store.Reader, f func(*Record) bool) error {
	return s.query().scan(ctx, r, 0, func(rec *Record) bool {
		if s.trigger != nil && strings.HasSuffix(*s.trigger, ":*") { // any version
			if rec.Refs.Trigger == nil || !strings.HasPrefix(*rec.Refs.Trigger, strings.TrimSuffix(*s.trigger, "*")) {
				return true
			}
		}
		return f(rec)
	})
}

// figures are the sums of all metrics, for every bucket and for the whole window.
type figures struct {
	meter   *pace.Meter
	step    int64  // milliseconds of a bucket
	counts  []int  // records of each bucket
	buckets []sums // of each bucket, all metrics
	window  []sums // of all metrics
	values  int    // that are kept for percentiles
	ctx     context.Context
	taken   int   // values whose memory is reserved with ctx (package memory)
	err     error // that says why it is not
}

// valueBytes is what a value takes that is kept for percentiles, in a list that grows.
const valueBytes = 20

// take reserves the memory of the values, for some more than there are now.
func (f *figures) take() bool {
	if f.values > f.taken && f.err == nil {
		n := f.values/2 + 4<<10
		if f.err = memory.Take(f.ctx, int64(n)*valueBytes); f.err == nil {
			f.taken += n
		}
	}
	return f.err == nil
}

// newFigures reserves the memory of the buckets and of the answer before it makes them.
func (s *Stats) newFigures(ctx context.Context) *figures {
	f := &figures{meter: pace.Of(ctx), ctx: ctx, step: s.granularity * 1000}
	if len(s.metrics) > 0 {
		n := int((s.end - s.start + f.step - 1) / f.step)
		each := int64(len(s.metrics))*int64(unsafe.Sizeof(sums{})) + s.bucketSize()
		if f.err = memory.Take(ctx, int64(n+1)*each); f.err != nil {
			return f
		}
		f.counts, f.buckets, f.window = make([]int, n), make([]sums, n*len(s.metrics)), make([]sums, len(s.metrics))
	}
	return f
}

// bucket is the sums of a bucket.
func (f *figures) bucket(i int) []sums { return f.buckets[i*len(f.window):][:len(f.window)] }

// add adds a record. It returns false if that is not possible: the meter has stopped the
// work, too many values would be kept, or there is no memory for them.
func (f *figures) add(s *Stats, rec *Record) bool {
	i := int((rec.CreatedAt - s.start) / f.step)
	f.counts[i]++
	for k := range s.metrics {
		m := &s.metrics[k]
		v := rec.Value(&m.Field, f.meter)
		f.bucket(i)[k].add(m, v)
		f.window[k].add(m, v)
		if len(m.percentiles) > 0 {
			f.values += 2
		}
	}
	return f.meter.Err() == nil && f.values <= maxStatsValues && f.take()
}

// Stats returns the answer to a request for statistics.
func (s *Store) Stats(ctx context.Context, q *Stats) ([]byte, error) {
	f := q.newFigures(ctx)
	if len(q.metrics) > 0 && f.err == nil {
		if err := s.viewWhole(func(r *store.Reader) error {
			return q.each(ctx, r, func(rec *Record) bool { return f.add(q, rec) })
		}); FirstError(err, f.meter.Err()) != nil {
			return nil, FirstError(err, f.meter.Err())
		}
		if f.values > maxStatsValues {
			return nil, refuse("Too many values for percentiles; narrow the window")
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	out := append(append([]byte(`{"start":"`), timeText(q.start)...), `","end":"`...)
	out = append(append(out, timeText(q.end)...), `","granularity":`...)
	out = strconv.AppendInt(out, q.granularity, 10)
	out = jsontext.AppendString(append(out, `,"timezone":`...), q.zone)
	out = append(out, `,"buckets":[`...)
	for i, n := range f.counts {
		before := len(out)
		out = append(out, ",{"[b2i(i == 0):]...)
		out = append(append(append(out, `"timestamp":"`...), timeText(q.start+int64(i)*f.step)...), `","count":`...)
		out = strconv.AppendInt(out, int64(n), 10)
		for k := range q.metrics {
			m := &q.metrics[k]
			out = trimComma(f.bucket(i)[k].appendJSON(append(out, ','), m, "_"+m.slug, f.meter))
		}
		out = append(out, '}')
		if err := f.meter.Spend(len(out) - before); err != nil {
			return nil, err
		}
	}
	out = append(out, `],"window_stats":{`...)
	for k := range q.metrics {
		m := &q.metrics[k]
		if k > 0 {
			out = append(out, ',')
		}
		out = append(jsontext.AppendString(out, m.slug), `:{`...)
		out = append(trimComma(f.window[k].appendJSON(out, m, "", f.meter)), '}')
	}
	return append(out, `}}`...), f.meter.Err()
}

// appendJSON appends the aggregates of a metric, each followed by a comma.
func (s *sums) appendJSON(dst []byte, m *metric, suffix string, meter *pace.Meter) []byte {
	put := func(name string, x float64, ok bool) {
		dst = append(jsontext.AppendString(dst, name+suffix), ':')
		if ok {
			dst = strconv.AppendFloat(dst, x, 'g', -1, 64)
		} else {
			dst = append(dst, "null"...)
		}
		dst = append(dst, ',')
	}
	for _, a := range m.aggregations {
		x, ok := s.result(a)
		put(a, x, ok)
	}
	for _, p := range m.percentiles {
		x, ok := s.percentile(p, meter)
		put("p"+strconv.FormatFloat(p, 'g', -1, 64), x, ok)
	}
	return dst
}

func trimComma(b []byte) []byte {
	if b[len(b)-1] == ',' {
		return b[:len(b)-1]
	}
	return b
}
