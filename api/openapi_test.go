package api

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func schemas(t *testing.T) (doc map[string]any, schema func(name string) *jsonschema.Schema) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(OpenAPI("1.2.3")))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", v); err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any), func(name string) *jsonschema.Schema {
		t.Helper()
		s, err := c.Compile("openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func valid(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s.Validate(v)
}

func names[R any](fields []field[R]) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	slices.Sort(out)
	return out
}

// TestOpenAPIFields: the document has the fields of the tables, no more and no
// fewer, and says of a good, a wrong and a null value what the decoders say.
func TestOpenAPIFields(t *testing.T) {
	doc, schema := schemas(t)
	if v := doc["info"].(map[string]any)["version"]; v != "1.2.3" {
		t.Errorf("version %v", v)
	}
	properties := func(s any) []string {
		return slices.Sorted(maps.Keys(s.(map[string]any)["properties"].(map[string]any)))
	}
	all := doc["components"].(map[string]any)["schemas"].(map[string]any)
	tokenize := all["TokenizeRequest"].(map[string]any)["oneOf"].([]any)
	both := slices.Concat(properties(tokenize[0]), properties(tokenize[1]))
	slices.Sort(both)
	forms := func(name string) []string { // of texts and of chats
		of := all[name].(map[string]any)["oneOf"].([]any)
		both := slices.Concat(properties(of[0]), properties(of[1]))
		slices.Sort(both)
		return slices.Compact(both)
	}
	for _, c := range []struct {
		name       string
		have, want []string
	}{
		{"ChatRequest", properties(all["ChatRequest"]), names(fields)},
		{"CompletionRequest", properties(all["CompletionRequest"]), names(completionFields)},
		{"TokenizeRequest", slices.Compact(both), names(tokenizeFields)},
		{"EmbeddingRequest", forms("EmbeddingRequest"), names(embeddingFields)},
		{"PoolingRequest", forms("PoolingRequest"), names(poolingFields)},
		{"ClassifyRequest", forms("ClassifyRequest"), names(inputFields)},
		{"ScoreRequest", properties(all["ScoreRequest"]), names(scoreFields)},
		{"RerankRequest", properties(all["RerankRequest"]), names(rerankFields)},
		{"DetokenizeRequest", properties(all["DetokenizeRequest"]), names(detokenizeFields)},
	} {
		if !slices.Equal(c.have, c.want) {
			t.Errorf("%s has %v\nwant %v", c.name, c.have, c.want)
		}
	}
	chat, texts := schema("ChatRequest"), schema("CompletionRequest")
	for _, m := range matrix {
		for _, c := range []struct {
			value  string
			accept bool
		}{{m.good, true}, {m.wrong, false}, {"null", m.null}} {
			if c.value == "" {
				continue
			}
			body := minimal + `,"` + m.name + `":` + c.value + `}`
			if m.name == "messages" {
				body = `{"messages":` + c.value + `}`
			}
			if err := valid(t, chat, body); (err == nil) != c.accept {
				t.Errorf("ChatRequest: %s: %v", body, err)
			}
			if _, ok := completionIndex[m.name]; !ok || m.name == "echo" || m.name == "logprobs" {
				continue
			}
			body = `{"prompt":"x","` + m.name + `":` + c.value + `}`
			if err := valid(t, texts, body); (err == nil) != c.accept {
				t.Errorf("CompletionRequest: %s: %v", body, err)
			}
		}
	}
}

// TestOpenAPIPrompts: the document says of the forms of a prompt what the decoder says.
func TestOpenAPIPrompts(t *testing.T) {
	_, schema := schemas(t)
	texts := schema("CompletionRequest")
	for body, want := range map[string]bool{
		`{}`: false, `{"prompt":""}`: false, `{"prompt":null}`: false, `{"prompt":[]}`: false, `{"prompt":"x"}`: true, `{"prompt":["x","y"]}`: true, `{"prompt":[1,2]}`: true, `{"prompt":[[1],[2]]}`: true,
		`{"prompt":[1,"x"]}`: false, `{"prompt":[[]]}`: false, `{"prompt":[-1]}`: false, `{"prompt":"x","suffix":"y"}`: false, `{"prompt":"x","suffix":null}`: true,
		`{"prompt":"x","logprobs":true}`: false, `{"prompt":"x","logprobs":3}`: true, `{"prompt":"x","echo":null,"unknown":1}`: true, `{"prompt":"x","vllm_xargs":{"a":[1]}}`: false,
	} {
		if err := valid(t, texts, body); (err == nil) != want {
			t.Errorf("CompletionRequest: %s: %v", body, err)
		}
	}
}

// TestOpenAPIErrors: bodies of every row of the error table are what the
// document says an error is.
func TestOpenAPIErrors(t *testing.T) {
	_, schema := schemas(t)
	for name, list := range samples(t) {
		for _, e := range list {
			if err := valid(t, schema("Error"), string(e.AppendJSON(nil))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, body := range map[string]string{"Unauthorized": UnauthorizedBody, "Detail": NotFoundBody} {
		if err := valid(t, schema(name), body); err != nil {
			t.Error(err)
		}
	}
	if valid(t, schema("Error"), `{"error":{"message":"x","type":"Bad Request","param":null}}`) == nil {
		t.Error("a body without code passes")
	}
}
