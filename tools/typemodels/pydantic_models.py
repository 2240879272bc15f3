"""Random Pydantic models, as programs declare them, and their JSON schemas.

    python pydantic_models.py schemas          JSON lines: id, features, the schema
    python pydantic_models.py source NUMBER    the Python source of one model
    python pydantic_models.py read FILE        reads JSON lines (id, text) back with the models

A model is made from its number alone, so the schemas that are committed and the models that
read texts back are the same. See README.md.
"""

import collections
import json
import sys
import types

MODELS = 520
# The models from EXACT on have fields that check more than their schema says.
EXACT = 460

PREAMBLE = '''
import enum
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from uuid import UUID

from pydantic import (
    UUID4, AnyUrl, AwareDatetime, Base64Str, BaseModel, ByteSize, ConfigDict, EmailStr, Field, FiniteFloat,
    FutureDate, HttpUrl, Json, NaiveDatetime, NegativeInt, NonNegativeFloat, PastDatetime, PositiveInt, RootModel,
    SecretStr, StrictBool, StrictInt, StringConstraints, WithJsonSchema, conint, conlist, conset,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict


class DecimalPatterns(GenerateJsonSchema):
    """Writes the pattern of a Decimal's string, as Pydantic's documentation of get_decimal_pattern shows.

    Without it a Decimal is any number or any string.
    """

    old = False  # as Pydantic up to 2.13 writes it, where the pattern was the default

    def get_decimal_pattern(self, schema):
        if self.old:
            return r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"
        return self.build_decimal_pattern(schema)


class Model(BaseModel):
    @classmethod
    def model_json_schema(cls, *args, schema_generator=DecimalPatterns, **kwargs):
        return super().model_json_schema(*args, schema_generator=schema_generator, **kwargs)
'''

NAMES = """account address age amount author balance body brand budget category city code color comment company
count country created currency customer deadline description discount due duration email end enabled event
expires flags groups height host icon items key label language latitude level limit link location longitude
manager members message mode name notes number order owner page parts payload percent phone place position
price priority product quantity rating reason reference region result role score section seller size source
start state status steps street summary tags target team tier title token total type updated user value
variant vendor version weight width window zone""".split()

WORDS = "alpha beta gamma delta north south east west open closed draft final small medium large red green blue".split()

STRING_PATTERNS = [
    r"^[a-z]{2,8}$", r"^[A-Z]{3}-\d{4}$", r"^\d{5}(-\d{4})?$", r"^\+[1-9]\d{6,14}$", r"^[^\s@]+@[^\s@]+$", r"^#[0-9a-fA-F]{6}$",
    r"^v\d+\.\d+\.\d+$", r"^\S+$", r"^[\w.-]+$", r"^(foo|bar)_[a-z]+$", r"^[^/\\]+$", r"[0-9]$", r"^[a-z0-9]+(?:-[a-z0-9]+)*$",
    r"^(?:mon|tue|wed|thu|fri|sat|sun)$", r"^.{1,20}$", r"\S", r"^[A-Za-z_][A-Za-z0-9_]*$", r"^\D*$", r"^[0-9a-f]{32}$",
]
KEY_PATTERNS = [r"^[a-z]+$", r"^x-[a-z0-9-]+$", r"^k\d+$", r"^[A-Z]{2}$", r"^[a-z][a-z0-9_]{0,30}$", r"^\d{4}$", r"_id$"]


class Random:
    """The same numbers with every version of Python, and in zod_models.mjs."""

    def __init__(self, seed):
        self.state = (seed * 0x85EBCA6B + 12345) & 0xFFFFFFFF

    def below(self, n):
        self.state = (self.state + 0x9E3779B9) & 0xFFFFFFFF
        z = self.state
        z = ((z ^ z >> 16) * 0x21F0AAAD) & 0xFFFFFFFF
        z = ((z ^ z >> 15) * 0x735A2D97) & 0xFFFFFFFF
        return (z ^ z >> 15) % n

    def one(self, n):
        return self.below(n) == 0

    def pick(self, values):
        return values[self.below(len(values))]

    def some(self, values, least, most):
        values = list(values)
        count = least + self.below(min(most, len(values)) - least + 1)
        return [values.pop(self.below(len(values))) for _ in range(count)]


