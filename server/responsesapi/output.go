package responsesapi

import (
	"strconv"

	"weir/api"
	"weir/internal/jsontext"
)

// itemKind is the type of an item of the output.
type itemKind uint8

const (
	thoughtItem itemKind = iota
	messageItem
	functionItem
	customItem
)

// prefixes begin the ids of items of these kinds.
var prefixes = [...]string{thoughtItem: "rs_", messageItem: "msg_", functionItem: "fc_", customItem: "ctc_"}

// Statuses of items and responses.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
	queued     = "queued"
	cancelled  = "cancelled"
)

// item is an item of the output.
type item struct {
	kind     itemKind
	id       string
	status   string
	text     []byte // the thought, the text, the arguments or the input
	callID   string
	tool     *tool  // of a call to a tool that the request has; nil: the model made it up
	name     string // of a call, as the model wrote it
	logprobs []api.Logprob
}

// appendItem appends an item. begun leaves out what streams bring later.
func (a *answer) appendItem(dst []byte, it *item, begun bool) []byte {
	body := it.text
	if begun {
		body = nil
	}
	dst = append(dst, `{"id":`...)
	dst = jsontext.AppendString(dst, it.id)
	switch it.kind {
	case thoughtItem:
		dst = append(dst, `,"type":"reasoning","summary":[`...)
		if a.summary && !begun {
			dst = append(appendBytes(append(dst, `{"type":"summary_text","text":`...), body), '}')
		}
		dst = append(dst, ']')
		if !a.summary {
			dst = append(dst, `,"content":[`...)
			if !begun {
				dst = append(appendBytes(append(dst, `{"type":"reasoning_text","text":`...), body), '}')
			}
			dst = append(dst, ']')
		}
		dst = append(dst, `,"encrypted_content":`...)
		if a.encrypted && !begun {
			dst = jsontext.AppendString(dst, seal(string(body)))
		} else {
			dst = append(dst, "null"...)
		}
	case messageItem:
		dst = append(dst, `,"type":"message","role":"assistant","content":[`...)
		if !begun {
			dst = a.appendPart(dst, body, it.logprobs)
		}
		dst = append(dst, ']')
	case functionItem, customItem:
		dst = it.appendCall(dst, body)
	}
	return append(jsontext.AppendString(append(dst, `,"status":`...), it.status), '}')
}

// appendCall appends the members of a call.
func (it *item) appendCall(dst, body []byte) []byte {
	kind, payload := "function_call", "arguments"
	if it.kind == customItem {
		kind, payload = "custom_tool_call", "input"
	}
	dst = append(append(append(dst, `,"type":"`...), kind...), `","call_id":`...)
	dst = jsontext.AppendString(dst, it.callID)
	dst = jsontext.AppendString(append(dst, `,"name":`...), it.shown())
	if it.tool != nil && it.tool.namespace != "" {
		dst = jsontext.AppendString(append(dst, `,"namespace":`...), it.tool.namespace)
	}
	dst = append(append(append(dst, `,"`...), payload...), `":`...)
	return appendBytes(dst, body)
}

// shown is the name of a call as the client knows it.
func (it *item) shown() string {
	if it.tool != nil {
		return it.tool.own
	}
	return it.name
}

// appendPart appends the part of a message that has its text.
func (a *answer) appendPart(dst, body []byte, logprobs []api.Logprob) []byte {
	dst = appendBytes(append(dst, `{"type":"output_text","text":`...), body)
	dst = append(dst, `,"annotations":[],"logprobs":`...)
	return append(appendLogprobs(dst, logprobs), '}')
}

// appendBytes appends a text as a JSON string.
func appendBytes(dst, text []byte) []byte { return jsontext.AppendString(dst, view(text)) }

// appendLogprobs appends a list of log-probabilities.
func appendLogprobs(dst []byte, list []api.Logprob) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		l := &list[i]
		dst = append(appendTokenLogprob(dst, &l.TokenLogprob), `,"top_logprobs":[`...)
		for j := range l.Top {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendTokenLogprob(dst, &l.Top[j]), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, ']')
}

// least is the log-probability that is sent for one that is lower or not a number.
const least = -9999.0

