package export

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	encoder "github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"weir/internal/jsontext"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// artRow is a row of ART's Parquet files, version 2 (docs/interface/trajectories.md, section
// 13.3; src/art/utils/trajectory_logging.py of OpenPipe/ART).
type artRow struct {
	FormatVersion   int16     `parquet:"format_version"`
	GroupIndex      int64     `parquet:"group_index"`
	TrajectoryIndex *int64    `parquet:"trajectory_index,optional"`
	GroupJSON       string    `parquet:"group_json"`
	TrajectoryJSON  *string   `parquet:"trajectory_json,optional"`
	GroupMetadata   *string   `parquet:"group_metadata,optional"`
	GroupMetrics    *string   `parquet:"group_metrics,optional"`
	GroupLogs       []string  `parquet:"group_logs,optional,list"`
	Reward          *float64  `parquet:"reward,optional"`
	Metrics         *string   `parquet:"metrics,optional"`
	Metadata        *string   `parquet:"metadata,optional"`
	Tools           *string   `parquet:"tools,optional"`
	Logs            []string  `parquet:"logs,optional,list"`
	Messages        []message `parquet:"messages,optional,list"`
}

// message is an element of the column messages.
type message struct {
	Role       *string `parquet:"role,optional"`
	Content    *string `parquet:"content,optional"`
	ToolCalls  *string `parquet:"tool_calls,optional"`
	ToolCallID *string `parquet:"tool_call_id,optional"`
	Trainable  *bool   `parquet:"trainable,optional"`
}

// weirRow has further columns after ART's, whose reader ignores them. artRow is not embedded,
// because parquet-go v0.32 writes the nil pointers of an embedded struct as values.
type weirRow struct {
	FormatVersion   int16      `parquet:"format_version"`
	GroupIndex      int64      `parquet:"group_index"`
	TrajectoryIndex *int64     `parquet:"trajectory_index,optional"`
	GroupJSON       string     `parquet:"group_json"`
	TrajectoryJSON  *string    `parquet:"trajectory_json,optional"`
	GroupMetadata   *string    `parquet:"group_metadata,optional"`
	GroupMetrics    *string    `parquet:"group_metrics,optional"`
	GroupLogs       []string   `parquet:"group_logs,optional,list"`
	Reward          *float64   `parquet:"reward,optional"`
	Metrics         *string    `parquet:"metrics,optional"`
	Metadata        *string    `parquet:"metadata,optional"`
	Tools           *string    `parquet:"tools,optional"`
	Logs            []string   `parquet:"logs,optional,list"`
	Messages        []message  `parquet:"messages,optional,list"`
	ID              *string    `parquet:"id,optional"`
	LogID           string     `parquet:"log_id"`
	ModelID         string     `parquet:"model_id"`
	Split           string     `parquet:"split"`
	Step            *int64     `parquet:"step,optional"`
	Received        time.Time  `parquet:"received_at,timestamp(millisecond)"`
	Start           *time.Time `parquet:"start_time,optional,timestamp(microsecond)"`
	Initial         *int64     `parquet:"initial_policy_version,optional"`
	Final           *int64     `parquet:"final_policy_version,optional"`
}

// The version of ART's format is in a column and in the metadata of the file.
const (
	artVersion    = 2
	artVersionKey = "art.trajectory_parquet.version"
)

// rowGroupBytes is how many bytes of texts make a row group. A row group is in memory until it
// is complete.
const rowGroupBytes = 32 << 20

// What an export takes in memory: the compressors, for each byte of a text until it is in the
// pages of the row group, and for each byte there.
const (
	parquetBytes = 16 << 20
	rowBytes     = 10
	pageBytes    = 4
)

// parquetSink writes a Parquet file. makeRow makes a row of the columns of ART; r is nil for
// the one row of a group without trajectories.
type parquetSink[T any] struct {
	w       *parquet.GenericWriter[T]
	pace    trajectory.Pace
	makeRow func(a artRow, b *archive.Batch, r *archive.Row) T
	buf     [1]T
	head    artRow // what all rows of the group have; its TrajectoryIndex is that of the last row
	batch   *archive.Batch
	empty   bool  // the group has no row yet
	next    int64 // the index of the next group

	turns    int64 // bytes of the turns in the row group (trajectory.TurnBytes)
	bytes    int   // of texts in the row group
	rowGroup int   // how many make a row group
}

