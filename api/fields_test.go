package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/jsontext"
)

// matrix is docs/interface/chat-completions.md, sections 2.1 and 1.5, once more, independently of the decoder's table:
// name, whether null is allowed, an acceptable value, and one of a wrong type.
var matrix = []struct {
	name        string
	null        bool
	good, wrong string
}{
	{"messages", false, `[{"role":"user","content":"Hi"}]`, `{}`},
	{"model", true, `"M"`, `5`},
	{"frequency_penalty", true, `1`, `"x"`},
	{"presence_penalty", true, `1`, `[]`},
	{"repetition_penalty", true, `1`, `{}`},
	{"logit_bias", true, `{"5":1}`, `[]`},
	{"logprobs", true, `true`, `2`},
	{"top_logprobs", true, `0`, `"1"`},
	{"logprob_token_ids", true, `[]`, `5`},
	{"thinking_token_budget", true, `5`, `-2`},
	{"prompt_logprobs", true, `1`, `1.5`},
	{"max_tokens", true, `7`, `"7"`},
	{"max_completion_tokens", true, `7`, `7.5`},
	{"min_tokens", false, `1`, `"1"`},
	{"n", true, `1`, `1.5`},
	{"seed", true, `1`, `"1"`},
	{"stop", true, `["a"]`, `{}`},
	{"stop_token_ids", true, `[1]`, `1`},
	{"include_stop_str_in_output", false, `true`, `"maybe"`},
	{"ignore_eos", false, `true`, `2`},
	{"stream", true, `true`, `"maybe"`},
	{"stream_options", true, `{}`, `true`},
	{"stream_interval", true, `3`, `0`},
	{"temperature", true, `1`, `"hot"`},
	{"top_p", true, `1`, `[1]`},
	{"top_k", true, `1`, `1.5`},
	{"min_p", true, `0.5`, `"x"`},
	{"length_penalty", false, `2`, `"x"`},
	{"allowed_token_ids", true, `[1]`, `{"1":1}`},
	{"bad_words", false, `["a"]`, `[1]`},
	{"response_format", true, `{"type":"text"}`, `"text"`},
	{"structured_outputs", true, `{"regex":"a"}`, `"a"`},
	{"tools", true, `[{"function":{"name":"f"}}]`, `{}`},
	{"functions", true, `[{"name":"f"}]`, `5`},
	{"function_call", true, `"none"`, ``},
	{"tool_choice", true, `"none"`, ``}, // a wrong type is just another refused value
	{"parallel_tool_calls", true, `false`, `"maybe"`},
	{"reasoning_effort", true, `"low"`, `1`},
	{"include_reasoning", false, `false`, `7`},
	{"echo", false, `true`, `[]`},
	{"add_generation_prompt", false, `false`, `{}`},
	{"continue_final_message", false, `true`, `2`},
	{"add_special_tokens", false, `true`, `2`},
	{"documents", true, `[{"a":1}]`, `[1]`},
	{"chat_template", true, `"x"`, `1`},
	{"chat_template_kwargs", true, `{"a":1}`, `"x"`},
	{"mm_processor_kwargs", true, `{"a":1}`, `1`},
	{"skip_special_tokens", false, `false`, `2`},
	{"spaces_between_special_tokens", false, `false`, `2`},
	{"truncate_prompt_tokens", true, `5`, `"5"`},
	{"truncation_side", true, `"right"`, `1`},
	{"priority", false, `3`, `"3"`},
	{"request_id", false, `"x"`, `5`},
	{"return_tokens_as_token_ids", true, `true`, `2`},
	{"return_token_ids", true, `true`, `2`},
	{"return_prompt_text", true, `true`, `2`},
	{"cache_salt", true, `"x"`, `5`},
	{"kv_transfer_params", true, `{"a":1}`, `[]`},
	{"engine_xargs", true, `{"a":1}`, `[]`},
	{"vllm_xargs", true, `{"a":1}`, `[]`},
	{"repetition_detection", true, `{"max_pattern_size":3,"min_count":2}`, `3`},
	{"user", true, `"x"`, `5`},
}

const minimal = `{"messages":[{"role":"user","content":"Hi"}]`

func TestMatrixIsTheTable(t *testing.T) {
	var spec, table []string
	for _, m := range matrix {
		spec = append(spec, m.name)
	}
	for i := range fields {
		table = append(table, fields[i].name)
	}
	slices.Sort(spec)
	slices.Sort(table)
	if !slices.Equal(spec, table) {
		t.Errorf("matrix %v\n table %v", spec, table)
	}
}

// TestC16Nulls: null in every nullable field means what absence means.
func TestC16Nulls(t *testing.T) {
	var all strings.Builder
	want := acceptBody(t, minimal+"}")
	for _, m := range matrix {
		if !m.null {
			continue
		}
		body := minimal + `,"` + m.name + `":null}`
		if r := acceptBody(t, body); !reflect.DeepEqual(r, want) {
			t.Errorf("%s: null is not absent: %+v", m.name, r)
		}
		all.WriteString(`,"` + m.name + `":null`)
	}
	if r := acceptBody(t, minimal+all.String()+"}"); !reflect.DeepEqual(r, want) {
		t.Errorf("all null at once: %+v", r)
	}
}

func TestC17NotNull(t *testing.T) {
	n := 0
	for _, m := range matrix {
		if !m.null {
			n++
			refuse(t, `"`+m.name+`":null`, want{"schema", m.name + ": "})
		}
	}
	if n != 15 { // the list of docs/interface/chat-completions.md, section 1.5, and messages
		t.Errorf("%d fields that refuse null", n)
	}
}

