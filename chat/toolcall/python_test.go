package toolcall

import (
	"fmt"
	"slices"
	"testing"
)

var pythonCases = []parserCase{
	{"pythonic", `[weather(city="Köln", days=2), now()]`, "", `weather({"city": "Köln", "days": 2}) now({})`},
	{"pythonic", "Yes.\n[now()]\n", "Yes.", `now({})`},
	{"pythonic", `[ weather( days = 2 , city = 'it\'s "x"', ) ]`, "", `weather({"days": 2, "city": "it's \"x\""})`},
	{"pythonic", `[now(a=[1, {"b": None, 'c': (True, False)}], d={}, e=[], f={"g": {"h": []}})]`, "", `now({"a": [1, {"b": null, "c": [true, false]}], "d": {}, "e": [], "f": {"g": {"h": []}}})`},
	{"pythonic", `[now(a=-1_000, b=+.5, c=1., d=0x1F, e=1e3, f=007, g=123456789012345678901234567890, h=true, i=null)]`, "", `now({"a": -1000, "b": 0.5, "c": 1, "d": 31, "e": 1e3, "f": 7, "g": 123456789012345678901234567890, "h": true, "i": null})`},
	{"pythonic", `[now(a="\x41\u00e9\U0001F600\101\a\q\\\x4", b=r"\n\"", c="""x""y"\n""", d="", e='' 'b' "c", f=f"{x}")]`, "",
		`now({"a": "\u0041\u00e9😀\u0041\u0007\\q\\\\x4", "b": "\\n\\\"", "c": "x\"\"y\"\n", "d": "", "e": "bc", "f": "{x}"})`},
	{"pythonic", `[now(a="a\/b \ud83d\ude00", b='\8\x4')]`, "", `now({"a": "a/b \ud83d\ude00", "b": "\\8\\x4"})`},
	{"pythonic", "[now(a=\"x\ny\t\", b='''l\n'm''' )]", "", `now({"a": "x\ny\t", "b": "l\n'm"})`},
	{"pythonic", `[now(a=date(2026, "1)", [1]), b=some words, c=a-b="d", e=x=y)]`, "", `now({"a": "date(2026, \"1)\", [1])", "b": "some words", "c": "a-b=\"d\"", "e": "x=y"})`},
	{"pythonic", `[weather("Köln", 2, True)]`, "", `weather({"city": "Köln", "days": 2, "argument_3": true})`},
	{"pythonic", `[now(a=, b={"c", d: 1, "e": }, f={[1]: 2}, 3)]`, "", `now({"a": null, "b": {"c": null, "d": 1, "e": null}, "f": {"": [1], "2": null}, "argument_1": 3})`},
	{"pythonic", `[weather(city="a`, "", `weather({"city": "a)~`},
	{"pythonic", `[weather(city="a"`, "", `weather({"city": "a")~`},
	{"pythonic", `[weather(city="a", da`, "", `weather({"city": "a", "da)~`},
	{"pythonic", `[weather(city=""`, "", `weather({"city": "")~`},
	{"pythonic", `[weather(city="a", days=12`, "", `weather({"city": "a", "days": 12)~`},
	{"pythonic", `[weather(city="a")`, "", `weather({"city": "a"})`},
	{"pythonic", `[now(), other(a=1)] b`, ", other(a=1)] b", `now({})`},
	{"pythonic", `[1, 2] [x] [other()] [we] [weather] [] [`, `[1, 2] [x] [other()] [we] [weather] [] [`, ""},
	{"llama4_pythonic", `a <|python_start|>[weather(city="b"), now()]<|python_end|>`, "a", `weather({"city": "b"}) now({})`},
	{"llama4_pythonic", `[now()]`, "", `now({})`},
	{"llama4_pythonic", `<|python_start|>[now()] a`, "a", `now({})`},
	{"llama4_pythonic", `<|python_start|>import x`, "<|python_start|>import x", ""},
	{"lfm2", `a<|tool_call_start|>[weather(city="b", days=2), now()]<|tool_call_end|>b`, "ab", `weather({"city": "b", "days": 2}) now({})`},
	{"lfm2", `<|tool_call_start|>[fs.search-files(a='<|tool_call_end|>')]<|tool_call_end|>`, "", `fs.search-files({"a": "<|tool_call_end|>"})`},
	{"lfm2", `<|tool_call_start|>[{"name": "now", "arguments": {"a": 1}}]<|tool_call_end|>`, "", `now({"a": 1})`},
	{"lfm2", `<|tool_call_start|>nothing<|tool_call_end|>`, "<|tool_call_start|>nothing<|tool_call_end|>", ""},
	{"lfm2", `<|tool_call_start|>[1]`, "<|tool_call_start|>[1]", ""},
	{"gemma4", `Yes.<|tool_call>call:weather{city:<|"|>Köln "\n" <|"<<|"|>,days:2}<tool_call|><|tool_call>call:now{}<tool_call|>`, "Yes.", `weather({"city": "Köln \"\\n\" <|\"<", "days": 2}) now({})`},
	{"gemma4", `<|tool_call>call:now{a:{b:[<|"|>}<|"|>,null,None,true],<|"|>c d<|"|>:-1.5},e:[{f:[]}],g:<|"|><|"|>}<tool_call|>`, "", `now({"a": {"b": ["}", null, null, true], "c d": -1.5}, "e": [{"f": []}], "g": ""})`},
	{"gemma4", `<|tool_call>call:now{ <|"|>a<|"|> : "b", c: plain text, d: <x>, e:12:30 } <tool_call|> b`, "b", `now({"a": "b", "c": "plain text", "d": "<x>", "e": "12:30"})`},
	{"gemma4", `<|tool_call>call:now{a:<|"|>x<|"<|"|>}<tool_call|>`, "", `now({"a": "x<|\""})`},
	{"gemma4", `<|tool_call>call:fs.read-file{a:1}`, "", `fs.read-file({"a": 1})`},
	{"gemma4", `<|tool_call>call:now{a:<|"|>x<|"`, "", `now({"a": "x<|\")~`},
	{"gemma4", `<|tool_call>call:now{a:<|"|>x<|"|>,b`, "", `now({"a": "x", "b)~`},
	{"gemma4", `<|tool_call>call me<tool_call|>`, "<|tool_call>call me<tool_call|>", ""},
	{"gemma4", `<|tool_call>call:now(1)`, "<|tool_call>call:now(1)", ""},
}

