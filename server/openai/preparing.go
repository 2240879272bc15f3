package openai

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"weir/api"
	"weir/internal/memory"
)

// What preparing a request takes at most at a time, in bytes, beside its body: decoding it,
// rendering its template, tokenizing it, and the answer of the functions that only prepare.
// It is reserved before the work begins. TestPreparingSizes measures the worst bodies.
const (
	preparingAny     = 128 << 10
	preparingByte    = 16  // a byte of the body: mostly the tokens of a text without a place to split
	preparingBracket = 48  // an array or an object, such as those of tools and documents
	preparingComma   = 8   // an element of a list or of an object
	preparingString  = 100 // half a string, such as a role, a part of a message or its type
	preparingPrompt  = 1 << 10

	// mostStrings is the number of quotes that preparingString is for. Messages, their parts
	// and their calls have limits, and the strings of other lists take less than their bytes.
	mostStrings = 4 * 65_536

	// Parts of preparingByte: what tokenizing takes for a byte of text, what rendering leaves
	// for the values of the template, and tokenizing for the answer.
	tokenizingByte = 13
	renderingByte  = 8
	renderingAny   = 64 << 10
	answeringByte  = 8
)

// input is a request that a worker prepares.
type input struct {
	body   []byte
	from   Sender
	memory *preparing // nil: it is not counted

	// answer appends the answer of a request for vectors; nil: it is that of /v1/embeddings.
	answer func(dst []byte, a *api.Embeddings) []byte
	id     func(request string) string // makes the id of an answer from that of its request; nil: api.ChatID
	past   *Past                       // the earlier turn that a chat goes on from; nil: there is none
	plain  *Plain                      // a prompt that is not, or not only, what the template renders; nil: it is
	tools  changing                    // nil: the tools of the chat are as it says
}

// hideTools leaves out of a chat what its surface says of its tools.
func (in *input) hideTools(q *api.ChatRequest) {
	if in.tools != nil {
		q.HideTools(in.tools.Changed())
	}
}

// preparingSize returns what preparing a body may take.
func preparingSize(body []byte) int64 {
	brackets := count(body, '[') + count(body, '{')
	return preparingAny + preparingByte*int64(len(body)) + preparingBracket*brackets + preparingComma*count(body, ',') + preparingString*min(count(body, '"'), mostStrings)
}

func count(b []byte, c byte) int64 { return int64(bytes.Count(b, []byte{c})) }

// preparing is the memory for preparing a request. Its worker goes on for a moment when the
// client has left, so that it belongs to both: the last one gives it back.
type preparing struct {
	size   int64 // preparingSize
	body   int64 // bytes of the body
	beside int64 // what the call holds already, its body among it
	memory *memory.Reservation
	limit  int64
	stop   context.CancelCauseFunc

	mu            sync.Mutex
	running, left bool
}

// newPreparing returns the memory for preparing a body, of a call that holds so many bytes.
func newPreparing(account *memory.Account, tenant string, body []byte, beside int64, stop context.CancelCauseFunc) *preparing {
	p := &preparing{size: preparingSize(body), body: int64(len(body)), beside: beside, memory: account.OpenFor(tenant), limit: account.Limit(), stop: stop}
	p.memory.Beside(beside)
	return p
}

// reserve waits for the memory.
func (p *preparing) reserve(ctx context.Context) error { return p.memory.Grow(ctx, p.size) }

// begin is called by the worker. It reports whether the client is still there.
func (p *preparing) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = !p.left
	return p.running
}

// end is called by the worker if begin has returned true.
func (p *preparing) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	if p.left {
		p.memory.Release()
	}
}

// leave gives the memory back, or leaves it to the worker together with that of the body,
// which the worker may still read.
func (p *preparing) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	if p.running {
		p.memory.Force(p.body)
	} else {
		p.memory.Release()
	}
}

// keep gives n bytes to another reservation and the rest back. Nobody can take them in
// between.
func (p *preparing) keep(to *memory.Reservation, n int64) {
	held := p.memory.Held()
	p.memory.Move(to, min(n, held))
	to.Force(max(0, n-held)) // it is there already
	p.leave()
}

// more makes sure that n bytes more than the size are reserved. If there are none, it ends
// the context of the worker, with the reason as its cause.
func (p *preparing) more(n int64) bool {
	if p == nil {
		return true
	}
	missing := p.size + n - p.memory.Held()
	if missing <= 0 || p.memory.TryGrow(missing) {
		return true
	}
	if p.beside+p.size+n > p.limit {
		p.stop(memory.ErrNever)
	} else {
		p.stop(memory.ErrFull)
	}
	return false
}

// translated makes sure that another body may be prepared in place of the one that was sent.
func (p *preparing) translated(body []byte) bool {
	if p == nil {
		return true
	}
	n := preparingSize(body) + int64(len(body))
	if !p.more(n) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size += n
	p.body += int64(len(body))
	return true
}

// render makes sure that a template may make values of n bytes.
func (p *preparing) render(n int64) bool {
	return p == nil || p.more(n-renderingAny-renderingByte*p.body)
}

// tokenize makes sure that a text may be tokenized, which may be longer than the body that it
// was made of.
func (p *preparing) tokenize(text int) bool {
	return p == nil || p.more(tokenizingByte*(int64(text)-p.body))
}

// answer makes sure that n bytes may be made for an answer.
func (p *preparing) answer(n int64) bool { return p == nil || p.more(n-answeringByte*p.body) }

// retained returns what a prepared request holds until its answer has been sent, beside what
// size counts.
func (p *prepared) retained() int64 {
	first := &p.requests[0] // the others share its lists, but for that of the limits
	n := preparingPrompt*int64(len(p.requests)) + 4*int64(len(first.Sampling.Allowed)+len(first.Sampling.StopIDs)+len(p.requests)*len(first.Limits.StopIDs)) + 16*int64(len(first.Sampling.Bias))
	for _, words := range first.Sampling.BadWords {
		n += 24 + 4*int64(cap(words))
	}
	for _, s := range first.Stop {
		n += 24 + int64(len(s))
	}
	if c := p.constraint; c != nil {
		n += int64(len(c.Schema) + len(c.Text) + len(p.given))
		for _, s := range c.Choices {
			n += 24 + int64(len(s))
		}
	}
	if a, ok := p.reply.answer.(*surfaceAnswer); ok {
		if h, ok := a.form.(holding); ok {
			n += h.Held()
		}
	}
	return n + p.recorded + p.calls.size()
}

// detached is prepare, but what it makes does not keep the body.
func detached(prepare preparation[*prepared]) preparation[*prepared] {
	return func(ctx context.Context, m *Model, in *input) (*prepared, error) {
		p, err := prepare(ctx, m, in)
		if err == nil {
			p.detach(m, in.body)
		}
		return p, err
	}
}

// detach lets go of the body: what a prepared request still needs of it is copied.
func (p *prepared) detach(m *Model, body []byte) {
	if c := p.options.Constraint; c != nil {
		own := *c
		own.Schema = api.Raw(bytes.Clone(c.Schema))
		p.constraint = &own
	}
	_, p.bounded = p.options.MaxOutput()
	p.asked = m.Names[max(0, slices.Index(m.Names, p.options.Model))]
	p.transfer = m.transfers(p.options.KVTransferParams)
	p.options = nil
	if p.calls != nil {
		p.calls.own()
	}
	if p.reply.recorded != nil {
		p.recorded = int64(p.reply.recorded.recording.Kept())
	}
}
