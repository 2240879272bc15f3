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

// incoming is a form with the content of a file, or of a part of one, that is being read.
type incoming struct {
	h       *Handlers
	owner   owner
	member  string // of the form, that has the content
	at      []byte // where the content is written
	most    int64  // bytes that it may have, as far as is known; below 0: any number
	name    string // that the form gives the content
	bytes   int64
	chunks  int
	texts   map[string]string // of the other members
	given   bool
	written bool // there may be chunks of it
}

// readForm reads the form that a file is sent in. The bytes of the file go to the store as they come, so
// what is wrong with members that follow it is found out when it is there, and the chunks are deleted.
func (in *incoming) readForm(ctx context.Context, contentType string, body *transport.BodyStream) error {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return failure.BadRequest("", "The type of content must be multipart/form-data with a boundary.")
	}
	buffered := bufio.NewReaderSize(body, formBuffer)
	for r := multipart.NewReader(buffered, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, buffered) // what follows the form
			return cmp.Or(body.Err(), err)
		}
		var text []byte
		switch {
		case err != nil:
		case len(in.texts) >= maxMembers:
			return failure.BadRequest("", "The form has more than %d members.", maxMembers)
		case p.FormName() == in.member && in.given:
			return failure.BadRequest(in.member, "The form has %s twice.", in.member)
		case p.FormName() == in.member:
			in.name, in.given = p.FileName(), true
			if len(in.name) > maxName {
				return failure.BadRequest(in.member, "The name of the file has more than %d bytes.", maxName)
			}
			var bad *api.Error
			if bad, err = in.keepContent(ctx, p); bad != nil {
				return bad
			}
		default:
			if text, err = io.ReadAll(io.LimitReader(p, maxFormText+1)); err == nil {
				in.texts[p.FormName()] = string(text)
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

// keepContent writes the bytes of the content as they come.
func (in *incoming) keepContent(ctx context.Context, content io.Reader) (bad *api.Error, err error) {
	piece := make([]byte, chunkBytes)
	for err == nil {
		var n int
		n, err = io.ReadFull(content, piece)
		if n == 0 || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if in.bytes += int64(n); in.most >= 0 && in.bytes > in.most {
			return in.full(in.most), nil
		}
		in.written = true
		if _, failed := in.h.cfg.Store.putChunks(ctx, in.at, in.chunks, piece[:n]); failed != nil {
			return nil, &storeError{failed}
		}
		in.chunks++
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

// full refuses content for which there is no room.
func (in *incoming) full(room int64) *api.Error {
	return failure.BadRequest(in.member, "%s has %d bytes or more, and there is room for %d.", in.member, in.bytes, room)
}

// receive answers a request with a form that has the content of a file or of a part. before says where it is
// written and how much it may have, done makes what it is of it and returns the answer.
func (h *Handlers) receive(c *transport.Call, in *incoming, most int64, before func() error, done func(ctx context.Context) ([]byte, error)) {
	in.h, in.owner, in.texts = h, ownerOf(c), map[string]string{}
	give, err := h.uploads.Take(in.owner)
	if err != nil {
		c.Fail(err)
		return
	}
	defer give()
	body := c.FormStream(most, h.cfg.Draining(), uploadBytes)
	if body == nil {
		return
	}
	var answer []byte
	if err = before(); err == nil {
		if err = in.readForm(c.Context(), string(c.Request.Header.ContentType()), body); err == nil {
			answer, err = done(c.Context())
		}
	}
	if err == nil {
		c.Reply(answer)
		return
	}
	if !errors.Is(err, store.ErrFailed) { // after which the row may be there
		in.drop()
	}
	if errors.Is(err, failure.ErrTooLarge) { // whose text names the limit of other bodies
		err = api.ErrTooLarge(int(most))
	}
	c.Fail(err)
}

// drop deletes what has been written of content that is not kept. What cannot be deleted is swept at the next start.
func (in *incoming) drop() {
	if !in.written {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if err := in.h.cfg.Store.clear(ctx, in.at, everyKey); err != nil {
		in.h.cfg.Log.Warn("a part of a file that was refused is left until the next start", "error", err)
	}
}

// createFile answers POST /v1/files.
func (h *Handlers) createFile(c *transport.Call) {
	s, o := h.cfg.Store, ownerOf(c)
	row := &fileRow{ID: "file-" + h.cfg.NewID(), Created: h.now(), User: c.Who.User}
	in := &incoming{member: "file", at: o.content(row.ID)}
	h.receive(c, in, h.cfg.MaxFile, func() error {
		s.begins(row.ID)
		return s.db.View(func(r *store.Reader) (err error) {
			in.most, err = s.roomForOne(r, o, row.Created, "file")
			return err
		})
	}, func(ctx context.Context) ([]byte, error) {
		row.Name, row.Bytes, row.Chunks = cmp.Or(in.name, "file"), in.bytes, in.chunks
		if bad := row.take(in); bad != nil {
			return nil, bad
		}
		err := s.db.Update(ctx, func(tx *store.Tx) error {
			room, err := s.roomForOne(&tx.Reader, o, row.Created, "file") // there may be others by now
			if err == nil && room >= 0 && row.Bytes > room {
				err = in.full(room)
			}
			if err != nil {
				return err
			}
			return set(tx, o.key(tagFile, row.ID), row)
		})
		return row.append(nil), err
	})
}

// take checks the other members of a form, and takes from them what a file has.
func (f *fileRow) take(in *incoming) (bad *api.Error) {
	if !in.given {
		return failure.BadRequest("file", "file is missing: send a form with the members file and purpose.")
	}
	if f.Purpose, bad = checkPurpose(in.texts["purpose"]); bad != nil {
		return bad
	}
	anchor, seconds := in.texts["expires_after[anchor]"], in.texts["expires_after[seconds]"]
	if anchor == "" && seconds == "" {
		return nil
	}
	n, bad := checkExpiry(anchor, seconds)
	f.Expires = f.Created + n
	return bad
}

func checkPurpose(purpose string) (string, *api.Error) {
	if purpose != purposeBatch {
		return "", failure.BadRequest("purpose", "purpose must be batch, got %s.", clip(purpose))
	}
	return purpose, nil
}

// checkExpiry reads after how many seconds a file expires.
func checkExpiry(anchor, seconds string) (int64, *api.Error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n < leastSeconds || n > maxSeconds || anchor != "created_at" {
		return 0, failure.BadRequest("expires_after", "expires_after must have the anchor created_at and seconds from %d to %d.", leastSeconds, maxSeconds)
	}
	return n, nil
}

// roomForOne returns how many bytes one more file of an owner may have; below 0: any number. It fails if there
// are too many files. param is what the error is about.
func (s *Store) roomForOne(r *store.Reader, o owner, now int64, param string) (int64, error) {
	room, n, err := s.room(r, o, now)
	if err == nil && n >= maxFiles {
		err = failure.BadRequest(param, "There are %d files already; delete some.", n)
	}
	return room, err
}

// room returns how many bytes of files an owner may have besides, below 0: any number, and how many files there
// are. Uploads are files with the bytes that they are to have, or have already.
func (s *Store) room(r *store.Reader, o owner, now int64) (room int64, n int, err error) {
	files, err := all[fileRow](r, o.key(tagFile, ""))
	if err != nil {
		return 0, 0, err
	}
	uploads, err := all[uploadRow](r, o.key(tagUpload, ""))
	if err != nil {
		return 0, 0, err
	}
	n, room = len(files), s.limit
	for _, f := range files {
		room -= f.Bytes
	}
	for _, u := range uploads {
		if u.open(now) {
			n++
			room -= max(u.Bytes, u.stored())
		}
	}
	if s.limit <= 0 {
		return -1, n, nil
	}
	return max(0, room), n, nil
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
	c.StreamSized("application/octet-stream", &contentReader{store: h.cfg.Store, spans: ownerOf(c).spans(row), call: c}, int(row.Bytes))
	c.Settle()
}

// contentReader reads a file piece by piece.
type contentReader struct {
	store *Store
	spans []span // that are still to be read
	next  int    // chunk of the first of them
	piece []byte
	call  *transport.Call
}

func (r *contentReader) Read(p []byte) (n int, err error) {
	for len(r.piece) == 0 {
		if len(r.spans) == 0 {
			return 0, io.EOF
		}
		if r.next == r.spans[0].chunks {
			r.spans, r.next = r.spans[1:], 0
			continue
		}
		if r.piece, err = r.store.readChunk(r.spans[0].at, r.next); err != nil {
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