class Module:
    """The source of one random model, whose name is Root."""

    def __init__(self, number):
        self.number = number
        self.rng = Random(number)
        self.classes = []
        self.count = 0
        self.features = collections.Counter()
        self.less = set()  # what the models check beyond their schema

    def uses(self, feature):
        self.features[feature] += 1

    def new_name(self):
        self.count += 1
        return f"M{self.count}"

    # Types. Each method returns an expression for an annotation.

    def type(self, depth):
        kinds = SCALARS + (CONTAINERS if depth > 0 else [])
        return self.of(self.rng.pick(kinds), depth)

    def of(self, kind, depth):
        self.uses(kind)
        return getattr(self, "type_" + kind)(depth)

    def type_str(self, depth):
        return "str"

    def type_int(self, depth):
        return self.rng.pick(["int", "StrictInt"])

    def type_float(self, depth):
        return self.rng.pick(["float", "FiniteFloat"])

    def type_bool(self, depth):
        return self.rng.pick(["bool", "StrictBool"])

    def type_HttpUrl(self, depth):
        return "HttpUrl"

    def type_AnyUrl(self, depth):
        return "AnyUrl"

    def type_EmailStr(self, depth):
        return "EmailStr"

    def type_Decimal(self, depth):
        # A Decimal with bounds has them in its schema for numbers only, so those who need them write the schema.
        return self.rng.pick([
            "Decimal", "Decimal", "Decimal",
            'Annotated[Decimal, Field(ge=0, max_digits=8, decimal_places=2), WithJsonSchema({"type": "string", "pattern": r"^\\d{1,6}\\.\\d{2}$"})]',
            'Annotated[Decimal, Field(ge=0, le=100), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 100})]',
        ])

    def type_datetime(self, depth):
        return self.rng.pick(["datetime", "datetime", "AwareDatetime"])

    def type_date(self, depth):
        return "date"

    def type_time(self, depth):
        return "time"

    def type_timedelta(self, depth):
        return "timedelta"

    def type_UUID(self, depth):
        return "UUID"

    def type_ip_address(self, depth):
        return self.rng.pick(["IPv4Address", "IPv6Address"])

    def type_opaque(self, depth):
        return self.rng.pick(["bytes", "SecretStr", "Path"])

    def type_constrained_str(self, depth):
        r = self.rng
        args = []
        if r.one(2):
            args.append(f"pattern={raw(r.pick(STRING_PATTERNS))}")
        else:
            least = r.below(4)
            if r.one(3):
                args.append(f"min_length={least + 1}")
            elif r.one(2):
                args.append(f"max_length={5 * (1 + r.below(40))}")
            else:
                args += [f"min_length={least}", f"max_length={least + r.below(60)}"]
        if r.one(2):
            return f"Annotated[str, StringConstraints({', '.join(args)})]"
        return f"Annotated[str, Field({', '.join(args)})]"

    def type_constrained_number(self, depth):
        r = self.rng
        if r.one(2):
            low = r.below(2000) - 1000
            high = low + 20 + r.below(10000)
            return r.pick([
                f"Annotated[int, Field(ge={low}, le={high})]", f"Annotated[int, Field(gt={low}, lt={high})]", f"conint(ge={low})",
                f"Annotated[int, Field(ge={low}, le={high}, multiple_of={r.pick([2, 3, 5, 7, 10])})]", "PositiveInt", "NegativeInt",
                f"conint(multiple_of={r.pick([2, 5, 12, 100])})",
            ])
        low = r.pick([-90, -1, 0, 0.5, -273.15])
        high = r.pick([1, 90, 180.5, 1000, 1e6])
        return r.pick([
            f"Annotated[float, Field(ge={low}, le={high})]", f"Annotated[float, Field(gt={low}, lt={high})]", "NonNegativeFloat",
            f"Annotated[float, Field(ge={low})]", f"Annotated[float, Field(multiple_of={r.pick([0.5, 0.25, 0.01])}, ge=0, le=1000)]",
        ])

    def type_Literal(self, depth):
        r = self.rng
        values = [repr(w) for w in r.some(WORDS, 1, 5)]
        if r.one(3):
            values += r.some(["0", "1", "-7", "True", "None", "'a\"b'", "'ü'", "'new\\nline'"], 1, 3)
        return f"Literal[{', '.join(values)}]"

    def type_Enum(self, depth):
        r = self.rng
        name = self.new_name()
        members = r.some(WORDS, 2, 5)
        if r.one(3):
            body = [f"    {m.upper()} = {i * 10 + 1}" for i, m in enumerate(members)]
            base = "enum.IntEnum"
        else:
            body = [f"    {m.upper()} = {m!r}" for m in members]
            base = "str, enum.Enum"
        self.classes.append("\n".join([f"class {name}({base}):"] + body))
        return name

    def type_Optional(self, depth):
        inner = self.type(depth - 1)
        return f"Optional[{inner}]"

    def type_union(self, depth):
        r = self.rng
        return "Union[" + ", ".join(r.some(["int", "str", "bool", "float", "date", "UUID", "list[int]", "dict[str, float]", "None"], 2, 3)) + "]"

    def type_list(self, depth):
        r = self.rng
        inner = self.type(depth - 1)
        if r.one(3):
            least = r.below(3)
            return r.pick([f"conlist({inner}, min_length={least}, max_length={least + 1 + r.below(4)})", f"Annotated[list[{inner}], Field(min_length={least})]"])
        return f"list[{inner}]"

    def type_set(self, depth):
        r = self.rng
        inner = r.pick(["int", "str", "Literal['a', 'b', 'c', 'd']", "Annotated[int, Field(ge=0, le=9)]"])
        if r.one(2):
            return f"conset({inner}, min_length=1, max_length={2 + r.below(2)})"
        return r.pick(["set", "frozenset"]) + f"[{inner}]"

    def type_tuple(self, depth):
        r = self.rng
        inner = [self.type(depth - 1) for _ in range(1 + r.below(3))]
        if r.one(4):
            return f"tuple[{inner[0]}, ...]"
        return f"tuple[{', '.join(inner)}]"

    def type_dict(self, depth):
        r = self.rng
        key = r.pick(["str", "str", "UUID", "date", "Annotated[str, Field(min_length=1, max_length=8)]", "Literal['a', 'b', 'c']"])
        inner = self.type(depth - 1)
        if r.one(4):
            return f"Annotated[dict[{key}, {inner}], Field(max_length={1 + r.below(4)})]"
        return f"dict[{key}, {inner}]"

    def type_dict_pattern(self, depth):
        inner = self.type(depth - 1)
        return f"dict[Annotated[str, StringConstraints(pattern={raw(self.rng.pick(KEY_PATTERNS))})], {inner}]"

    def type_discriminated(self, depth):
        r = self.rng
        tag = r.pick(["kind", "type", "event"])
        labels = r.some(WORDS, 2, 4)
        names = [self.model(depth - 1, first=f"{tag}: Literal[{label!r}]", fewest=0) for label in labels]
        union = f"Union[{', '.join(names)}]"
        if r.one(3):
            return f"list[Annotated[{union}, Field(discriminator={tag!r})]]"
        return f"Annotated[{union}, Field(discriminator={tag!r})]"

    def type_recursion(self, depth):
        """A model with children of its own kind, perhaps through another model."""
        r = self.rng
        name = self.new_name()
        link = r.pick([f'Optional["{name}"] = None', f'list["{name}"] = []', f'Optional[list["{name}"]]', f'dict[str, "{name}"]', f'tuple["{name}", ...]'])
        if r.one(3):
            between = self.new_name()
            fields = [f'    {r.pick(NAMES)}_{self.count}: {self.type(0)}', f"    next: {link}"]
            self.model(0, name=name, last=f'between: Optional["{between}"] = None')
            self.classes.append("\n".join([f"class {between}(Model):"] + fields))
            return name
        return self.model(depth - 1, name=name, last=f"children: {link}")

    def type_model(self, depth):
        return self.model(depth - 1)

    def type_record(self, depth):
        """Models that are no subclass of BaseModel."""
        r = self.rng
        name = self.new_name()
        fields = [f"    {f}: {self.type(depth - 1)}" for f in r.some(NAMES, 1, 3)]
        head = r.pick([f"class {name}(TypedDict):", f"@dataclass\nclass {name}:", f"class {name}(NamedTuple):"])
        self.classes.append("\n".join([head] + fields))
        return name

    def type_root(self, depth):
        name = self.new_name()
        self.classes.append(f"class {name}(RootModel[{self.type(depth - 1)}]):\n    pass")
        return name

    def type_any(self, depth):
        return "Any"

    # Types that check more than their schema says. The key says what.

    def type_less(self, depth):
        kind = self.rng.pick(sorted(LESS))
        self.less.add(kind)
        self.uses("less:" + kind)
        return LESS[kind]

    # Models.

    def model(self, depth, name=None, first=None, last=None, fewest=1, must=()):
        """Writes a class and returns its name."""
        r = self.rng
        name = name or self.new_name()
        fields = [first] if first else []
        names = r.some([n for n in NAMES if n not in ("kind", "type", "event", "children", "between")], max(fewest, len(must)), max(4, 3 * len(must)))
        config = r.pick([None, None, None, None, 'extra="forbid"', 'extra="allow"', "alias_generator=to_camel", "use_enum_values=True, validate_default=True"])
        for i, field in enumerate(names):
            kind = must[i] if i < len(must) else None
            t = self.of(kind, depth) if kind else self.type(depth)
            fields.append(f"{field}: {t}{self.default(t, config)}")
        if last:
            fields.append(last)
        lines = [f"class {name}(Model):"]
        if r.one(4):
            lines.append(f'    """{r.pick(WORDS).capitalize()} {r.pick(NAMES)}."""\n')
        if config:
            lines.append(f"    model_config = ConfigDict({config})")
        lines += ["    " + f for f in fields] or ["    pass"]
        if len(lines) == 1:
            lines.append("    pass")
        self.classes.append("\n".join(lines))
        return name

    def default(self, t, config):
        r = self.rng
        optional = t.startswith("Optional[") and r.one(2)
        n = r.below(8)
        if n == 0 and "alias" not in (config or ""):
            self.uses("alias")
            alias = r.pick(["@id", "$type", "the-value", "Größe", "a b", "x.y", 'q"uote']) + str(r.below(1000))
            return f" = Field({'None, ' if optional else ''}alias={alias!r})"
        if n == 1:
            return f" = Field({'None, ' if optional else ''}description='The {r.pick(NAMES)}.', examples=['x'])"
        if optional:
            return " = None"
        if t == "int" and r.one(3):
            return " = 3"
        if t.startswith("list[") and r.one(3):
            return " = []"
        return ""

    def write(self):
        n = self.number
        must = [FEATURES[n % len(FEATURES)], FEATURES[(n * 7 + 3) % len(FEATURES)]]
        if n >= EXACT:
            must = ["less"] * 2
        self.model(3, name="Root", must=must)
        if n % 3 == 1:
            self.classes.insert(0, "DecimalPatterns.old = True")
        rebuild = [f"for model in [{', '.join(c for c in self.base_models())}]:\n    model.model_rebuild()"]
        return "\n\n".join(self.classes + rebuild) + "\n"

    def base_models(self):
        for c in self.classes:
            head = c.split("\n")[0]
            if head.endswith("(Model):"):
                yield head[len("class "):-len("(Model):")]


