package server

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/auth"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// read is what the reading functions have in common: the right to read, the query,
// a model that is known, and one snapshot.
func (s *Server) read(c *transport.Call, model string, filtered bool, f func(q *selection, v *archive.View) error, own ...string) {
	if !s.allowed(c, auth.Read) {
		return
	}
	q, err := query(c, filtered, own...)
	if err == nil {
		err = s.cfg.Trajectories.Archive.View(c.Who.Tenant, func(v *archive.View) error {
			if model != "" {
				if err := v.Known(model); err != nil {
					return err
				}
			}
			return f(q, v)
		})
	}
	if err != nil {
		c.Fail(err)
	}
}

// page encodes a list in the cursor form of section 11.
type page struct {
	d           []byte
	n           int
	first, last string
	more        bool
}

func (p *page) entry(id string) {
	if p.n++; p.n == 1 {
		p.first = id
		p.d = append(p.d, `{"object":"list","data":[`...)
	} else {
		p.d = append(p.d, ',')
	}
	p.last = id
}

// end appends what follows the entries.
func (p *page) end() []byte {
	if p.n == 0 {
		return append(p.d, `{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false}`...)
	}
	d := api.AppendString(append(p.d, `],"first_id":`...), p.first)
	d = api.AppendString(append(d, `,"last_id":`...), p.last)
	return append(strconv.AppendBool(append(d, `,"has_more":`...), p.more), '}')
}

// previewModels answers GET /v1/preview/models.
func (s *Server) previewModels(c *transport.Call) {
	s.read(c, "", false, func(q *selection, v *archive.View) error {
		var all []*archive.Model
		if err := v.Models(func(m *archive.Model) bool {
			if c.Who.MayUse(m.Name) {
				all = append(all, m)
			}
			return true
		}); err != nil {
			return err
		}
		// The newest are the last by name: models have no order of their own.
		if q.backwards {
			slices.Reverse(all)
		}
		if q.after != "" {
			i := slices.IndexFunc(all, func(m *archive.Model) bool { return m.Name == q.after })
			if i < 0 {
				return wrong("after", "value_error")
			}
			all = all[i+1:]
		}
		p := page{more: len(all) > q.limit}
		for _, m := range all[:min(len(all), q.limit)] {
			p.entry(m.Name)
			p.d = appendModel(p.d, m)
		}
		c.Reply(p.end())
		return nil
	}, pages)
}

func appendModel(d []byte, m *archive.Model) []byte {
	d = api.AppendString(append(d, `{"id":`...), m.Name)
	d = append(d, `,"object":"model","splits":[`...)
	for i, name := range m.Splits {
		if i > 0 {
			d = append(d, ',')
		}
		d = api.AppendString(d, name)
	}
	d = strconv.AppendInt(append(d, `],"logs":`...), int64(m.Batches), 10)
	d = appendCounts(d, m.Counts)
	d = strconv.AppendInt(append(d, `,"bytes":`...), m.Bytes, 10)
	d = append(m.First.AppendFormat(append(d, `,"first_received_at":"`...), export.TimeFormat), '"')
	d = append(m.Last.AppendFormat(append(d, `,"last_received_at":"`...), export.TimeFormat), '"')
	d = export.AppendInt(append(d, `,"min_policy_version":`...), trajectory.Int{N: m.Versions.Min, Given: m.Versions.Given})
	d = export.AppendInt(append(d, `,"max_policy_version":`...), trajectory.Int{N: m.Versions.Max, Given: m.Versions.Given})
	return append(d, '}')
}

