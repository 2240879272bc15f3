package openai

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"weir/api"
	"weir/engine"
	"weir/internal/memory"
	"weir/internal/testkit"
	"weir/sampler"
	"weir/server/recording"
)

// What an answer holds when it has been encoded, and is still there as it was gathered, is
// no more than what is reserved for it, and not much less.
func TestAnswerSizes(t *testing.T) {
	const tokens, choices = 500, 8
	for _, c := range []struct {
		logprobs, asIDs bool
		top             int
	}{{}, {logprobs: true}, {logprobs: true, top: 5}, {logprobs: true, top: 20}, {logprobs: true, top: 20, asIDs: true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			r := &reply{tok: bundled(), n: choices, logprobs: c.logprobs, top: c.top, form: api.Form{TokensAsIDs: c.asIDs}, answer: &chatAnswer{role: "assistant"}}
			r.memory = memory.New(1<<40, 0).Open()
			q := engine.Request{N: choices, Limits: engine.Limits{MaxTokens: tokens}, Sampling: sampler.Params{Repetition: 1}}
			reserved := r.size(&q)

			before := testkit.Heap()
			m := &meter{r: r, memory: r.memory}
			all := make([]gathered, choices)
			for i := range tokens {
				for j := range all {
					ev := sampleEvent(r, i, j)
					all[j].add(r, &ev)
					if err := m.add(&ev, all[j].entry(&ev)); err != nil {
						t.Fatal(err)
					}
				}
			}
			body := r.answer.complete(make([]byte, 0, m.body+m.body/16+512), r, &engine.Stream{}, all)
			held := testkit.Heap() - before
			granted := reserved + r.memory.Held()
			t.Logf("%d bytes are held, %d reserved, %d of them for long texts; the body has %d of %d bytes", held, granted, granted-reserved, len(body), cap(body))
			if held > granted+64<<10 || held < granted/4-128<<10 {
				t.Errorf("%d bytes are held, %d reserved", held, granted)
			}
			if c.logprobs && 2*cap(body) > 3*len(body) {
				t.Errorf("a body of %d bytes in %d", len(body), cap(body))
			}
			runtime.KeepAlive(all)
			runtime.KeepAlive(body)
		})
	}
}

// sampleEvent is token i of choice j, with the alternatives that r asks for.
func sampleEvent(r *reply, i, j int) engine.Event {
	ev := engine.Event{Choice: int32(j), Token: int32((1000 + 7*i + j) % vocabulary), Logprob: -12.345678, Rank: 3}
	ev.Text = r.tok.Bytes(ev.Token)
	for k := range r.top {
		ev.Top = append(ev.Top, engine.TokenLogprob{Token: int32((1000 + 7*i + 31*k) % vocabulary), Logprob: -1.2345678 * float32(k)})
	}
	return ev
}

// A long text is reserved when it comes, and is refused if there is no memory for it.
func TestLongTexts(t *testing.T) {
	r := &reply{tok: bundled(), n: 1}
	m := &meter{r: r, memory: memory.New(3<<20, 0).Open()}
	ev := engine.Event{Text: make([]byte, 100<<10)}
	if err := m.add(&ev, nil); err != nil || m.memory.Held() < 8*100<<10-64 {
		t.Fatalf("%v, %d bytes reserved", err, m.memory.Held())
	}
	for range 4 {
		if err := m.add(&ev, nil); err == memory.ErrFull {
			return
		}
	}
	t.Error("4 MB were reserved of 3 MiB")
}

// 256 requests without a bound of their own, each with a context of 40,960 tokens, take less
// than 512 MiB.
func TestOrdinaryRequestsFit(t *testing.T) {
	p := prepared{
		requests: []engine.Request{{N: 1, Tokens: make([]int32, 1000), Limits: engine.Limits{MaxTokens: 39_960}, Sampling: sampler.Params{Repetition: 1}}},
		reply:    reply{n: 1, answer: &chatAnswer{}},
	}
	if n := 256 * p.size(vocabulary); n > 512<<20 {
		t.Errorf("%d bytes", n)
	}
	p.reply.stream = true
	if n := p.size(vocabulary); n > 256<<10 {
		t.Errorf("a stream: %d bytes", n)
	}
}

// A transcript that waits to be recorded holds no more than it says.
func TestTranscriptSize(t *testing.T) {
	for _, top := range []int{0, 20} {
		testTranscriptSize(t, top)
	}
}