SCALARS = """str int float bool HttpUrl AnyUrl EmailStr Decimal datetime date time timedelta UUID ip_address opaque
constrained_str constrained_number Literal Enum""".split()
CONTAINERS = "Optional Optional Optional union list list set tuple dict dict_pattern discriminated recursion model model record root any".split()
# The features that every few models have.
FEATURES = sorted(set(SCALARS + CONTAINERS) | {"HttpUrl", "EmailStr", "Decimal", "datetime"})

LESS = {
    "decimal without pattern": "Annotated[Decimal, WithJsonSchema({'anyOf': [{'type': 'number'}, {'type': 'string'}]})]",
    "decimal bounds": "Annotated[Decimal, Field(ge=0, le=100, decimal_places=2)]",
    "uuid version": "UUID4",
    "network": "IPv4Network",
    "naive datetime": "NaiveDatetime",
    "past": "PastDatetime",
    "future": "FutureDate",
    "base64": "Base64Str",
    "json in a string": "Json[list[int]]",
    "byte size": "ByteSize",
    "integer keys": "dict[int, str]",
}


def raw(pattern):
    return f'r"{pattern}"'


def load(number):
    m = Module(number)
    source = m.write()
    module = types.ModuleType(f"model{number}")
    sys.modules[module.__name__] = module  # Pydantic looks there for the names of annotations
    exec(compile(PREAMBLE + source, module.__name__, "exec"), module.__dict__)
    return m, source, module.Root


