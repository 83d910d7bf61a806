"""Typed expressions: a pool of shapes with varying constants, and free-form ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from braid.algebra.expressions import Call, Duration, Expression, Literal, Ref, Source
from braid.algebra.schema import MICROSECONDS, Schema
from braid.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    STRING,
    TIMESTAMP,
    Kind,
    kind_of,
)
from tests.properties.values import MONEY, SINGLE, SMALL_INT, nullable, present

Sources = Mapping[Source, Schema]
Draw = Callable[[st.SearchStrategy[Any]], Any]

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")


def call(function: str, *args: Expression, type_: pa.DataType = BOOLEAN) -> Call:
    return Call(function, args, type_)


def references(sources: Sources, type_: pa.DataType) -> list[Ref]:
    return [
        Ref(source, a.name, a.type)
        for source, schema in sources.items()
        for a in schema
        if a.type == type_
    ]


def leaf(draw: Draw, type_: pa.DataType, sources: Sources) -> Expression:
    """Mostly an attribute, where there is one of the type."""
    known = references(sources, type_)
    if known and draw(st.integers(0, 3)):
        return draw(st.sampled_from(known))
    return Literal(draw(nullable(type_)), type_)


def attribute(draw: Draw, type_: pa.DataType, sources: Sources) -> Expression:
    known = references(sources, type_)
    return draw(st.sampled_from(known)) if known else Literal(draw(present(type_)), type_)


# ---- free form -----------------------------------------------------------------------------------


@st.composite
def expressions(
    draw: Draw, type_: pa.DataType, sources: Sources, depth: int = 2, vector: bool = True
) -> Expression:
    """Any expression of a type. `vector`: string-building functions are allowed."""
    if depth == 0 or not draw(st.integers(0, 3)):
        return leaf(draw, type_, sources)

    def part(of: pa.DataType) -> Expression:
        return draw(expressions(of, sources, depth - 1, vector))

    shapes = [*_SHAPES.get(type_, []), _choose]
    if vector:
        shapes += _VECTOR_SHAPES.get(type_, [])
    return draw(st.sampled_from(shapes))(draw, part, type_)


Part = Callable[[pa.DataType], Expression]


def _choose(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    function = draw(st.sampled_from(["case", "coalesce", "greatest", "least"]))
    if function == "case":
        return call("case", part(BOOLEAN), part(type_), part(type_), type_=type_)
    return call(function, part(type_), part(type_), type_=type_)


def _compare(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    of = draw(st.sampled_from([STRING, DOUBLE, BIGINT, BOOLEAN, TIMESTAMP, DATE, MONEY]))
    return call(draw(st.sampled_from(COMPARISONS)), part(of), part(of))


def _logic(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    function = draw(st.sampled_from(["and", "or", "and", "or", "not", "is_null"]))
    if function == "not":
        return call("not", part(BOOLEAN))
    if function == "is_null":
        return call("is_null", part(draw(st.sampled_from([STRING, DOUBLE, BIGINT, BOOLEAN]))))
    count = draw(st.integers(2, 3))
    return call(function, *(part(BOOLEAN) for _ in range(count)))


def _text_test(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    function = draw(st.sampled_from(["contains", "starts_with", "ends_with", "like"]))
    if function == "like":
        patterns = ["a%", "%b", "_", "%", "a\\%", "a__", "%a%b%", "\\_", "\\", "_b%"]
        return call("like", part(STRING), Literal(draw(st.sampled_from(patterns)), STRING))
    return call(function, part(STRING), part(STRING))


def _membership(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    of = draw(st.sampled_from([STRING, DOUBLE, BIGINT]))
    choices = draw(st.lists(nullable(of), min_size=1, max_size=3))
    return call("in", part(of), *(Literal(c, of) for c in choices))


def _is_nan(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    return call("is_nan", part(DOUBLE))


def _arithmetic(*functions: str) -> Callable[[Draw, Part, pa.DataType], Expression]:
    def shape(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
        function = draw(st.sampled_from(functions))
        return call(function, part(type_), part(type_), type_=type_)

    return shape


def _unary(*functions: str) -> Callable[[Draw, Part, pa.DataType], Expression]:
    def shape(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
        return call(draw(st.sampled_from(functions)), part(type_), type_=type_)

    return shape


def _whole(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    return call(draw(st.sampled_from(["ceil", "floor"])), part(DOUBLE), type_=BIGINT)


def _length(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    return call("length", part(STRING), type_=BIGINT)


def _calendar(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    names = ["year", "month", "day", "hour", "minute", "second", "dayofweek"]
    of = draw(st.sampled_from([TIMESTAMP, DATE]))
    return call(draw(st.sampled_from(names)), part(of), type_=BIGINT)


def _round(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    digits = Literal(draw(st.integers(-2, 3)), BIGINT)
    return call("round", part(DOUBLE), digits, type_=DOUBLE)


def _cast(*sources: pa.DataType) -> Callable[[Draw, Part, pa.DataType], Expression]:
    def shape(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
        return call("cast", part(draw(st.sampled_from(sources))), type_=type_)

    return shape


def _money(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    return call(draw(st.sampled_from(["add", "sub"])), part(MONEY), part(MONEY), type_=MONEY)


def _moment(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    function = draw(st.sampled_from(["add", "sub"]))
    return call(function, part(TIMESTAMP), part(DURATION), type_=TIMESTAMP)


def _between(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    return call("sub", part(TIMESTAMP), part(TIMESTAMP), type_=DURATION)


_SHAPES: dict[pa.DataType, list[Callable[[Draw, Part, pa.DataType], Expression]]] = {
    BOOLEAN: [_compare, _compare, _logic, _text_test, _membership, _is_nan],
    BIGINT: [
        _arithmetic("add", "sub", "mul", "int_div", "mod"),
        _unary("neg", "abs", "sign"),
        _whole,
        _length,
        _calendar,
        _cast(DOUBLE, BOOLEAN, SMALL_INT, MONEY, DURATION, TIMESTAMP),
    ],
    DOUBLE: [
        _arithmetic("add", "sub", "mul", "div", "mod"),
        _unary("neg", "abs", "sign", "sqrt"),
        _round,
        _cast(BIGINT, BOOLEAN, SINGLE, MONEY),
    ],
    MONEY: [_money, _unary("neg", "abs", "sign"), _cast(BIGINT)],
    TIMESTAMP: [_moment, _cast(DATE)],
    DATE: [_cast(TIMESTAMP)],
    DURATION: [_between, _arithmetic("add", "sub"), _unary("neg", "abs")],
    SMALL_INT: [_cast(BIGINT, DOUBLE)],
    SINGLE: [_cast(DOUBLE)],
}


def _case_mapping(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    names = ["upper", "lower", "trim", "ltrim", "rtrim", "reverse", "xml_escape"]
    return call(draw(st.sampled_from(names)), part(STRING), type_=STRING)


def _substring(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    start, length = (Literal(draw(st.integers(-4, 4)), BIGINT) for _ in range(2))
    return call("substring", part(STRING), start, length, type_=STRING)


def _concat(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    return call("concat", part(STRING), part(STRING), type_=STRING)


def _replace(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    search, by = (Literal(draw(st.sampled_from(["", "a", "b", "ab"])), STRING) for _ in range(2))
    return call("replace", part(STRING), search, by, type_=STRING)


def _to_text(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    of = draw(st.sampled_from([BIGINT, DOUBLE, BOOLEAN, TIMESTAMP, DATE, MONEY, SINGLE]))
    return call("cast", part(of), type_=STRING)


def _from_text(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    return call("cast", part(STRING), type_=type_)


def _pattern(draw: Draw, part: Part, type_: pa.DataType) -> Expression:
    pattern = Literal(draw(st.sampled_from(["a", "^a", "b$", "[ab]+", "a.b"])), STRING)
    return call("regexp_like", part(STRING), pattern)


_VECTOR_SHAPES: dict[pa.DataType, list[Callable[[Draw, Part, pa.DataType], Expression]]] = {
    STRING: [_case_mapping, _substring, _concat, _replace, _to_text],
    BOOLEAN: [_from_text, _pattern],
    BIGINT: [_from_text],
    DOUBLE: [_from_text],
    DATE: [_from_text],
    TIMESTAMP: [_from_text],
    MONEY: [_from_text],
}


# ---- the pool: predicates of patterns, few shapes and many constants ------------------------------


_KINDS = ("constant", "constant", "true", "either", "two", "unknown", "free", "text")


@st.composite
def predicates(draw: Draw, sources: Sources, unit: str) -> Expression:
    """A predicate as patterns have them: comparisons of attributes with constants, mostly."""
    kind = draw(st.sampled_from([*_KINDS]))
    if kind == "true":
        return Literal(draw(st.sampled_from([True, True, True, None])), BOOLEAN)
    if kind == "free":
        return draw(expressions(BOOLEAN, sources, 2, vector=len(sources) == 1))
    if kind == "text":
        return _of_built_text(draw, sources)
    if kind == "two":
        return call("and", _simple(draw, sources), _simple(draw, sources))
    if kind == "either":
        return call("or", _simple(draw, sources), duration_test(draw, unit))
    if kind == "unknown":
        return call("not", _simple(draw, sources))
    return _simple(draw, sources)


def _simple(draw: Draw, sources: Sources) -> Expression:
    of = draw(st.sampled_from([DOUBLE, BIGINT, STRING]))
    function = draw(st.sampled_from(["ge", "lt", "ge", "ne", "eq"]))
    return call(function, attribute(draw, of, sources), Literal(draw(present(of)), of))


def _of_built_text(draw: Draw, sources: Sources) -> Expression:
    """String-building functions look at one source; what they built may meet another."""
    source = draw(st.sampled_from(list(sources)))
    schema = sources[source]
    if source is Source.LAST:  # not of running values: aggregates update numbers only
        schema = Schema(tuple(a for a in schema if a.type == STRING))
    built = draw(expressions(STRING, {source: schema}, 2))
    return call(draw(st.sampled_from(["eq", "ne", "lt"])), built, leaf(draw, STRING, sources))


def duration_type(unit: str) -> pa.DataType:
    return DURATION if unit == MICROSECONDS else BIGINT


def duration_test(
    draw: Draw, unit: str, functions: tuple[str, ...] = ("le", "lt", "ge", "eq")
) -> Call:
    of = duration_type(unit)
    bound = Literal(draw(st.integers(0, 8)), of)
    return call(draw(st.sampled_from(functions)), Duration(of), bound)


def is_numeric(type_: pa.DataType) -> bool:
    return kind_of(type_) in (Kind.INTEGER, Kind.FLOAT)
