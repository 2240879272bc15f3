package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"weir/internal/jsontext"
)

// ChatConfig says which conversations RunChat holds with a server. Of the load, ServeConfig says
// only the server, the seed, the temperature and the extra body; RunChat looks at nothing else of it.
type ChatConfig struct {
	ServeConfig

	Conversations int // held at the same time
	Turns         int // requests of each conversation, every one with the whole history
	SystemLen     int // words of a system message that all conversations begin with; 0: none
	FirstLen      int // words of the first message of the user
	MessageLen    int // words of each further one
	OutputLen     int // tokens of each answer, its thoughts included
	// AnswerLen is how many made-up words stand in the history for an answer that was all thought, as
	// those of random weights are. Thoughts are never sent back.
	AnswerLen int
}

// DefaultChatConfig is eight conversations of 20 turns.
func DefaultChatConfig() ChatConfig {
	return ChatConfig{ServeConfig: DefaultServeConfig(), Conversations: 8, Turns: 20, SystemLen: 200, FirstLen: 200, MessageLen: 50, OutputLen: 64, AnswerLen: 100}
}

// maxTurns bounds the conversations, and the turns of each.
const maxTurns = 1 << 16

// Validate returns an error if RunChat would refuse the configuration.
func (c *ChatConfig) Validate() error {
	if c.Conversations < 1 || c.Conversations > maxTurns || c.Turns < 1 || c.Turns > maxTurns {
		return fmt.Errorf("bench: %d conversations of %d turns", c.Conversations, c.Turns)
	}
	for _, n := range []int{c.SystemLen, c.FirstLen - 1, c.MessageLen - 1, c.OutputLen - 1, c.AnswerLen - 1} {
		if n < 0 || n > maxPrompts {
			return fmt.Errorf("bench: a message or an answer of %d", n)
		}
	}
	one := c.ServeConfig
	one.NumPrompts, one.Endpoint = 1, Chat
	return one.Validate()
}

// ChatReport is what RunChat measured.
type ChatReport struct {
	Date        time.Time
	Config      ChatConfig // with the name of the model that was used
	Interrupted bool
	Turns       []Turn       // those that some conversation has completed
	Errors      []ErrorCount // of requests that failed, each of which ended its conversation
}

