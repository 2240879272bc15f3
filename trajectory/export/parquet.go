package export

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"weir/internal/jsontext"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// artRow is a row of ART's Parquet files, version 2 (13.3; the reference is
// src/art/utils/trajectory_logging.py of OpenPipe/ART).
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

// row has columns of ours behind the reference's, whose readers ignore them.
// They are not embedded: parquet-go v0.32 writes nil pointers of an embedded
// struct as values.
type row struct {
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

// formatVersion is that of the columns and of the file.
const (
	formatVersion = 2
	versionKey    = "art.trajectory_parquet.version"
)

// rowGroup is how many bytes of texts are gathered before they are written.
const rowGroup = 32 << 20

// columns is a Parquet file. make adds to the reference's columns; r is nil in
// the one row of a group without trajectories.
type columns[T any] struct {
	w     *parquet.GenericWriter[T]
	make  func(a artRow, b *archive.Batch, r *archive.Row) T
	one   [1]T
	head  artRow // what all rows of the group have
	batch *archive.Batch
	empty bool // the group has no row yet
	next  int64
	bytes int
}

// unbounded are the columns of text without least and greatest values: those
// would help nobody, and parquet-go writes them in full, uncompressed, up to four
// times a page.
var unbounded = func() (options []parquet.WriterOption) {
	for _, c := range []string{
		"group_json", "trajectory_json", "group_metadata", "group_metrics", "group_logs.list.element", "metrics", "metadata", "tools", "logs.list.element",
		"messages.list.element.role", "messages.list.element.content", "messages.list.element.tool_calls", "messages.list.element.tool_call_id",
	} {
		options = append(options, parquet.SkipPageBounds(strings.Split(c, ".")...))
	}
	return slices.Clip(options)
}()

func newColumns[T any](w io.Writer, makeRow func(artRow, *archive.Batch, *archive.Row) T) *columns[T] {
	return &columns[T]{
		w: parquet.NewGenericWriter[T](w, append(unbounded,
			parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
			parquet.KeyValueMetadata(versionKey, fmt.Sprint(formatVersion)),
			parquet.CreatedBy("weir", "", ""),
			parquet.DataPageStatistics(false),
		)...),
		make: makeRow,
	}
}

func bare(a artRow, _ *archive.Batch, _ *archive.Row) artRow { return a }

func fullRow(a artRow, b *archive.Batch, r *archive.Row) row {
	out := row{
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

// full is the text of v, nil if there is nothing in it.
func full(v trajectory.Value) *string {
	if v.Empty() {
		return nil
	}
	s := string(v)
	return &s
}

// strings of a list; elements of other kinds as their JSON.
func stringsOf(v trajectory.Value) (list []string) {
	if v == nil || v.Kind() != jsontext.Array {
		return nil
	}
	for _, e := range v.Elements() {
		s := string(e)
		if e.Kind() == jsontext.String {
			s = e.Text()
		}
		list = append(list, s)
	}
	return list
}

func (c *columns[T]) group(b *archive.Batch, _ *archive.GroupRow, text trajectory.Value) error {
	if err := c.end(); err != nil {
		return err
	}
	c.head = artRow{
		FormatVersion: formatVersion, GroupIndex: c.next, GroupJSON: string(text),
		GroupMetadata: full(text.Member("metadata")), GroupMetrics: full(text.Member("metrics")), GroupLogs: stringsOf(text.Member("logs")),
	}
	c.batch, c.empty, c.next = b, true, c.next+1
	index := int64(-1)
	c.head.TrajectoryIndex = &index
	return nil
}

func (c *columns[T]) trajectory(b *archive.Batch, r *archive.Row, text trajectory.Value) error {
	p := trajectory.Take(text)
	a := c.head
	index := *a.TrajectoryIndex + 1 // not r.Index: a selection leaves gaps, which readers reject
	c.head.TrajectoryIndex, a.TrajectoryIndex = &index, &index
	s := string(text)
	a.TrajectoryJSON = &s
	if r.Scored {
		a.Reward = &r.Reward
	}
	a.Metrics, a.Metadata, a.Tools, a.Logs = full(p.Metrics), full(p.Metadata), full(p.Tools), stringsOf(p.Logs)
	a.Messages = messages(p)
	c.empty = false
	return c.write(c.make(a, b, r), len(text)+len(a.GroupJSON))
}

// messages is the flattened view; nil when it would lose something.
func messages(p trajectory.Parts) []message {
	if !p.Exchanges.Empty() {
		return nil
	}
	turns := trajectory.Turns(p.Turns)
	list := make([]message, 0, len(turns))
	for _, t := range turns {
		o := t.Open()
		if !o.Text {
			return nil
		}
		m := message{Role: &o.Role, Content: o.Content, ToolCalls: full(o.ToolCalls), ToolCallID: o.ToolCallID}
		trainable := t.Choice
		m.Trainable = &trainable
		list = append(list, m)
	}
	return list
}

func (c *columns[T]) write(row T, size int) error {
	c.one[0] = row
	if _, err := c.w.Write(c.one[:]); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	var none T
	c.one[0] = none
	if c.bytes += size; c.bytes < rowGroup {
		return nil
	}
	c.bytes = 0
	if err := c.w.Flush(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// end writes the one row of a group that has no trajectory.
func (c *columns[T]) end() error {
	if !c.empty {
		return nil
	}
	c.empty = false
	a := c.head
	a.TrajectoryIndex = nil
	return c.write(c.make(a, c.batch, nil), len(a.GroupJSON))
}

func (c *columns[T]) close() error {
	if err := c.end(); err != nil {
		return err
	}
	if err := c.w.Close(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// leaf is one file of ART's tree: the groups of a split and a step.
type leaf struct {
	split  string
	step   trajectory.Int
	groups []place
}

type place struct {
	batch *archive.Batch
	at    archive.GroupOffset
}

// leaves finds the files of a selection. A group is never torn apart: its step
// is the batch's, else that of its first trajectory that has one.
func leaves(v *archive.View, model string, f *archive.Filter) ([]*leaf, error) {
	type key struct {
		split string
		step  trajectory.Int
	}
	files := make(map[key]*leaf)
	var bad error
	err := v.Batches(model, archive.ID{}, false, func(b *archive.Batch) bool {
		var at archive.GroupOffset
		step, open := b.Step, false
		end := func() {
			if !open {
				return
			}
			k := key{b.Split, step}
			if files[k] == nil {
				files[k] = &leaf{split: b.Split, step: step}
			}
			files[k].groups = append(files[k].groups, place{b, at})
		}
		bad = v.Open(b).Visit(f, archive.Visitor{
			Group: func(g *archive.GroupRow) error {
				end()
				at, step, open = g.Offset, b.Step, true
				return nil
			},
			Trajectory: func(r *archive.Row) error { step = step.Or(r.Version()); return nil },
		})
		end()
		return bad == nil
	})
	list := make([]*leaf, 0, len(files))
	for _, l := range files {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *leaf) int {
		order := func(n trajectory.Int) int {
			if n.Given {
				return 0
			}
			return 1
		}
		return cmp.Or(strings.Compare(a.split, b.split), cmp.Compare(order(a.step), order(b.step)), cmp.Compare(a.step.N, b.step.N))
	})
	return list, errors.Join(err, bad)
}

// writeTree writes a tar of ART's folders (9.2). A tar names a file's size before
// its content, so each file is made beside it first.
func writeTree(w io.Writer, v *archive.View, model string, f *archive.Filter, o Options) error {
	list, err := leaves(v, model, f)
	if err != nil {
		return err
	}
	spool, err := os.CreateTemp(o.TempDir, "export-*.parquet")
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	// Without a name it goes with the process, too. Systems that do not take the
	// name of an open file do so later.
	if os.Remove(spool.Name()) != nil {
		defer os.Remove(spool.Name())
	}
	defer spool.Close()
	tw := tar.NewWriter(w)
	for _, l := range list {
		if err := writeLeaf(tw, spool, v, model, f, l, o); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func writeLeaf(tw *tar.Writer, spool *os.File, v *archive.View, model string, f *archive.Filter, l *leaf, o Options) error {
	if err := errors.Join(spool.Truncate(0), seek(spool)); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	p := pen{sink: newColumns(spool, bare), drop: o.DropLogprobs}
	var c *archive.Contents
	for _, g := range l.groups {
		if c == nil || c.Batch != g.batch {
			c = v.Open(g.batch)
		}
		if _, err := c.VisitGroup(g.at, f, p.visitor(c)); err != nil {
			return err
		}
	}
	if err := p.close(); err != nil {
		return err
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err == nil {
		err = seek(spool)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := tw.WriteHeader(&tar.Header{
		Name: path.Join("models", FileName(model), "trajectories", FileName(l.split), l.name()), Size: size, Mode: 0o644, ModTime: l.groups[0].batch.Received, Format: tar.FormatPAX,
	}); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if _, err := io.Copy(tw, spool); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func seek(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// name is the name of the file: at least four digits, as the reference's.
func (l *leaf) name() string {
	if !l.step.Given {
		return "unversioned.parquet"
	}
	return fmt.Sprintf("%04d.parquet", l.step.N)
}

// FileName makes any text a name of a file or folder: what is not a letter, a
// digit, '.', '_' or '-', and a '.' at the beginning, is percent-encoded (2.7).
func FileName(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}
