package spans

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/calls"
	"weir/internal/form"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/internal/pace"
)

// Encoding is how a request and its answer are written.
type Encoding int

// The encodings of OTLP over HTTP.
const (
	Protobuf Encoding = iota
	JSON
)

const (
	// maxSpans bounds the spans of a request.
	maxSpans = 10_000
	// maxBytes bounds the bytes of the calls that are made of a request. The spans of a resource
	// each get a copy of it.
	maxBytes = 64 << 20
	// maxNesting bounds how deeply a body of JSON may be nested.
	maxNesting = 200
	// maxReasons bounds the reasons that an answer lists.
	maxReasons = 20
)

// What a call takes until it is written, beside itself: for each of its bytes (the record, the
// database's copy and its checksum) and for each call.
const (
	callByteBytes = 4
	callBytes     = 4 << 10
)

// Export is what a request makes.
type Export struct {
	Calls    []calls.Complete
	Rejected int // spans that cannot be calls
	reasons  []string
}

// Projects returns the projects of the calls, each once if they follow each other.
func (e *Export) Projects() (list []string) {
	for i := range e.Calls {
		if p := e.Calls[i].Project; len(list) == 0 || list[len(list)-1] != p {
			list = append(list, p)
		}
	}
	return list
}

// decoder decodes one request.
type decoder struct {
	reader
	ctx     context.Context
	meter   *pace.Meter
	project string // "": that of each resource
	out     *Export
	spans   int
	items   int
	bytes   int
	err     error // ends the work
}

// Decode reads an ExportTraceServiceRequest. project is the project of all spans; "": that of
// their resource, in its attributes wandb.entity and wandb.project. The error is a
// *form.Refusal, form.Invalid, the cause of ctx, or that of a reservation of memory.
func Decode(ctx context.Context, body []byte, enc Encoding, project string) (*Export, error) {
	d := decoder{ctx: ctx, meter: pace.Of(ctx), project: project, out: &Export{}}
	d.reader.item = d.countItem
	m := message{wire: body}
	if enc == JSON {
		f := form.Decoder{Meter: d.meter}
		v, err := f.Scan(body, maxNesting)
		if err != nil {
			return nil, err
		}
		m = message{json: v}
	}
	d.each(m, requestNames, func(_ int, v field) { d.resourceSpans(d.message(v)) })
	switch {
	case d.meter.Err() != nil:
		return nil, d.meter.Err()
	case d.err != nil:
		return nil, d.err
	case d.malformed:
		return nil, &form.Refusal{Status: 400, Reason: "The body is not an ExportTraceServiceRequest of OTLP"}
	}
	return d.out, nil
}

// What an attribute, an event or a link costs: in units of package pace and in memory, both beside
// its bytes. Memory is reserved for many at a time.
const (
	itemCost  = 200
	itemBytes = 192
	someItems = 1024
)

func (d *decoder) countItem(bytes int) bool {
	_ = d.meter.Spend(bytes + itemCost) // its error is asked for by Err
	if d.items++; d.items%someItems == 0 && d.err == nil {
		d.err = memory.Take(d.ctx, someItems*itemBytes)
	}
	return !d.over()
}

// over reports whether nothing more is to be read.
func (d *decoder) over() bool { return d.err != nil || d.malformed || d.meter.Err() != nil }

// resourceSpans reads the spans of one resource. The resource may follow them.
func (d *decoder) resourceSpans(m message) {
	if d.over() {
		return
	}
	var attrs attributes
	var resource jsontext.Value
	d.each(m, resourceName, func(_ int, v field) { attrs, resource = d.resource(d.message(v)) })
	project := d.project
	if entity, name := attrs.text("wandb.entity"), attrs.text("wandb.project"); project == "" && entity != "" && name != "" {
		project = entity + "/" + name
	}
	d.each(m, scopesName, func(_ int, v field) { d.scopeSpans(d.message(v), project, resource) })
}

func (d *decoder) scopeSpans(m message, project string, resource jsontext.Value) {
	if d.over() {
		return
	}
	var scope jsontext.Value
	d.each(m, scopeName, func(_ int, v field) { scope = d.scope(d.message(v)) })
	d.each(m, spansName, func(_ int, v field) {
		if d.over() {
			return
		}
		if d.spans++; d.spans > maxSpans {
			d.err = &form.Refusal{Status: 413, Reason: "A request may have at most 10000 spans"}
			return
		}
		if project == "" {
			d.err = &form.Refusal{Status: 400, Reason: "The project is missing: send the header project_id, or the resource's attributes wandb.entity and wandb.project"}
			return
		}
		m := d.message(v)
		_ = d.meter.Spend(m.len())
		if s := d.span(m); !d.malformed {
			d.add(s, project, resource, scope)
		}
	})
}

// add makes a call of a span.
func (d *decoder) add(s *span, project string, resource, scope jsontext.Value) {
	c, problem := s.call(project)
	if problem == "" {
		c.OtelDump = s.appendJSON(nil, resource, scope)
	}
	n := size(&c)
	if n > calls.MaxRecord {
		problem = "it is larger than 16 MiB"
	}
	if problem != "" {
		d.reject(s, problem)
		return
	}
	if d.bytes += n; d.bytes > maxBytes {
		d.err = &form.Refusal{Status: 413, Reason: "The spans of a request may make at most 64 MiB of calls"}
		return
	}
	if d.err = memory.Take(d.ctx, int64(callByteBytes*n+callBytes)); d.err == nil {
		d.out.Calls = append(d.out.Calls, c)
	}
}

// size is about the bytes that are stored of a call.
func size(c *calls.Complete) int {
	n := len(c.OpName) + len(c.DisplayName) + len(c.ThreadID) + len(c.Exception)
	for _, v := range [...]jsontext.Value{c.Attributes, c.Inputs, c.Output, c.Summary, c.OtelDump} {
		n += len(v)
	}
	return n + 1<<10 // the rest is bounded
}

func (d *decoder) reject(s *span, problem string) {
	d.out.Rejected++
	if len(d.out.reasons) < maxReasons {
		d.out.reasons = append(d.out.reasons, "span "+shortened(s.name, 100)+" ("+shortened(s.id, 32)+"): "+problem)
	}
}

// Answer is the ExportTraceServiceResponse.
func (e *Export) Answer(enc Encoding) []byte {
	text := strings.Join(e.reasons, "; ")
	if e.Rejected > len(e.reasons) {
		text += "; ..."
	}
	switch {
	case enc == JSON && e.Rejected == 0:
		return []byte("{}")
	case enc == JSON:
		// Numbers of 64 bits are texts in the JSON of protobuf.
		out := strconv.AppendInt([]byte(`{"partialSuccess":{"rejectedSpans":"`), int64(e.Rejected), 10)
		return append(jsontext.AppendString(append(out, `","errorMessage":`...), text), "}}"...)
	case e.Rejected == 0:
		return nil
	}
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(e.Rejected))
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), text)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
}
