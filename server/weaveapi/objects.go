package weaveapi

import (
	"context"
	"errors"
	"io"
	"strconv"

	"weir/auth"
	"weir/internal/jsontext"
	"weir/objects"
	"weir/server/transport"
)

var objectRoutes = []route{
	{"POST", "/obj/create", (*Handlers).createObject},
	{"POST", "/obj/read", (*Handlers).readObject},
	{"POST", "/obj/delete", (*Handlers).deleteObject},
	{"POST", "/objs/query", (*Handlers).queryObjects},
	{"POST", "/table/create", (*Handlers).createTable},
	{"POST", "/table/create_from_digests", (*Handlers).createTableFromDigests},
	{"POST", "/table/update", (*Handlers).updateTable},
	{"POST", "/table/query", (*Handlers).queryTable},
	{"POST", "/table/query_stream", (*Handlers).streamTable},
	{"POST", "/table/query_stats", func(h *Handlers, c *transport.Call) { h.tableSizes(c, true) }},
	{"POST", "/table/query_stats_batch", func(h *Handlers, c *transport.Call) { h.tableSizes(c, false) }},
	{"POST", "/refs/read_batch", (*Handlers).readRefs},
	{"POST", "/file/create", (*Handlers).createFile},
	{"POST", "/files/create", (*Handlers).createFile},
	{"POST", "/file/content", (*Handlers).readFile},
	{"POST", "/files/content", (*Handlers).readFile},
	{"POST", "/files/query_stats", (*Handlers).fileSizes},
	{"POST", "/files/stats", (*Handlers).fileSizes},
}

// What a body takes until what it has is written, beside itself: for each of its bytes (the
// values without white space, the texts that digests are made of, records) and for each part.
const (
	objectByteBytes = 24
	objectPartBytes = 4 << 10
)

// decodeObjects reads the body of a request, decodes it in its turn if it is large, and checks
// a right to the project that it names; otherwise it answers the request and returns false.
func decodeObjects[T any](h *Handlers, c *transport.Call, right auth.Rights, decode func(context.Context, []byte) (*T, error), project func(*T) string) (q *T, ok bool) {
	if !h.readBody(c) || !reserveObjects(c) {
		return q, false
	}
	return decoded(c, right, decode, project)
}

// reserveObjects reserves the memory that a body takes.
func reserveObjects(c *transport.Call) bool {
	return reserve(c, objectByteBytes*int64(len(c.Body()))+objectPartBytes)
}

// createObject answers POST /obj/create.
func (h *Handlers) createObject(c *transport.Call) {
	o, ok := decodeObjects(h, c, auth.Write, objects.DecodeObject, func(o *objects.Object) string { return o.Project })
	if !ok {
		return
	}
	digest, err := h.cfg.Objects.Create(c.Context(), c.Who.User, o)
	if err != nil {
		c.Fail(err)
		return
	}
	answer := jsontext.AppendString([]byte(`{"digest":`), digest)
	c.Reply(append(jsontext.AppendString(append(answer, `,"object_id":`...), o.ID), '}'))
}

func projectOf(q *objects.Selection) string { return q.Project }

// readObject answers POST /obj/read.
func (h *Handlers) readObject(c *transport.Call) {
	q, ok := decodeObjects(h, c, auth.Read, objects.DecodeRead, projectOf)
	if !ok {
		return
	}
	answer, err := h.cfg.Objects.Read(c.Context(), q)
	var deleted *objects.Deleted
	switch {
	case errors.As(err, &deleted):
		c.Answer(404, string(deleted.AppendJSON(nil)))
	case err != nil:
		c.Fail(err)
	default:
		c.Reply(answer)
	}
}

// deleteObject answers POST /obj/delete.
func (h *Handlers) deleteObject(c *transport.Call) {
	q, ok := decodeObjects(h, c, auth.Write, objects.DecodeDelete, projectOf)
	if !ok {
		return
	}
	n, err := h.cfg.Objects.Delete(c.Context(), q)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Answer(200, `{"num_deleted":`+strconv.Itoa(n)+"}")
}

// downloadObjects answers a query with what write writes.
func downloadObjects[T any](h *Handlers, c *transport.Call, contentType string, decode func(context.Context, []byte) (*T, error), project func(*T) string, write func(context.Context, *T, io.Writer) error) {
	if !h.readBody(c) || !reserveObjects(c) {
		return
	}
	download(c, contentType, decode, project, write)
}

// queryObjects answers POST /objs/query.
func (h *Handlers) queryObjects(c *transport.Call) {
	downloadObjects(h, c, "application/json", objects.DecodeQuery, func(q *objects.Query) string { return q.Project }, h.cfg.Objects.Objects)
}

func tableOf(t *objects.Table) string { return t.Project }

