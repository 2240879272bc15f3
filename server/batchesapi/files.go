package batchesapi

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strconv"
	"sync"
	"time"

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
	maxMembers   = 16 // of a form
	maxUploads   = 32 // files that are read at a time
	formBuffer   = 64 << 10
	uploadBytes  = 3*chunkBytes + formBuffer // what reading one holds: a piece, and what the store has of it
	leastSeconds = 3600
	maxSeconds   = 2_592_000
	pageFiles    = maxFiles
	maxPageFiles = 10_000
)

// storeTime bounds how long what was refused may take to be deleted.
const storeTime = 30 * time.Second

// upload is a form with a file that is being read.
type upload struct {
	h       *Handlers
	owner   owner
	row     *fileRow
	room    int64             // bytes of files that the owner may have besides, as far as is known; below 0: any number
	texts   map[string]string // of the other members
	given   bool
	written bool // there may be chunks of it
}

// readForm reads the form that a file is sent in. The bytes of the file go to the store as they come, so
// what is wrong with members that follow it is found out when it is there, and the chunks are deleted.
func (u *upload) readForm(ctx context.Context, contentType string, body *transport.BodyStream) error {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return failure.BadRequest("", "The type of content must be multipart/form-data with a boundary.")
	}
	in := bufio.NewReaderSize(body, formBuffer)
	for r := multipart.NewReader(in, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, in) // what follows the form
			return cmp.Or(body.Err(), err)
		}
		var text []byte
		switch {
		case err != nil:
		case len(u.texts) >= maxMembers:
			return failure.BadRequest("", "The form has more than %d members.", maxMembers)
		case p.FormName() == "file" && u.given:
			return failure.BadRequest("file", "The form has two files.")
		case p.FormName() == "file":
			u.row.Name, u.given = p.FileName(), true
			if len(u.row.Name) > maxName {
				return failure.BadRequest("file", "The name of the file has more than %d bytes.", maxName)
			}
			var bad *api.Error
			if bad, err = u.keepContent(ctx, p); bad != nil {
				return bad
			}
		default:
			if text, err = io.ReadAll(io.LimitReader(p, maxFormText+1)); err == nil {
				u.texts[p.FormName()] = string(text)
			}
		}
		if body.Err() != nil {
			return body.Err()
		}
		var stored *storeError
		if errors.As(err, &stored) {
			return stored.err
		}
		if err != nil || len(text) > maxFormText {
			return failure.BadRequest("", "The form cannot be read, or a member of it has more than %d bytes.", maxFormText)
		}
	}
}

// storeError is an error of the store, and not of the form.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }

// keepContent writes the bytes of the file as they come.
func (u *upload) keepContent(ctx context.Context, content io.Reader) (bad *api.Error, err error) {
	piece := make([]byte, chunkBytes)
	for err == nil {
		var n int
		n, err = io.ReadFull(content, piece)
		if n == 0 || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if u.row.Bytes += int64(n); u.room >= 0 && u.row.Bytes > u.room {
			return errFull(u.row.Bytes, u.room), nil
		}
		u.written = true
		if _, failed := u.h.cfg.Store.putChunks(ctx, u.owner, u.row.ID, u.row.Chunks, piece[:n]); failed != nil {
			return nil, &storeError{failed}
		}
		u.row.Chunks++
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, partEnded(content)
	}
	return nil, err
}

// partEnded tells the end of a part from that of a body that was cut within it, for which multipart
// returns io.ErrUnexpectedEOF as well.
func partEnded(part io.Reader) error {
	if _, err := part.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return nil
}

// errFull refuses a file for which there is no room.
func errFull(bytes, room int64) *api.Error {
	return failure.BadRequest("file", "The file has %d bytes or more, and there is room for %d; delete some files.", bytes, room)
}

