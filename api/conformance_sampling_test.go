package api

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestC30C31Temperature(t *testing.T) {
	e := refuse(t, `"temperature":-0.5`, want{"temperature", ""})
	if e.Message != "temperature must be non-negative, got -0.5. (parameter=temperature, value=-0.5)" {
		t.Error(e.Message)
	}
	refuse(t, `"temperature":2.1`, want{"temperature", "temperature must be in [0, 2], got 2.1."})
	refuse(t, `"temperature":100000000000000000000`, want{"temperature", "got 1e+20."})
	if r := accept(t, `"temperature":2.0`); *r.Temperature != 2 {
		t.Error(*r.Temperature)
	}
	if r := accept(t, `"temperature":"0.5"`); *r.Temperature != 0.5 {
		t.Error("text that spells a number is a number")
	}
	if r := accept(t, `"temperature":-0.0,"n":1`); *r.Temperature != 0 {
		t.Error("-0")
	}
	if r := accept(t, `"temperature":null`); r.Temperature != nil {
		t.Error("null is the model's default")
	}
}

func TestC32TopP(t *testing.T) {
	e := refuse(t, `"top_p":0`, want{"top-p", ""})
	if e.Message != "top_p must be in (0, 1], got 0.0. (parameter=top_p, value=0.0)" {
		t.Error(e.Message)
	}
	refuse(t, `"top_p":-1`, want{"top-p", "got -1.0."})
	refuse(t, `"top_p":1.01`, want{"top-p", "got 1.01."})
	accept(t, `"top_p":1`)
	accept(t, `"top_p":0.0001`)
}

func TestC33TopK(t *testing.T) {
	refuse(t, `"top_k":-2`, want{"range", "top_k must be 0 (disable), or at least 1, got -2."})
	for v, k := range map[string]int{"-1": -1, "0": 0, "1": 1, "1000000000": 1e9, "1e9": 1e9} {
		if r := accept(t, `"top_k":`+v); *r.TopK != k {
			t.Error(v, *r.TopK)
		}
	}
}

func TestC34MinP(t *testing.T) {
	refuse(t, `"min_p":-0.1`, want{"range", "min_p must be in [0, 1], got -0.1."})
	refuse(t, `"min_p":1.1`, want{"range", "got 1.1."})
	accept(t, `"min_p":0`)
	accept(t, `"min_p":1`)
}

func TestC35Penalties(t *testing.T) {
	for _, f := range []string{"frequency_penalty", "presence_penalty"} {
		accept(t, `"`+f+`":2`)
		accept(t, `"`+f+`":-2.0`)
		refuse(t, `"`+f+`":2.1`, want{"range", f + " must be in [-2, 2], got 2.1."})
		refuse(t, `"`+f+`":-2.1`, want{"range", f})
	}
	if e := refuse(t, `"presence_penalty":3`, want{"range", ""}); e.Message != "presence_penalty must be in [-2, 2], got 3.0." {
		t.Error(e.Message)
	}
	r := accept(t, `"frequency_penalty":1.5,"presence_penalty":-1`)
	if r.FrequencyPenalty != 1.5 || r.PresencePenalty != -1 {
		t.Error("swapped")
	}
	if r := accept(t, `"length_penalty":-7`); r.LengthPenalty != -7 {
		t.Error("length_penalty takes any number")
	}
}

func TestC36RepetitionPenalty(t *testing.T) {
	refuse(t, `"repetition_penalty":0`, want{"range", "repetition_penalty must be greater than zero, got 0.0."})
	refuse(t, `"repetition_penalty":-1`, want{"range", "repetition_penalty"})
	accept(t, `"repetition_penalty":0.5`)
	accept(t, `"repetition_penalty":50`)
}

func TestC37N(t *testing.T) {
	refuse(t, `"n":0`, want{"range", "n must be at least 1, got 0."})
	refuse(t, `"n":2`, want{"range", "n must be 1 when using greedy sampling, got 2."})
	refuse(t, `"n":16385,"temperature":1`, want{"range", "n must be at most 16384, got 16385."})
	for v, n := range map[string]int{"2": 2, "16384": 16384, "null": 1} {
		if r := accept(t, `"temperature":1,"n":`+v); r.N != n {
			t.Error(v, r.N)
		}
	}
	accept(t, `"temperature":null,"n":2`) // the model's default may be greedy: the server's check
}

