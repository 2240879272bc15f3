package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend/sim"
	"weir/server/servertest"
)

// What well-known load testers read from the server's streams. A stream is recorded with
// heartbeats between the events and then cut into reads at random. The readers here do what
// those programs do, including their mistakes; the comments name the code they follow.

// benchServe is vllm bench serve (StreamedResponseHandler in
// vllm/benchmarks/lib/endpoint_request_func.py): it trims every read, looks for
// \n\n in what it has read, and takes the rest for an event if it is valid JSON.
func benchServe(reads [][]byte) (text string, err error) {
	var buffer string
	var messages []string
	for _, r := range reads {
		r = bytes.TrimSpace(r)
		if len(r) == 0 {
			continue
		}
		buffer += string(r)
		for {
			m, rest, ok := strings.Cut(buffer, "\n\n")
			if !ok {
				break
			}
			buffer = rest
			if m = strings.TrimSpace(m); m != "" {
				messages = append(messages, m)
			}
		}
		if data, ok := strings.CutPrefix(buffer, "data: "); ok {
			if data = strings.TrimSpace(data); data == "[DONE]" || json.Valid([]byte(data)) {
				messages, buffer = append(messages, strings.TrimSpace(buffer)), ""
			}
		}
	}
	for _, m := range messages {
		if strings.HasPrefix(m, ":") {
			continue
		}
		if m = strings.TrimPrefix(m, "data: "); m == "[DONE]" {
			continue
		}
		if err := take(&text, []byte(m), false); err != nil {
			return text, err
		}
	}
	return text, nil
}

// inferencePerf is parse_sse_stream of kubernetes-sigs/inference-perf: events
// are split at \n\n, lines without "data:" skipped.
func inferencePerf(reads [][]byte) (text string, err error) {
	var buffer []byte
	for _, r := range reads {
		buffer = append(buffer, r...)
		for {
			m, rest, ok := bytes.Cut(buffer, []byte("\n\n"))
			if !ok {
				break
			}
			buffer = rest
			for line := range bytes.SplitSeq(m, []byte("\n")) {
				if !bytes.HasPrefix(line, []byte("data:")) {
					continue
				}
				data := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("data: ")))
				if string(data) == "[DONE]" {
					return text, nil
				}
				if err := take(&text, data, false); err != nil {
					return text, err
				}
			}
		}
	}
	return text, errors.New("no [DONE]")
}

// llmperf cuts six bytes off every line that is not blank and uses the first choice without
// a check that there is one. A key "error" with any value is a failure.
func llmperf(reads [][]byte) (text string, err error) {
	for line := range strings.SplitSeq(string(bytes.Join(reads, nil)), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if line = line[len("data: "):]; line == "[DONE]" {
			continue
		}
		if err := take(&text, []byte(line), true); err != nil {
			return text, err
		}
	}
	return text, nil
}

var endpoints = regexp.MustCompile(`data:\s*(\{[^\n]+\})`)

// mlcommons is the client of mlcommons/endpoints, which searches the bytes for a pattern.
func mlcommons(reads [][]byte) (text string, err error) {
	for _, m := range endpoints.FindAllSubmatch(bytes.Join(reads, nil), -1) {
		if err := take(&text, m[1], false); err != nil {
			return text, err
		}
	}
	return text, nil
}

// take appends the text of an event. Every choice must have a delta; if strict, there must be
// a choice.
func take(text *string, data []byte, strict bool) error {
	var c struct {
		Choices []struct {
			Delta map[string]any
		}
		Usage any
		Error any
	}
	var keys map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &c), json.Unmarshal(data, &keys)); err != nil {
		return err
	}
	if _, ok := keys["error"]; ok {
		return errors.New("error")
	}
	if strict && len(c.Choices) == 0 {
		return errors.New("no choice")
	}
	for _, choice := range c.Choices {
		if choice.Delta == nil {
			return errors.New("no delta")
		}
		s, _ := choice.Delta["content"].(string)
		*text += s
	}
	return nil
}

func TestLoadTestersReadEverything(t *testing.T) {
	transcript := func(t *testing.T, usage bool) (stream []byte, want string) {
		synctest.Test(t, func(t *testing.T) {
			outlive(t)
			h := newServer(t, func(s *servertest.Setup) { s.Config.Heartbeat = time.Second })
			fields := map[string]any{"max_tokens": 40, "temperature": 1, "seed": 12, "ignore_eos": true}
			want = *h.Complete(t, fields).Choices[0].Message.Content
			n := 0
			h.SetHook(func(c sim.Call, _ int) error {
				if n++; c == sim.End && n%7 == 0 {
					time.Sleep(2500 * time.Millisecond) // two heartbeats
				}
				return nil
			})
			fields["stream"] = true
			if usage {
				fields["stream_options"] = map[string]any{"include_usage": true}
			}
			resp := h.Do("POST", servertest.ChatPath, servertest.Body(t, fields))
			defer resp.Body.Close()
			var err error
			if stream, err = io.ReadAll(resp.Body); err != nil {
				t.Fatal(err)
			}
		})
		if bytes.Count(stream, []byte("\n\n\n\n")) < 5 {
			t.Fatal("no heartbeats in the transcript")
		}
		return stream, want
	}
	for name, c := range map[string]struct {
		read  func([][]byte) (string, error)
		usage bool // it can read a chunk without choices
		whole bool // it needs each event in one read, because its trimming removes a \n\n that is cut in two
	}{
		"vllm bench serve": {benchServe, true, true},
		"inference-perf":   {inferencePerf, true, false},
		"llmperf":          {llmperf, false, false},
		"mlcommons":        {mlcommons, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			stream, want := transcript(t, c.usage)
			rng := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				reads := cut(rng, stream, c.whole)
				if got, err := c.read(reads); err != nil || got != want {
					t.Fatalf("read %q, %v\nwant %q\nfrom %q", got, err, want, reads)
				}
			}
		})
	}
}

// cut divides a stream into reads at random. If whole, each read has one or several whole
// events, as they are written.
func cut(rng *rand.Rand, stream []byte, whole bool) (reads [][]byte) {
	for len(stream) > 0 {
		n := 1 + rng.IntN(min(len(stream), 700))
		if whole {
			n = 0
			for k := 1 + rng.IntN(4); k > 0 && n < len(stream); k-- {
				n += bytes.Index(stream[n:], []byte("\n\n")) + 2
			}
		}
		reads = append(reads, stream[:n])
		stream = stream[n:]
	}
	return reads
}
