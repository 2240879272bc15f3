package weaveapi

import (
	"context"
	"errors"
	"io"

	"weir/auth"
	"weir/feedback"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/transport"
)

// readBody reads the body of a request, or answers the request and returns false.
func (h *Handlers) readBody(c *transport.Call) bool {
	return c.ReadJSON(h.cfg.MaxBody, h.cfg.Draining())
}

// reserve reserves memory for a request, or answers the request and returns false.
func reserve(c *transport.Call, bytes int64) bool {
	err := c.Memory().Grow(c.Context(), bytes)
	if errors.Is(err, memory.ErrNever) {
		err = failure.ErrTooLarge
	}
	if err != nil {
		c.Fail(err)
	}
	return err == nil
}

// decodeBody runs f, which decodes a call's body: a large one in turns with the queries, since
// bodies that are decoded on all processors at once hold up everybody who needs one.
func decodeBody(c *transport.Call, f func(ctx context.Context) error) error {
	if len(c.Body()) < transport.LargeBody {
		return f(c.Context())
	}
	return c.Query(f)
}

// permission returns why a request for a project is refused; nil: it is not. err is what is
// wrong with the request. What is wrong with the form comes before rights, and what is wrong
// with the meaning after them (docs/interface/feedback.md, F-6).
func permission(who *auth.Identity, right auth.Rights, project string, err error) error {
	if _, malformed := err.(feedback.Invalid); !malformed && project != "" && !who.May(right, project) {
		return feedback.Forbidden
	}
	return err
}

// decoded decodes a body that has been read, and checks a right to the project that it names;
// otherwise it answers the request and returns false.
func decoded[T any](c *transport.Call, right auth.Rights, decode func(context.Context, []byte) (*T, error), project func(*T) string) (q *T, ok bool) {
	err := decodeBody(c, func(ctx context.Context) (err error) {
		q, err = decode(ctx, c.Body())
		return err
	})
	name := ""
	if q != nil {
		name = project(q)
	}
	if err = permission(c.Who, right, name, err); err != nil {
		c.Fail(err)
		return nil, false
	}
	return q, true
}

// download answers a query, whose body has been read, with what write writes.
func download[T any](c *transport.Call, contentType string, decode func(context.Context, []byte) (*T, error), project func(*T) string, write func(context.Context, *T, io.Writer) error) {
	body, who := c.Body(), c.Who
	c.Download(contentType, func(ctx context.Context, w io.Writer) error {
		q, err := decode(ctx, body)
		name := ""
		if q != nil {
			name = project(q)
		}
		if err = permission(who, auth.Read, name, err); err != nil {
			return err
		}
		return write(ctx, q, w)
	})
}

// answerQuery runs a query in its turn and answers with what it returns.
func (h *Handlers) answerQuery(c *transport.Call, f func(ctx context.Context) ([]byte, error)) {
	var answer []byte
	if err := c.Query(func(ctx context.Context) (err error) {
		answer, err = f(ctx)
		return err
	}); err != nil {
		c.Fail(err)
		return
	}
	c.Reply(answer)
}
