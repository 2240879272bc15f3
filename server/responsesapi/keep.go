package responsesapi

import (
	"context"
	"time"

	"weir/server/openai"
)

// keepTime bounds how long the end of an answer waits for the store.
const keepTime = 10 * time.Second

// store keeps a response whose items are complete, or that has failed; of that w is nil.
// Acknowledged is on disk: the client gets the end of the answer after that. If it cannot be kept,
// the answer says that it is not, because the client should still get what was generated.
func (a *answer) store(s *state, w *openai.Whole) {
	if a.keep == nil {
		return
	}
	rec := a.record(s, w)
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	ok, err := a.h.cfg.Store.Put(ctx, a.keep.owner, rec)
	if err != nil {
		a.h.cfg.Log.Warn("a response could not be kept", "id", a.id, "project", a.keep.owner.Project, "error", err)
	}
	a.kept = ok && err == nil
}

// record is what is kept of a response. w is nil for one that cannot be continued, because it is
// not complete.
func (a *answer) record(s *state, w *openai.Whole) *Record {
	k := a.keep
	rec := &Record{
		ID: a.id, Created: a.h.now().UnixMilli(), User: k.user,
		Response: a.appendResponse(nil, s), Items: k.items, Messages: k.messages, Count: k.count, Front: a.front,
	}
	if w == nil {
		return rec
	}
	c := &conversation{messages: k.messages, n: k.count}
	for i := range s.output {
		it := &s.output[i]
		switch it.kind {
		case thoughtItem:
			c.think(string(it.text))
		case messageItem:
			c.answer([]string{string(it.text)})
		case functionItem:
			c.call(it.callID, it.name, string(it.text))
		case customItem:
			c.call(it.callID, it.name, string(wrapInput(string(it.text))))
		}
	}
	c.end()
	rec.Messages, rec.Count = c.messages, c.n
	ids := make([]int32, 0, len(w.PromptIDs)+len(w.IDs))
	rec.IDs = append(append(ids, w.PromptIDs...), w.IDs...)
	return rec
}
