package batchesapi

import (
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"weir/api"
	"weir/batch"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/transport"
	"weir/store"
)

// Limits of batches.
const (
	maxLines     = 50_000 // of a batch
	maxOpen      = 100    // batches of an owner that have not ended
	maxBatches   = 1000   // of an owner; the oldest of those that have ended are dropped
	maxPairs     = 16     // of metadata
	maxPairName  = 64     // characters
	maxPairValue = 512
	maxWindow    = 30 * 24 * time.Hour
	pageBatches  = 20
	maxPage      = 100
	maxErrors    = 100 // that a batch names
	maxDepth     = 64
	maxRequest   = 64 << 10 // bytes of a request for a batch
)

// createBatch answers POST /v1/batches.
func (h *Handlers) createBatch(c *transport.Call) {
	v, ok := h.readObject(c)
	if !ok {
		return
	}
	b, bad := decodeBatch(v)
	if bad != nil {
		c.Fail(bad)
		return
	}
	o := ownerOf(c)
	b.ID, b.Output, b.ErrorFile = "batch_"+h.cfg.NewID(), "file-"+h.cfg.NewID(), "file-"+h.cfg.NewID()
	b.Status, b.Created = validating, h.now()
	window, _ := windowOf(b.Window)
	b.Expires = b.Created + int64(window/time.Second)
	b.Who, b.Project, b.Address = c.Who, c.Project, c.Tenant()
	if err := h.cfg.Store.db.Update(c.Context(), func(tx *store.Tx) error {
		bad = nil
		file, err := get[fileRow](&tx.Reader, o.key(tagFile, b.Input))
		switch {
		case err != nil:
			return err
		case file == nil || file.Expires > 0 && file.Expires <= b.Created:
			bad = errNotFound("file", "input_file_id", b.Input)
			return nil
		case file.Purpose != purposeBatch:
			bad = failure.BadRequest("input_file_id", "The purpose of the file is %s, not batch.", file.Purpose)
			return nil
		}
		rows, err := all[batchRow](&tx.Reader, o.key(tagBatch, ""))
		if err != nil {
			return err
		}
		if bad = dropOldest(tx, o, rows); bad != nil {
			return nil
		}
		tx.Set(o.key(tagOpen, b.ID), nil)
		return set(tx, o.key(tagBatch, b.ID), b)
	}); err != nil {
		c.Fail(err)
		return
	}
	if bad != nil {
		c.Fail(bad)
		return
	}
	h.runner.add(named{o, b.ID})
	c.Reply(b.append(nil))
}

// dropOldest makes room for one more batch, or refuses it.
func dropOldest(tx *store.Tx, o owner, rows []*batchRow) *api.Error {
	open := 0
	for _, r := range rows {
		if !r.ended() {
			open++
		}
	}
	if open >= maxOpen {
		return failure.BadRequest("", "There are %d batches already that have not ended; wait for some, or cancel them.", open)
	}
	slices.SortFunc(rows, newest[*batchRow])
	for i := len(rows) - 1; i >= 0 && len(rows) >= maxBatches; i-- {
		if rows[i].ended() {
			tx.Delete(o.key(tagBatch, rows[i].ID))
			rows = rows[:len(rows)-1]
		}
	}
	return nil
}

// readObject reads a body that is an object, or refuses it.
func (h *Handlers) readObject(c *transport.Call) (v jsontext.Value, ok bool) {
	switch {
	case !api.IsJSON(string(c.Request.Header.ContentType())):
		c.Fail(api.ErrContentType())
		return nil, false
	case c.Request.Header.ContentLength() > maxRequest:
		c.Fail(failure.BadRequest("", "The request has more than %d bytes.", maxRequest))
		return nil, false
	case !c.ReadJSON(maxRequest, h.cfg.Draining()):
		return nil, false
	}
	if bad := jsontext.Check(c.Body(), maxDepth); bad != nil {
		c.Fail(failure.BadRequest("", "The request body is not JSON: %s.", bad.Error()))
		return nil, false
	}
	if v = jsontext.Trim(c.Body()); v.Kind() != jsontext.Object {
		c.Fail(failure.BadRequest("", "The request body must be a JSON object."))
		return nil, false
	}
	return v, true
}

