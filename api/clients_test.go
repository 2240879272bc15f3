package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// The readers below do what well-known load testers do with a stream, mistakes included.
// They get the bytes as a socket would give
// them: cut anywhere, with heartbeats between events.

type chunkJSON struct {
	Choices []struct {
		Delta        map[string]any
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		CompletionTokens int `json:"completion_tokens"`
	}
}

func (c *chunkJSON) content() (s string) {
	for _, choice := range c.Choices {
		if text, ok := choice.Delta["content"].(string); ok {
			s += text
		}
	}
	return s
}

var errNoDelta = errors.New("a choice without delta")

// serveBench trims every read before it looks for the end of an event, and
// takes what is left in its buffer for an event once it parses.
func serveBench(reads [][]byte) (text string, err error) {
	buffer := ""
	var events []string
	for _, r := range reads {
		s := strings.TrimSpace(string(r))
		if s == "" {
			continue
		}
		buffer += s
		for {
			event, rest, ok := strings.Cut(buffer, "\n\n")
			if !ok {
				break
			}
			events = append(events, strings.TrimSpace(event))
			buffer = rest
		}
		if data, ok := strings.CutPrefix(buffer, "data: "); ok && (data == "[DONE]" || json.Valid([]byte(data))) {
			events = append(events, strings.TrimSpace(buffer))
			buffer = ""
		}
	}
	for _, e := range events {
		e = strings.TrimPrefix(e, "data: ")
		if e == "" || e == "[DONE]" {
			continue
		}
		var c chunkJSON
		if err := json.Unmarshal([]byte(e), &c); err != nil {
			return text, err
		}
		for _, choice := range c.Choices {
			if choice.Delta == nil {
				return text, errNoDelta
			}
		}
		text += c.content()
	}
	return text, nil
}

// inferencePerf drops every line that does not start with "data: ".
func inferencePerf(reads [][]byte) (text string, err error) {
	for line := range strings.SplitSeq(string(bytes.Join(reads, nil)), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c chunkJSON
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return text, err
		}
		text += c.content()
	}
	return text, nil
}

// llmperf cuts six bytes off every line that is not blank, takes any key error
// for a failure and indexes the first choice unseen.
func llmperf(reads [][]byte) (text string, err error) {
	for line := range strings.SplitSeq(string(bytes.Join(reads, nil)), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line = line[len("data: "):]; line == "[DONE]" {
			continue
		}
		var keys map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &keys); err != nil {
			return text, err
		}
		if _, ok := keys["error"]; ok {
			return text, errors.New("error in the stream")
		}
		var c chunkJSON
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			return text, err
		}
		if len(c.Choices) == 0 || c.Choices[0].Delta == nil {
			return text, errNoDelta
		}
		text += c.content()
	}
	return text, nil
}

var endpoints = regexp.MustCompile(`data:\s*(\{[^\n]+\})`)

// mlcommons finds the events by a regular expression over the bytes.
func mlcommons(reads [][]byte) (text string, err error) {
	for _, m := range endpoints.FindAllSubmatch(bytes.Join(reads, nil), -1) {
		var c chunkJSON
		if err := json.Unmarshal(m[1], &c); err != nil {
			return text, err
		}
		text += c.content()
	}
	return text, nil
}

func TestClientsReadTheStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tr := range transcripts() {
		for name, read := range map[string]func([][]byte) (string, error){"vllm bench serve": serveBench, "inference-perf": inferencePerf, "llmperf": llmperf, "mlcommons": mlcommons} {
			if name == "llmperf" && !tr.plain {
				continue // it cannot read usage or errors from anybody
			}
			for range 50 {
				if text, err := read(reads(tr.b, rng)); err != nil || text != tr.text {
					t.Fatalf("%s reads %s: %q, %v, want %q", name, tr.name, text, err, tr.text)
				}
			}
		}
	}
}

// reads cuts a stream into what single reads from a socket return: the server writes whole
// events, of which the network joins some, and there are heartbeats between them.
func reads(stream []byte, rng *rand.Rand) (list [][]byte) {
	joined := []byte{}
	for event := range bytes.SplitAfterSeq(stream, []byte("\n\n")) {
		if joined = append(joined, event...); rng.IntN(4) == 0 {
			joined = append(joined, Heartbeat...)
		}
		if rng.IntN(2) == 0 {
			list = append(list, joined)
			joined = []byte{}
		}
	}
	return append(list, joined)
}