func testTranscriptSize(t *testing.T, top int) {
	const tokens, choices = 500, 8
	r := &reply{tok: bundled(), n: choices, answer: &chatAnswer{role: "assistant"}, logprobs: top > 0, top: top}
	before := testkit.Heap()
	text := strings.Repeat("x", 1<<20) // neither this nor the echo is kept
	r.form.PromptText = &text
	r.memory = memory.New(1<<40, 0).Open()
	kept := newTranscript(nil, r, &chatAnswer{role: "assistant", echo: strings.Repeat("y", 1<<20), prompt: make([]int32, 1000)})
	for i := range tokens {
		for j := range choices {
			ev := sampleEvent(r, i, j)
			kept.add(&ev)
		}
	}
	held := testkit.Heap() - before
	t.Logf("%d bytes are held, the size is %d", held, kept.Size())
	if held > int64(kept.Size())+64<<10 || held < int64(kept.Size())/2 {
		t.Error("the transcript holds another amount than it says")
	}
	runtime.KeepAlive(kept)
}

// The text that a transcript is written as is no longer than the recorder reserves for it, with
// room for a buffer that grows, even if every character of it is escaped.
func TestTranscriptText(t *testing.T) {
	for i, text := range []string{"word", "\x01\x02\x03\x04", strings.Repeat("\x01", 64), "word", "word"} {
		r := &reply{tok: bundled(), n: 1, answer: &chatAnswer{role: "assistant"}}
		if i >= 3 { // with alternatives, by their texts or their ids
			r.logprobs, r.top, r.form.TokensAsIDs = true, 20, i == 4
		}
		kept := newTranscript(nil, r, &chatAnswer{role: "assistant"})
		for i := range 2000 {
			ev := sampleEvent(r, i, 0)
			ev.Text = []byte(text)
			kept.add(&ev)
		}
		if n, most := len(kept.AppendChoice(nil, 0)), recording.TextShare*kept.Size(); 9*n/5 > most {
			t.Errorf("%q: %d bytes of text, and %d are reserved", text, n, most)
		}
	}
}

// Each part of an answer that a request asks for is counted, for each of its choices.
func TestSizeOfParts(t *testing.T) {
	const choices, tokens, limit, text = 3, 100, 50, 10_000
	long := strings.Repeat("x", text)
	base := func() *prepared {
		return &prepared{
			requests: []engine.Request{{N: choices, Tokens: make([]int32, tokens), Limits: engine.Limits{MaxTokens: limit}, Sampling: sampler.Params{Repetition: 1}}},
			reply:    reply{n: choices, answer: &chatAnswer{}},
		}
	}
	for name, c := range map[string]struct {
		change func(*prepared)
		least  int64
	}{
		"penalties":    {func(p *prepared) { p.requests[0].Sampling.Presence = 1 }, choices * penaltyToken * (tokens + limit)},
		"chat echo":    {func(p *prepared) { p.reply.answer = &chatAnswer{echo: long} }, 3 * choices * text},
		"thought echo": {func(p *prepared) { p.reply.answer = &chatAnswer{echoThought: long} }, 3 * choices * text},
		"text echo":    {func(p *prepared) { p.reply.answer = &textAnswer{n: choices, echo: []string{long, long}} }, 2 * 3 * choices * text},
		"prompt text":  {func(p *prepared) { p.reply.form.PromptText = &long }, 2 * text},
		"token ids":    {func(p *prepared) { p.reply.form.TokenIDs = true }, choices * (tokens + limit) * idText},
		"scores":       {func(p *prepared) { p.requests[0].Prompt = &engine.PromptScores{Top: 2} }, tokens*(scoreSize+2*scoreAlt) + choices*tokens*3*scoreEncoded},
		"recorded":     {func(p *prepared) { p.reply.recorded = &transcript{} }, choices * limit * (tokenSize + entrySize)},
		"alternatives": {func(p *prepared) { p.reply.recorded, p.reply.logprobs, p.reply.top = &transcript{}, true, 20 }, choices * limit * (tokenSize + 2*entrySize + 20*(altSize+alternativeSize))},
		"stream":       {func(p *prepared) { p.reply.stream, p.reply.interval = true, 1 }, 16<<10 - choices*limit*tokenSize},
	} {
		p := base()
		before := p.size(vocabulary)
		c.change(p)
		if more := p.size(vocabulary) - before; more < c.least {
			t.Errorf("%s: %d bytes more, want at least %d", name, more, c.least)
		}
	}
}
