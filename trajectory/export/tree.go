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

	"weir/trajectory"
	"weir/trajectory/archive"
)

// treeFile is one file of ART's folders: the groups of a split and a step.
type treeFile struct {
	split  string
	step   trajectory.Int
	groups []treeGroup
}

// groupBytes is about what a group takes in the list of its file, which grows.
const groupBytes = 128

type treeGroup struct {
	batch *archive.Batch
	at    archive.GroupOffset
}

// treeFiles finds the files of a selection, sorted by split and step. A group is never
// divided: its step is that of the batch, or else of its first trajectory that has one.
func treeFiles(v *archive.View, model string, f *archive.Filter) ([]*treeFile, error) {
	type key struct {
		split string
		step  trajectory.Int
	}
	files := make(map[key]*treeFile)
	var bad error
	err := v.Batches(model, archive.ID{}, false, func(b *archive.Batch) bool {
		if bad = v.Reserve(archive.BatchBytes); bad != nil {
			return false
		}
		var at archive.GroupOffset
		step, begun := b.Step, false
		// end adds the group that has been visited to its file.
		end := func() {
			if !begun {
				return
			}
			k := key{b.Split, step}
			if files[k] == nil {
				files[k] = &treeFile{split: b.Split, step: step}
			}
			files[k].groups = append(files[k].groups, treeGroup{b, at})
		}
		bad = v.Open(b).Visit(f, archive.Visitor{
			Group: func(g *archive.GroupRow) error {
				end()
				at, step, begun = g.Offset, b.Step, true
				return v.Reserve(groupBytes)
			},
			Trajectory: func(r *archive.Row) error { step = step.Or(r.Version()); return nil },
		})
		end()
		return bad == nil
	})
	list := make([]*treeFile, 0, len(files))
	for _, l := range files {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *treeFile) int {
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

// writeART writes a tar of ART's folders (docs/interface/trajectories.md, section 13.3). A
// tar has the size of a file before its content, so each file is written to a temporary file
// first.
func writeART(w io.Writer, v *archive.View, model string, f *archive.Filter, o Options) error {
	list, err := treeFiles(v, model, f)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(o.TempDir, "export-*.parquet")
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	// Without a name the file disappears with the process, however that ends. On systems
	// that do not remove the name of an open file, it is removed later.
	if os.Remove(temp.Name()) != nil {
		defer os.Remove(temp.Name())
	}
	defer temp.Close()
	tw := tar.NewWriter(w)
	for _, l := range list {
		if err := writeTreeFile(tw, temp, v, model, f, l, o); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func writeTreeFile(tw *tar.Writer, temp *os.File, v *archive.View, model string, f *archive.Filter, l *treeFile, o Options) error {
	if err := errors.Join(temp.Truncate(0), rewind(temp)); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	s := newParquetSink(temp, v, makeARTRow, o.rowGroup)
	p := textVisitor{sink: s, view: v, dropLogprobs: o.DropLogprobs, room: v.Room(), memory: s.memory}
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
	size, err := temp.Seek(0, io.SeekCurrent)
	if err == nil {
		err = rewind(temp)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := tw.WriteHeader(&tar.Header{
		Name: path.Join("models", FileName(model), "trajectories", FileName(l.split), l.name()), Size: size, Mode: 0o644, ModTime: l.groups[0].batch.Received, Format: tar.FormatPAX,
	}); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if _, err := io.Copy(tw, temp); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// name is the name of the file. It has at least four digits, as ART's.
func (l *treeFile) name() string {
	if !l.step.Given {
		return "unversioned.parquet"
	}
	return fmt.Sprintf("%04d.parquet", l.step.N)
}

// FileName makes a name of a file or folder of any text. What is not a letter, a digit, '.',
// '_' or '-', and a '.' at the beginning, is percent-encoded (docs/interface/trajectories.md,
// section 2.7).
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
