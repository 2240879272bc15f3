package trajectoryapi

import (
	"context"
	"strconv"

	"weir/auth"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// setRewards answers POST …/rewards: {"rewards":[{"id":"<log>/<g>/<t>","reward":1.0}]}
// sets the rewards of recorded trajectories. Those of one batch are set together, or
// none of them.
func (h *Handlers) setRewards(c *transport.Call, model string) {
	if !h.allowed(c, auth.Write) {
		return
	}
	if !transport.JSONType(string(c.Request.Header.ContentType())) {
		c.Fail(failure.ErrMedia)
		return
	}
	if err := c.ReadBody(); err != nil {
		c.Fail(err)
		return
	}
	ctx := memory.With(c.Context(), func(n int64) error { return c.Memory().Grow(c.Context(), n) })
	order, batches, n, err := parseRewards(ctx, c.Body())
	if err == nil && h.settle != nil {
		err = h.settle(c.Context()) // those that came before this call
	}
	for i := 0; err == nil && i < len(order); i++ {
		err = h.cfg.Archive.SetRewards(ctx, c.Who.Tenant, model, order[i], batches[order[i]])
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(append(strconv.AppendInt([]byte(`{"object":"rewards","updated":`), int64(n), 10), '}'))
}

// rewards are those of one batch.
type rewards = map[archive.Position]float64

// maxRewards bounds one request.
const maxRewards = 10_000

// rewardBytes is at most what a reward takes that is to be set, if it is the only one of its
// batch.
const rewardBytes = 640

// parseRewards reads a body. The memory for it is reserved with ctx (package memory).
func parseRewards(ctx context.Context, body []byte) (order []archive.ID, batches map[archive.ID]rewards, n int, err error) {
	if err := memory.Take(ctx, int64(len(body))); err != nil {
		return nil, nil, 0, err
	}
	text, err := jsontext.Compact(body, trajectory.DefaultLimits().Depth)
	if err != nil {
		return nil, nil, 0, invalid([]string{"body"}, "json_invalid", "JSON decode error")
	}
	batches = make(map[archive.ID]rewards)
	list := text.Member("rewards")
	if text.Kind() != jsontext.Object || list == nil {
		return nil, nil, 0, invalid([]string{"body", "rewards"}, "missing", "Field required")
	}
	if list.Kind() != jsontext.Array {
		return nil, nil, 0, invalid([]string{"body", "rewards"}, "list_type", "Input should be a valid list")
	}
	if n = jsontext.NewCursor(list).Count(); n > maxRewards {
		return nil, nil, 0, invalid([]string{"body", "rewards"}, "too_long", "List should have at most "+strconv.Itoa(maxRewards)+" items")
	}
	if err := memory.Take(ctx, rewardBytes*int64(n)); err != nil {
		return nil, nil, 0, err
	}
	var bad []trajectory.Detail
	for i, e := range list.Elements() {
		id, reward := e.Member("id"), e.Member("reward")
		at, ok := place{}, false
		if id != nil && id.Kind() == jsontext.String {
			at, ok = parsePlace(id.Text())
		}
		if !ok {
			bad = append(bad, trajectory.Detail{Loc: []string{"body", "rewards", strconv.Itoa(i), "id"}, Type: "value_error", Msg: "Value error, want the id of a trajectory"})
		}
		x, finite := 0.0, false
		if reward != nil {
			x, finite = reward.Float()
		}
		if !finite {
			bad = append(bad, trajectory.Detail{Loc: []string{"body", "rewards", strconv.Itoa(i), "reward"}, Type: "float_type", Msg: "Input should be a valid number"})
		}
		if len(bad) >= trajectory.MaxDetails {
			break
		}
		if batches[at.log] == nil {
			batches[at.log] = make(rewards)
			order = append(order, at.log)
		}
		batches[at.log][archive.Position{Group: at.group, Index: at.index}] = x
	}
	if bad != nil {
		return nil, nil, 0, &trajectory.Invalid{Details: bad[:min(len(bad), trajectory.MaxDetails)]}
	}
	return order, batches, n, nil
}