// unbounded are the options that leave out the least and greatest values of columns with long
// texts. They are of no use to readers, and parquet-go writes them in full, uncompressed, up
// to four times a page.
var unbounded = func() (options []parquet.WriterOption) {
	for _, c := range []string{
		"group_json", "trajectory_json", "group_metadata", "group_metrics", "group_logs.list.element", "metrics", "metadata", "tools", "logs.list.element",
		"messages.list.element.role", "messages.list.element.content", "messages.list.element.tool_calls", "messages.list.element.tool_call_id",
	} {
		options = append(options, parquet.SkipPageBounds(strings.Split(c, ".")...))
	}
	return slices.Clip(options)
}()

// pacedCodec compresses a large page piece by piece, so that the query can be stopped in it.
type pacedCodec struct {
	zstd.Codec
	view *archive.View
}

// largePage is the size of a page in bytes from which on it is compressed by pieces, which
// takes an encoder of its own.
const largePage = 4 << 20

// Encode implements compress.Codec.
func (c *pacedCodec) Encode(dst, src []byte) ([]byte, error) {
	if len(src) < largePage {
		return c.Codec.Encode(dst, src)
	}
	out := bytes.NewBuffer(dst[:0])
	z, err := encoder.NewWriter(out, encoder.WithEncoderLevel(c.Level), encoder.WithEncoderConcurrency(1))
	if err == nil {
		_, err = Paced(z, c.view).Write(src)
		err = errors.Join(err, z.Close())
	}
	return out.Bytes(), err
}

// newParquetSink writes a row group when it has that many bytes of texts; 0 stands for
// rowGroupBytes.
func newParquetSink[T any](w io.Writer, v *archive.View, makeRow func(artRow, *archive.Batch, *archive.Row) T, rowGroup int) *parquetSink[T] {
	return &parquetSink[T]{
		w: parquet.NewGenericWriter[T](w, append(unbounded,
			parquet.Compression(&pacedCodec{zstd.Codec{Level: zstd.SpeedFastest}, v}),
			parquet.KeyValueMetadata(artVersionKey, fmt.Sprint(artVersion)),
			parquet.CreatedBy("weir", "", ""),
			parquet.DataPageStatistics(false),
		)...),
		pace:     v.Pace(),
		makeRow:  makeRow,
		rowGroup: cmp.Or(rowGroup, rowGroupBytes),
	}
}

// makeARTRow makes rows with the columns of ART alone.
func makeARTRow(a artRow, _ *archive.Batch, _ *archive.Row) artRow { return a }

// makeWeirRow makes rows with the further columns.
func makeWeirRow(a artRow, b *archive.Batch, r *archive.Row) weirRow {
	out := weirRow{
		FormatVersion: a.FormatVersion, GroupIndex: a.GroupIndex, TrajectoryIndex: a.TrajectoryIndex, GroupJSON: a.GroupJSON, TrajectoryJSON: a.TrajectoryJSON,
		GroupMetadata: a.GroupMetadata, GroupMetrics: a.GroupMetrics, GroupLogs: a.GroupLogs, Reward: a.Reward, Metrics: a.Metrics, Metadata: a.Metadata,
		Tools: a.Tools, Logs: a.Logs, Messages: a.Messages,
		LogID: b.ID.String(), ModelID: b.Model, Split: b.Split, Received: b.Received, Step: pointer(b.Step),
	}
	if r != nil {
		id := TrajectoryID(b, r)
		out.ID, out.Step, out.Initial, out.Final = &id, pointer(b.StepOf(r)), pointer(r.Initial), pointer(r.Final)
		if !r.Start.IsZero() {
			out.Start = &r.Start
		}
	}
	return out
}

func pointer(n trajectory.Int) *int64 {
	if !n.Given {
		return nil
	}
	return &n.N
}

