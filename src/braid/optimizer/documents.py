"""Queries over documents -> stages: one m-op for all of them over the same streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.algebra.documents import Documents
from braid.algebra.expressions import Ref, Source
from braid.algebra.nodes import Read
from braid.algebra.types import STRING
from braid.optimizer.operators import DOCUMENTS, Channel, Operator, signature
from braid.plan.document_routes import is_value_route
from braid.plan.documents import (
    FIRST_DOCUMENT,
    SECOND_DOCUMENT,
    DocumentsRecipe,
    DocumentsSpec,
    width_of,
)
from braid.plan.keys import split_channel
from braid.plan.routes import Stage

if TYPE_CHECKING:
    from braid.optimizer.driver import _Walk


def documents(walk: _Walk, node: Documents, wanted: frozenset[str]) -> Channel:
    """The channel of a query over documents, with the columns that are wanted."""
    frozen, walk.frozen = walk.frozen, True  # an event of sharable streams is read by its stream
    sources = [walk.channel(s, s.schema.names, "documents", ()) for s in node.sources]
    walk.frozen = frozen
    inputs = tuple(dict.fromkeys(sources))
    columns = {
        source: (column, "id" if "id" in source.shape.schema.names else None)
        for source, column in zip(sources, node.columns, strict=True)
    }
    width = width_of(node)
    operator = Operator(DOCUMENTS, inputs, tuple(columns[i] for i in inputs), (node,))
    sharing = walk.sharing(operator)
    walk.needs_one(sharing, operator)
    views = walk.has_rule("xml_views")
    spec = DocumentsSpec(
        tuple(i.shape for i in inputs),
        tuple(columns[i] for i in inputs),
        views,
        _is_divided(node),
        width,
    )
    mop = signature((sharing.key, views))
    recipe = DocumentsRecipe(node, tuple(inputs.index(s) for s in sources), wanted, width)
    names = tuple(i.signature for i in inputs)
    none = tuple(None for _ in inputs)
    walk.stages.append(Stage(mop, spec, names, f"{mop}/{width}", recipe, none, sharing.rules))
    channel = Channel(f"{mop}/{width}", spec.output, len(walk.stages) - 1)
    items = tuple(
        (name, Ref(Source.INPUT, column, STRING))
        for name, column in _columns(node)
        if name in wanted
    )
    return walk.projected(channel, items, ())


def _is_divided(node: Documents) -> bool:
    """Whether documents that are joined come by channels of their values."""
    return bool(node.kind) and any(
        isinstance(source, Read) and is_value_route(split_channel(source.stream)[1])
        for source in node.sources
    )


def _columns(node: Documents) -> list[tuple[str, str]]:
    """The names of a query's columns, and where the m-op puts them."""
    places = (FIRST_DOCUMENT, SECOND_DOCUMENT)
    found = [(node.document(n), places[n]) for n in range(len(node.blocks))]
    names = [name for block in node.blocks for name, _ in block.variables]
    found += [(name, f"v{number}") for number, name in enumerate(names)]
    return [*found, ("result", "result")]
