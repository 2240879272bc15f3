package recording

import (
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
	tenant, model, split, group, project string
	asked                                bool // in engine_xargs
	version                              trajectory.Int
	messages, tools                      trajectory.Value
	begun                                time.Time
	answer                               Answer // once it is complete
}

// Answer is what a recording needs of the answer when it is complete.
type Answer interface {
	ID() string      // of the answer
	Model() string   // that answered
	Prompt() []int32 // token ids
	Choices() int
	Size() int // bytes that the answer holds in memory, roughly
	// AppendChoice appends choice i as JSON, with token ids and log-probabilities.
	AppendChoice(d []byte, i int) []byte
}

// Names in engine_xargs.
const (
	recordSplit   = "record_split"
	recordGroup   = "record_group"
	recordModel   = "record_model"
	policyVersion = "policy_version"
)

// recordedSplit is the split of what does not name one.
const recordedSplit = "recorded"

// Begin says whether, and how, the answer of a model to a request is recorded; nil: it is
// not. body is the request as it was sent and decoded to q. A nil Recorder records
// nothing.
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
		return nil, nil // it was decoded, so this does not happen
	}
	if q.EngineXArgs != nil {
		if bad := r.options(request); bad != nil {
			return nil, bad
		}
	}
	if !covered && !r.asked {
		return nil, nil
	}
	r.messages, r.tools = request.Member("messages"), request.Member("tools")
	return r, nil
}

// Asked reports whether the request itself asks for the recording, and under which model:
// then the key needs the right to.
func (r *Recording) Asked() (model string, asked bool) { return r.model, r.asked }

// options reads what engine_xargs says about the record.
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

// size is about how many bytes a recording holds.
func (r *Recording) size() int { return len(r.messages) + len(r.tools) + r.answer.Size() + 512 }

// append appends the trajectory of a choice.
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
	d = append(d, `,"prompt_token_ids":[`...)
	for i, id := range r.answer.Prompt() {
		if i > 0 {
			d = append(d, ',')
		}
		d = strconv.AppendInt(d, int64(id), 10)
	}
	return append(d, `],"recorded":true}`...)
}

func (r *Recording) appendMetadata(d []byte) []byte {
	d = api.AppendString(append(d, `{"request_id":`...), r.answer.ID())
	d = api.AppendString(append(d, `,"model":`...), r.answer.Model())
	if r.project != "" {
		d = api.AppendString(append(d, `,"project":`...), r.project)
	}
	if r.group != "" {
		d = api.AppendString(append(d, `,"record_group":`...), r.group)
	}
	return append(d, '}')
}