// nonEmpty is the text of v; nil if v is empty.
func nonEmpty(v trajectory.Value) *string {
	if v.Empty() {
		return nil
	}
	s := string(v)
	return &s
}

// stringsOf returns the strings of an array. Other elements are given as JSON.
func stringsOf(v trajectory.Value, pace trajectory.Pace) (list []string) {
	if v == nil || v.Kind() != jsontext.Array {
		return nil
	}
	for _, e := range v.PacedElements(pace) {
		s := string(e)
		if e.Kind() == jsontext.String {
			s = e.PacedText(pace)
		}
		list = append(list, s)
	}
	return list
}

func (c *parquetSink[T]) group(b *archive.Batch, _ *archive.GroupRow, text trajectory.Value) error {
	if err := c.end(); err != nil {
		return err
	}
	c.head = artRow{
		FormatVersion: artVersion, GroupIndex: c.next, GroupJSON: string(text),
		GroupMetadata: nonEmpty(text.PacedMember("metadata", c.pace)), GroupMetrics: nonEmpty(text.PacedMember("metrics", c.pace)), GroupLogs: stringsOf(text.PacedMember("logs", c.pace), c.pace),
	}
	c.batch, c.empty, c.next = b, true, c.next+1
	index := int64(-1)
	c.head.TrajectoryIndex = &index
	return nil
}

func (c *parquetSink[T]) trajectory(b *archive.Batch, r *archive.Row, text trajectory.Value) error {
	p := trajectory.Take(text, c.pace)
	a := c.head
	index := *a.TrajectoryIndex + 1 // not r.Index, which has gaps in a selection, and ART's reader rejects gaps
	c.head.TrajectoryIndex, a.TrajectoryIndex = &index, &index
	s := string(text)
	a.TrajectoryJSON = &s
	if r.Scored {
		a.Reward = &r.Reward
	}
	a.Metrics, a.Metadata, a.Tools, a.Logs = nonEmpty(p.Metrics), nonEmpty(p.Metadata), nonEmpty(p.Tools), stringsOf(p.Logs, c.pace)
	a.Messages = messages(p, c.pace)
	c.empty = false
	return c.write(c.makeRow(a, b, r), len(text)+len(a.GroupJSON))
}

// memory is about what is taken for a trajectory and for the row group so far.
func (c *parquetSink[T]) memory(text trajectory.Value) int64 {
	turns := trajectory.TurnBytes(text, c.pace)
	done := c.turns // in the pages a turn takes less
	c.turns += turns
	return parquetBytes + rowBytes*int64(len(text)) + turns + pageBytes*int64(c.bytes) + done/4
}

// messages makes the column messages. It is nil if a content is not text, or if the turns are
// in exchanges.
func messages(p trajectory.Parts, pace trajectory.Pace) []message {
	if !p.Exchanges.Empty() {
		return nil
	}
	turns := trajectory.Turns(p.Turns, pace)
	list := make([]message, 0, len(turns))
	for _, t := range turns {
		o := t.Open(pace)
		if !o.Text {
			return nil
		}
		m := message{Role: &o.Role, Content: o.Content, ToolCalls: nonEmpty(o.ToolCalls), ToolCallID: o.ToolCallID}
		trainable := t.Choice
		m.Trainable = &trainable
		list = append(list, m)
	}
	return list
}

func (c *parquetSink[T]) write(row T, size int) error {
	c.buf[0] = row
	if _, err := c.w.Write(c.buf[:]); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	var none T
	c.buf[0] = none
	if c.bytes += size; c.bytes < c.rowGroup {
		return nil
	}
	c.bytes, c.turns = 0, 0
	if err := c.w.Flush(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// end writes the one row of a group that has no trajectory.
func (c *parquetSink[T]) end() error {
	if !c.empty {
		return nil
	}
	c.empty = false
	a := c.head
	a.TrajectoryIndex = nil
	return c.write(c.makeRow(a, c.batch, nil), len(a.GroupJSON))
}

func (c *parquetSink[T]) close() error {
	if err := c.end(); err != nil {
		return err
	}
	if err := c.w.Close(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}
