package feedback

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/pace"
	"weir/internal/query"
	"weir/store"
)

// Aggregate asks for sums of scores over time (docs/interface/feedback.md, section 8.9).
type Aggregate struct {
	Project       string
	after, before int64 // milliseconds, [after, before)
	bucket        int64 // milliseconds; 0: all is one bucket
	groupBy       []string

	types, scorers, monitors []string // prefixes, and names that may end in *
	agents, tags, spans      []string
	least, most              *float64
}

const (
	// maxGroups bounds the rows of an answer, and maxGroupNames the tags and ratings of one.
	maxGroups     = 10_000
	maxGroupNames = 1_000
	maxNames      = 1_000
)

// dimensions are what records can be grouped by.
var dimensions = []string{"scorer_id", "span_agent_name", "span_agent_version", "span_status_code"}

// DecodeAggregate reads the body of a request for sums. The error is that of DecodeRequest; a
// *Refusal comes with the request.
func (s *Store) DecodeAggregate(ctx context.Context, body []byte) (*Aggregate, error) {
	loc := []string{"body"}
	p := newParser(pace.Of(ctx))
	v, err := p.Scan(body, maxDepth)
	if err != nil {
		return nil, err
	}
	m := p.Object(v, loc)
	q := &Aggregate{}
	if project := p.Text(m, "project_id", true, loc); project != nil {
		q.Project = *project
	}
	for _, f := range []struct {
		name string
		to   *int64
	}{{"after_ms", &q.after}, {"before_ms", &q.before}} {
		if m != nil && !m.Has(f.name) {
			p.Issue("missing", loc, f.name)
		}
		n, _ := p.Integer(m, f.name, loc)
		*f.to = int64(n)
	}
	if n, ok := p.Integer(m, "time_bucket_seconds", loc); ok {
		if q.bucket = int64(n) * 1000; n == 0 || n > 1<<40 {
			p.Refuse("time_bucket_seconds must be positive")
		}
	}
	for _, f := range []struct {
		name string
		to   *[]string
		of   []string
	}{
		{"group_by", &q.groupBy, dimensions}, {"feedback_types", &q.types, nil}, {"scorer_ids", &q.scorers, nil}, {"monitor_ids", &q.monitors, nil},
		{"span_agent_names", &q.agents, nil}, {"tags", &q.tags, nil}, {"span_types", &q.spans, []string{kindTurn, kindConversation}},
	} {
		*f.to = p.nameList(m, f.name, f.of, loc)
	}
	q.least, q.most = p.float(m, "rating_min", loc), p.float(m, "rating_max", loc)
	p.Extras(m, loc)
	switch {
	case q.before < q.after:
		p.Refuse("before_ms is before after_ms")
	case q.bucket > 0 && (q.before-q.after)/q.bucket > maxBuckets:
		p.Refuse("Too many time buckets; at most 10000 are answered")
	}
	return q, p.End()
}

// nameList takes a list of names, which have to be among of, if that is not nil.
func (p *parser) nameList(m *form.Members, name string, of, loc []string) (out []string) {
	list := p.Take(m, name, false, jsontext.Array, "list_type", loc)
	for i, v := range list.PacedElements(p.Meter.Bytes) {
		switch {
		case i == maxNames:
			p.Refuse(name + " has more than 1000 elements")
			return out
		case v.Kind() != jsontext.String:
			p.Issue("string_type", loc, name, strconv.Itoa(i))
		case of != nil && !slices.Contains(of, v.Text()):
			p.Issue("literal_error", loc, name, strconv.Itoa(i))
		default:
			out = append(out, v.Text())
		}
	}
	return out
}

func (p *parser) float(m *form.Members, name string, loc []string) *float64 {
	v := p.Take(m, name, false, jsontext.Number, "float_type", loc)
	if v == nil {
		return nil
	}
	n, _ := query.ParseNumber(string(v))
	return &n.Float
}

// scoreSums are the sums of one bucket and group.
type scoreSums struct {
	start  int64
	group  []string
	total  int
	scored int
	tags   map[string]int
	counts map[string]int
	sums   map[string]float64
}

// matches reports whether a record is to be summed up, and what its ratings are.
func (q *Aggregate) matches(rec *Record) (ratings map[string]float64, tags []string, ok bool) {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	prefix := func(list []string, s string) bool {
		return list == nil || slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(s, p) })
	}
	named := func(list []string, s string) bool {
		return list == nil || slices.ContainsFunc(list, func(p string) bool {
			start, any := strings.CutSuffix(p, "*")
			return s == p || any && strings.HasPrefix(s, start)
		})
	}
	if !prefix(q.types, rec.Type) || !named(q.scorers, text(rec.Refs.Runnable)) || !named(q.monitors, text(rec.Refs.Trigger)) {
		return nil, nil, false
	}
	if q.agents != nil && !slices.Contains(q.agents, rec.weaveColumn("span_agent_name").Text()) {
		return nil, nil, false
	}
	if q.spans != nil {
		if r, why := parseRef(rec.TraceRef); why != "" || !slices.Contains(q.spans, r.kind) {
			return nil, nil, false
		}
	}
	for _, v := range rec.weaveColumn("scorer_tags").Elements() {
		tags = append(tags, v.Text())
	}
	if q.tags != nil && !slices.ContainsFunc(tags, func(t string) bool { return slices.Contains(q.tags, t) }) {
		return nil, nil, false
	}
	ratings = map[string]float64{}
	within := q.least == nil && q.most == nil
	for name, v := range rec.weaveColumn("scorer_ratings").Members() {
		x, ok := v.Float()
		if !ok {
			continue
		}
		ratings[string(name)] = x
		within = within || (q.least == nil || x >= *q.least) && (q.most == nil || x <= *q.most)
	}
	return ratings, tags, within
}

