package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"

	"weir/internal/jsontext"
)

// Prompt is one prompt of a data set.
type Prompt struct {
	Text      string `json:"prompt"`
	OutputLen int    `json:"output_len"` // largest number of tokens in the answer
}

// maxLine bounds a line of a file of prompts, in bytes.
const maxLine = 64 << 20

// ReadPrompts reads a file of prompts. Each line is a JSON object with the keys prompt and
// output_len.
func ReadPrompts(r io.Reader) ([]Prompt, error) {
	var list []Prompt
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var p Prompt
		if err := jsontext.Decode(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("bench: line %d of the prompts: %w", n, err)
		}
		if p.Text == "" || p.OutputLen < 1 {
			return nil, fmt.Errorf("bench: line %d of the prompts needs a prompt and an output_len of at least 1", n)
		}
		list = append(list, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("bench: the prompts: %w", err)
	}
	if len(list) == 0 {
		return nil, errors.New("bench: no prompts")
	}
	return list, nil
}

// Random describes prompts that are made of random words.
type Random struct {
	InputLen  int // words of a prompt, not counting the prefix
	OutputLen int // tokens of an answer
	PrefixLen int // words that all prompts begin with
	// RangeRatio r, in [0, 1), draws both lengths evenly from [len*(1-r), len*(1+r)].
	RangeRatio float64
}

// words are so common that each, with the space before it, is one token in vocabularies of
// every size. The exact length of a prompt is in the usage of its answer, because the chat
// template adds to it.
var words = strings.Fields(`the of and to in is that for it as was with be by on not he but at are this have from or
	an they one you were there would their we has when who will no more if out so up said what its about into them can
	only other time new some these two may first then do any like my over me even most after did many before well back
	years much where your down long each too little good make year still own work day get old under three never know
	same last another us great come right came take few house use high without again home small found part school
	every does left number course until always something water far set nothing night end why called find look later`)

func (r *Random) draw(n int, rnd *rand.Rand) []Prompt {
	prefix := appendWords(nil, r.PrefixLen, rnd)
	list := make([]Prompt, n)
	for i := range list {
		in, out := r.length(r.InputLen, rnd), r.length(r.OutputLen, rnd)
		text := appendWords(append([]byte(nil), prefix...), max(in, 1-r.PrefixLen), rnd)
		list[i] = Prompt{string(text), max(out, 1)}
	}
	return list
}

func (r *Random) length(n int, rnd *rand.Rand) int {
	low, high := math.Floor(float64(n)*(1-r.RangeRatio)), math.Ceil(float64(n)*(1+r.RangeRatio))
	return int(low) + rnd.IntN(int(high-low)+1)
}

func appendWords(dst []byte, n int, rnd *rand.Rand) []byte {
	for range n {
		if len(dst) > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, words[rnd.IntN(len(words))]...)
	}
	return dst
}

// fields are those that all requests have, in the shape that vLLM's benchmark sends. Fields of
// ExtraBody win.
func (c *ServeConfig) fields() (map[string]any, error) {
	fields := map[string]any{
		"stream":         true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	if c.Model != "" {
		fields["model"] = c.Model
	}
	if c.Temperature != nil {
		fields["temperature"] = *c.Temperature
	}
	if c.IgnoreEOS {
		fields["ignore_eos"] = true
	}
	extra, err := c.extra()
	for k, v := range extra {
		fields[k] = v
	}
	return fields, err
}

// bodies encodes the request of each prompt.
func (c *ServeConfig) bodies(prompts []Prompt) ([][]byte, error) {
	fields, err := c.fields()
	if err != nil {
		return nil, err
	}
	type part struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type message struct {
		Role    string `json:"role"`
		Content []part `json:"content"`
	}
	extra, err := c.extra()
	if err != nil {
		return nil, err
	}
	list := make([][]byte, len(prompts))
	for i, p := range prompts {
		if c.Endpoint == Chat {
			fields["messages"] = []message{{"user", []part{{"text", p.Text}}}}
			fields["max_completion_tokens"] = p.OutputLen
		} else {
			fields["prompt"] = p.Text
			fields["max_tokens"] = p.OutputLen
		}
		for k, v := range extra {
			fields[k] = v
		}
		if list[i], err = jsontext.Encode(fields); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	return list, nil
}

// extra are the fields of ExtraBody.
func (c *ServeConfig) extra() (fields map[string]jsontext.RawMessage, err error) {
	if len(c.ExtraBody) == 0 {
		return nil, nil
	}
	if err := jsontext.Decode(c.ExtraBody, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("bench: the extra body is not a JSON object: %s", clip(string(c.ExtraBody)))
	}
	return fields, nil
}
