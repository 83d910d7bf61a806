"""DETECT as a stage: which channels it reads, and what is data of the member.

What WHERE asks of one input alone sinks onto its stream, and so does that its join attributes are
not NULL: such events take part in no result. Only a window by rows has to see all events; there a
column says which of them count. Channels that are read for several inputs are read once, and in an
order of their own, so that detections meet however they list their inputs.
"""

from __future__ import annotations

from typing import NamedTuple

from braid.algebra.expressions import (
    Call,
    Expression,
    Literal,
    Parameter,
    Ref,
    Source,
    conjunction,
    refs,
)
from braid.algebra.join_graphs import Graph, graph_of
from braid.algebra.joins import parts_of, plain_ref
from braid.algebra.nodes import Select
from braid.algebra.relations import Detection, ToStream, Window, WindowKind
from braid.algebra.schema import Attribute
from braid.algebra.types import BOOLEAN
from braid.operators.detect import spec as plan
from braid.operators.project.planning import projected
from braid.plan.computed_columns import PREFIX
from braid.plan.planning import Items, Planning, Request
from braid.plan.predicate_pushdown import rearrange
from braid.plan.predicates import Lifter
from braid.plan.sharing import DETECT, Channel, Operator, signature

#: The column that says whether an event counts.
KEPT = "__kept"


class _Input(NamedTuple):
    """An input of the detection: its channel, what is said of that, the column of each key."""

    channel: Channel
    kept: str | None
    order: tuple[str, ...]
    columns: dict[Expression, str]


def detected(walk: Planning, node: ToStream, request: Request) -> Channel | None:
    """The form that ToStream has over a detection."""
    detection = node.relation
    if not isinstance(detection, Detection):
        return None
    graph = graph_of(detection.join)
    inputs = [_read(walk, detection, graph, number) for number in range(graph.count)]
    chosen: list[_Input] = []
    for own in sorted(inputs, key=lambda own: (own.channel.signature, own.order)):
        if all(own.channel != other.channel or own.order != other.order for other in chosen):
            chosen.append(own)
    read = [(own.channel, own.order) for own in chosen]
    places = [read.index((own.channel, own.order)) for own in inputs]
    channels = tuple(own.channel for own in chosen)
    sources = tuple(
        plan.Source(own.channel.shape, own.kept, own.order, own.channel.membered) for own in chosen
    )
    partition = tuple(Attribute(part.name, part.type) for part in detection.partition)
    spec = plan.DetectionSpec(sources, detection.unit, walk.birth, partition)
    recipe = _recipe(detection, graph, inputs, tuple(places))
    read_as = tuple((own.kept, own.order) for own in chosen)
    definition = (read_as, detection.unit, walk.birth, *partition)
    operator = Operator(DETECT, channels, definition, (recipe,))
    return walk.add(operator, walk.sharing(operator), spec, recipe, membered=True)


def _recipe(
    detection: Detection, graph: Graph, inputs: list[_Input], places: tuple[int, ...]
) -> plan.DetectionRecipe:
    windows = [window for window in detection.join.inputs if isinstance(window, Window)]
    sizes: list[Literal | Parameter | int] = []
    for window in windows:
        assert window.size is None or isinstance(window.size, Literal | Parameter)
        sizes.append(0 if window.size is None else window.size)
    edges = []
    for (first, second), sides in zip(graph.edges, graph.sides, strict=True):
        left = tuple(inputs[first].columns[a] for a, _ in sides)
        right = tuple(inputs[second].columns[b] for _, b in sides)
        edges.append(plan.Edge(first, left, second, right))
    buckets = detection.settings.buckets
    merged = tuple(
        (number, position)
        for number, path in enumerate(graph.paths)
        for position, input_ in enumerate(path.inputs)
        if len(around := path.around(position)) == 2
        and graph.same(input_, around)
        and len({buckets[edge] for edge in around}) == 1
    )
    kinds = tuple(window.kind.value for window in windows)
    by = tuple(
        tuple(part.columns[number] for part in detection.partition)
        for number in range(len(windows))
        if detection.partition
    )
    return plan.DetectionRecipe(
        places, kinds, tuple(sizes), tuple(edges), graph.paths, merged, detection.settings, by
    )


def _read(walk: Planning, detection: Detection, graph: Graph, number: int) -> _Input:
    """The events of an input with the columns that it is compared by."""
    window = detection.join.inputs[number]
    assert isinstance(window, Window)
    keys = tuple(dict.fromkeys(part for _, key in graph.keys(number) for part in key))
    asked = (*parts_of(detection.join).selections[number], *map(_known, keys))
    if window.kind is WindowKind.ROWS:
        return _read_all(walk, window, keys, asked)
    columns, items = _columns(keys)
    names = _names(*(e for _, e in items))
    node = rearrange(Select(window.input, conjunction(asked)))
    lifter = Lifter()
    lifted = tuple((name, walk.lifted(e, lifter)) for name, e in items)
    port = signature((DETECT, lifted))
    source = walk.channel(node, names, port, ())
    channel = projected(walk, source, lifted, tuple(lifter.constants))
    return _Input(channel, None, (), columns)


def _read_all(
    walk: Planning, window: Window, keys: tuple[Expression, ...], asked: tuple[Expression, ...]
) -> _Input:
    """All events, which a window by rows has to count; of one instant, the last ones are those with
    the greatest values, so all values are there."""
    schema = window.input.schema
    values = tuple(n for n in schema.names if not n.startswith(PREFIX))
    order = (*((window.order,) if window.order is not None else ()), *values)
    columns, computed = _columns(keys)
    plain = tuple((n, Ref(Source.INPUT, n, schema.type_of(n))) for n in values)
    items = dict((*plain, *computed, (KEPT, conjunction(asked))))
    lifter = Lifter()
    lifted = tuple((name, walk.lifted(e, lifter)) for name, e in items.items())
    port = signature((DETECT, lifted))
    source = walk.channel(window.input, _names(*items.values()), port, ())
    channel = projected(walk, source, lifted, tuple(lifter.constants))
    return _Input(channel, KEPT, order, columns)


def _columns(keys: tuple[Expression, ...]) -> tuple[dict[Expression, str], Items]:
    """The column of each key, and what is computed for them: attributes as they are, the rest."""
    columns: dict[Expression, str] = {}
    items: dict[str, Expression] = {}
    for key in keys:
        plain = plain_ref(key)
        name = f"__k{len(items)}" if plain is None else plain.name
        columns[key] = name
        items[name] = key if plain is None else plain
    return columns, tuple(sorted(items.items()))


def _known(key: Expression) -> Expression:
    return Call("not", (Call("is_null", (key,), BOOLEAN),), BOOLEAN)


def _names(*expressions: Expression) -> frozenset[str]:
    return frozenset(ref.name for e in expressions for ref in refs(e))
