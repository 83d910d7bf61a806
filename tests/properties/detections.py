"""Random detections: two to four windows, related by equalities as a path, a tree or a cycle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from braid.algebra.detection import Part, Settings
from braid.algebra.detection_memory import Demand, fitting
from braid.algebra.expressions import Expression, Literal, Ref, Source, conjunction, conjuncts, refs
from braid.algebra.join_graphs import graph_of
from braid.algebra.joins import in_names_of_join
from braid.algebra.nodes import Node, Project
from braid.algebra.relations import (
    Detection,
    Join,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    column,
)
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING
from tests.properties.expressions import Draw, call, duration_type, leaf
from tests.properties.relations import rows_test

Child = Callable[[], Node]


def detection(draw: Draw, child: Child) -> Node:
    """DETECT over the streams that `child` gives."""
    count = draw(st.sampled_from([2, 2, 3, 3, 4]))
    inputs = tuple(_window(draw, _with_keys(draw, child())) for _ in range(count))
    parts: list[Expression] = []
    for number in range(1, count):
        parts += _equalities(draw, inputs, draw(st.integers(0, number - 1)), number)
    if count > 2 and not draw(st.integers(0, 2)):
        parts += _equalities(draw, inputs, 0, count - 1)
    partition: tuple[Part, ...] = ()
    for name in draw(st.sampled_from([(), (), (), ("p",), ("p",), ("p", "q")])):
        part, equal = _part(draw, inputs, name)
        partition, parts = (*partition, part), [*parts, *equal]
    free = Join(inputs, conjunction(tuple(parts)))
    for number in range(count):
        if not draw(st.integers(0, 3)):
            parts.append(_own(draw, inputs[number], number))
    join = Join(inputs, conjunction(tuple(parts)))
    settings = _settings(draw, count, len(graph_of(free).edges))
    found = Detection(join, _within_memory(draw, join, settings, bool(partition)), partition)
    return ToStream(found, StreamKind.DETECT)


def _part(draw: Draw, inputs: tuple[Window, ...], name: str) -> tuple[Part, list[Expression]]:
    """A key, and the equalities that make it one of all inputs."""
    type_ = draw(st.sampled_from([STRING, BIGINT]))
    columns = tuple(
        draw(st.sampled_from([a.name for a in window.schema if a.type == type_]))
        for window in inputs
    )
    refs_ = [Ref(Source.INPUT, column(i, c), type_) for i, c in enumerate(columns)]
    equal = [call("eq", refs_[i], refs_[i + 1]) for i in range(len(inputs) - 1)]
    return Part(name, type_, columns), equal


def _with_keys(draw: Draw, node: Node) -> Node:
    """Something of each type that inputs are compared by."""
    types = {a.type for a in node.schema}
    if {STRING, BIGINT} <= types:
        return node
    inputs = {Source.INPUT: node.schema}
    wanted = (("k", STRING), ("n", BIGINT), ("x", DOUBLE))
    return Project(node, tuple((name, leaf(draw, of, inputs)) for name, of in wanted))


def _window(draw: Draw, stream: Node) -> Window:
    kind = draw(st.sampled_from([*WindowKind, WindowKind.RANGE, WindowKind.ROWS]))
    if kind is WindowKind.RANGE:
        size = Literal(draw(st.integers(0, 6)), duration_type(stream.unit))
        return Window(stream, kind, size)
    if kind is not WindowKind.ROWS:
        return Window(stream, kind)
    numbers = [a.name for a in stream.schema if a.type == BIGINT]
    order = draw(st.sampled_from([None, None, *numbers]))
    return Window(stream, kind, Literal(draw(st.integers(1, 4)), BIGINT), (), order)


def _equalities(
    draw: Draw, inputs: tuple[Window, ...], first: int, second: int
) -> list[Expression]:
    pairs = [
        (a, b)
        for a in inputs[first].schema
        for b in inputs[second].schema
        if a.type == b.type and a.type in (STRING, BIGINT, DOUBLE)
    ]
    found = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        a, b = draw(st.sampled_from(pairs))
        left: Expression = Ref(Source.INPUT, column(first, a.name), a.type)
        if not draw(st.integers(0, 4)) and a.type == BIGINT:
            left = call("add", left, Literal(1, BIGINT), type_=BIGINT)
        if not draw(st.integers(0, 4)) and a.type == STRING:
            left = call("lower", left, type_=STRING)
        sides = [left, Ref(Source.INPUT, column(second, b.name), b.type)]
        if draw(st.booleans()):
            sides.reverse()
        found.append(call("eq", *sides))
    return found


def _own(draw: Draw, window: Window, number: int) -> Expression:
    """A test of one input; what looks at none would be one of the whole join."""
    asked = rows_test(draw, window.schema)
    told = all(refs(part) for part in conjuncts(asked))
    return in_names_of_join(asked, number) if told else Literal(True, BOOLEAN)


def _within_memory(draw: Draw, join: Join, settings: Settings, keyed: bool) -> Settings:
    """Sometimes with MEMORY in place of BUCKETS. Of so few events none is too many for it."""
    memory = draw(st.sampled_from([None, None, None, 64 << 10, 100_000, 1 << 20]))
    if memory is None:
        return settings
    rows = tuple(
        w.size.value
        if isinstance(w, Window) and w.kind is WindowKind.ROWS and isinstance(w.size, Literal)
        else None
        for w in join.inputs
    )
    if keyed:
        rows = (None,) * len(rows)
    demand = Demand(rows, settings.batch, settings.counts, settings.may_verify, keyed)
    buckets = fitting(graph_of(join), demand, memory)
    assert buckets is not None
    return replace(settings, buckets=(buckets,) * len(settings.buckets), memory=memory)


def _settings(draw: Draw, count: int, edges: int) -> Settings:
    buckets = draw(st.sampled_from([1, 2, 3, 5, 64]))
    each = tuple(draw(st.sampled_from([buckets, buckets, 2])) for _ in range(edges))
    return Settings(
        tuple(f"i{number}" for number in range(count)),
        draw(st.sampled_from([1, 1, 2, 3, 7])),
        draw(st.sampled_from([None, None, 0, 2, 5])),
        each,
        draw(st.booleans()),
        draw(st.sampled_from([None, -1.0, 0.5, 1.5])),
    )
