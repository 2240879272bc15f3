package openai_test

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"weir/chat/reasoning"
	"weir/models"
	"weir/server/servertest"
	"weir/tokenizer"
)

// TestCallsOfSeveralChoices: each of n choices has its own calls with ids of their own, whole and
// in a stream.
func TestCallsOfSeveralChoices(t *testing.T) {
	st := newScripted(t, withTemplate(hermes, reasoning.None))
	st.setOutput("So: "+lookUp+"\n"+addUp, servertest.EndOfTurn)
	choices, _ := st.call(t, map[string]any{"n": 3})
	seen := map[string]bool{}
	for i := range choices {
		choices[i].says(t, "a choice", "tool_calls", `"So:"`, `look_up{"word": "weir"}`, `add{"a": 1, "b": 2}`)
		for _, c := range choices[i].calls {
			seen[c.ID] = true
		}
	}
	if len(choices) != 3 || len(seen) != 6 {
		t.Errorf("%d choices whose calls have %d ids", len(choices), len(seen))
	}
}

// specialMarks is the tests' tokenizer with the marks of calls as special tokens.
func specialMarks(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	data, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	rest := string(data)
	for _, mark := range []string{`"<tool_call>"`, `"</tool_call>"`} {
		before, after, ok := strings.Cut(rest, `"content": `+mark)
		if !ok {
			if before, after, ok = strings.Cut(rest, `"content":`+mark); !ok {
				t.Fatalf("no token %s", mark)
			}
		}
		at := strings.Index(after, "false}")
		if i := strings.Index(after, `"special": false`); i >= 0 {
			at = i + len(`"special": `)
		} else if i := strings.Index(after, `"special":false`); i >= 0 {
			at = i + len(`"special":`)
		}
		b.WriteString(before + `"content":` + mark + after[:at] + "true")
		rest = after[at+len("false"):]
	}
	b.WriteString(rest)
	tok, err := tokenizer.Load(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	id, ok := tok.ID("<tool_call>")
	if !ok || !tok.IsSpecial(id) {
		t.Fatal("the mark is no special token")
	}
	return tok
}

// TestCallMarksThatAreSpecial: skip_special_tokens, which is on by default, leaves the marks of
// calls in the text where calls are read, and out of it where they are not.
func TestCallMarksThatAreSpecial(t *testing.T) {
	tok := specialMarks(t)
	st := newScripted(t, func(s *servertest.Setup) {
		withTemplate(hermes, reasoning.None)(s)
		s.Model.Tokenizer, s.EngineConfig.Tokenizer = tok, tok
	})
	ids, err := tok.Encode(nil, "Well.\n"+lookUp+"\n"+addUp, false)
	if err != nil {
		t.Fatal(err)
	}
	st.setOutput(ids, servertest.EndOfTurn)
	for _, c := range []map[string]any{nil, {"tool_choice": "required"}, {"skip_special_tokens": false}} {
		if c["tool_choice"] == "required" {
			if ids, err = tok.Encode(nil, lookUp+"\n"+addUp, false); err != nil {
				t.Fatal(err)
			}
			st.setOutput(ids, servertest.EndOfTurn)
		}
		choices, _ := st.call(t, c)
		if got := len(choices[0].calls); got != 2 || choices[0].finish != "tool_calls" {
			t.Errorf("%v: %s", c, &choices[0])
		}
	}
	choices, _ := st.call(t, map[string]any{"tool_choice": "none"})
	if content := text(choices[0].content); len(choices[0].calls) > 0 || strings.Contains(content, "tool_call>") || !strings.Contains(content, "look_up") {
		t.Errorf("none: %s", &choices[0])
	}
}

// TestRecordedCalls: the trajectory of a completion has its calls, with the ids of the answer.
func TestRecordedCalls(t *testing.T) {
	h, _ := servertest.NewRecording(t, func(s *servertest.Setup) {
		withTemplate(hermes, reasoning.None)(s)
		s.Script = [][]int32{servertest.Encode("Well.\n"+lookUp, false)}
	})
	for _, stream := range []bool{false, true} {
		fields := map[string]any{"tools": callTools, "seed": servertest.ScriptSeed, "max_tokens": 100, "stream": stream, "model": "tiny"}
		status, answer, _ := h.Get("POST", servertest.ChatPath, servertest.Body(t, fields), "Compat-Project: acme/calls")
		if status != 200 || !strings.Contains(answer, "look_up") {
			t.Fatalf("%d: %s", status, answer)
		}
	}
	t.Log(h.Recorded(t, "tiny", 2))
}
