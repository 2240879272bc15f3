package openai_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/server/servertest"
)

// The rows of docs/interface/chat-completions.md, section 21.4, with a model whose output is
// given. Package scheduler tests the rules about token ids alone (C100 to C104).

// outcome is one choice, from an answer or from a stream.
type outcome struct {
	text, finish, stop string
	ids                []int32
	completion         int
}

func (st *scriptedServer) ask(t *testing.T, fields map[string]any) outcome {
	t.Helper()
	all := map[string]any{"max_tokens": 40, "return_token_ids": true}
	for k, v := range fields {
		all[k] = v
	}
	c := st.Complete(t, all)
	ch := c.Choices[0]
	whole := outcome{*ch.Message.Content, ch.FinishReason, string(ch.StopReason), ch.TokenIDs, c.Usage.Completion}

	// A stream says the same (C136).
	all["stream_options"] = map[string]any{"include_usage": true}
	var got outcome
	for _, c := range st.Streamed(t, all) {
		if len(c.Choices) == 0 {
			got.completion = c.Usage.Completion
			continue
		}
		ch := c.Choices[0]
		got.text += servertest.Text(c)
		got.ids = append(got.ids, ch.TokenIDs...)
		if ch.FinishReason != nil {
			got.finish, got.stop = *ch.FinishReason, string(ch.StopReason)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(whole) {
		t.Errorf("%v streamed\n%+v\nat once\n%+v", fields, got, whole)
	}
	return whole
}

func check(t *testing.T, what string, got outcome, text, finish, stop string, ids []int32) {
	t.Helper()
	if got.text != text || got.finish != finish || got.stop != stop || !slices.Equal(got.ids, ids) || got.completion != len(ids) {
		t.Errorf("%s: %+v\nwant %q, %s by %s, %v", what, got, text, finish, stop, ids)
	}
}

func TestC90NaturalEnd(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	ids := st.setOutput("It is done.", servertest.EndOfTurn)
	check(t, "end of turn", st.ask(t, nil), "It is done.", "stop", "null", ids)
	// A secondary end token shows as a stop id would (docs/interface/chat-completions.md, section 5.1).
	ids = st.setOutput("It is done.", servertest.EndOfText)
	check(t, "end of text", st.ask(t, nil), "It is done.", "stop", fmt.Sprint(servertest.EndOfText), ids)
}

func TestC91StopTokenIDs(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	ids := st.setOutput("one two", 700, "three")
	cut := ids[:slices.Index(ids, 700)+1]
	fields := map[string]any{"stop_token_ids": []int{700, 3000}}
	check(t, "without its text", st.ask(t, fields), "one two", "stop", "700", cut)
	fields["include_stop_str_in_output"] = true
	check(t, "with its text", st.ask(t, fields), "one two"+servertest.TextOf(servertest.Tokenizer(), 700), "stop", "700", cut)
	// min_tokens suspends it, and its logit is forbidden until then (docs/interface/chat-completions.md, section 5.3).
	fields["min_tokens"] = len(cut) + 1
	if got := st.ask(t, fields); got.stop == "700" {
		t.Errorf("stopped below min_tokens: %+v", got)
	}
}

func TestC92StopString(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	ids := st.setOutput("The sky is blue today, and so is the sea.")
	end := 0
	for !strings.Contains(decode(ids[:end]), "blue") {
		end++
	}
	fields := map[string]any{"stop": []string{"green", "blue"}}
	check(t, "cut before it", st.ask(t, fields), "The sky is ", "stop", `"blue"`, ids[:end])
	fields["include_stop_str_in_output"] = true
	check(t, "cut after it", st.ask(t, fields), "The sky is blue", "stop", `"blue"`, ids[:end])
	fields = map[string]any{"stop": "blue"}
	check(t, "a string is a list of one", st.ask(t, fields), "The sky is ", "stop", `"blue"`, ids[:end])
}

func TestC93StopInsideAToken(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	st.setOutput("organization")
	if got := st.ask(t, map[string]any{"stop": []string{"gani"}}); got.text != "or" || got.stop != `"gani"` {
		t.Errorf("%+v", got)
	}
	// A stop string within one token of the vocabulary.
	for id := int32(servertest.Vocabulary - 1); ; id-- {
		if s := servertest.TextOf(servertest.Tokenizer(), id); len(s) >= 6 && utf8.ValidString(s) && !servertest.Tokenizer().IsSpecial(id) {
			st.setOutput(int(id), servertest.EndOfTurn)
			check(t, s, st.ask(t, map[string]any{"stop": []string{s[2:4]}}), s[:strings.Index(s, s[2:4])], "stop", quoted(s[2:4]), []int32{id})
			return
		}
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestC94StopOverTokens(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	ids := st.setOutput("a b", singles(t, "cdefg"))
	at := len(ids) - 5 + 3 // the tokens up to "e"
	check(t, "two tokens", st.ask(t, map[string]any{"stop": []string{"de"}}), "a bc", "stop", `"de"`, ids[:at])
	check(t, "the last token allowed", st.ask(t, map[string]any{"stop": []string{"de"}, "max_tokens": at}), "a bc", "stop", `"de"`, ids[:at])
	check(t, "one token too few", st.ask(t, map[string]any{"stop": []string{"de"}, "max_tokens": at - 1}), "a bcd", "length", "null", ids[:at-1])
}

func TestC95TwoStopStringsInOneToken(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	for id := int32(servertest.Vocabulary - 1); ; id-- {
		s := servertest.TextOf(servertest.Tokenizer(), id)
		if len(s) < 6 || !utf8.ValidString(s) || servertest.Tokenizer().IsSpecial(id) || strings.Index(s, s[4:5]) != 4 || strings.Index(s, s[1:3]) != 1 {
			continue
		}
		st.setOutput(int(id))
		early, late := s[1:3], s[4:5]
		for _, stop := range [][]string{{early, late}, {late, early}} {
			check(t, fmt.Sprint(stop), st.ask(t, map[string]any{"stop": stop}), s[:1], "stop", quoted(early), []int32{id})
		}
		// One end: the first in the list.
		for _, stop := range [][]string{{s[1:5], s[2:5]}, {s[2:5], s[1:5]}} {
			check(t, fmt.Sprint(stop), st.ask(t, map[string]any{"stop": stop}), s[:strings.Index(s, stop[0])], "stop", quoted(stop[0]), []int32{id})
		}
		return
	}
}

func TestC96MinTokensAndStopStrings(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	ids := st.setOutput(singles(t, "eexexyezzz"))
	for min, want := range map[int]string{0: "", 1: "e", 2: "eex", 5: "eexexy", 6: "eexexy"} {
		n := len(want) + 1
		check(t, fmt.Sprint("min_tokens ", min), st.ask(t, map[string]any{"min_tokens": min, "stop": "e"}), want, "stop", `"e"`, ids[:n])
	}
	// A stop string that begins before min_tokens and ends after it counts (docs/interface/chat-completions.md, section 5.3).
	check(t, "begins below", st.ask(t, map[string]any{"min_tokens": 5, "stop": "exy"}), "eex", "stop", `"exy"`, ids[:6])
}

func TestC97IgnoreEOS(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	ids := st.setOutput("so", servertest.EndOfTurn, servertest.EndOfText, "on")
	got := st.ask(t, map[string]any{"ignore_eos": true, "max_tokens": 20})
	if got.finish != "length" || got.completion != 20 || !slices.Equal(got.ids[:len(ids)], ids) || !strings.HasPrefix(got.text, "soon") {
		t.Errorf("%+v", got)
	}
	// The request's own stop ids still work.
	check(t, "stop_token_ids", st.ask(t, map[string]any{"ignore_eos": true, "stop_token_ids": []int{servertest.EndOfText}}), "so", "stop", fmt.Sprint(servertest.EndOfText), ids[:len(ids)-1])
}

func TestC98StopStringInThePrompt(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	ids := st.setOutput("fine", servertest.EndOfTurn)
	check(t, "the prompt", st.ask(t, map[string]any{"messages": servertest.UserSays("say STOP please"), "stop": []string{"STOP", "please"}}), "fine", "stop", "null", ids)
	// Nor does a stop string begin in the prompt and end in the output.
	check(t, "over the edge", st.ask(t, map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": "x"}, map[string]any{"role": "assistant", "content": "ST"}}, "continue_final_message": true, "stop": []string{"STf"}}),
		"fine", "stop", "null", ids)
}

func TestC99HoldBack(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	produced := "xxab abc é🦀abc abcd never"
	st.setOutput(singles(t, produced))
	var out, all strings.Builder
	for _, c := range st.Streamed(t, map[string]any{"stop": "abcd", "max_tokens": 60, "return_token_ids": true}) {
		ch := c.Choices[0]
		out.WriteString(servertest.Text(c))
		if ch.Delta["role"] != nil || ch.FinishReason != nil {
			continue
		}
		all.WriteString(decode(ch.TokenIDs))
		whole := all.String()
		for !utf8.ValidString(whole) {
			whole = whole[:len(whole)-1] // bytes of an incomplete character
		}
		if missing := utf8.RuneCountInString(whole) - utf8.RuneCountInString(out.String()); missing < 3 && missing < utf8.RuneCountInString(whole) {
			t.Errorf("%q is only %d characters shorter than %q", out.String(), missing, whole)
		}
		if ch.Delta["content"] == nil {
			t.Errorf("no content in %v", ch.Delta)
		}
	}
	if want := "xxab abc é🦀abc "; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if got := st.ask(t, map[string]any{"stop": "abcd", "max_tokens": 60}); got.text != out.String() {
		t.Errorf("%q", got.text)
	}
}

func TestC105Repetition(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	loop := slices.Repeat([]int32{700, 701, 702}, 10)
	st.setOutput(loop)
	check(t, "three copies", st.ask(t, map[string]any{"repetition_detection": map[string]any{"max_pattern_size": 3, "min_pattern_size": 2, "min_count": 3}}),
		decode(loop[:9]), "repetition", `"repetition_detected"`, loop[:9])
	// A stop string on the same token wins (docs/interface/chat-completions.md, section 5.5).
	last := servertest.TextOf(servertest.Tokenizer(), 702)
	check(t, "a stop string", st.ask(t, map[string]any{"min_tokens": 8, "stop": last, "repetition_detection": map[string]any{"max_pattern_size": 3, "min_count": 3}}),
		strings.TrimSuffix(decode(loop[:9]), last), "stop", quoted(last), loop[:9])
}

func TestC106SplitEmoji(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	crab := singles(t, "🦀")
	ids := st.setOutput("a", crab, "b", servertest.EndOfTurn)
	check(t, "whole", st.ask(t, nil), "a🦀b", "stop", "null", ids)
	var pieces []string
	for _, c := range st.Streamed(t, map[string]any{"max_tokens": 40}) {
		if c.Choices[0].Delta["role"] == nil {
			pieces = append(pieces, servertest.Text(c))
		}
	}
	if want := []string{"a", "", "", "", "🦀", "b", ""}; !slices.Equal(pieces, want) {
		t.Errorf("%q, want %q", pieces, want)
	}
}

func TestC107CutCharacter(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	ids := st.setOutput("a", singles(t, "🦀"))
	for n := 1; n <= 4; n++ {
		check(t, fmt.Sprint(n, " bytes"), st.ask(t, map[string]any{"max_tokens": n}), "a", "length", "null", ids[:n])
	}
	check(t, "all", st.ask(t, map[string]any{"max_tokens": 5}), "a🦀", "length", "null", ids)
}

func TestC108SpecialTokens(t *testing.T) {
	t.Parallel()
	st := newScripted(t, nil)
	start, ok := servertest.Tokenizer().ID("<|im_start|>")
	if !ok {
		t.Fatal("no <|im_start|>")
	}
	ids := st.setOutput("a", int(start), "b", servertest.EndOfTurn)
	check(t, "skipped", st.ask(t, nil), "ab", "stop", "null", ids)
	check(t, "kept", st.ask(t, map[string]any{"skip_special_tokens": false}), "a<|im_start|>b", "stop", "null", ids)
	check(t, "the stopping one too", st.ask(t, map[string]any{"skip_special_tokens": false, "include_stop_str_in_output": true}), "a<|im_start|>b<|im_end|>", "stop", "null", ids)
	// Stop strings are searched in the visible text (docs/interface/chat-completions.md, section 5.4).
	check(t, "not seen", st.ask(t, map[string]any{"stop": "<|im_start|>"}), "ab", "stop", "null", ids)
	check(t, "seen", st.ask(t, map[string]any{"stop": "<|im_start|>", "skip_special_tokens": false}), "a", "stop", `"<|im_start|>"`, ids[:2])
}
