package openai_test

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"weir/api"
	"weir/server/servertest"
	"weir/server/transport"
)

func structured(kind string, v any) map[string]any {
	return map[string]any{"structured_outputs": map[string]any{kind: v}}
}

func schemaFormat(schema string) map[string]any {
	return map[string]any{"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "x", "schema": json.RawMessage(schema)}}}
}

// with adds fields to those of a constraint.
func with(fields map[string]any, more ...any) map[string]any {
	for i := 0; i < len(more); i += 2 {
		fields[more[i].(string)] = more[i+1]
	}
	return fields
}

// everyWay asks for a constrained answer greedily and with seeds, with and without a stream,
// and calls check for every answer.
func (h *testServer) everyWay(t *testing.T, fields map[string]any, check func(content, finish string)) {
	t.Helper()
	for seed := range 6 {
		with(fields, "seed", seed, "temperature", min(1, seed), "max_tokens", 300, "stream", false)
		delete(fields, "stream_options")
		c := h.Complete(t, fields)
		check(*c.Choices[0].Message.Content, c.Choices[0].FinishReason)
		content, finish := "", ""
		for _, e := range h.Streamed(t, with(fields, "stream", true)) {
			for _, choice := range e.Choices {
				said, _ := choice.Delta["content"].(string)
				content += said
				if choice.FinishReason != nil {
					finish = *choice.FinishReason
				}
			}
		}
		if content != *c.Choices[0].Message.Content || finish != c.Choices[0].FinishReason {
			t.Errorf("streamed %q (%s), whole %q (%s)", content, finish, *c.Choices[0].Message.Content, c.Choices[0].FinishReason)
		}
	}
}

// The output follows its constraint. Package api tests which constraints are accepted (C70,
// C72, C76, C77, C80).
func TestC71C72C74Constraints(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, c := range []struct {
		fields map[string]any
		want   string // a regular expression for the content
		tags   bool   // the content may go on without end
	}{
		{structured("choice", []string{"a"}), `a`, false},
		{structured("choice", []string{"yes", "no", "yes and no", "ñandú 🦤"}), `yes|no|yes and no|ñandú 🦤`, false},
		{structured("grammar", `root ::= "x"`), `x`, false},
		{structured("grammar", "root ::= item (\",\" item){2}\nitem ::= [a-c] | \"(\" root \")\" # nested\n"), `[(][abc(),]+[)](,.*)?|[abc],.*`, true},
		{structured("grammar", "start: \"a\" | \"b\"\n"), `a|b`, false},
		{structured("regex", `\d{3}`), `[0-9]{3}`, false},
		{structured("regex", `(foo|ba[rz])+-\w{2,4}`), `(foo|ba[rz])+-[0-9A-Za-z_]{2,4}`, true},
		{structured("regex", ``), ``, false},
		{structured("structural_tag", `{"type":"structural_tag","format":{"type":"const_string","value":"Hi."}}`), `Hi[.]`, false},
	} {
		whole := regexp.MustCompile(`^(?s:` + c.want + `)$`)
		h.everyWay(t, c.fields, func(content, finish string) {
			if finish == api.FinishLength && c.tags {
				return
			}
			if !whole.MatchString(content) || finish != api.FinishStop {
				t.Errorf("%v: %q, finish %s", c.fields, content, finish)
			}
		})
	}
}

func TestC73ConstraintsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, c := range []struct {
		fields map[string]any
		want   string
	}{
		{structured("regex", "["), "Failed to transform regex into a grammar: "},
		{structured("regex", "a(?=b)"), "Failed to transform regex into a grammar: "},
		{structured("json", map[string]any{"type": "bogus"}), "Failed to transform json schema into a grammar: "},
		{schemaFormat(`{"properties":{"a":{"not":{"uniqueItems":true}}}}`), "/properties/a/not/uniqueItems"},
		{schemaFormat(`{"type":"array","unevaluatedItems":false}`), "/unevaluatedItems"},
		{schemaFormat(`{"$ref":"https://example.com/x.json"}`), "$ref"},
		{structured("grammar", "root ::= nothing"), "Invalid grammar specification."},
		{structured("grammar", "root ::= \"x\" |\n  nothing"), "line 2, column 3"},
		{structured("grammar", "root ::= <|im_end|> \"x\""), "end token"},
		{structured("structural_tag", `{"type":"structural_tag","format":{"type":"never"}}`), "Invalid structural tag specification."},
	} {
		for _, stream := range []bool{false, true} { // C81: a status in either mode
			status, answer := h.Chat(with(c.fields, "stream", stream))
			if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, c.want) || f.Type != "BadRequestError" {
				t.Errorf("%v: %s", c.fields, answer)
			}
		}
	}
}