// TestPythonStreaming: arguments are returned as they come, and no text that cannot become a call
// is held back.
func TestPythonStreaming(t *testing.T) {
	p := format(t, "pythonic").NewParser(weather)
	var got []string
	for _, piece := range []string{"See [1", ", 2] and [wea", "ther", "(", "city='K", "öl", "n', da", "ys=", "2", ", x=[Tr", "ue, {'a'", ": 1}", "]", "), no", "w(", ")]"} {
		line := ""
		for _, d := range p.Next([]byte(piece), false) {
			line += fmt.Sprintf("[%s|%d %s %s %v]", d.Text, d.Call, d.Name, d.Arguments, d.End)
		}
		got = append(got, line)
	}
	want := []string{"[See [|0   false][1|0   false]", "[, 2] and|0   false]", "", "[|0 weather { false]", `[|0  "city": "K false]`, "[|0  öl false]", `[|0  n" false]`, `[|0  , "days":  false]`,
		"", `[|0  2, "x": [ false]`, `[|0  true, {"a false]`, `[|0  ": 1} false]`, "[|0  ] false]", "[|0  } true]", "[|1 now { false]", "[|1  } true]"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestGemmaTokens: the parser sees the tokens around strings, which decoders leave out otherwise.
func TestGemmaTokens(t *testing.T) {
	tokens := format(t, "gemma4").Tokens()
	for _, want := range []string{"<|tool_call>", `<|"|>`, "<tool_call|>"} {
		if !slices.Contains(tokens, want) {
			t.Errorf("%q is not among %q", want, tokens)
		}
	}
}