// createTable answers POST /table/create.
func (h *Handlers) createTable(c *transport.Call) {
	if t, ok := decodeObjects(h, c, auth.Write, objects.DecodeTable, tableOf); ok {
		h.writeTable(c, func(ctx context.Context) ([]byte, error) { return h.cfg.Objects.CreateTable(ctx, c.Who.User, t, true) })
	}
}

// createTableFromDigests answers POST /table/create_from_digests.
func (h *Handlers) createTableFromDigests(c *transport.Call) {
	if t, ok := decodeObjects(h, c, auth.Write, objects.DecodeTableFromDigests, tableOf); ok {
		h.writeTable(c, func(ctx context.Context) ([]byte, error) { return h.cfg.Objects.CreateTable(ctx, c.Who.User, t, false) })
	}
}

// updateTable answers POST /table/update.
func (h *Handlers) updateTable(c *transport.Call) {
	if t, ok := decodeObjects(h, c, auth.Write, objects.DecodeTableUpdate, tableOf); ok {
		h.writeTable(c, func(ctx context.Context) ([]byte, error) { return h.cfg.Objects.UpdateTable(ctx, c.Who.User, t) })
	}
}

func (h *Handlers) writeTable(c *transport.Call, write func(context.Context) ([]byte, error)) {
	answer, err := write(c.Context())
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(answer)
}

func rowsOf(q *objects.TableQuery) string { return q.Project }

// queryTable answers POST /table/query.
func (h *Handlers) queryTable(c *transport.Call) {
	downloadObjects(h, c, "application/json", objects.DecodeTableQuery, rowsOf, func(ctx context.Context, q *objects.TableQuery, w io.Writer) error {
		return h.cfg.Objects.Rows(ctx, q, w, false)
	})
}

// streamTable answers POST /table/query_stream with lines of JSON.
func (h *Handlers) streamTable(c *transport.Call) {
	downloadObjects(h, c, "application/jsonl", objects.DecodeTableQuery, rowsOf, func(ctx context.Context, q *objects.TableQuery, w io.Writer) error {
		return h.cfg.Objects.Rows(ctx, q, w, true)
	})
}

// tableSizes answers POST /table/query_stats and /table/query_stats_batch.
func (h *Handlers) tableSizes(c *transport.Call, single bool) {
	decode := func(ctx context.Context, body []byte) (*objects.TableStats, error) {
		return objects.DecodeTableStats(ctx, body, single)
	}
	if q, ok := decodeObjects(h, c, auth.Read, decode, func(q *objects.TableStats) string { return q.Project }); ok {
		h.answerQuery(c, func(ctx context.Context) ([]byte, error) { return h.cfg.Objects.TableSizes(ctx, q) })
	}
}

// readRefs answers POST /refs/read_batch. The references name the projects.
func (h *Handlers) readRefs(c *transport.Call) {
	q, ok := decodeObjects(h, c, auth.Read, objects.DecodeRefs, func(*objects.Refs) string { return "" })
	if !ok {
		return
	}
	may := func(project string) bool { return c.Who.May(auth.Read, project) }
	h.answerQuery(c, func(ctx context.Context) ([]byte, error) { return h.cfg.Objects.ReadRefs(ctx, q, may) })
}

// createFile answers POST /file/create, whose body is a form.
func (h *Handlers) createFile(c *transport.Call) {
	if !c.ReadForm(h.cfg.MaxBody, h.cfg.Draining()) || !reserveObjects(c) {
		return
	}
	f, err := objects.DecodeFile(string(c.Request.Header.ContentType()), c.Body())
	project := ""
	if f != nil {
		project = f.Project
	}
	if err = permission(c.Who, auth.Write, project, err); err != nil {
		c.Fail(err)
		return
	}
	h.writeTable(c, func(ctx context.Context) ([]byte, error) { return h.cfg.Objects.CreateFile(ctx, c.Who.User, f) })
}

// named is a project and the name of something in it.
type named struct{ project, name string }

// readFile answers POST /file/content with the bytes of a file.
func (h *Handlers) readFile(c *transport.Call) {
	q, ok := decodeObjects(h, c, auth.Read, func(ctx context.Context, body []byte) (q *named, err error) {
		q = &named{}
		q.project, q.name, err = objects.DecodeFileContent(ctx, body)
		return q, err
	}, func(q *named) string { return q.project })
	if !ok {
		return
	}
	content, err := h.cfg.Objects.File(q.project, q.name)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(content)
	c.SetContentType("application/octet-stream")
}

// fileSizes answers POST /files/query_stats.
func (h *Handlers) fileSizes(c *transport.Call) {
	q, ok := decodeObjects(h, c, auth.Read, func(ctx context.Context, body []byte) (q *named, err error) {
		q = &named{}
		q.project, err = objects.DecodeFileStats(ctx, body)
		return q, err
	}, func(q *named) string { return q.project })
	if ok {
		h.answerQuery(c, func(context.Context) ([]byte, error) { return h.cfg.Objects.FileStats(q.project) })
	}
}