// schemas together use every keyword that is supported.
var schemas = []string{
	`{"type":"object","properties":{"t":{"enum":["a","b"]},"n":{"type":"integer","not":{"multipleOf":2}}},"required":["t"],"if":{"properties":{"t":{"const":"a"}}},"then":{"required":["n"]},"else":{"not":{"required":["n"]}}}`,
	`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"boolean"}},"dependentRequired":{"a":["b"]},"oneOf":[{"required":["a"]},{"required":["b"]},{"maxProperties":0}]}`,
	`{"type":"object"}`,
	`{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":130},"ok":{"type":"boolean"}},"required":["name","age"]}`,
	`{"type":"object","properties":{"a":{"enum":["x",3,null,[1,"y"]]},"b":{"const":{"k":1}}},"required":["a","b"],"additionalProperties":false}`,
	`{"type":"array","items":{"type":"number","exclusiveMinimum":-2,"maximum":7.5},"minItems":2,"maxItems":4}`,
	`{"type":"array","prefixItems":[{"type":"integer","multipleOf":5},{"type":"null"}],"items":false,"minItems":2}`,
	`{"anyOf":[{"type":"string","pattern":"^a+b$"},{"type":"object","properties":{"t":{"const":1}},"required":["t"],"additionalProperties":false}]}`,
	`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"string","minLength":2,"maxLength":3}},"required":["b"]}]}`,
	`{"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer","minimum":-9,"maximum":9},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"},"maxItems":2}},"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/tree"}`,
	`{"type":"object","patternProperties":{"^x_[a-z]{1,3}$":{"type":"integer"}},"additionalProperties":false,"minProperties":1,"maxProperties":2}`,
	`{"type":"object","properties":{"d":{"type":"string","format":"date"},"u":{"type":"string","format":"uuid"},"i":{"type":"string","format":"ipv4"}},"required":["d","u","i"]}`,
	`{"type":["string","integer","null"],"maxLength":5}`,
	`{"oneOf":[{"type":"integer","minimum":10,"maximum":20},{"type":"string","maxLength":3}]}`,
}

