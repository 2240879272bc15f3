package failure

import (
	"errors"
	"log/slog"
	"time"

	"weir/api"
	"weir/feedback"
	"weir/internal/retry"
	"weir/metrics"
	"weir/ratelimit"
	"weir/trajectory"
)

// Interface is one of the interfaces that clients speak. It decides the form of an error's
// body.
type Interface uint8

// The interfaces; see the package's documentation.
const (
	OpenAI Interface = iota
	Feedback
	Trajectories
	Messages
	Ollama
	interfaces
)

// Generates reports whether the functions of an interface generate text, and share keys, projects
// and everything else but the form of bodies with the OpenAI interface.
func (i Interface) Generates() bool { return i == OpenAI || i == Messages || i == Ollama }

// Settings are the bounds and facts that messages name.
type Settings struct {
	Body   int // of a request body, in bytes
	Header int // of request line and headers, in bytes

	// The bounds of the trajectory interface: of the body of a log request in bytes, of
	// one trajectory in bytes, of trajectories in a request, of bytes that a tenant may
	// have logged, and of decompressed bytes for each byte sent.
	Upload       int64
	Trajectory   int
	Trajectories int
	Quota        int64
	Ratio        int

	// Progress says why there is no model yet, and how long it will take until there is; 0:
	// that is not known.
	Progress func() (text string, left time.Duration)
}

// Failure is what the client, the log and the metrics are told of an error.
type Failure struct {
	Kind    string // short name of the class of error, for the log
	Status  int    // of HTTP; the code in an OpenAI body is the same number
	Type    string // of an OpenAI body
	Param   *string
	Message string
	Reason  metrics.Reason // what the refusal counts as; "": it is not counted
	After   time.Duration  // when the request may be sent again, if Retry says that it may; 0: it is not known
	Exact   bool           // After is no estimate: before that the request is refused again
	// RequestID is that of the HTTP request, for an interface that repeats it in the body; "": it
	// is not known.
	RequestID string

	form    form
	details string // JSON of the member details of a body of the Messages interface; "": none
	fields  []byte // JSON of everything that is wrong with the request: a body of its own
}

// Of classifies an error for a request of one of the interfaces.
func (s *Settings) Of(i Interface, err error) Failure {
	var known *api.Error
	var unprocessable feedback.Invalid
	var refusal *feedback.Refusal
	var invalid *trajectory.Invalid
	switch {
	case errors.As(err, &known):
		details := ""
		if d := (*Detailed)(nil); errors.As(err, &d) {
			details = d.JSON
		}
		return Failure{details: details, Kind: known.Name, Status: known.Status, Type: known.Type, Param: known.Param, Message: known.Message, form: forms[i]}
	case errors.As(err, &unprocessable):
		return Failure{Kind: "invalid", Status: 422, fields: unprocessable.AppendJSON(nil)}
	case errors.As(err, &refusal):
		return Failure{Kind: "refused", Status: refusal.Status, Message: refusal.Reason, form: forms[i]}
	case errors.As(err, &invalid):
		return Failure{Kind: "invalid", Status: 422, fields: appendDetails(nil, invalid.Details)}
	}
	r := &fault
	for n := range table {
		if errors.Is(err, table[n].err) {
			r = &table[n]
			break
		}
	}
	return r.failure(s, i, err)
}

func (r *row) failure(s *Settings, i Interface, err error) Failure {
	f := Failure{Kind: r.kind, Status: r.status, Type: r.typ, Reason: r.reason, Message: r.message(i)(s, err), form: r.form}
	if e := (*ratelimit.Exceeded)(nil); errors.As(err, &e) {
		f.After, f.Exact = e.After, true
		return f.formed(r, i)
	}
	if f.After = r.after; r.wait != nil {
		f.After = r.wait(s)
	}
	if f.After == 0 {
		f.After = retry.Of(err)
	}
	return f.formed(r, i)
}

// formed gives a failure the form that an interface has for it.
func (f Failure) formed(r *row, i Interface) Failure {
	switch {
	case r.form == byInterface:
		f.form = forms[i]
	case i == Messages || i == Ollama:
		f.form = forms[i]
	case r.form == bare && i != OpenAI:
		f.form = detail
	}
	return f
}

