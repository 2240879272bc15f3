package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/testkit"
)

// samples has at least one error of every row of the error table.
func samples(t *testing.T) map[string][]*Error {
	refused := func(fields string) *Error {
		t.Helper()
		_, err := check(with(fields))
		if err == nil {
			t.Fatalf("%s: accepted", fields)
		}
		return err
	}
	text := func(fields string) *Error {
		t.Helper()
		_, err := checkText([]byte(`{` + fields + `}`))
		if err == nil {
			t.Fatalf("%s: accepted", fields)
		}
		return err
	}
	return map[string][]*Error{
		"logprobs":             {text(`"prompt":"x","logprobs":-2`)},
		"prompt":               {text(`"prompt":""`), text(`"prompt":["a","b","c"],"n":1000`)},
		"prompt-token-ids":     {ErrPromptIDs([]int{512, 513}, 512)},
		"task":                 {ErrTask("The model x does not support the Embeddings API: it generates.")},
		"dimensions":           {ErrDimensions(9, "The vectors of this model have 8 dimensions.")},
		"suffix":               {text(`"prompt":"x","suffix":""`)},
		"content-type":         {ErrContentType()},
		"syntax":               {refused(`"x":`), refused(`"temperature":NaN`)},
		"schema":               {refused(`"temperature":"abc"`), refused(`"messages":null`), refused(`"cache_salt":""`)},
		"top-logprobs":         {refused(`"top_logprobs":1`), refused(`"top_logprobs":-2`)},
		"prompt-logprobs":      {refused(`"prompt_logprobs":-2`), refused(`"prompt_logprobs":1,"stream":true`)},
		"stream-options":       {refused(`"stream_options":{"include_usage":true}`)},
		"json-schema-missing":  {refused(`"response_format":{"type":"json_schema"}`)},
		"model-not-found":      {ErrModelNotFound("nope"), ErrModelNotFound(strings.Repeat("x", 300))},
		"tool-choice":          {refused(`"tool_choice":"required"`), ErrUnknownCalls()},
		"tools":                {ErrTool("f", "has parameters that cannot be kept: x"), ErrTools("x")},
		"template":             {ErrTemplate("Conversation roles must alternate")},
		"messages":             {refused(`"messages":[]`), refused(`"messages":[{"role":"user","content":[{"type":"x"}]}]`)},
		"part-not-implemented": {refused(`"messages":[{"role":"user","content":[{"type":"file"}]}]`)},
		"not-multimodal":       {ErrNotMultimodal("weir-tiny")},
		"project":              {ErrProject("no slash")},
		"priority":             {ErrPriority(-3)},
		"input-text":           {ErrCharacters(4096, 200000, 122880)},
		"too-complex":          {ErrTooComplex()},
		"context-length":       {ErrContextLength(4096, 4097)},
		"logprob-tokens":       {refused(`"logprob_token_ids":[1]`)},
		"logprob-token-ids":    {ErrLogprobTokens(129, 128), ErrLogprobTokenIDs([]int{9}, 8)},
		"truncate":             {ErrTruncate(5000, 4096)},
		"empty-prompt":         {ErrEmptyPrompt()},
		"range":                {refused(`"top_k":-2`), refused(`"n":0`), ErrGreedyN(2)},
		"temperature":          {refused(`"temperature":-0.5`), refused(`"temperature":3`)},
		"top-p":                {refused(`"top_p":1.5`)},
		"max-tokens":           {ErrMaxTokens(0)},
		"min-tokens":           {ErrMinTokens(5, 10), refused(`"min_tokens":-1`)},
		"max-logprobs":         {ErrMaxLogprobs(21, 20)},
		"max-prompt-logprobs":  {ErrMaxPromptLogprobs(25, 20)},
		"logit-bias":           {ErrLogitBias([]int{-1, 512}, 512), ErrLogitBias(make([]int, 100), 0)},
		"allowed-token-ids":    {refused(`"allowed_token_ids":[]`), ErrAllowedTokenID([]int{512})},
		"stop-token-ids":       {ErrStopTokenIDs([]int{512}, 512)},
		"bad-words":            {ErrBadWord("漢")},
		"constraint":           {ErrConstraint(ConstraintRegex, "missing )"), ErrConstraint(ConstraintGrammar, ""), refused(`"structured_outputs":{"json_object":false}`)},
		"permission":           {ErrPermission("This key may not use this model.")},
		"too-large":            {ErrTooLarge(33554432)},
		"internal":             {ErrInternal()},
		"unavailable":          {ErrUnavailable("The queue is full.")},
	}
}

