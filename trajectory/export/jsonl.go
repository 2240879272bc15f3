package export

import (
	"io"
	"strconv"

	"weir/trajectory"
	"weir/trajectory/archive"
)

// jsonlSink writes JSONL (docs/interface/trajectories.md, section 13.1).
type jsonlSink struct {
	w         io.Writer
	buf, rest []byte // rest is the text of the group
}

func (l *jsonlSink) group(_ *archive.Batch, _ *archive.GroupRow, text trajectory.Value) error {
	l.rest = append(l.rest[:0], text...)
	return nil
}

func (l *jsonlSink) trajectory(b *archive.Batch, r *archive.Row, text trajectory.Value) error {
	d := AppendPosition(append(l.buf[:0], '{'), b, r)
	if !r.Scored {
		d = append(d, `,"scored":false`...) // otherwise readers take the reward for 0, its default
	}
	d = append(append(d, `,"group":`...), l.rest...)
	d = append(append(d, `,"trajectory":`...), text...)
	l.buf = append(d, "}\n"...)
	_, err := l.w.Write(l.buf)
	return err
}

func (l *jsonlSink) close() error { return nil }

// AppendPosition appends the members of an object that say which trajectory it is.
func AppendPosition(d []byte, b *archive.Batch, r *archive.Row) []byte {
	d = trajectory.AppendText(append(d, `"id":`...), TrajectoryID(b, r))
	d = trajectory.AppendText(append(d, `,"log_id":`...), b.ID.String())
	d = strconv.AppendInt(append(d, `,"group_index":`...), int64(r.Group), 10)
	d = strconv.AppendInt(append(d, `,"trajectory_index":`...), int64(r.Index), 10)
	d = trajectory.AppendText(append(d, `,"model_id":`...), b.Model)
	d = trajectory.AppendText(append(d, `,"split":`...), b.Split)
	d = AppendInt(append(d, `,"step":`...), b.StepOf(r))
	return appendTime(append(d, `,"received_at":`...), b.Received)
}

// groupSink writes ART's JSONL (docs/interface/trajectories.md, section 13.2). ART's reader
// requires every member, so those that newer clients leave out are added with their defaults.
type groupSink struct {
	w    io.Writer
	pace trajectory.Pace
	open bool   // the line of a group has begun
	n    int    // trajectories in it so far
	rest []byte // the text of the group
	buf  []byte
}

// memberDefaults are the members that ART's reader requires.
var memberDefaults = []struct{ name, value string }{
	{"messages_and_choices", "[]"}, {"reward", "0.0"}, {"metrics", "{}"}, {"metadata", "{}"}, {"tools", "null"}, {"additional_histories", "[]"}, {"logs", "[]"},
}

func (s *groupSink) group(_ *archive.Batch, _ *archive.GroupRow, text trajectory.Value) error {
	if err := s.end(); err != nil {
		return err
	}
	s.open, s.n = true, 0
	s.rest = append(s.rest[:0], text...)
	_, err := io.WriteString(s.w, `{"trajectories":[`)
	return err
}

func (s *groupSink) trajectory(_ *archive.Batch, r *archive.Row, text trajectory.Value) error {
	d := s.buf[:0]
	if s.n > 0 {
		d = append(d, ',')
	}
	s.n++
	d = append(d, text[:len(text)-1]...)
	first := len(text) == len("{}")
	for _, m := range memberDefaults {
		if text.PacedMember(m.name, s.pace) != nil {
			continue
		}
		if !first {
			d = append(d, ',')
		}
		first = false
		d = append(trajectory.AppendText(d, m.name), ':')
		if m.name == "reward" && !r.Scored {
			d = append(d, "null"...)
			continue
		}
		d = append(d, m.value...)
	}
	s.buf = append(d, '}')
	_, err := s.w.Write(s.buf)
	return err
}

// end completes the line of a group.
func (s *groupSink) end() error {
	if !s.open {
		return nil
	}
	s.open = false
	d := append(s.buf[:0], ']')
	if len(s.rest) > len("{}") {
		d = append(append(d, ','), s.rest[1:]...)
	} else {
		d = append(d, '}')
	}
	s.buf = append(d, '\n')
	_, err := s.w.Write(s.buf)
	return err
}

func (s *groupSink) close() error { return s.end() }
