package trajectoryapi

import (
	"context"
	"strconv"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/auth"
	"weir/server/transport"
	"weir/trajectory/archive"
)

// deleteLog answers DELETE …/logs/{log_id}.
func (h *Handlers) deleteLog(c *transport.Call, model string) {
	h.remove(c, func(q *selection) ([]byte, error) {
		id, ok := archive.ParseID(segment(c, 1))
		if !ok {
			return nil, archive.ErrNotFound
		}
		counts, err := h.cfg.Archive.DeleteBatch(c.Context(), c.Who.Tenant, model, id)
		d := api.AppendString([]byte(`{"id":`), id.String())
		return append(appendCounts(append(d, `,"object":"trajectory_log.deleted","deleted":true`...), counts), '}'), err
	}, false)
}

// deleteModel answers DELETE /v1/preview/models/{model_id}.
func (h *Handlers) deleteModel(c *transport.Call, model string) {
	h.remove(c, func(q *selection) ([]byte, error) {
		counts, err := h.cfg.Archive.DeleteModel(c.Context(), c.Who.Tenant, model)
		d := api.AppendString([]byte(`{"id":`), model)
		return append(appendCounts(append(d, `,"object":"model.deleted","deleted":true`...), counts), '}'), err
	}, false)
}

// deleteTrajectories answers DELETE …/trajectories?<filters>.
func (h *Handlers) deleteTrajectories(c *transport.Call, model string) {
	h.remove(c, func(q *selection) ([]byte, error) {
		if !q.dry && q.confirm != model {
			code := "value_error"
			if q.confirm == "" {
				code = "missing"
			}
			return nil, invalid([]string{"query", "confirm"}, code, "Value error, want the id of the model")
		}
		n := 0
		err := c.Query(func(ctx context.Context) (err error) {
			n, err = h.cfg.Archive.Delete(ctx, c.Who.Tenant, model, &q.Filter, q.dry)
			return err
		})
		d := strconv.AppendInt([]byte(`{"object":"trajectories.deleted","trajectories":`), int64(n), 10)
		return append(strconv.AppendBool(append(d, `,"dry_run":`...), q.dry), '}'), err
	}, true, deletions)
}

func (h *Handlers) remove(c *transport.Call, f func(*selection) ([]byte, error), filtered bool, own ...string) {
	if !h.allowed(c, auth.Write) {
		return
	}
	q, err := query(c, filtered, own...)
	var answer []byte
	if err == nil {
		answer, err = f(q)
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, string(answer))
}
