package batchesapi

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/auth"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/transport"
)

// Paths of files, of uploads and of batches.
const (
	FilesPath   = "/v1/files"
	UploadsPath = "/v1/uploads"
	BatchesPath = "/v1/batches"
)

// Config is what Handlers are made of.
type Config struct {
	Store    *Store
	Do       func(context.Context, *transport.Errand) transport.Outcome
	Holds    func(who *auth.Identity, project string) bool // whether the key of a batch is still good for it
	InFlight func() int                                    // requests of a batch that are computed at a time
	MaxFile  int64                                         // bytes of a file with the form that it is sent in
	MaxLine  int                                           // bytes of a line of it
	Draining func() bool
	NewID    func() string // makes the part of ids that is a file's or batch's own; nil: it is random
	Now      func() time.Time
	Log      *slog.Logger
}

// Handlers answer what is below FilesPath, UploadsPath and BatchesPath, and compute batches from Begin to Close.
type Handlers struct {
	cfg     Config
	runner  *runner
	uploads *transport.FairPlaces[owner] // files and parts that are being read
}

// New returns handlers.
func New(cfg Config) *Handlers {
	if cfg.NewID == nil {
		cfg.NewID = func() string { return transport.RandomHex(16) }
	}
	return &Handlers{cfg: cfg, runner: newRunner(&cfg), uploads: transport.NewFairPlaces[owner](maxUploads, cfg.Now, failure.ErrUploads)}
}

// Begin goes on with the batches that have not ended, when there is a model.
func (h *Handlers) Begin() { h.runner.begin() }

// Close stops computing. What has no result yet is computed after the next start.
func (h *Handlers) Close() { h.runner.close() }

// maxIDLength bounds the ids that clients ask for, in bytes.
const maxIDLength = 128

// MaxBody bounds the body of the requests of a path, in bytes; 0: as that of all others.
func (h *Handlers) MaxBody(path string) int64 {
	switch {
	case path == FilesPath:
		return h.cfg.MaxFile
	case strings.HasPrefix(path, UploadsPath+"/") && strings.HasSuffix(path, "/parts"):
		return maxPartForm
	}
	return 0
}

// Find returns the function of a path.
func (h *Handlers) Find(path string) (name, methods string, serve func(*transport.Call)) {
	switch path {
	case FilesPath:
		return path, "GET, POST", byMethod(h.listFiles, h.createFile)
	case UploadsPath:
		return path, "POST", h.createUpload
	case BatchesPath:
		return path, "GET, POST", byMethod(h.listBatches, h.createBatch)
	}
	for _, base := range []string{FilesPath, UploadsPath, BatchesPath} {
		if rest, ok := strings.CutPrefix(path, base+"/"); ok {
			return h.findOne(base, rest)
		}
	}
	return "", "", nil
}

// findOne returns the function of what follows the path of a kind: an id, and what is done with it.
func (h *Handlers) findOne(base, rest string) (name, methods string, serve func(*transport.Call)) {
	id, what, more := strings.Cut(rest, "/")
	if id == "" || len(id) > maxIDLength || more && what == "" {
		return "", "", nil
	}
	one := func(f func(c *transport.Call, id string)) func(*transport.Call) {
		return func(c *transport.Call) { f(c, id) }
	}
	switch {
	case base == FilesPath && what == "":
		return FilesPath + "/{id}", "GET, DELETE", func(c *transport.Call) {
			if c.IsDelete() {
				h.deleteFile(c, id)
			} else {
				h.getFile(c, id)
			}
		}
	case base == FilesPath && what == "content":
		return FilesPath + "/{id}/content", "GET", one(h.content)
	case base == UploadsPath && what == "parts":
		return UploadsPath + "/{id}/parts", "POST", one(h.addPart)
	case base == UploadsPath && what == "complete":
		return UploadsPath + "/{id}/complete", "POST", one(h.completeUpload)
	case base == UploadsPath && what == "cancel":
		return UploadsPath + "/{id}/cancel", "POST", one(h.cancelUpload)
	case base == BatchesPath && what == "":
		return BatchesPath + "/{id}", "GET", one(h.getBatch)
	case base == BatchesPath && what == "cancel":
		return BatchesPath + "/{id}/cancel", "POST", one(h.cancelBatch)
	}
	return "", "", nil
}

func byMethod(get, post func(*transport.Call)) func(*transport.Call) {
	return func(c *transport.Call) {
		if c.IsPost() {
			post(c)
		} else {
			get(c)
		}
	}
}

func (h *Handlers) now() int64 { return h.cfg.Now().Unix() }

// ownerOf is whose the files and batches of a sender are. A project is shared by the keys that it is
// named for; otherwise each tenant has its own.
func ownerOf(c *transport.Call) owner {
	if c.Project != "" && c.Who.Names(c.Project) {
		return owner{project: c.Project}
	}
	return owner{c.Project, c.Who.Tenant}
}

// errNotFound is the error for what is not there, or is another's.
func errNotFound(what, param, id string) *api.Error {
	return &api.Error{
		Name: what + "-not-found", Status: 404, Code: 404, Type: api.TypeNotFound, Param: &param,
		Message: "There is no " + what + " " + clip(id) + ".",
	}
}

// clip shortens what a client has sent, for a message.
func clip(text string) string {
	const shown = 64
	if len(text) > shown {
		text = strings.ToValidUTF8(text[:shown], "") + "…"
	}
	return strconv.Quote(text)
}

// page is what a client asks for of a list.
type page struct {
	limit     int
	ascending bool
	after     string
}

// readPage reads the query of a list.
func readPage(c *transport.Call, usual, most int) (p page, bad *api.Error) {
	q := c.QueryArgs()
	p.limit, p.after = usual, string(q.Peek("after"))
	if v := string(q.Peek("limit")); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > most {
			return p, failure.BadRequest("limit", "limit must be a whole number from 1 to %d, got %s.", most, clip(v))
		}
		p.limit = n
	}
	switch order := string(q.Peek("order")); order {
	case "", "desc":
	case "asc":
		p.ascending = true
	default:
		return p, failure.BadRequest("order", "order must be asc or desc, got %s.", clip(order))
	}
	return p, nil
}

// listed is an object in a list.
type listed interface {
	order() (created int64, id string)
	append(dst []byte) []byte
}

func (f *fileRow) order() (int64, string)  { return f.Created, f.ID }
func (b *batchRow) order() (int64, string) { return b.Created, b.ID }

// reply answers with a page of a list whose rows are sorted, the newest first.
func reply[T listed](c *transport.Call, p page, rows []T) {
	if p.ascending {
		for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
			rows[i], rows[j] = rows[j], rows[i]
		}
	}
	if p.after != "" {
		at := -1
		for i, r := range rows {
			if _, id := r.order(); id == p.after {
				at = i
			}
		}
		if at < 0 {
			c.Fail(failure.BadRequest("after", "after names %s, which is not in the list.", clip(p.after)))
			return
		}
		rows = rows[at+1:]
	}
	more := len(rows) > p.limit
	rows = rows[:min(len(rows), p.limit)]
	dst := []byte(`{"object":"list","data":[`)
	first, last := []byte("null"), []byte("null")
	for i, r := range rows {
		_, id := r.order()
		if last = jsontext.AppendString(nil, id); i == 0 {
			first = last
		} else {
			dst = append(dst, ',')
		}
		dst = r.append(dst)
	}
	dst = append(append(dst, `],"first_id":`...), first...)
	dst = append(append(dst, `,"last_id":`...), last...)
	c.Reply(append(strconv.AppendBool(append(dst, `,"has_more":`...), more), '}'))
}
