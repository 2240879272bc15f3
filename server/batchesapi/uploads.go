package batchesapi

import (
	"context"
	"crypto/md5" // the checksum that clients send; nothing is kept safe by it
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/transport"
	"weir/store"
)

// Limits of uploads.
const (
	maxUpload   = 8 << 30  // bytes of a file, as with OpenAI
	maxPart     = 64 << 20 // bytes of a part, as with OpenAI
	maxPartForm = maxPart + formBuffer
	maxParts    = 1000 // of an upload
	maxPending  = 100  // uploads of an owner
	uploadTime  = 3600 // seconds that an upload takes parts, as with OpenAI

	uploadPrefix = "upload_"
)

// createUpload answers POST /v1/uploads.
func (h *Handlers) createUpload(c *transport.Call) {
	v, ok := h.readObject(c)
	if !ok {
		return
	}
	u, bad := decodeUpload(v)
	if bad != nil {
		c.Fail(bad)
		return
	}
	s, o, now := h.cfg.Store, ownerOf(c), h.now()
	u.ID, u.Status, u.User = uploadPrefix+h.cfg.NewID(), pending, c.Who.User
	u.Created, u.Expires = now, now+uploadTime
	if err := s.dropExpired(c.Context(), o, now); err != nil {
		c.Fail(err)
		return
	}
	if err := s.db.Update(c.Context(), func(tx *store.Tx) error {
		room, err := s.roomForOne(&tx.Reader, o, now, "")
		if err != nil {
			return err
		}
		if room >= 0 && u.Bytes > room {
			return failure.BadRequest("bytes", "The file is to have %d bytes, and there is room for %d; delete some files.", u.Bytes, room)
		}
		rows, err := all[uploadRow](&tx.Reader, o.key(tagUpload, ""))
		if err != nil {
			return err
		}
		if n := len(slices.DeleteFunc(rows, func(u *uploadRow) bool { return !u.open(now) })); n >= maxPending {
			return failure.BadRequest("", "There are %d uploads already that have not ended; complete some, or cancel them.", n)
		}
		return set(tx, o.key(tagUpload, u.ID), u)
	}); err != nil {
		c.Fail(err)
		return
	}
	c.Reply(u.append(nil, nil))
}

// decodeUpload reads a request for an upload.
func decodeUpload(v jsontext.Value) (u *uploadRow, bad *api.Error) {
	u = &uploadRow{}
	var purpose string
	if bad := readTexts(v, map[string]*string{"filename": &u.Name, "purpose": &purpose, "mime_type": new(string)}); bad != nil {
		return nil, bad
	}
	if u.Purpose, bad = checkPurpose(purpose); bad != nil {
		return nil, bad
	}
	if u.Name == "" || len(u.Name) > maxName {
		return nil, failure.BadRequest("filename", "filename must have 1 to %d bytes.", maxName)
	}
	n, err := strconv.ParseInt(string(v.Member("bytes")), 10, 64)
	if err != nil || n < 1 || n > maxUpload {
		return nil, failure.BadRequest("bytes", "bytes must be a whole number from 1 to %d.", maxUpload)
	}
	u.Bytes = n
	if m := v.Member("expires_after"); m.Given() {
		var anchor, seconds jsontext.Value
		if m.Kind() == jsontext.Object {
			anchor, seconds = m.Member("anchor"), m.Member("seconds")
		}
		if anchor.Given() && anchor.Kind() == jsontext.String {
			u.Seconds, bad = checkExpiry(anchor.Text(), string(seconds))
		} else {
			_, bad = checkExpiry("", "")
		}
	}
	return u, bad
}

// dropExpired deletes the uploads of an owner whose time has passed.
func (s *Store) dropExpired(ctx context.Context, o owner, now int64) error {
	rows, err := list[uploadRow](s, o.key(tagUpload, ""))
	for _, u := range rows {
		if err == nil && u.Status == pending && !u.open(now) {
			_, err = s.deleteUpload(ctx, o, u.ID)
		}
	}
	return err
}

// deleteUpload deletes an upload that is not completed, with its parts. It returns nil if there is none.
func (s *Store) deleteUpload(ctx context.Context, o owner, id string) (u *uploadRow, err error) {
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		if u, err = get[uploadRow](&tx.Reader, o.key(tagUpload, id)); err != nil || u == nil {
			return err
		}
		if u.Status == pending {
			tx.Delete(o.key(tagUpload, id))
		}
		return nil
	})
	if err == nil && u != nil && u.Status == pending {
		err = s.clear(ctx, o.content(id), everyKey)
	}
	return u, err
}