// check checks the other members, and takes from them what the row has.
func (u *upload) check() *api.Error {
	u.row.Purpose, u.row.Name = u.texts["purpose"], cmp.Or(u.row.Name, "file")
	switch {
	case !u.given:
		return failure.BadRequest("file", "file is missing: send a form with the members file and purpose.")
	case u.row.Purpose != purposeBatch:
		return failure.BadRequest("purpose", "purpose must be batch, got %s.", clip(u.row.Purpose))
	}
	anchor, seconds := u.texts["expires_after[anchor]"], u.texts["expires_after[seconds]"]
	if anchor == "" && seconds == "" {
		return nil
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n < leastSeconds || n > maxSeconds || anchor != "created_at" {
		return failure.BadRequest("expires_after", "expires_after must have the anchor created_at and seconds from %d to %d.", leastSeconds, maxSeconds)
	}
	u.row.Expires = u.row.Created + n
	return nil
}

// createFile answers POST /v1/files.
func (h *Handlers) createFile(c *transport.Call) {
	o := ownerOf(c)
	if !h.uploads.take(o) {
		c.Fail(failure.ErrUploads)
		return
	}
	defer h.uploads.give(o)
	body := c.FormStream(h.cfg.MaxFile, h.cfg.Draining(), uploadBytes)
	if body == nil {
		return
	}
	row := &fileRow{ID: "file-" + h.cfg.NewID(), Created: h.now(), User: c.Who.User}
	u := &upload{h: h, owner: o, row: row, texts: map[string]string{}}
	if err := u.keep(c, body); err != nil {
		u.drop()
		if errors.Is(err, failure.ErrTooLarge) { // whose text names the limit of other bodies
			err = api.ErrTooLarge(int(h.cfg.MaxFile))
		}
		c.Fail(err)
		return
	}
	c.Reply(row.append(nil))
}

// keep reads and writes a file, if its owner may have one more.
func (u *upload) keep(c *transport.Call, body *transport.BodyStream) error {
	s := u.h.cfg.Store
	err := s.db.View(func(r *store.Reader) (err error) {
		u.room, err = s.room(r, u.owner)
		return err
	})
	if err != nil {
		return err
	}
	if !s.swept.Load() {
		s.fresh.Store(u.row.ID, true)
	}
	if err := u.readForm(c.Context(), string(c.Request.Header.ContentType()), body); err != nil {
		return err
	}
	if bad := u.check(); bad != nil {
		return bad
	}
	return s.db.Update(c.Context(), func(tx *store.Tx) error {
		room, err := s.room(&tx.Reader, u.owner) // there may be others by now
		if err == nil && room >= 0 && u.row.Bytes > room {
			err = errFull(u.row.Bytes, room)
		}
		if err != nil {
			return err
		}
		return set(tx, u.owner.key(tagFile, u.row.ID), u.row)
	})
}

// room returns how many bytes of files an owner may have besides; below 0: any number.
func (s *Store) room(r *store.Reader, o owner) (int64, error) {
	rows, err := all[fileRow](r, o.key(tagFile, ""))
	switch {
	case err != nil:
		return 0, err
	case len(rows) >= maxFiles:
		return 0, failure.BadRequest("file", "There are %d files already; delete some.", len(rows))
	case s.limit <= 0:
		return -1, nil
	}
	room := s.limit
	for _, f := range rows {
		room -= f.Bytes
	}
	return max(0, room), nil
}

// drop deletes what has been written of a file that is none. What cannot be deleted is swept at the next start.
func (u *upload) drop() {
	if !u.written {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	u.row.Chunks++ // one may have been written without an answer
	if err := u.h.cfg.Store.deleteFile(ctx, u.owner, u.row); err != nil {
		u.h.cfg.Log.Warn("a part of a file that was refused is left until the next start", "id", u.row.ID, "error", err)
	}
}

// uploads are the files that are being read, by their owners. One owner has at most half of the places.
type uploads struct {
	mu  sync.Mutex
	all int
	of  map[owner]int
}

func (u *uploads) take(o owner) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all >= maxUploads || u.of[o] >= maxUploads/2 {
		return false
	}
	if u.of == nil {
		u.of = map[owner]int{}
	}
	u.all++
	u.of[o]++
	return true
}

func (u *uploads) give(o owner) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all--
	if u.of[o]--; u.of[o] == 0 {
		delete(u.of, o)
	}
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
