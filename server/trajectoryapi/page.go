package trajectoryapi

import (
	"context"
	"strconv"
	"strings"

	"weir/api"
	"weir/auth"
	"weir/server/transport"
	"weir/trajectory/archive"
)

// read does what the reading functions have in common: it checks the right to read and
// the query, and calls f with a snapshot in which the model is known.
func (h *Handlers) read(c *transport.Call, model string, filtered bool, f func(q *selection, v *archive.View) error, own ...string) {
	if !h.allowed(c, auth.Read) {
		return
	}
	q, err := query(c, filtered, own...)
	if err == nil {
		err = c.Query(func(ctx context.Context) error {
			return h.cfg.Archive.Query(ctx, c.Who.Tenant, func(v *archive.View) error {
				if model != "" {
					if err := v.Known(model); err != nil {
						return err
					}
				}
				return f(q, v)
			})
		})
	}
	if err != nil {
		c.Fail(err)
	}
}

// page encodes a list with a cursor (docs/interface/trajectories.md, section 11).
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