// Turn is what one turn of all conversations took. Numbers of tokens are means.
type Turn struct {
	Answers    int     // conversations that completed it
	Prompt     float64 // tokens of the prompt, with the history
	New        float64 // of these, more than in the turn before
	Cached     float64 // of these, not computed, as the server says
	Completion float64
	TTFT, E2EL Samples // milliseconds
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// RunChat holds conversations with a server, all of them at once, and measures each turn. A user
// sends a message as soon as the answer to the one before has ended. When ctx ends, the report has
// what was measured by then.
func RunChat(ctx context.Context, cfg ChatConfig) (*ChatReport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Endpoint, cfg.KeepText, cfg.IgnoreEOS = Chat, true, true
	c := newClient(&cfg.ServeConfig)
	defer c.close()
	first, err := c.ready(ctx, cfg.ReadyTimeout)
	if err != nil {
		return nil, err
	}
	cfg.Model = cmp.Or(cfg.Model, first)
	rnd := rand.New(rand.NewPCG(cfg.Seed, promptStream))
	system := string(appendWords(nil, cfg.SystemLen, rnd))
	fields, err := cfg.fields()
	if err != nil {
		return nil, err
	}
	users := make([]user, cfg.Conversations)
	r := &ChatReport{Date: time.Now(), Config: cfg}
	var talking sync.WaitGroup
	for i := range users {
		u := &users[i]
		*u = user{c: &cfg, client: c, fields: maps.Clone(fields), rnd: rand.New(rand.NewPCG(rnd.Uint64(), promptStream)), start: r.Date}
		if system != "" {
			u.history = append(u.history, message{"system", system})
		}
		talking.Go(func() { u.err = u.converse(ctx) })
	}
	talking.Wait()
	for i := range users {
		err = errors.Join(err, users[i].err)
	}
	r.Interrupted = ctx.Err() != nil
	r.addTurns(users)
	return r, err
}

// user is one side of a conversation.
type user struct {
	c       *ChatConfig
	client  *client
	rnd     *rand.Rand
	start   time.Time
	fields  map[string]any // of each request
	history []message
	turns   []outcome // of which only the last can have failed
	err     error
}

func (u *user) converse(ctx context.Context) error {
	for t := range u.c.Turns {
		n := u.c.MessageLen
		if t == 0 {
			n = u.c.FirstLen
		}
		u.history = append(u.history, message{"user", string(appendWords(nil, n, u.rnd))})
		u.fields["messages"], u.fields["max_completion_tokens"] = u.history, u.c.OutputLen
		body, err := jsontext.Encode(u.fields)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		var o outcome
		u.client.stream(ctx, &request{body: body}, &o, func() time.Duration { return time.Since(u.start) })
		u.turns = append(u.turns, o)
		if o.failure != "" {
			break
		}
		answer := o.text // without thoughts
		if len(answer) == 0 {
			answer = appendWords(nil, u.c.AnswerLen, u.rnd)
		}
		u.history = append(u.history, message{"assistant", string(answer)})
	}
	return nil
}

// addTurns computes the figures of all turns.
func (r *ChatReport) addTurns(users []user) {
	failed := failures{}
	for t := range r.Config.Turns {
		var x Turn
		for i := range users {
			turns := users[i].turns
			if t >= len(turns) {
				continue
			}
			o := &turns[t]
			if o.failure != "" {
				if !o.cut {
					failed.add(o.failure)
				}
				continue
			}
			x.Answers++
			x.Prompt += float64(o.prompt)
			x.Cached += float64(o.cached)
			x.Completion += float64(o.tokens())
			x.New += float64(o.prompt)
			if t > 0 {
				x.New -= float64(turns[t-1].prompt)
			}
			x.TTFT, x.E2EL = append(x.TTFT, ms(o.first-o.sent)), append(x.E2EL, ms(o.last-o.sent))
		}
		if x.Answers == 0 {
			break
		}
		for _, v := range []*float64{&x.Prompt, &x.New, &x.Cached, &x.Completion} {
			*v /= float64(x.Answers)
		}
		x.TTFT, x.E2EL = newSamples(x.TTFT), newSamples(x.E2EL)
		r.Turns = append(r.Turns, x)
	}
	r.Errors = failed.list()
}

// tpot is the time per token after the first, of the median answer, in milliseconds.
func (t *Turn) tpot() float64 {
	return (t.E2EL.Percentile(50) - t.TTFT.Percentile(50)) / max(1, t.Completion-1)
}

// WriteText writes a table in Markdown, with a row for each turn.
func (r *ChatReport) WriteText(w io.Writer) error {
	t := &table{w: w}
	for _, e := range r.Errors {
		t.printf("%d conversations ended early: %s\n\n", e.Count, e.Text)
	}
	c := &r.Config
	t.printf("%s: %d conversations at once, %d tokens in each answer, %s\n\n", c.Model, c.Conversations, c.OutputLen, r.Date.UTC().Format("2006-01-02 15:04 UTC"))
	t.printf("| turn | prompt, tokens | new | not in the cache | median TTFT, ms (range) | TPOT, ms |\n|--:|--:|--:|--:|--:|--:|\n")
	for i := range r.Turns {
		x := &r.Turns[i]
		t.printf("| %d | %.0f | %.0f | %.0f | %.0f (%.0f–%.0f) | %.1f |\n", i+1, x.Prompt, x.New, x.Prompt-x.Cached, x.TTFT.Percentile(50), x.TTFT.Percentile(0), x.TTFT.Percentile(100), x.tpot())
	}
	return t.err
}

// WriteBenchmark writes a line for each turn, as a Go benchmark that benchstat reads.
func (r *ChatReport) WriteBenchmark(w io.Writer) error {
	t := &table{w: w}
	t.printf("\n")
	for i := range r.Turns {
		x := &r.Turns[i]
		t.printf("BenchmarkChat/conversations=%d/turn=%d %d %.0f ns/ttft %.0f tokens %.0f new-tokens\n",
			r.Config.Conversations, i+1, x.Answers, x.TTFT.Percentile(50)*1e6, x.Prompt, x.New)
	}
	return t.err
}

// WriteJSON writes all that was measured. Times are in milliseconds.
func (r *ChatReport) WriteJSON(w io.Writer) error {
	type turn struct {
		Prompt     float64 `json:"prompt_tokens"`
		New        float64 `json:"new_tokens"`
		Cached     float64 `json:"cached_tokens"`
		Completion float64 `json:"completion_tokens"`
		TTFT       Samples `json:"ttft_ms"`
		E2EL       Samples `json:"e2el_ms"`
	}
	out := struct {
		Date          time.Time    `json:"date"`
		Model         string       `json:"model"`
		Conversations int          `json:"conversations"`
		Turns         []turn       `json:"turns"`
		Errors        []ErrorCount `json:"errors"`
	}{r.Date.UTC(), r.Config.Model, r.Config.Conversations, []turn{}, r.Errors}
	for _, x := range r.Turns {
		out.Turns = append(out.Turns, turn{x.Prompt, x.New, x.Cached, x.Completion, x.TTFT, x.E2EL})
	}
	text, err := jsontext.EncodeIndent(out, "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
