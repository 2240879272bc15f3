package trajectoryapi

import (
	"context"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/auth"
	"weir/server/transport"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// exportTrajectories answers GET …/export. It streams: an answer that ends early
// ends with its connection, never with less than was selected.
func (h *Handlers) exportTrajectories(c *transport.Call, model string) {
	if !h.allowed(c, auth.Read) {
		return
	}
	a := h.cfg.Archive
	q, err := query(c, true, downloads)
	if err == nil {
		err = a.View(c.Who.Tenant, func(v *archive.View) error { return v.Known(model) })
	}
	if err != nil {
		c.Fail(err)
		return
	}
	contentType, extension := q.form.Media()
	encoding := acceptedEncoding(string(c.Request.Header.Peek("Accept-Encoding")))
	header := &c.Response.Header
	header.Set("Content-Disposition", `attachment; filename="`+export.FileName(model)+extension+`"`)
	header.Add("Vary", "Accept-Encoding") // Origin may be there
	if encoding != "" {
		header.Set("Content-Encoding", encoding)
	}
	tenant := c.Who.Tenant
	c.Download(contentType, func(ctx context.Context, w io.Writer) error {
		var z io.WriteCloser
		if err := a.Query(ctx, tenant, func(v *archive.View) error {
			err := v.Reserve(compressorBytes[encoding])
			if err == nil {
				z, err = compressed(w, encoding)
			}
			if err != nil {
				return err
			}
			return export.Write(export.Paced(z, v), v, model, &q.Filter, export.Options{Format: q.form, DropLogprobs: q.noLogprobs, TempDir: h.cfg.Spool})
		}); err != nil {
			return err
		}
		return z.Close()
	})
}

// acceptedEncoding chooses what an answer is compressed with; "": nothing.
func acceptedEncoding(header string) string {
	best := ""
	for part := range strings.SplitSeq(header, ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		q = strings.ReplaceAll(strings.TrimSpace(q), " ", "")
		if strings.Trim(strings.TrimPrefix(q, "q="), "0.") == "" && q != "" {
			continue // q=0: not that one
		}
		switch name = strings.ToLower(strings.TrimSpace(name)); {
		case name == "zstd":
			return name
		case name == "gzip":
			best = name
		}
	}
	return best
}

// compressorBytes is what a compressor takes, about.
var compressorBytes = map[string]int64{"gzip": 2 << 20, "zstd": 12 << 20}

func compressed(w io.Writer, encoding string) (io.WriteCloser, error) {
	switch encoding {
	case "gzip":
		return gzip.NewWriter(w), nil
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	}
	return asIs{w}, nil
}

type asIs struct{ io.Writer }

func (asIs) Close() error { return nil }
