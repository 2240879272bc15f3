package trajectoryapi

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// trajectoryMetrics answers GET …/metrics: the metrics of a selection
// (docs/interface/trajectories.md, section 10) for each split and, with group_by, for each
// set of trajectories that have something in common.
func (h *Handlers) trajectoryMetrics(c *transport.Call, model string) {
	h.read(c, model, true, func(q *selection, v *archive.View) error {
		groups := newGrouped(q.groupBy)
		var bad error
		err := v.Batches(model, archive.ID{}, false, func(b *archive.Batch) bool {
			bad = groups.batch(v, v.Open(b), &q.Filter)
			return bad == nil
		})
		if err = errors.Join(err, bad); err == nil {
			c.Reply(groups.encode())
		}
		return err
	}, groupings)
}

// grouped are the metrics of several sets of trajectories.
type grouped struct {
	by    string
	steps map[int64]bool // with by "step": the steps that count, and no others do
	all   map[groupKey]*trajectory.Stats
	rooms map[*trajectory.Stats]*archive.Room
}

type groupKey struct {
	split, name string
	version     trajectory.Int
}

func newGrouped(by string) *grouped {
	return &grouped{by: by, all: make(map[groupKey]*trajectory.Stats), rooms: make(map[*trajectory.Stats]*archive.Room)}
}

// key is where a trajectory counts; r is nil for a group without any.
func (s *grouped) key(b *archive.Batch, r *archive.Row) groupKey {
	key := groupKey{split: b.Split}
	switch s.by {
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
	case byStep:
		if r != nil {
			key.version = b.StepOf(r)
		}
	}
	return key
}

// byStep groups by the training step (docs/interface/trajectories.md, section 9.3).
const byStep = "step"

// stepMetrics returns the metrics of the trajectories of some steps.
func stepMetrics(v *archive.View, model string, steps []int64) (*grouped, error) {
	s := newGrouped(byStep)
	s.steps = make(map[int64]bool, len(steps))
	for _, n := range steps {
		s.steps[n] = true
	}
	var bad error
	err := v.Batches(model, archive.ID{}, false, func(b *archive.Batch) bool {
		if slices.ContainsFunc(steps, b.MayHaveStep) {
			bad = s.batch(v, v.Open(b), &archive.Filter{})
		}
		return bad == nil
	})
	return s, errors.Join(err, bad)
}

// appendStep appends the metrics of a step, of all splits, as members.
func (s *grouped) appendStep(d []byte, step int64) []byte {
	var keys []groupKey
	for key := range s.all {
		if key.version == trajectory.Some(step) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b groupKey) int { return strings.Compare(a.split, b.split) })
	first := true
	for _, key := range keys {
		for _, m := range s.all[key].Summary().Metrics {
			if !first {
				d = append(d, ',')
			}
			first = false
			d = append(api.AppendString(d, key.split+"/"+m.Name), ':')
			d = trajectory.AppendFloat(d, m.Value)
		}
	}
	return d
}

func (s *grouped) stats(key groupKey) *trajectory.Stats {
	if s.all[key] == nil {
		s.all[key] = new(trajectory.Stats)
	}
	return s.all[key]
}

// reserve reserves what a set has come to take.
func (s *grouped) reserve(v *archive.View, m *trajectory.Stats) error {
	if s.rooms[m] == nil {
		s.rooms[m] = v.Room()
	}
	return s.rooms[m].Need(setBytes + m.Size())
}

// setBytes is what a set takes beside its metrics, about.
const setBytes = 1 << 10

// batch counts what is selected of a batch. A group that is divided between sets
// counts in each of them; its exceptions and metrics count in that of its first
// trajectory.
func (s *grouped) batch(v *archive.View, c *archive.Contents, f *archive.Filter) error {
	var g *archive.GroupRow
	var touched []groupKey
	end := func() error {
		if g == nil {
			return nil
		}
		if touched == nil && s.by == byStep {
			return nil
		}
		if touched == nil {
			touched = []groupKey{s.key(c.Batch, nil)}
		}
		for i, key := range touched {
			if i == 0 {
				s.stats(key).Group(g.Exceptions, g.Metrics)
			} else {
				s.stats(key).Group(0, nil)
			}
			if err := s.reserve(v, s.stats(key)); err != nil {
				return err
			}
		}
		return nil
	}
	err := c.Visit(f, archive.Visitor{
		Group: func(next *archive.GroupRow) error {
			err := end()
			row := *next
			g, touched = &row, nil
			return err
		},
		Trajectory: func(r *archive.Row) error {
			key := s.key(c.Batch, r)
			if s.by == byStep && !(key.version.Given && s.steps[key.version.N]) {
				return nil
			}
			if !slices.Contains(touched, key) {
				touched = append(touched, key)
			}
			s.stats(key).Trajectory(&r.Facts)
			return s.reserve(v, s.stats(key))
		},
	})
	return cmp.Or(err, end())
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

func (s *grouped) encode() []byte {
	keys := make([]groupKey, 0, len(s.all))
	for key := range s.all {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b groupKey) int {
		return cmp.Or(strings.Compare(a.name, b.name), compareVersions(a.version, b.version), strings.Compare(a.split, b.split))
	})
	d := []byte(`{"object":"list","data":[`)
	for i, key := range keys {
		if i > 0 {
			d = append(d, ',')
		}
		d = append(d, `{"key":`...)
		switch s.by {
		case "":
			d = append(d, "null"...)
		case "policy_version":
			d = export.AppendInt(d, key.version)
		default:
			d = api.AppendString(d, key.name)
		}
		d = api.AppendString(append(d, `,"split":`...), key.split)
		m := s.all[key].Summary()
		d = appendCounts(d, m.Counts)
		d = append(appendSummary(append(d, ','), key.split, m), '}')
	}
	return append(d, "]}"...)
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
