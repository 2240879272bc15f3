package transport

import (
	"slices"
	"strings"

	"weir/api"
	"weir/server/failure"
)

// ReadJSON reads the body of a request for what clients have stored, which is JSON of at most
// max bytes. It answers the request and returns false if it may not be read: it is too long,
// of another type, or the server is stopping.
//
// A browser that was once given a name and a password for a server sends them with requests
// of other pages, too, and does not ask the server before it sends what a form could send, or
// a body without a type; before JSON it asks, and learns that it may not. So a request that
// a browser sends for a web page must have a type.
func (c *Call) ReadJSON(max int, draining bool) bool {
	h := &c.Request.Header
	fromPage := len(h.Peek("Origin"))+len(h.Peek("Sec-Fetch-Site")) > 0
	return c.readTyped(max, draining, JSONType(string(h.ContentType())) && (!fromPage || len(h.ContentType()) > 0))
}

// ReadForm is ReadJSON for the body of a form with files. A browser sends such a form for a
// page of another origin without asking, so requests that a browser sends for a web page are
// refused.
func (c *Call) ReadForm(max int, draining bool) bool {
	return c.readTyped(max, draining, c.isForm())
}

// isForm reports whether the body is a form that no web page sends.
func (c *Call) isForm() bool {
	h := &c.Request.Header
	fromPage := len(h.Peek("Origin"))+len(h.Peek("Sec-Fetch-Site")) > 0
	return !fromPage && c.MediaType() == "multipart/form-data"
}

// FormStream is ReadForm for a form that is read piece by piece, and is not in memory as a whole. held is
// what reading it takes. nil: it has been refused.
func (c *Call) FormStream(most int64, draining bool, held int64) *BodyStream {
	var err error
	switch {
	case int64(c.Request.Header.ContentLength()) > most:
		err = api.ErrTooLarge(int(most))
	case !c.isForm():
		err = failure.ErrMedia
	case draining:
		err = failure.ErrDraining
	default:
		err = c.Memory().Grow(c.Context(), callBytes+held)
	}
	if err != nil {
		c.Fail(err)
		return nil
	}
	return c.BodyStream(most, c.server.cfg.ReadTimeout)
}

// ReadOf is ReadJSON for a body of one of some types of content, which has to be said. The body
// may be compressed; ratio bounds the bytes for each that was sent.
func (c *Call) ReadOf(max, ratio int, draining bool, types ...string) bool {
	if !c.readTyped(max, draining, slices.Contains(types, c.MediaType()) && KnownEncoding(c.encoding())) {
		return false
	}
	err := c.decodeBody(max, ratio)
	if err != nil {
		c.Fail(err)
	}
	return err == nil
}

// MediaType is the type of content of the request, without parameters and in lower case.
func (c *Call) MediaType() string {
	media, _, _ := strings.Cut(string(c.Request.Header.ContentType()), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// readTyped reads a body whose type of content is right, or not.
func (c *Call) readTyped(max int, draining, right bool) bool {
	var err error
	switch {
	case c.Request.Header.ContentLength() > max:
		err = failure.ErrTooLarge
	case !right:
		err = failure.ErrMedia
	case draining:
		err = failure.ErrDraining
	default:
		err = c.ReadBody()
	}
	if err != nil {
		c.Fail(err)
	}
	return err == nil
}
