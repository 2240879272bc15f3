package failure

import (
	"errors"
	"fmt"

	"weir/api"
)

// Errors of the transport: what can go wrong with any request, whatever it asks for.
var (
	// ErrGone is the cause of a context whose client has left. Nobody receives the answer.
	ErrGone = errors.New("server: the client has left")
	// ErrTooLarge is a body beyond the bound of its route.
	ErrTooLarge = errors.New("server: the request body is too large")
	// ErrSlowBody is a body, or a request's headers, that did not arrive in time.
	ErrSlowBody = errors.New("server: the request body came too slowly")
	// ErrBrokenBody is a body that ends too early, or is not framed as HTTP prescribes.
	ErrBrokenBody = errors.New("server: the request body is incomplete, or its framing is broken")
	// ErrMemory refuses a body because those of all requests together are too large.
	ErrMemory = errors.New("server: too many bytes of request bodies in memory")
	// ErrBodyMemory refuses a body that could not be prepared even if nothing else took memory.
	ErrBodyMemory = errors.New("server: preparing the body takes more memory than there is")
	// ErrConnections refuses a connection, because all places are taken, or the share of the
	// client's address.
	ErrConnections = errors.New("server: too many connections")
	// ErrQueueFull refuses a request because too many wait for a worker that prepares them.
	ErrQueueFull = errors.New("server: too many requests wait for preparation")
	// ErrQueriesFull refuses a query on what is stored because too many have not ended.
	ErrQueriesFull = errors.New("server: too many queries")
	// ErrCompiling means that a constraint was not compiled in time, although it is none that
	// takes too much work: the machine is too slow or too busy.
	ErrCompiling = errors.New("server: compiling the constraint takes too long")
	// ErrDraining refuses requests, and ends those in flight, because the server stops.
	ErrDraining = errors.New("server: the server is stopping")
	// ErrNotHTTP is what cannot be parsed as a request.
	ErrNotHTTP = errors.New("server: not a request of HTTP")
	// ErrPlain is a request without TLS where there is TLS.
	ErrPlain = errors.New("server: plain HTTP where TLS is spoken")
	// ErrVersion is a request of another version of HTTP than 1.0 and 1.1.
	ErrVersion = errors.New("server: not a version of HTTP that the server speaks")
	// ErrHeaders is a request line with headers beyond Settings.Header.
	ErrHeaders = errors.New("server: request line and headers are too large")
	// ErrHost is a request whose header Host does not name this server.
	ErrHost = errors.New("server: the header Host names another server")
	// ErrOrigin is a request of a web page that may not call the server.
	ErrOrigin = errors.New("server: pages of this origin may not call")
	// ErrNoPath is a path that leads nowhere.
	ErrNoPath = errors.New("server: unknown path")
	// ErrMethod is a method that the path does not have.
	ErrMethod = errors.New("server: the path does not have this method")
	// ErrNoCredentials is a request without credentials where they are needed.
	ErrNoCredentials = errors.New("server: no credentials")
	// ErrCredentials are credentials that nobody has.
	ErrCredentials = errors.New("server: unknown credentials")
	// ErrPanic is wrapped around what a handler panicked with.
	ErrPanic = errors.New("server: panic")
)

// Errors of the engine, as far as the server itself finds them.
var (
	// ErrLoading refuses requests until there is a model.
	ErrLoading = errors.New("server: no model yet")
	// ErrEngineFailed means that the engine has ended, and with it the server's use.
	ErrEngineFailed = errors.New("server: the engine has ended")
	// ErrStalled means that the engine's newest step began too long ago.
	ErrStalled = errors.New("server: the engine makes no progress")
)

// Errors of the records: feedback and trajectories.
var (
	// ErrForbidden is a key that has no right to do this, or not in this project or model.
	ErrForbidden = errors.New("server: the key has no right to do this")
	// ErrMedia is a Content-Type or Content-Encoding that the route does not take.
	ErrMedia = errors.New("server: unsupported media type")
	// ErrRatio is a compressed body that expands to more than Settings.Ratio allows.
	ErrRatio = errors.New("server: the request body expands too much")
	// ErrEncoding is a body that is not what its Content-Encoding says.
	ErrEncoding = errors.New("server: the request body is not what its Content-Encoding says")
	// ErrUploads refuses an upload because others are being read.
	ErrUploads = errors.New("server: too many uploads")
)

// BadRequest is the OpenAI interface's refusal of what only the bounds and settings of a
// server refuse, and no rule about the fields of a body. param is the field that is
// named, or "".
func BadRequest(param, format string, args ...any) *api.Error {
	e := &api.Error{Name: badRequest, Status: 400, Code: 400, Type: api.TypeBadRequest, Message: fmt.Sprintf(format, args...)}
	if param != "" {
		e.Param = &param
	}
	return e
}

// badRequest is the kind of what BadRequest returns.
const badRequest = "request"
