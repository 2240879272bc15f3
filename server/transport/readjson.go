package transport

import "weir/server/failure"

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
	var err error
	switch {
	case h.ContentLength() > max:
		err = failure.ErrTooLarge
	case !JSONType(string(h.ContentType())) || fromPage && len(h.ContentType()) == 0:
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
