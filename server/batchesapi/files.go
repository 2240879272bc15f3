package batchesapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strconv"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/transport"
	"weir/store"
)

// Limits of files.
const (
	maxFiles     = 1000 // of an owner
	maxName      = 255  // bytes
	maxFormText  = 1 << 10
	leastSeconds = 3600
	maxSeconds   = 2_592_000
	pageFiles    = maxFiles
	maxPageFiles = 10_000
)

// form is what a form with a file says.
type form struct {
	name, purpose string
	content       []byte
	given         bool
	seconds       int64 // until the file expires; 0: it does not
}

// readForm reads the form that a file is sent in.
func readForm(contentType string, body []byte) (f form, bad *api.Error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return f, failure.BadRequest("", "The type of content must be multipart/form-data with a boundary.")
	}
	texts := map[string]string{}
	for r := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		var text []byte
		if err == nil && p.FormName() == "file" {
			f.content, err = io.ReadAll(p)
			f.name, f.given = p.FileName(), true
		} else if err == nil {
			text, err = io.ReadAll(io.LimitReader(p, maxFormText+1))
		}
		if err != nil || len(text) > maxFormText {
			return f, failure.BadRequest("", "The form cannot be read, or a member of it has more than %d bytes.", maxFormText)
		}
		texts[p.FormName()] = string(text)
	}
	f.purpose = texts["purpose"]
	switch {
	case !f.given:
		return f, failure.BadRequest("file", "file is missing: send a form with the members file and purpose.")
	case f.purpose != purposeBatch:
		return f, failure.BadRequest("purpose", "purpose must be batch, got %s.", clip(f.purpose))
	case len(f.name) > maxName:
		return f, failure.BadRequest("file", "The name of the file has more than %d bytes.", maxName)
	}
	anchor, seconds := texts["expires_after[anchor]"], texts["expires_after[seconds]"]
	if anchor == "" && seconds == "" {
		return f, nil
	}
	f.seconds, err = strconv.ParseInt(seconds, 10, 64)
	if err != nil || f.seconds < leastSeconds || f.seconds > maxSeconds || anchor != "created_at" {
		return f, failure.BadRequest("expires_after", "expires_after must have the anchor created_at and seconds from %d to %d.", leastSeconds, maxSeconds)
	}
	return f, nil
}

// createFile answers POST /v1/files.
func (h *Handlers) createFile(c *transport.Call) {
	if !c.ReadForm(h.cfg.MaxFile, h.cfg.Draining()) {
		return
	}
	f, bad := readForm(string(c.Request.Header.ContentType()), c.Body())
	if bad != nil {
		c.Fail(bad)
		return
	}
	row := &fileRow{ID: "file-" + h.cfg.NewID(), Name: cmp.Or(f.name, "file"), Purpose: f.purpose, Bytes: int64(len(f.content)), Created: h.now(), User: c.Who.User}
	if f.seconds > 0 {
		row.Expires = row.Created + f.seconds
	}
	if err := h.keep(c.Context(), ownerOf(c), row, f.content); err != nil {
		c.Fail(err)
		return
	}
	c.Reply(row.append(nil))
}

// keep writes a file, if its owner may have one more.
func (h *Handlers) keep(ctx context.Context, o owner, row *fileRow, content []byte) (err error) {
	s := h.cfg.Store
	var bad *api.Error
	room := func(r *store.Reader) error {
		rows, err := all[fileRow](r, o.key(tagFile, ""))
		bytes := row.Bytes
		for _, f := range rows {
			bytes += f.Bytes
		}
		switch {
		case err != nil:
		case len(rows) >= maxFiles:
			bad = failure.BadRequest("file", "There are %d files already; delete some.", len(rows))
		case s.limit > 0 && bytes > s.limit:
			bad = failure.BadRequest("file", "The files would have %d bytes, more than %d; delete some.", bytes, s.limit)
		}
		return err
	}
	if err := s.db.View(room); err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	if !s.swept.Load() {
		s.fresh.Store(row.ID, true)
	}
	if row.Chunks, err = s.putChunks(ctx, o, row.ID, 0, content); err != nil {
		return err
	}
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		if err := room(&tx.Reader); err != nil || bad != nil {
			return err
		}
		return set(tx, o.key(tagFile, row.ID), row)
	})
	if err == nil && bad != nil {
		return bad
	}
	return err
}

