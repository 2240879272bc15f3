package grammar

import (
	"errors"
	"strings"
	"testing"
)

func TestEBNF(t *testing.T) {
	nested := `root ::= "a" root "b" | "a" root "c" | "x"`
	deep := strings.Repeat("a", 40)
	checkTexts(t, []textCase{
		{"one text (docs/interface/chat-completions.md, C72)", notation(`root ::= "x"`), []string{"x"}, []string{"", "xx"}},
		{"literals and classes", notation("root ::= \"\\\"\\x41\\u00e9\\n\" [^\\]a-c] [-x] . # comment\n"), []string{"\"Aé\nd-é"}, []string{"\"Aé\na-é"}},
		{"rules over lines", notation("root ::= (\n a |\n b)\n\na ::= \"1\"\nb ::= \"2\" | \"3\"\n"), []string{"1", "2", "3"}, []string{"4"}},
		{"repetition", notation(`root ::= "a"{2,3} "b"{2} "c"{2,} "d"{,2} ("ef"){3,400}`),
			[]string{"aabbccefefef", "aaabbcccdd" + strings.Repeat("ef", 400)}, []string{"abbccefefef", "aabbccef", "aabbcc" + strings.Repeat("ef", 401)}},
		{"balanced", notation(`root ::= "(" root ")" root | ""`), []string{"", "()", "(()())()"}, []string{"(", "())"}},
		{"left recursion", notation("root ::= root \"+\" term | root \"-\" term | term\nterm ::= term \"*\" [0-9] | [0-9]"), []string{"1", "1+2*3-4", "1*2*3"}, []string{"", "+1", "1+", "1*"}},
		{"indirect left recursion", notation("root ::= a \"x\" | \"1\"\na ::= b \"y\" | \"2\"\nb ::= root \"z\" | a \"w\""), []string{"1", "2x", "1zyx", "2wyx", "1zyxzyx", "2wywyx"}, []string{"1z", "1zy", "2", "x"}},
		{"hidden left recursion", notation("root ::= n root \"a\" | \"b\"\nn ::= \"n\"?"), []string{"b", "ba", "nba", "nnbaa", "nbaa"}, []string{"nb", "a", "n"}},
		{"an empty left recursion", notation(`root ::= root root | "a" | ""`), []string{"", "a", "aaaa"}, []string{"b"}},
		{"rules that never end are cut", notation("root ::= \"a\" | \"b\" loop\nloop ::= \"c\" loop"), []string{"a"}, []string{"b", "bc"}},
		{"one prefix, two ends", notation(nested), []string{"x", "axb", deep + "x" + strings.Repeat("bc", 20)}, []string{"ax", deep + "x" + strings.Repeat("b", 39)}},
	})
	for _, s := range []string{`root ::= undefined`, `root := "x" ::=`, `root ::= "x`, `root ::= [a`, `root ::= (`, `x ::= "y"`, `root ::= "a" root ::= "b"`, `root ::= [\d]`, `root ::= "a"{3,2}`, `::=`} {
		if _, err := compileFor(notation(s), testVocabulary); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
	if _, err := compileFor(notation(`root ::= "a" root`), testVocabulary); !errors.Is(err, ErrUnsatisfiable) {
		t.Errorf("endless rule: %v, want ErrUnsatisfiable", err)
	}
}

func TestLark(t *testing.T) {
	checkTexts(t, []textCase{
		{"simple", notation("start: \"a\" b+ // comment\nb: \"b\"i | C\nC: /[0-9]{2}/\n"), []string{"ab", "aB12b"}, []string{"a", "a1"}},
		{"ignore", notation("%import common.INT\n%import common.WS\n%ignore WS\nstart: item (\",\" item)*\nitem: \"id=\" INT"),
			[]string{"id=1", "id=1, id= 42 ", "id=1 ,id=2\n"}, []string{" id=1", "id=4 2x", "i d=1"}},
		{"continued lines, aliases, priorities", notation("?start: x -> one\n  | y -> two\n!x.2: \"x\"\ny: [\"z\"] \"y\"~2..3\n"), []string{"x", "yy", "zyyy"}, []string{"zx", "y", "yyyy"}},
		{"ranges and flags", notation(`start: "a".."c" /x.y/is "#" /\//`), []string{"bX\nY#/"}, []string{"dxzy#/"}},
		{"the first rule, without start", notation("doc: \"x\"\nother: \"y\""), []string{"x"}, []string{"y"}},
		{"left recursion", notation("start: start \"+\" NUM | NUM\nNUM: /[0-9]+/"), []string{"1", "1+22+3"}, []string{"+1", "1+"}},
	})
	for _, s := range []string{`start: x`, `start: "a`, "start: \"a\"\nstart: \"b\"", `start "x"`, `start: "b".."a"`, `start: <|tool|>`} {
		if _, err := compileFor(notation(s), testVocabulary); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
	for _, s := range []string{"%declare X\nstart: X", `%import python.X`, "t{x}: x\nstart: t"} {
		if _, err := compileFor(notation(s), testVocabulary); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%q: %v, want ErrUnsupported", s, err)
		}
	}
}

// TestPlacesInGrammars: refusals name the line and the column, in characters, of what they
// are about.
func TestPlacesInGrammars(t *testing.T) {
	for text, want := range map[string]string{
		"root ::= \"a\"\nb ::= nothing":               "line 2, column 7: the rule nothing is not defined",
		"root ::= \"é\" \"x":                          "line 1, column 16: unexpected end",
		"# é\nroot ::= [b-a]":                         "line 2, column 14: a range out of order",
		"root ::= a\na ::= \"x\"\n a ::= \"y\"":       "line 3, column 2: the rule a is defined twice",
		"root ::= <|z|>":                              "line 1, column 10: the vocabulary has no token",
		"root[lazy] ::= \"a\"":                        "line 1, column 6: the option lazy is not supported",
		"root ::= Regex(\"[\")":                       "line 1, column 10: regular expression: missing ]",
		"start: \"a\" // é\n  | b":                    "line 2, column 5: the rule b is not defined",
		"start: \"a\"\n%declare X":                    "line 2, column 1: the directive %declare is not supported",
		"start: x\nx[max_tokens=3]: /a+/":             "line 2, column 3: max_tokens is not supported",
		"start: x\nx: %json {\"type\": \"bogus\"}":    "line 2, column 4: unknown type",
		"start: X\nX: /a/ |\n /(?=a)/":                "line 3, column 2: regular expression: lookaround",
		"start: \"a\" & \"b\"":                        "line 1, column 12: & is only for terminals",
		"start: %lark {\n  start: \"a\" |\n  bogus }": "line 3, column 3: the rule bogus is not defined",
		"start: p::0":                                 "line 1, column 9: a rule with a parameter is not supported",
	} {
		if _, err := compileFor(notation(text), testVocabulary); err == nil || !strings.Contains(err.Error(), "grammar: "+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestIsEBNF: which notation a grammar is in, as vLLM decides it.
func TestIsEBNF(t *testing.T) {
	for text, want := range map[string]bool{"root ::= \"a\"": true, "start: \"a\"": false, "start: \"a\" // ::=": false, "# ::=\nstart: \"a\"": false, "// a\nroot ::= b": true} {
		if got := isEBNF(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
