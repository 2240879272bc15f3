package bench

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"weir/internal/jsontext"
)

// request is what is sent for one prompt.
type request struct {
	body    []byte        // for a prompt that follows another, only once the answer to that is known
	due     time.Duration // unless it follows another
	leave   departure
	prompt  *Prompt
	history []jsontext.RawMessage // messages before its own
	text    string                // the same for completions
	follows bool
	wanted  bool // the text of its answer is: another request follows it
}

// part and userMessage are a message in the shape that vLLM's benchmark sends.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type userMessage struct {
	Role    string `json:"role"`
	Content []part `json:"content"`
}

// encoder makes the bodies of requests.
type encoder struct {
	chat   bool
	fields map[string]any                 // of every request
	extra  map[string]jsontext.RawMessage // which win
}

func (c *ServeConfig) encoder() (*encoder, error) {
	fields, err := c.fields()
	if err != nil {
		return nil, err
	}
	extra, err := c.extra()
	return &encoder{c.Endpoint == Chat, fields, extra}, err
}

// encode makes the body of a request, after its history is known, and puts what the next request of its
// conversation follows into the history.
func (e *encoder) encode(q *request) error {
	fields := maps.Clone(e.fields)
	p := q.prompt
	for k, v := range p.Fields {
		fields[k] = v
	}
	if e.chat {
		own := p.Messages
		if len(own) == 0 {
			m, err := jsontext.Encode(userMessage{"user", []part{{"text", p.Text}}})
			if err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			own = []jsontext.RawMessage{m}
		}
		q.history = append(q.history[:len(q.history):len(q.history)], own...)
		fields["messages"], fields["max_completion_tokens"] = q.history, p.OutputLen
	} else {
		q.text += p.Text
		fields["prompt"], fields["max_tokens"] = q.text, p.OutputLen
	}
	for k, v := range e.extra {
		fields[k] = v
	}
	var err error
	if q.body, err = jsontext.Encode(fields); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// follow gives a request the history that its conversation has after the answer to the one before.
func (e *encoder) follow(q, before *request, answer string) error {
	if e.chat {
		m, err := jsontext.Encode(message{"assistant", answer})
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		q.history = append(before.history[:len(before.history):len(before.history)], m)
	} else {
		q.text = before.text + answer
	}
	return e.encode(q)
}

// requests makes the requests of a run: the first n prompts are measured, and the others warm up.
func (c *ServeConfig) requests(prompts []Prompt, n int) ([]request, error) {
	e, err := c.encoder()
	if err != nil {
		return nil, err
	}
	list := make([]request, len(prompts))
	lengths, first := make([]int, len(prompts)), 0
	for i := range prompts {
		list[i] = request{prompt: &prompts[i], follows: prompts[i].Follows && i != 0 && i < n}
		lengths[i] = prompts[i].OutputLen
		if list[i].follows {
			list[i-1].wanted = true
			continue
		}
		if i < n {
			first++
		}
		if err := e.encode(&list[i]); err != nil {
			return nil, err
		}
	}
	for i, d := range c.Leave.departures(lengths[:n], rand.New(rand.NewPCG(c.Seed, leaveStream))) {
		list[i].leave = d
	}
	due := c.schedule(first, rand.New(rand.NewPCG(c.Seed, scheduleStream)))
	for i := range list[:n] {
		if list[i].follows {
			continue
		}
		list[i].due, due = due[0], due[1:]
		if c.SelfTimed {
			list[i].due = prompts[i].At
		}
	}
	return list, nil
}
