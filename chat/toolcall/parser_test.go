package toolcall

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// parserCase is an output in a format: what it is read as. Calls are written as
// name(arguments), with a ~ behind those that have no end.
type parserCase struct {
	format, text, content, calls string
}

var weather = []Tool{
	{Name: "weather", Parameters: []byte(`{"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}`)},
	{Name: "now"},
}

var parserCases = append([]parserCase{
	{"hermes", "Hello\n", "Hello\n", ""},
	{"hermes", " \n", " \n", ""},
	{"hermes", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>", "", `weather({"city": "Köln"})`},
	{"hermes", "\n\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n", "", `now({})`},
	{"hermes", "Let me see.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"a\\\"}</tool_call>\"}}\n</tool_call>\n", "Let me see.", `now({}) weather({"city": "a\"}</tool_call>"})`},
	{"hermes", "A <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call> B\n", "A B\n", `now({})`},
	{"hermes", "<tool_call>{\"name\": \"now\"}</tool_call>", "", `now({})`},
	{"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": null}</tool_call>", "", `now({})`},
	{"hermes", "<tool_call>{\"arguments\": {\"a\": [1]}, \"name\": \"now\"}</tool_call>", "", `now({"a": [1]})`},
	{"hermes", "<tool_call>{\"id\": 1, \"name\": \"now\", \"arguments\": {\"a\": {}}, \"type\": \"function\"}</tool_call>", "", `now({"a": {}})`},
	{"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "", `now({"a": 1})`},
	{"hermes", "<tool_call>{\"name\": \"now\", \"parameters\": {}}</tool_call>", "", `now({})`},
	{"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 1}</tool_call>", "", `now({"a": 1})`},
	{"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 1}}", "", `now({"a": 1})`},
	{"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"x", "", `now({"a": "x)~`},
	{"hermes", "<tool_call>{\"name\": \"now\", \"argu", "<tool_call>{\"name\": \"now\", \"argu", ""},
	{"hermes", "<tool_call>nonsense</tool_call>", "<tool_call>nonsense</tool_call>", ""},
	{"hermes", "<tool_call><tool_call>{\"name\": \"now\"}</tool_call>", "<tool_call>", "now({})"},
	{"hermes", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", ""},
	{"hermes", "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>", "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>", ""},
	{"hermes", "a <tool", "a <tool", ""},
	{"hermes", "<tool_call>{}</tool_call> x", "<tool_call>{}</tool_call> x", ""},

	{"qwen3_coder", "Yes.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nKöln \"x\"\n\\\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>", "Yes.", `weather({"city": "Köln \"x\"\n\\", "days": 2}) now({})`},
	{"qwen3_coder", "<function=now>\n<parameter=a>\n{\"b\": [1]}\n</parameter>\n</function>", "", `now({"a": {"b": [1]}})`},
	{"qwen3_coder", "<tool_call><function=weather><parameter=city>1</parameter><parameter=days>True</parameter></function></tool_call>", "", `weather({"city": "1", "days": true})`},
	{"qwen3_coder", "<tool_call>\n<function=weather>\n<parameter=city>\n\n</parameter>\n</function>\n</tool_call>", "", `weather({"city": ""})`},
	{"qwen3_coder", "<tool_call>\n<function=weather>\n<parameter=city>\na</func", "", `weather({"city": "a</func)~`},
	{"qwen3_coder", "<tool_call>\n<function=weather>\n<parameter=city>\na\n</parameter>\n</func", "", `weather({"city": "a")~`},
	{"qwen3_coder", "<tool_call>\n<function=weather>\n<parameter=city>\na\n</parameter>\nwell", "well", `weather({"city": "a"})`},
	{"qwen3_coder", "<tool_call>\n<function=weather> nonsense", "<tool_call>\n<function=weather> nonsense", ""},
	{"qwen3_coder", "<tool_call>{\"name\": 1}</tool_call>", "<tool_call>{\"name\": 1}</tool_call>", ""},
	{"seed_oss", "<seed:tool_call>\n<function=weather>\n<parameter=city>Köln</parameter>\n<parameter=days>2</parameter>\n</function>\n</seed:tool_call>", "", `weather({"city": "Köln", "days": 2})`},
	{"glm45", "a\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Köln</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>", "a", `weather({"city": "Köln", "days": 2}) now({})`},
	{"glm45", "<tool_call>weather<arg_key>city</arg_key><arg_value>a\n b</arg_value></tool_call><tool_call>now</tool_call>", "", `weather({"city": "a\n b"}) now({})`},
	{"glm45", "<tool_call>some words</tool_call>", "<tool_call>some words</tool_call>", ""},
	{"minimax_m2", "a\n<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Köln</parameter>\n<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call> b", "a b", `weather({"city": "Köln", "days": 2}) now({})`},
	{"minimax_m2", "<minimax:tool_call>none</minimax:tool_call>", "<minimax:tool_call>none</minimax:tool_call>", ""},
	{"deepseek_v32", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", "", `weather({"city": "5", "days": 2})`},
	{"deepseek_v31", "a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"}\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "a", `weather({"city": "}"}) now({})`},
	{"deepseek_v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"a\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "", `weather({"city": "a"}) now({})`},
	{"kimi_k2", "a<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"a\"}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "a", `weather({"city": "a"}) now({})`},
	{"kimi_k2", "<|tool_calls_section_begin|>x", "<|tool_calls_section_begin|>x", ""},
	{"mistral", "a[TOOL_CALLS]weather[ARGS]{\"city\": \"a\"}[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}", "a", `weather({"city": "a"}) now({})`},
	{"mistral", "[TOOL_CALLS]weather{\"city\": \"a\"}", "", `weather({"city": "a"})`},
	{"mistral", "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"a\"}, \"id\": \"abcdefghi\"}, {\"name\": \"now\", \"arguments\": {}}]", "", `weather({"city": "a"}) now({})`},
	{"mistral", "[TOOL_CALLS] or so", "[TOOL_CALLS] or so", ""},
	{"llama3_json", "{\"name\": \"weather\", \"parameters\": {\"city\": \"a\"}}; {\"name\": \"now\", \"parameters\": {}}", "", `weather({"city": "a"}) now({})`},
	{"llama3_json", "<|python_tag|>{\"type\": \"function\", \"name\": \"weather\", \"parameters\": {\"city\": \"a\"}}", "", `weather({"city": "a"})`},
	{"llama3_json", "{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}", "", `now({})`},
	{"llama3_json", "{\"name\": \"Anna\", \"parameters\": {}} {\"type\": \"object\"} {} {", "{\"name\": \"Anna\", \"parameters\": {}} {\"type\": \"object\"} {} {", ""},
	{"granite", "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"a\"}}, {\"name\": \"now\", \"arguments\": {}}]", "", `weather({"city": "a"}) now({})`},
	{"granite", "<tool_call> [{\"name\": \"now\", \"arguments\": {}}] b", "b", `now({})`},
	{"granite-20b-fc", "<function_call> {\"name\": \"now\", \"arguments\": {}} <function_call> {\"name\": \"now\", \"arguments\": {}}", "", `now({}) now({})`},
	{"phi4_mini_json", "functools[{\"name\": \"now\", \"arguments\": {}}]", "", `now({})`},
	{"phi4_mini_json", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>", "", `now({})`},
	{"phi4_mini_json", "<|tool_call|>{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"weather\", \"arguments\": {\"city\": \"a\"}}", "", `now({}) weather({"city": "a"})`},
	{"phi4_mini_json", "<|tool_call|>{\"name\": \"now\", \"arguments\": {}}<|/tool_call|><|tool_call|>{\"name\": \"now\", \"arguments\": {}}<|/tool_call|>", "", `now({}) now({})`},
	{"phi4_mini_json", "<|tool_call|> is a token", "<|tool_call|> is a token", ""},
	{"jamba", "<tool_calls>[\n{\"name\": \"now\", \"arguments\": {}}\n]</tool_calls>", "", `now({})`},
	{"openai", "a<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{\"city\": \"a\"}<|call|>", "a", `weather({"city": "a"})`},
	{"minimax", "<tool_calls>\n{\"name\": \"now\", \"arguments\": {}}\n{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>", "", `now({}) now({})`},
	{"longcat", "<longcat_tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</longcat_tool_call>", "", `now({})`},
	{"longcat", "a\n<longcat_tool_call>weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Köln</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n<longcat_arg_value>2</longcat_arg_value>\n</longcat_tool_call>\n<longcat_tool_call>now\n</longcat_tool_call>", "a", `weather({"city": "Köln", "days": 2}) now({})`},
	{"longcat", "<longcat_tool_call>functions.now\n</longcat_tool_call>", "", `now({})`},
	{"longcat", "<longcat_tool_call>now or so</longcat_tool_call>", "<longcat_tool_call>now or so</longcat_tool_call>", ""},
	{"hunyuan_a13b", "a<tool_calls>[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", \"arguments\": {}}]</tool_calls>", "a", `now({}) now({})`},
	{"internlm", "<|action_start|><|plugin|>\n{\"name\": \"now\", \"parameters\": {}}<|action_end|>", "", `now({})`},
}, pythonCases...)

// reading adds deltas up, and checks their order.
type reading struct {
	content  []byte
	calls    []Call
	deltas   int // of arguments
	problems []string
}

func (r *reading) take(deltas []Delta) {
	for _, d := range deltas {
		if d.Text != nil {
			if d.Name != "" || d.Arguments != nil || d.End {
				r.problems = append(r.problems, fmt.Sprintf("a delta with text and more: %+v", d))
			}
			r.content = append(r.content, d.Text...)
			continue
		}
		if d.Name != "" {
			if d.Call != len(r.calls) {
				r.problems = append(r.problems, fmt.Sprintf("call %d has the number %d", len(r.calls), d.Call))
			}
			r.calls = append(r.calls, Call{Name: d.Name})
		}
		if d.Call != len(r.calls)-1 || r.calls[d.Call].Complete {
			r.problems = append(r.problems, fmt.Sprintf("out of order: %+v", d))
			continue
		}
		c := &r.calls[d.Call]
		c.Arguments, c.Complete = append(c.Arguments, d.Arguments...), d.End
		r.deltas++
	}
}

func (r *reading) String() string { return fmt.Sprintf("%q %s", r.content, shown(r.calls)) }

func shown(calls []Call) string {
	var all []string
	for _, c := range calls {
		text := c.Name + "(" + string(c.Arguments) + ")"
		if !c.Complete {
			text += "~"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// readPieces reads a text that is cut where cut says.
func readPieces(f *Format, text string, cut func(i int) bool) *reading {
	r, p, from := &reading{}, f.NewParser(weather), 0
	for i := 1; i <= len(text); i++ {
		if i == len(text) || cut(i) {
			r.take(p.Next([]byte(text[from:i]), false))
			from = i
		}
	}
	r.take(p.Next(nil, true))
	return r
}

func format(t testing.TB, name string) *Format {
	t.Helper()
	f, ok := Named(name)
	if !ok {
		t.Fatalf("no format %s", name)
	}
	return f
}

func TestParser(t *testing.T) {
	for _, c := range parserCases {
		f := format(t, c.format)
		content, calls := f.Split([]byte(c.text), weather)
		if string(content) != c.content || shown(calls) != c.calls {
			t.Errorf("%s: %q\n got %q %s\nwant %q %s", c.format, c.text, content, shown(calls), c.content, c.calls)
			continue
		}
		checkPieces(t, f, c.text)
		checkKept(t, f, c.text)
	}
}

// checkPieces compares a text read at once with the same in two pieces, for each cut, and in bytes.
func checkPieces(t *testing.T, f *Format, text string) {
	t.Helper()
	want := readPieces(f, text, func(int) bool { return false })
	check := func(how string, got *reading) {
		t.Helper()
		if got.String() != want.String() || len(got.problems) > 0 {
			t.Fatalf("%s: %q, %s\n got %s %q\nwant %s", f.Name(), text, how, got, got.problems, want)
		}
	}
	check("at once", want)
	for at := range text {
		check(fmt.Sprintf("cut at %d", at), readPieces(f, text, func(i int) bool { return i == at }))
	}
	check("in bytes", readPieces(f, text, func(int) bool { return true }))
}

// checkKept: whatever is not content is white space or a call, which begins with a mark and has
// its name in it.
func checkKept(t *testing.T, f *Format, text string) {
	t.Helper()
	whole := []byte(text)
	at, calls := 0, []string(nil)
	gap := func(end int) {
		left := strings.TrimSpace(text[at:end])
		switch {
		case left == "":
		case len(calls) == 0:
			t.Fatalf("%s: %q has lost %q", f.Name(), text, left)
		default:
			if i, _ := first(f.marks, []byte(left)); i != 0 {
				t.Fatalf("%s: in %q, %q is no call", f.Name(), text, left)
			}
			for _, name := range calls {
				if !strings.Contains(left, name) && !strings.Contains(left, `\`) {
					t.Fatalf("%s: in %q, %q is no call of %s", f.Name(), text, left, name)
				}
			}
		}
		calls = nil
	}
	for _, d := range f.NewParser(weather).Next(whole, true) {
		if d.Text == nil {
			if d.Name != "" {
				calls = append(calls, d.Name)
			}
			continue
		}
		start := cap(whole) - cap(d.Text) // they share memory
		gap(start)
		at = start + len(d.Text)
		if string(d.Text) != text[start:at] {
			t.Fatalf("%s: %q is not of %q", f.Name(), d.Text, text)
		}
	}
	gap(len(text))
}

// scraps returns pieces of the format's marks and of calls, of which random texts are made.
func scraps(f *Format) []string {
	list := []string{"{", "}", "\"", "\\", ":", ",", "[", "]", "(", ")", "=", " ", "\n", "a", "1", "é", "\xff", "now", "weather", "<", ">", "{}", "null",
		`{"name": "now", "arguments": {}}`, `{"name": "now", "arguments": {"a": 1`, `"arguments"`, `"name"`, "'", "text "}
	for _, m := range f.Tokens() {
		list = append(list, m, m, m[:len(m)/2], m[len(m)/2:])
	}
	for _, c := range parserCases {
		if c.format == f.name {
			list = append(list, c.text)
			list = append(list, strings.Fields(c.text)...)
		}
	}
	return list
}

// TestRandomTexts: random texts do not depend on how they are cut, and lose nothing.
func TestRandomTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, f := range formats {
		list := scraps(f)
		for range 3000 {
			var b strings.Builder
			for range rng.IntN(10) {
				b.WriteString(list[rng.IntN(len(list))])
			}
			text := b.String()
			want := readPieces(f, text, func(int) bool { return false })
			for range 3 {
				got := readPieces(f, text, func(int) bool { return rng.IntN(4) == 0 })
				if got.String() != want.String() || len(got.problems) > 0 {
					t.Fatalf("%s: %q\n got %s %q\nwant %s", f.Name(), text, got, got.problems, want)
				}
			}
			checkKept(t, f, text)
		}
	}
}

func FuzzParser(f *testing.F) {
	for i, c := range parserCases {
		f.Add(c.text, uint8(i), uint64(i*7919))
	}
	f.Fuzz(func(t *testing.T, text string, which uint8, cuts uint64) {
		of := formats[int(which)%len(formats)]
		want := readPieces(of, text, func(int) bool { return false })
		got := readPieces(of, text, func(i int) bool { return cuts>>(i%64)&1 != 0 })
		if got.String() != want.String() || len(got.problems) > 0 {
			t.Fatalf("%s: %q\n got %s %q\nwant %s", of.Name(), text, got, got.problems, want)
		}
		checkKept(t, of, text)
	})
}

// TestStreaming: what is certain is returned at once.
func TestStreaming(t *testing.T) {
	f := format(t, "hermes")
	p := f.NewParser(weather)
	var got []string
	for _, piece := range []string{"Let me see.\n<tool", "_call>\n{\"name\": \"look_up\", \"arg", "uments\": {\"word\": ", "\"cat\"}}\n</tool_call>", "\n"} {
		line := ""
		for _, d := range p.Next([]byte(piece), false) {
			line += fmt.Sprintf("[%s|%d %s %s %v]", d.Text, d.Call, d.Name, d.Arguments, d.End)
		}
		got = append(got, line)
	}
	want := []string{"[Let me see.|0   false]", "", "[|0 look_up {\"word\":  false]", "[|0  \"cat\"} true]", ""}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestDetect(t *testing.T) {
	for template, want := range map[string]string{
		`{{- '<tool_call>\n{"name": "' }}{{ '", "arguments": ' }}`: "hermes",
		"{{ messages }}": "",
		`{% set bom_str = bom_str or "<|bom|>" %}{% set tool_calls_prefix = "<tool_calls>" %}`: "jamba",
		`{{ '<tool_calls>[' }}`:                                "hunyuan_a13b",
		`{{- '<|tool_call>call:' + function['name'] + '{' -}}`: "gemma4",
		`{{- 'Respond in the format [func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)] ' }}{{- "<|start_header_id|>" }}`: "pythonic",
		`{{- "<|header_start|>" }}{{- "Use exact format: [func_name1(param1=value1, param2=value2), func_name2(...)]\n" }}`:                                       "llama4_pythonic",
		`{%- set ns.system_prompt = ns.system_prompt + "List of tools: <|tool_list_start|>[" -%}`:                                                                 "lfm2",
		`{%- set ns.system_prompt = ns.system_prompt + "List of tools: [" -%}`:                                                                                    "lfm2",
	} {
		f := Detect(template)
		if f == nil && want != "" || f != nil && f.Name() != want {
			t.Errorf("%s: %v, want %s", template, f, want)
		}
	}
}
