package openai

import (
	"weir/api"
	"weir/engine"
)

// portion is what the next chunk of a choice says. It is valid until the chunker takes the
// next event of any choice.
type portion struct {
	text    []byte
	ids     []int32
	entries []api.Logprob // of the ids, if they were asked for
}

// chunker makes portions of the events of all choices: one of each event, or with
// stream_interval one of several (docs/interface/chat-completions.md, section 12.1). For one
// of each it allocates nothing.
type chunker struct {
	r    *reply
	used []int // by choice: completion tokens

	id    [1]int32
	entry [1]api.Logprob
	alts  []api.TokenLogprob

	waiting []waiting // by choice; nil: nothing waits
}

// waiting is what is gathered for the next chunk of a choice.
type waiting struct {
	portion
	alts  []api.TokenLogprob // memory of the entries' alternatives
	begun bool               // a chunk has been sent
	sent  bool               // the portion has been sent
}

// maxWaiting bounds the memory in bytes that is gathered for a chunk. What is beyond it makes
// a chunk of its own, with fewer tokens than the interval has.
const maxWaiting = 256 << 10

// size is about how many bytes are gathered.
func (w *waiting) size() int { return len(w.text) + 4*len(w.ids) + 64*len(w.entries) + 32*len(w.alts) }

func newChunker(r *reply) chunker {
	c := chunker{r: r, used: make([]int, r.n)}
	if r.interval > 1 {
		c.waiting = make([]waiting, r.n)
	}
	return c
}

// add takes an event and returns what is due, if a chunk is: the first one and the last one
// of a choice are at once.
func (c *chunker) add(ev *engine.Event) (p portion, due bool) {
	if ev.Token >= 0 {
		c.used[ev.Choice]++
	}
	if c.waiting != nil {
		return c.gather(ev)
	}
	p.text = ev.Text
	if ev.Token >= 0 {
		c.id[0] = ev.Token
		p.ids = c.id[:]
		if c.r.logprobs {
			c.entry[0], c.alts = c.r.logprob(ev, c.alts[:0])
			p.entries = c.entry[:]
		}
	}
	return p, true
}

func (c *chunker) gather(ev *engine.Event) (portion, bool) {
	w := &c.waiting[ev.Choice]
	if w.sent {
		w.text, w.ids, w.entries, w.alts, w.sent = w.text[:0], w.ids[:0], w.entries[:0], w.alts[:0], false
	}
	w.text = append(w.text, ev.Text...)
	if ev.Token >= 0 {
		w.ids = append(w.ids, ev.Token)
		if c.r.logprobs {
			from := len(w.alts)
			var entry api.Logprob
			entry, w.alts = c.r.logprob(ev, w.alts)
			entry.Top = w.alts[from:len(w.alts):len(w.alts)]
			w.entries = append(w.entries, entry)
		}
	}
	if w.begun && len(w.ids) < c.r.interval && ev.Reason == engine.NotDone && w.size() < maxWaiting {
		return portion{}, false
	}
	w.begun, w.sent = true, true
	return w.portion, true
}