// Aggregate answers a request for sums: one row for each bucket of time and group that has
// records.
func (s *Store) Aggregate(ctx context.Context, q *Aggregate) ([]byte, error) {
	meter := pace.Of(ctx)
	rows := map[string]*scoreSums{}
	tooMany := false
	window := &Stats{Project: q.Project, start: q.after, end: q.before}
	err := s.viewWhole(func(r *store.Reader) error {
		return window.each(ctx, r, func(rec *Record) bool {
			ratings, tags, ok := q.matches(rec)
			if !ok || rec.CreatedAt < q.after || rec.CreatedAt >= q.before {
				return meter.Spend(len(rec.Weave)+pace.Compare) == nil
			}
			tooMany = tooMany || !q.add(rows, rec, ratings, tags)
			return meter.Spend(2*len(rec.Weave)+pace.Row) == nil && !tooMany
		})
	})
	switch {
	case FirstError(err, meter.Err()) != nil:
		return nil, FirstError(err, meter.Err())
	case tooMany:
		return nil, refuse("Too many groups, tags or ratings; narrow the request")
	}
	return q.answer(rows), nil
}

// add adds a record. It returns false if there is too much to be answered.
func (q *Aggregate) add(rows map[string]*scoreSums, rec *Record, ratings map[string]float64, tags []string) bool {
	row := &scoreSums{}
	if q.bucket > 0 {
		row.start = q.after + (rec.CreatedAt-q.after)/q.bucket*q.bucket
	}
	key := strconv.FormatInt(row.start, 10)
	for _, name := range q.groupBy {
		v := ""
		if name == "scorer_id" {
			if rec.Refs.Runnable != nil {
				v = *rec.Refs.Runnable
			}
		} else {
			v = rec.weaveColumn(name).Text()
		}
		row.group = append(row.group, strings.Clone(v))
		key += "\x00" + v
	}
	if old := rows[key]; old != nil {
		row = old
	} else {
		if len(rows) == maxGroups {
			return false
		}
		row.tags, row.counts, row.sums = map[string]int{}, map[string]int{}, map[string]float64{}
		rows[key] = row
	}
	row.total++
	row.scored += b2i(len(ratings)+len(tags) > 0)
	for _, t := range tags {
		row.tags[t]++
	}
	for name, x := range ratings {
		row.counts[name]++
		row.sums[name] += x
	}
	return len(row.tags) <= maxGroupNames && len(row.counts) <= maxGroupNames
}

// answer is the answer with rows, by time and group.
func (q *Aggregate) answer(rows map[string]*scoreSums) []byte {
	list := make([]*scoreSums, 0, len(rows))
	for _, row := range rows {
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b *scoreSums) int {
		if a.start != b.start {
			return int(min(max(a.start-b.start, -1), 1))
		}
		return slices.Compare(a.group, b.group)
	})
	out := strconv.AppendInt([]byte(`{"after_ms":`), q.after, 10)
	out = strconv.AppendInt(append(out, `,"before_ms":`...), q.before, 10)
	out = append(out, `,"time_bucket_seconds":`...)
	if q.bucket > 0 {
		out = strconv.AppendInt(out, q.bucket/1000, 10)
	} else {
		out = append(out, "null"...)
	}
	out = append(out, `,"buckets":[`...)
	for i, row := range list {
		out = append(out, ",{"[b2i(i == 0):]...)
		out = append(out, `"time_bucket_start_ms":`...)
		if q.bucket > 0 {
			out = strconv.AppendInt(out, row.start, 10)
		} else {
			out = append(out, "null"...)
		}
		out = append(out, `,"group":{`...)
		for k, name := range q.groupBy {
			if k > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, '"'), name...), '"', ':')
			out = jsontext.AppendString(out, row.group[k])
		}
		out = strconv.AppendInt(append(out, `},"total_count":`...), int64(row.total), 10)
		out = strconv.AppendInt(append(out, `,"scored_count":`...), int64(row.scored), 10)
		out = appendMap(append(out, `,"tag_counts":`...), row.tags, func(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) })
		out = appendMap(append(out, `,"rating_counts":`...), row.counts, func(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) })
		out = appendMap(append(out, `,"rating_sums":`...), row.sums, func(dst []byte, x float64) []byte { return strconv.AppendFloat(dst, x, 'g', -1, 64) })
		out = append(out, '}')
	}
	return append(out, "]}"...)
}

// appendMap appends a map as a JSON object, by name.
func appendMap[T any](dst []byte, m map[string]T, value func([]byte, T) []byte) []byte {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = value(append(jsontext.AppendString(dst, name), ':'), m[name])
	}
	return append(dst, '}')
}