// listLogs answers GET …/logs: receipts and the metrics of each batch.
func (s *Server) listLogs(c *transport.Call, model string) {
	s.read(c, model, true, func(q *selection, v *archive.View) error {
		after := archive.ID{}
		if q.after != "" {
			var ok bool
			if after, ok = archive.ParseID(q.after); !ok {
				return wrong("after", "value_error")
			}
		}
		p := page{}
		var bad error
		err := v.Batches(model, after, q.backwards, func(b *archive.Batch) bool {
			stats, selected, err := batchStats(v.Open(b), &q.Filter)
			if err != nil && !errors.Is(err, archive.ErrDamaged) {
				bad = err
				return false
			}
			if err == nil && !selected {
				return true
			}
			if p.n == q.limit {
				p.more = true
				return false
			}
			p.entry(b.ID.String())
			p.d = appendReceipt(p.d, model, &b.Receipt)
			p.d = export.AppendInt(append(p.d, `,"step":`...), b.Step)
			if err != nil {
				s.log.Error("a batch is damaged", "id", c.RequestID, "log", b.ID, "error", err)
				p.d = append(p.d, `,"error":"what is stored is damaged"}`...)
				return true
			}
			p.d = append(appendSummary(append(p.d, ','), b.Split, stats.Summary()), '}')
			return true
		})
		if err = errors.Join(err, bad); err == nil {
			c.Reply(p.end())
		}
		return err
	}, pages)
}

// batchStats gathers the metrics of what is selected of a batch.
func batchStats(c *archive.Contents, f *archive.Filter) (stats *trajectory.Stats, selected bool, err error) {
	stats = new(trajectory.Stats)
	end := func() {}
	err = c.Visit(f, archive.Visitor{
		Group: func(g *archive.GroupRow) error {
			end()
			exceptions, metrics := g.Exceptions, g.Metrics
			selected, end = true, func() { stats.Group(exceptions, metrics) }
			return nil
		},
		Trajectory: func(r *archive.Row) error { stats.Trajectory(&r.Facts); return nil },
	})
	end()
	return stats, selected, err
}

// appendSummary appends the members of a summary, the metrics under the
// reference's names.
func appendSummary(d []byte, split string, m trajectory.Summary) []byte {
	d = append(d, `"reward":`...)
	if r := m.Reward; r == nil {
		d = append(d, "null"...)
	} else {
		d = trajectory.AppendFloat(append(d, `{"min":`...), r.Min)
		d = trajectory.AppendFloat(append(d, `,"p10":`...), r.P10)
		d = trajectory.AppendFloat(append(d, `,"p50":`...), r.P50)
		d = trajectory.AppendFloat(append(d, `,"p90":`...), r.P90)
		d = trajectory.AppendFloat(append(d, `,"max":`...), r.Max)
		d = append(d, '}')
	}
	d = appendFloatOr(append(d, `,"zero_spread_groups":`...), m.Flat)
	d = append(d, `,"completion_tokens":`...)
	if m.Tokens == nil {
		d = append(d, "null"...)
	} else {
		d = strconv.AppendInt(d, *m.Tokens, 10)
	}
	d = appendFloatOr(append(d, `,"truncated":`...), m.Truncated)
	d = append(d, `,"metrics":{`...)
	for i, s := range m.Metrics {
		if i > 0 {
			d = append(d, ',')
		}
		d = append(api.AppendString(d, split+"/"+s.Name), ':')
		d = trajectory.AppendFloat(d, s.Value)
	}
	return append(d, '}')
}

func appendFloatOr(d []byte, x *float64) []byte {
	if x == nil {
		return append(d, "null"...)
	}
	return trajectory.AppendFloat(d, *x)
}

// trajectoryMetrics answers GET …/metrics: section 10 over a selection, for each
// split and, with group_by, each group of trajectories.
func (s *Server) trajectoryMetrics(c *transport.Call, model string) {
	s.read(c, model, true, func(q *selection, v *archive.View) error {
		books := newBooks(q.groupBy)
		var bad error
		err := v.Batches(model, archive.ID{}, false, func(b *archive.Batch) bool {
			bad = books.batch(v.Open(b), &q.Filter)
			return bad == nil
		})
		if err = errors.Join(err, bad); err == nil {
			c.Reply(books.encode())
		}
		return err
	}, groupings)
}

