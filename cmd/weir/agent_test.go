package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// agentTools are what the conversations of TestBundledAgent may call. Their results depend on the
// arguments, so an answer is right only if the arguments were copied exactly.
var agentTools = map[string]struct {
	spec string
	use  func(args map[string]any) any
}{
	"get_weather": {`{"type":"function","function":{"name":"get_weather","description":"Tell the weather in a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}`,
		func(args map[string]any) any {
			return map[string]map[string]any{"Paris": {"condition": "sunny", "celsius": 21}, "Oslo": {"condition": "snowy", "celsius": -4}}[fmt.Sprint(args["city"])]
		}},
	"calculate": {`{"type":"function","function":{"name":"calculate","description":"Evaluate an arithmetic expression.","parameters":{"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]}}}`,
		func(args map[string]any) any {
			return map[string]any{"result": map[string]float64{"348 * 27": 9396, "37 * 24": 888}[fmt.Sprint(args["expression"])]}
		}},
	"lookup": {`{"type":"function","function":{"name":"lookup","description":"Look up the value of a key.","parameters":{"type":"object","properties":{"key":{"type":"string"}},"required":["key"]}}}`,
		func(args map[string]any) any {
			return map[string]any{"value": map[string]int{"price": 37, "count": 24}[fmt.Sprint(args["key"])]}
		}},
	"cancel_order": {`{"type":"function","function":{"name":"cancel_order","description":"Cancel an order.","parameters":{"type":"object","properties":{"order_id":{"type":"integer"}},"required":["order_id"]}}}`,
		func(args map[string]any) any {
			return map[string]any{"status": map[float64]string{40717: "finished"}[toNumber(args["order_id"])]}
		}},
}

func toNumber(v any) float64 {
	f, _ := v.(float64) // what is no number is no order
	return f
}

type agentMessage struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

// TestBundledAgent: the bundled model opens a call by itself when one of its tools does what it is asked, uses what the tool
// returns, for the answer or for the next call, and answers in words when it needs no tool.
func TestBundledAgent(t *testing.T) {
	url, _ := startServe(t)
	for _, c := range []struct {
		tools, question string
		calls           []string // the names of the tools, in their order
		answer          []string // what the answer says
	}{
		{"get_weather calculate", "What is the weather in Paris?", []string{"get_weather"}, []string{"sunny", "21"}},
		{"cancel_order get_weather", "How is the weather in Oslo?", []string{"get_weather"}, []string{"snowy", "-4"}},
		{"calculate lookup", "What is 348 * 27?", []string{"calculate"}, []string{"9396"}},
		{"lookup calculate", "Look up price and count and multiply them.", []string{"lookup", "lookup", "calculate"}, []string{"888"}},
		{"get_weather cancel_order", "Please cancel the order 40717.", []string{"cancel_order"}, []string{"finished"}},
		{"get_weather calculate", "What is the capital of France?", nil, []string{"Paris"}},
		{"calculate lookup", "Hello!", nil, []string{"Hello"}},
		{"get_weather cancel_order", "Tell me a joke.", nil, []string{"token"}},
	} {
		for _, think := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", c.question, think), func(t *testing.T) {
				calls, answer := runAgent(t, url, c.tools, c.question, think)
				if strings.Join(calls, " ") != strings.Join(c.calls, " ") {
					t.Errorf("called %v, want %v", calls, c.calls)
				}
				for _, w := range c.answer {
					if !strings.Contains(answer, w) {
						t.Errorf("answered %q, want %s in it", answer, w)
					}
				}
			})
		}
	}
}

// runAgent asks and runs the tools that the model calls until it answers in words. It returns the names of the tools that were
// called, and the answer.
func runAgent(t *testing.T, url, tools, question string, think bool) (calls []string, answer string) {
	t.Helper()
	var specs []string
	for _, name := range strings.Fields(tools) {
		specs = append(specs, agentTools[name].spec)
	}
	messages := []agentMessage{{Role: "user", Content: question}}
	for range 6 {
		history, err := json.Marshal(messages)
		if err != nil {
			t.Fatal(err)
		}
		code, text := post(t, url, fmt.Sprintf(`{"messages":%s,"tools":[%s],"temperature":0,"max_tokens":200,"chat_template_kwargs":{"enable_thinking":%t}}`, history, strings.Join(specs, ","), think))
		var body struct {
			Choices []struct{ Message agentMessage }
		}
		if err := json.Unmarshal([]byte(text), &body); err != nil || code != 200 || len(body.Choices) != 1 {
			t.Fatalf("%d %s: %v", code, text, err)
		}
		m := body.Choices[0].Message
		messages = append(messages, m)
		if len(m.ToolCalls) == 0 {
			return calls, m.Content
		}
		for _, call := range m.ToolCalls {
			calls = append(calls, call.Function.Name)
			var args map[string]any
			if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil {
				t.Fatalf("arguments %q: %v", call.Function.Arguments, err)
			}
			result, err := json.Marshal(agentTools[call.Function.Name].use(args))
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, agentMessage{Role: "tool", Content: string(result), ToolCallID: call.ID})
		}
	}
	t.Fatalf("no answer after %d messages: %+v", len(messages), messages)
	return nil, ""
}
