"""Queries over documents -> stages: one m-op for all of them over the same streams."""

from __future__ import annotations

from braid.algebra.documents import Documents
from braid.algebra.expressions import Ref, Source
from braid.algebra.nodes import Read
from braid.algebra.types import STRING
from braid.distribution.document_routes import is_value_route
from braid.distribution.keys import split_channel
from braid.operators.documents.spec import (
    FIRST_DOCUMENT,
    SECOND_DOCUMENT,
    DocumentsRecipe,
    DocumentsSpec,
    final_values,
    port_of,
    width_of,
)
from braid.operators.documents.stages import Carried, carried
from braid.operators.project.planning import projected
from braid.plan.planning import Planning, Request
from braid.plan.routes import Stage
from braid.plan.sharing import DOCUMENTS, Channel, Operator, signature


def documents(walk: Planning, node: Documents, request: Request) -> Channel:
    """The channel of a query over documents, with the columns that are wanted."""
    wanted = request.needed
    before: tuple[Channel, tuple[Carried, ...]] | None = None
    for count in range(2, len(node.blocks)):
        handed = carried(node, count, wanted)
        channel = _joined(walk, node.prefix(count), before, frozenset(), handed)
        before = channel, handed
    channel = _joined(walk, node, before, wanted, None)
    items = tuple(
        (name, Ref(Source.INPUT, column, STRING))
        for name, column in _columns(node)
        if name in wanted
    )
    return projected(walk, channel, items, ())


def _is_divided(query: Documents) -> bool:
    """Whether documents that are joined come by channels of their values."""
    return len(query.blocks) > 1 and any(
        isinstance(source, Read) and is_value_route(split_channel(source.stream)[1])
        for source in query.sources
    )


def _channel(query: Documents, number: int) -> str:
    """The channel that the documents of a block are read from."""
    source = query.sources[number]
    return source.stream if isinstance(source, Read) else query.streams[number]


def _joined(
    walk: Planning,
    query: Documents,
    before: tuple[Channel, tuple[Carried, ...]] | None,
    wanted: frozenset[str],
    handed: tuple[Carried, ...] | None,
) -> Channel:
    """The last join of a query; `before`: the rows of the joins before it, and what they hold."""
    own = range(len(query.blocks)) if before is None else [len(query.blocks) - 1]
    read = [query.sources[n] for n in own]
    with walk.without_members():  # an event of sharable streams is read by its stream
        sources = [walk.channel(s, s.schema.names, "documents", ()) for s in read]
    columns: dict[Channel, tuple[str, str | None] | None] = {
        source: (query.columns[n], "id" if "id" in source.shape.schema.names else None)
        for source, n in zip(sources, own, strict=True)
    }
    known = {source: _channel(query, n) for source, n in zip(sources, own, strict=True)}
    if before is not None:
        sources = [before[0], *sources]
        columns[before[0]] = None
    inputs = tuple(dict.fromkeys(sources))
    width = width_of(len(final_values(query) if handed is None else handed))
    places = tuple(columns[i] for i in inputs)
    operator = Operator(DOCUMENTS, inputs, places, (query,))
    sharing = walk.sharing(operator)
    walk.needs_one(sharing, operator)
    views, in_order = walk.has_rule("xml_views"), walk.has_rule("xml_order")
    partial = handed is not None
    shapes = tuple(i.shape for i in inputs)
    known_as = tuple(known.get(i, "") for i in inputs)
    divided = _is_divided(query)
    spec = DocumentsSpec(shapes, places, views, in_order, divided, known_as, width, partial)
    mop = signature((sharing.key, views, in_order))
    recipe = DocumentsRecipe(
        query,
        tuple(inputs.index(s) for s in sources),
        wanted,
        width,
        None if before is None else before[1],
        handed,
    )
    names = tuple(i.signature for i in inputs)
    origins = tuple(i.stage if columns[i] is None else None for i in inputs)
    output = f"{mop}/{port_of(width, partial)}"
    stage = Stage(mop, spec, names, output, recipe, origins, sharing.rules)
    return Channel(output, spec.output, walk.add_stage(stage))


def _columns(node: Documents) -> list[tuple[str, str]]:
    """The names of a query's columns, and where the m-op puts them."""
    places = (FIRST_DOCUMENT, SECOND_DOCUMENT)
    found = [(node.document(n), place) for n, place in enumerate(places[: len(node.blocks)])]
    found += [(name, f"v{number}") for number, (name, _) in enumerate(final_values(node))]
    return [*found, ("result", "result")]