// TestSchemasHold: every answer that ends by itself validates against its schema, even
// from a model that draws tokens at random.
func TestSchemasHold(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	var wg sync.WaitGroup
	var stopped, cut atomic.Int64
	for _, schema := range schemas {
		valid := compileSchema(t, schema)
		wg.Go(func() {
			for seed := range 25 {
				a := h.Complete(t, with(schemaFormat(schema), "seed", seed, "temperature", 1, "n", 2, "max_tokens", 250))
				for _, choice := range a.Choices {
					if choice.FinishReason != api.FinishStop {
						cut.Add(1)
						continue
					}
					stopped.Add(1)
					if err := validateText(valid, *choice.Message.Content); err != nil {
						t.Errorf("%s: %q: %v", schema, *choice.Message.Content, err)
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d answers valid, %d cut by max_tokens", stopped.Load(), cut.Load())
	if stopped.Load() < 300 {
		t.Error("too few answers ended by themselves")
	}
}

// compileSchema compiles a schema with a validator that knows nothing of this program.
func compileSchema(t *testing.T, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	valid, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return valid
}

// validateText validates the JSON text of a value.
func validateText(schema *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

func TestC75C78JSONObject(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	object := map[string]any{"response_format": map[string]any{"type": "json_object"}}
	whole := 0
	h.everyWay(t, object, func(content, finish string) {
		if finish == api.FinishStop {
			var v map[string]any
			d := json.NewDecoder(strings.NewReader(content))
			d.UseNumber() // 4e675 is JSON
			if err := d.Decode(&v); err != nil || d.More() {
				t.Errorf("%q: %v", content, err)
			}
			whole++
		}
	})
	t.Logf("%d objects came to their end", whole)
	// C78: an output that max_tokens cuts is the beginning of a valid one.
	a := h.Complete(t, with(schemaFormat(schemas[1]), "max_tokens", 1))
	if c := a.Choices[0]; c.FinishReason != api.FinishLength || !strings.HasPrefix(`{"name"`, strings.TrimSpace(*c.Message.Content)) {
		t.Errorf("%q, finish %s", *c.Message.Content, c.FinishReason)
	}
}

// The options of a request (docs/interface/chat-completions.md, section 8.2): whitespace and undeclared properties.
func TestConstraintOptions(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	const schema = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"null"},"maxItems":3}},"required":["a","b"]}`
	for _, c := range []struct {
		name    string
		options map[string]any
		want    string
	}{
		{"no whitespace, no further properties", map[string]any{"disable_any_whitespace": true, "disable_additional_properties": true}, `^\{"a":-?\d+,"b":\[(null(,null)*)?\]\}$`},
		{"its own whitespace", map[string]any{"whitespace_pattern": "\t?", "disable_additional_properties": true}, `^\t?\{\t?"a"\t?:\t?-?\d+\t?,\t?"b"\t?:\t?\[(\t?null\t?,?)*\t?\]\t?\}\t?$`},
	} {
		c.options["json"] = json.RawMessage(schema)
		want := regexp.MustCompile(c.want)
		h.everyWay(t, map[string]any{"structured_outputs": c.options}, func(content, finish string) {
			if finish == api.FinishStop && !want.MatchString(content) {
				t.Errorf("%s: %q", c.name, content)
			}
		})
	}
}

func TestC79ConstrainedLogprobs(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	a := h.Complete(t, with(structured("choice", []string{"a", "b"}), "logprobs", true, "top_logprobs", 5))
	entries := a.Choices[0].Logprobs.Content
	if len(entries) != 2 {
		t.Fatalf("%d tokens", len(entries))
	}
	sum, illegal := 0.0, 0
	for _, alt := range entries[0].Top {
		switch {
		case alt.Token == "a" || alt.Token == "b":
			sum += math.Exp(alt.Logprob)
		case alt.Logprob == -9999:
			illegal++
		default:
			t.Errorf("alternative %q at %v", alt.Token, alt.Logprob)
		}
	}
	if math.Abs(sum-1) > 1e-5 || illegal != 3 {
		t.Errorf("the legal ones sum to %v, %d are illegal", sum, illegal)
	}
	// Nothing but an end token could come, of which the model has two.
	end := entries[1].Top
	if len(end) != 5 || math.Abs(math.Exp(end[0].Logprob)+math.Exp(end[1].Logprob)-1) > 1e-5 || end[2].Logprob != -9999 {
		t.Errorf("the end token: %+v", end)
	}
}

// TestK18EndTokens: where a constraint lets the output end, it may end with each of the
// model's end tokens.
func TestK18EndTokens(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for id, reason := range map[int]string{servertest.EndOfTurn: "null", servertest.EndOfText: fmt.Sprint(servertest.EndOfText)} {
		a := h.Complete(t, with(structured("choice", []string{"a"}), "logit_bias", map[string]any{fmt.Sprint(id): 100}, "return_token_ids", true))
		c := a.Choices[0]
		if *c.Message.Content != "a" || int(c.TokenIDs[len(c.TokenIDs)-1]) != id || c.FinishReason != api.FinishStop || string(c.StopReason) != reason {
			t.Errorf("%d: %q %v %s %s", id, *c.Message.Content, c.TokenIDs, c.FinishReason, c.StopReason)
		}
	}
}

// TestNamedTokens: a grammar that names a special token makes the model draw it. It is in the
// text only if special tokens are not skipped.
func TestNamedTokens(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	const special = "<|im_start|>"
	id, ok := servertest.Tokenizer().ID(special)
	if !ok {
		t.Fatal("the bundled model has no such token")
	}
	for _, grammar := range []string{`root ::= "a" ` + special + ` "b"`, "start: \"a\" <[" + fmt.Sprint(id) + "]> \"b\" <|im_end|>"} {
		for skip, want := range map[bool]string{true: "ab", false: "a" + special + "b"} {
			h.everyWay(t, with(structured("grammar", grammar), "skip_special_tokens", skip), func(content, finish string) {
				if content != want || finish != api.FinishStop {
					t.Errorf("%s, special tokens skipped %t: %q, finish %s", grammar, skip, content, finish)
				}
			})
		}
	}
	tag := `{"type":"structural_tag","format":{"begin":{"token":"` + special + `"},"content":{"type":"qwen_xml_parameter","json_schema":{"properties":{"n":{"type":"integer","maximum":9,"minimum":0}},"required":["n"]}},"end":"."}}`
	whole := regexp.MustCompile(`^\s*<parameter=n>\s*\d\s*</parameter>\s*\.$`)
	h.everyWay(t, structured("structural_tag", tag), func(content, finish string) {
		if !whole.MatchString(content) || finish != api.FinishStop {
			t.Errorf("%q, finish %s", content, finish)
		}
	})
}

// TestConstrainedThoughts (docs/interface/chat-completions.md, section 8.3): the constraint
// begins after the thoughts, which are not constrained.
func TestConstrainedThoughts(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	end, ok := servertest.Tokenizer().ID("</think>")
	if !ok {
		t.Fatal("the bundled model cannot close its thoughts")
	}
	thoughts := 0
	for seed := range 10 {
		fields := with(structured("choice", []string{"yes", "no"}), "seed", seed, "temperature", 1, "max_tokens", 200,
			"chat_template_kwargs", map[string]any{"enable_thinking": true}, "logit_bias", map[string]any{fmt.Sprint(end): 6})
		a := h.Complete(t, fields)
		m := a.Choices[0].Message
		if m.Reasoning != nil && *m.Reasoning != "" {
			thoughts++
		}
		if a.Choices[0].FinishReason == api.FinishLength {
			continue
		}
		if m.Content == nil || *m.Content != "yes" && *m.Content != "no" {
			t.Errorf("content %v after the thoughts %v", m.Content, m.Reasoning)
		}
	}
	if thoughts < 3 {
		t.Errorf("%d answers with thoughts", thoughts)
	}
}

// A request that waits for its grammar does not delay others
// (docs/interface/chat-completions.md, section 8.3), and ends when its client leaves.
func TestGrammarsWaitApart(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	gate := make(chan struct{})
	var busy sync.WaitGroup
	var begun atomic.Int32
	for range h.Instance.OpenAI().Compiling().Workers() { // keeps every worker busy, as a large grammar would
		busy.Go(func() {
			if err := h.Instance.OpenAI().Compiling().Do(t.Context(), transport.Turn{}, func() { begun.Add(1); <-gate }); err != nil {
				t.Error(err)
			}
		})
	}
	servertest.WaitFor(t, "busy workers", func() bool { return int(begun.Load()) == h.Instance.OpenAI().Compiling().Workers() })
	answer := make(chan string, 1)
	go func() {
		_, a := h.Chat(with(structured("choice", []string{"constrained"}), "max_tokens", 20))
		answer <- a
	}()
	servertest.WaitFor(t, "the request to wait", func() bool { return h.Instance.OpenAI().Compiling().Waiting() == 1 })
	h.Complete(t, nil)
	select {
	case a := <-answer:
		t.Errorf("answered without its grammar: %s", a)
	default:
	}
	close(gate)
	if a := <-answer; !strings.Contains(a, `"content":"constrained"`) {
		t.Error(a)
	}
	busy.Wait()
}

// A constraint that takes long to compile delays no other one but those that take long as
// well (docs/interface/chat-completions.md, section 8.3), although nothing in the request
// tells how long it takes.
func TestLargeGrammarsLetSmallOnesPass(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	queue := h.Instance.OpenAI().Compiling()
	gate := make(chan struct{})
	var busy sync.WaitGroup
	var begun atomic.Int32
	large := max(1, queue.Workers()-1)
	for range large { // as large grammars would
		busy.Go(func() {
			if err := queue.Do(t.Context(), transport.Turn{Size: transport.LargeBody}, func() { begun.Add(1); <-gate }); err != nil {
				t.Error(err)
			}
		})
	}
	servertest.WaitFor(t, "busy workers", func() bool { return int(begun.Load()) == large })
	answer := make(chan string, 1)
	go func() { // 1,800 bytes, 2.9 million units of work
		_, a := h.Chat(with(structured("regex", strings.Repeat("(a|b)?", 300)), "max_tokens", 1))
		answer <- a
	}()
	servertest.WaitFor(t, "the large one to wait", func() bool { return queue.Waiting() == 1 })
	for i := range 3 {
		if _, a := h.Chat(with(structured("choice", []string{fmt.Sprint("small", i)}), "max_tokens", 20)); !strings.Contains(a, fmt.Sprintf(`"content":"small%d"`, i)) {
			t.Error(a)
		}
	}
	if queue.Waiting() != 1 {
		t.Error("the large one does not wait any more")
	}
	close(gate)
	if a := <-answer; !strings.Contains(a, `"finish_reason"`) {
		t.Error(a)
	}
	busy.Wait()
}
