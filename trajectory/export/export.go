package export

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"weir/trajectory"
	"weir/trajectory/archive"
)

// Format is a format of an export (docs/interface/trajectories.md, section 13).
type Format string

const (
	JSONL     Format = "jsonl"        // a trajectory per line, exactly as it was sent, with its ids, batch and group
	Groups    Format = "jsonl-groups" // a group per line, as in the files of OpenPipe ART
	Parquet   Format = "parquet"      // the columns of ART's Parquet files, version 2, and further ones
	ART       Format = "art"          // a tar of the folders and Parquet files that ART writes
	Verl      Format = "verl"
	TRL       Format = "trl"
	Verifiers Format = "verifiers"
	SFT       Format = "sft"
)

// Formats returns all formats.
func Formats() []Format { return []Format{JSONL, Groups, Parquet, ART, Verl, TRL, Verifiers, SFT} }

// Media returns the content type and the file extension of a format.
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
	DropLogprobs bool   // leave out the log-probabilities of turns
	TempDir      string // for the temporary file of ART; "": the system's

	rowGroup int // for tests: bytes of a row group; 0: rowGroupBytes
}

// ErrFormat is returned for a format that does not exist.
var ErrFormat = errors.New("export: no such format")

// sink writes one format. A group is passed before its trajectories. A text is valid until
// the next call.
type sink interface {
	group(b *archive.Batch, g *archive.GroupRow, text trajectory.Value) error
	trajectory(b *archive.Batch, r *archive.Row, text trajectory.Value) error
	close() error
}

// Write writes the trajectories of a model that f selects to w. If it returns an error, w has
// only a part of them.
func Write(w io.Writer, v *archive.View, model string, f *archive.Filter, o Options) error {
	var s sink
	switch o.Format {
	case JSONL:
		s = &jsonlSink{w: w}
	case Groups:
		s = &groupSink{w: w, pace: v.Pace()}
	case Parquet:
		s = newParquetSink(w, v, makeWeirRow, o.rowGroup)
	case ART:
		return writeART(w, v, model, f, o)
	case Verl, TRL, Verifiers, SFT:
		s = &sampleSink{w: w, pace: v.Pace(), format: o.Format}
	default:
		return fmt.Errorf("%w: %q", ErrFormat, o.Format)
	}
	p := textVisitor{sink: s, view: v, dropLogprobs: o.DropLogprobs, room: v.Room()}
	switch s := s.(type) {
	case *sampleSink:
		p.memory = s.memory
	case *parquetSink[weirRow]:
		p.memory = s.memory
	}
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

// textVisitor reads the texts of groups and trajectories for a sink.
type textVisitor struct {
	sink
	view         *archive.View
	dropLogprobs bool
	buf          []byte
	room         *archive.Room
	memory       func(text trajectory.Value) int64 // that the sink takes for a text; nil: textBytes
	rest         int64                             // that it takes for the text of the group
}

// textBytes is how many bytes the sinks of lines take for each byte of a text, in a buffer that
// grows: it is copied into one of at least five quarters.
const textBytes = 3

// turnTextBytes is the same where turns are put together first: Verl decodes and encodes them.
const turnTextBytes = 6

// reserve reserves what the sink is about to take.
func (p *textVisitor) reserve(text trajectory.Value) error {
	n := p.rest + textBytes*int64(len(text))
	if p.memory != nil {
		n = p.rest + p.memory(text)
	}
	if p.dropLogprobs {
		n += textBytes * int64(len(text))
	}
	return cmp.Or(p.view.Stopped(), p.room.Need(n))
}

func (p *textVisitor) visitor(c *archive.Contents) archive.Visitor {
	return archive.Visitor{
		Group: func(g *archive.GroupRow) error {
			text, err := c.GroupText(g)
			if err == nil {
				p.rest = textBytes * int64(len(text))
				err = p.reserve(nil)
			}
			if err != nil {
				return err
			}
			return cmp.Or(p.group(c.Batch, g, text), p.view.Stopped())
		},
		Trajectory: func(r *archive.Row) error {
			text, err := c.Text(r)
			if err == nil {
				err = p.reserve(text)
			}
			if err != nil {
				return err
			}
			if p.dropLogprobs {
				p.buf = trajectory.AppendWithoutLogprobs(p.buf[:0], text, p.view.Pace())
				if err := p.view.Stopped(); err != nil {
					return err
				}
				text = p.buf
			}
			return cmp.Or(p.trajectory(c.Batch, r, text), p.view.Stopped())
		},
	}
}

// TimeFormat is the format of times: RFC 3339 in UTC, to the microsecond.
const TimeFormat = "2006-01-02T15:04:05.000000Z07:00"

// TrajectoryID is the id of a trajectory, <log_id>/<g>/<t>.
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

// appendReward appends the reward of a trajectory, or null if it has none.
func appendReward(dst []byte, r *archive.Row) []byte {
	if !r.Scored {
		return append(dst, "null"...)
	}
	return trajectory.AppendFloat(dst, r.Reward)
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(dst, '"'), TimeFormat), '"')
}

// Paced returns a writer that hands what it gets to w in small pieces, and fails when the
// query of v has to end. It goes in front of what takes long for each byte, such as
// compression: a trajectory can have hundreds of megabytes.
func Paced(w io.Writer, v *archive.View) io.Writer { return &pacedWriter{w, v} }

type pacedWriter struct {
	w io.Writer
	v *archive.View
}

func (p *pacedWriter) Write(b []byte) (n int, err error) {
	const piece = 64 << 10
	pace := p.v.Pace()
	for n < len(b) && err == nil {
		var k int
		k, err = p.w.Write(b[n:min(len(b), n+piece)])
		n += k
		if err == nil && !pace(k) {
			err = p.v.Stopped()
		}
	}
	return n, err
}