func TestC38Seed(t *testing.T) {
	for v, seed := range map[string]int{
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
		"9223372036854776000": math.MaxInt64, "-9223372036854776000": math.MinInt64, "9.223372036854776e18": math.MaxInt64, "9223372036854776000.0": math.MaxInt64,
		"0": 0, "1.0": 1, "-2": -2,
	} {
		if r := accept(t, `"seed":`+v); r.Seed == nil || *r.Seed != seed {
			t.Errorf("%s: %v", v, r.Seed)
		}
	}
	for _, v := range []string{"-1", "-1.0", "null"} {
		if r := accept(t, `"seed":`+v); r.Seed != nil {
			t.Errorf("%s: %d, want none", v, *r.Seed)
		}
	}
	for _, v := range []string{"9223372036854776001", "-9223372036854776001", "18446744073709551616", "1e30", "1.5", `"1"`} {
		refuse(t, `"seed":`+v, want{"schema", "seed"})
	}
}

func TestC39Stop(t *testing.T) {
	refuse(t, `"stop":""`, want{"range", "stop cannot contain an empty string."})
	refuse(t, `"stop":["a",""]`, want{"range", "stop cannot contain an empty string."})
	refuse(t, `"stop":5`, want{"schema", "stop"})
	refuse(t, `"stop":["a",5]`, want{"schema", "stop[1]"})
	if r := accept(t, `"stop":[`+strings.Repeat(`"x",`, 19)+`"y"]`); len(r.Stop) != 20 || r.Stop[19] != "y" {
		t.Error(r.Stop)
	}
	if r := accept(t, `"stop":" "`); !reflect.DeepEqual(r.Stop, []string{" "}) {
		t.Error(r.Stop)
	}
	accept(t, `"stop":[]`)
}

func TestC40MinTokens(t *testing.T) {
	refuse(t, `"min_tokens":-1`, want{"min-tokens", "min_tokens must be greater than or equal to 0, got -1."})
	refuse(t, `"min_tokens":10`, want{"min-tokens", "min_tokens must be less than or equal to max_tokens=5, got 10."})
	refuse(t, `"min_tokens":3,"max_completion_tokens":2`, want{"min-tokens", "max_tokens=2"})
	if r := accept(t, `"min_tokens":5`); r.MinTokens != 5 {
		t.Error(r.MinTokens)
	}
	accept(t, `"min_tokens":6,"max_tokens":null`)
}

func TestC41MaxTokens(t *testing.T) {
	e := refuse(t, `"max_tokens":0`, want{"max-tokens", ""})
	if e.Message != "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)" {
		t.Error(e.Message)
	}
	refuse(t, `"max_tokens":-1`, want{"max-tokens", "got -1."})
	refuse(t, `"max_completion_tokens":0`, want{"max-tokens", "got 0."})
}

func TestC42MaxCompletionTokensWins(t *testing.T) {
	for _, f := range []string{`"max_tokens":5,"max_completion_tokens":2`, `"max_tokens":-1,"max_completion_tokens":2`} {
		n, ok := accept(t, f).MaxOutput()
		if n != 2 || !ok {
			t.Error(f, n, ok)
		}
	}
	if n, ok := accept(t, `"max_completion_tokens":null`).MaxOutput(); n != 5 || !ok {
		t.Error(n, ok)
	}
	if _, ok := accept(t, `"max_tokens":null`).MaxOutput(); ok {
		t.Error("no limit was set")
	}
}

func TestC44Lengths(t *testing.T) {
	for e, text := range map[*Error]string{
		ErrContextLength(4096, 4097): "This model's maximum context length is 4096 tokens. However, your prompt contains 4097 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=4097)",
		ErrTruncate(9, 8):            "truncate_prompt_tokens=9 cannot be greater than max_model_len = 8. Please request a smaller truncation size. (parameter=truncate_prompt_tokens, value=9)",
	} {
		if e.Message != text || e.Status != 400 || e.Type != TypeBadRequest {
			t.Errorf("%+v", e)
		}
	}
}

