package server

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/auth"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// place is where a trajectory is among those of its model.
type place struct {
	log          archive.ID
	group, index int
}

func parsePlace(s string) (p place, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return p, false
	}
	if p.log, ok = archive.ParseID(parts[0]); !ok {
		return p, false
	}
	if p.group, ok = ordinal(parts[1]); !ok {
		return p, false
	}
	p.index, ok = ordinal(parts[2])
	return p, ok
}

func ordinal(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == s
}

// compare orders places of one batch.
func (p place) compare(group, index int) int {
	if p.group != group {
		return p.group - group
	}
	return p.index - index
}

// hit is a trajectory of a page.
type hit struct {
	batch *archive.Batch
	row   archive.Row
}

func newHit(b *archive.Batch, r *archive.Row) hit {
	h := hit{b, *r}
	h.row.Metrics, h.row.Metadata = nil, nil // the text has them
	return h
}

// listTrajectories answers GET …/trajectories. The page is found by what is known
// without the texts; those are read as the answer is written.
func (s *Server) listTrajectories(c *transport.Call, model string) {
	if !s.allowed(c, auth.Read) {
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
	c.Download("application/json", func(w io.Writer) error {
		return s.cfg.Trajectories.Archive.View(tenant, func(v *archive.View) error {
			if err := v.Known(model); err != nil {
				return err
			}
			hits, err := s.page(v, model, q)
			if err != nil {
				return err
			}
			p := page{more: len(hits) > q.limit}
			var contents *archive.Contents
			for _, h := range hits[:min(len(hits), q.limit)] {
				if contents == nil || contents.Batch != h.batch {
					contents = v.Open(h.batch)
				}
				p.entry(export.TrajectoryID(h.batch, &h.row))
				p.d = s.appendTrajectory(p.d, contents, &h.row, q.include)
				if _, err := w.Write(p.d); err != nil {
					return err
				}
				p.d = p.d[:0]
			}
			_, err = w.Write(p.end())
			return err
		})
	})
}

// page returns the trajectories of a page, and one more if there is one.
func (s *Server) page(v *archive.View, model string, q *selection) (hits []hit, err error) {
	var after place
	begin := archive.ID{}
	if q.after != "" {
		var ok bool
		if after, ok = parsePlace(q.after); !ok {
			return nil, wrong("after", "value_error")
		}
		// Its own batch is looked at again: some of it may be behind the cursor.
		if b, err := v.Batch(model, after.log); err == nil {
			if hits, err = s.findIn(v.Open(b), q, &after, q.limit+1); err != nil {
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
		more, bad = s.findIn(v.Open(b), q, nil, q.limit+1-len(hits))
		hits = append(hits, more...)
		return bad == nil
	})
	return hits, errors.Join(err, bad)
}

var errEnough = errors.New("server: the page is full")

// findIn returns the first, or backwards the last, most trajectories of a batch
// that are selected, behind a place or from the end on.
func (s *Server) findIn(c *archive.Contents, q *selection, after *place, most int) (hits []hit, err error) {
	at := 0 // of the oldest in hits, once there are most: it is a ring then
	err = c.Visit(&q.Filter, archive.Visitor{Trajectory: func(r *archive.Row) error {
		if after != nil {
			behind := after.compare(r.Group, r.Index) < 0
			if q.backwards {
				behind = after.compare(r.Group, r.Index) > 0
			}
			if !behind {
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
	if errors.Is(err, archive.ErrDamaged) {
		s.log.Error("a batch is passed over", "log", c.Batch.ID, "error", err)
		err = nil
	}
	if q.backwards {
		hits = slices.Concat(hits[at:], hits[:at])
		slices.Reverse(hits)
	}
	return hits, err
}

// appendTrajectory appends an entry of a list.
func (s *Server) appendTrajectory(d []byte, c *archive.Contents, r *archive.Row, include map[string]bool) []byte {
	b := c.Batch
	d = appendFacts(append(d, '{'), b, r)
	text, err := c.Text(r)
	if err != nil {
		s.log.Error("a trajectory is damaged", "log", b.ID, "group", r.Group, "index", r.Index, "error", err)
		return append(d, `,"error":"what is stored is damaged"}`...)
	}
	p := trajectory.Take(text)
	d = append(append(d, `,"metrics":`...), orText(p.Metrics, "{}")...)
	d = append(append(d, `,"metadata":`...), orText(p.Metadata, "{}")...)
	if include["messages"] || include["logprobs"] {
		d = append(d, `,"messages":`...)
		d = appendTurns(d, p, include["logprobs"])
	}
	if include["raw"] {
		d = append(append(d, `,"trajectory":`...), text...)
	}
	return append(d, '}')
}

func orText(v trajectory.Value, otherwise string) []byte {
	if v == nil {
		return []byte(otherwise)
	}
	return v
}

// appendFacts appends what is known of a trajectory without its text.
func appendFacts(d []byte, b *archive.Batch, r *archive.Row) []byte {
	d = append(export.AppendPosition(d, b, r), `,"object":"trajectory","reward":`...)
	if r.Scored {
		d = trajectory.AppendFloat(d, r.Reward)
	} else {
		d = append(d, "null"...)
	}
	d = export.AppendInt(append(d, `,"initial_policy_version":`...), r.Initial)
	d = export.AppendInt(append(d, `,"final_policy_version":`...), r.Final)
	d = append(d, `,"start_time":`...)
	if r.Start.IsZero() {
		d = append(d, "null"...)
	} else {
		d = append(r.Start.AppendFormat(append(d, '"'), export.TimeFormat), '"')
	}
	d = append(d, `,"finish_reasons":[`...)
	for i, f := range r.Finish {
		if i > 0 {
			d = append(d, ',')
		}
		d = api.AppendString(d, f)
	}
	d = strconv.AppendBool(append(d, `],"has_tools":`...), r.Tools)
	return export.AppendInt(append(d, `,"completion_tokens":`...), r.Tokens)
}

// appendTurns appends the turns as messages, each with whether it is trainable, and
// of choices why they ended; null when there are exchanges in place of turns.
func appendTurns(d []byte, p trajectory.Parts, logprobs bool) []byte {
	if p.Turns == nil && !p.Exchanges.Empty() {
		return append(d, "null"...)
	}
	d = append(d, '[')
	for i, t := range trajectory.Turns(p.Turns) {
		if i > 0 {
			d = append(d, ',')
		}
		d = append(d, t.Message[:len(t.Message)-1]...)
		if len(t.Message) > len("{}") {
			d = append(d, ',')
		}
		d = strconv.AppendBool(append(d, `"trainable":`...), t.Choice)
		if t.Choice {
			d = append(append(d, `,"finish_reason":`...), t.Finish...)
		}
		if logprobs && t.Logprobs != nil {
			d = append(append(d, `,"logprobs":`...), t.Logprobs...)
		}
		d = append(d, '}')
	}
	return append(d, ']')
}

// oneTrajectory answers GET …/trajectories/{log_id}/{g}/{t}, with the text exactly
// as it is stored.
func (s *Server) oneTrajectory(c *transport.Call, model string) {
	s.read(c, model, false, func(_ *selection, v *archive.View) error {
		at, ok := parsePlace(segment(c, 1) + "/" + segment(c, 2) + "/" + segment(c, 3))
		if !ok {
			return archive.ErrNotFound
		}
		b, err := v.Batch(model, at.log)
		if err != nil {
			return err
		}
		contents := v.Open(b)
		row, g, err := contents.Find(at.group, at.index)
		if err != nil {
			return err
		}
		d := appendFacts([]byte{'{'}, b, &row)
		text, err := contents.GroupText(&g)
		if err != nil {
			return err
		}
		d = append(append(d, `,"group":`...), text...)
		if text, err = contents.Text(&row); err != nil {
			return err
		}
		d = append(append(d, `,"trajectory":`...), text...)
		c.Reply(append(d, '}'))
		return nil
	})
}
