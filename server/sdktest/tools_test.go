package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"weir/server/servertest"
)

// toolServer is a server whose model writes texts[i] as choice i of requests that scripted made,
// and its client. For other requests the model draws at random.
func toolServer(t *testing.T, texts ...string) openai.Client {
	h := servertest.New(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.APIKeys = []string{"k"}
		for _, text := range texts {
			s.Script = append(s.Script, servertest.Encode(text, false))
		}
	})
	return openai.NewClient(option.WithBaseURL("http://"+h.Addr+"/v1"), option.WithAPIKey("k"), option.WithMaxRetries(0))
}

func written(name, args string) string {
	return fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", name, args)
}

func function(name string, strict bool, properties string) openai.ChatCompletionToolUnionParam {
	var fields map[string]any
	if err := json.Unmarshal([]byte(properties), &fields); err != nil {
		panic(err)
	}
	var names []string
	for n := range fields {
		names = append(names, n)
	}
	slices.Sort(names)
	return openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: name, Description: openai.String("Does " + name + "."), Strict: openai.Bool(strict),
		Parameters: shared.FunctionParameters{"type": "object", "properties": fields, "required": names, "additionalProperties": false},
	})
}

// weatherTools are the tools of these tests.
var weatherTools = []openai.ChatCompletionToolUnionParam{
	function("weather", false, `{"city":{"enum":["Oslo","Rome"]}}`),
	function("add", true, `{"a":{"type":"integer","minimum":0,"maximum":9},"b":{"enum":[true,null]}}`),
}

// scripted is a question of whose n answers the model writes what it was told.
func scripted(n int) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "tiny", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the weather in Oslo?")}, MaxTokens: openai.Int(200),
		Seed: openai.Int(servertest.ScriptSeed), Temperature: openai.Float(1), Tools: weatherTools, N: openai.Int(int64(n)),
	}
}

// says is what a choice has: why it ends, its content, and its calls.
func says(c *openai.ChatCompletionChoice) string {
	s := fmt.Sprintf("%s %q", c.FinishReason, c.Message.Content)
	for _, call := range c.Message.ToolCalls {
		s += fmt.Sprintf(" %s %s%s", call.Type, call.Function.Name, call.Function.Arguments)
	}
	return s
}

