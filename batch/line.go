package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weir/internal/jsontext"
)

// Line is a request of a batch.
type Line struct {
	CustomID, URL string
	Body          jsontext.Value
}

// URLs are what the requests of a batch may ask for.
var URLs = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses",
	"/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank", "/classify", "/pooling",
}

// Limits of a line.
const (
	MaxCustomID = 512 // bytes
	maxDepth    = 256
)

// Codes of errors.
const (
	CodeJSON      = "invalid_json_line"
	CodeRequest   = "invalid_request"
	CodeMethod    = "invalid_method"
	CodeURL       = "invalid_url"
	CodeMismatch  = "mismatched_endpoint"
	CodeDuplicate = "duplicate_custom_id"
	CodeModel     = "mismatched_model"
	CodeExpired   = "batch_expired"
	CodeCancelled = "batch_cancelled"
	CodeAnswer    = "invalid_answer"
)

// Error says why a line has no response.
type Error struct{ Code, Message, Param string }

// Parse reads a line. With an error, of the line only CustomID may be set.
func Parse(text []byte) (l Line, bad *Error) {
	if bad := jsontext.Check(text, maxDepth); bad != nil {
		l.CustomID = guessID(text)
		return l, &Error{Code: CodeJSON, Message: "The line is not JSON: " + bad.Error() + "."}
	}
	v := jsontext.Trim(text)
	if v.Kind() != jsontext.Object {
		return l, &Error{Code: CodeJSON, Message: "The line is not a JSON object."}
	}
	id, method, url := v.Member("custom_id"), v.Member("method"), v.Member("url")
	switch {
	case !is(id, jsontext.String) || id.Text() == "":
		return l, &Error{CodeRequest, "custom_id must be a text, and not empty.", "custom_id"}
	case len(id.Text()) > MaxCustomID:
		return l, &Error{CodeRequest, fmt.Sprintf("custom_id has more than %d bytes.", MaxCustomID), "custom_id"}
	}
	l.CustomID = id.Text()
	if method.Given() && (!is(method, jsontext.String) || method.Text() != "POST") {
		return l, &Error{CodeMethod, "method must be POST.", "method"}
	}
	if !is(url, jsontext.String) || !slices.Contains(URLs, url.Text()) {
		return l, &Error{CodeURL, "url must be one of " + strings.Join(URLs, ", ") + ".", "url"}
	}
	body := v.Member("body")
	switch {
	case !is(body, jsontext.Object):
		return l, &Error{CodeRequest, "body must be an object.", "body"}
	case string(body.Member("stream")) == "true":
		return l, &Error{CodeRequest, "A request of a batch does not stream: stream must be false or missing.", "body.stream"}
	case string(body.Member("background")) == "true":
		return l, &Error{CodeRequest, "A request of a batch is in the background already: background must be false or missing.", "body.background"}
	}
	l.URL, l.Body = url.Text(), body
	return l, nil
}

// guessID finds the custom_id of a line that is not JSON, or whose end is missing, so that its sender
// learns which one it is; "": there is none.
func guessID(text []byte) string {
	m := customID.FindSubmatch(text)
	if m == nil || len(m[1]) > MaxCustomID || jsontext.Check(m[1], 1) != nil {
		return ""
	}
	return jsontext.Value(m[1]).Text()
}

var customID = regexp.MustCompile(`"custom_id"[ \t]*:[ \t]*("(?:[^"\\]|\\.)+")`)

// idPrefix begins the ids of results.
const idPrefix = "batch_req_"

// ID is the id of the result of a line, by its number in the input, from 1 on, and its text.
func ID(number int, text []byte) string {
	h := sha256.New()
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(number)))
	_, _ = h.Write(bytes.TrimSpace(text))
	return idPrefix + hex.EncodeToString(h.Sum(nil)[:12])
}

// Result is a line of an output.
type Result struct {
	ID        string
	CustomID  string // "": the line has none
	Status    int    // 0: there is no response
	RequestID string
	Body      []byte // JSON
	Err       *Error // why there is no response
}

// Failed reports whether the result is not what was asked for.
func (r *Result) Failed() bool { return r.Err != nil || r.Status != 200 }

// Append appends the line, with its end.
func (r *Result) Append(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `{"id":`...), r.ID)
	dst = append(dst, `,"custom_id":`...)
	if r.CustomID == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsontext.AppendString(dst, r.CustomID)
	}
	if r.Err == nil {
		dst = fmt.Appendf(dst, `,"response":{"status_code":%d,"request_id":`, r.Status)
		dst = append(jsontext.AppendString(dst, r.RequestID), `,"body":`...)
		dst = jsontext.AppendCompact(dst, r.Body) // without line ends
		return append(dst, "},\"error\":null}\n"...)
	}
	dst = append(dst, `,"response":null,"error":`...)
	return append(r.Err.Append(dst, 0), "}\n"...)
}

// Append appends the error as an object, with the number of its line unless that is 0.
func (e *Error) Append(dst []byte, line int) []byte {
	dst = jsontext.AppendString(append(dst, `{"code":`...), e.Code)
	dst = jsontext.AppendString(append(dst, `,"message":`...), e.Message)
	if line > 0 {
		dst = fmt.Appendf(dst, `,"line":%d`, line)
	}
	dst = append(dst, `,"param":`...)
	if e.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsontext.AppendString(dst, e.Param)
	}
	return append(dst, '}')
}