// readTexts reads members that must be texts.
func readTexts(v jsontext.Value, members map[string]*string) *api.Error {
	for name, to := range members {
		m := v.Member(name)
		if !m.Given() || m.Kind() != jsontext.String {
			return failure.BadRequest(name, "%s must be a text.", name)
		}
		*to = m.Text()
	}
	return nil
}

// decodeBatch reads a request for a batch.
func decodeBatch(v jsontext.Value) (*batchRow, *api.Error) {
	b := &batchRow{Metadata: jsontext.RawMessage("null")}
	if bad := readTexts(v, map[string]*string{"input_file_id": &b.Input, "endpoint": &b.Endpoint, "completion_window": &b.Window}); bad != nil {
		return nil, bad
	}
	if !slices.Contains(batch.URLs, b.Endpoint) {
		return nil, failure.BadRequest("endpoint", "endpoint must be one of %v, got %s.", batch.URLs, clip(b.Endpoint))
	}
	if _, ok := windowOf(b.Window); !ok {
		return nil, failure.BadRequest("completion_window", "completion_window must be a number of minutes, hours or days, such as 24h, and at most 30d, got %s.", clip(b.Window))
	}
	if m := v.Member("metadata"); m.Given() {
		if bad := checkMetadata(m); bad != nil {
			return nil, bad
		}
		b.Metadata = jsontext.RawMessage(slices.Clone(jsontext.AppendCompact(nil, m)))
	}
	return b, nil
}

// windows are the forms of completion_window.
var windows = regexp.MustCompile(`^([1-9][0-9]{0,4})([mhd])$`)

// windowOf reads a completion_window.
func windowOf(text string) (time.Duration, bool) {
	m := windows.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, _ := strconv.Atoi(m[1])
	w := time.Duration(n) * map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[2]]
	return w, w <= maxWindow
}

func checkMetadata(v jsontext.Value) *api.Error {
	if v.Kind() != jsontext.Object {
		return failure.BadRequest("metadata", "metadata must be an object.")
	}
	n := 0
	for name, value := range v.Members() {
		if n++; n > maxPairs {
			return failure.BadRequest("metadata", "metadata has more than %d pairs.", maxPairs)
		}
		if value.Kind() != jsontext.String || utf8.RuneCount(name) > maxPairName || utf8.RuneCountInString(value.Text()) > maxPairValue {
			return failure.BadRequest("metadata", "metadata must be texts of at most %d characters, with names of at most %d.", maxPairValue, maxPairName)
		}
	}
	return nil
}

// findBatch returns a batch with its counts, or answers that there is none.
func (h *Handlers) findBatch(c *transport.Call, id string) *batchRow {
	row, err := h.cfg.Store.batch(ownerOf(c), id)
	switch {
	case err != nil:
		c.Fail(err)
		return nil
	case row == nil:
		c.Fail(errNotFound("batch", "batch_id", id))
		return nil
	}
	h.runner.count(row)
	return row
}

// getBatch answers GET /v1/batches/{id}.
func (h *Handlers) getBatch(c *transport.Call, id string) {
	if row := h.findBatch(c, id); row != nil {
		c.Reply(row.append(nil))
	}
}

// listBatches answers GET /v1/batches.
func (h *Handlers) listBatches(c *transport.Call) {
	p, bad := readPage(c, pageBatches, maxPage)
	if bad != nil {
		c.Fail(bad)
		return
	}
	rows, err := list[batchRow](h.cfg.Store, ownerOf(c).key(tagBatch, ""))
	if err != nil {
		c.Fail(err)
		return
	}
	slices.SortFunc(rows, newest[*batchRow])
	for _, r := range rows {
		h.runner.count(r)
	}
	reply(c, p, rows)
}

// cancelBatch answers POST /v1/batches/{id}/cancel.
func (h *Handlers) cancelBatch(c *transport.Call, id string) {
	o := ownerOf(c)
	was := ""
	row, err := h.cfg.Store.change(c.Context(), o, id, func(b *batchRow) bool {
		if was = b.Status; was != validating && was != inProgress {
			return false
		}
		b.set(cancelling, h.now())
		b.Next = cancelled
		return true
	})
	switch {
	case err != nil:
		c.Fail(err)
	case row == nil:
		c.Fail(errNotFound("batch", "batch_id", id))
	case row.ended():
		c.Fail(failure.BadRequest("batch_id", "The batch is %s already.", row.Status))
	default:
		h.runner.cancel(named{o, id})
		h.runner.count(row)
		c.Reply(row.append(nil))
	}
}
