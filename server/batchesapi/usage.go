package batchesapi

import (
	"strconv"

	"weir/internal/jsontext"
)

// usage are the tokens of the answers of a batch.
type usage struct{ Input, Cached, Output, Reasoning int64 }

func (u *usage) add(v usage) {
	u.Input += v.Input
	u.Cached += v.Cached
	u.Output += v.Output
	u.Reasoning += v.Reasoning
}

// append appends the usage object.
func (u *usage) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), u.Input, 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached, 10)
	dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), u.Output, 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), u.Input+u.Output, 10)
	return append(dst, '}')
}

// usageOf reads the usage of an answer: a response names its tokens input_tokens and output_tokens,
// chats, completions and vectors name them prompt_tokens and completion_tokens, and some scores have
// only total_tokens. An answer without one, such as an error, has used nothing.
func usageOf(body jsontext.Value) (u usage) {
	if body.Kind() != jsontext.Object {
		return u
	}
	v := body.Member("usage")
	if !v.Given() || v.Kind() != jsontext.Object {
		return u
	}
	var in, out, total int64
	var inDetails, outDetails jsontext.Value
	for name, m := range v.Members() {
		switch string(name) {
		case "input_tokens", "prompt_tokens":
			in = tokens(m)
		case "output_tokens", "completion_tokens":
			out = tokens(m)
		case "total_tokens":
			total = tokens(m)
		case "input_tokens_details", "prompt_tokens_details":
			inDetails = m
		case "output_tokens_details", "completion_tokens_details":
			outDetails = m
		}
	}
	return usage{Input: max(in, total-out), Output: out, Cached: detail(inDetails, "cached_tokens"), Reasoning: detail(outDetails, "reasoning_tokens")}
}

// usageIn reads the usage in a line of a file of results.
func usageIn(line []byte) usage {
	v := jsontext.Trim(line)
	if v.Kind() != jsontext.Object {
		return usage{}
	}
	response := v.Member("response")
	if !response.Given() || response.Kind() != jsontext.Object {
		return usage{}
	}
	return usageOf(response.Member("body"))
}

func detail(v jsontext.Value, name string) int64 {
	if !v.Given() || v.Kind() != jsontext.Object {
		return 0
	}
	return tokens(v.Member(name))
}

// tokens reads a number of tokens; 0 for everything else.
func tokens(v jsontext.Value) int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
