package recording

import (
	"bytes"
	"strconv"
	"time"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/trajectory"
	"weir/trajectory/export"
)

// Recording is a chat completion that is being answered and will be recorded.
type Recording struct {
	// Settings are what the request asked for, as members of a JSON object, each with a comma
	// before it: they become metadata.
	Settings []byte

	model, split, group, project string
	asked                        bool   // engine_xargs asks for the recording
	rest                         []byte // the other members of the request, each with a comma before it, for a call
	called                       bool   // it becomes a call
	version                      trajectory.Int
	messages, tools              trajectory.Value
	begun                        time.Time
	answer                       Answer // nil until it is complete
	bytes                        int    // size, when it is complete
	outcome                      Outcome
	ended                        time.Time
}

// Outcome is how a request ended, and whose it was.
type Outcome struct {
	Tenant, User string
	MayReplace   bool   // the sender may write a call in place of another with the same id
	Finished     bool   // the answer has all that it should have, so that it becomes trajectories
	Exception    string // what the client was told in place of an answer; "": there is one
}

// Answer is a complete answer to a request, as far as its recording needs it.
type Answer interface {
	ID() string      // the id of the answer
	Model() string   // the name of the model in the answer
	Prompt() []int32 // token ids of the prompt
	Choices() int    // number of choices
	Size() int       // number of bytes that the answer takes in memory
	// AppendChoice appends choice i as JSON, with token ids and log-probabilities.
	AppendChoice(d []byte, i int) []byte
	// AppendAnswer appends the whole answer as JSON, as the client that asked for it got it or
	// would have got it without a stream, and says how many tokens it has.
	AppendAnswer(d []byte) (answer []byte, tokens int)
}

// The members of engine_xargs that ask for a recording.
const (
	recordSplit   = "record_split"
	recordGroup   = "record_group"
	recordModel   = "record_model"
	policyVersion = "policy_version"
)

// recordedSplit is the split of recordings whose request does not name one.
const recordedSplit = "recorded"

// Begin returns the recording of a request to a model, or nil if it is not recorded. body is
// the request as it was sent, and q what it was decoded to. The error is about engine_xargs.
// A nil Recorder records nothing.
func (rec *Recorder) Begin(model string, body []byte, q *api.ChatRequest, project string) (*Recording, *api.Error) {
	if rec == nil {
		return nil, nil
	}
	r := &Recording{model: model, split: recordedSplit, project: project, begun: rec.cfg.Clock()}
	covered := rec.cfg.covers(project)
	if !covered && q.EngineXArgs == nil {
		return nil, nil
	}
	request, err := jsontext.Compact(body, rec.cfg.Depth)
	if err != nil {
		return nil, nil // this cannot happen, because the body has been decoded to q
	}
	if q.EngineXArgs != nil {
		if bad := r.options(request); bad != nil {
			return nil, bad
		}
	}
	if !covered && !r.asked {
		return nil, nil
	}
	// The rest of the request may be much larger, and is not kept.
	r.messages, r.tools = bytes.Clone(request.Member("messages")), bytes.Clone(request.Member("tools"))
	if r.called = rec.cfg.Calls != nil && project != ""; r.called {
		r.rest = restOf(request)
	}
	return r, nil
}

// Asked reports whether the request itself asks for the recording, and the name of the model
// that it is recorded under. If the request asks, its key needs the right to do so.
func (r *Recording) Asked() (model string, asked bool) { return r.model, r.asked }

// options reads the members of engine_xargs that are about the recording.
func (r *Recording) options(request trajectory.Value) (bad *api.Error) {
	args := request.Member("engine_xargs")
	if args == nil || args.Kind() != jsontext.Object {
		args = request.Member("vllm_xargs")
	}
	if args == nil {
		return nil
	}
	text := func(name string, v trajectory.Value, into *string, valid func(string) bool) {
		r.asked = true
		if v.Kind() == jsontext.String {
			if *into = v.Text(); valid(*into) {
				return
			}
		}
		bad = failure.BadRequest("engine_xargs", "engine_xargs: %s is not such a name.", name)
	}
	for key, v := range args.Members() {
		switch name := string(key); name {
		case recordSplit:
			text(name, v, &r.split, trajectory.ValidSplit)
		case recordGroup:
			text(name, v, &r.group, trajectory.ValidSplit)
		case recordModel:
			text(name, v, &r.model, trajectory.ValidModel)
		case policyVersion:
			n, err := strconv.ParseInt(string(v), 10, 64)
			if r.version = trajectory.Some(n); err != nil {
				bad = failure.BadRequest("engine_xargs", "engine_xargs: policy_version is not an integer.")
			}
		}
	}
	return bad
}

// Kept returns the number of bytes of the request that the recording keeps.
func (r *Recording) Kept() int {
	return cap(r.messages) + cap(r.tools) + cap(r.Settings) + cap(r.rest) + 512
}

// size returns the number of bytes that a recording takes in memory.
func (r *Recording) size() int { return r.Kept() + r.answer.Size() }

// append appends choice i as a trajectory in JSON.
func (r *Recording) append(d []byte, i int) []byte {
	d = append(d, `{"messages_and_choices":`...)
	d = append(d, r.messages[:len(r.messages)-1]...)
	if len(r.messages) > len("[]") {
		d = append(d, ',')
	}
	d = r.answer.AppendChoice(d, i)
	d = append(d, ']')
	if r.tools != nil {
		d = append(append(d, `,"tools":`...), r.tools...)
	}
	if r.version.Given {
		d = export.AppendInt(append(d, `,"initial_policy_version":`...), r.version)
		d = export.AppendInt(append(d, `,"final_policy_version":`...), r.version)
	}
	d = append(r.begun.UTC().AppendFormat(append(d, `,"start_time":"`...), export.TimeFormat), '"')
	d = r.appendMetadata(append(d, `,"metadata":`...))
	d = strconv.AppendInt(append(d[:len(d)-1], `,"choice":`...), int64(i), 10)
	d = append(d, `},"prompt_token_ids":[`...)
	for i, id := range r.answer.Prompt() {
		if i > 0 {
			d = append(d, ',')
		}
		d = strconv.AppendInt(d, int64(id), 10)
	}
	return append(d, `],"recorded":true}`...)
}

// appendMetadata appends the metadata of the group, which each trajectory has as well, with
// the number of its choice.
func (r *Recording) appendMetadata(d []byte) []byte {
	d = api.AppendString(append(d, `{"request_id":`...), r.answer.ID())
	d = api.AppendString(append(d, `,"model":`...), r.answer.Model())
	if r.project != "" {
		d = api.AppendString(append(d, `,"project":`...), r.project)
	}
	if r.group != "" {
		d = api.AppendString(append(d, `,"record_group":`...), r.group)
	}
	return append(append(d, r.Settings...), '}')
}