// findFile returns a file that has not expired, or answers that there is none.
func (h *Handlers) findFile(c *transport.Call, id string) *fileRow {
	row, err := h.cfg.Store.file(ownerOf(c), id)
	switch {
	case err != nil:
		c.Fail(err)
		return nil
	case row == nil || row.Expires > 0 && row.Expires <= h.now():
		c.Fail(errNotFound("file", "file_id", id))
		return nil
	}
	return row
}

// getFile answers GET /v1/files/{id}.
func (h *Handlers) getFile(c *transport.Call, id string) {
	if row := h.findFile(c, id); row != nil {
		c.Reply(row.append(nil))
	}
}

// listFiles answers GET /v1/files.
func (h *Handlers) listFiles(c *transport.Call) {
	p, bad := readPage(c, pageFiles, maxPageFiles)
	if bad != nil {
		c.Fail(bad)
		return
	}
	purpose, now := string(c.QueryArgs().Peek("purpose")), h.now()
	rows, err := list[fileRow](h.cfg.Store, ownerOf(c).key(tagFile, ""))
	if err != nil {
		c.Fail(err)
		return
	}
	rows = slices.DeleteFunc(rows, func(f *fileRow) bool {
		return purpose != "" && f.Purpose != purpose || f.Expires > 0 && f.Expires <= now
	})
	slices.SortFunc(rows, newest[*fileRow])
	reply(c, p, rows)
}

// newest sorts the newest first.
func newest[T listed](a, b T) int {
	at, id := a.order()
	bt, other := b.order()
	return cmp.Or(cmp.Compare(bt, at), cmp.Compare(other, id))
}

// deleteFile answers DELETE /v1/files/{id}.
func (h *Handlers) deleteFile(c *transport.Call, id string) {
	row := h.findFile(c, id)
	if row == nil {
		return
	}
	o := ownerOf(c)
	batches, err := list[batchRow](h.cfg.Store, o.key(tagBatch, ""))
	if err == nil && slices.ContainsFunc(batches, func(b *batchRow) bool { return b.Input == id && !b.ended() }) {
		err = failure.BadRequest("file_id", "A batch that has not ended reads the file; cancel that first.")
	}
	if err == nil {
		err = h.cfg.Store.deleteFile(c.Context(), o, row)
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(append(jsontext.AppendString([]byte(`{"id":`), id), `,"object":"file","deleted":true}`...))
}

// content answers GET /v1/files/{id}/content.
func (h *Handlers) content(c *transport.Call, id string) {
	row := h.findFile(c, id)
	if row == nil {
		return
	}
	c.StreamSized("application/octet-stream", &contentReader{store: h.cfg.Store, owner: ownerOf(c), file: row, call: c}, int(row.Bytes))
	c.Settle()
}

// contentReader reads a file piece by piece.
type contentReader struct {
	store *Store
	owner owner
	file  *fileRow
	next  int
	piece []byte
	call  *transport.Call
}

func (r *contentReader) Read(p []byte) (n int, err error) {
	for len(r.piece) == 0 {
		if r.next == r.file.Chunks {
			return 0, io.EOF
		}
		if r.piece, err = r.store.readChunk(r.owner, r.file.ID, r.next); err != nil {
			return 0, err
		}
		r.next++
	}
	n = copy(p, r.piece)
	r.piece = r.piece[n:]
	return n, nil
}

// Close ends the call.
func (r *contentReader) Close() error {
	if r.call != nil {
		r.call.Done()
	}
	return nil
}
