package openai_test

import (
	"encoding/json"
	"fmt"
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
	choices, _ := st.call(t, map[string]any{"n": 3, "temperature": 1})
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
	var parts map[string]json.RawMessage
	var added []map[string]any
	if err := json.Unmarshal(data, &parts); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(parts["added_tokens"], &added); err != nil {
		t.Fatal(err)
	}
	for _, token := range added {
		if strings.Contains(token["content"].(string), "tool_call>") {
			token["special"] = true
		}
	}
	if parts["added_tokens"], err = json.Marshal(added); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(parts); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(data)
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
	var ids []string
	for _, stream := range []bool{false, true} {
		fields := map[string]any{"tools": callTools, "seed": servertest.ScriptSeed, "max_tokens": 100, "stream": stream, "model": "tiny"}
		status, answer, _ := h.Get("POST", servertest.ChatPath, servertest.Body(t, fields), "Compat-Project: acme/calls")
		_, id, ok := strings.Cut(answer, `"id":"call_`)
		if status != 200 || !ok {
			t.Fatalf("%d: %s", status, answer)
		}
		id, _, _ = strings.Cut(id, `"`)
		ids = append(ids, "call_"+id)
	}
	for i, e := range h.Recorded(t, "tiny", 2) {
		messages := e["messages"].([]any)
		m := messages[len(messages)-1].(map[string]any)
		got, err := json.Marshal(m["tool_calls"])
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`[{"function":{"arguments":"{\"word\": \"weir\"}","name":"look_up"},"id":%q,"type":"function"}]`, ids[i])
		if string(got) != want || m["content"] != "Well." || m["finish_reason"] != "tool_calls" {
			t.Errorf("%s, %v, %v, want %s", got, m["content"], m["finish_reason"], want)
		}
	}
}
