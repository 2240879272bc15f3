package export

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"weir/trajectory"
	"weir/trajectory/archive"
)

// Format is a format of an export.
type Format string

const (
	JSONL     Format = "jsonl"        // a trajectory per line, exactly as received, with what is known of it
	Groups    Format = "jsonl-groups" // a group per line, as ART's own files
	Parquet   Format = "parquet"      // ART's version 2, and columns of ours
	ART       Format = "art"          // a tar of ART's folders with version 2 files
	Verl      Format = "verl"
	TRL       Format = "trl"
	Verifiers Format = "verifiers"
	SFT       Format = "sft"
)

// Formats are all formats.
func Formats() []Format { return []Format{JSONL, Groups, Parquet, ART, Verl, TRL, Verifiers, SFT} }

// Media is the content type and the file extension of a form.
func (f Format) Media() (contentType, extension string) {
	switch f {
	case Parquet:
		return "application/vnd.apache.parquet", ".parquet"
	case ART:
		return "application/x-tar", ".tar"
	}
	return "application/jsonl", ".jsonl"
}

// Options say how a selection is written.
type Options struct {
	Format       Format
	DropLogprobs bool   // leave the logprobs of turns out
	TempDir      string // folder for the temporary files of ART
}

// ErrFormat: there is no such format.
var ErrFormat = errors.New("export: no such format")

// sink writes one form. Groups come before their trajectories. Texts are valid
// until the next call.
type sink interface {
	group(b *archive.Batch, g *archive.GroupRow, text trajectory.Value) error
	trajectory(b *archive.Batch, r *archive.Row, text trajectory.Value) error
	close() error
}

// Write writes what f selects of a model's trajectories to w. After an error
// what was written is not the whole selection.
func Write(w io.Writer, v *archive.View, model string, f *archive.Filter, o Options) error {
	var s sink
	switch o.Format {
	case JSONL:
		s = &lines{w: w}
	case Groups:
		s = &grouped{w: w}
	case Parquet:
		s = newColumns[row](w, fullRow)
	case ART:
		return writeTree(w, v, model, f, o)
	case Verl, TRL, Verifiers, SFT:
		s = &samples{w: w, form: o.Format}
	default:
		return fmt.Errorf("%w: %q", ErrFormat, o.Format)
	}
	p := pen{sink: s, drop: o.DropLogprobs}
	var bad error
	err := v.Batches(model, archive.ID{}, false, func(b *archive.Batch) bool {
		c := v.Open(b)
		bad = c.Visit(f, p.visitor(c))
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	return s.close()
}

// pen reads the texts for a sink.
type pen struct {
	sink
	drop bool
	buf  []byte
}

func (p *pen) visitor(c *archive.Contents) archive.Visitor {
	return archive.Visitor{
		Group: func(g *archive.GroupRow) error {
			text, err := c.GroupText(g)
			if err != nil {
				return err
			}
			return p.group(c.Batch, g, text)
		},
		Trajectory: func(r *archive.Row) error {
			text, err := c.Text(r)
			if err != nil {
				return err
			}
			if p.drop {
				p.buf = trajectory.AppendWithoutLogprobs(p.buf[:0], text)
				text = p.buf
			}
			return p.trajectory(c.Batch, r, text)
		},
	}
}

// TimeFormat is how moments are spelt: RFC 3339 in UTC, to the microsecond.
const TimeFormat = "2006-01-02T15:04:05.000000Z07:00"

// TrajectoryID names a trajectory.
func TrajectoryID(b *archive.Batch, r *archive.Row) string {
	return b.ID.String() + "/" + strconv.Itoa(r.Group) + "/" + strconv.Itoa(r.Index)
}

// AppendInt appends an integer, or null.
func AppendInt(dst []byte, n trajectory.Int) []byte {
	if !n.Given {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, n.N, 10)
}

// appendReward appends a reward, null if there is none yet.
func appendReward(dst []byte, r *archive.Row) []byte {
	if !r.Scored {
		return append(dst, "null"...)
	}
	return trajectory.AppendFloat(dst, r.Reward)
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(dst, '"'), TimeFormat), '"')
}

// lines is JSONL (13.1).
type lines struct {
	w         io.Writer
	buf, rest []byte
}

func (l *lines) group(_ *archive.Batch, _ *archive.GroupRow, text trajectory.Value) error {
	l.rest = append(l.rest[:0], text...)
	return nil
}

func (l *lines) trajectory(b *archive.Batch, r *archive.Row, text trajectory.Value) error {
	d := AppendPosition(append(l.buf[:0], '{'), b, r)
	if !r.Scored {
		d = append(d, `,"scored":false`...) // else the default of reward would be read
	}
	d = append(append(d, `,"group":`...), l.rest...)
	d = append(append(d, `,"trajectory":`...), text...)
	l.buf = append(d, "}\n"...)
	_, err := l.w.Write(l.buf)
	return err
}

func (l *lines) close() error { return nil }

// AppendPosition appends the members that say which trajectory it is.
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

// grouped is ART's JSONL (13.2). Its reader wants every member, so those that
// newer clients leave out are added with their defaults.
type grouped struct {
	w    io.Writer
	open bool
	n    int
	rest []byte
	buf  []byte
}

var defaults = []struct{ name, value string }{
	{"messages_and_choices", "[]"}, {"reward", "0.0"}, {"metrics", "{}"}, {"metadata", "{}"}, {"tools", "null"}, {"additional_histories", "[]"}, {"logs", "[]"},
}

func (s *grouped) group(_ *archive.Batch, _ *archive.GroupRow, text trajectory.Value) error {
	if err := s.end(); err != nil {
		return err
	}
	s.open, s.n = true, 0
	s.rest = append(s.rest[:0], text...)
	_, err := io.WriteString(s.w, `{"trajectories":[`)
	return err
}

func (s *grouped) trajectory(_ *archive.Batch, r *archive.Row, text trajectory.Value) error {
	d := s.buf[:0]
	if s.n > 0 {
		d = append(d, ',')
	}
	s.n++
	d = append(d, text[:len(text)-1]...)
	first := len(text) == len("{}")
	for _, m := range defaults {
		if text.Member(m.name) != nil {
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

// end completes the line of the group before.
func (s *grouped) end() error {
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

func (s *grouped) close() error { return s.end() }
