package archive

import (
	"encoding/binary"
	"time"

	"weir/trajectory"
)

// textRange is where a text is in the stream of texts.
type textRange struct{ off, size int64 }

// Row is what is known of a trajectory without its text.
type Row struct {
	Group, Index int
	text         textRange
	trajectory.Facts
}

// GroupRow is what is known of a group without its text.
type GroupRow struct {
	Index        int
	Trajectories int
	Exceptions   int
	Metrics      []trajectory.Score
	// The number, mean and standard deviation of the rewards in the group.
	Scored          int
	Mean, Deviation float64
	Offset          GroupOffset
	text            textRange
}

// Bits of a row's first byte.
const (
	hasScore = 1 << iota
	hasInitial
	hasFinal
	hasStart
	hasTools
	hasTokens
)

func (s textRange) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.off)), uint64(s.size))
}

// longLabel is the length from which on a row has only the hash of a metadata value. The
// value itself is in the text of the trajectory.
const longLabel = 128

// rowLabel is a metadata value as rows have it and filters compare it.
func rowLabel(s string) string {
	if len(s) < longLabel {
		return s
	}
	sum := textSum(s)
	const marked = longLabel // no short value is that long
	return string(append(make([]byte, marked-len(sum), marked), sum[:]...))
}

func (r *Row) append(b []byte) []byte {
	var bits byte
	flag := func(bit byte, on bool) {
		if on {
			bits |= bit
		}
	}
	flag(hasScore, r.Scored)
	flag(hasInitial, r.Initial.Given)
	flag(hasFinal, r.Final.Given)
	flag(hasStart, !r.Start.IsZero())
	flag(hasTools, r.Tools)
	flag(hasTokens, r.Tokens.Given)
	b = append(b, bits)
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Group)), uint64(r.Index))
	b = r.text.append(b)
	if r.Scored {
		b = appendFloat(b, r.Reward)
	}
	for _, n := range []trajectory.Int{r.Initial, r.Final, r.Tokens} {
		if n.Given {
			b = binary.AppendVarint(b, n.N)
		}
	}
	if !r.Start.IsZero() {
		b = binary.AppendVarint(b, r.Start.Unix())
		b = binary.AppendUvarint(b, uint64(r.Start.Nanosecond()))
	}
	b = binary.AppendUvarint(b, uint64(r.Choices))
	b = binary.AppendUvarint(b, uint64(len(r.Finish)))
	for _, f := range r.Finish {
		b = appendText(b, f)
	}
	b = appendScores(b, r.Metrics)
	b = binary.AppendUvarint(b, uint64(len(r.Metadata)))
	for _, l := range r.Metadata {
		b = appendText(appendText(b, l.Name), rowLabel(l.Value))
	}
	return b
}

func (g *GroupRow) append(b []byte) []byte {
	for _, n := range []int{g.Index, g.Trajectories, g.Exceptions, g.Scored} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = g.text.append(appendFloat(appendFloat(b, g.Mean), g.Deviation))
	return appendScores(b, g.Metrics)
}

func (w *Row) parse(b []byte) error {
	r := recordReader{b: b}
	*w = Row{}
	bits := byte(0)
	if first := r.take(1); first != nil {
		bits = first[0]
	}
	w.Group, w.Index, w.text = r.int(), r.int(), r.span()
	w.Tools = bits&hasTools != 0
	if w.Scored = bits&hasScore != 0; w.Scored {
		w.Reward = r.float()
	}
	w.Initial = r.given(bits&hasInitial != 0)
	w.Final = r.given(bits&hasFinal != 0)
	w.Tokens = r.given(bits&hasTokens != 0)
	if bits&hasStart != 0 {
		sec := r.varint()
		w.Start = time.Unix(sec, int64(r.uint())).UTC()
	}
	w.Choices = r.int()
	if n := r.count(1); n > 0 {
		w.Finish = make([]string, n)
	}
	for i := range w.Finish {
		w.Finish[i] = r.text()
	}
	w.Metrics = r.scores()
	if n := r.count(2); n > 0 {
		w.Metadata = make([]trajectory.Label, n)
	}
	for i := range w.Metadata {
		w.Metadata[i].Name = r.text()
		w.Metadata[i].Value = r.text()
	}
	return r.end()
}

func (g *GroupRow) parse(b []byte) error {
	r := recordReader{b: b}
	*g = GroupRow{Index: r.int(), Trajectories: r.int(), Exceptions: r.int(), Scored: r.int()}
	g.Mean, g.Deviation = r.float(), r.float()
	g.text = r.span()
	g.Metrics = r.scores()
	return r.end()
}