// books are the metrics of several sets of trajectories.
type books struct {
	by  string
	all map[bookKey]*trajectory.Stats
}

type bookKey struct {
	split, name string
	version     trajectory.Int
}

func newBooks(by string) *books { return &books{by: by, all: make(map[bookKey]*trajectory.Stats)} }

// key is where a trajectory counts; r is nil for a group without any.
func (k *books) key(b *archive.Batch, r *archive.Row) bookKey {
	key := bookKey{split: b.Split}
	switch k.by {
	case "log":
		key.name = b.ID.String()
	case "hour":
		key.name = b.Received.Truncate(time.Hour).Format(time.RFC3339)
	case "day":
		key.name = b.Received.Format(time.DateOnly)
	case "policy_version":
		if r != nil {
			key.version = r.Version()
		}
	}
	return key
}

func (k *books) stats(key bookKey) *trajectory.Stats {
	if k.all[key] == nil {
		k.all[key] = new(trajectory.Stats)
	}
	return k.all[key]
}

// batch counts what is selected of a batch. A group that is divided between sets
// counts in each of them; its exceptions and metrics count in that of its first
// trajectory.
func (k *books) batch(c *archive.Contents, f *archive.Filter) error {
	var g *archive.GroupRow
	var touched []bookKey
	end := func() {
		if g == nil {
			return
		}
		if touched == nil {
			touched = []bookKey{k.key(c.Batch, nil)}
		}
		for i, key := range touched {
			if i == 0 {
				k.stats(key).Group(g.Exceptions, g.Metrics)
			} else {
				k.stats(key).Group(0, nil)
			}
		}
	}
	err := c.Visit(f, archive.Visitor{
		Group: func(next *archive.GroupRow) error {
			end()
			row := *next
			g, touched = &row, nil
			return nil
		},
		Trajectory: func(r *archive.Row) error {
			key := k.key(c.Batch, r)
			if !slices.Contains(touched, key) {
				touched = append(touched, key)
			}
			k.stats(key).Trajectory(&r.Facts)
			return nil
		},
	})
	end()
	return err
}

// compareVersions orders versions, none first.
func compareVersions(a, b trajectory.Int) int {
	switch {
	case a.Given == b.Given:
		return cmp.Compare(a.N, b.N)
	case b.Given:
		return -1
	}
	return 1
}

func (k *books) encode() []byte {
	keys := make([]bookKey, 0, len(k.all))
	for key := range k.all {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b bookKey) int {
		return cmp.Or(strings.Compare(a.name, b.name), compareVersions(a.version, b.version), strings.Compare(a.split, b.split))
	})
	d := []byte(`{"object":"list","data":[`)
	for i, key := range keys {
		if i > 0 {
			d = append(d, ',')
		}
		d = append(d, `{"key":`...)
		switch k.by {
		case "":
			d = append(d, "null"...)
		case "policy_version":
			d = export.AppendInt(d, key.version)
		default:
			d = api.AppendString(d, key.name)
		}
		d = api.AppendString(append(d, `,"split":`...), key.split)
		m := k.all[key].Summary()
		d = appendCounts(d, m.Counts)
		d = append(appendSummary(append(d, ','), key.split, m), '}')
	}
	return append(d, "]}"...)
}

