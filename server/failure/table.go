package failure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/api"
	"weir/calls"
	"weir/engine"
	"weir/feedback"
	"weir/internal/memory"
	"weir/internal/retry"
	"weir/metrics"
	"weir/objects"
	"weir/queues"
	"weir/ratelimit"
	"weir/store"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// StatusGone is what the log has as the status of a request whose client has left. The
// number is nginx's.
const StatusGone = 499

// A row is what is said of one error.
type row struct {
	err    error
	kind   string
	status int
	typ    string // of an OpenAI body
	reason metrics.Reason
	form   form          // byInterface, or what is an exception to that
	after  time.Duration // Failure.After, if it is always the same; else wait may tell, or the error
	wait   func(*Settings) time.Duration
	text   message
	// The words of an interface that has its own.
	feedback, trajectories message
}

// A message is what the client reads.
type message func(s *Settings, err error) string

func say(text string) message { return func(*Settings, error) string { return text } }

// notReady is the one text that the feedback interface has for a database that cannot be
// used now.
var notReady = say("The store is not ready")

// limited says which limit of its key a request goes beyond, and when it may come again.
func limited(limit string) message {
	return func(_ *Settings, err error) string {
		e := (*ratelimit.Exceeded)(nil)
		if !errors.As(err, &e) {
			e = &ratelimit.Exceeded{Key: "ci", Limit: 60, After: time.Second} // where the table is written down
		}
		return fmt.Sprintf("Rate limit reached for the key %q: "+limit+". Please try again in %v.", e.Key, e.Limit, e.After.Round(time.Millisecond)+time.Millisecond)
	}
}

// damagedKind is the kind of errors about values that cannot be read.
const damagedKind = "damaged"

// damaged names what is damaged, and how to get rid of it.
func damaged(_ *Settings, err error) string {
	record, call, object, queue, batch := new(feedback.Damaged), new(calls.Damaged), new(objects.Damaged), new(queues.Damaged), new(archive.Damaged)
	switch {
	case errors.As(err, &call):
		return "Call " + call.ID + " is damaged, and no answer is given without it; POST /calls/delete with its id deletes it"
	case errors.As(err, &object):
		return "The " + object.What + " is damaged, and no answer is given without it; sending it again makes it whole, and POST /obj/delete deletes an object"
	case errors.As(err, &queue):
		return "Annotation queue " + queue.Queue + " is damaged, and no answer is given without it; weir store repair, which needs the server stopped, removes what is damaged"
	case errors.As(err, &record):
		return "Feedback " + record.ID + " is damaged, and no answer is given without it; POST /feedback/purge with its id deletes it"
	case errors.As(err, &batch):
		return "What is stored of " + batch.What() + " is damaged, and no answer is given without it; DELETE /v1/preview/models/{model_id}/logs/" + batch.Log.String() + " removes the batch"
	}
	return "What is stored is damaged"
}

// The types of errors below the OpenAI interface are HTTP's phrases.
const (
	typeGone    = "ClientClosedRequest"
	typeTimeout = "Request Timeout"
	typeHeaders = "Request Header Fields Too Large"
	typeMedia   = "Unsupported Media Type"
	typeMethod  = "Method Not Allowed"
	typeKey     = "Unauthorized"
	typeUploads = "Too Many Requests"
	typeRate    = "RateLimitError"
	typeState   = "Conflict"
)

// lasting is when a request may be sent again that was refused for what somebody has to mend.
const lasting = retry.Most

// loading is when a request may be sent again for which there is no model yet.
func loading(s *Settings) time.Duration {
	_, left := s.Progress()
	return left
}

// fault is the row of every error that is not in the table. What it was is only in the
// log.
var fault = row{
	kind: "internal", status: 500, typ: api.TypeInternal,
	text: say("Internal server error"), trajectories: say("Internal Server Error"),
}

