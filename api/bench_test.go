package api

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"weir/internal/jsontext"
)

// largeRequest is a history of about 40 KB with tools, as an agent sends it.
func largeRequest() []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0.7,"max_completion_tokens":512,"messages":[`)
	for i := range 24 {
		if i > 0 {
			b.WriteString(", ")
		}
		prose := strings.Repeat(fmt.Sprintf("Line %d of the story says \\\"hello\\\" to the reader, who is in Zürich.\\n", i), 14)
		switch i % 3 {
		case 0:
			fmt.Fprintf(&b, `{"role":"user","content":[{"type":"text","text":"%s"}]}`, prose)
		case 1:
			fmt.Fprintf(&b, `{"role":"assistant","content":"%s","tool_calls":[{"id":"c%d","type":"function","function":{"name":"f","arguments":"{\"a\": %d}"}}]}`, prose, i, i)
		default:
			fmt.Fprintf(&b, `{"role":"tool","tool_call_id":"c%d","content":"%s"}`, i-1, prose)
		}
	}
	b.WriteString(`],"tools":[`)
	for i := range 40 {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"type": "function", "function": {"name": "tool_%d", "description": "Does the %dth thing", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 0}}, "required": ["path"]}}}`, i, i)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkScan(b *testing.B) {
	body := largeRequest()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := jsontext.Scan(body, 200); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeChat(b *testing.B) {
	body := largeRequest()
	lim := DefaultLimits()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeChat(body, lim); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeByType decodes the same body as DecodeChat with the decoder of
// jsontext.Decode, into a type that keeps the values as they were sent.
func BenchmarkDecodeByType(b *testing.B) {
	body := largeRequest()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var r struct {
			Model       string                `json:"model"`
			Stream      bool                  `json:"stream"`
			Temperature *float64              `json:"temperature"`
			Messages    []jsontext.RawMessage `json:"messages"`
			Tools       []jsontext.RawMessage `json:"tools"`
		}
		if err := jsontext.Decode(body, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChunkByType encodes the chunk of BenchmarkChunk with jsontext.Encode.
func BenchmarkChunkByType(b *testing.B) {
	type delta struct {
		Content string `json:"content"`
	}
	type choice struct {
		Index        int     `json:"index"`
		Delta        delta   `json:"delta"`
		Logprobs     *int    `json:"logprobs"`
		FinishReason *string `json:"finish_reason"`
		TokenIDs     []int32 `json:"token_ids"`
	}
	chunk := struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
	}{"chatcmpl-0123456789abcdef", "chat.completion.chunk", 1772900000, "weir-tiny", []choice{{Delta: delta{" hello"}}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsontext.Encode(&chunk); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	s := NewStream(Meta{ID: "chatcmpl-0123456789abcdef", Created: 1772900000, Model: "weir-tiny"}, Form{})
	c := Chunk{Content: " hello"}
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		dst = s.AppendChunk(dst[:0], &c)
	}
}

func BenchmarkChunkWithIDs(b *testing.B) {
	s := NewStream(Meta{ID: "chatcmpl-0123456789abcdef", Created: 1772900000, Model: "weir-tiny"}, Form{TokenIDs: true, ContinuousUsage: true})
	c := Chunk{Choice: 1, Content: " hello", TokenIDs: []int32{15339}, Usage: Usage{Prompt: 1000, Completion: 77}}
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		dst = s.AppendChunk(dst[:0], &c)
	}
}

func BenchmarkChunkWithLogprobs(b *testing.B) {
	s := NewStream(Meta{ID: "chatcmpl-0123456789abcdef", Created: 1772900000, Model: "weir-tiny"}, Form{})
	top := make([]TokenLogprob, 5)
	for i := range top {
		top[i] = TokenLogprob{ID: int32(i), Logprob: -1.25 * float32(i), Text: " word"}
	}
	c := Chunk{Content: " hello", HasLogprobs: true, Logprobs: []Logprob{{TokenLogprob: top[0], Top: top}}}
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		dst = s.AppendChunk(dst[:0], &c)
	}
}

func BenchmarkAppendString(b *testing.B) {
	s := strings.Repeat("All of this is prose, with a \"quote\" now and then.\n", 20)
	b.SetBytes(int64(len(s)))
	var dst []byte
	for b.Loop() {
		dst = AppendString(dst[:0], s)
	}
	if bytes.Count(dst, []byte("\\n")) != 20 {
		b.Fatal("lost lines")
	}
}
