package trajectoryapi

import (
	"errors"
	"strconv"

	"weir/api"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// listLogs answers GET …/logs: receipts and the metrics of each batch.
func (h *Handlers) listLogs(c *transport.Call, model string) {
	h.read(c, model, true, func(q *selection, v *archive.View) error {
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
			if err != nil {
				bad = err
				return false
			}
			if !selected {
				return true
			}
			if p.n == q.limit {
				p.more = true
				return false
			}
			p.entry(b.ID.String())
			p.d = appendReceipt(p.d, model, &b.Receipt)
			p.d = export.AppendInt(append(p.d, `,"step":`...), b.Step)
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

func appendReceipt(d []byte, model string, r *archive.Receipt) []byte {
	d = api.AppendString(append(d, `{"id":`...), r.ID.String())
	d = api.AppendString(append(d, `,"object":"trajectory_log","model_id":`...), model)
	d = api.AppendString(append(d, `,"split":`...), r.Split)
	d = append(r.Received.AppendFormat(append(d, `,"received_at":"`...), export.TimeFormat), '"')
	d = appendCounts(d, r.Counts)
	return strconv.AppendInt(append(d, `,"bytes":`...), r.Bytes, 10)
}

func appendCounts(d []byte, n trajectory.Counts) []byte {
	d = strconv.AppendInt(append(d, `,"groups":`...), int64(n.Groups), 10)
	d = strconv.AppendInt(append(d, `,"trajectories":`...), int64(n.Trajectories), 10)
	return strconv.AppendInt(append(d, `,"exceptions":`...), int64(n.Exceptions), 10)
}
