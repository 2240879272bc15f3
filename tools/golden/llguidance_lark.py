"""Golden data of package grammar: which Lark grammars llguidance takes, and which texts it then accepts.

    pip install -r requirements.txt        (llguidance 1.9.1)
    python llguidance_lark.py ../../grammar/testdata/llguidance_lark.json

A text is a list of strings and token ids. The vocabulary has a token for each byte, the end token 256, and the special
tokens 257 to 260, which are called <|a|> to <|d|>. Strings are spelled in bytes.
"""
import importlib.metadata
import json
import pathlib
import sys

import llguidance

PINNED = "1.9.1"
A, B, C, D = 257, 258, 259, 260

OBJECT = '{"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 12}}, "required": ["n"], "additionalProperties": false}'

CASES = [
    ("a rule and a terminal", 'start: "a" B+\nB: /[0-9]/', ["a1", "a12", "a", "ab"]),
    ("no start", 'first: "a"', ["a"]),
    ("comments", 'start: "a" // one\n  | "b" # two\n', ["a", "b", "ab"]),
    ("a string with signs of comments", 'start: "a//b" | "#"', ["a//b", "#", "a"]),
    ("a regular expression with a slash", r'start: /a\/b/', ["a/b", "ab"]),
    ("escapes", r'start: "\n\t\"\\\u00e9\x41"', ["\n\t\"\\éA"]),
    ("letters of any case", 'start: "Ab"i "c"', ["abc", "ABc", "aBC"]),
    ("a range", 'start: "a".."c"', ["a", "c", "d"]),
    ("repetition", 'start: "a"{2,3} "b"{2} "c"{1,} "d"{,1}', ["aabbc", "aaabbccd", "abbc", "aabbcdd"]),
    ("repetition with a tilde", 'start: "a"~2 "b"~1..2', ["aab", "aabb", "ab", "aabbb"]),
    ("what may be left out", 'start: ["a"] "b"? "c"*', ["", "abcc", "bc", "ba"]),
    ("an alias", 'start: "a" -> one\n     | "b" -> two', ["a", "b"]),
    ("modifiers of rules", '?start: x\n!x: "a"', ["a", "b"]),
    ("imports", '%import common.INT\n%import common.CNAME -> NAME\n%import common (WS, LETTER)\nstart: NAME "=" INT', ["a=1", "_b2=33", "1=1"]),
    ("an import that there is not", '%import common.BOGUS\nstart: BOGUS', []),
    ("ignored", '%ignore /[ ]+/\nstart: "a" "b"', ["ab", "a b", "a  b", " ab", "ab "]),
    ("ignored once", '%llguidance {"ignore_once": true}\n%ignore /[ ]{1,2}/\nstart: "a" "b"', ["ab", "a b", "a  b", "a   b"]),
    ("ignored at the beginning", '%llguidance {"allow_initial_skip": true}\n%ignore / +/\nstart: "a" "b"', ["ab", " ab", "  a b"]),
    ("options", '%llguidance {"no_forcing": true}\nstart: "a"', ["a"]),
    ("no options", '%llguidance {}\nstart: "a"', ["a"]),
    ("an option of the wrong type", '%llguidance {"no_forcing": 3}\nstart: "a"', []),
    ("left recursion", 'start: start "+" NUM | NUM\nNUM: /[0-9]+/', ["1", "1+22+3", "1+", "+1"]),
    ("an undefined rule", 'start: bogus', []),
    ("an undefined terminal", 'start: BOGUS', []),
    ("a rule twice", 'start: "a"\nstart: "b"', []),
    ("a rule in a terminal", 'start: A\nA: b\nb: "c"', []),
    ("a terminal in itself", 'start: A\nA: "a" A | "b"', []),
    ("and", 'start: A\nA: /[a-z]+/ & /.*x.*/', ["x", "axb", "ab", "AxB"]),
    ("and binds tighter than or", 'start: A\nA: /[a-z]+/ & /..?/ | "123"', ["a", "ab", "abc", "123"]),
    ("and in a rule", 'start: "a" & "b"', []),
    ("not", 'start: A\nA: /[a-z \\n]*/ & ~/(?s:.*)\\n\\n(?s:.*)/', ["", "a\nb", "a\n\nb", "\n"]),
    ("not of one text", 'start: A\nA: /[ab]*/ & ~"ab"', ["", "a", "ab", "aba"]),
    ("not binds tighter than repetition", 'start: A "!"\nA: ("x" & ~"y")+', ["x!", "xx!", "!", "y!"]),
    ("not in a rule", 'start: "<" (~/(?s:.*)[<>](?s:.*)/) ">"', ["<>", "<ab>", "<a<>", "<a>b>"]),
    ("flags", 'start: /ab.c/is', ["ab\nc", "ABxC", "abc"]),
    ("flags in a group", 'start: /(?i:ab)(?s:.)c/', ["aB\nc", "ABxc", "abxC"]),
    ("classes of Unicode", r'start: /\d\w\s/', ["1é ", "٣x ", "aa ", "1- "]),
    ("negated classes of Unicode", r'start: /\D\W\S/', ["a-x", "٣-x", "aéx", "a- "]),
    ("a dot", 'start: /./', ["a", "é", "\n", "\r"]),
    ("lookahead", 'start: /a(?=b)/', []),
    ("JSON", 'start: "x" j\nj: %json ' + OBJECT, ['x{"n": 3}', 'x{"n":12}', 'x{"n": 2}', "x{}", '{"n": 3}']),
    ("JSON in an alternative", 'start: %json {"type": "boolean"} | "no"', ["true", "no", "1"]),
    ("JSON that is none", 'start: %json {"type": }', []),
    ("JSON of an unknown type", 'start: %json {"type": "bogus"}', []),
    ("JSON in a terminal", 'start: A\nA: %json {"type": "boolean"}', []),
    ("a range of numbers", 'start: %json {"type": "integer", "minimum": -5, "exclusiveMaximum": 10}', ["-5", "9", "10", "-6", "0"]),
    ("chunks", 'start: %regex {"substring_chunks": ["ab", "c", "de"]}', ["", "ab", "abc", "cde", "abde", "a", "d"]),
    ("words", 'start: %regex {"substring_words": "The quick, brown fox"}', ["", "The", "quick, brown", " ", "Th", "The brown", ", "]),
    ("characters", 'start: %regex {"substring_chars": "abcé"}', ["", "bc", "é", "ac", "abcé"]),
    ("chunks in a terminal", 'start: A "!"\nA: "<" %regex {"substring_chunks": ["ab", "c"]} ">"', ["<abc>!", "<>!", "<a>!"]),
    ("an unknown %regex", 'start: %regex {"bogus": 1}', []),
    ("two fields of %regex", 'start: %regex {"substring_chars": "a", "substring_words": "a"}', []),
    ("nested", 'start: "<" %lark {\n  start: x+\n  x: "a" | "b"\n} ">"\nx: "c"', ["<ab>", "<a>", "<c>", "<>"]),
    ("nested, with spaces ignored outside", '%ignore " "\nstart: "(" %lark { start: "a" "b" } ")"', ["(ab)", "( ab )", "(a b)"]),
    ("lazy", 'start: f "!"\nf[lazy]: /[a-z]*;/', ["ab;!", ";!", "ab!", "a;b;!"]),
    ("lazy digits", 'start: f "2"\nf[lazy]: /[0-9]+/', ["12", "22", "112"]),
    ("a suffix", 'start: f "y"\nf[suffix="<end>"]: /.*/', ["<end>y", "ab<end>y", "a<end>b<end>y", "ab"]),
    ("a suffix that is a terminal", 'start: f\nf[suffix=E]: /[a-z]*/\nE: /[0-9]/', ["ab1", "1", "ab", "ab12"]),
    ("annotations", 'start: f\nf[capture="x", temperature=0.7]: /[a-z]+/', ["ab", "1"]),
    ("a capture", 'start: f "b"\nf[capture]: "a"', ["ab", "a"]),
    ("no tokens", 'start: "a" f\nf[max_tokens=0]: /[a-z]+/', ["a", "ab"]),
    ("an unknown attribute", 'start[bogus=1]: "a"', []),
    ("a call of a tool in text", 'start: ( f_foo | f_bar )* f_end\nf_end: TEXT\nTEXT: /(.|\\n)*/\nf_foo_hd[lazy]: TEXT "<function"\nf_foo: f_foo_hd "=foo>" /[0-9]+/ "</function>"\n'
                                  'f_bar_hd[lazy]: TEXT "<function"\nf_bar: f_bar_hd "=bar>" "x" "</function>"',
     ["", "text", "a<function=foo>12</function>b", "<function=bar>x</function><function=foo>1</function>"]),
    ("a token", 'start: <|a|> "x" <|b|>', [[A, "x", B], ["x", B], [A, "x"], ["<|a|>x", B]]),
    ("a token that there is not", 'start: <|z|>', []),
    ("a token by its id", 'start: <[257]> | <[98]>', [[A], ["b"], [B], ["a"]]),
    ("ranges of tokens", 'start: <[97-98,257,259-260]>', [["a"], ["b"], [A], [C], [D], [B], ["c"]]),
    ("other tokens", 'start: <[^97-98,257]>', [["a"], [A], ["c"], [B], []]),
    ("any token", 'start: <[*]> "!"', [["a!"], [A, "!"], ["!"], ["ab!"]]),
    ("any tokens", 'start: <|a|> <[*]>* "!"', [[A, "!"], [A, "ab", B, "!"], ["a!"]]),
    ("no token", 'start: <[]>', []),
    ("tokens the wrong way round", 'start: <[5-3]>', []),
    ("a token in a terminal", 'start: A\nA: <|a|>', []),
    ("thoughts", 'start: <|a|> "\\n" /(.|\\n)*/ <|b|> answer\nanswer: %json {"type": "boolean"}', [[A, "\n", "hm\nhm", B, "true"], [A, "\n", B, "false"], [A, "\n", B, "x"], [A, "hm", B, "true"]]),
    ("a rule with a parameter", 'start: perm::0x0\nperm::_ : "" %if is_ones([0:1])\n | "a" perm::set_bit(0) %if bit_clear(0)', ["a", ""]),
    ("a template", 'start: t{"a"}\nt{x}: x', []),
    ("a declaration", '%declare X\nstart: "a"', []),
    ("another grammar", 'start: @other', []),
]


