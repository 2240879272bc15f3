package spans

import (
	"strconv"
	"time"

	"weir/calls"
	"weir/internal/jsontext"
)

// The fields of OTLP's messages, version 1 (opentelemetry-proto, trace.proto and common.proto).
var (
	requestNames  = names{1: "resourceSpans"}
	resourceName  = names{1: "resource"} // of ResourceSpans, which is read in two passes
	scopesName    = names{2: "scopeSpans"}
	resourceNames = names{1: "attributes", 2: "droppedAttributesCount"}
	scopeName     = names{1: "scope"} // of ScopeSpans, likewise
	spansName     = names{2: "spans"}
	scopeNames    = names{1: "name", 2: "version", 3: "attributes"}
	spanNames     = names{
		1: "traceId", 2: "spanId", 3: "traceState", 4: "parentSpanId", 5: "name", 6: "kind", 7: "startTimeUnixNano", 8: "endTimeUnixNano",
		9: "attributes", 10: "droppedAttributesCount", 11: "events", 12: "droppedEventsCount", 13: "links", 14: "droppedLinksCount", 15: "status",
	}
	eventNames  = names{1: "timeUnixNano", 2: "name", 3: "attributes", 4: "droppedAttributesCount"}
	linkNames   = names{1: "traceId", 2: "spanId", 3: "traceState", 4: "attributes", 5: "droppedAttributesCount", 6: "flags"}
	statusNames = names{2: "message", 3: "code"}

	kinds       = []string{"UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"}
	statusCodes = []string{"UNSET", "OK", "ERROR"}
)

// The bytes of ids.
const (
	traceIDBytes = 16
	spanIDBytes  = 8
)

const statusError = 2

// span is one span, read.
type span struct {
	traceID, id, parentID, state, name string

	kind, status  int
	message       string    // of the status
	start, end    uint64    // nanoseconds of Unix time
	dropped       [3]uint64 // attributes, events, links
	attrs         attributes
	events, links []event
}

// event is an event of a span, or a link to another one.
type event struct {
	name, traceID, spanID, state string

	time, dropped, flags uint64
	attrs                attributes
}

// reader reads the messages of one request. Its methods set malformed where one is not OTLP.
type reader struct {
	malformed bool
	// item is told of the bytes of each attribute, event and link, and reports whether it is to
	// be read.
	item func(bytes int) bool
}

func (r *reader) each(m message, n names, f func(number int, v field)) {
	r.malformed = !m.each(n, f) || r.malformed
}

// got notes whether a value could be read.
func got[T any](r *reader, v T, ok bool) T {
	r.malformed = r.malformed || !ok
	return v
}

func (r *reader) text(v field) string {
	s, ok := v.text()
	return got(r, s, ok)
}

func (r *reader) uint(v field) uint64 {
	x, ok := v.uint()
	return got(r, x, ok)
}

func (r *reader) id(v field, size int) string {
	s, ok := v.id(size)
	return got(r, s, ok)
}

func (r *reader) message(v field) message {
	m, ok := v.message()
	return got(r, m, ok)
}

// attribute adds a KeyValue to a list. Attributes without a key are passed over.
func (r *reader) attribute(list []attribute, v field) []attribute {
	m := r.message(v)
	if !r.item(m.len()) {
		return list
	}
	key, value, ok := keyValue(m)
	var text []byte
	if ok {
		text, ok = appendValue(nil, value, 0)
	}
	r.malformed = r.malformed || !ok
	if key == "" || !ok {
		return list
	}
	return append(list, attribute{key, unquoted(text)})
}

func (r *reader) span(m message) *span {
	s := &span{}
	var list []attribute
	r.each(m, spanNames, func(number int, v field) {
		switch number {
		case 1:
			s.traceID = r.id(v, traceIDBytes)
		case 2:
			s.id = r.id(v, spanIDBytes)
		case 3:
			s.state = r.text(v)
		case 4:
			s.parentID = r.id(v, spanIDBytes)
		case 5:
			s.name = r.text(v)
		case 6:
			s.kind = v.enum("SPAN_KIND_", kinds)
		case 7:
			s.start = r.uint(v)
		case 8:
			s.end = r.uint(v)
		case 9:
			list = r.attribute(list, v)
		case 10, 12, 14:
			s.dropped[(number-10)/2] = r.uint(v)
		case 11:
			s.events = r.event(s.events, v, eventNames)
		case 13:
			s.links = r.event(s.links, v, linkNames)
		case 15:
			r.status(s, v)
		}
	})
	s.attrs = sorted(list)
	return s
}

func (r *reader) status(s *span, v field) {
	r.each(r.message(v), statusNames, func(number int, v field) {
		if number == 2 {
			s.message = r.text(v)
		} else {
			s.status = v.enum("STATUS_CODE_", statusCodes)
		}
	})
}