// message is how an interface words the error.
func (r *row) message(i Interface) message {
	switch {
	case i == Feedback && r.feedback != nil:
		return r.feedback
	case i == Trajectories && r.trajectories != nil:
		return r.trajectories
	}
	return r.text
}

// A form is the form of an error's body.
type form uint8

const (
	byInterface form = iota // that of the request's interface
	object                  // {"error":{…}}
	reason                  // {"reason":"…"}
	detail                  // {"detail":"…"}
	bare                    // {"error":"…"} in the OpenAI interface, {"detail":"…"} in the others
	typed                   // {"type":"error","error":{…}}
	plain                   // {"error":"…"}
)

var forms = [interfaces]form{OpenAI: object, Feedback: reason, Trajectories: detail, Messages: typed, Ollama: plain}

// AppendBody appends the body of the answer, as JSON.
func (f *Failure) AppendBody(dst []byte) []byte {
	name := `{"detail":`
	switch {
	case f.fields != nil:
		return append(dst, f.fields...)
	case f.form == object:
		return f.openAI().AppendJSON(dst)
	case f.form == reason:
		name = `{"reason":`
	case f.form == typed:
		return f.appendTyped(dst)
	case f.form == bare, f.form == plain:
		name = `{"error":`
	}
	return append(api.AppendString(append(dst, name...), f.Message), '}')
}

// appendTyped appends the body as Anthropic's interface has it.
func (f *Failure) appendTyped(dst []byte) []byte {
	dst = append(append(dst, `{"type":"error","error":{"type":"`...), typedName(f.Status)...)
	dst = api.AppendString(append(dst, `","message":`...), f.Message)
	if f.details != "" {
		dst = append(append(dst, `,"details":`...), f.details...)
	}
	dst = append(dst, `},"request_id":`...)
	if f.RequestID == "" {
		return append(dst, "null}"...)
	}
	return append(api.AppendString(dst, f.RequestID), '}')
}

// typedName is the type that Anthropic's interface has for errors of a status.
func typedName(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 408, 504:
		return "timeout_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	}
	if status < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

// Detailed is an error of a client with details for programs, which the Messages interface shows.
type Detailed struct {
	Err  *api.Error
	JSON string // an object
}

func (d *Detailed) Error() string { return d.Err.Error() }

// Unwrap returns what all interfaces show.
func (d *Detailed) Unwrap() error { return d.Err }

// AppendEvent appends the body as an event of a stream whose status has gone out already.
func (f *Failure) AppendEvent(dst []byte) []byte { return f.openAI().AppendEvent(dst) }

func (f *Failure) openAI() *api.Error {
	return &api.Error{Status: f.Status, Code: f.Status, Type: f.Type, Param: f.Param, Message: f.Message}
}

// Retry reports whether the answer has a header Retry-After: the same request may
// succeed later.
func (f *Failure) Retry() bool {
	return f.Status == 503 || f.Status == 429
}

// Gone reports whether nobody receives the answer.
func (f *Failure) Gone() bool { return f.Status == StatusGone }

// Level is how loudly the log says it: faults of the server and damage are errors.
func (f *Failure) Level() slog.Level {
	if f.Status == 500 || f.Kind == damagedKind {
		return slog.LevelError
	}
	return slog.LevelDebug
}

// appendDetails appends the 422 of the trajectory interface.
func appendDetails(d []byte, list []trajectory.Detail) []byte {
	d = append(d, `{"detail":[`...)
	for i, e := range list {
		if i > 0 {
			d = append(d, ',')
		}
		d = append(d, `{"loc":[`...)
		for j, name := range e.Loc {
			if j > 0 {
				d = append(d, ',')
			}
			d = api.AppendString(d, name)
		}
		d = api.AppendString(append(d, `],"msg":`...), e.Msg)
		d = append(api.AppendString(append(d, `,"type":`...), e.Type), '}')
	}
	return append(d, "]}"...)
}
