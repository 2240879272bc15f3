package api

import (
	"fmt"
	"slices"
	"strconv"

	"weir/internal/jsontext"
)

// Bodies that do not have the shape of Error (docs/interface/chat-completions.md, section 1.6).
const (
	// UnauthorizedBody goes with 401: error is a string there, as in the
	// reference engine.
	UnauthorizedBody = `{"error":"Unauthorized"}`
	// NotFoundBody goes with 404 for a path that does not exist.
	NotFoundBody = `{"detail":"Not Found"}`
	// MethodNotAllowedBody goes with 405.
	MethodNotAllowedBody = `{"detail":"Method Not Allowed"}`
)

// Values of Error.Type. Two spell status 400: the HTTP phrase while the body is
// checked as a body, BadRequestError for everything afterwards.
const (
	TypeBadBody     = "Bad Request"
	TypeBadRequest  = "BadRequestError"
	TypePermission  = "PermissionDeniedError"
	TypeNotFound    = "NotFoundError"
	TypeTooLarge    = "RequestTooLargeError"
	TypeInternal    = "InternalServerError"
	TypeNotImpl     = "NotImplementedError"
	TypeUnavailable = "ServiceUnavailableError"
)

// Error is an answer that is not a completion, in the shape of
// docs/interface/chat-completions.md, section 1.6.
type Error struct {
	Name    string // of its row in ErrorTable, for logs; "": it has none
	Status  int    // HTTP status
	Message string
	Type    string
	Param   *string // nil: null
	Code    int     // the number in the body, always equal to Status
}

func (e *Error) Error() string { return "api: " + strconv.Itoa(e.Status) + " " + e.Message }

// AppendJSON appends the body of the answer. All four keys are always there.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = AppendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	return append(dst, `}}`...)
}

