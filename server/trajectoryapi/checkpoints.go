package trajectoryapi

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/auth"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// listCheckpoints answers GET …/checkpoints.
func (h *Handlers) listCheckpoints(c *transport.Call, model string) {
	h.read(c, model, false, func(q *selection, v *archive.View) error {
		there, err := v.Steps(model)
		if err != nil {
			return err
		}
		steps := make([]int64, 0, len(there))
		for n := range there {
			steps = append(steps, n)
		}
		slices.Sort(steps)
		if q.after != "" {
			n, ok := parseCheckpoint(q.after)
			if !ok {
				return wrong("after", "value_error")
			}
			at, found := slices.BinarySearch(steps, n)
			switch {
			case q.backwards:
				steps = steps[:at]
			case found:
				steps = steps[at+1:]
			default:
				steps = steps[at:]
			}
		}
		if q.backwards {
			slices.Reverse(steps)
		}
		p := page{more: len(steps) > q.limit}
		steps = steps[:min(len(steps), q.limit)]
		metrics, err := stepMetrics(v, model, steps)
		if err != nil {
			return err
		}
		for _, n := range steps {
			id := checkpointID(n)
			p.entry(id)
			p.d = api.AppendString(append(p.d, `{"id":`...), id)
			p.d = strconv.AppendInt(append(p.d, `,"object":"checkpoint","step":`...), n, 10)
			p.d = append(metrics.appendStep(append(p.d, `,"metrics":{`...), n), "}}"...)
		}
		c.Reply(p.end())
		return nil
	}, pages)
}

// A checkpoint has the alias as its id that ART gives to the artifact of a step.
const checkpointPrefix = "step"

func checkpointID(step int64) string { return checkpointPrefix + strconv.FormatInt(step, 10) }

func parseCheckpoint(id string) (step int64, ok bool) {
	digits, ok := strings.CutPrefix(id, checkpointPrefix)
	step, err := strconv.ParseInt(digits, 10, 64)
	return step, ok && err == nil && checkpointID(step) == id
}

// maxSteps bounds the checkpoints that one request deletes.
const maxSteps = 10_000

// stepSize is about what a step takes that is to be deleted, with what is known of it.
const stepSize = 256

// deleteCheckpoints answers DELETE …/checkpoints: {"steps":[1,2]}.
func (h *Handlers) deleteCheckpoints(c *transport.Call, model string) {
	body, ok := h.body(c)
	if !ok {
		return
	}
	ctx := memory.With(c.Context(), func(n int64) error { return c.Memory().Grow(c.Context(), n) })
	steps, err := parseSteps(ctx, body)
	if err == nil && c.Who.Rights&auth.Write == 0 {
		err = failure.ErrForbidden
	}
	var deleted int
	var missing []int64
	if err == nil {
		err = c.Query(func(turn context.Context) (err error) {
			deleted, missing, err = h.cfg.Archive.DeleteCheckpoints(turn, c.Who.Tenant, model, steps)
			return err
		})
	}
	if err != nil {
		c.Fail(err)
		return
	}
	d := strconv.AppendInt([]byte(`{"object":"checkpoints.deleted","deleted_count":`), int64(deleted), 10)
	d = append(d, `,"not_found_steps":[`...)
	for i, n := range missing {
		if i > 0 {
			d = append(d, ',')
		}
		d = strconv.AppendInt(d, n, 10)
	}
	c.Reply(append(d, "]}"...))
}

func parseSteps(ctx context.Context, body jsontext.Value) (steps []int64, err error) {
	list := body.Member("steps")
	if list == nil {
		return nil, invalid([]string{"body", "steps"}, "missing", "Field required")
	}
	if list.Kind() != jsontext.Array {
		return nil, invalid([]string{"body", "steps"}, "list_type", "Input should be a valid list")
	}
	n := jsontext.NewCursor(list).Count()
	if n > maxSteps {
		return nil, invalid([]string{"body", "steps"}, "too_long", "List should have at most "+strconv.Itoa(maxSteps)+" items")
	}
	if err := memory.Take(ctx, stepSize*int64(n)); err != nil {
		return nil, err
	}
	var bad []trajectory.Detail
	for i, e := range list.Elements() {
		step, err := strconv.ParseInt(string(e), 10, 64)
		if err != nil {
			bad = append(bad, trajectory.Detail{Loc: []string{"body", "steps", strconv.Itoa(i)}, Type: "int_type", Msg: "Input should be a valid integer"})
			if len(bad) == trajectory.MaxDetails {
				break
			}
		}
		steps = append(steps, step)
	}
	if bad != nil {
		return nil, &trajectory.Invalid{Details: bad}
	}
	return steps, nil
}
