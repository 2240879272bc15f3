package recording

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"weir/api"
	"weir/calls"
	"weir/internal/jsontext"
	"weir/internal/memory"
	"weir/store"
)

// maxInput bounds a member of a request, beside messages and tools, that is kept as an input
// of a call, in bytes. Documents and templates may be much larger.
const maxInput = 64 << 10

// restOf returns the members of a request that are inputs of its call, beside messages and
// tools, each with a comma before it. A name that stands there twice is kept once.
func restOf(request jsontext.Value) (d []byte) {
	var seen []string
	for name, v := range request.Members() {
		if n := string(name); n != "messages" && n != "tools" && len(v) <= maxInput && len(n) <= maxInput && !slices.Contains(seen, n) {
			seen = append(seen, n)
			d = append(append(api.AppendString(append(d, ','), n), ':'), v...)
			if len(d) > 4*maxInput || len(seen) == maxInputs {
				break
			}
		}
	}
	return slices.Clip(d)
}

// maxInputs bounds how many of them are kept.
const maxInputs = 256

// operation is the name of the operation of a chat completion.
const operation = "chat.completions"

// complete returns the recording as a call (docs/interface/trajectories.md, T-45).
func (r *Recording) complete() calls.Complete {
	inputs := append([]byte(`{"messages":`), r.messages...)
	if r.tools != nil {
		inputs = append(append(inputs, `,"tools":`...), r.tools...)
	}
	inputs = append(append(inputs, r.rest...), '}')
	output, tokens := r.answer.AppendAnswer(nil)
	failed := 0
	if r.outcome.Exception != "" {
		output, failed = nil, 1
	}
	prompt := len(r.answer.Prompt())
	summary := api.AppendString([]byte(`{"usage":{`), r.answer.Model())
	summary = strconv.AppendInt(append(summary, `:{"requests":1,"prompt_tokens":`...), int64(prompt), 10)
	summary = strconv.AppendInt(append(summary, `,"completion_tokens":`...), int64(tokens), 10)
	summary = strconv.AppendInt(append(summary, `,"total_tokens":`...), int64(prompt+tokens), 10)
	summary = strconv.AppendInt(append(summary, `}},"status_counts":{"success":`...), int64(1-failed), 10)
	summary = append(strconv.AppendInt(append(summary, `,"error":`...), int64(failed), 10), "}}"...)
	attributes := api.AppendString([]byte(`{"weir":{"model":`), r.model)
	attributes = api.AppendString(append(attributes, `,"split":`...), r.split)
	if r.group != "" {
		attributes = api.AppendString(append(attributes, `,"group":`...), r.group)
	}
	return calls.Complete{
		Project: r.project, ID: r.answer.ID(), OpName: operation, Source: "weir", Exception: r.outcome.Exception,
		Started: r.begun, Ended: r.ended, Attributes: append(attributes, "}}"...), Inputs: inputs, Output: output, Summary: summary,
	}
}

// What writing a call takes for each byte of its recording: its texts, and those of its record.
const callShare = 2 * TextShare

// A chunk of calls is written together: so many, or of so many bytes with callShare.
const (
	chunkCalls = 100
	chunkBytes = 8 << 20
)

// flushCalls writes the calls among recordings, and returns those that are to be tried again.
func (rec *Recorder) flushCalls(list []*Recording) (again []*Recording) {
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && n < chunkCalls && (n == 0 || size+callShare*list[n].bytes <= chunkBytes) {
			size += callShare * list[n].bytes
			n++
		}
		again = append(again, rec.flushChunk(list[:n], int64(size))...)
		list = list[n:]
	}
	return again
}

// flushChunk is flushCalls for some that are written together. If the database refuses one of
// them it refuses all, so then each is tried alone.
func (rec *Recorder) flushChunk(list []*Recording, size int64) (again []*Recording) {
	err := rec.writeCalls(list, size)
	switch {
	case err == nil:
		rec.counts.CallsWritten(len(list), 0)
		rec.callsFailed = false
	case errors.Is(err, store.ErrOpening), errors.Is(err, store.ErrBusy), errors.Is(err, memory.ErrFull):
		return list
	case len(list) > 1 && !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrFailed):
		for i := range list {
			again = append(again, rec.flushChunk(list[i:i+1], callShare*int64(list[i].bytes))...)
		}
	default:
		rec.counts.CallsWritten(0, len(list))
		if !rec.callsFailed { // once, until one can be written again
			rec.callsFailed = true
			rec.cfg.Log.Error("chat completions were not written as calls", "calls", len(list), "error", err)
		}
	}
	return again
}

// writeCalls writes the calls of recordings, all or none, for each user.
func (rec *Recorder) writeCalls(list []*Recording, size int64) error {
	ctx, release := reserving(context.Background(), rec.cfg.Memory)
	defer release()
	if err := memory.Take(ctx, size); err != nil {
		return err
	}
	finished := make(map[string][]calls.Complete)
	for _, r := range list {
		if !r.outcome.MayReplace {
			// An id may be the client's choice, so it may be that of a call that somebody else made.
			before, err := rec.cfg.Calls.Get(r.project, r.answer.ID())
			if err != nil {
				return err
			}
			if before != nil {
				continue
			}
		}
		finished[r.outcome.User] = append(finished[r.outcome.User], r.complete())
	}
	for user, some := range finished {
		if err := rec.cfg.Calls.Complete(ctx, calls.Author{User: user}, some); err != nil {
			return err
		}
	}
	return nil
}