// TestEveryFieldCounts: a good value is accepted and changes the request (or
// was the default), a wrong type is refused with the field's name.
func TestEveryFieldCounts(t *testing.T) {
	inert := []string{"messages", "logprobs", "top_logprobs", "logprob_token_ids", "n", "stream_options", "response_format", "tool_choice", "function_call"}
	want0 := acceptBody(t, minimal+"}")
	for _, m := range matrix {
		body := minimal + `,"` + m.name + `":` + m.good + "}"
		changed := !reflect.DeepEqual(acceptBody(t, body), want0)
		if m.name == "logprobs" && !changed || !changed && !slices.Contains(inert, m.name) {
			t.Errorf("%s: %s had no effect", m.name, m.good)
		}
		if m.wrong != "" {
			refuse(t, `"`+m.name+`":`+m.wrong, want{"schema", m.name})
		}
		// A repeated field: the last one wins, whatever the first one was.
		if m.wrong != "" {
			twice := acceptBody(t, minimal+`,"`+m.name+`":`+m.wrong+`,"`+m.name+`":`+m.good+"}")
			once := acceptBody(t, body)
			if !reflect.DeepEqual(twice, once) {
				t.Errorf("%s: the first of two mattered", m.name)
			}
		}
	}
}

// A row of the table of fields: name, value, default, null, section.
var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| [^|]+ \\| ([^|]+) \\| [^|]+ \\|$")

// TestFieldsDocument keeps docs/interface/fields.md complete: every field of a
// chat request is in it, and whether it takes null. testdata/fields.txt names the
// tests of each field, and where every field of ChatRequest comes from.
func TestFieldsDocument(t *testing.T) {
	doc, err := os.ReadFile("../docs/interface/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	proofs := readProofs(t, "testdata/fields.txt", string(doc))[""]
	tests := testNames(t)
	documented := map[string]bool{}
	held := ""
	for _, m := range row.FindAllStringSubmatch(theTable(t, string(doc), "## Fields of POST /v1/chat/completions"), -1) {
		name, null := m[1], m[2]
		documented[name] = true
		held += " " + proofs[name].holders
		proofs[name].check(t, tests, name)
		i := slices.IndexFunc(matrix[:], func(f struct {
			name        string
			null        bool
			good, wrong string
		}) bool {
			return f.name == name
		})
		if i < 0 {
			t.Errorf("fields.md: %s is no field", name)
			continue
		}
		if w := map[bool]string{true: "yes", false: "no"}[matrix[i].null]; null != w {
			t.Errorf("fields.md: %s: null %q, want %q", name, null, w)
		}
	}
	for i := range fields {
		if !documented[fields[i].name] {
			t.Errorf("fields.md: %s is missing", fields[i].name)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[ChatRequest]()) {
		if f.IsExported() && !f.Anonymous && !regexp.MustCompile(`\b`+f.Name+`\b`).MatchString(held) {
			t.Errorf("testdata/fields.txt: nothing says where ChatRequest.%s comes from", f.Name)
		}
	}
}

func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}

// valueSeeds are values, right and wrong ones, for the fuzz tests of whole bodies.
var valueSeeds = []string{
	`{"a":[1,2,{"b":null}],"c":"d\"e\\","a":-0.5E-3}`, `"\ud83d\ude00 \ud83d \ude00\ud83d\ud83d\ude00 \u0000\/\b\f\n\r\t"`,
	` [ ] `, `{ "x" : { } , "\u0078" : "\\" }`, `[NaN]`, "\"\xff\"", `[[[[[[]]]]]]`, `1e999`, `"a\u2028"`, `{"":""}`, `[1,2`, `tru`, "\xef\xbb\xbf1",
	`["\\\\","\\\"",""]`, `-0`, `0.0e-0`,
}

// FuzzDecodeChat: whatever the bytes, an error of the table or a request, and
// the same one twice.
func FuzzDecodeChat(f *testing.F) {
	f.Add([]byte(minimal + "}"))
	f.Add([]byte("{\t\"messages\" :\r\n[ ] }\n"))
	f.Add(largeRequest())
	for _, m := range matrix {
		f.Add([]byte(minimal + `,"` + m.name + `":` + m.good + "}"))
		f.Add([]byte(minimal + `,"` + m.name + `":[{"a":null},-1e400,"\ud800"]}`))
	}
	for _, s := range valueSeeds {
		f.Add([]byte(s))
		f.Add([]byte(`{"messages":[{"role":"user","content":` + s + `}]}`))
		f.Add([]byte(`{"messages":` + s + `,"structured_outputs":{"json":` + s + `}}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := string(body)
		r, err := checkBytes(body)
		again, errAgain := checkBytes(body)
		if !reflect.DeepEqual(r, again) || !reflect.DeepEqual(err, errAgain) {
			t.Fatalf("%q: %+v %v, then %+v %v", body, r, err, again, errAgain)
		}
		if string(body) != kept {
			t.Fatal("the body was written to")
		}
		if err == nil {
			if r.HasMedia() && len(r.Messages) == 0 || r.N < 1 {
				t.Fatalf("%q: %+v", body, r)
			}
			r.HasTemplate()
			r.MaxOutput()
			return
		}
		if err.Status != 400 && err.Status != 501 || err.Code != err.Status || err.Message == "" {
			t.Fatalf("%q: %+v", body, err)
		}
		if e := jsontext.Scan(err.AppendJSON(nil), 2); e != nil {
			t.Fatalf("%q: %s: %v", body, err.AppendJSON(nil), e)
		}
		if len(err.Message) > 2000 {
			t.Fatalf("%d bytes of message", len(err.Message))
		}
	})
}
