"""Templates of queries over documents: names of elements, constants and windows are data.

An outline would keep the names of elements. So these templates come from the bound query. Queries
whose patterns have the same shape have one template.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from braid.algebra.documents import Documents
from braid.algebra.expressions import Expression, Literal, Parameter
from braid.algebra.nodes import (
    Extension,
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Sequence,
    Union,
    walk_nodes,
)
from braid.algebra.relations import ToStream
from braid.algebra.templates import Output, Template

#: The most templates in the cache.
_MOST = 10_000


def has_documents(outputs: tuple[Output, ...]) -> bool:
    return any(isinstance(node, Documents) for o in outputs for node in walk_nodes(o.node))


class DocumentTemplates:
    """The known templates, by their outputs without constants."""

    def __init__(self) -> None:
        self._known: dict[tuple[Output, ...], Template] = {}

    def of(
        self, outputs: tuple[Output, ...], views: tuple[str, ...]
    ) -> tuple[Template, tuple[Any, ...]]:
        """The template of a query, and the query's own constants."""
        values: list[Any] = []
        types: list[Any] = []

        def lift(part: Expression) -> Expression:
            if not isinstance(part, Literal):
                return part
            values.append(part.value)
            types.append(part.type)
            return Parameter(len(values) - 1, part.type)

        lifted = tuple(Output(_map_documents(o.node, lift), o.publish) for o in outputs)
        template = self._known.get(lifted)
        if template is None or template.views != views:
            if len(self._known) >= _MOST:
                self._known.clear()
            template = self._known[lifted] = Template(lifted, tuple(types), views=views)
        return template, tuple(values)


def _map_documents(node: Node, change: Callable[[Expression], Expression]) -> Node:
    """The same operators, with other constants only in queries over documents."""
    match node:
        case Read():
            return node
        case Documents():
            return node.changed(change)
        case Select() | Project() | SameTime():
            return replace(node, input=_map_documents(node.input, change))
        case Union() | Sequence() | Iterate():
            first = _map_documents(node.first, change)
            return replace(node, first=first, second=_map_documents(node.second, change))
        case ToStream() | Extension():
            return node.over(tuple(_map_documents(input_, change) for input_ in node.inputs))
