package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"weir/internal/jsontext"
)

// maxLine bounds a line of a file of prompts, in bytes.
const maxLine = 64 << 20

// eachLine calls f for every line that is not blank, with its number.
func eachLine(r io.Reader, what string, f func(line []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := f(lines.Bytes()); err != nil {
			return fmt.Errorf("bench: line %d of the %s%w", n, what, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("bench: the %s: %w", what, err)
	}
	return nil
}

// promptLine is a line of a file of prompts. Of the names of its length the first that is there counts.
type promptLine struct {
	Prompt     string                `json:"prompt"`
	Messages   []jsontext.RawMessage `json:"messages"`
	OutputLen  int                   `json:"output_len"`
	OutputTok  int                   `json:"output_tokens"` // vLLM's name of it
	OutputLong int                   `json:"output_length"` // that of traces
	MaxTokens  int                   `json:"max_tokens"`
	MaxNew     int                   `json:"max_completion_tokens"`

	Tools      jsontext.RawMessage            `json:"tools"`
	Choice     jsontext.RawMessage            `json:"tool_choice"`
	Format     jsontext.RawMessage            `json:"response_format"`
	Structured jsontext.RawMessage            `json:"structured_outputs"`
	Extra      map[string]jsontext.RawMessage `json:"extra_body"`
}

func (l *promptLine) outputLen(usual int) int {
	for _, n := range []int{l.OutputLen, l.OutputTok, l.OutputLong, l.MaxTokens, l.MaxNew} {
		if n != 0 {
			return n
		}
	}
	return usual
}

func (l *promptLine) prompt(usual int) (Prompt, error) {
	p := Prompt{Text: l.Prompt, Messages: l.Messages, OutputLen: l.outputLen(usual)}
	if (p.Text == "") == (len(p.Messages) == 0) || p.OutputLen < 1 || p.OutputLen > maxPrompts {
		return p, errors.New(" needs a prompt or messages, and an output_len of at least 1")
	}
	for name, v := range map[string]jsontext.RawMessage{"tools": l.Tools, "tool_choice": l.Choice, "response_format": l.Format, "structured_outputs": l.Structured} {
		if v != nil {
			p.field(name, v)
		}
	}
	for name, v := range l.Extra {
		p.field(name, v)
	}
	return p, nil
}

// field adds a field to the request of a prompt.
func (p *Prompt) field(name string, v jsontext.RawMessage) {
	if p.Fields == nil {
		p.Fields = map[string]jsontext.RawMessage{}
	}
	p.Fields[name] = v
}

// ReadPrompts reads a file of prompts. Each line is a JSON object with prompt, a text, or messages, the
// messages of a chat; with output_len (or output_tokens, max_tokens), the largest length of the answer,
// which is outputLen where it is missing; and with further fields of the request, if there are any: tools,
// tool_choice, response_format, structured_outputs, and what stands in the object extra_body.
func ReadPrompts(r io.Reader, outputLen int) ([]Prompt, error) {
	var list []Prompt
	err := eachLine(r, "prompts", func(line []byte) error {
		var l promptLine
		if err := jsontext.Decode(line, &l); err != nil {
			return fmt.Errorf(": %w", err)
		}
		p, err := l.prompt(outputLen)
		list = append(list, p)
		return err
	})
	if err == nil && len(list) == 0 {
		err = errNoPrompts
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// ShareGPT are the first questions and answers of conversations in the form of the ShareGPT data set.
type ShareGPT struct {
	turns     [][2]string // question and answer
	OutputLen int         // 0: as long as the answer in the file
	Shuffle   bool
}

// The lengths that vLLM's benchmark takes from ShareGPT (is_valid_sequence in vllm/benchmarks/datasets).
const (
	shareGPTLeast  = 4    // tokens of a question or answer
	shareGPTPrompt = 1024 // tokens of a question at most
	shareGPTTotal  = 2048 // tokens of both at most
)

// maxShareGPT bounds the file, in bytes.
const maxShareGPT = 4 << 30

// ReadShareGPT reads a file in the form of ShareGPT: a list of objects with conversations, a list of
// messages with value. Conversations of less than two messages are left out.
func ReadShareGPT(r io.Reader) (ShareGPT, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxShareGPT))
	if err != nil {
		return ShareGPT{}, fmt.Errorf("bench: the conversations: %w", err)
	}
	var list []struct {
		Conversations []struct {
			Value string `json:"value"`
		} `json:"conversations"`
	}
	if err := jsontext.Decode(src, &list); err != nil {
		return ShareGPT{}, fmt.Errorf("bench: the conversations: %w", err)
	}
	s := ShareGPT{Shuffle: true}
	for _, entry := range list {
		if c := entry.Conversations; len(c) >= 2 {
			s.turns = append(s.turns, [2]string{c[0].Value, c[1].Value})
		}
	}
	return s, s.validate()
}

func (s ShareGPT) validate() error {
	if len(s.turns) == 0 {
		return errors.New("bench: no conversation has a question and an answer")
	}
	return checkLengths("answer's", s.OutputLen)
}

func (s ShareGPT) draw(n int, d *drawing) ([]Prompt, error) {
	order := make([]int, len(s.turns))
	for i := range order {
		order[i] = i
	}
	if s.Shuffle {
		d.lengths().Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	var list []Prompt
	for _, i := range order {
		if len(list) == n {
			break
		}
		in, out := d.count(s.turns[i][0]), s.OutputLen
		if out == 0 {
			if out = d.count(s.turns[i][1]); out < shareGPTLeast {
				continue
			}
		}
		if in >= shareGPTLeast && in <= shareGPTPrompt && in+out <= shareGPTTotal {
			list = append(list, Prompt{Text: s.turns[i][0], OutputLen: out})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("bench: no conversation has a question of %d to %d tokens and %d at most with its answer", shareGPTLeast, shareGPTPrompt, shareGPTTotal)
	}
	return List{Prompts: list}.draw(n, d)
}