// ask asks for a whole answer and for a stream, and checks that both say the same, that ids are
// there and differ, and that the accumulator tells the end of each call but those that are last.
func ask(t *testing.T, c *openai.Client, params openai.ChatCompletionNewParams) *openai.ChatCompletion {
	t.Helper()
	ctx := context.Background()
	whole, err := c.Chat.Completions.New(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	stream := c.Chat.Completions.NewStreaming(ctx, params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatalf("not a chunk of this answer: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil || len(acc.Choices) != len(whole.Choices) {
		t.Fatalf("%v, %d choices, want %d", err, len(acc.Choices), len(whole.Choices))
	}
	ids := map[string]bool{}
	for i := range whole.Choices {
		if got, want := says(&acc.Choices[i]), says(&whole.Choices[i]); got != want {
			t.Errorf("choice %d as a stream: %s, as a whole: %s", i, got, want)
		}
		for _, call := range whole.Choices[i].Message.ToolCalls {
			if call.ID == "" || ids[call.ID] {
				t.Errorf("choice %d: the id %q", i, call.ID)
			}
			ids[call.ID] = true
		}
	}
	return whole
}

// TestSDKToolLoop: a call, whole and streamed, and the request with its result, which has the
// answer's message as the client reads it.
func TestSDKToolLoop(t *testing.T) {
	c := toolServer(t, "Let me see.\n"+written("weather", `{"city": "Oslo"}`))
	params := scripted(1)
	choice := ask(t, &c, params).Choices[0]
	if got, want := says(&choice), `tool_calls "Let me see." function weather{"city": "Oslo"}`; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	before, err := c.Chat.Completions.New(context.Background(), params)
	if err != nil {
		t.Fatal(err)
	}
	params.Messages = append(params.Messages, choice.Message.ToParam(), openai.ToolMessage(`{"sky": "rainy"}`, choice.Message.ToolCalls[0].ID))
	params.Seed, params.Temperature, params.ToolChoice.OfAuto = openai.Int(1), openai.Float(0), openai.String("none")
	after, err := c.Chat.Completions.New(context.Background(), params)
	if err != nil || after.Choices[0].Message.Content == "" || after.Usage.PromptTokens <= before.Usage.PromptTokens {
		t.Errorf("%v: %+v after %+v", err, after, before.Usage)
	}
}

// TestSDKParallelCalls: several calls in one answer keep their order, and their names and
// arguments do not mix in a stream; one is the last if more are not wanted.
func TestSDKParallelCalls(t *testing.T) {
	c := toolServer(t, written("weather", `{"city": "Oslo"}`)+"\n"+written("add", `{"a": 1, "b": true}`)+"\n"+written("weather", `{"city": "Rome"}`))
	const first = `tool_calls "" function weather{"city": "Oslo"}`
	if got, want := says(&ask(t, &c, scripted(1)).Choices[0]), first+` function add{"a": 1, "b": true} function weather{"city": "Rome"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	one := scripted(1)
	one.ParallelToolCalls = openai.Bool(false)
	one.Seed = openai.Int(3)
	one.ToolChoice.OfAuto = openai.String("required")
	if calls := ask(t, &c, one).Choices[0].Message.ToolCalls; len(calls) != 1 {
		t.Errorf("%d calls where one is wanted", len(calls))
	}
}

// TestSDKChoicesWithCalls: with n > 1 each choice has calls of its own, or none.
func TestSDKChoicesWithCalls(t *testing.T) {
	c := toolServer(t, written("weather", `{"city": "Oslo"}`), "No.", written("add", `{"a": 0, "b": null}`)+written("weather", `{"city": "Rome"}`))
	whole := ask(t, &c, scripted(3))
	for i, want := range []string{`tool_calls "" function weather{"city": "Oslo"}`, `stop "No."`, `tool_calls "" function add{"a": 0, "b": null} function weather{"city": "Rome"}`} {
		if got := says(&whole.Choices[i]); got != want {
			t.Errorf("choice %d: %s, want %s", i, got, want)
		}
	}
}

// TestSDKToolChoices: a model that draws at random calls what it has to, with arguments that obey
// the schema, in every choice.
func TestSDKToolChoices(t *testing.T) {
	c := toolServer(t)
	allowed := func(mode openai.ChatCompletionAllowedToolsMode, name string) openai.ChatCompletionToolChoiceOptionUnionParam {
		return openai.ToolChoiceOptionAllowedTools(openai.ChatCompletionAllowedToolsParam{Mode: mode, Tools: []map[string]any{{"type": "function", "function": map[string]any{"name": name}}}})
	}
	for name, it := range map[string]struct {
		choice openai.ChatCompletionToolChoiceOptionUnionParam
		may    []string
		finish string
	}{
		"required": {openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}, []string{"weather", "add"}, "tool_calls"},
		"named":    {openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "add"}), []string{"add"}, "stop"},
		"allowed":  {allowed(openai.ChatCompletionAllowedToolsModeRequired, "weather"), []string{"weather"}, "tool_calls"},
	} {
		params := scripted(4)
		params.Seed, params.ToolChoice, params.ParallelToolCalls = openai.Int(7), it.choice, openai.Bool(false)
		for i, choice := range ask(t, &c, params).Choices {
			if calls := choice.Message.ToolCalls; len(calls) != 1 || !slices.Contains(it.may, calls[0].Function.Name) || choice.FinishReason != it.finish {
				t.Errorf("%s, choice %d: %s", name, i, says(&choice))
				continue
			}
			obeys(t, choice.Message.ToolCalls[0].Function.Name, choice.Message.ToolCalls[0].Function.Arguments)
		}
	}
}

// obeys checks arguments against the schemas of weatherTools.
func obeys(t *testing.T, name, arguments string) {
	t.Helper()
	var args struct {
		City string
		A    *int
		B    *bool
	}
	d := json.NewDecoder(strings.NewReader(arguments))
	d.DisallowUnknownFields()
	err := d.Decode(&args)
	city := args.City == "Oslo" || args.City == "Rome"
	number := args.A != nil && *args.A >= 0 && *args.A <= 9 && (args.B == nil || *args.B)
	if err != nil || name == "weather" && !city || name == "add" && !number {
		t.Errorf("%s%s: %v", name, arguments, err)
	}
}

// TestSDKStrictTools: arguments of a strict tool obey its schema where the model begins a call by
// itself, and a schema that cannot be kept is refused for a strict tool.
func TestSDKStrictTools(t *testing.T) {
	c := toolServer(t)
	params := scripted(1)
	params.Seed = openai.Int(11)
	params.Tools = []openai.ChatCompletionToolUnionParam{function("odd", true, `{"x":{"$ref":"#/nowhere"}}`)}
	var refusal *openai.Error
	if _, err := c.Chat.Completions.New(context.Background(), params); !errors.As(err, &refusal) || refusal.StatusCode != 400 || !strings.Contains(refusal.Message, "odd") {
		t.Errorf("a strict tool with a schema that means nothing: %v", err)
	}
	params.Tools = []openai.ChatCompletionToolUnionParam{function("odd", false, `{"x":{"$ref":"#/nowhere"}}`)}
	if _, err := c.Chat.Completions.New(context.Background(), params); err != nil {
		t.Errorf("the same of a tool that is not strict: %v", err)
	}
	params.Tools = weatherTools
	params.ToolChoice.OfAuto = openai.String("required")
	params.N = openai.Int(8)
	strict := 0
	for _, choice := range ask(t, &c, params).Choices {
		for _, call := range choice.Message.ToolCalls {
			if choice.FinishReason == "tool_calls" {
				obeys(t, call.Function.Name, call.Function.Arguments)
				strict++
			}
		}
	}
	if strict == 0 {
		t.Error("nothing was called")
	}
}
