package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/api"
	"weir/engine"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/store"
	"weir/trajectory"
	"weir/trajectory/archive"
	"weir/trajectory/export"
)

// Chat completions of some projects, or that ask for it in engine_xargs, are
// recorded as trajectories: a request is a group, each of its choices a
// trajectory with token ids and log-probabilities, and without a reward until
// somebody sets one.
//
// Nobody waits for a record. It is made on a goroutine of its own, once a second
// for all that have ended, and if the disk does not keep up records are lost, and
// counted in the log, rather than answers delayed.

// recording is a chat completion while it is being answered.
type recording struct {
	tenant, model, split, group, project string
	asked                                bool // in engine_xargs
	version                              trajectory.Int
	messages, tools                      trajectory.Value
	begun                                time.Time
	reply                                reply // with log-probabilities, and all thoughts
	choices                              []gathered
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

// recording says whether, and how, a request is recorded; nil: it is not.
func (s *Server) recording(m *Model, body []byte, q *api.ChatRequest, project string) (*recording, *api.Error) {
	if s.recorder == nil {
		return nil, nil
	}
	r := &recording{model: m.Names[0], split: recordedSplit, project: project, begun: s.http.Now()}
	covered := s.cfg.Trajectories.records(project)
	if !covered && q.EngineXArgs == nil {
		return nil, nil
	}
	request, err := jsontext.Compact(body, s.cfg.Limits.Depth)
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

// records reports whether all completions of a project are recorded.
func (t *Trajectories) records(project string) bool {
	for _, p := range t.Record {
		if start, all := strings.CutSuffix(p, "*"); p == project || all && strings.HasPrefix(project, start) {
			return true
		}
	}
	return false
}

// options reads what engine_xargs says about the record.
func (r *recording) options(request trajectory.Value) (bad *api.Error) {
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
			text(name, v, &r.model, archive.ValidModelID)
		case policyVersion:
			n, err := strconv.ParseInt(string(v), 10, 64)
			if r.version = trajectory.Some(n); err != nil {
				bad = failure.BadRequest("engine_xargs", "engine_xargs: policy_version is not an integer.")
			}
		}
	}
	return bad
}

// follow makes the recording of a request that is about to be answered.
func (r *recording) follow(reply *reply) {
	r.reply = *reply
	r.reply.logprobs, r.reply.top = true, 0
	r.reply.hideThoughts, r.reply.echo, r.reply.echoThought = false, "", ""
	r.reply.recording = nil
	r.choices = make([]gathered, reply.n)
}

// add takes in an event. A nil recording ignores it.
func (r *recording) add(ev *engine.Event) {
	if r != nil {
		r.choices[ev.Choice].add(&r.reply, ev)
	}
}

// size is about how many bytes a recording holds.
func (r *recording) size() int {
	n := len(r.messages) + len(r.tools) + 4*len(r.reply.prompt) + 512
	for i := range r.choices {
		n += len(r.choices[i].text) + 64*len(r.choices[i].ids)
	}
	return n
}

// recorder writes recordings to the archive.
type recorder struct {
	s     *Server
	every time.Duration
	wake  chan struct{} // there is something to write
	quit  chan struct{}
	done  chan struct{}

	mu struct {
		sync.Mutex
		list   []*recording
		bytes  int
		lost   int
		closed bool
	}
}

// maxRecordings is how many bytes of recordings may wait.
const maxRecordings = 64 << 20

