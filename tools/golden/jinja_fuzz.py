#!/usr/bin/env python3
"""Makes random templates and renders them with Jinja2. Prints one JSON object per line:
{"template", "context", "output" or "error"}. A Go test renders the same templates and
compares:

    python3 tools/golden/jinja_fuzz.py SEED COUNT [short | soup | FILE.jinja...] > cases.jsonl
    WEIR_JINJA_CASES=cases.jsonl go test -run TestDifferential ./chat/jinja

The test always reads chat/jinja/testdata/random.jsonl, which was made with: 7 2000 short

The templates are programs that use the whole language; with soup, a mix of the pieces
that tags are made of; or the given files with random conversations. Differences that were
found this way are cases in chat/jinja/testdata/unit.
"""

import json
import random
import sys
import warnings

from jinja_env import environment, render

warnings.simplefilter("ignore")

CONTEXT = {
    "i": 7, "neg": -3, "zero": 0, "big": 123456789012345678901234567890, "f": 2.5, "g": -0.125, "whole": 3.0,
    "tiny": 1e-7, "huge": 1e22,
    "s": "Hello World", "e": "", "sp": "  padded \n", "u": "Straße İx ΑΣ ñ 中文 🎉", "q": "it's \"q\" \\ <b>&", "lines": "a\nb\r\n\nc\n",
    "num": " 42 ", "flt": "3.75", "csv": "a,b,,c", "t": True, "no": False, "n": None,
    "xs": [3, 1, 2], "es": [], "mixed": [1, "a", None, 2.5, [1]], "words": ["b", "A", "c", "B"],
    "ps": [[1, "x"], [2, "y"]],
    "d": {"b": 1, "a": {"x": [1, 2]}, "items": 5, "C": None}, "ed": {},
    "ms": [{"role": "system", "content": "Be nice.", "n": 2}, {"role": "user", "content": "Hi\nthere", "n": 1},
           {"role": "assistant", "content": None, "tool_calls": [{"name": "f", "args": {"k": "v"}}]}],
}
NAMES = list(CONTEXT) + ["missing"]
STR = ["s", "e", "sp", "u", "q", "lines", "num", "flt", "csv"]

TESTS = {
    "odd": 0, "even": 0, "divisibleby": 1, "defined": 0, "undefined": 0, "filter": 0, "test": 0, "none": 0, "boolean": 0, "false": 0,
    "true": 0, "integer": 0, "float": 0, "lower": 0, "upper": 0, "string": 0, "mapping": 0, "number": 0, "sequence": 0, "iterable": 0,
    "callable": 0, "escaped": 0, "in": 1, "eq": 1, "ne": 1, "gt": 1, "ge": 1, "lt": 1, "le": 1, "equalto": 1,
}
INTS = ["i", "neg", "zero", "0", "1", "2", "-1", "10", "big", "100000000000000000000", "t", "0x1f", "1_000"]
FLOATS = ["f", "g", "whole", "tiny", "huge", "1.5", "2.0", "1e16", "1e-5", "0.1"]
LISTS = ["xs", "es", "mixed", "words", "ps", "ms", "range(3)", "range(5, 0, -2)", "[1, 2.0, true]", "('a', 'b')", "d.items()", "csv.split(',')"]
DICTS = ["d", "ed", "ms[0]", "ms[2]", "dict(a=1, b=xs)", "{'a': 1, 2: 'b', none: [f]}", "dict(d, z=1)"]