class Bytes:
    """A tokenizer with a token for each byte and four special tokens."""
    eos_token_id = 256
    bos_token_id = None
    tokens = [bytes([b]) for b in range(256)] + [b"</s>", b"<|a|>", b"<|b|>", b"<|c|>", b"<|d|>"]
    special_token_ids = [256, A, B, C, D]

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())


def main(out):
    if (have := importlib.metadata.version("llguidance")) != PINNED:
        sys.exit(f"needs llguidance {PINNED}, this is {have}")
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))
    cases = []
    for name, lark, texts in CASES:
        case = {"name": name, "grammar": lark}
        error = llguidance.LLMatcher.validate_grammar(llguidance.LLMatcher.grammar_from_lark(lark), tokenizer)
        if error:
            case["refused"] = True
            print(f"{name}: {error.strip().splitlines()[0][:120]}")
        else:
            case["accepts"], case["rejects"] = [], []
        for text in [] if error else texts:
            text = text if isinstance(text, list) else [text]
            matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
            ids = [i for part in text for i in (part.encode() if isinstance(part, str) else [part])]
            ok = (matcher.validate_tokens(ids) == len(ids) and (not ids or matcher.consume_tokens(ids)) and matcher.is_accepting())
            case["accepts" if ok else "rejects"].append(text)
        cases.append(case)
    lines = ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases)
    pathlib.Path(out).write_text(f'{{"llguidance":"{PINNED}","cases":[\n{lines}\n]}}\n', encoding="utf-8")
    print(len(cases), "cases")


main(sys.argv[1])
