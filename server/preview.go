package server

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/auth"
	"weir/server/failure"
	"weir/server/transport"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// Trajectories are the settings of the routes below /v1/preview/models (spec
// trajectories).
type Trajectories struct {
	// Archive keeps what is logged; nil: there are no such paths. Whoever opened it
	// closes it, after Shutdown.
	Archive *archive.Archive
	Limits  trajectory.Limits
	// MaxBody bounds the body of a log request, as it is sent and decoded, MaxRatio
	// decoded bytes for each sent.
	MaxBody  int64
	MaxRatio int
	// MaxUploads is how many log requests are read at a time; more get 429.
	MaxUploads int
	// Idle is how long the client may send nothing. There is no limit for the
	// body as a whole.
	Idle time.Duration
	// Registered refuses models for which nothing was logged.
	Registered bool
	// Record lists projects, "team/project", "team/*" or "*", whose chat completions
	// are recorded. Others are if they ask for it.
	Record []string
	// RecordEvery is how long completions, and rewards from feedback, are gathered
	// before they are written.
	RecordEvery time.Duration
	// RewardWait is how long a reward from feedback waits for its completion to be
	// recorded, before it is forgotten.
	RewardWait time.Duration
	// Quota bounds the bytes that a tenant may have logged, as they are sent; 0: no bound.
	Quota int64
	// Spool is a folder for temporary files; "": the system's.
	Spool string
}

// DefaultTrajectories returns the settings of section 6, without an archive.
func DefaultTrajectories() Trajectories {
	return Trajectories{Limits: trajectory.DefaultLimits(), MaxBody: 8 << 30, MaxRatio: 200, MaxUploads: 32, Idle: time.Minute, RecordEvery: time.Second, RewardWait: 24 * time.Hour}
}

// Validate reports the first value that makes no sense.
func (t *Trajectories) Validate() error {
	if t.MaxBody <= 0 || t.MaxRatio <= 0 || t.MaxUploads <= 0 || t.Idle <= 0 {
		return fmt.Errorf("server: Config.Trajectories: MaxBody %d, MaxRatio %d, MaxUploads %d, Idle %v: want more than 0", t.MaxBody, t.MaxRatio, t.MaxUploads, t.Idle)
	}
	return t.Limits.Validate()
}

const previewModels = "/v1/preview/models"

// preview is a function that has a model id in its path.
type preview func(s *Server, c *transport.Call, model string)

// previews are found by what follows the model id; * is any one segment.
var previews = []struct {
	path   string
	method string
	serve  preview
}{
	{"", "DELETE", (*Server).deleteModel},
	{"/log", "POST", (*Server).logTrajectories},
	{"/logs", "GET", (*Server).listLogs},
	{"/logs/*", "DELETE", (*Server).deleteLog},
	{"/trajectories", "GET", (*Server).listTrajectories},
	{"/trajectories", "DELETE", (*Server).deleteTrajectories},
	{"/trajectories/*/*/*", "GET", (*Server).oneTrajectory},
	{"/export", "GET", (*Server).exportTrajectories},
	{"/metrics", "GET", (*Server).trajectoryMetrics},
	{"/rewards", "POST", (*Server).setRewards},
}

// previewRoute finds the function for what follows /v1/preview/models in a path as
// it was sent: a slash in a model id is escaped there, and splits nothing (T-5).
// name is what all paths of the function are called.
func previewRoute(path string) (r route, name string, found bool) {
	if path == "" {
		return route{methods: "GET", serve: (*Server).previewModels}, previewModels, true
	}
	segments := strings.Split(path, "/") // the first is empty, the second the model
	if segments[0] != "" || len(segments) < 2 || segments[1] == "" {
		return r, noRoute, false
	}
	rest := segments[2:]
	functions := make(map[string]preview)
	var methods []string
	for _, p := range previews {
		want := strings.Split(p.path, "/")[1:]
		if p.path == "" {
			want = nil
		}
		if slices.EqualFunc(want, rest, func(w, s string) bool { return w == s || w == "*" && s != "" }) {
			functions[p.method], name = p.serve, previewModels+"/{id}"+p.path
			methods = append(methods, p.method)
		}
	}
	if methods == nil {
		return r, noRoute, false
	}
	return route{methods: strings.Join(methods, ", "), serve: func(s *Server, c *transport.Call) {
		model, ok := modelID(segments[1])
		if !ok {
			c.Fail(invalid([]string{"path", "model_id"}, "value_error", "Value error, not a model id"))
			return
		}
		// Who logs learns it behind the errors of the body (T-6).
		if name != previewModels+"/{id}/log" && !c.Who.MayUse(model) {
			c.Fail(failure.ErrForbidden)
			return
		}
		functions[string(c.Method())](s, c, model)
	}}, name, true
}

// modelID reads a model id from its segment of the path: 1 to 256 bytes of text
// without control characters, and not what a file system might take for more than
// a name.
func modelID(segment string) (string, bool) {
	id, err := url.PathUnescape(segment)
	return id, err == nil && trajectory.ValidModel(id)
}

// segment is the n-th part of the path behind the model id, as it was sent.
func segment(c *transport.Call, n int) string {
	rest := strings.TrimPrefix(c.Target, previewModels)
	return strings.Split(rest, "/")[2+n]
}

// allowed reports whether the caller has a right, or answers with 403.
func (s *Server) allowed(c *transport.Call, right auth.Rights) bool {
	if c.Who.Rights&right == right {
		return true
	}
	c.Fail(failure.ErrForbidden)
	return false
}

// invalid is a 422 with one detail.
func invalid(loc []string, code, msg string) error {
	return &trajectory.Invalid{Details: []trajectory.Detail{{Loc: loc, Type: code, Msg: msg}}}
}

func appendReceipt(d []byte, model string, r *archive.Receipt) []byte {
	d = api.AppendString(append(d, `{"id":`...), r.ID.String())
	d = api.AppendString(append(d, `,"object":"trajectory_log","model_id":`...), model)
	d = api.AppendString(append(d, `,"split":`...), r.Split)
	d = append(r.Received.AppendFormat(append(d, `,"received_at":"`...), export.TimeFormat), '"')
	d = appendCounts(d, r.Counts)
	return strconv.AppendInt(append(d, `,"bytes":`...), r.Bytes, 10)
}

func appendCounts(d []byte, n trajectory.Counts) []byte {
	d = strconv.AppendInt(append(d, `,"groups":`...), int64(n.Groups), 10)
	d = strconv.AppendInt(append(d, `,"trajectories":`...), int64(n.Trajectories), 10)
	return strconv.AppendInt(append(d, `,"exceptions":`...), int64(n.Exceptions), 10)
}