class Gen:
    """Expressions are mostly well typed, so that most templates render."""

    def __init__(self, rng):
        self.r = rng
        self.vars = []

    def chance(self, p):
        return self.r.random() < p

    def any(self, depth):
        return self.r.choice([self.str, self.str, self.int, self.float, self.list, self.dict, self.bool, self.wild])(depth - 1)

    def wild(self, depth):
        return self.r.choice(NAMES + self.vars + ["none", "missing", "n", "namespace(a=1)", "ns", "ns.a", "joiner('-')", "''|safe"])

    def par(self, e):
        return f"({e})"

    def bool(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(["true", "false", "t", "no", "True"])
        d = depth - 1
        return r.choice([
            lambda: f"{self.par(self.any(d))} {r.choice(['==', '!='])} {self.par(self.any(d))}",
            lambda: f"{self.par(self.int(d))} {r.choice(['<', '>', '<=', '>='])} {self.par(self.num(d))}",
            lambda: f"{self.par(self.str(d))} {r.choice(['<', '>', 'in', 'not in'])} {self.par(self.str(d))}",
            lambda: f"{self.par(self.any(d))} {r.choice(['in', 'not in'])} {self.par(self.list(d))}",
            lambda: f"{self.str(0)} in {self.par(self.dict(d))}",
            lambda: f"not {self.par(self.any(d))}",
            lambda: f"{self.bool(d)} {r.choice(['and', 'or'])} {self.bool(d)}",
            lambda: f"{self.par(self.any(d))} is {r.choice(['', 'not '])}{r.choice([n for n in TESTS if TESTS[n] == 0 and n not in ('odd', 'even', 'filter', 'test')])}",
            lambda: f"{self.par(self.int(d))} is {r.choice(['odd', 'even', 'divisibleby 3', 'eq 7', 'gt(1)', 'le 2', 'in [1, 7]'])}",
            lambda: f"{self.str(0)}.{r.choice(['isalnum', 'isalpha', 'isascii', 'isdecimal', 'isdigit', 'isidentifier', 'islower', 'isnumeric', 'isprintable', 'isspace', 'istitle', 'isupper'])}()",
            lambda: f"{self.str(d)}.{r.choice(['startswith', 'endswith'])}({r.choice([self.str(0), '(' + self.str(0) + ', ' + self.str(0) + ')'])}{r.choice(['', '', ', 1', ', -3', ', 1, 4'])})",
            lambda: f"{r.choice(['s', 'e', 'xs', 'upper', 'x'])!r} is {r.choice(['filter', 'test'])}",
        ])()

    def num(self, depth):
        return self.float(depth) if self.chance(.3) else self.int(depth)

    def int(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(INTS)
        d = depth - 1
        return r.choice([
            lambda: f"{self.par(self.int(d))} {r.choice('+-*')} {self.par(self.int(d))}",
            lambda: f"{self.par(self.int(d))} {r.choice(['//', '%'])} {r.choice(['2', '3', '-4', 'i', 'neg', '7'])}",
            lambda: f"{self.par(self.int(d))} ** {r.choice(['2', '0', '3'])}",
            lambda: f"{self.list(d)}|{r.choice(['length', 'count'])}",
            lambda: f"{self.str(d)}|{r.choice(['length', 'wordcount', 'int', 'int(5)', 'int(base=16)', 'int(1, 2)', 'int(base=0)'])}",
            lambda: f"{self.num(d)}|{r.choice(['int', 'abs', 'round(-1)|int', 'round|int'])}",
            lambda: f"{self.str(d)}.{r.choice(['find', 'rfind', 'count'])}({self.str(0)}{r.choice(['', ', 2', ', -4', ', 1, -1'])})",
            lambda: r.choice(["-", "+"]) + self.par(self.int(d)),
            lambda: f"{r.choice(['xs', '[3, 1, 2]', 'range(4)'])}|{r.choice(['sum', 'max', 'min', 'first', 'last', 'sum(start=10)'])}",
            lambda: f"{r.choice(['xs', '(1, 2, 1)', 'range(5)'])}.{r.choice(['index(1)', 'count(1)', 'index(3)'])}",
            lambda: f"ms|{r.choice(['sum', 'sum'])}('n')" if self.chance(.1) else f"ms[:2]|sum('n')",
        ])()

    def float(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(FLOATS)
        d = depth - 1
        return r.choice([
            lambda: f"{self.par(self.float(d))} {r.choice('+-*')} {self.par(self.num(d))}",
            lambda: f"{self.par(self.num(d))} {r.choice(['/', '//', '%'])} {r.choice(['2', '3.5', '-4', 'f', 'g', '0.3'])}",
            lambda: f"{self.par(self.num(d))}|round({r.choice(['', '1', '2', '-1', '3', '-2'])})",
            lambda: f"{self.par(self.num(d))}|round({r.choice(['0', '1', '2'])}, {r.choice(['ceil', 'floor'])!r})",
            lambda: f"{self.str(d)}|float",
            lambda: f"{r.choice(['2', '2.5', 'f', 'i'])} ** {r.choice(['-1', '0.5', '2.0', '-2'])}",
        ])()

    def list(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(LISTS)
        d = depth - 1
        strs = r.choice(["words", "csv.split(',')", "s.split()", "lines.splitlines()", "['b', 'a', 'B']", "ms|map(attribute='role')|list"])
        return r.choice([
            lambda: f"{self.par(self.list(d))}|list",
            lambda: f"{r.choice(['xs', 'words', 'ps', 'es', 'range(4)', 'ms'])}[{self.slice()}]",
            lambda: f"{self.str(0)}.{r.choice(['split', 'rsplit'])}({r.choice(['', repr(' '), repr('l'), repr(',') , 'none, 1', repr('l') + ', 1', 'sep=none', 'maxsplit=1'])})",
            lambda: f"{self.str(0)}.{r.choice(['splitlines()', 'splitlines(true)', 'partition(' + repr('l') + ')', 'rpartition(' + repr(' ') + ')'])}",
            lambda: f"{strs}|{r.choice(['sort', 'sort(true)', 'sort(case_sensitive=true)', 'unique|list', 'unique(true)|list', 'reverse|list', 'map(' + repr('upper') + ')|list', 'batch(2)|list', 'batch(2, ' + repr('-') + ')|list', 'slice(2)|list', 'slice(3, ' + repr('x') + ')|list', 'select(' + repr('in') + ', s)|list', 'reject(' + repr('lower') + ')|list'])}",
            lambda: f"ms|{r.choice(['selectattr', 'rejectattr'])}({r.choice([repr('role'), repr('content'), repr('tool_calls'), repr('n') + ', ' + repr('defined'), repr('role') + ', ' + repr('in') + ', [' + repr('user') + ']', repr('content') + ', ' + repr('none'), repr('role') + ', ' + repr('equalto') + ', ' + repr('user')])})|list",
            lambda: f"ms|map(attribute={r.choice([repr('role'), repr('n'), repr('tool_calls.0.name'), repr('content')])}{r.choice(['', ', default=' + repr('z')])})|list",
            lambda: f"ms|{r.choice(['sort(attribute=' + repr('role') + ')', 'groupby(' + repr('role') + ')', 'sort(attribute=' + repr('role,content') + ')', 'groupby(' + repr('n') + ', default=0)', 'map(' + repr('length') + ')|list', 'map(' + repr('dictsort') + ')|list'])}",
            lambda: f"{self.dict(d)}|{r.choice(['dictsort', 'dictsort(true)', 'dictsort(reverse=true)', 'items|list', 'list'])}",
            lambda: f"{self.dict(d)}.{r.choice(['items()', 'keys()', 'values()'])}{r.choice(['', '|list'])}",
            lambda: f"{self.par('[' + ', '.join(self.any(d - 1) for _ in range(r.randint(0, 3))) + ']')}",
            lambda: f"{r.choice(['xs', 'words', 'es', '[1]'])} + {r.choice(['xs', 'mixed', '[none]', 'ps'])}",
            lambda: f"{r.choice(['xs', '[1]', 'es'])} * {r.choice(['2', '0', '-1'])}",
        ])()

    def dict(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(DICTS)
        d = depth - 1
        return r.choice([
            lambda: "{" + ", ".join(f"{r.choice(['1', repr('a'), repr('b'), 'true', '2.0', '(1, 2)', 'none', 's', 'missing'])}: {self.any(d)}" for _ in range(r.randint(0, 3))) + "}",
            lambda: f"dict({self.dict(d)}, {r.choice(['a', 'q', 'items'])}={self.any(d)})",
            lambda: f"{self.dict(d)}.copy()",
            lambda: f"dict({r.choice(['ps', 'd.items()', 'd|dictsort', '[(1, 2)]'])})",
            lambda: f"dict.fromkeys({r.choice(['xs', 's', 'words'])}{r.choice(['', ', 1'])})",
        ])()

    def slice(self):
        b = lambda: self.r.choice(["", "", "0", "1", "2", "-1", "-2", "5", "none", "-9", "99"])
        return f"{b()}:{b()}" + (f":{self.r.choice(['', '1', '2', '-1', '-2', '-3'])}" if self.chance(.4) else "")

    def str(self, depth):
        r = self.r
        if depth <= 0:
            return r.choice(["'a'", "'b'", "''", "' '", "'l'", "'\\n'", "'Hello'", "','", "'x y'", "'é'", "'%s'", "'role'", "'0'", "'ab'", '"it\'s"', "'<'"] + STR * 2)
        d = depth - 1
        sub = lambda: self.par(self.str(d))
        return r.choice([
            lambda: f"{sub()} {r.choice('+~')} {sub()}",
            lambda: f"{self.par(self.any(d))} ~ {self.par(self.any(d))}",
            lambda: f"{r.choice(STR)}[{self.slice()}]",
            lambda: f"{sub()}[{r.choice(['0', '1', '-1', '3'])}]",
            lambda: f"{sub()}|{r.choice(['upper', 'lower', 'capitalize', 'title', 'trim', 'trim(' + self.str(0) + ')', 'reverse', 'string', 'e', 'escape', 'safe', 'forceescape', 'striptags', 'urlencode', 'center(12)', 'indent', 'indent(2, true)', 'indent(3, blank=true)', 'indent(' + self.str(0) + ')', 'truncate(6)', 'truncate(7, true)', 'truncate(5, end=' + repr('..') + ', leeway=0)', 'first', 'last', 'replace(' + self.str(0) + ', ' + self.str(0) + ')', 'replace(' + self.str(0) + ', ' + self.str(0) + ', 1)', 'tojson', 'tojson(true)', 'default(1)'])}",
            lambda: f"{self.par(self.any(d))}|{r.choice(['string', 'tojson', 'tojson(indent=2)', 'tojson(true, 1)', 'tojson(sort_keys=true)', 'tojson(separators=(' + repr(',') + ', ' + repr(':') + '))', 'tojson(indent=' + repr(chr(9)) + ')', 'e', 'd(' + repr('z') + ')', 'default(' + repr('z') + ', true)', 'safe', 'trim', 'upper', 'replace(' + repr('a') + ', ' + repr('b') + ')'])}",
            lambda: f"{self.par(self.list(d))}|join({r.choice(['', repr(', '), repr('<'), 's', repr('<') + '|safe', 'd=' + repr('-')])})",
            lambda: f"{self.str(0)}.join({r.choice(['words', 's', 'csv.split(' + repr(',') + ')', 'ms|map(attribute=' + repr('role') + ')'])})",
            lambda: f"{sub()}.{r.choice(['capitalize', 'casefold', 'lower', 'upper', 'title', 'swapcase', 'strip', 'lstrip', 'rstrip', 'expandtabs'])}()",
            lambda: f"{sub()}.{r.choice(['strip', 'lstrip', 'rstrip', 'removeprefix', 'removesuffix'])}({self.str(0)})",
            lambda: f"{sub()}.{r.choice(['center', 'ljust', 'rjust', 'zfill'])}({r.choice(['0', '5', '12', '15'])})",
            lambda: f"{sub()}.replace({self.str(0)}, {self.str(0)}{r.choice(['', ', 1', ', -1', ', 0'])})",
            lambda: f"{sub()} * {r.choice(['0', '2', '3', '-1', 'true'])}",
            lambda: f"({sub()} if {self.par(self.any(d))} else {sub()})",
            lambda: f"({sub()} if {self.par(self.bool(d))})",
            lambda: f"'%s' % ({self.any(d)},)",
            lambda: f"{r.choice(['%d', '%5d', '%-5d|', '%05d', '%+d', '%x', '%#x', '%o', '%X', '% d', '%c', '%.3d', '%i'])!r} % {r.choice(['i', 'neg', '65', 'true', 'zero', '255'])}",
            lambda: f"{r.choice(['%f', '%.2f', '%8.3f|', '%-8.1f|', '%+.1f', '%e', '%.2e', '%g', '%.3g', '%G', '%08.2f', '%#g', '%.0f', '%E', '%.10g'])!r} % {self.par(self.num(d))}",
            lambda: f"{r.choice(['%s', '%5s|', '%-6s|', '%.2s', '%r', '%a', '%%%s', '%10.3s|'])!r} % ({self.any(d)},)",
            lambda: f"'%(a)s and %(b)r' % dict(a={self.any(d)}, b={self.any(d)})",
            lambda: f"{r.choice(['{}', '{0}{0}', '{!r}', '{!s:>8}', '{{{}}}', '{0!a}'])!r}.format({self.any(d)})",
            lambda: f"{r.choice(['{:d}', '{:>6}', '{:<6}|', '{:^7}|', '{:05}', '{:+}', '{:,}', '{:x}', '{:#x}', '{:b}', '{:_}', '{:*^9}', '{:e}', '{:.1f}', '{:%}', '{:g}', '{: }', '{:c}', '{:#o}', '{:08,}'])!r}.format({r.choice(['i', 'neg', '65', 'zero', '1234567'])})",
            lambda: f"{r.choice(['{:f}', '{:>9}', '{:.2f}', '{:^9.1f}|', '{:09.2f}', '{:+.3e}', '{:,.2f}', '{:g}', '{:%}', '{:.1%}', '{:}', '{:.3}', '{:.3g}', '{:012,.1f}', '{:#.0f}', '{:e}', '{:.0f}', '{:_}'])!r}.format({r.choice(FLOATS + ['1234567.891', '0.5'])})",
            lambda: f"{r.choice(['{:>8}', '{:<8}|', '{:^9}|', '{:.2}', '{:x^7.3}|', '{:s}', '{:5}'])!r}.format({sub()})",
            lambda: f"'{{0[a]}} {{0[x]}} {{1[0]}} {{k.a}}'.format(d, {r.choice(['xs', 's', 'words'])}, k={r.choice(['d', 'ns', 'dict(a=1)'])})",
            lambda: f"{sub()}|format({self.any(d)})" if self.chance(.1) else f"'%s-%s'|format({self.any(d)}, {self.any(d)})",
            lambda: f"{self.dict(d)}.get({self.str(0)}, {sub()})",
            lambda: f"{self.dict(d)}[{self.str(0)}]",
            lambda: f"{r.choice(['ms[0]', 'd', 'ms[2]', 'ns', 'ms[1]'])}.{r.choice(['role', 'content', 'a', 'x', 'items', 'missing', 'tool_calls'])}",
            lambda: f"{self.num(d)}|filesizeformat{r.choice(['', '(true)'])}",
            lambda: f"dict(a={sub()}, b=none)|xmlattr",
        ])()

    def expr(self, depth=None):
        if depth is None:
            depth = self.r.choice([1, 2, 2, 3, 4])
        if self.vars and self.chance(.25):
            return self.r.choice(self.vars)
        return self.any(depth)

    def target(self):
        name = self.r.choice(["v", "w", "x", "y", "s"])
        if name not in self.vars:
            self.vars.append(name)
        return name

    def data(self):
        return self.r.choice(["", " ", "\n", "a", "x\n", "\n  ", "  y", "\t", "<|im|>"])

    def tag(self, body):
        r = self.r
        return "{%" + r.choice(["", "", "", "-", "+"]) + " " + body + " " + r.choice(["", "", "", "-", "+"]) + "%}"

    def output(self):
        r = self.r
        return "{{" + r.choice(["", "", "", "-"]) + " " + self.expr() + " " + r.choice(["", "", "", "-"]) + "}}"

    def body(self, depth):
        return "".join(self.data() + self.stmt(depth) for _ in range(self.r.randint(1, 3))) + self.data()

    def stmt(self, depth):
        r = self.r
        k = r.random()
        if depth <= 0 or k < .3:
            return self.output()
        if k < .42:
            s = self.tag(f"if {self.expr(2)}") + self.body(depth - 1)
            if r.random() < .4:
                s += self.tag(f"elif {self.expr(1)}") + self.body(depth - 1)
            if r.random() < .5:
                s += self.tag("else") + self.body(depth - 1)
            return s + self.tag("endif")
        if k < .6:
            t = self.target()
            it = r.choice(["xs", "ms", "d", "s", "range(3)", "words", "ps", "mixed|select", "es", "ms|map(attribute='role')", "missing", self.list(1), self.list(2)])
            if r.random() < .2:
                t, it = "v, w", r.choice(["d.items()", "ps", "d|items", "d|dictsort", "ms|groupby('role')", "[(1, 2)]", "words|batch(2)"])
            cond = f" if {self.expr(1)}" if r.random() < .25 else ""
            rec = " recursive" if r.random() < .1 else ""
            saved, self.vars = self.vars, self.vars + ["loop.index", "loop.last", "loop.length", "loop.previtem", "loop.first", "loop.revindex0", "loop.nextitem", "loop.cycle('a', 'b')", "loop.changed(v)", "loop.depth", t.split(",")[0]]
            s = self.tag(f"for {t} in {it}{cond}{rec}") + self.body(depth - 1)
            if r.random() < .25:
                s += self.tag(f"if {self.expr(1)}") + self.tag(r.choice(["break", "continue"])) + self.tag("endif") + self.data()
            if rec and r.random() < .7:
                s += "{{ loop(v.children) }}" if r.random() < .3 else "{{ loop([1]) if loop.depth < 3 }}"
            self.vars = saved
            if r.random() < .2:
                s += self.tag("else") + self.body(depth - 1)
            return s + self.tag("endfor")
        if k < .74:
            if r.random() < .2:
                t = self.target()
                f = r.choice(["", "", "|upper", "|trim|length"])
                return self.tag(f"set {t}{f}") + self.body(depth - 1) + self.tag("endset")
            if r.random() < .25:
                return self.tag("set ns.a = " + self.expr()) + "{{ ns.a }}"
            if r.random() < .2:
                self.target()
                return self.tag("set v, w = " + r.choice(["1, s", "ps[0]", "(f, none)", "xs[:2]", "'ab'"]))
            e = self.expr()
            return self.tag(f"set {self.target()} = {e}")
        if k < .82:
            params = r.choice(["", "v", "v, w=1", "v, w=v", "s='z'"])
            saved, self.vars = self.vars, self.vars + r.choice([[], ["varargs"], ["kwargs"], ["caller()"]])
            b = self.body(depth - 1)
            self.vars = saved
            call = r.choice(["mac()", "mac(1)", "mac(1, 2)", "mac(w=3)", "mac(xs, v=2)", "mac(1, 2, 3)", "mac(z=1)", "mac(*xs)", "mac(**d)"])
            use = "{{ " + call + " }}" if r.random() < .7 else self.tag(f"call{r.choice(['', '(v)', ''])} {call}") + self.body(depth - 1) + self.tag("endcall")
            return self.tag(f"macro mac({params})") + b + self.tag("endmacro") + use
        if k < .86:
            return self.tag(f"filter {r.choice(['upper', 'trim', 'indent(2)', 'replace(s, e)'])}") + self.body(depth - 1) + self.tag("endfilter")
        if k < .92:
            return self.tag(f"with {self.target()} = {self.expr(1)}") + self.body(depth - 1) + self.tag("endwith")
        if k < .94:
            return self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")
        if k < .96:
            return "{#" + r.choice(["", "-", "+"]) + " note " + r.choice(["", "-", "+"]) + "#}"
        if k < .98:
            return self.tag("raw").replace("+%}", "%}") + self.data() + "{{ x }}" + self.tag("endraw")
        return self.tag("set ns = namespace(a=0)") + self.body(depth - 1)

    def template(self):
        self.vars = []
        if self.r.random() < .5:
            return "{{ " + self.expr(self.r.choice([1, 2, 3])) + " }}"
        return self.tag("set ns = namespace(a=0)") + self.body(self.r.choice([1, 2, 3]))


FRAGMENTS = ["{%", "{%-", "{%+", "%}", "-%}", "+%}", "{{", "{{-", "{{+", "}}", "-}}", "{#", "{#-", "#}", "-#}", "+#}", " ", "  ", "\n", "\n\n",
             "\r\n", "\t", "a", "x y", "{", "}", "raw", "endraw", "{% raw %}", "{% endraw %}", "{%- raw -%}", "{%- endraw -%}", "if t", "endif",
             "{% if t %}", "{% endif %}", "{%- if t -%}", "{%- endif +%}", "{{ i }}", "{{- s -}}", "{# c #}", "{#- c -#}", "{{ '}}' }}", "{{ {'a': 1} }}",
             "s", "'", '"', "1", "1.5", "1_0", ".", "0x1", "1e5", "é", "(", ")", "[", "]", ",", "|upper", "~", "not", "in", "is", "-", "+", "*", "==", "!", "$",
             "\x0b", "\x1c", "\u00a0", "\u2028", "{% set s = 'q' %}", "{{ '\\x41\\n\\é\\q' }}", "{{ ", " }}", "{% ", " %}", "for y in xs", "endfor"]


def soup(rng):
    """A template that is mostly about where tags begin and end."""
    return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 9)))


TEXTS = ["", " ", "Hi", " two words \n", "line\nline\n\nline", "<think>hm</think>said", "<think>\nhm\n</think>\n\nsaid", "é 🎉 中文", "it's \"q\" \\ <b>&",
         "</think>", "a</think>b</think>c", "<tool_response>x</tool_response>", "{\"a\": 1}", "[1, 2]", "123", "<|im_end|>", "a" * 300]


def conversation(r):
    """Variables for a chat template: messages that are mostly well formed."""

    def value(depth=2):
        k = r.randrange(9 if depth else 6)
        if k < 6:
            return r.choice([1, 1.0, -3, 2.5, True, None, "x", "é\n", 10**20, 1e-7, "", 0])
        if k < 7:
            return [value(depth - 1) for _ in range(r.randrange(3))]
        return {r.choice(["a", "b", "type", "items", "é"]): value(depth - 1) for _ in range(r.randrange(3))}

    def content():
        k = r.random()
        if k < .8:
            return r.choice(TEXTS)
        if k < .88:
            return None
        return [r.choice([{"type": "text", "text": r.choice(TEXTS)}, {"type": "image"}]) for _ in range(r.randrange(3))]

    def schema(depth=2):
        s = {"type": r.choice(["string", "integer", "number", "boolean", "object", "array", ["string", "null"], "null"])}
        if r.random() < .4:
            s["description"] = r.choice(TEXTS)
        if r.random() < .2:
            s["enum"] = [value(0) for _ in range(r.randrange(1, 3))]
        if r.random() < .2:
            s["default"] = value(1)
        if s["type"] == "array" and depth:
            s["items"] = schema(depth - 1)
        if s["type"] == "object" and depth:
            s["properties"] = {r.choice(["x", "y", "items", "é"]): schema(depth - 1) for _ in range(r.randrange(3))}
            s["required"] = ["x"]
        return s

    def tool():
        f = {"name": r.choice(["f", "get_weather", "a.b"]), "description": r.choice(TEXTS),
             "parameters": {"type": "object", "properties": {k: schema() for k in r.sample(["x", "y", "city", "items"], r.randrange(4))}, "required": ["x"]}}
        for k in list(f)[1:]:
            if r.random() < .1:
                del f[k]
        return {"type": "function", "function": f}

    messages, role = [], r.choice(["system", "user", "user", "developer"])
    for _ in range(r.randrange(1, 7)):
        m = {"role": role, "content": content() if role in ("user", "assistant") else r.choice(TEXTS)}
        if role == "assistant":
            if r.random() < .4:
                args = {r.choice(["x", "city", "é"]): value() for _ in range(r.randrange(3))}
                m["tool_calls"] = [{"id": r.choice(["call_1", "abcdefghi"]), "type": "function", "function": {
                    "name": "f", "arguments": args if r.random() < .8 else json.dumps(args)}} for _ in range(r.choice([1, 1, 2]))]
            if r.random() < .3:
                m["reasoning_content"] = r.choice(TEXTS)
        if role == "tool" and r.random() < .8:
            m["tool_call_id"] = "call_1"
        messages.append(m)
        role = {"system": "user", "developer": "user", "user": "assistant", "tool": r.choice(["tool", "assistant"])}.get(
            role, "tool" if "tool_calls" in m else "user") if r.random() < .95 else r.choice(["system", "user", "assistant", "tool", "ipython", ""])
    out = {"messages": messages, "tools": [tool() for _ in range(r.randrange(1, 3))] if r.random() < .5 else None, "documents": None,
           "add_generation_prompt": r.random() < .7, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    if r.random() < .2:
        out["documents"] = [{"title": r.choice(TEXTS), "text": r.choice(TEXTS)} for _ in range(r.randrange(3))]
    for k, values in {"enable_thinking": [True, False], "thinking": [True, False], "reasoning_effort": ["low", "high", None], "date_string": ["today"]}.items():
        if r.random() < .2:
            out[k] = r.choice(values)
    return out


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    env = environment()
    gen = Gen(random.Random(seed))
    for _ in range(count):
        extra = {}
        if sys.argv[3:] == ["soup"]:
            source = soup(gen.r)
        elif sys.argv[3:] and sys.argv[3:] != ["short"]:
            source = open(gen.r.choice(sys.argv[3:]), newline="").read()
            extra["context"] = conversation(gen.r)
        else:
            source = gen.template()
        result = render(env, source, extra.get("context", CONTEXT))
        if sys.argv[3:] == ["short"] and (len(source) > 120 or len(str(result)) > 200):
            continue
        if "output" in result and (" at 0x" in result["output"].lower() or len(result["output"]) > 100000):
            continue  # contains the address of an object, which differs from run to run
        try:
            line = json.dumps({"template": source, **extra, **result})
            line.encode()
        except UnicodeEncodeError:
            continue
        print(line)
    print(json.dumps({"context": CONTEXT}))


main()
