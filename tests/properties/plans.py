"""Random streams, algebra expressions and query sets; nodes are drawn directly, not as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from braid.algebra.expressions import Expression, Literal, Ref, Source, conjunction, conjuncts
from braid.algebra.nodes import Aggregate, Iterate, Node, Project, Read, SameTime, Select, Union
from braid.algebra.nodes import Sequence as SequenceNode
from braid.algebra.queries import Output, Query
from braid.algebra.schema import MICROSECONDS, TICKS, Schema
from braid.algebra.streams import Stream
from braid.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP
from braid.reference import Event
from tests.properties.detections import detection
from tests.properties.expressions import (
    Draw,
    call,
    duration_test,
    expressions,
    is_numeric,
    leaf,
    predicates,
    references,
)
from tests.properties.relations import attribute_join, to_stream, window_join
from tests.properties.values import LAW_TYPES, nullable, present

SCHEMAS = {
    "S": Schema.of([("k", STRING), ("x", DOUBLE), ("n", BIGINT)]),
    "T": Schema.of([("k", STRING), ("n", BIGINT), ("b", BOOLEAN)]),
    "U": Schema.of([("k", STRING), ("x", DOUBLE), ("n", BIGINT)]),
}


@dataclass(frozen=True)
class Workload:
    """Streams with their events, and queries over them."""

    streams: dict[str, Stream]
    events: dict[str, list[Event]]
    queries: tuple[Query, ...]


# ---- streams -------------------------------------------------------------------------------------


def stream_named(name: str, unit: str, lateness: int) -> Stream:
    of = TIMESTAMP if unit == MICROSECONDS else BIGINT
    columns = [(a.name, a.type) for a in SCHEMAS[name]] + [("t0", of), ("t1", of)]
    return Stream(name, Schema.of(columns), ("t0", "t1"), lateness)


def events(schema: Schema, min_size: int = 6, max_size: int = 18) -> st.SearchStrategy[list[Event]]:
    """Few distinct times and values: ties, overlaps, equal keys."""
    values = st.tuples(*(nullable(a.type) for a in schema))
    length = st.one_of(st.just(0), st.just(0), st.integers(0, 3))
    one = st.builds(
        lambda v, end, duration: Event(v, end - duration, end), values, st.integers(-2, 14), length
    )
    return st.lists(one, min_size=min_size, max_size=max_size)


# ---- expressions over streams ----------------------------------------------------------------------


@st.composite
def nodes(draw: Draw, sources: Sequence[Read], depth: int, shapes: tuple[str, ...] = ()) -> Node:
    """Any expression over the given streams; `shapes`: what it may be at the top."""
    if depth == 0:
        return draw(st.sampled_from(list(sources)))
    shape = draw(st.sampled_from(shapes or tuple(_SHAPES)))

    def child() -> Node:
        return draw(nodes(sources, max(0, depth - draw(st.integers(1, 2)))))

    return (_SHAPES | _NAMED)[shape](draw, child)


Child = Callable[[], Node]


def _select(draw: Draw, child: Child) -> Node:
    node = child()
    return Select(node, draw(predicates({Source.INPUT: node.schema}, node.unit)))


def _project(draw: Draw, child: Child) -> Node:
    node = child()
    inputs = {Source.INPUT: node.schema}
    names = draw(st.sampled_from([("p",), ("p", "q"), ("q", "k", "p")]))
    items = []
    for name in names:
        of = draw(st.sampled_from(LAW_TYPES))
        computed = not draw(st.integers(0, 4))
        item = draw(expressions(of, inputs, 2)) if computed else leaf(draw, of, inputs)
        items.append((name, item))
    return Project(node, tuple(items))


def conform(draw: Draw, node: Node, schema: Schema) -> Node:
    """The node with exactly the attributes of a schema, as union and iteration need them."""
    if node.schema == schema:
        return node
    inputs = {Source.INPUT: node.schema}
    return Project(node, tuple((a.name, leaf(draw, a.type, inputs)) for a in schema))


def _union(draw: Draw, child: Child) -> Node:
    first = child()
    return Union(first, conform(draw, child(), first.schema))


def _bounded(draw: Draw, predicate: Expression, unit: str) -> tuple[Expression, int | None]:
    """Sometimes with a conjunct on DUR, and then, sometimes, with the horizon that it allows."""
    if draw(st.integers(0, 2)):
        return predicate, None
    test = duration_test(draw, unit, ("le", "lt", "eq"))
    bound = test.args[1]
    assert isinstance(bound, Literal)
    horizon = bound.value if draw(st.booleans()) else None
    return conjunction((*conjuncts(predicate), test)), horizon


def _pairs(first: Schema, second: Schema, source: Source) -> list[tuple[Ref, Ref]]:
    """Attributes of an instance and of an event that can be equal."""
    return [
        (Ref(source, a.name, a.type), Ref(Source.SECOND, b.name, b.type))
        for a in first
        for b in second
        if a.type == b.type
    ]


Joining = Callable[[Draw, Schema, Schema, Source], tuple[Expression, ...]]


def _join(draw: Draw, first: Schema, second: Schema, source: Source) -> tuple[Expression, ...]:
    """Often an equality of an instance's attribute with the event's: what is hashed."""
    pairs = _pairs(first, second, source)
    if not pairs or not draw(st.integers(0, 2)):
        return ()
    left, right = draw(st.sampled_from(pairs))
    if draw(st.booleans()):
        left, right = right, left
    function = draw(st.sampled_from(["eq", "eq", "eq", "lt", "eq_null_safe"]))
    return (call(function, left, right),)


def _either(draw: Draw, first: Schema, second: Schema, source: Source) -> tuple[Expression, ...]:
    """A disjunction whose clauses have an equality each, with what is bound or with a constant, but
    for some; at times beside an equality that all have."""
    pairs = _pairs(first, second, source)

    def equality() -> Expression:
        if pairs and draw(st.integers(0, 2)):
            sides: tuple[Expression, Expression] = draw(st.sampled_from(pairs))
        else:
            a = draw(st.sampled_from(list(second)))
            sides = (Ref(Source.SECOND, a.name, a.type), Literal(draw(present(a.type)), a.type))
        return call("eq", *(sides[::-1] if draw(st.booleans()) else sides))

    def clause() -> Expression:
        kind = draw(st.sampled_from(["one", "one", "one", "two", "free"]))
        if kind == "free":
            return draw(predicates({source: first, Source.SECOND: second}, TICKS))
        return equality() if kind == "one" else call("and", equality(), equality())

    whole = clause()
    for _ in range(draw(st.integers(1, 2))):
        whole = call("or", whole, clause())
    return (whole,) if draw(st.integers(0, 3)) else (equality(), whole)


def _sequence(draw: Draw, child: Child, join: Joining = _join) -> Node:
    first, second = child(), child()
    sources = {Source.FIRST: first.schema, Source.SECOND: second.schema}
    joins = join(draw, first.schema, second.schema, Source.FIRST)
    rest = conjuncts(draw(predicates(sources, first.unit))) if draw(st.booleans()) else ()
    predicate, horizon = _bounded(draw, conjunction((*joins, *rest)), first.unit)
    names = tuple(f"{a.name}_{i}" for i, a in enumerate((*first.schema, *second.schema)))
    node = SequenceNode(first, second, predicate, names, horizon)
    return _bound_from_above(draw, node)


def _bound_from_above(draw: Draw, node: SequenceNode | Iterate) -> Node:
    """A selection above that bounds the duration sets the horizon of what is below it."""
    if node.horizon is not None or draw(st.integers(0, 3)):
        return node
    test = duration_test(draw, node.unit, ("le", "eq"))
    bound = test.args[1]
    assert isinstance(bound, Literal)
    fields = {f: getattr(node, f) for f in node.__dataclass_fields__}
    return Select(type(node)(**{**fields, "horizon": bound.value}), test)


def _iterate(draw: Draw, child: Child, join: Joining = _join) -> Node:
    base = child()
    second = conform(draw, base, _plain(base.schema))
    gathered = draw(st.sampled_from([(), ("total",), ("total", "seen")]))
    start = Schema.of(
        [(a.name, a.type) for a in second.schema]
        + [(name, draw(st.sampled_from([BIGINT, DOUBLE]))) for name in gathered]
    )
    first = conform(draw, child(), start)
    last = Schema(start.attributes)
    sources = {Source.FIRST: start, Source.SECOND: second.schema, Source.LAST: last}
    joins = join(draw, last, second.schema, draw(st.sampled_from([Source.LAST, Source.FIRST])))
    choose = conjuncts(draw(predicates(sources, first.unit))) if not draw(st.integers(0, 3)) else ()
    predicate, horizon = _bounded(draw, conjunction((*joins, *choose)), first.unit)
    rebind = _rebind(draw, sources, first.unit)
    aggregates = [(n, _gather(draw, sources, start.type_of(n), n)) for n in gathered]
    if draw(st.booleans()):
        numeric = [a for a in second.schema if is_numeric(a.type)]
        if numeric:  # one that replaces the value of the event itself
            a = draw(st.sampled_from(numeric))
            aggregates.append((a.name, _gather(draw, sources, a.type, a.name)))
    if not draw(st.integers(0, 3)):  # one that starts as NULL and cannot refer to itself
        seen = draw(expressions(BIGINT, {Source.SECOND: second.schema}, 1, vector=False))
        aggregates.append(("fresh", seen))
    node = Iterate(first, second, predicate, rebind, tuple(aggregates), horizon)
    return _bound_from_above(draw, node)


def _plain(schema: Schema) -> Schema:
    """At most three attributes with names that an iteration can add `_1` to."""
    return Schema.of((name, a.type) for name, a in zip("abc", schema, strict=False))


def _rebind(draw: Draw, sources: dict[Source, Schema], unit: str) -> Expression:
    kind = draw(st.sampled_from(["true", "monotonic", "monotonic", "predicate"]))
    numeric = [a for a in sources[Source.SECOND] if is_numeric(a.type)]
    if kind == "monotonic" and numeric:
        a = draw(st.sampled_from(numeric))
        function = draw(st.sampled_from(["gt", "le"]))
        last, new = (Ref(s, a.name, a.type) for s in (Source.LAST, Source.SECOND))
        return call(function, new, last)
    if kind == "predicate":
        return draw(predicates(sources, unit))
    return Literal(True, BOOLEAN)


def _gather(draw: Draw, sources: dict[Source, Schema], type_: pa.DataType, name: str) -> Expression:
    """A running aggregate: a sum, a count, an extreme, or anything."""
    last = Ref(Source.LAST, name, type_)
    kind = draw(st.sampled_from(["sum", "count", "greatest", "free"]))
    if kind == "free":
        return draw(expressions(type_, sources, 1, vector=False))
    known = references({Source.SECOND: sources[Source.SECOND]}, type_)
    one = Literal(1 if type_ == BIGINT else 1.0, type_)
    operand = draw(st.sampled_from(known)) if known and kind != "count" else one
    return call("greatest" if kind == "greatest" else "add", last, operand, type_=type_)


def _same_time(draw: Draw, child: Child) -> Node:
    node = child()
    inputs = {Source.INPUT: node.schema}
    found = [Aggregate("events", "count", (), False, BIGINT)]
    for i in range(draw(st.integers(0, 3))):
        found.append(_aggregate(draw, inputs, f"g{i}"))
    return SameTime(node, tuple(found))


def _shared_same_time(draw: Draw, child: Child) -> Node:
    """One of few lists of aggregates over events that a comparison with a constant chooses: queries
    that are drawn together have the same m-op and see the same events, some of them, or others."""
    node = child()
    name = draw(st.sampled_from(node.schema.names[:2]))
    of = node.schema.type_of(name)
    if draw(st.integers(0, 3)):
        test = call("eq", Ref(Source.INPUT, name, of), Literal(draw(present(of)), of))
        node = Select(node, test)
    count = Aggregate("events", "count", (), False, BIGINT)
    column = Ref(Source.INPUT, name, of)
    extreme = Aggregate(
        "of", "max_by", (Ref(Source.INPUT, *_last(node)), column), False, _last(node)[1]
    )
    return SameTime(node, draw(st.sampled_from([(count,), (count, extreme)])))


def _last(node: Node) -> tuple[str, pa.DataType]:
    attribute = node.schema.attributes[-1]
    return attribute.name, attribute.type


def _aggregate(draw: Draw, inputs: dict[Source, Schema], name: str) -> Aggregate:
    function = draw(st.sampled_from(["count", "sum", "avg", "min", "max", "max_by", "min_by"]))
    distinct = function in ("count", "sum", "avg") and draw(st.booleans())
    of = draw(st.sampled_from(LAW_TYPES))
    if function in ("sum", "avg"):
        of = draw(st.sampled_from([BIGINT, DOUBLE])) if function == "sum" else DOUBLE
    value = leaf(draw, of, inputs)
    if function == "count":
        return Aggregate(name, function, (value,), distinct, BIGINT)
    if function in ("max_by", "min_by"):
        by = leaf(draw, draw(st.sampled_from([DOUBLE, BIGINT, STRING])), inputs)
        return Aggregate(name, function, (value, by), False, of)
    return Aggregate(name, function, (value,), distinct, of)


_SHAPES: dict[str, Callable[[Draw, Child], Node]] = {
    "select": _select,
    "project": _project,
    "union": _union,
    "sequence": _sequence,
    "sequence too": _sequence,
    "iterate": _iterate,
    "iterate too": _iterate,
    "same time": _same_time,
    "relation": to_stream,
    "relation too": to_stream,
    "window join": window_join,
}

#: Drawn only where they are asked for. Detections know hashes, which a lane of the tests makes collide.
_NAMED: dict[str, Callable[[Draw, Child], Node]] = {
    "detection": detection,
    "shared same time": _shared_same_time,
    "attribute join": attribute_join,
    "either": lambda draw, child: _sequence(draw, child, _either),
    "either again": lambda draw, child: _iterate(draw, child, _either),
}


# ---- query sets ------------------------------------------------------------------------------------


@st.composite
def workloads(
    draw: Draw,
    max_queries: int = 3,
    depth: int = 3,
    lateness: int = 0,
    shapes: tuple[str, ...] = (),
) -> Workload:
    """Queries that read the streams and what earlier queries publish."""
    unit = draw(st.sampled_from([TICKS, MICROSECONDS]))
    names = draw(st.sampled_from([("S",), ("S", "T"), ("S", "T", "U")]))
    streams = {name: stream_named(name, unit, lateness) for name in names}
    sources = [Read(name, SCHEMAS[name], unit) for name in names]
    queries = []
    for i in range(draw(st.integers(1, max_queries))):
        outputs = []
        for j in range(draw(st.sampled_from([1, 1, 1, 2]))):
            node = draw(nodes(sources, draw(st.integers(1, depth)), shapes))
            name = f"P{i}_{j}"
            outputs.append(Output(node, name))
            sources.append(Read(name, node.schema, unit))
        if draw(st.booleans()):
            outputs[-1] = Output(outputs[-1].node, None)
            sources.pop()
        queries.append(Query(f"q{i}", "", tuple(outputs)))
    smallest = draw(st.sampled_from([0, 6, 10]))
    data = {name: draw(events(SCHEMAS[name], smallest)) for name in names}
    return Workload(streams, data, tuple(queries))


# ---- queries that have an operator in common ---------------------------------------------------------


def _view(draw: Draw, base: Node, sources: Sequence[Read]) -> Node:
    """What a query makes of an operator that others have too: other attributes, under other names,
    perhaps chosen and computed, and perhaps with one step more."""
    node = base
    for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
        node = Select(node, _asked(draw, node))
    node = _picked(draw, node)
    if not draw(st.integers(0, 2)):
        other = draw(st.sampled_from(list(sources)))
        node = _sequence(draw, lambda: draw(st.sampled_from([node, node, other])))
    return _picked(draw, node) if draw(st.booleans()) else node


def _asked(draw: Draw, node: Node) -> Expression:
    """Mostly a test of one attribute: few shapes, so that there is little to compile."""
    kind = draw(st.sampled_from(["test", "test", "test", "duration", "predicate"]))
    if kind == "duration":
        return duration_test(draw, node.unit, ("le", "lt"))
    if kind == "predicate":
        return draw(predicates({Source.INPUT: node.schema}, node.unit))
    a = draw(st.sampled_from(list(node.schema)))
    function = draw(st.sampled_from(["eq", "ne", "eq_null_safe"]))
    return call(function, Ref(Source.INPUT, a.name, a.type), Literal(draw(present(a.type)), a.type))


def _picked(draw: Draw, node: Node) -> Node:
    """Some attributes, in any order, some under other names, at times one that is computed."""
    names = draw(st.lists(st.sampled_from(node.schema.names), min_size=1, max_size=3))
    inputs = {Source.INPUT: node.schema}
    items: list[tuple[str, Expression]] = []
    for number, name in enumerate(names):
        shown = draw(st.sampled_from([f"z{number}", f"y{number}", name]))
        if all(shown != taken for taken, _ in items):
            items.append((shown, Ref(Source.INPUT, name, node.schema.type_of(name))))
    if not draw(st.integers(0, 3)):
        of = draw(st.sampled_from(LAW_TYPES))
        shown = next(n for n in ("more", "most", "yet") if all(n != taken for taken, _ in items))
        items.append((shown, draw(expressions(of, inputs, 1))))
    return Project(node, tuple(items))


@st.composite
def views(draw: Draw, max_queries: int = 5, lateness: int = 0) -> Workload:
    """Queries that differ in what they show, test and do of one pattern or two."""
    unit = draw(st.sampled_from([TICKS, MICROSECONDS]))
    names = draw(st.sampled_from([("S",), ("S", "T"), ("S", "U")]))
    streams = {name: stream_named(name, unit, lateness) for name in names}
    sources = [Read(name, SCHEMAS[name], unit) for name in names]
    kinds = draw(st.sampled_from([("sequence",), ("iterate",)]))
    bases = [draw(nodes(sources, 1, kinds)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
    queries = []
    for i in range(draw(st.integers(2, max_queries))):
        node = _view(draw, draw(st.sampled_from(bases)), sources)
        publish = f"P{i}" if not draw(st.integers(0, 3)) else None
        queries.append(Query(f"q{i}", "", (Output(node, publish),)))
        if publish is not None:
            bases.append(Read(publish, node.schema, unit))
    data = {name: draw(events(SCHEMAS[name], 6)) for name in names}
    return Workload(streams, data, tuple(queries))


#: Queries that are streams of relations, and patterns over them.
RELATIONAL = ("relation", "relation too", "sequence", "select")

#: Joins of windows by time, and patterns over them.
WINDOW_JOINS = ("window join", "window join", "window join", "sequence", "select")

#: Joins by different attributes of the same streams, and patterns over them.
ATTRIBUTE_JOINS = ("attribute join", "attribute join", "attribute join", "sequence", "select")

#: Detections, and patterns over them.
DETECTIONS = ("detection", "detection", "detection", "sequence", "select")


#: Patterns that are found by the clauses of a disjunction.
DISJUNCTIONS = ("either", "either", "either again")


#: Aggregations of one instant that share what they can, and patterns over them.
SAME_TIMES = ("shared same time", "shared same time", "shared same time", "sequence", "relation")


def describe(workload: Workload) -> str:
    return "\n".join(f"{q.id}: {o}" for q in workload.queries for o in q.outputs)