// appendTokenLogprob appends a token, without the brace that ends it.
func appendTokenLogprob(dst []byte, l *api.TokenLogprob) []byte {
	dst = jsontext.AppendString(append(dst, `{"token":`...), l.Text)
	p := float64(l.Logprob)
	if !(p >= least) {
		p = least
	}
	dst = strconv.AppendFloat(append(dst, `,"logprob":`...), p, 'g', -1, 32)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(l.Text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(l.Text[i]), 10)
	}
	return append(dst, ']')
}

// appendUsage appends the usage.
func appendUsage(dst []byte, u *api.Usage) []byte {
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(u.Prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), int64(u.Cached), 10)
	dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":0},"output_tokens":`...), int64(u.Completion), 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), int64(u.Reasoning), 10)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), int64(u.Prompt+u.Completion), 10)
	return append(dst, '}')
}

// state is what a response has to say beside what was asked for.
type state struct {
	status string
	reason string // why it is incomplete
	fault  string // why it has failed
	code   string // of fault
	output []item
	usage  *api.Usage // nil: not known yet
	done   int64      // when it was completed, in Unix seconds; 0: it was not
}

// appendResponse appends the response object.
func (a *answer) appendResponse(dst []byte, s *state) []byte {
	dst = jsontext.AppendString(append(dst, `{"id":`...), a.id)
	dst = strconv.AppendInt(append(dst, `,"object":"response","created_at":`...), a.created, 10)
	dst = jsontext.AppendString(append(dst, `,"status":`...), s.status)
	dst = strconv.AppendBool(append(dst, `,"background":`...), a.background)
	dst = append(dst, `,"completed_at":`...)
	if s.done > 0 {
		dst = strconv.AppendInt(dst, s.done, 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"error":`...)
	dst = appendFault(dst, s.code, s.fault)
	dst = append(dst, `,"incomplete_details":`...)
	if s.reason == "" {
		dst = append(dst, "null"...)
	} else {
		dst = append(jsontext.AppendString(append(dst, `{"reason":`...), s.reason), '}')
	}
	dst = jsontext.AppendString(append(dst, `,"model":`...), a.model)
	dst = append(a.appendOutput(append(dst, `,"output":`...), s.output), a.echo...)
	dst = strconv.AppendBool(append(dst, `,"store":`...), a.kept)
	dst = append(a.appendMetadata(append(dst, `,"metadata":`...)), `,"usage":`...)
	if s.usage == nil {
		dst = append(dst, "null"...)
	} else {
		dst = appendUsage(dst, s.usage)
	}
	return append(dst, '}')
}

// appendOutput appends the items of an output as an array.
func (a *answer) appendOutput(dst []byte, items []item) []byte {
	dst = append(dst, '[')
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = a.appendItem(dst, &items[i], false)
	}
	return append(dst, ']')
}

// appendFault appends why a response has failed; null: it has not.
func appendFault(dst []byte, code, fault string) []byte {
	if fault == "" {
		return append(dst, "null"...)
	}
	dst = jsontext.AppendString(append(dst, `{"code":`...), code)
	return append(jsontext.AppendString(append(dst, `,"message":`...), fault), '}')
}

// appendEcho appends the members of a request that its answer repeats, each with a comma in
// front.
func (r *request) appendEcho(dst []byte) []byte {
	for _, e := range echoed {
		dst = append(append(append(dst, `,"`...), e.name...), `":`...)
		v, ok := r.sent[e.name]
		switch {
		case !ok:
			dst = append(dst, e.otherwise...)
		case e.name == "text" && v.Member("format") == nil && v.Member("verbosity").Given():
			dst = append(append(append(dst, `{"format":{"type":"text"},"verbosity":`...), v.Member("verbosity")...), '}')
		default:
			dst = append(dst, v...)
		}
	}
	return dst
}

// contextKey is the name in the metadata of a response that says that its prompt is not what
// the template makes of the conversation, or does not continue that of the earlier turn.
const contextKey = "weir_context"

// appendMetadata appends the metadata of the request, and what there is to say about the
// context.
func (a *answer) appendMetadata(dst []byte) []byte {
	dst = append(dst, '{')
	n := 0
	for name, v := range a.metadata.RawMembers() {
		if name.Text() == contextKey {
			continue
		}
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, name...), ':'), v...)
	}
	if note := a.note(); note != "" {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `"`+contextKey+`":`...)
		dst = jsontext.AppendString(dst, note)
	}
	return append(dst, '}')
}