def schema_of(number, root):
    """Every fourth model's schema is what OpenAI's SDK sends for it."""
    if number % 4 == 3:
        from openai.lib._pydantic import to_strict_json_schema

        return "openai", to_strict_json_schema(root)
    return "pydantic", root.model_json_schema()


def schemas():
    for number in range(MODELS):
        m, _, root = load(number)
        how, schema = schema_of(number, root)
        yield {"id": f"pydantic-{number}", "sent": how, "features": sorted(m.features), "less": sorted(m.less), "schema": schema}


def read(path):
    """Reads texts back. Each error is printed with its text."""
    models = {}
    count = collections.Counter()
    with open(path, encoding="utf-8") as f:
        for line in f:
            case = json.loads(line)
            if not case["id"].startswith("pydantic-"):
                continue
            number = int(case["id"].split("-")[1])
            if number not in models:
                models[number] = load(number)
            m, _, root = models[number]
            try:
                root.model_validate_json(case["text"])
                count["read back"] += 1
            except Exception as e:
                errors = e.errors(include_url=False, include_context=False) if hasattr(e, "errors") else [{"type": type(e).__name__, "msg": str(e), "loc": ()}]
                kind = "more is checked than the schema says" if m.less else "ERRORS"
                count[kind] += 1
                for x in errors:
                    count[f"{kind}: {x['type']}"] += 1
                    if not m.less:
                        print(json.dumps({"id": case["id"], "type": x["type"], "msg": x["msg"], "loc": x["loc"], "input": repr(x.get("input"))[:300]}, ensure_ascii=True, default=str))
    for k, n in sorted(count.items()):
        print(f"pydantic  {k}: {n}")
    return count["ERRORS"]


def main():
    match sys.argv[1:]:
        case ["schemas"]:
            for s in schemas():
                print(json.dumps(s, separators=(",", ":"), ensure_ascii=True))
        case ["source", number]:
            print(PREAMBLE + "\n\n" + Module(int(number)).write())
        case ["read", path]:
            sys.exit(1 if read(path) else 0)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
