package trajectoryapi

import (
	"context"
	"errors"
	"io"
	"slices"

	"weir/auth"
	"weir/server/transport"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// listTrajectories answers GET …/trajectories. The page is found by what is known
// without the texts; those are read as the answer is written.
func (h *Handlers) listTrajectories(c *transport.Call, model string) {
	if !h.allowed(c, auth.Read) {
		return
	}
	q, err := query(c, true, pages, details)
	if err != nil {
		c.Fail(err)
		return
	}
	if q.include == nil {
		q.include = map[string]bool{"messages": true}
	}
	tenant := c.Who.Tenant
	c.Download("application/json", func(ctx context.Context, w io.Writer) error {
		return h.cfg.Archive.Query(ctx, tenant, func(v *archive.View) error {
			return writePage(w, v, model, q)
		})
	})
}

// writePage writes the page that q selects.
func writePage(w io.Writer, v *archive.View, model string, q *selection) error {
	if err := v.Known(model); err != nil {
		return err
	}
	if err := v.Reserve(hitBytes * int64(q.limit+1)); err != nil {
		return err
	}
	hits, err := findPage(v, model, q)
	if err != nil {
		return err
	}
	p := page{more: len(hits) > q.limit}
	var contents *archive.Contents
	room := v.Room()
	w = export.Paced(w, v) // so that the answer does not hold an entry once more
	for _, found := range hits[:min(len(hits), q.limit)] {
		if contents == nil || contents.Batch != found.batch {
			contents = v.Open(found.batch)
		}
		p.entry(export.TrajectoryID(found.batch, &found.row))
		if p.d, err = appendTrajectory(p.d, v, contents, &found.row, q.include, room); err != nil {
			return err
		}
		if _, err := w.Write(p.d); err != nil {
			return err
		}
		p.d = p.d[:0]
	}
	_, err = w.Write(p.end())
	return err
}

// hit is a trajectory of a page.
type hit struct {
	batch *archive.Batch
	row   archive.Row
}

// hitBytes is about what a hit takes with its finish reasons, its batch and the page's lists.
const hitBytes = 1 << 10

func newHit(b *archive.Batch, r *archive.Row) hit {
	h := hit{b, *r}
	h.row.Metrics, h.row.Metadata = nil, nil // the text has them
	return h
}

// findPage returns the trajectories of a page, and one more if there is one.
func findPage(v *archive.View, model string, q *selection) (hits []hit, err error) {
	var after place
	begin := archive.ID{}
	if q.after != "" {
		var ok bool
		if after, ok = parsePlace(q.after); !ok {
			return nil, wrong("after", "value_error")
		}
		// Its own batch is looked at again: some of it may come after the cursor.
		if b, err := v.Batch(model, after.log); err == nil {
			if hits, err = findIn(v.Open(b), q, &after, q.limit+1); err != nil {
				return nil, err
			}
		} else if !errors.Is(err, archive.ErrNotFound) {
			return nil, err
		}
		begin = after.log
	}
	var bad error
	err = v.Batches(model, begin, q.backwards, func(b *archive.Batch) bool {
		if len(hits) > q.limit {
			return false
		}
		var more []hit
		more, bad = findIn(v.Open(b), q, nil, q.limit+1-len(hits))
		hits = append(hits, more...)
		return bad == nil
	})
	return hits, errors.Join(err, bad)
}

var errEnough = errors.New("trajectoryapi: the page is full")

// findIn returns at most so many selected trajectories of a batch: the first after a
// place, or, if the list is in descending order, the last before it. Without a place
// all of the batch is looked at.
func findIn(c *archive.Contents, q *selection, after *place, most int) (hits []hit, err error) {
	at := 0 // of the oldest in hits, once there are most: it is a ring then
	err = c.Visit(&q.Filter, archive.Visitor{Trajectory: func(r *archive.Row) error {
		if after != nil {
			follows := after.compare(r.Group, r.Index) < 0
			if q.backwards {
				follows = after.compare(r.Group, r.Index) > 0
			}
			if !follows {
				return nil
			}
		}
		switch {
		case len(hits) < most:
			hits = append(hits, newHit(c.Batch, r))
		case q.backwards:
			hits[at] = newHit(c.Batch, r)
			at = (at + 1) % most
		default:
			return errEnough
		}
		return nil
	}})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if q.backwards {
		hits = slices.Concat(hits[at:], hits[:at])
		slices.Reverse(hits)
	}
	return hits, err
}