// exportTrajectories answers GET …/export. It streams: an answer that ends early
// ends with its connection, never with less than was selected.
func (s *Server) exportTrajectories(c *transport.Call, model string) {
	if !s.allowed(c, auth.Read) {
		return
	}
	a := s.cfg.Trajectories.Archive
	q, err := query(c, true, downloads)
	if err == nil {
		err = a.View(c.Who.Tenant, func(v *archive.View) error { return v.Known(model) })
	}
	if err != nil {
		c.Fail(err)
		return
	}
	contentType, extension := q.form.Media()
	encoding := acceptedEncoding(string(c.Request.Header.Peek("Accept-Encoding")))
	h := &c.Response.Header
	h.Set("Content-Disposition", `attachment; filename="`+export.FileName(model)+extension+`"`)
	h.Add("Vary", "Accept-Encoding") // Origin may be there
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	tenant := c.Who.Tenant
	c.Download(contentType, func(w io.Writer) error {
		z, err := compressed(w, encoding)
		if err != nil {
			return err
		}
		if err := a.View(tenant, func(v *archive.View) error {
			return export.Write(z, v, model, &q.Filter, export.Options{Format: q.form, DropLogprobs: q.noLogprobs, TempDir: s.cfg.Trajectories.Spool})
		}); err != nil {
			return err
		}
		return z.Close()
	})
}

// acceptedEncoding chooses what an answer is compressed with; "": nothing.
func acceptedEncoding(header string) string {
	best := ""
	for part := range strings.SplitSeq(header, ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		q = strings.ReplaceAll(strings.TrimSpace(q), " ", "")
		if strings.Trim(strings.TrimPrefix(q, "q="), "0.") == "" && q != "" {
			continue // q=0: not that one
		}
		switch name = strings.ToLower(strings.TrimSpace(name)); {
		case name == "zstd":
			return name
		case name == "gzip":
			best = name
		}
	}
	return best
}

func compressed(w io.Writer, encoding string) (io.WriteCloser, error) {
	switch encoding {
	case "gzip":
		return gzip.NewWriter(w), nil
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	}
	return asIs{w}, nil
}

type asIs struct{ io.Writer }

func (asIs) Close() error { return nil }

// deleteLog answers DELETE …/logs/{log_id}.
func (s *Server) deleteLog(c *transport.Call, model string) {
	s.remove(c, func(q *selection) ([]byte, error) {
		id, ok := archive.ParseID(segment(c, 1))
		if !ok {
			return nil, archive.ErrNotFound
		}
		counts, err := s.cfg.Trajectories.Archive.DeleteBatch(c.Context(), c.Who.Tenant, model, id)
		d := api.AppendString([]byte(`{"id":`), id.String())
		return append(appendCounts(append(d, `,"object":"trajectory_log.deleted","deleted":true`...), counts), '}'), err
	}, false)
}

// deleteModel answers DELETE /v1/preview/models/{model_id}.
func (s *Server) deleteModel(c *transport.Call, model string) {
	s.remove(c, func(q *selection) ([]byte, error) {
		counts, err := s.cfg.Trajectories.Archive.DeleteModel(c.Context(), c.Who.Tenant, model)
		d := api.AppendString([]byte(`{"id":`), model)
		return append(appendCounts(append(d, `,"object":"model.deleted","deleted":true`...), counts), '}'), err
	}, false)
}

// deleteTrajectories answers DELETE …/trajectories?<filters>.
func (s *Server) deleteTrajectories(c *transport.Call, model string) {
	s.remove(c, func(q *selection) ([]byte, error) {
		if !q.dry && q.confirm != model {
			code := "value_error"
			if q.confirm == "" {
				code = "missing"
			}
			return nil, invalid([]string{"query", "confirm"}, code, "Value error, want the id of the model")
		}
		n, err := s.cfg.Trajectories.Archive.Delete(c.Context(), c.Who.Tenant, model, &q.Filter, q.dry)
		d := strconv.AppendInt([]byte(`{"object":"trajectories.deleted","trajectories":`), int64(n), 10)
		return append(strconv.AppendBool(append(d, `,"dry_run":`...), q.dry), '}'), err
	}, true, deletions)
}

func (s *Server) remove(c *transport.Call, f func(*selection) ([]byte, error), filtered bool, own ...string) {
	if !s.allowed(c, auth.Write) {
		return
	}
	q, err := query(c, filtered, own...)
	var answer []byte
	if err == nil {
		answer, err = f(q)
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, string(answer))
}