func TestC46Truncate(t *testing.T) {
	refuse(t, `"truncate_prompt_tokens":-2`, want{"schema", "truncate_prompt_tokens"})
	for v, n := range map[string]int{"-1": -1, "0": 0, "3": 3, "9223372036854775807": math.MaxInt64, "9223372036854776000": math.MaxInt64} {
		if r := accept(t, `"truncate_prompt_tokens":`+v); *r.TruncatePrompt != n {
			t.Error(v, *r.TruncatePrompt)
		}
	}
	refuse(t, `"truncate_prompt_tokens":9223372036854776001`, want{"schema", "truncate_prompt_tokens"})
	refuse(t, `"truncate_prompt_tokens":-9223372036854776000`, want{"schema", "truncate_prompt_tokens"})
	if e := ErrEmptyPrompt(); e.Status != 400 || e.Message != "The decoder prompt cannot be empty" {
		t.Errorf("%+v", e)
	}
}

func TestC47LogitBias(t *testing.T) {
	refuse(t, `"logit_bias":{"abc":1}`, want{"range", "logit_bias"})
	refuse(t, `"logit_bias":{"1.5":1}`, want{"range", "logit_bias"})
	refuse(t, `"logit_bias":{"5":"abc"}`, want{"schema", "logit_bias.5"})
	refuse(t, `"logit_bias":{"5":null}`, want{"schema", "logit_bias.5"})
	refuse(t, `"logit_bias":[1]`, want{"schema", "logit_bias"})
	r := accept(t, `"logit_bias":{"7":-1000,"5":1000,"-3":0.5,"7":-2,"05":3}`)
	if !reflect.DeepEqual(r.LogitBias, []TokenBias{{-3, 0.5}, {5, 3}, {7, -2}}) {
		t.Error(r.LogitBias)
	}
	if r := accept(t, `"logit_bias":{"5":1000,"6":-1000}`); !reflect.DeepEqual(r.LogitBias, []TokenBias{{5, 100}, {6, -100}}) {
		t.Error(r.LogitBias)
	}
	if r := accept(t, `"logit_bias":{}`); len(r.LogitBias) != 0 {
		t.Error(r.LogitBias)
	}
	if e := ErrLogitBias([]int{7, 9}, 5); e.Message != "token_id(s) [7, 9] in logit_bias contain out-of-vocab token ids. Vocabulary size: 5 (parameter=logit_bias, value=[7, 9])" {
		t.Error(e.Message)
	}
}

func TestC48AllowedTokenIDs(t *testing.T) {
	refuse(t, `"allowed_token_ids":[]`, want{"allowed-token-ids", "allowed_token_ids is not None and empty!"})
	refuse(t, `"allowed_token_ids":["7"]`, want{"schema", "allowed_token_ids[0]"})
	if r := accept(t, `"allowed_token_ids":[7]`); !reflect.DeepEqual(r.AllowedTokenIDs, []int{7}) {
		t.Error(r.AllowedTokenIDs)
	}
	if r := accept(t, `"allowed_token_ids":null`); r.AllowedTokenIDs != nil {
		t.Error("null is all")
	}
	if r := accept(t, `"stop_token_ids":[1,2.0,-5]`); !reflect.DeepEqual(r.StopTokenIDs, []int{1, 2, -5}) {
		t.Error(r.StopTokenIDs)
	}
	refuse(t, `"stop_token_ids":[1.5]`, want{"schema", "stop_token_ids[0]"})
}

func TestC49BadWords(t *testing.T) {
	refuse(t, `"bad_words":null`, want{"schema", "bad_words"})
	refuse(t, `"bad_words":[""]`, want{"range", "bad_words cannot contain an empty string."})
	refuse(t, `"bad_words":["a"," \t"]`, want{"range", "bad_words"})
	refuse(t, `"bad_words":"a"`, want{"schema", "bad_words"})
	if r := accept(t, `"bad_words":["a"," b"]`); !reflect.DeepEqual(r.BadWords, []string{"a", " b"}) {
		t.Error(r.BadWords)
	}
}
