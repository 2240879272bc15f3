package api

import "fmt"

// The functions ErrX make the errors of what somebody outside this package detects. They
// never return nil. This file has those about the request as a whole.

// ErrContentType answers a request whose body is not announced as JSON.
func ErrContentType() *Error {
	return newError(causeContentType, "Unsupported Media Type: Only 'application/json' is allowed", nil)
}

// ErrModelNotFound answers a request for a model that is not served.
func ErrModelNotFound(name string) *Error {
	// This is the one text with a parameter and without the suffix
	// (docs/interface/chat-completions.md, section 2.2).
	return bareError(causeModel, "The model `"+clipName(name)+"` does not exist.")
}

// clipName keeps a model's name whole in any sane case.
func clipName(name string) string {
	if len(name) > 256 {
		return clip([]byte(name))
	}
	return name
}

// ErrProject answers a malformed Compat-Project header.
func ErrProject(value string) *Error {
	return newError(causeProject, fmt.Sprintf("Compat-Project must be <team>/<project>, got %q.", clip([]byte(value))), nil)
}

// ErrPriority answers a priority on a server that serves in order of arrival.
func ErrPriority(priority int) *Error {
	return newError(causePriority, fmt.Sprintf("Got priority %d but Priority scheduling is not enabled.", priority), priority)
}

// ErrPermission says what the key may not do.
func ErrPermission(text string) *Error { return newError(causePermission, text, nil) }

// ErrUnknownCalls answers a request that demands a call of a tool from a model of which it is
// not known how it writes one.
func ErrUnknownCalls() *Error {
	return newError(causeToolChoice, `The form in which this model calls tools is not known, so that it cannot be made to call one: use tool_choice "auto" or "none", or name the form with the server's flag --tool-call-parser.`, nil)
}

// ErrTools refuses tools that cannot be called under the constraint that the request asks for;
// reason says why.
func ErrTools(reason string) *Error { return newError(causeTools, "tools: "+reason, nil) }

// ErrTool is ErrTools about one of them.
func ErrTool(name, reason string) *Error {
	return ErrTools("the tool " + string(AppendString(nil, clipName(name))) + " " + reason)
}

// ErrTooLarge answers a body of more than limit bytes.
func ErrTooLarge(limit int) *Error {
	return newError(causeTooLarge, fmt.Sprintf("Request body too large (limit %d bytes).", limit), nil)
}

// ErrUnavailable says why the server takes no work now.
func ErrUnavailable(text string) *Error { return newError(causeUnavailable, text, nil) }

// ErrInternal answers every fault of our own; the cause belongs in the log.
func ErrInternal() *Error { return newError(causeInternal, "Internal server error", nil) }
