"""Random relations: windows of all kinds, joins, groups, and streams made of them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from hypothesis import strategies as st

from braid.algebra.expressions import Call, Expression, Literal, Ref, Source, conjunction
from braid.algebra.nodes import Aggregate, Node
from braid.algebra.relations import (
    DistinctRows,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    aggregate_name,
    column,
)
from braid.algebra.schema import Schema
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING
from tests.properties.expressions import (
    Draw,
    attribute,
    call,
    duration_type,
    expressions,
    leaf,
    references,
)
from tests.properties.values import LAW_TYPES, present

Child = Callable[[], Node]

#: What makes a stream of any relation; DETECT is of detections only.
KINDS = (StreamKind.ISTREAM, StreamKind.DSTREAM, StreamKind.RSTREAM)


def to_stream(draw: Draw, child: Child) -> Node:
    """Istream, Dstream or Rstream of some relation over the streams that `child` gives."""
    kind = draw(st.sampled_from(KINDS))
    return ToStream(relation(draw, child, draw(st.integers(0, 3))), kind)


def window_join(draw: Draw, child: Child) -> Node:
    """Istream, mostly, of a join of windows by time, with rows chosen and computed around it."""

    def side() -> Relation:
        stream = child()
        now = not draw(st.integers(0, 4))
        size = Literal(draw(st.integers(0, 6)), duration_type(stream.unit))
        found: Relation = Window(stream, WindowKind.RANGE, size)
        if now:
            found = Window(stream, WindowKind.NOW)
        return _around(draw, found) if not draw(st.integers(0, 2)) else found

    joined: Relation = _joined(draw, tuple(side() for _ in range(draw(st.sampled_from([2, 2, 3])))))
    if draw(st.integers(0, 2)):
        joined = _around(draw, joined)
    kind = draw(st.sampled_from([StreamKind.ISTREAM, StreamKind.ISTREAM, *KINDS]))
    return ToStream(joined, kind)


def attribute_join(draw: Draw, child: Child) -> Node:
    """Istream of a join of two windows by time on events as they are, by one equality or two of
    attributes, that shows some columns: such joins of the same streams share one buffer."""

    def side(stream: Node) -> Relation:
        size = Literal(draw(st.integers(0, 6)), duration_type(stream.unit))
        return Window(stream, WindowKind.RANGE, size)

    inputs = (side(child()), side(child()))
    types = Join(inputs, Literal(True, BOOLEAN)).schema
    pairs = [
        (column(0, a.name), column(1, b.name), a.type)
        for a in inputs[0].schema
        for b in inputs[1].schema
        if a.type == b.type
    ]
    tests: list[Expression] = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        left, right, of = draw(st.sampled_from(pairs))
        sides = Ref(Source.INPUT, left, of), Ref(Source.INPUT, right, of)
        tests.append(call(draw(st.sampled_from(["eq", "eq", "eq_null_safe"])), *sides))
    shown = draw(st.lists(st.sampled_from(types.names), min_size=1, max_size=3, unique=True))
    items = tuple(
        (f"c{k}", Ref(Source.INPUT, name, types.type_of(name))) for k, name in enumerate(shown)
    )
    return ToStream(MapRows(Join(inputs, conjunction(tuple(tests))), items), StreamKind.ISTREAM)


def _around(draw: Draw, below: Relation) -> Relation:
    if draw(st.booleans()):
        return KeepRows(below, rows_test(draw, below.schema))
    return _mapped(draw, below)


def relation(draw: Draw, child: Child, depth: int) -> Relation:
    if depth == 0:
        return window(draw, child())
    shape = draw(st.sampled_from(list(_SHAPES)))
    return _SHAPES[shape](draw, child, depth - 1)


def window(draw: Draw, stream: Node) -> Window:
    kind = draw(st.sampled_from([*WindowKind, WindowKind.RANGE]))
    if kind is WindowKind.RANGE:
        size = Literal(draw(st.integers(0, 6)), duration_type(stream.unit))
        return Window(stream, kind, size)
    if kind is not WindowKind.ROWS:
        return Window(stream, kind)
    keys = draw(st.sets(st.sampled_from(stream.schema.names), max_size=2))
    numbers = [a.name for a in stream.schema if a.type == BIGINT]
    order = draw(st.sampled_from([None, None, *numbers]))
    size = Literal(draw(st.integers(1, 3)), BIGINT)
    return Window(stream, kind, size, tuple(sorted(keys)), order)


def rows_test(draw: Draw, schema: Schema) -> Expression:
    """What WHERE asks: tests of columns mostly; there is no DUR here."""
    sources = {Source.INPUT: schema}
    if not draw(st.integers(0, 3)):
        return draw(expressions(BOOLEAN, sources, 2))
    of = draw(st.sampled_from([DOUBLE, BIGINT, STRING]))
    function = draw(st.sampled_from(["ge", "lt", "ne", "eq"]))
    return call(function, attribute(draw, of, sources), Literal(draw(present(of)), of))


def _keep(draw: Draw, child: Child, depth: int) -> Relation:
    below = relation(draw, child, depth)
    return KeepRows(below, rows_test(draw, below.schema))


def _map(draw: Draw, child: Child, depth: int) -> Relation:
    return _mapped(draw, relation(draw, child, depth))


def _mapped(draw: Draw, below: Relation) -> Relation:
    sources = {Source.INPUT: below.schema}
    items = []
    for name in draw(st.sampled_from([("p",), ("p", "q"), ("q", "k", "p")])):
        of = draw(st.sampled_from(LAW_TYPES))
        computed = not draw(st.integers(0, 3))
        item = draw(expressions(of, sources, 2)) if computed else leaf(draw, of, sources)
        items.append((name, item))
    return MapRows(below, tuple(items))


def _join(draw: Draw, child: Child, depth: int) -> Relation:
    count = draw(st.sampled_from([2, 2, 3]))
    return _joined(draw, tuple(relation(draw, child, max(0, depth - 1)) for _ in range(count)))


def _joined(draw: Draw, inputs: tuple[Relation, ...]) -> Relation:
    count = len(inputs)
    free = Join(inputs, Literal(True, BOOLEAN))
    parts: list[Expression] = []
    for number in range(1, count):
        parts += _equality(draw, inputs, draw(st.integers(0, number - 1)), number)
    if not draw(st.integers(0, 2)):
        parts.append(rows_test(draw, free.schema))
    if not draw(st.integers(0, 2)):
        numbers = references({Source.INPUT: free.schema}, BIGINT)
        if len(numbers) > 1:
            left, right = draw(st.sampled_from(numbers)), draw(st.sampled_from(numbers))
            parts.append(call(draw(st.sampled_from(["lt", "ge", "ne"])), left, right))
    return Join(inputs, conjunction(tuple(parts)))


def _equality(
    draw: Draw, inputs: tuple[Relation, ...], first: int, second: int
) -> list[Expression]:
    """Nearly always an equality, of columns or of what is computed from them."""
    pairs = [
        (a, b) for a in inputs[first].schema for b in inputs[second].schema if a.type == b.type
    ]
    if not pairs or not draw(st.integers(0, 7)):
        return []
    a, b = draw(st.sampled_from(pairs))
    sides: list[Expression] = [
        Ref(Source.INPUT, column(first, a.name), a.type),
        Ref(Source.INPUT, column(second, b.name), b.type),
    ]
    if not draw(st.integers(0, 3)):
        sides[0] = _changed(draw, sides[0])
    if draw(st.booleans()):
        sides.reverse()
    function = draw(st.sampled_from(["eq", "eq", "eq", "eq_null_safe"]))
    return [call(function, *sides)]


def _changed(draw: Draw, side: Expression) -> Expression:
    if side.type in (BIGINT, DOUBLE):
        one = Literal(draw(st.integers(0, 1)), BIGINT)
        amount: Expression = one if side.type == BIGINT else Literal(float(one.value), DOUBLE)
        return call("add", side, amount, type_=side.type)
    if side.type == STRING:
        return call("lower", side, type_=STRING)
    return side


def _group(draw: Draw, child: Child, depth: int) -> Relation:
    below = relation(draw, child, depth)
    sources = {Source.INPUT: below.schema}
    keys: list[Expression] = []
    for _ in range(draw(st.integers(0, 2))):
        of = draw(st.sampled_from(LAW_TYPES))
        computed = not draw(st.integers(0, 3))
        keys.append(draw(expressions(of, sources, 1)) if computed else leaf(draw, of, sources))
    count = draw(st.integers(0 if keys else 1, 3))
    aggregates = tuple(_aggregate(draw, below.schema, aggregate_name(k)) for k in range(count))
    return GroupRows(below, tuple(dict.fromkeys(keys)), aggregates)


def _aggregate(draw: Draw, schema: Schema, name: str) -> Aggregate:
    sources = {Source.INPUT: schema}
    function = draw(st.sampled_from(["count", "count", "sum", "avg", "min", "max"]))
    if function == "count" and draw(st.booleans()):
        return Aggregate(name, function, (), False, BIGINT)
    of = draw(st.sampled_from(LAW_TYPES))
    if function in ("sum", "avg"):
        of = draw(st.sampled_from([BIGINT, DOUBLE]))
    value = leaf(draw, of, sources)
    if function in ("sum", "avg") and of == BIGINT:
        # Sums that do not fit end a query: those are tested by themselves.
        value = Call("mod", (value, Literal(7, BIGINT)), BIGINT)
    if function == "count":
        return Aggregate(name, function, (value,), draw(st.booleans()), BIGINT)
    made: pa.DataType = DOUBLE if function == "avg" else of
    return Aggregate(name, function, (value,), False, made)


def _distinct(draw: Draw, child: Child, depth: int) -> Relation:
    return DistinctRows(relation(draw, child, depth))


_SHAPES: dict[str, Callable[[Draw, Child, int], Relation]] = {
    "keep": _keep,
    "map": _map,
    "join": _join,
    "join too": _join,
    "group": _group,
    "group too": _group,
    "distinct": _distinct,
}