// openUpload reads an upload that takes parts.
func openUpload(r *store.Reader, o owner, id string, now int64) (*uploadRow, error) {
	u, err := get[uploadRow](r, o.key(tagUpload, id))
	switch {
	case err != nil:
		return nil, err
	case u == nil || u.Status == pending && !u.open(now):
		return nil, errNotFound("upload", "upload_id", id)
	case u.Status != pending:
		return u, failure.BadRequest("upload_id", "The upload is %s already.", u.Status)
	}
	return u, nil
}

// roomForPart returns how many bytes one more part of an upload may have. Parts may be sent again whose
// answers were lost, so there may be twice as many bytes as the file is to have.
func (s *Store) roomForPart(r *store.Reader, o owner, id string, now int64) (u *uploadRow, room int64, err error) {
	if u, err = openUpload(r, o, id, now); err != nil {
		return nil, 0, err
	}
	if len(u.Parts) >= maxParts {
		return nil, 0, failure.BadRequest("", "The upload has %d parts already.", maxParts)
	}
	free, _, err := s.room(r, o, now)
	stored := u.stored()
	room = min(maxPart, 2*u.Bytes-stored)
	if free >= 0 {
		room = min(room, max(u.Bytes-stored, 0)+free)
	}
	return u, room, err
}

// addPart answers POST /v1/uploads/{id}/parts.
func (h *Handlers) addPart(c *transport.Call, id string) {
	s, o, now := h.cfg.Store, ownerOf(c), h.now()
	part := partRow{ID: "part_" + h.cfg.NewID()}
	in := &incoming{member: "data", at: o.part(id, part.ID)}
	h.receive(c, in, maxPartForm, func() error {
		s.begins(part.ID)
		return s.db.View(func(r *store.Reader) (err error) {
			_, in.most, err = s.roomForPart(r, o, id, now)
			return err
		})
	}, func(ctx context.Context) ([]byte, error) {
		if part.Bytes, part.Chunks = in.bytes, in.chunks; part.Bytes == 0 {
			return nil, failure.BadRequest("data", "data is missing or empty: send a form with the member data.")
		}
		err := s.db.Update(ctx, func(tx *store.Tx) error {
			u, room, err := s.roomForPart(&tx.Reader, o, id, h.now()) // there may be others by now
			if err == nil && part.Bytes > room {
				err = in.full(room)
			}
			if err != nil {
				return err
			}
			u.Parts = append(u.Parts, part)
			return set(tx, o.key(tagUpload, id), u)
		})
		dst := jsontext.AppendString([]byte(`{"id":`), part.ID)
		dst = strconv.AppendInt(append(dst, `,"object":"upload.part","created_at":`...), now, 10)
		return append(jsontext.AppendString(append(dst, `,"upload_id":`...), id), '}'), err
	})
}

// completion is a request to make a file of parts.
type completion struct {
	parts []string
	md5   string // in hexadecimal digits; "": it is not checked
}

// decodeCompletion reads a request to make a file of parts.
func decodeCompletion(v jsontext.Value) (q completion, bad *api.Error) {
	ids := v.Member("part_ids")
	if !ids.Given() || ids.Kind() != jsontext.Array {
		return q, failure.BadRequest("part_ids", "part_ids must be a list of texts.")
	}
	for _, e := range ids.Elements() {
		if e.Kind() != jsontext.String || len(q.parts) == maxParts {
			return q, failure.BadRequest("part_ids", "part_ids must be a list of at most %d texts.", maxParts)
		}
		q.parts = append(q.parts, e.Text())
	}
	if m := v.Member("md5"); m.Given() {
		if m.Kind() == jsontext.String {
			q.md5 = strings.ToLower(m.Text())
		}
		if sum, err := hex.DecodeString(q.md5); err != nil || len(sum) != md5.Size {
			return q, failure.BadRequest("md5", "md5 must be a text of %d hexadecimal digits.", 2*md5.Size)
		}
	}
	return q, nil
}

