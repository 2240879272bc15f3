package spans

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"weir/calls"
	"weir/internal/jsontext"
)

// Attributes that say what a span was given and what it returned, by the conventions of
// OpenTelemetry for generative AI, OpenInference, OpenLLMetry, MLflow, Logfire, Google's ADK and
// Vercel's AI SDK. Of several the first counts, in the order that Weave has them in
// (weave.trace_server.opentelemetry.constants of weave 0.52.42); the arguments and results of
// tools are added.
var (
	inputKeys = []string{
		"ai.prompt", "gen_ai.prompt", "input.value", "mlflow.spanInputs", "gen_ai.input.messages", "pydantic_ai.all_messages", "traceloop.entity.input",
		"gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.llm_request", "gen_ai.tool.call.arguments", "input", "inputs",
	}
	outputKeys = []string{
		"ai.response", "gen_ai.completion", "output.value", "gen_ai.output.messages", "mlflow.spanOutputs", "final_result", "gen_ai.content.completion",
		"traceloop.entity.output", "gcp.vertex.agent.tool_response", "gcp.vertex.agent.llm_response", "gen_ai.tool.call.result", "output", "outputs",
	}
	// attributeKeys are the attributes of a call and where they come from.
	attributeKeys = []struct {
		name string
		keys []string
	}{
		{"system", []string{"gen_ai.system_instructions", "gen_ai.system", "llm.system"}},
		{"kind", []string{"weave.span.kind", "traceloop.span.kind", "openinference.span.kind"}},
		{"model", []string{"gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id"}},
		{"provider", []string{"gen_ai.provider.name", "llm.provider", "ai.model.provider"}},
		{"model_parameters", []string{"gen_ai.request", "llm.invocation_parameters"}},
		{"operation_name", []string{"gen_ai.operation.name"}},
		{"response_id", []string{"gen_ai.response.id"}},
		{"finish_reasons", []string{"gen_ai.response.finish_reasons"}},
		{"agent_name", []string{"gen_ai.agent.name"}},
		{"agent_id", []string{"gen_ai.agent.id"}},
	}
	usageKeys = []struct {
		name string
		keys []string
	}{
		{"input_tokens", []string{"gen_ai.usage.input_tokens"}},
		{"prompt_tokens", []string{"gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "ai.usage.promptTokens"}},
		{"completion_tokens", []string{"gen_ai.usage.completion_tokens", "llm.token_count.completion", "ai.usage.completionTokens"}},
		{"output_tokens", []string{"gen_ai.usage.output_tokens"}},
		{"total_tokens", []string{"gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"}},
		{"cache_creation_input_tokens", []string{"gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens"}},
		{"cache_read_input_tokens", []string{"gen_ai.usage.cache_read.input_tokens"}},
	}
	// A conversation is a thread, and each span that names one is a turn of it.
	conversationKeys = []string{"gen_ai.conversation.id", "gcp.vertex.agent.session_id"}
)

// What Weave's client writes on the spans that begin while one of its calls runs.
const (
	parentCallKey      = "weave.parent_call.id"
	parentCallTraceKey = "weave.parent_call.trace_id"
)

// source is what calls that were made of spans say about where they come from.
const source = "opentelemetry"

// call makes a call of a span, without what it shares with others. The error is a sentence that
// says why it cannot be one.
func (s *span) call(project string) (c calls.Complete, problem string) {
	a := s.attrs
	c = calls.Complete{
		Project: project, ID: s.id, TraceID: s.traceID, ParentID: s.parentID, Source: source,
		OpName:      shortened(s.name, calls.MaxOpName),
		DisplayName: shortened(a.text("wandb.display_name"), calls.MaxName),
		ThreadID:    a.text(append(conversationKeys[:len(conversationKeys):len(conversationKeys)], "wandb.thread_id")...),
		Started:     s.time("langfuse.startTime", s.start),
		Ended:       s.time("langfuse.endTime", cmp.Or(s.end, s.start)),
		Exception:   s.exception(),
	}
	if c.ThreadID != "" && (a.text(conversationKeys...) != "" || a.get("wandb.is_turn") != nil) {
		c.TurnID = s.id
	}
	if id, trace := a.text(parentCallKey), a.text(parentCallTraceKey); id != "" && trace != "" {
		c.TraceID, c.ParentID = trace, cmp.Or(s.parentID, id)
	}
	if run := a.text("wandb.wb_run_id"); run != "" && !strings.ContainsAny(run, "/:") {
		c.RunID = project + "/" + run
	}
	c.RunStep, c.RunStepEnd = whole(a, "wandb.wb_run_step"), whole(a, "wandb.wb_run_step_end")
	s.values(&c)
	return c, s.problem(&c)
}

// values sets what a call was given, what it returned, its attributes and its use of tokens.
func (s *span) values(c *calls.Complete) {
	a := s.attrs
	if key, v := a.first(inputKeys...); v == nil {
		c.Inputs = s.messages("gen_ai.input.messages", inputEvents)
	} else if (key == "input" || key == "inputs") && v.Kind() == jsontext.Object {
		c.Inputs = v
	} else {
		c.Inputs = object(key, v)
	}
	if key, v := a.first(outputKeys...); v == nil {
		c.Output = s.messages("gen_ai.output.messages", outputEvents)
	} else if key == "output" || key == "outputs" {
		c.Output = v
	} else {
		c.Output = object(key, v)
	}
	var attributes []byte
	for _, k := range attributeKeys {
		if _, v := a.first(k.keys...); v != nil {
			attributes = member(attributes, k.name, v)
		}
	}
	usage := s.usage()
	known := attributes != nil || c.Inputs != nil || c.Output != nil || usage != nil
	custom := a.get("wandb.attributes")
	for name, v := range custom.Members() {
		attributes = member(attributes, string(name), v)
	}
	switch {
	case attributes != nil:
		c.Attributes = append(attributes, '}')
	case !known && custom == nil:
		c.Attributes = a.tree(nil)
		if c.Attributes.Kind() != jsontext.Object { // keys 0, 1, 2
			c.Attributes = object("attributes", c.Attributes)
		}
	}
	if usage != nil {
		model := cmp.Or(a.text(attributeKeys[2].keys...), "usage")
		c.Summary = object("usage", object(model, usage))
	}
}

// usage is the tokens that a span says to have used; nil: it does not say.
func (s *span) usage() jsontext.Value {
	var out []byte
	n := map[string]int64{}
	for _, k := range usageKeys {
		if x, ok := s.attrs.int(k.keys...); ok {
			n[k.name] = x
			out = member(out, k.name, strconv.AppendInt(nil, x, 10))
		}
	}
	if out == nil {
		return nil
	}
	for _, pair := range [...][2]string{{"prompt_tokens", "completion_tokens"}, {"input_tokens", "output_tokens"}} {
		in, ok1 := n[pair[0]]
		out2, ok2 := n[pair[1]]
		if _, total := n["total_tokens"]; ok1 && ok2 && !total {
			n["total_tokens"] = in + out2
			out = member(out, "total_tokens", strconv.AppendInt(nil, in+out2, 10))
		}
	}
	return append(out, '}')
}

// Events that hold messages: those of earlier conventions for generative AI, one for each
// message, and the one event with all of them.
var (
	inputEvents  = map[string]string{"gen_ai.system.message": "system", "gen_ai.user.message": "user", "gen_ai.assistant.message": "assistant", "gen_ai.tool.message": "tool", "gen_ai.content.prompt": "gen_ai.prompt"}
	outputEvents = map[string]string{"gen_ai.choice": "assistant", "gen_ai.content.completion": "gen_ai.completion"}
)

const detailsEvent = "gen_ai.client.inference.operation.details"

// messages is what the events of a span say of its inputs or its output: an object with the
// messages below key; nil: nothing.
func (s *span) messages(key string, events map[string]string) jsontext.Value {
	var list []byte
	for _, e := range s.events {
		if e.name == detailsEvent {
			if v := e.attrs.get(key); v != nil {
				return object(key, v)
			}
		}
		role, ok := events[e.name]
		if !ok || len(e.attrs) == 0 {
			continue
		}
		if strings.HasPrefix(role, "gen_ai.") { // the attribute with all messages
			if v := e.attrs.get(role); v != nil {
				return object(role, v)
			}
			continue
		}
		list = append(list, ',')
		v := jsontext.Value(e.attrs.tree(nil))
		if e.attrs.get("role") == nil && v.Kind() == jsontext.Object {
			v = append(append(jsontext.AppendString([]byte(`{"role":`), role), ','), v[1:]...)
		}
		list = append(list, v...)
	}
	if list == nil {
		return nil
	}
	list[0] = '['
	return object(key, append(list, ']'))
}

// exception is why a span failed; "": it did not.
func (s *span) exception() string {
	if s.status != statusError {
		return ""
	}
	if s.message != "" {
		return s.message
	}
	for i := len(s.events) - 1; i >= 0; i-- {
		if e := s.events[i]; e.name == "exception" {
			kind, text := e.attrs.text("exception.type"), e.attrs.text("exception.message")
			if kind != "" && text != "" {
				return kind + ": " + text
			}
			if kind+text != "" {
				return kind + text
			}
		}
	}
	return "The status of the span is ERROR"
}

// time is the time that an attribute has, in nanoseconds or as text, or else ns.
func (s *span) time(key string, ns uint64) time.Time {
	v := s.attrs.get(key)
	switch {
	case v == nil:
	case v.Kind() == jsontext.Number:
		if x, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return unixTime(x)
		}
	case v.Kind() == jsontext.String:
		if t, err := time.Parse(time.RFC3339Nano, v.Text()); err == nil {
			return t
		}
	}
	return unixTime(ns)
}

// problem says why a call cannot be kept.
func (s *span) problem(c *calls.Complete) string {
	if len(s.traceID) != 2*traceIDBytes || strings.Trim(s.traceID, "0") == "" {
		return "traceId is not 16 bytes that are not all 0"
	}
	if len(s.id) != 2*spanIDBytes || strings.Trim(s.id, "0") == "" {
		return "spanId is not 8 bytes that are not all 0"
	}
	for _, id := range [...]struct{ name, value string }{
		{"parentSpanId", c.ParentID}, {"the id of the conversation", c.ThreadID}, {"the id of the run", c.RunID}, {"the id of the trace", c.TraceID},
	} {
		if len(id.value) > calls.MaxID {
			return id.name + " has more than " + strconv.Itoa(calls.MaxID) + " bytes"
		}
	}
	return ""
}

// shortened is a name of at most so many bytes. What is cut off is replaced by a part of its
// SHA-256, so that different names stay different.
func shortened(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	end := most - 9
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + ":" + hex.EncodeToString(sum[:4])
}

// whole is an attribute that is a whole number; nil: it is none.
func whole(a attributes, key string) jsontext.Value {
	x, ok := a.int(key)
	if !ok {
		return nil
	}
	return strconv.AppendInt(nil, x, 10)
}

// object is an object with one member.
func object(name string, v jsontext.Value) jsontext.Value { return append(member(nil, name, v), '}') }

// member adds a member to an object that is not closed yet; nil: it has not begun.
func member(dst []byte, name string, v jsontext.Value) []byte {
	if dst == nil {
		dst = append(dst, '{')
	} else {
		dst = append(dst, ',')
	}
	return append(append(jsontext.AppendString(dst, name), ':'), v...)
}
