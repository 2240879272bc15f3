package trajectoryapi

import (
	"strconv"

	"weir/api"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// oneTrajectory answers GET …/trajectories/{log_id}/{g}/{t}, with the text exactly
// as it is stored.
func (h *Handlers) oneTrajectory(c *transport.Call, model string) {
	h.read(c, model, false, func(_ *selection, v *archive.View) error {
		at, ok := parsePlace(segment(c, 1) + "/" + segment(c, 2) + "/" + segment(c, 3))
		if !ok {
			return archive.ErrNotFound
		}
		b, err := v.Batch(model, at.log)
		if err != nil {
			return err
		}
		contents := v.Open(b)
		row, g, err := contents.Find(at.group, at.index)
		if err != nil {
			return err
		}
		size := contents.Size(&g, &row)
		if err := v.Reserve(size); err != nil {
			return err
		}
		d := appendFacts(append(make([]byte, 0, size), '{'), b, &row)
		text, err := contents.GroupText(&g)
		if err != nil {
			return err
		}
		d = append(append(d, `,"group":`...), text...)
		if text, err = contents.Text(&row); err != nil {
			return err
		}
		d = append(append(d, `,"trajectory":`...), text...)
		c.ReplyReserved(append(d, '}'))
		return nil
	})
}

// entryBytes is how many bytes an entry of a list takes for each byte of the trajectory, in a
// buffer that grows: it may have the messages and the whole text.
const entryBytes = 6

// appendTrajectory appends an entry of a list.
func appendTrajectory(d []byte, v *archive.View, c *archive.Contents, r *archive.Row, include map[string]bool, room *archive.Room) ([]byte, error) {
	b := c.Batch
	d = appendFacts(append(d, '{'), b, r)
	text, err := c.Text(r)
	if err == nil {
		err = room.Need(entryBytes*int64(len(text)) + trajectory.TurnBytes(text, v.Pace()))
	}
	if err != nil {
		return d, err
	}
	p := trajectory.Take(text, v.Pace())
	d = append(append(d, `,"metrics":`...), orText(p.Metrics, "{}")...)
	d = append(append(d, `,"metadata":`...), orText(p.Metadata, "{}")...)
	if include["messages"] || include["logprobs"] {
		d = append(d, `,"messages":`...)
		d = appendTurns(d, p, include["logprobs"], v.Pace())
	}
	if include["raw"] {
		d = append(append(d, `,"trajectory":`...), text...)
	}
	return append(d, '}'), v.Stopped()
}

func orText(v trajectory.Value, otherwise string) []byte {
	if v == nil {
		return []byte(otherwise)
	}
	return v
}

// appendFacts appends what is known of a trajectory without its text.
func appendFacts(d []byte, b *archive.Batch, r *archive.Row) []byte {
	d = append(export.AppendPosition(d, b, r), `,"object":"trajectory","reward":`...)
	if r.Scored {
		d = trajectory.AppendFloat(d, r.Reward)
	} else {
		d = append(d, "null"...)
	}
	d = export.AppendInt(append(d, `,"initial_policy_version":`...), r.Initial)
	d = export.AppendInt(append(d, `,"final_policy_version":`...), r.Final)
	d = append(d, `,"start_time":`...)
	if r.Start.IsZero() {
		d = append(d, "null"...)
	} else {
		d = append(r.Start.AppendFormat(append(d, '"'), export.TimeFormat), '"')
	}
	d = append(d, `,"finish_reasons":[`...)
	for i, f := range r.Finish {
		if i > 0 {
			d = append(d, ',')
		}
		d = api.AppendString(d, f)
	}
	d = strconv.AppendBool(append(d, `],"has_tools":`...), r.Tools)
	return export.AppendInt(append(d, `,"completion_tokens":`...), r.Tokens)
}

// appendTurns appends the turns as messages, each with whether it is trainable, and
// of choices why they ended; null when there are exchanges in place of turns.
func appendTurns(d []byte, p trajectory.Parts, logprobs bool, pace trajectory.Pace) []byte {
	if p.Turns == nil && !p.Exchanges.Empty() {
		return append(d, "null"...)
	}
	d = append(d, '[')
	for i, t := range trajectory.Turns(p.Turns, pace) {
		if i > 0 {
			d = append(d, ',')
		}
		d = append(d, t.Message[:len(t.Message)-1]...)
		if len(t.Message) > len("{}") {
			d = append(d, ',')
		}
		d = strconv.AppendBool(append(d, `"trainable":`...), t.Choice)
		if t.Choice {
			d = append(append(d, `,"finish_reason":`...), t.Finish...)
		}
		if logprobs && t.Logprobs != nil {
			d = append(append(d, `,"logprobs":`...), t.Logprobs...)
		}
		d = append(d, '}')
	}
	return append(d, ']')
}
