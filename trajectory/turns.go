package trajectory

import (
	"bytes"
	"strings"

	"weir/internal/jsontext"
)

// Parts are the members of a trajectory, as received; nil is absent.
type Parts struct {
	Turns, Tools, Histories, Metrics, Metadata, Logs, Exchanges Value
}

// Take finds the members of a trajectory. Of those that are there twice the
// last one counts.
func Take(text Value, pace Pace) (p Parts) {
	for key, v := range text.PacedMembers(pace) {
		switch string(key) {
		case "messages_and_choices":
			p.Turns = v
		case "tools":
			p.Tools = v
		case "additional_histories":
			p.Histories = v
		case "metrics":
			p.Metrics = v
		case "metadata":
			p.Metadata = v
		case "logs":
			p.Logs = v
		case "exchanges":
			p.Exchanges = v
		}
	}
	return p
}

// Turn is one element of messages_and_choices.
type Turn struct {
	Message  Value // with role and content; of a choice its message
	Choice   bool  // made by the model that is trained
	Finish   Value // of a choice: finish_reason
	Logprobs Value // of a choice, nil: none
	TokenIDs Value // of a choice, nil: none
}

// Turns are the turns of a messages_and_choices list; none for nil.
func Turns(list Value, pace Pace) (turns []Turn) {
	if list == nil {
		return nil
	}
	for _, e := range list.PacedElements(pace) {
		t := Turn{Message: e}
		var message Value
		for key, v := range e.PacedMembers(pace) {
			switch string(key) {
			case "message":
				message = v
			case "finish_reason":
				t.Finish = v
			case "logprobs":
				t.Logprobs = v
			case "token_ids":
				t.TokenIDs = v
			}
		}
		if message != nil && message.Kind() == jsontext.Object && t.Finish != nil {
			t.Message, t.Choice = message, true
		} else {
			t.Finish, t.Logprobs, t.TokenIDs = nil, nil, nil
		}
		turns = append(turns, t)
	}
	return turns
}

// turnBytes is about what a turn takes in a list that grows.
const turnBytes = 256

// TurnBytes is at most what the turns of a trajectory take in memory, apart from their texts.
// They are counted exactly only if they could take more than the text itself.
func TurnBytes(text Value, pace Pace) int64 {
	n := 0
	for rest := text; len(rest) > 0; {
		piece := rest[:min(len(rest), 256<<10)]
		n += bytes.Count(piece, []byte{'{'}) // each turn is an object
		rest = rest[len(piece):]
		if pace != nil && !pace(len(piece)/16) {
			return 0
		}
	}
	if n*turnBytes <= len(text) {
		return int64(n) * turnBytes
	}
	n = 0
	if list := text.PacedMember("messages_and_choices", pace); list != nil {
		for range list.PacedElements(pace) {
			n++
		}
	}
	return int64(n) * turnBytes
}

// Message is a turn's message in the fields that conversations are made of.
type Message struct {
	Role       string
	Content    *string // nil: null, absent, or not text
	Text       bool    // Content is text, null or absent: nothing is lost
	ToolCalls  Value   // nil: none
	ToolCallID *string
}

// Open reads the fields of a message.
func (t Turn) Open(pace Pace) Message {
	m := Message{Text: true}
	for key, v := range t.Message.PacedMembers(pace) {
		kind := v.Kind()
		switch string(key) {
		case "role":
			if kind == jsontext.String {
				m.Role = v.Text()
			}
		case "content":
			m.Content, m.Text = nil, kind == jsontext.Null
			if kind == jsontext.String {
				s := v.PacedText(pace)
				m.Content, m.Text = &s, true
			}
		case "tool_calls":
			m.ToolCalls = nil
			if kind == jsontext.Array && len(v) > len("[]") {
				m.ToolCalls = v
			}
		case "tool_call_id":
			m.ToolCallID = nil
			if kind == jsontext.String {
				s := v.Text()
				m.ToolCallID = &s
			}
		}
	}
	return m
}

// Plain is the text of a message's content; of an array the parts that are
// text, one after the other.
func (t Turn) Plain(pace Pace) string {
	content := t.Message.PacedMember("content", pace)
	if content == nil {
		return ""
	}
	switch content.Kind() {
	case jsontext.String:
		return content.PacedText(pace)
	case jsontext.Array:
		var b strings.Builder
		for _, part := range content.PacedElements(pace) {
			if text := part.PacedMember("text", pace); text != nil && text.Kind() == jsontext.String {
				b.WriteString(text.PacedText(pace))
			}
		}
		return b.String()
	}
	return ""
}

// Contains reports whether the text of a message of the trajectory holds s.
func Contains(text Value, s string, pace Pace) bool {
	for _, t := range Turns(Take(text, pace).Turns, pace) {
		if strings.Contains(t.Plain(pace), s) {
			return true
		}
	}
	return false
}

// AppendWithoutLogprobs appends the trajectory without what makes most of its
// bytes: the member logprobs of the turns, here and in additional histories.
func AppendWithoutLogprobs(dst []byte, text Value, pace Pace) []byte {
	return appendObject(dst, text, pace, func(dst []byte, key string, v Value) ([]byte, bool) {
		switch key {
		case "messages_and_choices":
			return appendTurns(dst, v, pace), true
		case "additional_histories":
			return appendList(dst, v, pace, func(dst []byte, h Value) []byte {
				return appendObject(dst, h, pace, func(dst []byte, key string, v Value) ([]byte, bool) {
					if key == "messages_and_choices" {
						return appendTurns(dst, v, pace), true
					}
					return append(dst, v...), true
				})
			}), true
		}
		return append(dst, v...), true
	})
}

// AppendWithReward appends the trajectory with a reward in the place of the one it
// had, or at its end.
func AppendWithReward(dst []byte, text Value, reward float64) []byte {
	dst = appendObject(dst, text, nil, func(dst []byte, key string, v Value) ([]byte, bool) {
		return append(dst, v...), key != "reward"
	})
	dst = dst[:len(dst)-1]
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(AppendFloat(append(dst, `"reward":`...), reward), '}')
}

func appendTurns(dst []byte, list Value, pace Pace) []byte {
	return appendList(dst, list, pace, func(dst []byte, turn Value) []byte {
		return appendObject(dst, turn, pace, func(dst []byte, key string, v Value) ([]byte, bool) {
			return append(dst, v...), key != "logprobs"
		})
	})
}

// appendObject copies an object whose values are written by value, or left out.
func appendObject(dst []byte, v Value, pace Pace, value func(dst []byte, key string, v Value) ([]byte, bool)) []byte {
	if v.Kind() != jsontext.Object {
		return append(dst, v...)
	}
	dst = append(dst, '{')
	first := true
	for name, val := range v.PacedRawMembers(pace) {
		mark := len(dst)
		if !first {
			dst = append(dst, ',')
		}
		dst = append(append(dst, name...), ':')
		var kept bool
		if dst, kept = value(dst, name.Text(), val); kept {
			first = false
		} else {
			dst = dst[:mark]
		}
	}
	return append(dst, '}')
}

func appendList(dst []byte, v Value, pace Pace, element func(dst []byte, v Value) []byte) []byte {
	if v.Kind() != jsontext.Array {
		return append(dst, v...)
	}
	dst = append(dst, '[')
	for n, e := range v.PacedElements(pace) {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, e)
	}
	return append(dst, ']')
}