func newRecorder(s *Server) *recorder {
	r := &recorder{s: s, every: time.Second, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	return r
}

// record takes a recording that is complete; nil is none.
func (s *Server) record(r *recording) {
	if r == nil {
		return
	}
	for i := range r.choices {
		if f := r.choices[i].finish; f == "" || f == api.FinishAbort {
			return // not finished
		}
	}
	s.recorder.put(r)
}

func (rec *recorder) put(list ...*recording) {
	rec.mu.Lock()
	for _, r := range list {
		n := r.size()
		if rec.mu.closed || rec.mu.bytes+n > maxRecordings {
			rec.mu.lost++
			continue
		}
		rec.mu.list = append(rec.mu.list, r)
		rec.mu.bytes += n
	}
	rec.mu.Unlock()
	select {
	case rec.wake <- struct{}{}:
	default:
	}
}

// close writes what is there and ends the recorder.
func (rec *recorder) close() {
	rec.mu.Lock()
	closed := rec.mu.closed
	rec.mu.closed = true
	rec.mu.Unlock()
	if !closed {
		close(rec.quit)
	}
	<-rec.done
}

func (rec *recorder) run() {
	defer close(rec.done)
	for {
		select {
		case <-rec.wake:
			select {
			case <-time.After(rec.every): // more will come
			case <-rec.quit:
			}
		case <-rec.quit:
			rec.flush()
			rec.flush() // what the first could not write is lost, and said to be
			return
		}
		rec.flush()
	}
}

// flush writes all recordings that wait, those of one tenant, model and split as
// one batch.
func (rec *recorder) flush() {
	rec.mu.Lock()
	list, lost := rec.mu.list, rec.mu.lost
	rec.mu.list, rec.mu.bytes, rec.mu.lost = nil, 0, 0
	rec.mu.Unlock()
	if lost > 0 {
		rec.s.counts.Recorded(0, lost)
		rec.s.log.Error("chat completions were not recorded: too many wait for the disk", "completions", lost)
	}
	type key struct{ tenant, model, split string }
	batches := make(map[key][]*recording)
	var order []key
	for _, r := range list {
		k := key{r.tenant, r.model, r.split}
		if batches[k] == nil {
			order = append(order, k)
		}
		batches[k] = append(batches[k], r)
	}
	for _, k := range order {
		err := rec.write(k.tenant, k.model, k.split, batches[k])
		switch {
		case err == nil:
			rec.s.counts.Recorded(len(batches[k]), 0)
		case errors.Is(err, store.ErrOpening), errors.Is(err, store.ErrBusy):
			rec.put(batches[k]...) // later
		default:
			rec.s.counts.Recorded(0, len(batches[k]))
			rec.s.log.Error("chat completions were not recorded", "completions", len(batches[k]), "error", err)
		}
	}
}

func (rec *recorder) write(tenant, model, split string, list []*recording) error {
	if err := rec.s.cfg.Trajectories.Archive.CheckQuota(tenant, 0, rec.s.cfg.Trajectories.Quota); err != nil {
		return err
	}
	u, err := rec.s.cfg.Trajectories.Archive.Begin(context.Background(), tenant, model)
	if err != nil {
		return err
	}
	defer u.Abort()
	var size int64
	for g, r := range list {
		for i := range r.choices {
			t := trajectory.Trajectory{Group: g, Index: i, Text: r.append(nil, i)}
			if t.Facts, err = trajectory.Describe(t.Text); err != nil {
				return err
			}
			t.Scored = false // nobody has said what it is worth
			size += int64(len(t.Text))
			if err := u.Trajectory(&t); err != nil {
				return err
			}
		}
		if err := u.Group(&trajectory.Group{Index: g, Trajectories: len(r.choices), Text: append(r.appendMetadata([]byte(`{"metadata":`)), '}')}); err != nil {
			return err
		}
	}
	calls := make([]archive.Call, len(list))
	ids := make([]string, len(list))
	for g, r := range list {
		ids[g] = r.reply.meta.ID
		calls[g] = archive.Call{ID: ids[g], Project: r.project, Group: g}
	}
	if _, err = u.Commit(archive.Meta{Split: split, Bytes: size, Calls: calls}); err != nil {
		return err
	}
	rec.s.linker.add(tenant, ids...)
	return nil
}

// append appends the trajectory of a choice.
func (r *recording) append(d []byte, i int) []byte {
	d = append(d, `{"messages_and_choices":`...)
	d = append(d, r.messages[:len(r.messages)-1]...)
	if len(r.messages) > len("[]") {
		d = append(d, ',')
	}
	g := &r.choices[i]
	form := r.reply.form
	form.TokenIDs = true
	thought, content := r.reply.divide(g.text)
	d = form.AppendChoice(d, &api.Choice{
		Index: i, Role: r.reply.role, Content: content, Reasoning: thought, Logprobs: g.logprobs, HasLogprobs: true,
		FinishReason: g.finish, StopReason: g.stop, TokenIDs: g.ids,
	})
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
	for i, id := range r.reply.prompt {
		if i > 0 {
			d = append(d, ',')
		}
		d = strconv.AppendInt(d, int64(id), 10)
	}
	return append(d, `],"recorded":true}`...)
}

func (r *recording) appendMetadata(d []byte) []byte {
	d = api.AppendString(append(d, `{"request_id":`...), r.reply.meta.ID)
	d = api.AppendString(append(d, `,"model":`...), r.reply.meta.Model)
	if r.project != "" {
		d = api.AppendString(append(d, `,"project":`...), r.project)
	}
	if r.group != "" {
		d = api.AppendString(append(d, `,"record_group":`...), r.group)
	}
	return append(d, '}')
}