// event reads an event or a link, which names tell apart, and adds it to a list.
func (r *reader) event(list []event, v field, n names) []event {
	if !r.item(0) {
		return list
	}
	var e event
	var attrs []attribute
	r.each(r.message(v), n, func(number int, v field) {
		switch n[number] {
		case "timeUnixNano":
			e.time = r.uint(v)
		case "name":
			e.name = r.text(v)
		case "traceId":
			e.traceID = r.id(v, traceIDBytes)
		case "spanId":
			e.spanID = r.id(v, spanIDBytes)
		case "traceState":
			e.state = r.text(v)
		case "attributes":
			attrs = r.attribute(attrs, v)
		case "droppedAttributesCount":
			e.dropped = r.uint(v)
		case "flags":
			e.flags = r.uint(v)
		}
	})
	e.attrs = sorted(attrs)
	return append(list, e)
}

// resource reads a Resource: its attributes, and as JSON.
func (r *reader) resource(m message) (attributes, jsontext.Value) {
	var list []attribute
	dropped := uint64(0)
	r.each(m, resourceNames, func(number int, v field) {
		if number == 1 {
			list = r.attribute(list, v)
		} else {
			dropped = r.uint(v)
		}
	})
	attrs := sorted(list)
	out := attrs.tree([]byte(`{"attributes":`))
	out = strconv.AppendUint(append(out, `,"dropped_attributes_count":`...), dropped, 10)
	return attrs, append(out, '}')
}

// scope reads an InstrumentationScope, as JSON.
func (r *reader) scope(m message) jsontext.Value {
	var list []attribute
	name, version := "", ""
	r.each(m, scopeNames, func(number int, v field) {
		switch number {
		case 1:
			name = r.text(v)
		case 2:
			version = r.text(v)
		case 3:
			list = r.attribute(list, v)
		}
	})
	out := jsontext.AppendString([]byte(`{"name":`), name)
	out = jsontext.AppendString(append(out, `,"version":`...), version)
	return append(sorted(list).tree(append(out, `,"attributes":`...)), '}')
}

// appendJSON appends the span as a call has it, with what it shares with others.
func (s *span) appendJSON(dst []byte, resource, scope jsontext.Value) []byte {
	text := func(name, value string) {
		dst = jsontext.AppendString(append(append(append(dst, '"'), name...), `":`...), value)
		dst = append(dst, ',')
	}
	dst = append(dst, '{')
	text("name", s.name)
	dst = append(dst, `"context":{`...)
	text("trace_id", s.traceID)
	text("span_id", s.id)
	dst = jsontext.AppendString(append(dst, `"trace_state":`...), s.state)
	dst = append(dst, `},`...)
	text("kind", kinds[s.kind])
	if s.parentID == "" {
		dst = append(dst, `"parent_id":null,`...)
	} else {
		text("parent_id", s.parentID)
	}
	dst = append(calls.AppendTime(append(dst, `"start_time":"`...), unixTime(s.start).UnixMicro()), `",`...)
	dst = append(calls.AppendTime(append(dst, `"end_time":"`...), unixTime(s.end).UnixMicro()), `",`...)
	dst = append(dst, `"status":{`...)
	text("code", statusCodes[s.status])
	dst = jsontext.AppendString(append(dst, `"message":`...), s.message)
	dst = append(s.attrs.tree(append(dst, `},"attributes":`...)), `,"events":[`...)
	for i := range s.events {
		dst = s.events[i].appendEvent(comma(dst, i))
	}
	dst = append(dst, `],"links":[`...)
	for i := range s.links {
		dst = s.links[i].appendLink(comma(dst, i))
	}
	dst = append(dst, ']')
	for i, name := range [...]string{"attributes", "events", "links"} {
		if s.dropped[i] > 0 {
			dst = append(append(append(dst, `,"dropped_`...), name...), `_count":`...)
			dst = strconv.AppendUint(dst, s.dropped[i], 10)
		}
	}
	if resource != nil {
		dst = append(append(dst, `,"resource":`...), resource...)
	}
	if scope != nil {
		dst = append(append(dst, `,"scope":`...), scope...)
	}
	return append(dst, '}')
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

func (e *event) appendEvent(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `{"name":`...), e.name)
	dst = strconv.AppendUint(append(dst, `,"timestamp":`...), e.time, 10)
	dst = e.attrs.tree(append(dst, `,"attributes":`...))
	dst = strconv.AppendUint(append(dst, `,"dropped_attributes_count":`...), e.dropped, 10)
	return append(dst, '}')
}

func (e *event) appendLink(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `{"trace_id":`...), e.traceID)
	dst = jsontext.AppendString(append(dst, `,"span_id":`...), e.spanID)
	dst = jsontext.AppendString(append(dst, `,"trace_state":`...), e.state)
	dst = e.attrs.tree(append(dst, `,"attributes":`...))
	dst = strconv.AppendUint(append(dst, `,"dropped_attributes_count":`...), e.dropped, 10)
	dst = strconv.AppendUint(append(dst, `,"flags":`...), e.flags, 10)
	return append(dst, '}')
}

// unixTime is a time in nanoseconds of Unix time, which end in the year 2262.
func unixTime(ns uint64) time.Time { return time.Unix(0, int64(min(ns, 1<<63-1))).UTC() }