// choose returns the parts of an upload that a request names.
func (q *completion) choose(u *uploadRow) (parts []partRow, bad *api.Error) {
	bytes := int64(0)
	named := map[string]bool{}
	for _, id := range q.parts {
		i := u.part(id)
		if i < 0 || named[id] {
			return nil, failure.BadRequest("part_ids", "The upload has no part %s, or it is named twice.", clip(id))
		}
		named[id] = true
		parts = append(parts, u.Parts[i])
		bytes += u.Parts[i].Bytes
	}
	if bytes != u.Bytes {
		return nil, failure.BadRequest("part_ids", "The parts have %d bytes, and the upload was to have %d.", bytes, u.Bytes)
	}
	return parts, nil
}

// completeUpload answers POST /v1/uploads/{id}/complete.
func (h *Handlers) completeUpload(c *transport.Call, id string) {
	v, ok := h.readObject(c)
	if !ok {
		return
	}
	q, bad := decodeCompletion(v)
	if bad != nil {
		c.Fail(bad)
		return
	}
	o := ownerOf(c)
	file := &fileRow{ID: "file-" + strings.TrimPrefix(id, uploadPrefix), Upload: id}
	u, dropped, err := h.complete(c.Context(), o, id, &q, file)
	if err != nil {
		c.Fail(err)
		return
	}
	for _, p := range dropped {
		if err := h.cfg.Store.clear(c.Context(), o.part(id, p.ID), everyKey); err != nil {
			h.cfg.Log.Warn("a part that a file was made without is left until the next start", "error", err)
			break
		}
	}
	c.Reply(u.append(nil, file))
}

// complete makes a file of parts, and returns those that it is made without. A request that is sent again, because
// its answer was lost, is answered as it was.
func (h *Handlers) complete(ctx context.Context, o owner, id string, q *completion, file *fileRow) (u *uploadRow, dropped []partRow, err error) {
	s := h.cfg.Store
	var parts []partRow
	check := func(r *store.Reader) (done bool, err error) {
		u, err = openUpload(r, o, id, h.now())
		if u != nil && u.Status == completed && slices.EqualFunc(u.Parts, q.parts, func(p partRow, id string) bool { return p.ID == id }) {
			var was *fileRow
			if was, err = get[fileRow](r, o.key(tagFile, file.ID)); was != nil {
				*file = *was
			}
			return true, err
		}
		if err != nil {
			return false, err
		}
		var bad *api.Error
		if parts, bad = q.choose(u); bad != nil {
			return false, bad
		}
		return false, nil
	}
	done := false
	if err = s.db.View(func(r *store.Reader) error { done, err = check(r); return err }); err != nil || done {
		return u, nil, err
	}
	if file.Parts = parts; q.md5 != "" {
		sum := md5.New()
		if _, err := io.Copy(sum, &contextReader{ctx, &contentReader{store: s, spans: o.spans(file)}}); err != nil {
			return nil, nil, err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != q.md5 {
			return nil, nil, failure.BadRequest("md5", "The MD5 checksum of the parts is %s, not %s.", got, q.md5)
		}
	}
	err = s.db.Update(ctx, func(tx *store.Tx) error {
		if done, err = check(&tx.Reader); err != nil || done { // there may have been others
			return err
		}
		file.Name, file.Purpose, file.Bytes, file.User, file.Created = u.Name, u.Purpose, u.Bytes, u.User, h.now()
		if u.Seconds > 0 {
			file.Expires = file.Created + u.Seconds
		}
		dropped = slices.DeleteFunc(slices.Clone(u.Parts), func(p partRow) bool { return slices.Contains(q.parts, p.ID) })
		u.Status, u.Parts = completed, parts
		if err := set(tx, o.key(tagFile, file.ID), file); err != nil {
			return err
		}
		return set(tx, o.key(tagUpload, id), u)
	})
	return u, dropped, err
}

// contextReader is a reader that fails when a context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// cancelUpload answers POST /v1/uploads/{id}/cancel.
func (h *Handlers) cancelUpload(c *transport.Call, id string) {
	s, o := h.cfg.Store, ownerOf(c)
	if err := s.db.View(func(r *store.Reader) error {
		_, err := openUpload(r, o, id, h.now())
		return err
	}); err != nil {
		c.Fail(err)
		return
	}
	u, err := s.deleteUpload(c.Context(), o, id)
	switch {
	case err != nil:
		c.Fail(err)
	case u == nil:
		c.Fail(errNotFound("upload", "upload_id", id))
	case u.Status != pending:
		c.Fail(failure.BadRequest("upload_id", "The upload is %s already.", u.Status))
	default:
		u.Status = cancelled
		c.Reply(u.append(nil, nil))
	}
}