// AppendEvent appends the same body as a server-sent event, for a stream whose
// status has already gone out. AppendDone follows it. The reference engine
// writes this one event with spaces and ASCII escapes, unlike every other.
func (e *Error) AppendEvent(dst []byte) []byte {
	dst = append(dst, `data: {"error": {"message": `...)
	dst = jsontext.AppendASCII(dst, e.Message)
	dst = append(dst, `, "type": `...)
	dst = jsontext.AppendASCII(dst, e.Type)
	dst = append(dst, `, "param": `...)
	if e.Param == nil {
		dst = append(dst, `null`...)
	} else {
		dst = jsontext.AppendASCII(dst, *e.Param)
	}
	dst = append(dst, `, "code": `...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	return append(dst, "}}\n\n"...)
}

// An ErrorRow is one line of the documentation of error bodies.
type ErrorRow struct {
	Name   string // stable within the documentation
	Stage  int    // of the checks in docs/interface/chat-completions.md, section 1.2; 0: any
	Status int
	Type   string
	Param  string // "": null
	When   string
}

// A cause is an index into errorTable.
type cause int

const (
	causeSchema cause = iota // the zero value, which a fault has by default
	causeContentType
	causeSyntax
	causeLogprobs
	causeTopLogprobs
	causeLogprobTokens
	causePromptLogprobs
	causeStreamOptions
	causeSchemaMissing
	causePrompt
	causeModel
	causeToolChoice
	causeTools
	causeTemplate
	causeMessages
	causePart
	causeMedia
	causeProject
	causePriority
	causeCharacters
	causeTooComplex
	causeContext
	causeTruncate
	causeEmptyPrompt
	causePromptIDs
	causeSuffix
	causeRange
	causeTemperature
	causeTopP
	causeMaxTokens
	causeMinTokens
	causeMaxLogprobs
	causeMaxPromptLogprobs
	causeBias
	causeLogprobIDs
	causeAllowed
	causeStopIDs
	causeBadWords
	causeConstraint
	causeTask
	causeDimensions
	causePermission
	causeTooLarge
	causeInternal
	causeUnavailable
	numCauses
)

// errorTable is the one place that says what an error's body looks like.
var errorTable = [numCauses]ErrorRow{
	causeContentType:       {"content-type", 4, 400, TypeBadBody, "", "Content-Type is not application/json"},
	causeSyntax:            {"syntax", 3, 400, TypeBadBody, "", "the body is not JSON: syntax, UTF-8, depth, NaN, something behind the value"},
	causeSchema:            {"schema", 5, 400, TypeBadBody, "", "a field is missing, of a wrong type, null where it may not be, outside an enumeration, or over a limit; fields contradict each other"},
	causeLogprobs:          {"logprobs", 5, 400, TypeBadBody, "logprobs", "of /v1/completions: below -1"},
	causeTopLogprobs:       {"top-logprobs", 5, 400, TypeBadBody, "top_logprobs", "below -1, or given without logprobs"},
	causeLogprobTokens:     {"logprob-tokens", 5, 400, TypeBadBody, "logprob_token_ids", "given without logprobs, or where nothing is generated"},
	causePromptLogprobs:    {"prompt-logprobs", 5, 400, TypeBadBody, "prompt_logprobs", "below -1, or not 0 in a stream"},
	causeStreamOptions:     {"stream-options", 5, 400, TypeBadBody, "stream_options", "given without stream"},
	causeSchemaMissing:     {"json-schema-missing", 5, 400, TypeBadBody, "response_format", "type json_schema without the field json_schema"},
	causePrompt:            {"prompt", 5, 400, TypeBadBody, "prompt", "no prompt, an empty one, or more prompts and choices than the server takes"},
	causeModel:             {"model-not-found", 6, 404, TypeNotFound, "model", "the model is not served here"},
	causeToolChoice:        {"tool-choice", 8, 400, TypeBadRequest, "tool_choice", "neither \"none\", \"auto\", \"required\" nor a function or a list of allowed tools, without tools, or of a tool that is not among them; \"required\" or a function for a model whose form of calls is not known"},
	causeTools:             {"tools", 12, 400, TypeBadRequest, "tools", "a tool that is strict, or that has to be called, with parameters that cannot be kept"},
	causeTemplate:          {"template", 10, 400, TypeBadRequest, "", "there is no chat template, or the server does not trust the one in the request; it failed or refused the messages; with continue_final_message, the rendering lacks the message"},
	causeMessages:          {"messages", 10, 400, TypeBadRequest, "", "no message, an unusable content part or tool call"},
	causePart:              {"part-not-implemented", 10, 501, TypeNotImpl, "", "a content part of type file"},
	causeMedia:             {"not-multimodal", 10, 400, TypeBadRequest, "", "image, audio or video for a model that takes text"},
	causeProject:           {"project", 0, 400, TypeBadRequest, "", "the header Compat-Project is not <team>/<project>"},
	causePriority:          {"priority", 10, 400, TypeBadRequest, "priority", "not 0 on a server without priority scheduling"},
	causeCharacters:        {"input-text", 10, 400, TypeBadRequest, "input_text", "the prompt cannot fit however it is tokenized"},
	causeTooComplex:        {"too-complex", 10, 400, TypeBadRequest, "", "the tokenizer's regular expression would take more steps than a text of this length is allowed"},
	causeContext:           {"context-length", 10, 400, TypeBadRequest, "input_tokens", "the prompt does not fit the context"},
	causeTruncate:          {"truncate", 10, 400, TypeBadRequest, "truncate_prompt_tokens", "more than the context"},
	causeEmptyPrompt:       {"empty-prompt", 12, 400, TypeBadRequest, "", "no prompt token is left"},
	causePromptIDs:         {"prompt-token-ids", 12, 400, TypeBadRequest, "", "a token id outside the vocabulary in a prompt or in tokens"},
	causeSuffix:            {"suffix", 10, 400, TypeBadRequest, "suffix", "suffix is given"},
	causeRange:             {"range", 11, 400, TypeBadRequest, "", "a sampling parameter without a param of its own is out of range"},
	causeTemperature:       {"temperature", 11, 400, TypeBadRequest, "temperature", "outside [0, 2]"},
	causeTopP:              {"top-p", 11, 400, TypeBadRequest, "top_p", "outside (0, 1]"},
	causeMaxTokens:         {"max-tokens", 11, 400, TypeBadRequest, "max_tokens", "no room for one token of output, whichever field asked"},
	causeMinTokens:         {"min-tokens", 11, 400, TypeBadRequest, "", "below 0 or above the effective limit"},
	causeMaxLogprobs:       {"max-logprobs", 12, 400, TypeBadRequest, "logprobs", "top_logprobs above the server's limit"},
	causeMaxPromptLogprobs: {"max-prompt-logprobs", 12, 400, TypeBadRequest, "prompt_logprobs", "above the server's limit"},
	causeBias:              {"logit-bias", 12, 400, TypeBadRequest, "logit_bias", "a token id outside the vocabulary"},
	causeLogprobIDs:        {"logprob-token-ids", 12, 400, TypeBadRequest, "logprob_token_ids", "more than 128, or a token id outside the vocabulary"},
	causeAllowed:           {"allowed-token-ids", 12, 400, TypeBadRequest, "allowed_token_ids", "empty, or an id outside the vocabulary"},
	causeStopIDs:           {"stop-token-ids", 12, 400, TypeBadRequest, "stop_token_ids", "a token id outside the vocabulary"},
	causeBadWords:          {"bad-words", 12, 400, TypeBadRequest, "bad_words", "a word that has no tokens in the vocabulary"},
	causeConstraint:        {"constraint", 12, 400, TypeBadRequest, "", "a schema, regex, choice, grammar or structural tag that cannot be used; with continue_final_message, a message with which nothing begins that it allows"},
	causeTask:              {"task", 7, 400, TypeBadRequest, "", "the model generates and was asked for vectors or scores, or the other way round"},
	causeDimensions:        {"dimensions", 11, 400, TypeBadRequest, "dimensions", "a size to which the model's vectors cannot be cut"},
	causePermission:        {"permission", 0, 403, TypePermission, "", "the key may not do this"},
	causeTooLarge:          {"too-large", 0, 413, TypeTooLarge, "", "the body is larger than the server takes"},
	causeInternal:          {"internal", 0, 500, TypeInternal, "", "a fault of the server or the engine"},
	causeUnavailable:       {"unavailable", 0, 503, TypeUnavailable, "", "the server is full, loading or draining"},
}

// ErrorTable returns the documentation of all bodies of the shape of Error.
func ErrorTable() []ErrorRow { return slices.Clone(errorTable[:]) }

// newError makes the error of a cause. An error that names a parameter repeats it after its
// text, with the offending value if that is not nil (docs/interface/chat-completions.md,
// section 1.6).
func newError(c cause, message string, value any) *Error {
	e := bareError(c, message)
	if e.Param != nil {
		e.addSuffix(value)
	}
	return e
}

func bareError(c cause, message string) *Error {
	row := &errorTable[c]
	e := &Error{Name: row.Name, Status: row.Status, Message: message, Type: row.Type, Code: row.Status}
	if row.Param != "" {
		param := row.Param
		e.Param = &param
	}
	return e
}

func (e *Error) addSuffix(value any) {
	e.Message += " (parameter=" + *e.Param
	if value != nil {
		e.Message += ", value=" + python(value)
	}
	e.Message += ")"
}

// python spells a value as the reference engine's messages do.
func python(value any) string {
	switch v := value.(type) {
	case int:
		return strconv.Itoa(v)
	case float64:
		return pythonFloat(v)
	case []int:
		b := []byte{'['}
		for i, n := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			if i == maxListed {
				b = append(b, "…"...)
				break
			}
			b = strconv.AppendInt(b, int64(n), 10)
		}
		return string(append(b, ']'))
	}
	return clip(fmt.Append(nil, value))
}

// maxListed is how many offending ids a message names.
const maxListed = 16

// pythonFloat is repr(x): shortest digits, a point or an exponent always.
func pythonFloat(x float64) string {
	format := byte('f')
	if a := max(x, -x); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(x, format, -1, 64)
	for _, c := range s {
		if c == '.' || c == 'e' {
			return s
		}
	}
	return s + ".0"
}