// TestErrorBodies holds every body byte for byte, in the order of the table.
func TestErrorBodies(t *testing.T) {
	all := samples(t)
	var out strings.Builder
	for _, r := range ErrorTable() {
		list := all[r.Name]
		if len(list) == 0 {
			t.Errorf("no sample of %s", r.Name)
		}
		fmt.Fprintf(&out, "# %s: %d %s, param %q, stage %d: %s\n", r.Name, r.Status, r.Type, r.Param, r.Stage, r.When)
		for _, e := range list {
			param := ""
			if e.Param != nil {
				param = *e.Param
			}
			if e.Status != r.Status || e.Code != r.Status || e.Type != r.Type || param != r.Param {
				t.Errorf("%s: %+v, want the row %+v", r.Name, e, r)
			}
			if (param != "") != strings.Contains(e.Message, "(parameter="+param) && r.Name != "model-not-found" {
				t.Errorf("%s: the suffix of %q", r.Name, e.Message)
			}
			out.Write(append(e.AppendJSON(nil), '\n'))
			out.Write(e.AppendEvent(nil))
		}
		delete(all, r.Name)
	}
	for name := range all {
		t.Errorf("%s is not in the table", name)
	}
	out.WriteString(UnauthorizedBody + "\n" + NotFoundBody + "\n" + MethodNotAllowedBody + "\n")
	testkit.Golden(t, "testdata/errors.golden", []byte(out.String()))
}

func TestErrorIsJSON(t *testing.T) {
	param := "a\"b"
	e := &Error{Status: 400, Code: 400, Type: "T\n", Message: "é 😀 \u2028 \x00 \xff \" \\", Param: &param}
	for _, b := range [][]byte{e.AppendJSON(nil), e.AppendEvent(nil)} {
		s, event := strings.CutPrefix(string(b), "data: ")
		var got struct {
			Error struct {
				Message, Type, Param string
				Code                 int
			}
		}
		if err := json.Unmarshal([]byte(s), &got); err != nil {
			t.Fatal(err)
		}
		if got.Error.Message != "é 😀 \u2028 \x00 \uFFFD \" \\" || got.Error.Type != "T\n" || got.Error.Param != param || got.Error.Code != 400 {
			t.Errorf("%s: %+v", b, got)
		}
		if event && (!strings.HasSuffix(s, "}}\n\n") || strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0) {
			t.Errorf("%q: want ASCII and a blank line", b)
		}
	}
	if e.Error() == "" {
		t.Error("no text")
	}
}

func TestPythonFloat(t *testing.T) {
	for x, want := range map[float64]string{0: "0.0", 1.5: "1.5", -0.5: "-0.5", 3: "3.0", 1e15: "1000000000000000.0", 1e16: "1e+16", 1e-4: "0.0001", 1e-5: "1e-05", 1.2e300: "1.2e+300", -2.1: "-2.1"} {
		if got := pythonFloat(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

// TestMessagesAreBounded: what a client sends comes back cut short.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("漢", 10_000)
	for _, f := range []string{`"reasoning_effort":"` + long + `"`, `"tool_choice":"` + long + `"`, `"logit_bias":{"` + long + `":1}`, `"engine_xargs":{"` + long + `":null}`,
		`"messages":[{"role":"` + long + `","content":null}]`, `"messages":[{"role":"user","content":[{"type":"` + long + `"}]}]`, `"temperature":"` + long + `"`, `"seed":` + strings.Repeat("9", 10_000),
		`"structured_outputs":{"` + long + `":1}`, `"response_format":{"type":"` + long + `"}`} {
		_, err := check(with(f))
		if err == nil || len(err.Message) > 500 || !utf8.ValidString(err.Message) || strings.ContainsRune(err.Message, utf8.RuneError) {
			t.Errorf("%.40s: %v", f, err)
		}
	}
}
