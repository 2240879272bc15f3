package calls

import (
	"strconv"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
)

// Sizes are the sizes that an answer has on request; below 0: it has not.
type Sizes struct{ Call, Trace int64 }

// NoSizes leaves the sizes out.
var NoSizes = Sizes{-1, -1}

// Size is how many bytes the values of a call take: attributes, inputs, output and summary.
func (r *Record) Size() int64 {
	n := 0
	for _, c := range [...]Column{Attributes, Inputs, Output, Summary} {
		n += len(r.fields[c])
	}
	return int64(n)
}

// answerColumns are the members of an answer, in their order.
var answerColumns = []string{
	"id", "project_id", "op_name", "display_name", "trace_id", "parent_id", "thread_id", "turn_id", "started_at", "attributes", "inputs", "ended_at",
	"exception", "output", "summary", "wb_user_id", "wb_run_id", "wb_run_step", "wb_run_step_end", "deleted_at", "expire_at",
}

// AnswerColumns returns the names of the members that an answer has.
func AnswerColumns() []string { return answerColumns }

// AppendJSON appends a call with all its columns (docs/interface/weave.md, W-120).
func (r *Record) AppendJSON(dst []byte, sizes Sizes) []byte {
	for i, name := range answerColumns {
		if i == 0 {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), '"', ':')
		dst = r.AppendColumn(dst, name)
	}
	if r.Has(Source) {
		dst = r.AppendColumn(append(dst, `,"source":`...), "source")
	}
	return append(r.AppendExtra(dst, sizes), '}')
}

// AppendExtra appends what follows the columns of an answer: sizes, and members that clients
// sent and this version does not know.
func (r *Record) AppendExtra(dst []byte, sizes Sizes) []byte {
	if sizes.Call >= 0 {
		dst = strconv.AppendInt(append(dst, `,"storage_size_bytes":`...), sizes.Call, 10)
	}
	if sizes.Trace >= 0 {
		dst = strconv.AppendInt(append(dst, `,"total_storage_size_bytes":`...), sizes.Trace, 10)
	}
	for name, v := range r.Value(Extra).RawMembers() {
		dst = append(append(append(dst, ','), name...), ':')
		dst = longcopy.Append(dst, v)
	}
	return dst
}

// AppendColumn appends the value of a member of an answer; null if there is none of that name.
func (r *Record) AppendColumn(dst []byte, name string) []byte {
	switch name {
	case "started_at":
		return append(AppendTime(append(dst, '"'), r.Started), '"')
	case "ended_at":
		if r.Ended == NotEnded {
			return append(dst, "null"...)
		}
		return append(AppendTime(append(dst, '"'), r.Ended), '"')
	case "display_name":
		return appendText(dst, r.DisplayName())
	case "attributes":
		return r.appendAttributes(dst)
	case "summary":
		return r.AppendSummary(dst)
	}
	c, ok := ColumnOf(name)
	switch {
	case !ok || !r.Has(c):
		return append(dst, "null"...)
	case c.JSON():
		return longcopy.Append(dst, r.fields[c])
	}
	return jsontext.AppendString(dst, r.Text(c))
}

func appendText(dst, text []byte) []byte {
	if text == nil {
		return append(dst, "null"...)
	}
	return jsontext.AppendString(dst, string(text))
}

// appendAttributes appends the attributes. A call that was made of a span of OpenTelemetry
// has the span among them, as otel_span.
func (r *Record) appendAttributes(dst []byte) []byte {
	a := r.Value(Attributes)
	if a == nil {
		a = jsontext.Value("{}")
	}
	if !r.Has(OtelDump) {
		return longcopy.Append(dst, a)
	}
	dst = append(dst, '{')
	for name, v := range a.RawMembers() {
		if name.SharedText() == "otel_span" {
			continue
		}
		dst = append(append(dst, name...), ':')
		dst = append(longcopy.Append(dst, v), ',')
	}
	dst = longcopy.Append(append(dst, `"otel_span":`...), r.fields[OtelDump])
	return append(dst, '}')
}

// AppendSummary appends the summary as clients sent it, with what the server derives from the
// call below the member "weave" (docs/interface/weave.md, W-121).
func (r *Record) AppendSummary(dst []byte) []byte {
	dst = append(dst, '{')
	var weave jsontext.Value
	for name, v := range r.Value(Summary).RawMembers() {
		if name.SharedText() == "weave" {
			weave = v
			continue
		}
		dst = append(append(dst, name...), ':')
		dst = append(longcopy.Append(dst, v), ',')
	}
	dst = append(dst, `"weave":{`...)
	for name, v := range weave.RawMembers() {
		switch name.SharedText() {
		case "status", "trace_name", "latency_ms", "display_name":
			continue
		}
		dst = append(append(dst, name...), ':')
		dst = append(longcopy.Append(dst, v), ',')
	}
	dst = append(append(append(dst, `"status":"`...), r.Status.String()...), '"')
	if ms, ok := r.Latency(); ok {
		dst = strconv.AppendInt(append(dst, `,"latency_ms":`...), ms, 10)
	}
	if name := r.DisplayName(); name != nil {
		dst = appendText(append(dst, `,"display_name":`...), name)
	} else {
		dst = jsontext.AppendString(append(dst, `,"trace_name":`...), r.TraceName())
	}
	return append(dst, "}}"...)
}

// MaxJSON is about the most bytes that AppendJSON appends, of texts without control
// characters.
func (r *Record) MaxJSON() int {
	n := 2 << 10
	for c, f := range r.fields {
		n += len(f)
		if Column(c) == Exception || Column(c) == DisplayName || Column(c) == Renamed {
			n += len(f)
		}
	}
	return n
}
