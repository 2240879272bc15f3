package export

import (
	"io"
	"strconv"

	"weir/trajectory"
	"weir/trajectory/archive"
)

// sampleSink writes the formats of other trainers (docs/interface/trajectories.md, section
// 13.4), one trajectory per line.
type sampleSink struct {
	w      io.Writer
	pace   trajectory.Pace
	format Format
	buf    []byte
	groups int // so far
	g      archive.GroupRow
}

func (s *sampleSink) group(_ *archive.Batch, g *archive.GroupRow, _ trajectory.Value) error {
	s.groups++
	s.g = *g
	return nil
}

// memory is about what is taken for a trajectory.
func (s *sampleSink) memory(text trajectory.Value) int64 {
	return turnTextBytes*int64(len(text)) + trajectory.TurnBytes(text, s.pace)
}

func (s *sampleSink) close() error { return nil }

func (s *sampleSink) trajectory(b *archive.Batch, r *archive.Row, text trajectory.Value) error {
	p := trajectory.Take(text, s.pace)
	turns := trajectory.Turns(p.Turns, s.pace)
	d := append(s.buf[:0], '{')
	switch s.format {
	case Verl:
		d = s.verl(d, b, r, p, turns)
	case TRL:
		d = s.trl(d, b, r, turns)
	case Verifiers:
		d = s.verifiers(d, r, p, turns)
	case SFT:
		d = s.sft(d, p, turns)
	}
	s.buf = append(d, "}\n"...)
	_, err := s.w.Write(s.buf)
	return err
}

// verl appends the text before the last choice and the text of that choice.
func (s *sampleSink) verl(d []byte, b *archive.Batch, r *archive.Row, p trajectory.Parts, turns []trajectory.Turn) []byte {
	last := len(turns)
	for i, t := range turns {
		if t.Choice {
			last = i
		}
	}
	var input []byte
	for i, t := range turns[:last] {
		if i > 0 {
			input = append(input, '\n')
		}
		input = append(append(append(input, t.Open(s.pace).Role...), ": "...), t.Plain(s.pace)...)
	}
	output := ""
	if last < len(turns) {
		output = turns[last].Plain(s.pace)
	}
	d = trajectory.AppendText(append(d, `"input":`...), string(input))
	d = trajectory.AppendText(append(d, `,"output":`...), output)
	d = append(d, `,"gts":`...)
	truth := p.Metadata.PacedMember("ground_truth", s.pace)
	if truth == nil {
		truth = p.Metadata.PacedMember("answer", s.pace)
	}
	d = appendOr(d, truth, "null")
	d = appendReward(append(d, `,"score":`...), r)
	d = AppendInt(append(d, `,"step":`...), b.StepOf(r))
	return appendMetrics(d, r, "input", "output", "gts", "score", "step")
}

// appendOr appends a value, or another text if there is none.
func appendOr(d []byte, v trajectory.Value, otherwise string) []byte {
	if v == nil {
		return append(d, otherwise...)
	}
	return append(d, v...)
}

// appendMetrics appends the metrics as members, except those whose name is taken.
func appendMetrics(d []byte, r *archive.Row, taken ...string) []byte {
metrics:
	for _, m := range r.Metrics {
		for _, name := range taken {
			if m.Name == name {
				continue metrics
			}
		}
		d = append(trajectory.AppendText(append(d, ','), m.Name), ':')
		d = trajectory.AppendFloat(d, m.Value)
	}
	return d
}

// appendDialogue appends prompt and completion. The completion begins at the first choice.
func appendDialogue(d []byte, turns []trajectory.Turn) []byte {
	first := len(turns)
	for i, t := range turns {
		if t.Choice {
			first = i
			break
		}
	}
	d = appendMessages(append(d, `"prompt":`...), turns[:first])
	return appendMessages(append(d, `,"completion":`...), turns[first:])
}

// appendMessages appends the messages of turns as an array.
func appendMessages(d []byte, turns []trajectory.Turn) []byte {
	d = append(d, '[')
	for i, t := range turns {
		if i > 0 {
			d = append(d, ',')
		}
		d = append(d, t.Message...)
	}
	return append(d, ']')
}

// trl appends a prompt and a completion with an advantage in the group as it is stored.
func (s *sampleSink) trl(d []byte, b *archive.Batch, r *archive.Row, turns []trajectory.Turn) []byte {
	d = AppendInt(append(d, `"step":`...), b.StepOf(r))
	d = appendDialogue(append(d, ','), turns)
	d = appendReward(append(d, `,"reward":`...), r)
	d = append(d, `,"advantage":`...)
	switch {
	case !r.Scored:
		d = append(d, "null"...)
	case s.g.Scored < 2:
		d = append(d, '0')
	default:
		d = trajectory.AppendFloat(d, (r.Reward-s.g.Mean)/(s.g.Deviation+1e-4))
	}
	return appendMetrics(d, r, "step", "prompt", "completion", "reward", "advantage")
}

// verifiers appends an element of a data set of verifiers.
func (s *sampleSink) verifiers(d []byte, r *archive.Row, p trajectory.Parts, turns []trajectory.Turn) []byte {
	d = strconv.AppendInt(append(d, `"example_id":`...), int64(s.groups-1), 10)
	d = appendDialogue(append(d, ','), turns)
	d = appendOr(append(d, `,"answer":`...), p.Metadata.PacedMember("answer", s.pace), "null")
	d = appendReward(append(d, `,"reward":`...), r)
	d = appendOr(append(d, `,"metrics":`...), p.Metrics, "{}")
	d = appendOr(append(d, `,"info":`...), p.Metadata, "{}")
	d = appendOr(append(d, `,"tool_defs":`...), p.Tools, "null")
	d = strconv.AppendBool(append(d, `,"is_truncated":`...), r.Truncated())
	d = append(d, `,"error":null`...)
	return appendMetrics(d, r, "example_id", "prompt", "completion", "answer", "reward", "metrics", "info", "tool_defs", "is_truncated", "error")
}

// sft appends a conversation. Choices have only the content and the tool calls, which a model
// has to learn.
func (s *sampleSink) sft(d []byte, p trajectory.Parts, turns []trajectory.Turn) []byte {
	d = append(d, `"messages":[`...)
	for i, t := range turns {
		if i > 0 {
			d = append(d, ',')
		}
		if !t.Choice {
			d = append(d, t.Message...)
			continue
		}
		d = appendOr(append(d, `{"role":"assistant","content":`...), t.Message.PacedMember("content", s.pace), "null")
		if calls := t.Open(s.pace).ToolCalls; calls != nil {
			d = append(append(d, `,"tool_calls":`...), calls...)
		}
		d = append(d, '}')
	}
	d = append(d, ']')
	if !p.Tools.Empty() {
		d = append(append(d, `,"tools":`...), p.Tools...)
	}
	return d
}
