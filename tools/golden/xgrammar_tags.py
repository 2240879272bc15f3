"""Golden data of package grammar: which structural tags xgrammar takes, and which texts it then accepts.

    pip install -r requirements.txt        (xgrammar 0.2.8, which vLLM 0.32 pins)
    python xgrammar_tags.py ../../grammar/testdata/xgrammar_tags.json

A text is a list of strings and token ids. The vocabulary has a token for each byte, the end token 256, and the tokens
257 to 260, which are called <|a|> to <|d|>. Strings are spelled in bytes.
"""
import importlib.metadata
import json
import pathlib
import sys

import xgrammar

PINNED = "0.2.8"

CITY = {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"], "additionalProperties": False}
ARGS = {"type": "object", "properties": {"s": {"type": "string"}, "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                                         "e": {"enum": ["x", "y z"]}, "o": CITY, "b": {"type": "boolean"}},
        "required": ["s"], "additionalProperties": False}
JSON = {"type": "json_schema", "json_schema": CITY}
DIGITS = {"type": "regex", "pattern": "[0-9]+"}
GET = {"type": "tag", "begin": "<f=get>", "content": JSON, "end": "</f>"}
PUT = {"begin": "<f=put>", "content": DIGITS, "end": "</f>"}
OK, OK_PUT = '<f=get>{"c":"x"}</f>', "<f=put>12</f>"
A, B, C, D = 257, 258, 259, 260


def triggered(**fields):
    return {"type": "triggered_tags", "triggers": ["<f="], "tags": [GET, PUT], **fields}


CALLS = ["", "text", OK, OK_PUT, "a" + OK + "b", OK + OK_PUT, OK + "x" + OK_PUT + "y", "<f", "<f=", "<f=zzz>", "a<f=put>x</f>", OK + "<f=", "bad", OK + "bad", "<<f=put>1</f>"]


def separated(**fields):
    return {"type": "tags_with_separator", "separator": ",", "tags": [GET, PUT], **fields}


LISTS = ["", OK, OK + "," + OK_PUT, OK + ",", OK + OK_PUT, "," + OK, OK_PUT + "," + OK_PUT + "," + OK]


def tag(content, begin="<t>", end="</t>"):
    return {"type": "tag", "begin": begin, "content": content, "end": end}


TEXT = {"type": "any_text"}
ENDED = ["<t></t>", "<t>a</t>", "<t>a</t>b</t>", "<t>", "<t></t", "<t><t></t>", "<t></t</t>", "a<t></t>", "<t>é</t>", "<t>x</u>", "<t>a</t></u>"]


def style(name, schema=ARGS):
    return {"type": "json_schema", "json_schema": schema, "style": name}


def parameters(before, after, string, other, end, value=""):
    """Texts of parameters, in the frame of a style."""
    def p(name, text, kind=string):
        return before + name + after.replace("%", kind) + value + text + end
    return ["", p("s", "Paris"), p("s", ""), p("s", '"q"'), p("s", "a\n<b>é"), "\n" + p("s", "\nParis\n") + "\n", p("s", "a") + "\n" + p("n", "12", other),
            p("n", "12", other), p("s", "a") + p("n", "x", other), p("s", "a") + p("n", '"1"', other), p("s", "a") + p("n", "\n12\n", other),
            p("s", "a") + p("e", "x"), p("s", "a") + p("e", "y z"), p("s", "a") + p("e", "\nx\n"), p("s", "a") + p("e", '"x"'), p("s", "a") + p("e", "z"),
            p("s", "a") + p("o", '{"c": "d"}', other if other != "number" else "object"), p("s", "a") + p("o", "d", other if other != "number" else "object"),
            p("s", "a") + p("b", "true", other if other != "number" else "boolean"), p("s", "a") + p("b", "True", other if other != "number" else "boolean"),
            p("s", "a") + p("z", "1"), p("s", "a") + p("s", "b"), p("s", end), p("s", "a") + "x", p("n", "1", other) + p("s", "a"), '{"s":"a"}']


QWEN = parameters("<parameter=", ">", "", "", "</parameter>")
TYPES = {"type": "object", "properties": {"l": {"type": "string", "minLength": 2, "maxLength": 3}, "p": {"type": "string", "pattern": "^[ab]+$"},
                                          "a": {"type": "array", "items": {"type": "integer"}}, "k": {"const": 5}, "m": {"type": ["integer", "string"]}},
         "additionalProperties": {"type": "integer"}}
TYPED = ["", "<parameter=l>ab</parameter>", "<parameter=l>a</parameter>", "<parameter=l>abcd</parameter>", "<parameter=l>é€</parameter>", "<parameter=p>abba</parameter>",
         "<parameter=p>abc</parameter>", "<parameter=a>[1, 2]</parameter>", "<parameter=a>[x]</parameter>", "<parameter=k>5</parameter>", "<parameter=k>6</parameter>",
         "<parameter=m>5</parameter>", "<parameter=m>five</parameter>", "<parameter=more>7</parameter>", "<parameter=more>x</parameter>", "<parameter=0>7</parameter>",
         "<parameter=more>7</parameter><parameter=_2>8</parameter>"]

def grammar(text):
    return {"type": "grammar", "grammar": text}


CASES = [
    ("const_string", {"type": "const_string", "value": "a<b"}, ["a<b", "a", ""]),
    ("const_string without a type", {"value": "ab"}, ["ab", ""]),
    ("const_string of nothing", {"type": "const_string", "value": ""}, ["", "a"]),
    ("json_schema", JSON, ['{"c":"x"}', '{"c": "x"}', '{"c":1}', "{}"]),
    ("json_schema true", {"type": "json_schema", "json_schema": True}, ["1", "{", "[1]"]),
    ("json_schema without a schema", {"type": "json_schema"}, ["1"]),
    ("json_schema with style json", style("json", CITY), ['{"c":"x"}', "x"]),
    ("json_schema with an unknown style", style("yaml", CITY), ["x"]),
    ("json_schema in any order", {**JSON, "any_order": True}, ['{"c":"x"}', "{}"]),
    ("json_schema with little whitespace", {**JSON, "max_whitespace_cnt": 1}, ['{"c":"x"}', '{ "c" : "x" }', '{  "c":"x"}', '{\n"c":\t"x"}']),
    ("json_schema with no whitespace", {**JSON, "max_whitespace_cnt": 0}, ['{"c":"x"}']),
    ("regex", DIGITS, ["1", "12", "", "a"]),
    ("regex without a type", {"pattern": "[0-9]"}, ["1"]),
    ("grammar", {"type": "grammar", "grammar": 'root ::= "a" [b-d]*'}, ["a", "abd", "b"]),
    ("grammar without a type", {"grammar": 'root ::= "a"'}, ["a"]),
    ("any_text", TEXT, ["", "abc", "<é>\n"]),
    ("any_text with an unknown field", {**TEXT, "bogus": 3}, ["", "abc"]),
    ("any_text without a type", {"excludes": []}, ["", "abc"]),
    ("any_text with excludes", {"type": "any_text", "excludes": ["ab", "b</"]}, ["", "a", "aab", "ba", "b<", "b</", "a b"]),
    ("any_text with max_chars", {"type": "any_text", "max_chars": 3}, ["", "abc", "é€😀", "abcd"]),
    ("any_text with max_chars and excludes", {"type": "any_text", "max_chars": 4, "excludes": ["aé"]}, ["", "abcd", "aaé", "éaéb", "abcde", "éaa"]),
    ("any_text with max_chars 0", {"type": "any_text", "max_chars": 0}, ["", "a"]),
    ("any_text with a negative max_chars", {"type": "any_text", "max_chars": -1}, [""]),
    ("sequence", {"type": "sequence", "elements": [{"type": "const_string", "value": "a"}, DIGITS]}, ["a1", "a", "1"]),
    ("elements without a type are a sequence", {"elements": [{"value": "a"}, {"value": "b"}]}, ["ab", "a"]),
    ("sequence of nothing", {"type": "sequence", "elements": []}, [""]),
    ("or", {"type": "or", "elements": [{"type": "const_string", "value": "a"}, DIGITS]}, ["a", "1", "a1", ""]),
    ("optional", {"type": "optional", "content": DIGITS}, ["", "1", "a"]),
    ("content without a type is optional", {"content": {"value": "a"}}, ["", "a", "aa"]),
    ("star", {"type": "star", "content": {"type": "const_string", "value": "a"}}, ["", "a", "aaa", "b"]),
    ("plus", {"type": "plus", "content": {"type": "const_string", "value": "a"}}, ["", "a", "aaa"]),
    ("repeat", {"type": "repeat", "min": 2, "max": 3, "content": {"type": "const_string", "value": "a"}}, ["a", "aa", "aaa", "aaaa"]),
    ("repeat without a bound", {"type": "repeat", "min": 2, "max": -1, "content": {"type": "const_string", "value": "a"}}, ["a", "aa", "aaaaaa"]),
    ("repeat the wrong way round", {"type": "repeat", "min": 3, "max": 2, "content": {"type": "const_string", "value": "a"}}, ["aa"]),
    ("tag", tag(TEXT), ENDED),
    ("tag without a type", {"begin": "<t>", "content": TEXT, "end": "</t>"}, ENDED),
    ("tag with two ends", tag(TEXT, end=["</t>", "</u>"]), ENDED),
    ("tag whose end may be nothing", tag(TEXT, end=["</t>", ""]), ENDED),
    ("tag with no end", tag(DIGITS, end=""), ["<t>12", "<t>"]),
    ("tag with an empty list of ends", tag(DIGITS, end=[]), ["<t>12"]),
    ("tag whose end is excluded", tag({"type": "any_text", "excludes": ["</t>"]}), ENDED),
    ("tag whose excludes begin its end", tag({"type": "any_text", "excludes": ["</"]}), ENDED),
    ("tag around a sequence", tag({"type": "sequence", "elements": [TEXT, {"type": "const_string", "value": "!"}, TEXT]}), ["<t>!</t>", "<t>a!b!</t>", "<t></t>!</t>", "<t>!</t></t>", "<t></t>"]),
    ("tag around or", tag({"type": "or", "elements": [TEXT, {"type": "const_string", "value": "</t>"}]}), ["<t></t>", "<t></t></t>", "<t>a</t>", "<t>a</t></t>"]),
    ("tag in a tag", tag(tag(TEXT, "[", "]")), ["<t>[a]</t>", "<t>[</t>]</t>", "<t>a</t>"]),
    ("tag around star", tag({"type": "star", "content": DIGITS}), ["<t></t>", "<t>12</t>", "<t>"]),
    ("end that overlaps itself", tag(TEXT, "", "aa"), ["aa", "aaa", "baa", "aaaa"]),
    ("triggered_tags", triggered(), CALLS),
    ("triggered_tags, at least one", triggered(at_least_one=True), CALLS),
    ("triggered_tags, stop after the first", triggered(stop_after_first=True), CALLS),
    ("triggered_tags, exactly one", triggered(at_least_one=True, stop_after_first=True), CALLS),
    ("triggered_tags with excludes", triggered(excludes=["bad"]), CALLS),
    ("triggered_tags without a type", {"triggers": ["<f="], "tags": [PUT]}, CALLS),
    ("triggered_tags in a tag", tag(triggered()), ["<t></t>", "<t>" + OK + "a</t>", "<t></t></t>", "<t>" + OK, '<t><f=get>{"c":"</t>"}</f></t>']),
    ("triggered_tags with a tag that no trigger begins", {"type": "triggered_tags", "triggers": ["<g"], "tags": [PUT]}, [""]),
    ("triggered_tags with a trigger twice over", {"type": "triggered_tags", "triggers": ["<f", "<f="], "tags": [PUT]}, [""]),
    ("triggered_tags with a token", {"type": "triggered_tags", "triggers": ["<f"], "tags": [tag(TEXT, {"type": "token", "token": A})]}, [""]),
    ("triggered_tags with no trigger", {"type": "triggered_tags", "triggers": [], "tags": [PUT]}, [""]),
    ("triggered_tags of something else", {"type": "triggered_tags", "triggers": ["a"], "tags": [{"type": "const_string", "value": "a"}]}, [""]),
    ("tags_with_separator", separated(), LISTS),
    ("tags_with_separator, at least one", separated(at_least_one=True), LISTS),
    ("tags_with_separator, stop after the first", separated(stop_after_first=True), LISTS),
    ("tags_with_separator, exactly one", separated(at_least_one=True, stop_after_first=True), LISTS),
    ("tags_with_separator of nothing", {"tags": [PUT], "separator": ""}, ["", OK_PUT, OK_PUT + OK_PUT]),
    ("dispatch", {"type": "dispatch", "rules": [["<n>", DIGITS], ["<m>", {"value": "!"}]], "excludes": ["</"]}, ["", "a", "<n>1", "<n>", "<n>1a", "<m>!b<n>2", "</", "a</b", "<m>"]),
    ("dispatch once", {"type": "dispatch", "rules": [["<n>", DIGITS]], "loop": False}, ["", "a", "<n>1", "a<n>12", "<n>1a"]),
    ("dispatch in a tag", tag({"type": "dispatch", "rules": [["<n>", DIGITS]], "excludes": ["</t>"]}), ["<t></t>", "<t>a<n>1b</t>", "<t></t></t>"]),
    ("qwen_xml_parameter", {"type": "qwen_xml_parameter", "json_schema": ARGS}, QWEN),
    ("qwen_xml", style("qwen_xml"), QWEN),
    ("qwen_xml of many types", style("qwen_xml", TYPES), TYPED),
    ("qwen_xml of any object", style("qwen_xml", {"type": "object"}), TYPED),
    ("qwen_xml in a tag", tag(style("qwen_xml"), "<function=f>\n", "</function>"), ["<function=f>\n<parameter=s>\nParis\n</parameter>\n</function>", "<function=f>\n</function>"]),
    ("minimax_xml", style("minimax_xml"), parameters('<parameter name="', '">', "", "", "</parameter>")),
    ("glm_xml", style("glm_xml"), parameters("<arg_key>", "</arg_key>", "", "", "</arg_value>", "<arg_value>")),
    ("deepseek_xml", style("deepseek_xml"), parameters('<｜DSML｜parameter name="', '" string="%">', "true", "false", "</｜DSML｜parameter>")),
    ("deepseek_v4_1_xml", style("deepseek_v4_1_xml"), parameters('<｜DSML｜ parameter name="', '" string="%">', "true", "false", "</｜DSML｜ parameter>")),
    ("kimi_k3_xml", style("kimi_k3_xml"), parameters('<|open|>argument key="', '" type="%"<|sep|>', "string", "number", "<|close|>argument<|sep|>")),
    ("token", {"type": "token", "token": A}, [[A], [B], [], [A, A]]),
    ("token by name", {"type": "token", "token": "<|b|>"}, [[B], [A]]),
    ("token that there is not", {"type": "token", "token": "<|z|>"}, [[A]]),
    ("token with a text", {"type": "sequence", "elements": [{"type": "token", "token": 97}, {"type": "const_string", "value": "b"}]}, [["ab"], ["b"], [A, "b"]]),
    ("exclude_token", {"type": "exclude_token", "exclude_tokens": [A, "<|b|>", 98]}, [[C], [A], [B], ["a"], ["b"], []]),
    ("any_tokens", {"type": "any_tokens", "exclude_tokens": [A]}, [[], ["abc"], [B, "x", C], ["x", A]]),
    ("any_tokens with max_tokens", {"type": "any_tokens", "max_tokens": 2}, [[], ["ab"], [A, B], ["abc"]]),
    ("any_tokens with many max_tokens", {"type": "any_tokens", "max_tokens": 20}, [[], ["a" * 20], ["a" * 21]]),
    ("tag of tokens", {"type": "tag", "begin": {"type": "token", "token": "<|a|>"}, "content": {"type": "any_tokens"}, "end": {"type": "token", "token": B}},
     [[A, B], [A, "xyz", B], [A, C, B], [A, B, B], ["x", B], [A, "x"]]),
    ("tag of tokens around JSON", {"begin": {"token": "<|a|>"}, "content": JSON, "end": {"token": "<|b|>"}}, [[A, '{"c":"x"}', B], [A, "{}", B], [A, B]]),
    ("tag of a token around exclude_token", {"begin": "x", "content": {"type": "exclude_token"}, "end": {"token": "<|b|>"}}, [["x", A, B], ["x", B, B], ["xy", B]]),
    ("tag of tokens around text", {"begin": {"token": A}, "content": TEXT, "end": {"token": B}}, [[A, B], [A, "ab", B], [A, "ab"]]),
    ("token_triggered_tags", {"type": "token_triggered_tags", "trigger_tokens": [A, "<|c|>"], "exclude_tokens": [D],
                              "tags": [{"begin": {"token": A}, "content": DIGITS, "end": {"token": B}}, {"begin": {"token": C}, "content": {"value": "!"}, "end": ""}]},
     [[], ["text"], [A, "1", B], ["x", A, "12", B, "y", C, "!", "z"], [A, "x", B], [D], [A], [B], [C]]),
    ("token_triggered_tags, exactly one", {"type": "token_triggered_tags", "trigger_tokens": [A], "at_least_one": True, "stop_after_first": True,
                                           "tags": [{"begin": {"token": A}, "content": DIGITS, "end": {"token": B}}]}, [[], [A, "1", B], [A, "1", B, "x"], ["x", A, "1", B]]),
    ("token_triggered_tags, at least one", {"type": "token_triggered_tags", "trigger_tokens": [A], "at_least_one": True,
                                            "tags": [{"begin": {"token": A}, "content": DIGITS, "end": {"token": B}}]}, [[], [A, "1", B], [A, "1", B, "x", A, "2", B], ["x", A, "1", B]]),
    ("token_triggered_tags with text", {"type": "token_triggered_tags", "trigger_tokens": [A], "tags": [PUT]}, [[]]),
    ("token_dispatch", {"type": "token_dispatch", "rules": [[A, DIGITS], ["<|b|>", {"value": "!"}]], "exclude_tokens": [C]}, [[], ["x"], [A, "1"], [A, "1", "x", B, "!"], [A, "x"], [C], [D]]),
    ("token_dispatch once", {"type": "token_dispatch", "rules": [[A, DIGITS]], "loop": False}, [[], ["x", A, "1"], [A, "1", "x"], [B]]),
    ("EBNF over lines", grammar('root ::= "a" | # one\n  b\n\nb ::= "b"\n  "c"'), ["a", "bc", "b"]),
    ("EBNF escapes", grammar(r'root ::= "\x41\u00e9\U0001F600\n\t\r\b\f\v\0\a\e\"\\\/" [\^\-\]\\]'), ["Aé😀\n\t\r\b\f\v\0\a\x1b\"\\/^", "Aé😀\n\t\r\b\f\v\0\a\x1b\"\\/-"]),
    ("EBNF classes", grammar('root ::= [a-cé] [^a-c] [^] [x-]'), ["ad\n-", "éé😀x", "aa\n-", "adax", "ad\ny"]),
    ("EBNF repetition", grammar('root ::= "a"{2} "b"{1,} ("c" "d"){0,2} "e"? "f"* "g"+'), ["aabg", "aabbcdcdeffgg", "abg", "aabcdcdcdg", "aab"]),
    ("EBNF repetition without a lower bound", grammar('root ::= "a"{,2}'), ["a"]),
    ("EBNF two operators", grammar('root ::= "a"?*'), ["a"]),
    ("EBNF nothing", grammar('root ::= "" | ("a" ())'), ["", "a", "b"]),
    ("EBNF names", grammar('root ::= a-b.c_1\na-b.c_1 ::= "x"'), ["x"]),
    ("EBNF left recursion", grammar('root ::= root "+" n | n\nn ::= [0-9]'), ["1", "1+2+3", "+1"]),
    ("EBNF lookahead", grammar('root ::= a "b"\na ::= "x" (="c")'), ["xb", "xc"]),
    ("EBNF options", grammar('root[capture, temperature=0.5] ::= a\na[capture="n"] ::= "x"'), ["x", "y"]),
    ("EBNF class after a rule", grammar('root ::= a [b] "c"\na ::= "x"'), ["xbc", "xc"]),
    ("EBNF unknown option", grammar('root[bogus] ::= "a"'), []),
    ("EBNF undefined", grammar('root ::= a'), []),
    ("EBNF twice", grammar('root ::= "a"\nroot ::= "b"'), []),
    ("EBNF without root", grammar('a ::= "a"'), []),
    ("EBNF class of digits", grammar(r'root ::= [\d]'), []),
    ("EBNF range out of order", grammar('root ::= [b-a]'), []),
    ("EBNF open literal", grammar('root ::= "a'), []),
    ("EBNF regex", grammar('root ::= /a/'), []),
    ("Regex", grammar(r'root ::= "ID-" Regex("[0-9]{2,3}\\.\\w.")'), ["ID-12.ax", "ID-123._\n", "ID-1.ax", "ID-12xax"]),
    ("Regex with flags", grammar('root ::= Regex("ab.", flags="i")'), ["AbX", "ab\n", "aXb"]),
    ("Regex with flags i and s", grammar('root ::= Regex("ab.", flags="is")'), ["AB\n", "abx"]),
    ("Regex with an unknown flag", grammar('root ::= Regex("ab.", flags="m")'), []),
    ("Regex of nothing", grammar('root ::= Regex()'), []),
    ("Substring", grammar('root ::= "<" Substring("abc", "de", "fg") ">"'), ["<>", "<abc>", "<defg>", "<abcdefg>", "<ab>", "<abcfg>"]),
    ("Substring of a number", grammar('root ::= Substring(1)'), []),
    ("TagDispatch", grammar('root ::= body "</answer>"\nbody ::= TagDispatch(("<n>", n), ("<m>", m), excludes=("</answer>",))\nn ::= [0-9]+ ";"\nm ::= "!"'),
     ["</answer>", "a<n>12;b<m>!c</answer>", "<n></answer>", "a</answer>b</answer>", "<n", "<n>1;</answer>"]),
    ("TagDispatch once", grammar('root ::= TagDispatch(("<n>", n), loop_after_dispatch=false)\nn ::= [0-9]'), ["", "a", "a<n>1", "a<n>1b", "<n>"]),
    ("TagDispatch of an unknown argument", grammar('root ::= TagDispatch(("<n>", root), bogus=true)'), []),
    ("TagDispatch of an undefined rule", grammar('root ::= TagDispatch(("<n>", bogus))'), []),
    ("TagDispatch of no pair", grammar('root ::= TagDispatch("<n>")'), []),
    ("Token", grammar('root ::= Token(257, 97) "b"'), [[A, "b"], ["ab"], [B, "b"], ["b"]]),
    ("Token of a text", grammar('root ::= Token("a")'), []),
    ("ExcludeToken", grammar('root ::= ExcludeToken(257, 97)+ "!"'), [[B, "x!"], ["!"], [A, "!"], ["xa!"]]),
    ("TokenTagDispatch", grammar('root ::= TokenTagDispatch((257, n), excludes=(258,))\nn ::= [0-9]'), [[], ["x", A, "1", "y"], [A, "x"], [B], [C, A, "1", A, "2"]]),
    ("a rule with the name of a macro", grammar('root ::= Token\nToken ::= "a"'), ["a"]),
    ("no format", {"type": "bogus"}, [""]),
    ("a list", [1], [""]),
    ("fields that fit no format", {"bogus": 1}, [""]),
]


def main(out):
    if (have := importlib.metadata.version("xgrammar")) != PINNED:
        sys.exit(f"needs xgrammar {PINNED}, this is {have}")
    vocab = [bytes([b]) for b in range(256)] + [b"</s>", b"<|a|>", b"<|b|>", b"<|c|>", b"<|d|>"]
    tokenizer = xgrammar.TokenizerInfo(vocab, xgrammar.VocabType.RAW, vocab_size=len(vocab), stop_token_ids=[256])
    compiler = xgrammar.GrammarCompiler(tokenizer, max_threads=1, cache_enabled=False)
    cases = []
    for name, form, texts in CASES:
        case = {"name": name, "format": form}
        try:
            compiled = compiler.compile_structural_tag(json.dumps({"type": "structural_tag", "format": form}))
        except Exception as e:
            case["refused"] = True
            cases.append(case)
            print(f"{name}: {str(e).strip()[:120]}")
            continue
        case["accepts"], case["rejects"] = [], []
        for text in texts:
            text = text if isinstance(text, list) else [text]
            matcher = xgrammar.GrammarMatcher(compiled)
            ids = [i for part in text for i in (part.encode() if isinstance(part, str) else [part])]
            ok = all(matcher.accept_token(i) for i in ids) and matcher.accept_token(256)
            case["accepts" if ok else "rejects"].append(text)
        cases.append(case)
    lines = ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases)
    pathlib.Path(out).write_text(f'{{"xgrammar":"{PINNED}","cases":[\n{lines}\n]}}\n', encoding="utf-8")
    print(len(cases), "cases")


main(sys.argv[1])