// table has the errors of this package and of the packages below the server. The first
// row whose error is in the chain decides.
var table = []row{
	{
		err: ErrGone, kind: "gone", status: StatusGone, typ: typeGone,
		text: say("The client has left."), feedback: say("The client has left"),
	},
	{
		err: ErrTooLarge, kind: "too-large", status: 413, typ: api.TypeTooLarge,
		text:     func(s *Settings, _ error) string { return api.ErrTooLarge(s.Body).Message },
		feedback: say("Request too large"),
		trajectories: func(s *Settings, _ error) string {
			return fmt.Sprintf("Request body too large (limit %d bytes)", s.Upload)
		},
	},
	{
		err: ErrSlowBody, kind: "slow", status: 408, typ: typeTimeout,
		text:     say("The request did not arrive in time."),
		feedback: say("The request did not arrive in time"), trajectories: say("Request timeout"),
	},
	{
		err: ErrBrokenBody, kind: "broken", status: 400, typ: api.TypeBadBody,
		text:     say("The request body is incomplete, or its framing is broken."),
		feedback: say("The request body is incomplete, or its framing is broken"), trajectories: say("The request body is incomplete"),
	},
	{
		err: ErrNotHTTP, kind: "not-http", status: 400, typ: api.TypeBadBody,
		text: say("The request is not HTTP, or its headers are malformed."),
	},
	{
		err: ErrPlain, kind: "plain", status: 400, typ: api.TypeBadBody,
		text: say("This port speaks HTTPS, and the request came without TLS: use https:// in the URL."),
	},
	{
		err: ErrVersion, kind: "version", status: 400, typ: api.TypeBadBody,
		text: say("The server speaks HTTP/1.1 and HTTP/1.0."),
	},
	{
		err: ErrHeaders, kind: "headers", status: 431, typ: typeHeaders,
		text: func(s *Settings, _ error) string {
			return fmt.Sprintf("The request line and headers are larger than %d bytes.", s.Header)
		},
	},
	{
		err: ErrHost, kind: "host", status: 403, typ: api.TypePermission,
		text: say("The header Host names a host that this server does not serve; the flag --allowed-hosts adds hosts."),
	},
	{
		err: ErrOrigin, kind: "origin", status: 403, typ: api.TypePermission,
		text: say("Web pages of this origin may not call this server; the flag --allowed-origins says which may."),
	},
	{err: ErrNoPath, kind: "path", status: 404, typ: api.TypeNotFound, form: detail, text: say("Not Found")},
	{err: ErrMethod, kind: "method", status: 405, typ: typeMethod, form: detail, text: say("Method Not Allowed")},
	{
		err: ErrNoCredentials, kind: "no-key", status: 401, typ: typeKey, form: bare,
		text:     say("Unauthorized"),
		feedback: say("Not authenticated"), trajectories: say("Not authenticated"),
	},
	{
		err: ErrCredentials, kind: "key", status: 401, typ: typeKey, form: bare,
		text:     say("Unauthorized"),
		feedback: say("Invalid authentication credentials"), trajectories: say("Invalid authentication credentials"),
	},
	{
		err: ErrMemory, kind: "memory", status: 503, typ: api.TypeUnavailable, reason: metrics.Memory,
		text:     say("The server holds too many request bodies. Please try again later."),
		feedback: say("The server is full or stopping"), trajectories: say("The server holds too many request bodies"),
	},
	{
		err: ErrBodyMemory, kind: "too-large", status: 413, typ: api.TypeTooLarge,
		text:         say("The request body is too large: preparing it could need more memory than the server has."),
		trajectories: say("A trajectory is too large for the memory of the server"),
	},
	{
		err: memory.ErrFull, kind: "memory", status: 503, typ: api.TypeUnavailable, reason: metrics.Memory,
		text:     say("The server's memory is taken by other requests. Please try again later."),
		feedback: say("The server is full or stopping"), trajectories: say("The server's memory is taken by other requests"),
	},
	{
		// Sent again, it would fail again.
		err: memory.ErrNever, kind: "memory-never", status: 400, typ: api.TypeBadRequest,
		text:     say("The request could need more memory than the server has. Lower max_tokens, n, top_logprobs (logprobs) or prompt_logprobs, or send fewer or shorter prompts."),
		feedback: say("The request needs more memory than the server has"), trajectories: say("The request needs more memory than the server has"),
	},
	{
		err: ErrConnections, kind: "connections", status: 503, typ: api.TypeUnavailable, reason: metrics.Connections,
		text: say("The server has too many connections, or too many from this address. Please try again later."),
	},
	{
		err: ErrQueueFull, kind: "queue-full", status: 503, typ: api.TypeUnavailable, reason: metrics.QueueFull,
		text: say("The server is full: too many requests are waiting. Please try again later."),
	},
	{
		err: ErrQueriesFull, kind: "queries-full", status: 503, typ: api.TypeUnavailable, reason: metrics.QueueFull,
		text: say("Too many queries are waiting. Please try again later."), feedback: say("Too many queries are waiting"),
	},
	{
		err: ErrCompiling, kind: "compiling", status: 503, typ: api.TypeUnavailable, reason: metrics.QueueFull,
		text: say("The server is too busy to compile the constraint in time. Please try again later."),
	},
	{
		err: ErrDraining, kind: "stopping", status: 503, typ: api.TypeUnavailable, reason: metrics.Stopping,
		text:     say("The server is stopping."),
		feedback: say("The server is full or stopping"), trajectories: say("The server is stopping"),
	},
	{
		err: ErrLoading, kind: "loading", status: 503, typ: api.TypeUnavailable, wait: loading, reason: metrics.Loading,
		text: func(s *Settings, _ error) string {
			text, _ := s.Progress()
			return "The server is not ready: " + text
		},
	},
	{
		err: ErrEngineFailed, kind: "engine-failed", status: 503, typ: api.TypeUnavailable, after: lasting, reason: metrics.Dead,
		text: say("The engine has failed; the server has to be restarted."),
	},
	{
		err: ErrStalled, kind: "stalled", status: 503, typ: api.TypeUnavailable,
		text: say("The engine makes no progress."),
	},
	{
		err: engine.ErrFull, kind: "engine-full", status: 503, typ: api.TypeUnavailable, reason: metrics.EngineFull,
		text: say("The engine is full: too many requests are running or waiting. Please try again later."),
	},
	{
		err: engine.ErrPrompts, kind: "queued-tokens", status: 503, typ: api.TypeUnavailable, reason: metrics.QueuedTokens,
		text: say("The server is full: the prompts that wait have too many tokens. Please try again later."),
	},
	{
		err: engine.ErrQueueTime, kind: "queue-time", status: 503, typ: api.TypeUnavailable, reason: metrics.QueueTime,
		text: say("The request cannot begin within the time that it may wait. Please try again later."),
	},
	{
		err: engine.ErrLoading, kind: "loading", status: 503, typ: api.TypeUnavailable, wait: loading, reason: metrics.Loading,
		text: say("The model is still loading."),
	},
	{
		err: engine.ErrUnread, kind: "unread", status: 503, typ: api.TypeUnavailable, reason: metrics.Memory,
		text: say("The answer was not read, and the server's memory is taken by other requests."),
	},
	{
		err: engine.ErrStopped, kind: "stopping", status: 503, typ: api.TypeUnavailable, reason: metrics.Stopping,
		text: say("The engine has stopped."),
	},
	{ // after ErrStopped, which is what those get whose step it was not
		err: engine.ErrModelLost, kind: "model-lost", status: 500, typ: api.TypeInternal,
		text: say("A file of the model was cut, or cannot be read any more, while it is being served."),
	},
	{
		// The model has to run to find it, but it is the request's doing: if it is sent
		// again, as clients do after a 5xx, it fails again.
		err: engine.ErrNoToken, kind: "no-token", status: 400, typ: api.TypeBadRequest,
		text: say("The request's constraints (allowed_token_ids, bad_words, logit_bias, min_tokens) leave no token to draw."),
	},
	{
		// It is found while the output is written, and is the request's doing as well.
		err: engine.ErrTooComplex, kind: "mask-too-complex", status: 400, typ: api.TypeBadRequest,
		text: say("The request's structured output is too ambiguous: what may come next takes too much work to find out."),
	},
	{
		err: engine.ErrInvalid, kind: badRequest, status: 400, typ: api.TypeBadRequest,
		text: func(_ *Settings, err error) string { return err.Error() },
	},
	{
		err: ratelimit.ErrRequests, kind: "key-requests", status: 429, typ: typeRate, reason: metrics.KeyRequests,
		text: limited("%d requests per minute"),
	},
	{
		err: ratelimit.ErrTokens, kind: "key-tokens", status: 429, typ: typeRate, reason: metrics.KeyTokens,
		text: limited("%d tokens per minute"),
	},
	{
		err: ratelimit.ErrDayTokens, kind: "key-day-tokens", status: 429, typ: typeRate, reason: metrics.KeyDayTokens,
		text: limited("%d tokens per day"),
	},
	{
		err: ratelimit.ErrConcurrency, kind: "key-concurrency", status: 429, typ: typeRate, reason: metrics.KeyConcurrency,
		text: limited("%d requests at a time"),
	},
	{
		err: ErrForbidden, kind: "permission", status: 403, typ: api.TypePermission,
		text: say("The key has no right to do this"), feedback: say("Forbidden"),
	},
	{err: ErrMedia, kind: "media", status: 415, typ: typeMedia, form: detail, text: say("Unsupported Media Type")},
	{
		err: ErrRatio, kind: "expansion", status: 413, typ: api.TypeTooLarge,
		text: func(s *Settings, _ error) string {
			return fmt.Sprintf("Request body too large (limit %d bytes for each byte sent)", s.Ratio)
		},
	},
	{
		err: ErrEncoding, kind: "encoding", status: 400, typ: api.TypeBadBody,
		text: say("The request body is not what its Content-Encoding says"),
	},
	{
		err: ErrUploads, kind: "uploads", status: 429, typ: typeUploads, reason: metrics.Uploads,
		text: say("Too many uploads at a time"),
	},
	{
		err: archive.ErrQuota, kind: "quota", status: 413, typ: api.TypeTooLarge,
		text: func(s *Settings, _ error) string { return fmt.Sprintf("Quota exceeded (limit %d bytes)", s.Quota) },
	},
	{
		err: trajectory.ErrTooLarge, kind: "too-large", status: 413, typ: api.TypeTooLarge,
		text: func(s *Settings, _ error) string {
			return fmt.Sprintf("Trajectory too large (limit %d bytes)", s.Trajectory)
		},
	},
	{
		err: trajectory.ErrTooMany, kind: "too-many", status: 413, typ: api.TypeTooLarge,
		text: func(s *Settings, _ error) string {
			return fmt.Sprintf("Too many trajectories (limit %d)", s.Trajectories)
		},
	},
	{err: archive.ErrNotFound, kind: "not-found", status: 404, typ: api.TypeNotFound, text: say("Not found")},
	{
		err: archive.ErrConflict, kind: "conflict", status: 409, typ: typeState,
		text: say("The Idempotency-Key was used for another body"),
	},
	{
		err: archive.ErrExists, kind: "exists", status: 409, typ: typeState,
		text: say("There is a model of this entity, project and name; return_existing true returns it"),
	},
	{
		err: archive.ErrModels, kind: "models", status: 413, typ: api.TypeTooLarge,
		text: func(*Settings, error) string {
			return fmt.Sprintf("Too many models (limit %d)", archive.MaxModels)
		},
	},
	{
		err: archive.ErrNotRecorded, kind: "fixed", status: 409, typ: typeState,
		text: say("A trajectory that was logged keeps its reward"),
	},
	{
		err: archive.ErrChanged, kind: "changed", status: 409, typ: typeState,
		text: say("The trajectories have been changed meanwhile"),
	},
	{
		err: store.ErrTooLarge, kind: "too-large", status: 413, typ: api.TypeTooLarge,
		text: say("Request too large"),
	},
	{
		err: store.ErrOpening, kind: "store-opening", status: 503, typ: api.TypeUnavailable, reason: metrics.Loading,
		text: say("The store is being opened"), feedback: notReady,
	},
	{
		err: store.ErrClosed, kind: "stopping", status: 503, typ: api.TypeUnavailable, reason: metrics.Stopping,
		text: say("The server is stopping"), feedback: notReady,
	},
	{
		err: store.ErrBusy, kind: "store-busy", status: 503, typ: api.TypeUnavailable, reason: metrics.StoreBusy,
		text: say("Too many writes are waiting"), feedback: notReady,
	},
	{
		err: store.ErrFull, kind: "disk-full", status: 503, typ: api.TypeUnavailable, after: lasting, reason: metrics.DiskFull,
		text: say("There is too little space left on the disk"),
	},
	{
		err: store.ErrFailed, kind: "disk-failed", status: 503, typ: api.TypeUnavailable, after: lasting, reason: metrics.DiskFailed,
		text: say("The disk did not take the write; whether it is there is not known"), feedback: notReady,
	},
	{
		err: store.ErrLocked, kind: "store-locked", status: 503, typ: api.TypeUnavailable, after: lasting, reason: metrics.Loading,
		text: say("Another process uses the store; give this server a --data-dir of its own, or stop the other one"),
	},
	{
		err: store.ErrDamaged, kind: "store-damaged", status: 503, typ: api.TypeUnavailable, after: lasting,
		text: say("Files of the store are missing or damaged, and it is not opened before they are repaired"),
	},
	{
		err: store.ErrFormat, kind: "store-format", status: 503, typ: api.TypeUnavailable, after: lasting,
		text: say("A newer version of weir has written the store"),
	},
	{
		err: store.ErrUnopened, kind: "store-unopened", status: 503, typ: api.TypeUnavailable, after: lasting,
		text: say("The store cannot be opened"),
	},
	{
		err: archive.ErrDamaged, kind: damagedKind, status: 503, typ: api.TypeUnavailable, after: lasting,
		text: damaged,
	},
	{
		err: store.ErrCorrupt, kind: damagedKind, status: 503, typ: api.TypeUnavailable, after: lasting,
		text: damaged,
	},
	{ // after everything that may wrap it
		err: context.Canceled, kind: "gone", status: StatusGone, typ: typeGone,
		text: say("The client has left."), feedback: say("The client has left"),
	},
}
